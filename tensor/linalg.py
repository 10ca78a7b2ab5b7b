"""Linear algebra: the array API's extension `linalg`, and what is next to it, with one result on every machine.

Matrices are the last two dimensions; each is computed by itself, in float64, and rounded once to its type (float32,
float64, complex64, complex128). Meant for matrices of up to about 512 rows: times grow with the cube. Differentiable,
except where a docstring says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.functions.linear_algebra import kron, matmul, matrix_transpose, outer, tensordot, vecdot
from tensor.functions.manipulation import broadcast_shapes, broadcast_to, stack
from tensor.functions.promotion import cast_to, operands
from tensor.functions.tridiagonal import tridiagonal_solve
from tensor.primitives import decompositions, rules  # noqa: F401 (their rows)
from tensor.primitives.linalg import adjoint, matrix_batch, real_type

__all__ = [
    "EighResult",
    "LUResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "kron",
    "logdet",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "tri_solve",
    "tridiagonal_solve",
    "vecdot",
    "vector_norm",
]

Tensor = Any

_EPSILON = {"float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52, "complex128": 2.0**-52}


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LUResult(NamedTuple):
    """P · L · U: a permutation, a lower triangular matrix with ones on its diagonal, an upper triangular one."""

    P: Tensor
    L: Tensor
    U: Tensor


class QRResult(NamedTuple):
    """Q · R: orthonormal columns, an upper triangular matrix."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """U · diag(S) · Vh, the singular values S in descending order."""

    U: Tensor
    S: Tensor
    Vh: Tensor


# --- decompositions --------------------------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L · its adjoint = x, or the upper one, for positive definite x[..., n, n].

    x is taken for (x + its adjoint) / 2. Raises LinalgError where a pivot is not above 0.

    >>> import tensor as tn
    >>> tn.linalg.cholesky(tn.asarray([[4.0, 2], [2, 5]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    factor = rules.call("cholesky", _tensor("cholesky", x))
    return adjoint(factor) if upper else factor


def lu(x: Tensor, /) -> LUResult:
    """P · L · U = x[..., m, n] with the largest pivot of each column (the first of several equal ones).

    P has no gradient.

    >>> import tensor as tn
    >>> [part.tolist() for part in tn.linalg.lu(tn.asarray([[1.0, 2], [2, 2]]))]
    [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]]]
    """
    from tensor.functions.creation import arange, eye, tril, triu

    packed, rows = rules.call("lu", _tensor("lu", x))
    m, n = x.shape[-2:]
    k = min(m, n)
    places = arange(m, device=x.device).reshape((m, 1)) == rows.unsqueeze(-2)
    lower = tril(packed[..., :k], k=-1) + eye(m, k, dtype=x.dtype, device=x.device)
    return LUResult(cast_to(places, x.dtype), lower, triu(packed[..., :k, :]))


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Q[..., m, k] with orthonormal columns and upper triangular R[..., k, n], Q · R = x[..., m, n].

    k = min(m, n), or m if mode is "complete" (of a tall matrix that has no gradient). By Householder reflections.

    >>> import tensor as tn
    >>> tn.linalg.qr(tn.asarray([[3.0], [4.0]])).R.tolist()
    [[-5.0]]
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return QRResult(*rules.call("qr", _tensor("qr", x), full=mode == "complete"))


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of a symmetric (complex: Hermitian) x[..., n, n], by Jacobi rotations.

    Raises LinalgError for a matrix that differs from its adjoint by more than 2⁻¹⁶ (float64: 2⁻⁴⁰) of its largest
    element, or has a NaN or an infinity. Gradients of eigenvectors need eigenvalues that differ: what equal ones
    would add is left out.

    >>> import tensor as tn
    >>> tn.linalg.eigh(tn.asarray([[2.0, 0], [0, 1]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return EighResult(*rules.call("eigh", _tensor("eigh", x), check=True))


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of `eigh`.

    >>> import tensor as tn
    >>> tn.linalg.eigvalsh(tn.asarray([[0.0, 1], [1, 0]])).tolist()
    [-1.0, 1.0]
    """
    matrix_batch("eigvalsh", _tensor("eigvalsh", x), square=True)
    return eigh(x).eigenvalues


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """U · diag(S) · Vh = x[..., m, n], singular values descending; by one-sided Jacobi rotations after a QR.

    U is [m, m] and Vh is [n, n], or with full_matrices=False [m, k] and [k, n], k = min(m, n) (which has a gradient).
    Raises LinalgError for a matrix with a NaN or an infinity.

    >>> import tensor as tn
    >>> tn.linalg.svd(tn.asarray([[0.0, 2], [1, 0]])).S.tolist()
    [2.0, 1.0]
    """
    return SVDResult(*rules.call("svd", _tensor("svd", x), full=bool(full_matrices)))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of `svd`.

    >>> import tensor as tn
    >>> tn.linalg.svdvals(tn.asarray([[3.0, 0], [0, 4]])).tolist()
    [4.0, 3.0]
    """
    matrix_batch("svdvals", _tensor("svdvals", x), square=False)
    return svd(x, full_matrices=False).S


# --- solutions and determinants --------------------------------------------------------------------------------------


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """y with x1 · y = x2: x1[..., n, n], x2[n] or [..., n, k]; leading dimensions broadcast. By LU.

    Raises LinalgError for a singular x1 (a pivot that is 0).

    >>> import tensor as tn
    >>> tn.linalg.solve(tn.asarray([[2.0, 0], [0, 4]]), tn.asarray([2.0, 2])).tolist()
    [1.0, 0.5]
    """
    return _solution("solve", x1, x2)


def tri_solve(
    a: Tensor, b: Tensor, /, *, lower: bool = False, unit_diagonal: bool = False, transpose: bool = False
) -> Tensor:
    """y with a · y = b, or with transpose aᵀ · y = b, from one triangle of a[..., n, n]; b[n] or [..., n, k].

    With unit_diagonal the diagonal is taken for ones. Raises LinalgError where it is 0.

    >>> import tensor as tn
    >>> tn.linalg.tri_solve(tn.asarray([[2.0, 9], [1, 4]]), tn.asarray([2.0, 5]), lower=True).tolist()
    [1.0, 1.0]
    """
    if transpose:
        a, lower = _tensor("tri_solve", a).mT, not lower
    return _solution("tri_solve", a, b, lower=bool(lower), unit=bool(unit_diagonal))


def cholesky_solve(factor: Tensor, b: Tensor, /, *, upper: bool = False) -> Tensor:
    """y with x · y = b, from the factor that `cholesky` made of x.

    >>> import tensor as tn
    >>> factor = tn.linalg.cholesky(tn.asarray([[4.0, 2], [2, 5]]))
    >>> tn.linalg.cholesky_solve(factor, tn.asarray([8.0, 12])).tolist()
    [1.0, 2.0]
    """
    low = adjoint(_tensor("cholesky_solve", factor)) if upper else _tensor("cholesky_solve", factor)
    return tri_solve(adjoint(low), tri_solve(low, b, lower=True))


def inv(x: Tensor, /) -> Tensor:
    """The inverse of x[..., n, n]. Raises LinalgError for a singular matrix.

    >>> import tensor as tn
    >>> tn.linalg.inv(tn.asarray([[0.0, 2], [1, 0]])).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    return rules.call("inv", _tensor("inv", x))


