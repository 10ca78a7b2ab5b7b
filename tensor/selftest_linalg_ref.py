"""Twin of tensor/kernels/selftest_linalg.cpp: digests of decompositions, Fourier transforms and sparse products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.twins import fft_ref, jacobi_ref, linalg_ref, sparse_ref

Array = NDArray[Any]

BATCH = 2
SIZES = (1, 2, 5)
LENGTHS = (1, 2, 3, 4, 6, 7, 12, 13, 16, 17, 30, 55, 64)


class Source:
    """The generator of the self-tests, one number after another."""

    def __init__(self, seed: int) -> None:
        from tensor.selftest_ref import splitmix64

        self._words = splitmix64
        self._seed = seed
        self._taken = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        found = self._words(self._seed, self._taken + count)[self._taken :]
        self._taken += count
        return found

    def below(self, count: int, bound: int) -> NDArray[np.int64]:
        return (self.words(count) % np.uint64(bound)).astype(np.int64)

    def fractions(self, count: int) -> NDArray[np.float64]:
        """Multiples of 1/512 in [−1, 1)."""
        return ((self.words(count) >> np.uint64(54)).astype(np.int64) - 512) / 512

    def array(self, dtype: np.dtype[Any], *shape: int) -> Array:
        parts = dtype.type(0).real.dtype
        count = int(np.prod(shape)) * (2 if dtype.kind == "c" else 1)
        return self.fractions(count).astype(parts).view(dtype).reshape(shape)

    def matrix(self, dtype: np.dtype[Any], n: int, positive: bool) -> Array:
        """Hermitian matrices."""
        x = self.array(dtype, BATCH, n, n)
        for a in x:
            for i in range(n):
                a[:i, i] = np.conj(a[i, :i])
                a[i, i] = a[i, i].real
                if positive:
                    a[i, i] += 2 * n
        return x


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel here, by name."""
    from tensor.selftest_ref import fnv1a

    found = {}
    for name, dtype in (("f32", "f4"), ("f64", "f8"), ("c64", "c8"), ("c128", "c16")):
        found[f"tensor.linalg_{name}"] = fnv1a(_linalg(np.dtype(dtype)))
    for name, complex_type, real in (("f32", "c8", "f4"), ("f64", "c16", "f8")):
        found[f"tensor.fft_{name}"] = fnv1a(_fft(np.dtype(complex_type), np.dtype(real)))
    for name, dtype in (("f32", "f4"), ("f64", "f8")):
        found[f"tensor.sparse_{name}"] = fnv1a(_sparse(np.dtype(dtype)))
    return found


def _each(
    function: Any, shapes: list[tuple[tuple[int, ...], Any]], *arrays: Array, options: Any = ()
) -> Iterator[Array]:
    """The statuses, then each result; −7 where a matrix was refused."""
    status = np.zeros(BATCH, np.int32)
    outs = [np.full((BATCH, *shape), -7, dtype) for shape, dtype in shapes]
    for out in outs:
        if out.dtype.kind == "c":
            out.imag = -7
    for i in range(BATCH):
        try:
            results = function(*(a[i] for a in arrays), *options)
        except linalg_ref.Refused as error:
            status[i] = error.step + 1 if error.step >= 0 else error.step
            continue
        for out, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
            out[i] = result
    yield status
    yield from outs


def _linalg(dtype: np.dtype[Any]) -> Iterator[Array]:
    source = Source(77)
    real = dtype.type(0).real.dtype
    for n in SIZES:
        square: list[tuple[tuple[int, ...], Any]] = [((n, n), dtype)]
        x = source.matrix(dtype, n, True)
        yield from _each(linalg_ref.cholesky, square, x)
        x = source.matrix(dtype, n, False)
        yield from _each(linalg_ref.cholesky, square, x)
        yield from _each(jacobi_ref.eigh, [((n,), real), ((n, n), dtype)], x)
        x = source.array(dtype, BATCH, n, n)
        yield from _each(linalg_ref.det, [((), dtype)], x)
        yield from _each(linalg_ref.slogdet, [((), dtype), ((), real)], x)
        yield from _each(linalg_ref.inv, square, x)
        b = source.array(dtype, BATCH, n, 3)
        yield from _each(linalg_ref.solve, [((n, 3), dtype)], x, b)
        for lower in (False, True):
            for unit in (False, True):
                yield from _each(linalg_ref.tri_solve, [((n, 3), dtype)], x, b, options=(lower, unit))
        for m in (n, n + 2, (n + 1) // 2):
            a, low = source.array(dtype, BATCH, m, n), min(m, n)
            yield from _each(linalg_ref.lu, [((m, n), dtype), ((m,), np.int64)], a)
            yield from _each(linalg_ref.qr, [((m, low), dtype), ((low, n), dtype)], a, options=(False,))
            yield from _each(linalg_ref.qr, [((m, m), dtype), ((m, n), dtype)], a, options=(True,))
            for full, left, right in ((False, low, low), (True, m, n)):
                shapes = [((m, left), dtype), ((low,), real), ((right, n), dtype)]
                yield from _each(jacobi_ref.svd, shapes, a, options=(full,))


def _fft(complex_type: np.dtype[Any], real: np.dtype[Any]) -> Iterator[Array]:
    source = Source(78)
    for n in LENGTHS:
        rows = 9 if n in (12, 17) else 2
        x, z = source.array(complex_type, rows, n), source.array(real, rows, n)
        yield fft_ref.fft(x, False, 0)
        yield fft_ref.fft(x, True, 1)
        half = fft_ref.rfft(z, 2)
        yield half
        yield fft_ref.irfft(half, n, 1)


def _sparse(dtype: np.dtype[Any]) -> Iterator[Array]:
    source = Source(79)
    for r, c in ((1, 1), (2, 3), (8, 1)):
        rows, columns, stored, n = 150, 20, 250, 21
        starts = np.zeros(rows + 1, np.int64)
        np.cumsum(np.bincount(source.below(stored, rows), minlength=rows), out=starts[1:])
        where = source.below(stored, columns)
        values, dense = source.array(dtype, stored, r, c), source.array(dtype, columns * c, n)
        yield sparse_ref.product(values, where, starts, dense)
    for k in (0, 1, 256, 300):
        m, n, count = 7, 9, 1500
        a, b = source.array(dtype, m, k), source.array(dtype, k, n)
        chosen, columns_of = source.below(count, m), source.below(count, n)
        yield sparse_ref.sampled(a, b, chosen, columns_of)
