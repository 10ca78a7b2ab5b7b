"""Cholesky, and what all rows of matrices (in the last two dimensions) are made of.

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
REAL_OF = {"complex64": "float32", "complex128": "float64"}
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
    name = REAL_OF.get(name_of(x.dtype))
    if name is None:
        return x.dtype
    return type(x.dtype)(name) if not isinstance(x.dtype, str) else name


def integers(x: Any) -> Any:
    return type(x.dtype)("int64") if not isinstance(x.dtype, str) else "int64"


def square_shape(name: str) -> Callable[[Sequence[Any], Params], Spec]:
    def rule(specs: Sequence[Any], params: Params) -> Spec:
        matrix_batch(name, specs[0], square=True)
        return Spec(tuple(specs[0].shape), specs[0].dtype, specs[0].device)

    return rule


def solve_shape(name: str) -> Callable[[Sequence[Any], Params], Spec]:
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
        each = flops(m, n) * (4 if name_of(specs[0].dtype) in REAL_OF else 1)
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
    if name_of(x.dtype) not in REAL_OF:
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
    if name_of(x.dtype) not in REAL_OF:
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


def positive_definite(rng: np.random.Generator, *shape: int) -> Any:
    import numpy as np

    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def square_samples(rng: np.random.Generator) -> Iterator[Sample]:
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
    shape=square_shape("cholesky"),
    keeps=keep(outputs=(0,)),
    vjp=_cholesky_vjp,
    cost=flops_of(lambda m, n: n**3 / 3),
    samples=lambda rng: [
        Sample(positive_definite(rng, 3, 3), hermitian=(0,)),
        Sample(positive_definite(rng, 2, 4, 4), hermitian=(0,)),
        Sample(positive_definite(rng, 1, 1), hermitian=(0,)),
        Sample(normal(rng, 0, 2, 2)),
        Sample(positive_definite(rng, 10, 10), gradcheck=False, hermitian=(0,)),
    ],
    oracle=_cholesky_oracle,
)