def det(x: Tensor, /) -> Tensor:
    """The determinant of x[..., n, n]. Its gradient needs an inverse, so a matrix that is not singular.

    >>> import tensor as tn
    >>> tn.linalg.det(tn.asarray([[1.0, 2], [3, 4]])).item()
    -2.0
    """
    return rules.call("det", _tensor("det", x))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its size: −inf for a singular matrix.

    >>> import tensor as tn
    >>> tn.linalg.slogdet(tn.asarray([[0.0, 1], [1, 0]])).sign.item()
    -1.0
    """
    return SlogdetResult(*rules.call("slogdet", _tensor("slogdet", x)))


def logdet(x: Tensor, /) -> Tensor:
    """The logarithm of the determinant of a real x[..., n, n]: nan where it is negative, −inf where it is 0.

    >>> import tensor as tn
    >>> tn.linalg.logdet(tn.asarray([[1.0, 0], [0, 1]])).item()
    0.0
    """
    from tensor.functions.creation import full
    from tensor.functions.elementwise import where

    if _tensor("logdet", x).dtype.name not in ("float32", "float64"):
        raise DtypeError(f"logdet: expected float32 or float64, got {x.dtype.name} (hint: slogdet)")
    matrix_batch("logdet", x, square=True)
    sign, size = slogdet(x)
    return where(sign < 0, full((), math.nan, dtype=x.dtype, device=x.device), size)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The Moore–Penrose pseudo-inverse [..., n, m] of x[..., m, n], by the singular value decomposition.

    Singular values up to rtol times the largest count as 0; rtol is max(m, n) times the distance from 1 to the next
    number unless it is given (a number, or a tensor of one for each matrix).

    >>> import tensor as tn
    >>> tn.linalg.pinv(tn.asarray([[2.0, 0], [0, 0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    from tensor.functions.creation import ones, zeros
    from tensor.functions.elementwise import where

    u, s, vh = svd(_in_double("pinv", x), full_matrices=False)
    if s.shape[-1] == 0:
        return zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype=x.dtype, device=x.device)
    kept = s > _cutoff(x, s, rtol)
    one, nothing = ones((), dtype=s.dtype, device=s.device), zeros((), dtype=s.dtype, device=s.device)
    inverse = where(kept, 1 / where(kept, s, one), nothing)
    return cast_to((adjoint(vh) * cast_to(inverse.unsqueeze(-2), u.dtype)) @ adjoint(u), x.dtype)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values of x[..., m, n] are above rtol times the largest; rtol as in `pinv`. int64[...].

    >>> import tensor as tn
    >>> tn.linalg.matrix_rank(tn.ones((3, 3))).item()
    1
    """
    from tensor import sum
    from tensor.functions.creation import zeros

    s = svdvals(_in_double("matrix_rank", x))
    if s.shape[-1] == 0:
        return zeros(s.shape[:-1], dtype="int64", device=x.device)
    return sum(cast_to(s > _cutoff(x, s, rtol), "int64"), axis=-1)


