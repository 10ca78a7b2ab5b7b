"""Rows of comparisons, predicates, logic and bits: no gradient passes through them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensor.primitives.elementwise import ORDERED, numpy_oracle, one_input, twin_of
from tensor.primitives.primitive import ALL, FLOATS, INTEGERS, NUMBERS, Sample
from tensor.primitives.rules import elementwise, negative_shift

if TYPE_CHECKING:
    import numpy as np

BITS = ("bool", *INTEGERS)


def _truth(dtype: Any) -> str:
    return "bool"


def _bits(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.integers(0, 9, (3, 5)).astype(float), rng.integers(0, 9, 5).astype(float))


def _words(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.integers(0, 9, (3, 5)).astype(float))


def _truths(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.random((3, 5)) < 0.5, rng.random(5) < 0.5)


def _compared(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.integers(0, 3, (3, 5)).astype(float), rng.integers(0, 3, 5).astype(float))


def _comparison(name: str, numpy_name: str, dtypes: tuple[str, ...], summary: str) -> None:
    elementwise(
        name,
        arity=2,
        dtypes=dtypes,
        summary=summary,
        category="comparison",
        result=_truth,
        twin=twin_of(name),
        samples=_compared,
        oracle=numpy_oracle(numpy_name),
    )


def _predicate(name: str, dtypes: tuple[str, ...], summary: str) -> None:
    elementwise(
        name,
        arity=1,
        dtypes=dtypes,
        summary=summary,
        category="comparison",
        result=_truth,
        twin=twin_of(name),
        samples=one_input,
        oracle=numpy_oracle(name),
    )


def _logical(name: str, summary: str) -> None:
    elementwise(
        name,
        arity=2,
        dtypes=("bool",),
        summary=summary,
        category="logical",
        twin=twin_of(name),
        samples=_truths,
        oracle=numpy_oracle(name),
    )


def _bitwise(name: str, dtypes: tuple[str, ...], summary: str, *, shifts: bool = False) -> None:
    elementwise(
        name,
        arity=2,
        dtypes=dtypes,
        summary=summary,
        category="bitwise",
        check=negative_shift(name) if shifts else None,
        twin=twin_of(name),
        samples=_bits,
        oracle=None if shifts else numpy_oracle(name),
    )


_comparison("eq", "equal", ALL, "Whether the two are equal; NaN equals nothing.")
_comparison("ne", "not_equal", ALL, "Whether the two differ; NaN differs from everything.")
_comparison("lt", "less", ORDERED, "Whether the first is smaller; false with NaN.")
_comparison("le", "less_equal", ORDERED, "Whether the first is smaller or equal; false with NaN.")
_comparison("gt", "greater", ORDERED, "Whether the first is larger; false with NaN.")
_comparison("ge", "greater_equal", ORDERED, "Whether the first is larger or equal; false with NaN.")

_predicate("isnan", NUMBERS, "Whether it is NaN; a complex number if a part is.")
_predicate("isinf", NUMBERS, "Whether it is infinite; a complex number if a part is.")
_predicate("isfinite", NUMBERS, "Whether it is neither NaN nor infinite; a complex number if no part is.")
_predicate("signbit", FLOATS, "Whether the sign is minus: of −0 and of a NaN with that bit too.")

_logical("logical_and", "Whether both are true.")
_logical("logical_or", "Whether one or both are true.")
_logical("logical_xor", "Whether exactly one is true.")
elementwise(
    "logical_not",
    arity=1,
    dtypes=("bool",),
    summary="Whether it is false.",
    category="logical",
    twin=twin_of("logical_not"),
    samples=lambda rng: [Sample(rng.random((3, 5)) < 0.5)],
    oracle=numpy_oracle("logical_not"),
)

_bitwise("bitwise_and", BITS, "The bits that both have.")
_bitwise("bitwise_or", BITS, "The bits that one or both have.")
_bitwise("bitwise_xor", BITS, "The bits that exactly one has.")
_bitwise(
    "bitwise_left_shift",
    INTEGERS,
    "Bits moved up; 0 for a shift by the width or more, or by a negative number.",
    shifts=True,
)
_bitwise(
    "bitwise_right_shift",
    INTEGERS,
    "Bits moved down, the sign filled in; all of them for the width or more, or below 0.",
    shifts=True,
)
elementwise(
    "bitwise_not",
    arity=1,
    dtypes=BITS,
    summary="Every bit turned.",
    category="bitwise",
    twin=twin_of("bitwise_not"),
    samples=_words,
    oracle=numpy_oracle("invert"),
)
elementwise(
    "popcount",
    arity=1,
    dtypes=INTEGERS,
    summary="The number of ones among the bits, of a negative number in two's complement.",
    category="bitwise",
    twin=twin_of("popcount"),
    samples=_words,
    oracle=numpy_oracle("bitwise_count"),
)
