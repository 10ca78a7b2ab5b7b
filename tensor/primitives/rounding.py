"""Rows that round: constant between their steps, so their derivative is 0."""

from __future__ import annotations

from tensor.primitives.elementwise import numpy_oracle, one_input, twin_of
from tensor.primitives.primitive import NUMBERS, REALS
from tensor.primitives.rules import elementwise


def _rounding(name: str, numpy_name: str, dtypes: tuple[str, ...], summary: str) -> None:
    elementwise(
        name,
        arity=1,
        dtypes=dtypes,
        summary=summary,
        partials=lambda node: (None,),
        twin=twin_of(name),
        samples=one_input,
        oracle=numpy_oracle(numpy_name),
    )


_rounding("floor", "floor", REALS, "Rounded down.")
_rounding("ceil", "ceil", REALS, "Rounded up.")
_rounding("trunc", "trunc", REALS, "Rounded towards zero.")
_rounding(
    "round", "rint", NUMBERS, "Rounded to the nearest integer, to the even one of two; parts of a complex number."
)
