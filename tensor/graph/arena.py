"""Tensors of any type over bytes that lie there already: the arena of a graph."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.graph.layout import c_strides
from tensor.primitives.spec import Spec, item_bytes

__all__ = ["Arena", "tensor_over"]

Tensor = Any


def tensor_over(memory: Any, whole: dict[str, Tensor], place: int, spec: Spec, strides: tuple[int, ...]) -> Tensor:
    """A tensor over bytes of `memory`, a buffer of a multiple of 64 of them, from element `place` of its type on.

    `whole` keeps what covers all of the memory, one tensor a type.
    """
    dtype = spec.dtype.name
    over: Any = whole.get(dtype)
    if over is None:
        bytes_of = memoryview(memory).cast("B")
        over = whole[dtype] = _kernels.over_bytes(bytes_of, dtype, (bytes_of.nbytes // item_bytes(dtype),))
    return _kernels.strided_view(over, place, spec.shape, strides)


class Arena:
    """Memory of its own, and tensors over parts of it."""

    def __init__(self, nbytes: int) -> None:
        self._memory = _kernels.empty((-(-nbytes // 64) * 64,), "uint8")
        self._whole: dict[str, Tensor] = {}

    def tensor(self, offset: int, spec: Spec) -> Tensor:
        """A tensor in C order from a byte on, which its elements are aligned to."""
        return tensor_over(self._memory, self._whole, offset // item_bytes(spec.dtype), spec, c_strides(spec.shape))
