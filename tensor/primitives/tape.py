"""Rows that exist for the tape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.primitives.primitive import ALL, Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import no_cost

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

Tensor = Any


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((), (3,), (2, 3), (0, 2)):
        yield Sample(rng.normal(size=shape))


def _same(inputs: tuple[Tensor, ...], dims: tuple[int | None, ...], params: Any) -> tuple[Tensor, int | None]:
    return _kernels.apply(ALIAS, inputs), dims[0]


ALIAS = register(
    Primitive(
        "alias",
        category="structural",
        summary="The same elements under another name: where a gradient function takes hold of its argument.",
        dtypes=ALL,
        shape=lambda specs, params: specs[0],
        view=lambda inputs, params: _kernels.alias(inputs[0]),
        linear=True,
        vjp=lambda g, node: (g,),
        batch=_same,
        cost=no_cost,
        oracle=lambda arrays, params: arrays[0],
        samples=_samples,
    )
)
