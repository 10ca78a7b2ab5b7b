"""Rows of linear algebra: Cholesky, LU, solutions, determinants of the matrices in the last two dimensions; and what
all rows of matrices are made of.

Everything is computed in float64 and rounded once, each matrix by itself. Gradients: M. B. Giles, "An extended
collection of matrix derivative results for forward and reverse mode AD" (2008); S. F. Walter and L. Lehmann,
"Algorithmic differentiation of linear algebra functions" (2010) for qr; J. Townsend, "Differentiating the singular
value decomposition" (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError, LinalgError, ShapeError
from tensor.primitives.primitive import Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import call, equal_dtypes, leading_batch
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any

DTYPES = ("float32", "float64", "complex64", "complex128")
REALS = ("float32", "float64")
_REAL_OF = {"complex64": "float32", "complex128": "float64"}
_OPS = ("cholesky", "lu", "det", "slogdet", "solve", "tri_solve", "inv", "qr", "eigh", "svd")


# --- shapes ----------------------------------------------------------------------------------------------------------


def matrix_batch(name: str, x: Any, *, square: bool) -> tuple[int, ...]:
    """The leading dimensions of x, after checking that it is a matrix, or a batch of them."""
    if name_of(x.dtype) not in DTYPES:
        hint = "float32" if name_of(x.dtype) not in ("int64", "uint64") else "float64"
        raise DtypeError(f"{name}: {name_of(x.dtype)} is not computed with (hint: astype(x, {hint}))")
    if len(x.shape) < 2:
        raise ShapeError(f"{name}: expected a matrix, or a batch of them, got shape {tuple(x.shape)}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name}: the matrix must be square, got shape {tuple(x.shape)}")
    return tuple(x.shape[:-2])


def real_type(x: Any) -> Any:
    """The element type of x's real parts."""
    name = _REAL_OF.get(name_of(x.dtype))
    if name is None:
        return x.dtype
    return type(x.dtype)(name) if not isinstance(x.dtype, str) else name


def _integers(x: Any) -> Any:
    return type(x.dtype)("int64") if not isinstance(x.dtype, str) else "int64"


def _square_shape(name: str) -> Callable[[Sequence[Any], Params], Spec]:
    def rule(specs: Sequence[Any], params: Params) -> Spec:
        matrix_batch(name, specs[0], square=True)
        return Spec(tuple(specs[0].shape), specs[0].dtype, specs[0].device)

    return rule


def _solve_shape(name: str) -> Callable[[Sequence[Any], Params], Spec]:
    def rule(specs: Sequence[Any], params: Params) -> Spec:
        a, b = specs
        batch = matrix_batch(name, a, square=True)
        dtype = equal_dtypes(name, specs)
        if tuple(b.shape[:-2]) != batch or len(b.shape) != len(a.shape) or b.shape[-2] != a.shape[-1]:
            shapes = f"a = {tuple(a.shape)} and b = {tuple(b.shape)}"
            raise ShapeError(f"{name}: a must be [..., n, n] and b [..., n, k] with the same batch, got {shapes}")
        return Spec(tuple(b.shape), dtype, b.device)

    return rule


# --- kernels and twins -----------------------------------------------------------------------------------------------


def _refused(name: str, batch: bool, index: int, status: int, dtype: str) -> LinalgError:
    """The error for matrix `index`; status as in kernels/linalg.hpp."""
    if status == -1:
        detail = "the matrix has a NaN or an infinity"
    elif status == -2:
        bits = 16 if dtype in ("float32", "complex64") else 40
        detail = (
            f"the matrix must equal its conjugate transpose within 2^-{bits} of its largest element "
            "(hint: (x + x.mT) / 2, or svd)"
        )
    elif status == -3:
        detail = "the rotations came to no end"
    elif name == "cholesky":
        detail = f"the matrix is not positive definite: pivot {status - 1} is not above 0"
    elif name == "tri_solve":
        detail = f"the matrix is singular: element {status - 1} of its diagonal is 0"
    else:
        detail = f"the matrix is singular: pivot {status - 1} is 0"
    return LinalgError(name, index if batch else None, detail)


