"""Twin of the self-test of the elementary and special functions (tensor/kernels/selftest_special.cpp)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import _kernels
from tensor.selftest_ref import awkward, fnv1a, values
from tensor.twins import complex_ref, elementwise_ref, special_ref

Array = NDArray[Any]

_ELEMENTS = 301


def special_digests() -> dict[str, str]:
    """The digest of the functions of each dtype."""
    return {
        f"tensor.special_{name}": fnv1a(_functions(name)) for name in ("float32", "float64", "complex64", "complex128")
    }


def _parts(seed: int, n: int, dtype: np.dtype[Any]) -> Array:
    """Any bit pattern, then plain values."""
    half = n // 2
    return np.concatenate([awkward(seed, half, dtype), values(seed + 50, n - half, dtype)])


def _functions(name: str) -> Iterator[Array]:
    is_complex = name.startswith("complex")
    part = np.dtype(np.float32 if name in ("float32", "complex64") else np.float64)
    n = 2 * _ELEMENTS if is_complex else _ELEMENTS
    inputs = [_parts(seed, n, part).view(name) for seed in (1, 2)]
    rows = _kernels.elementwise_rows()
    for operation, (code, arity, dtypes, _) in rows.items():
        if (code < rows["exp"][0] and operation != "sqrt") or name not in dtypes:
            continue
        arrays = tuple(inputs[:arity])
        if is_complex:
            yield complex_ref.TWINS[operation](arrays, None)
        elif operation == "sqrt":
            yield elementwise_ref.TWINS[operation](arrays, None)
        else:
            yield special_ref.TWINS[operation](arrays, None)
