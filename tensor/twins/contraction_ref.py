"""Twin of products of batches of matrices in every element type, of vecdot, and of what follows a product.

float16 and bfloat16 are summed in float32 and rounded once. Complex products are (ArBr − AiBi) + (ArBi + AiBr)i, four
real products and one more rounding a part. Whole numbers wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import product_ref, reduction_ref
from tensor.twins.bfloat16_ref import is_bfloat16, narrow_bfloat16, widen_bfloat16

Array = NDArray[Any]


def through_float32(function: Callable[..., Any], *arrays: Array) -> Any:
    """function on float32, its floating results rounded back, where the first array is float16 or bfloat16."""
    first = arrays[0]
    if is_bfloat16(first):
        wide = [widen_bfloat16(x) if is_bfloat16(x) else x for x in arrays]
        return _each(function(*wide), narrow_bfloat16)
    if first.dtype == np.float16:
        wide = [x.astype(np.float32) if x.dtype == np.float16 else x for x in arrays]
        return _each(function(*wide), _narrow)
    return function(*arrays)


def _narrow(x: Array) -> Array:
    out = x.astype(np.float16)
    out[np.isnan(out)] = np.nan
    return out


def _each(result: Any, narrow: Callable[[Array], Array]) -> Any:
    if isinstance(result, tuple):
        return tuple(narrow(r) if r.dtype == np.float32 else r for r in result)
    return narrow(result) if result.dtype == np.float32 else result


def canonical(x: Array) -> Array:
    """NaN in its one pattern, in each part of complex numbers."""
    if x.dtype.kind == "c":
        parts = np.stack([x.real, x.imag], axis=-1)
        parts[np.isnan(parts)] = np.nan
        return np.ascontiguousarray(parts).view(x.dtype)[..., 0]
    return np.where(np.isnan(x), x.dtype.type(np.nan), x)


def _one(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return product_ref.matmul(a, b)
    if a.dtype.kind == "c":
        ar, ai, br, bi = (np.ascontiguousarray(p) for p in (a.real, a.imag, b.real, b.imag))
        real = product_ref.matmul(ar, br) - product_ref.matmul(ai, bi)
        imaginary = product_ref.matmul(ar, bi) + product_ref.matmul(ai, br)
        return canonical(np.ascontiguousarray(np.stack([real, imaginary], axis=-1)).view(a.dtype)[..., 0])
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(a, b))


def _batched(a: Array, b: Array) -> Array:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    right = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    out = np.zeros((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    with np.errstate(all="ignore"):
        for i in np.ndindex(batch):
            out[i] = _one(left[i], right[i])
    return out


def matmul(a: Array, b: Array) -> Array:  # [..., m, k] · [..., k, n] → [..., m, n]
    """Each product of a batch as if it were alone."""
    result: Array = through_float32(_batched, a, b)
    return result


def byte_matmul(a: Array, b: Array) -> NDArray[np.int32]:
    """The exact product of bytes, in int32 (it wraps)."""
    return np.asarray(np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32))


def _dots(a: Array, b: Array) -> Array:
    shape = np.broadcast_shapes(a.shape, b.shape)
    left, right = np.broadcast_to(a, shape), np.broadcast_to(b, shape)
    out = np.zeros(shape[:-1], a.dtype)
    dot = reduction_ref.dot
    with np.errstate(all="ignore"):
        for i in np.ndindex(shape[:-1]):
            x, y = left[i], right[i]
            if a.dtype.kind == "f":
                out[i] = dot(x, y)
            elif a.dtype.kind == "c":
                xr, xi, yr, yi = (np.ascontiguousarray(p) for p in (x.real, x.imag, y.real, y.imag))
                out.real[i], out.imag[i] = dot(xr, yr) + dot(xi, yi), dot(xr, yi) - dot(xi, yr)
            else:
                out[i] = (x * y).sum(dtype=a.dtype)
    return canonical(out) if a.dtype.kind in "fc" else out


def vecdot(a: Array, b: Array) -> Array:  # [..., n], [..., n] → [...]
    """Σ conj(a)·b along the last axis, in the order of sum, each product fused into its accumulator."""
    result: Array = through_float32(_dots, a, b)
    return result