def _kernel(name: str) -> Callable[[Any, Any, Params], None]:
    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        from tensor import _kernels

        p = params or {}
        found = _kernels.linalg(
            _OPS.index(name),
            inputs,
            outs,
            p.get("full", p.get("check", False)),
            p.get("lower", False),
            p.get("unit", False),
        )
        if found is not None:
            index, status = found
            raise _refused(name, inputs[0].ndim > 2, index, status, name_of(inputs[0].dtype))

    return kernel


def _twin(name: str, cores: tuple[int, ...]) -> Callable[[tuple[Any, ...], Params], Any]:
    """The twin on each matrix of the batch; cores are the dimensions of its results."""

    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        from tensor.twins import jacobi_ref, linalg_ref

        function = getattr(jacobi_ref if name in ("eigh", "svd") else linalg_ref, name)
        x = arrays[0]
        batch = x.shape[:-2]
        results: list[Any] | None = None
        options = tuple(params.values()) if params else ()
        for index in np.ndindex(batch) if 0 not in batch else ():
            try:
                parts = function(*(a[index] for a in arrays), *options)
            except linalg_ref.Refused as error:
                status = error.step + 1 if error.step >= 0 else error.step
                at = int(np.ravel_multi_index(index, batch)) if batch else 0
                raise _refused(name, len(batch) > 0, at, status, x.dtype.name) from None
            parts = parts if isinstance(parts, tuple) else (parts,)
            if results is None:
                results = [np.empty((*batch, *p.shape), p.dtype) for p in parts]
            for result, part in zip(results, parts, strict=True):
                result[index] = part
        if results is None:
            specs = _ROWS[name].specs_of(tuple(Spec(a.shape, a.dtype.name) for a in arrays), params)
            results = [np.empty(s.shape, name_of(s.dtype)) for s in specs]
        return tuple(results) if len(cores) > 1 else results[0]

    return twin


_ROWS: dict[str, Primitive] = {}


def flops_of(flops: Callable[[int, int], float]) -> Callable[[Any, Any, Params], tuple[int, int]]:
    def cost(specs: Sequence[Any], outs: Sequence[Any], params: Params) -> tuple[int, int]:
        m, n = specs[0].shape[-2:]
        each = flops(m, n) * (4 if name_of(specs[0].dtype) in _REAL_OF else 1)
        return total_bytes((*specs, *outs)), int(each * math.prod(specs[0].shape[:-2]))

    return cost


def linalg_row(name: str, cores: tuple[int, ...], inputs: int = 1, **fields: Any) -> Primitive:
    row = register(
        Primitive(
            name,
            category="linalg",
            dtypes=DTYPES,
            kernel=_kernel(name),
            twin=_twin(name, cores),
            batch=leading_batch((2,) * inputs),
            **fields,
        )
    )
    _ROWS[name] = row
    return row


# --- what derivatives are made of ------------------------------------------------------------------------------------


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    if name_of(x.dtype) not in _REAL_OF:
        return x.mT
    from tensor.functions.elementwise import conj

    return conj(x.mT)


def lower_part(x: Tensor, k: int = 0) -> Tensor:
    from tensor.functions.creation import tril

    return tril(x, k=k)


def upper_part(x: Tensor, k: int = 0) -> Tensor:
    from tensor.functions.creation import triu

    return triu(x, k=k)


def tri_solved(a: Tensor, b: Tensor, lower: bool, unit: bool = False) -> Tensor:
    return call("tri_solve", a, b, lower=lower, unit=unit)


def diagonal_part(x: Tensor) -> Tensor:
    return upper_part(lower_part(x))


