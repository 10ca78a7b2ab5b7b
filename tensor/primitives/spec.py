"""What is known of a tensor without its elements."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["Spec", "total_bytes"]


class Spec:
    """Shape, element type and device of a tensor that need not exist (yet, or any more).

    Tensors have the same attributes, so that a shape rule takes either.

    >>> from tensor.primitives.spec import Spec
    >>> Spec((2, 3), "float32").size
    6
    """

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: Any = "cpu") -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return (self.shape, self.dtype, self.device) == (other.shape, other.dtype, other.device)

    def __hash__(self) -> int:
        return hash((self.shape, str(self.dtype), str(self.device)))

    def __repr__(self) -> str:
        return f"{name_of(self.dtype)}[{', '.join(map(str, self.shape))}]"


def name_of(dtype: Any) -> str:
    """'float32' for the dtype of that name."""
    return str(getattr(dtype, "name", dtype))


_ITEM_BYTES = {"bool": 1, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16}


def item_bytes(dtype: Any) -> int:
    """Bytes of one element.

    >>> item_bytes("bfloat16"), item_bytes("uint16"), item_bytes("float64")
    (2, 2, 8)
    """
    name = name_of(dtype)
    return _ITEM_BYTES.get(name) or int("".join(c for c in name if c.isdigit())) // 8


def total_bytes(specs: tuple[Any, ...]) -> int:
    """Bytes of the elements of all specs together."""
    return sum(math.prod(s.shape) * item_bytes(s.dtype) for s in specs)