def cond(x: Tensor, /) -> Tensor:
    """The condition number of x[..., m, n] in the 2-norm: the largest singular value over the smallest.

    inf where the smallest is 0, also for a matrix of zeros.

    >>> import tensor as tn
    >>> tn.linalg.cond(tn.asarray([[4.0, 0], [0, 2]])).item()
    2.0
    """
    from tensor.functions.creation import full
    from tensor.functions.elementwise import where

    s = svdvals(_in_double("cond", x))
    if s.shape[-1] == 0:
        raise ShapeError(f"cond: the matrix has no elements, shape {x.shape}")
    least = s[..., -1]
    infinite = full((), math.inf, dtype=s.dtype, device=s.device)
    return cast_to(where(least == 0, infinite, s[..., 0] / least), real_type(x))


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """x · x · … n times, for x[..., m, m]; the identity for n = 0, powers of the inverse for n < 0.

    >>> import tensor as tn
    >>> tn.linalg.matrix_power(tn.asarray([[1.0, 1], [0, 1]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    _tensor("matrix_power", x)
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"matrix_power: n must be an int, got {type(n).__name__}")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: x must be square matrices, got shape {x.shape}")
    if n == 0:
        from tensor.functions.creation import eye

        return broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape).clone()
    square, left, result = (x if n > 0 else inv(x)), abs(n), None
    while True:  # by the binary digits of n, lowest first
        if left & 1:
            result = square if result is None else result @ square
        left >>= 1
        if not left:
            return result.clone() if result is x else result
        square = square @ square


# --- norms -----------------------------------------------------------------------------------------------------------


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over the axes (all elements if none are named).

    ord inf and −inf: the largest and smallest |x|; 0: the number of elements that are not 0. From ord 1
    up the gradient at 0 is 0.

    >>> import tensor as tn
    >>> tn.linalg.vector_norm(tn.asarray([3.0, 4])).item()
    5.0
    """
    from tensor import abs, max, min, sqrt, square, sum, where

    _floating("vector_norm", x)
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise TypeError(f"vector_norm: ord must be a number, got {type(ord).__name__}")
    if ord in (math.inf, -math.inf):
        return (max if ord > 0 else min)(abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum(cast_to(x != 0, abs(x).dtype), axis=axis, keepdims=keepdims)
    size = abs(x)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    total = sum(square(size) if ord == 2 else size**ord, axis=axis, keepdims=keepdims)
    positive = where(total == 0, 1.0, total)  # the root has no derivative at 0; the norm's is taken for 0 there
    nothing = 0.0 if ord > 0 else math.inf if ord < 0 else math.nan
    return where(total == 0, nothing, sqrt(positive) if ord == 2 else positive ** (1 / ord))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro") -> Tensor:
    """A norm of each matrix x[..., m, n].

    "fro": √Σ|x|²; "nuc": the sum of the singular values; 2 and −2: the largest and smallest of them; 1 and −1: the
    largest and smallest sum of |x| over a column; inf and −inf: over a row. ValueError for another.

    >>> import tensor as tn
    >>> tn.linalg.matrix_norm(tn.asarray([[1.0, -2], [3, 4]]), ord=1).item()
    6.0
    """
    from tensor import abs, max, min, sum

    _floating("matrix_norm", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_norm: expected a matrix, or a batch of them, got shape {x.shape}")
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(x)
        result = sum(s, axis=-1) if ord == "nuc" else (max if ord == 2 else min)(s, axis=-1)
        return result.unsqueeze(-1).unsqueeze(-1) if keepdims else result
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    along = -2 if ord in (1, -1) else -1
    sums = sum(abs(x), axis=along, keepdims=True)
    result = (max if ord > 0 else min)(sums, axis=(-2, -1), keepdims=True)
    return result if keepdims else result.reshape(x.shape[:-2])


def norm(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """`vector_norm` by numpy's name.

    >>> import tensor as tn
    >>> tn.linalg.norm(tn.asarray([[3.0], [4]])).item()
    5.0
    """
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


# --- diagonals and cross products ------------------------------------------------------------------------------------


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The elements x[..., i, i + offset], along a last dimension.

    >>> import tensor as tn
    >>> tn.linalg.diagonal(tn.asarray([[1, 2], [3, 4]]), offset=1).tolist()
    [2]
    """
    _tensor("diagonal", x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: expected a matrix, or a batch of them, got shape {x.shape}")
    m, n = x.shape[-2:]
    row, column = max(-offset, 0), max(offset, 0)
    length = max(min(m - row, n - column), 0)
    start = row * n + column if length else 0
    stop = start + (length - 1) * (n + 1) + 1 if length else 0
    return x.reshape((*x.shape[:-2], m * n))[..., start : stop : n + 1]


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of `diagonal`, in the type that `sum` gives it.

    >>> import tensor as tn
    >>> tn.linalg.trace(tn.asarray([[1, 2], [3, 4]])).item()
    5
    """
    from tensor import sum

    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements along the axis; the other dimensions broadcast.

    >>> import tensor as tn
    >>> tn.linalg.cross(tn.asarray([1.0, 0, 0]), tn.asarray([0.0, 1, 0])).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = operands("cross", x1, x2)
    if a.dtype == "bool":
        raise DtypeError("cross: arithmetic on booleans has no meaning (hint: astype)")
    for x in (a, b):
        if not -x.ndim <= axis < x.ndim:
            raise AxisError(f"cross: axis {axis} is out of range for {x.ndim} dimensions")
        if x.shape[axis] != 3:
            raise ShapeError(f"cross: vectors must have 3 elements, got shapes {a.shape} and {b.shape}")
    shape = broadcast_shapes(a.shape, b.shape)
    at = axis % len(shape)
    before = (slice(None),) * at
    (a0, a1, a2), (b0, b1, b2) = (
        [y[(*before, i)] for i in range(3)] for y in (broadcast_to(a, shape), broadcast_to(b, shape))
    )
    return stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=at)


# --- checks ----------------------------------------------------------------------------------------------------------


def _tensor(name: str, x: Any) -> Tensor:
    if not isinstance(x, _kernels.Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__} (hint: asarray)")
    return x


def _in_double(name: str, x: Any) -> Tensor:
    """The matrices in float64 or complex128, in which singular values of float32 ones neither overflow nor vanish."""
    matrix_batch(name, _tensor(name, x), square=False)
    return cast_to(x, {"float32": "float64", "complex64": "complex128"}.get(x.dtype.name, x.dtype.name))


def _floating(name: str, x: Any) -> None:
    kinds = (*_EPSILON, "float16", "bfloat16")
    if _tensor(name, x).dtype.name not in kinds:
        raise DtypeError(f"{name}: expected floats or complex numbers, got {x.dtype.name} (hint: astype)")


def _solution(name: str, a: Tensor, b: Tensor, **params: Any) -> Tensor:
    a, b = operands(name, _tensor(name, a), _tensor(name, b))
    if a.ndim < 2 or b.ndim < 1:
        raise ShapeError(f"{name}: expected a matrix and a right side, got shapes {a.shape} and {b.shape}")
    vector = b.ndim == 1
    if vector:
        b = b.unsqueeze(-1)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:]))
    y = rules.call(name, a, b, **params)
    return y.reshape(y.shape[:-1]) if vector else y


def _cutoff(x: Tensor, s: Tensor, rtol: Any) -> Tensor:
    """What singular values are compared with, [..., 1]."""
    largest = s[..., :1]
    if rtol is None:
        return largest * (max(x.shape[-2:]) * _EPSILON[x.dtype.name])
    if isinstance(rtol, _kernels.Tensor):
        return largest * cast_to(rtol, s.dtype).unsqueeze(-1)
    return largest * rtol