def identity(x: Tensor, n: int) -> Tensor:
    from tensor.functions.creation import eye

    return eye(n, dtype=x.dtype, device=x.device)


def real_part(x: Tensor) -> Tensor:
    """The real part, as the type of x."""
    if name_of(x.dtype) not in _REAL_OF:
        return x
    from tensor.functions.elementwise import real
    from tensor.functions.promotion import cast_to

    return cast_to(real(x), x.dtype)


def _without_zeros(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where x is 0, and x with 1 there."""
    from tensor.functions.creation import ones
    from tensor.functions.elementwise import where

    none = x == 0
    return none, where(none, ones((), dtype=x.dtype, device=x.device), x)


def quotient(x: Tensor, differences: Tensor) -> Tensor:
    """x / differences, 0 where a difference is 0."""
    from tensor.functions.creation import zeros
    from tensor.functions.elementwise import where

    none, safe = _without_zeros(differences)
    return where(none, zeros((), dtype=x.dtype, device=x.device), x / safe)


# --- samples ---------------------------------------------------------------------------------------------------------


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape)


def _positive(rng: np.random.Generator, *shape: int) -> Any:
    import numpy as np

    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def _square_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3))
    yield Sample(normal(rng, 2, 4, 4))
    yield Sample(normal(rng, 1, 1))
    yield Sample(normal(rng, 0, 2, 2))
    yield Sample(normal(rng, 9, 9), gradcheck=False)


# --- Cholesky --------------------------------------------------------------------------------------------------------


def _cholesky_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    factor = node.outputs[0]
    up = adjoint(factor)
    s = lower_part(up @ g)
    s = s - diagonal_part(s) / 2
    s = tri_solved(up, adjoint(tri_solved(up, adjoint(s), lower=False)), lower=False)
    return ((s + adjoint(s)) / 2,)


def _cholesky_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    x = arrays[0]
    return np.linalg.cholesky((x + np.conj(np.swapaxes(x, -1, -2))) / 2)


CHOLESKY = linalg_row(
    "cholesky",
    (2,),
    summary="The lower triangular factor of a positive definite matrix: factor · its adjoint = (x + its adjoint) / 2.",
    shape=_square_shape("cholesky"),
    keeps=keep(outputs=(0,)),
    vjp=_cholesky_vjp,
    cost=flops_of(lambda m, n: n**3 / 3),
    samples=lambda rng: [
        Sample(_positive(rng, 3, 3), hermitian=(0,)),
        Sample(_positive(rng, 2, 4, 4), hermitian=(0,)),
        Sample(_positive(rng, 1, 1), hermitian=(0,)),
        Sample(normal(rng, 0, 2, 2)),
        Sample(_positive(rng, 10, 10), gradcheck=False, hermitian=(0,)),
    ],
    oracle=_cholesky_oracle,
)


# --- LU, determinants, solutions -------------------------------------------------------------------------------------


def _lu_shape(specs: Sequence[Any], params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    batch = matrix_batch("lu", x, square=False)
    rows = Spec((*batch, x.shape[-2]), _integers(x), x.device)
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
    if name_of(x.dtype) not in _REAL_OF:
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
    samples=_square_samples,
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
    if name_of(x.dtype) in _REAL_OF:
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
    samples=_square_samples,
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
    shape=_solve_shape("solve"),
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
            yield Sample(_positive(rng, 2, 3, 3), normal(rng, 2, 3, 2), params={"lower": lower, "unit": unit})


TRI_SOLVE = linalg_row(
    "tri_solve",
    (2,),
    inputs=2,
    summary="The solution y of a · y = b from one triangle of a; with `unit` its diagonal is taken for ones.",
    shape=_solve_shape("tri_solve"),
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
    shape=_square_shape("inv"),
    keeps=keep(outputs=(0,)),
    vjp=_inv_vjp,
    cost=flops_of(lambda m, n: 2 * n**3),
    samples=_square_samples,
    oracle=_numpy("inv"),
)
