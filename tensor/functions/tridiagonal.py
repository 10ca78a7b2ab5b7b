"""Tridiagonal systems, all rows at once: parallel cyclic reduction (Hockney and Jesshope 1981)."""

from __future__ import annotations

from typing import Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.manipulation import broadcast_to, pad
from tensor.functions.promotion import cast_to

__all__ = ["tridiagonal_solve"]

Tensor = Any


def _shifted(x: Tensor, by: int, fill: float) -> Tensor:
    """y[..., i, :] = x[..., i + by, :], `fill` beyond the ends."""
    n = x.shape[-2]
    rest = [(0, 0)] * (x.ndim - 2)
    if by > 0:
        return pad(x[..., by:, :], [*rest, (0, min(by, n)), (0, 0)], value=fill)
    return pad(x[..., :by, :], [*rest, (min(-by, n), 0), (0, 0)], value=fill)


def tridiagonal_solve(lower: Tensor, diagonal: Tensor, upper: Tensor, b: Tensor, /) -> Tensor:
    """The solution x of the systems whose matrices have these diagonals: lower[i]·x[i−1] + diagonal[i]·x[i] + upper[i]·x[i+1].

    lower, diagonal, upper: [..., n]; lower[0] and upper[n−1] count for nothing. b: [..., n] or, with right sides side by
    side, [..., n, k]. Computed in float64 without pivots, in log n steps: meant for matrices whose diagonal dominates; a
    pivot of 0 gives NaN. ShapeError, DtypeError.

    >>> import tensor as tn
    >>> one, two = tn.ones(3), tn.full((3,), 2.0)
    >>> tn.linalg.tridiagonal_solve(one, two, one, tn.asarray([4.0, 8.0, 8.0])).tolist()
    [1.0, 2.0, 3.0]
    """  # noqa: E501
    inputs = [tensor_of("tridiagonal_solve", x) for x in (lower, diagonal, upper, b)]
    dtype = b.dtype
    if any(x.dtype != dtype for x in inputs) or dtype.name not in ("float32", "float64"):
        names = ", ".join(x.dtype.name for x in inputs)
        raise DtypeError(f"tridiagonal_solve: all must be float32 or float64, got {names}")
    shape = diagonal.shape
    vector = b.ndim == len(shape)
    if not shape or lower.shape != shape or upper.shape != shape or b.shape[: len(shape)] != shape:
        raise ShapeError(
            "tridiagonal_solve: expected three diagonals [..., n] and b [..., n] or [..., n, k], got shapes "
            f"{lower.shape}, {diagonal.shape}, {upper.shape} and {b.shape}"
        )
    if b.ndim > len(shape) + 1:
        raise ShapeError(f"tridiagonal_solve: b of shape {b.shape} has too many dimensions for {shape}")
    n = shape[-1]
    if n == 0:
        return b
    wide = (*shape, 1)
    low, mid, up = (cast_to(x, "float64").reshape(wide) for x in (lower, diagonal, upper))
    right = cast_to(b, "float64").reshape(wide) if vector else cast_to(b, "float64")
    low, up = _cut(low, first=True), _cut(up, first=False)
    step = 1
    while step < n:
        before = low / _shifted(mid, -step, 1.0)
        behind = up / _shifted(mid, step, 1.0)
        right = right - before * _shifted(right, -step, 0.0) - behind * _shifted(right, step, 0.0)
        mid = mid - before * _shifted(up, -step, 0.0) - behind * _shifted(low, step, 0.0)
        low, up = -before * _shifted(low, -step, 0.0), -behind * _shifted(up, step, 0.0)
        step *= 2
    return cast_to(right / broadcast_to(mid, right.shape), dtype).reshape(b.shape)


def _cut(x: Tensor, *, first: bool) -> Tensor:
    """x with 0 in its first, or last, row."""
    rest = [(0, 0)] * (x.ndim - 2)
    return pad(x[..., 1:, :] if first else x[..., :-1, :], [*rest, (1, 0) if first else (0, 1), (0, 0)])
