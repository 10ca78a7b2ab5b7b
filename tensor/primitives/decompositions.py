"""Rows of decompositions by reflections and rotations: qr, eigh, svd. Sources, and what they are made of: linalg.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensor.errors import GradientError
from tensor.primitives.linalg import (
    REALS,
    adjoint,
    diagonal_part,
    flops_of,
    identity,
    linalg_row,
    matrix_batch,
    normal,
    quotient,
    real_part,
    real_type,
    tri_solved,
    upper_part,
)
from tensor.primitives.primitive import Sample, keep
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any


# --- QR --------------------------------------------------------------------------------------------------------------


def _qr_shape(specs: Sequence[Any], params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    batch = matrix_batch("qr", x, square=False)
    m, n = x.shape[-2:]
    k = m if params["full"] else min(m, n)
    return Spec((*batch, m, k), x.dtype, x.device), Spec((*batch, k, n), x.dtype, x.device)


def _qr_vjp(g: Any, node: Any) -> tuple[Tensor]:
    q, r = node.outputs
    g_q, g_r = g
    m, k, n = q.shape[-2], q.shape[-1], r.shape[-1]
    if k > n:
        raise GradientError("qr: mode 'complete' of a tall matrix has no gradient (hint: mode='reduced')")
    if n == k:
        return (_qr_gradient(q, r, g_q, g_r),)
    from tensor.functions.manipulation import concat

    beside, g_beside = r[..., k:], g_r[..., k:]  # R = [U | V], V = Qᴴ·Y
    g_y = q @ g_beside
    y = q @ beside
    g_x = _qr_gradient(q, r[..., :k], g_q + y @ adjoint(g_beside), g_r[..., :k])
    assert m == k
    return (concat([g_x, g_y], axis=-1),)


def _qr_gradient(q: Tensor, r: Tensor, g_q: Tensor, g_r: Tensor) -> Tensor:
    s = upper_part(g_r @ adjoint(r) - adjoint(q) @ g_q)
    s = s + adjoint(s) - real_part(diagonal_part(s))
    return adjoint(tri_solved(r, adjoint(g_q + q @ s), lower=False))


def _mode_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 5, 3), (2, 4), (1, 1), (0, 2)):
        full = shape[-2] <= shape[-1]
        yield Sample(normal(rng, *shape), params={"full": False})
        yield Sample(normal(rng, *shape), params={"full": True}, gradcheck=full)


def _orthonormal(columns: Any) -> tuple[Any, Any]:
    import numpy as np

    n = columns.shape[-1]
    gram = columns.conj().swapaxes(-1, -2) @ columns
    return gram, np.broadcast_to(np.eye(n), gram.shape)


def _qr_invariant(arrays: tuple[Any, ...], outs: tuple[Any, ...], params: Params) -> list[tuple[Any, Any]]:
    import numpy as np

    q, r = outs
    return [(q @ r, arrays[0]), (np.triu(r), r), _orthonormal(q)]


QR = linalg_row(
    "qr",
    (2, 2),
    summary="Orthonormal columns times an upper triangular matrix, by Householder reflections; `full`: all columns.",
    shape=_qr_shape,
    keeps=keep(outputs=(0, 1)),
    vjp=_qr_vjp,
    invariant=_qr_invariant,
    cost=flops_of(lambda m, n: 4 * m * n * min(m, n)),
    samples=_mode_samples,
)


# --- eigenvalues and singular values ---------------------------------------------------------------------------------


def symmetric(rng: np.random.Generator, n: int) -> Any:
    import numpy as np

    a = 0.1 * rng.normal(size=(n, n))
    return a + a.T + np.diag(np.arange(n) - 1.25)  # eigenvalues that keep apart


def _eigh_shape(specs: Sequence[Any], params: Params) -> tuple[Spec, Spec]:
    x = specs[0]
    batch = matrix_batch("eigh", x, square=True)
    return Spec((*batch, x.shape[-1]), real_type(x), x.device), Spec(tuple(x.shape), x.dtype, x.device)


def _eigh_vjp(g: Any, node: Any) -> tuple[Tensor]:
    from tensor.functions.promotion import cast_to

    w, v = node.outputs
    g_w, g_v = g
    n = w.shape[-1]
    up = adjoint(v)
    inner = quotient(up @ g_v, cast_to(w.unsqueeze(-2) - w.unsqueeze(-1), v.dtype))
    inner = inner + cast_to(g_w.unsqueeze(-1), v.dtype) * identity(v, n)
    s = v @ inner @ up
    return ((s + adjoint(s)) / 2,)


def _eigh_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(symmetric(rng, 3), params={"check": True}, dtypes=REALS, hermitian=(0,))
    yield Sample(symmetric(rng, 4)[None] * [[[1.0]], [[-2.0]]], params={"check": True}, dtypes=REALS, hermitian=(0,))
    yield Sample(symmetric(rng, 7), params={"check": True}, gradcheck=False, hermitian=(0,))
    yield Sample(rng.normal(size=(2, 5, 5)), params={"check": False}, gradcheck=False)
    yield Sample(normal(rng, 0, 0), params={"check": True})


def _eigh_invariant(arrays: tuple[Any, ...], outs: tuple[Any, ...], params: Params) -> list[tuple[Any, Any]]:
    import numpy as np

    (x,), (values, vectors) = arrays, outs
    symmetric = (x + x.conj().swapaxes(-1, -2)) / 2
    scaled = vectors * values[..., None, :]
    return [(symmetric @ vectors, scaled), (np.sort(values, axis=-1), values), _orthonormal(vectors)]


EIGH = linalg_row(
    "eigh",
    (1, 2),
    summary="Eigenvalues, ascending, and eigenvectors (columns) of (x + its adjoint) / 2, by Jacobi rotations; `check` "
    "refuses what is not Hermitian.",
    shape=_eigh_shape,
    keeps=keep(outputs=(0, 1)),
    vjp=_eigh_vjp,
    invariant=_eigh_invariant,
    cost=flops_of(lambda m, n: 60 * n**3),
    samples=_eigh_samples,
)


def _svd_shape(specs: Sequence[Any], params: Params) -> tuple[Spec, Spec, Spec]:
    x = specs[0]
    batch = matrix_batch("svd", x, square=False)
    m, n = x.shape[-2:]
    k = min(m, n)
    u, vh = ((m, m), (n, n)) if params["full"] else ((m, k), (k, n))
    return (
        Spec((*batch, *u), x.dtype, x.device),
        Spec((*batch, k), real_type(x), x.device),
        Spec((*batch, *vh), x.dtype, x.device),
    )


def _svd_vjp(g: Any, node: Any) -> tuple[Tensor]:
    from tensor.functions.promotion import cast_to

    u, s, vh = node.outputs
    g_u, g_s, g_vh = g
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if u.shape[-1] > k or vh.shape[-2] > k:
        raise GradientError("svd: full_matrices=True has no gradient unless the matrix is square (hint: False)")
    squares = s * s
    apart = cast_to(squares.unsqueeze(-2) - squares.unsqueeze(-1), u.dtype)
    size = cast_to(s, u.dtype)
    uh, v, g_v = adjoint(u), adjoint(vh), adjoint(g_vh)
    left, right = uh @ g_u, vh @ g_v
    inner = quotient(left - adjoint(left), apart) * size.unsqueeze(-2)
    inner = inner + size.unsqueeze(-1) * quotient(right - adjoint(right), apart)
    inner = inner + cast_to(g_s.unsqueeze(-1), u.dtype) * identity(u, k)
    result = u @ inner @ vh
    if m > k:
        result = result + ((g_u - u @ left) / size.unsqueeze(-2)) @ vh
    if n > k:
        result = result + u @ ((g_vh - adjoint(v @ right)) / size.unsqueeze(-1))
    return (result,)


def _svd_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 4, 2), (2, 5)):
        yield Sample(normal(rng, *shape), params={"full": False}, dtypes=REALS)
        yield Sample(normal(rng, *shape), params={"full": True}, gradcheck=shape[-1] == shape[-2], dtypes=REALS)
    yield Sample(normal(rng, 5, 3), params={"full": False}, gradcheck=False)
    yield Sample(normal(rng, 3, 4), params={"full": True}, gradcheck=False)
    yield Sample(normal(rng, 0, 2), params={"full": False})


def _svd_invariant(arrays: tuple[Any, ...], outs: tuple[Any, ...], params: Params) -> list[tuple[Any, Any]]:
    import numpy as np

    u, s, vh = outs
    k = s.shape[-1]
    product = (u[..., :, :k] * s[..., None, :]) @ vh[..., :k, :]
    descending = np.sort(s, axis=-1)[..., ::-1]
    rows = vh.conj().swapaxes(-1, -2)
    return [(product, arrays[0]), (descending, s), _orthonormal(u), _orthonormal(rows)]


SVD = linalg_row(
    "svd",
    (2, 1, 2),
    summary="Left singular vectors, singular values (descending), adjoint of the right vectors, by rotations.",
    shape=_svd_shape,
    keeps=keep(outputs=(0, 1, 2)),
    vjp=_svd_vjp,
    invariant=_svd_invariant,
    cost=flops_of(lambda m, n: 4 * m * n * min(m, n) + 60 * min(m, n) ** 3),
    samples=_svd_samples,
)
