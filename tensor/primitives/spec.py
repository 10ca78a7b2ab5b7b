"""What is known of a tensor without its elements."""

from __future__ import annotations

import math
from typing import Any

from tensor._kernels import Spec

__all__ = ["Spec", "total_bytes"]


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
