"""Products of groups of rows, each with a matrix of its own, and the best product of low rank."""

from __future__ import annotations

from operator import index
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.gates import silu_mul
from tensor.functions.linear_algebra import matmul
from tensor.functions.manipulation import concat

__all__ = ["factorized_matmul", "grouped_gemm", "moe_swiglu_block"]

Tensor = Any
Sizes = Any  # ints, or a vector of integers


def factorized_matmul(a: Tensor, b: Tensor, /, rank: int) -> Tensor:
    """The matrix of that rank nearest to a [..., m, k] · b [..., k, n], from its largest singular values.

    float32 or float64, in the precision of `linalg.svd`; a rank above the smaller of m and n gives the product.
    ValueError for a rank below 1.

    >>> import tensor as tn
    >>> tn.factorized_matmul(tn.asarray([[2.0, 0.0], [0.0, 1.0]]), tn.eye(2), 1).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    from tensor import linalg

    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"factorized_matmul: rank must be an int from 1, got {rank!r}")
    u, s, vh = linalg.svd(matmul(a, b), full_matrices=False)
    scaled = u[..., :rank] * s[..., :rank].reshape((*s.shape[:-1], 1, min(rank, s.shape[-1])))
    return matmul(scaled, vh[..., :rank, :])


def _sizes(name: str, sizes: Sizes, rows: int, groups: int) -> list[int]:
    if isinstance(sizes, _kernels.Tensor) and (
        sizes.ndim != 1 or sizes.dtype.kind not in ("signed integer", "unsigned integer")
    ):
        raise DtypeError(f"{name}: group_sizes must be integers [groups], got {sizes.dtype.name}{list(sizes.shape)}")
    found = [index(n) for n in (sizes.tolist() if isinstance(sizes, _kernels.Tensor) else sizes)]
    if len(found) != groups or any(n < 0 for n in found) or sum(found) != rows:
        raise ShapeError(f"{name}: {groups} group sizes from 0 that sum to {rows} rows are needed, got {found}")
    return found


def grouped_gemm(x: Tensor, weights: Tensor, group_sizes: Sizes, /) -> Tensor:
    """x [rows, k], cut into groups of group_sizes rows, each times its own matrix of weights [groups, k, n]: [rows, n].

    A row's bits are those of `matmul`. group_sizes: ints or an integer vector, whose values must be known.
    ShapeError where they don't sum to the rows.

    >>> import tensor as tn
    >>> weights = tn.asarray([[[1.0]], [[10.0]]])
    >>> tn.grouped_gemm(tn.asarray([[1.0], [2.0], [3.0]]), weights, [1, 2]).tolist()
    [[1.0], [20.0], [30.0]]
    """
    if tensor_of("grouped_gemm", x).ndim != 2 or tensor_of("grouped_gemm", weights).ndim != 3:
        raise ShapeError(
            f"grouped_gemm: expected x [rows, k] and weights [groups, k, n], got shapes {x.shape} and {weights.shape}"
        )
    sizes = _sizes("grouped_gemm", group_sizes, x.shape[0], weights.shape[0])
    parts: list[Tensor] = []
    start = 0
    for i, n in enumerate(sizes):
        if n:
            parts.append(matmul(x[start : start + n], weights[i]))
        start += n
    return concat(parts) if parts else matmul(x, weights.sum(axis=0))


def moe_swiglu_block(x: Tensor, gate: Tensor, up: Tensor, down: Tensor, group_sizes: Sizes, /) -> Tensor:
    """Each group's own feed-forward block: silu_mul(x · gate, x · up) · down, x [rows, k], down [groups, f, n].

    gate and up are [groups, k, f]; groups as in `grouped_gemm`.

    >>> import tensor as tn
    >>> one = tn.ones((1, 1, 1))
    >>> tn.moe_swiglu_block(tn.asarray([[0.0], [100.0]]), one, one, one, [2]).tolist()
    [[0.0], [10000.0]]
    """
    hidden = silu_mul(grouped_gemm(x, gate, group_sizes), grouped_gemm(x, up, group_sizes))
    return grouped_gemm(hidden, down, group_sizes)
