"""Rows of LU and what it solves: determinants, inverses, solutions of linear systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensor.primitives.linalg import (
    REAL_OF,
    adjoint,
    flops_of,
    identity,
    integers,
    linalg_row,
    lower_part,
    matrix_batch,
    normal,
    positive_definite,
    real_type,
    solve_shape,
    square_samples,
    square_shape,
    tri_solved,
    upper_part,
)
from tensor.primitives.primitive import Sample, keep
from tensor.primitives.rules import call
from tensor.primitives.spec import Spec, name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any


def _lu_shape(specs: Sequence[Any], params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    batch = matrix_batch("lu", x, square=False)
    rows = Spec((*batch, x.shape[-2]), integers(x), x.device)
    return Spec(tuple(x.shape), x.dtype, x.device), rows


def _lu_vjp(g: Any, node: Any) -> tuple[Tensor]:
    from tensor.functions.manipulation import concat

    packed, rows = node.outputs
    g = g[0]
    m, n = packed.shape[-2:]
    k = min(m, n)
    square, g_square = packed[..., :k, :k], g[..., :k, :k]
    up = upper_part(square)
    g_lower, g_upper = lower_part(g_square, -1), upper_part(g_square)
    down = adjoint(lower_part(square, -1) + identity(packed, k))  # unit upper triangular
    rest = None
    if m > n:
        below, g_below = packed[..., k:, :], g[..., k:, :]
        rest = _right(g_below, up)
        g_upper = g_upper - upper_part(adjoint(below) @ rest)
    elif n > m:
        beside, g_beside = packed[..., k:], g[..., k:]
        rest = tri_solved(down, g_beside, lower=False, unit=True)
        g_lower = g_lower - lower_part(rest @ adjoint(beside), -1)
    middle = lower_part(down @ g_lower, -1) + upper_part(g_upper @ adjoint(up))
    result = _right(tri_solved(down, middle, lower=False, unit=True), up)
    if rest is not None:
        result = concat([result, rest], axis=-2 if m > n else -1)
    return (_rows_back(result, rows),)


def _right(x: Tensor, up: Tensor) -> Tensor:
    """x · (upᴴ)⁻¹ for an upper triangular matrix."""
    return adjoint(tri_solved(up, adjoint(x), lower=False))


def _rows_back(x: Tensor, rows: Tensor) -> Tensor:
    """Row i of x goes to row rows[i]."""
    from tensor import argsort, take_along_axis
    from tensor.functions.manipulation import broadcast_to

    back = argsort(rows, axis=-1)
    return take_along_axis(x, broadcast_to(back.unsqueeze(-1), x.shape), axis=-2)


def _lu_invariant(arrays: tuple[Any, ...], outs: tuple[Any, ...], params: Params) -> list[tuple[Any, Any]]:
    import numpy as np

    (x,), (packed, rows) = arrays, outs
    m, n = x.shape[-2:]
    k = min(m, n)
    lower = np.tril(packed[..., :, :k], -1) + np.eye(m, k)
    taken = np.take_along_axis(x, np.broadcast_to(rows[..., None], x.shape), axis=-2)
    return [(lower @ np.triu(packed[..., :k, :]), taken), (np.sort(rows, axis=-1), np.zeros_like(rows) + np.arange(m))]


LU = linalg_row(
    "lu",
    (2, 1),
    summary="L (below its diagonal of ones) and U in one matrix, and the row of x that each row is; the largest pivot.",
    shape=_lu_shape,
    keeps=keep(outputs=(0, 1)),
    vjp=_lu_vjp,
    invariant=_lu_invariant,
    cost=flops_of(lambda m, n: 2 * m * n * min(m, n) / 3),
    samples=lambda rng: [
        Sample(normal(rng, 3, 3)),
        Sample(normal(rng, 2, 4, 3)),
        Sample(normal(rng, 2, 5)),
        Sample(normal(rng, 0, 2)),
    ],
)


def _det_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    x, d = node.inputs[0], node.outputs[0]
    return ((g * _conj(d)).unsqueeze(-1).unsqueeze(-1) * adjoint(call("inv", x)),)


def _conj(x: Tensor) -> Tensor:
    if name_of(x.dtype) not in REAL_OF:
        return x
    from tensor.functions.elementwise import conj

    return conj(x)


def _scalar_shape(specs: Sequence[Any], params: Params) -> Spec:
    return Spec(matrix_batch("det", specs[0], square=True), specs[0].dtype, specs[0].device)


def _numpy(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        found = getattr(np.linalg, name)(*arrays)
        return tuple(found) if isinstance(found, tuple) else found

    return oracle


DET = linalg_row(
    "det",
    (0,),
    summary="The determinant, by LU.",
    shape=_scalar_shape,
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=_det_vjp,
    cost=flops_of(lambda m, n: 2 * n**3 / 3),
    samples=square_samples,
    oracle=_numpy("det"),
)


def _slogdet_shape(specs: Sequence[Any], params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    batch = matrix_batch("slogdet", x, square=True)
    return Spec(batch, x.dtype, x.device), Spec(batch, real_type(x), x.device)


def _slogdet_vjp(g: Any, node: Any) -> tuple[Tensor]:
    x, sign = node.inputs[0], node.outputs[0]
    g_sign, g_log = g
    factor = g_log
    if name_of(x.dtype) in REAL_OF:
        from tensor.functions.elementwise import imag
        from tensor.functions.promotion import cast_to

        factor = cast_to(g_log, x.dtype) + 1j * cast_to(imag(g_sign * _conj(sign)), x.dtype)
    return (factor.unsqueeze(-1).unsqueeze(-1) * adjoint(call("inv", x)),)


SLOGDET = linalg_row(
    "slogdet",
    (0, 0),
    summary="The sign of the determinant (of size 1, or 0) and the logarithm of its size.",
    shape=_slogdet_shape,
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=_slogdet_vjp,
    cost=flops_of(lambda m, n: 2 * n**3 / 3),
    samples=square_samples,
    oracle=_numpy("slogdet"),
)


def _solve_vjp(g: Tensor, node: Any) -> tuple[Tensor, Tensor]:
    a, y = node.inputs[0], node.outputs[0]
    g_b = call("solve", adjoint(a), g)
    return -(g_b @ adjoint(y)), g_b


SOLVE = linalg_row(
    "solve",
    (2,),
    inputs=2,
    summary="The solution y of a · y = b, by LU with the largest pivot.",
    shape=solve_shape("solve"),
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=_solve_vjp,
    cost=flops_of(lambda m, n: 2 * n**3 / 3),
    samples=lambda rng: [
        Sample(normal(rng, 3, 3), normal(rng, 3, 2)),
        Sample(normal(rng, 2, 4, 4), normal(rng, 2, 4, 1)),
        Sample(normal(rng, 2, 2), normal(rng, 2, 0)),
    ],
    oracle=_numpy("solve"),
)


def _tri_solve_vjp(g: Tensor, node: Any) -> tuple[Tensor, Tensor]:
    a, y, p = node.inputs[0], node.outputs[0], node.params
    g_b = tri_solved(adjoint(a), g, not p["lower"], p["unit"])
    k = 1 if p["unit"] else 0
    g_a = -(g_b @ adjoint(y))
    return (lower_part(g_a, -k) if p["lower"] else upper_part(g_a, k)), g_b


def _tri_solve_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    a, b = arrays
    triangle = np.tril(a) if params["lower"] else np.triu(a)
    if params["unit"]:
        triangle = triangle * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
    return np.linalg.solve(triangle, b)


def _tri_solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for lower in (False, True):
        for unit in (False, True):
            yield Sample(positive_definite(rng, 2, 3, 3), normal(rng, 2, 3, 2), params={"lower": lower, "unit": unit})


TRI_SOLVE = linalg_row(
    "tri_solve",
    (2,),
    inputs=2,
    summary="The solution y of a · y = b from one triangle of a; with `unit` its diagonal is taken for ones.",
    shape=solve_shape("tri_solve"),
    keeps=keep(inputs=(0,), outputs=(0,)),
    vjp=_tri_solve_vjp,
    cost=flops_of(lambda m, n: n * n),
    samples=_tri_solve_samples,
    oracle=_tri_solve_oracle,
)


def _inv_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    y = adjoint(node.outputs[0])
    return (-(y @ g @ y),)


INV = linalg_row(
    "inv",
    (2,),
    summary="The inverse, by LU with the largest pivot.",
    shape=square_shape("inv"),
    keeps=keep(outputs=(0,)),
    vjp=_inv_vjp,
    cost=flops_of(lambda m, n: 2 * n**3),
    samples=square_samples,
    oracle=_numpy("inv"),
)
