"""Twin of the self-test (tensor/kernels/selftest.cpp): the digest of every kernel, computed by the Python twins.

`digests()` is where the golden values of tests/golden.toml come from; no kernel takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import elementary_ref, product_ref, random_ref, reduction_ref, selftest_linalg_ref
from tensor.fma_ref import fma_f32, fma_f64

Words = NDArray[np.uint64]
Floats = NDArray[Any]

_EDGES_F32 = np.array(
    [
        *(0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x00000001),
        *(0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x3F000000, 0xBF000000),
        *(0x40200000, 0xC0200000, 0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x4B800000, 0x42B17218, 0xC2D00000),
    ],
    np.uint32,
)
_EDGES_F64 = np.array(
    [
        *(0x0000000000000000, 0x8000000000000000, 0x7FF0000000000000, 0xFFF0000000000000),
        *(0x7FF8000000000000, 0xFFF8000000012345, 0x7FF0000000000001, 0x0000000000000001),
        *(0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x3FF0000000000000),
        *(0xBFE0000000000000, 0x4004000000000000, 0x40862E42FEFA39EF, 0xC0874910D52D3051),
    ],
    np.uint64,
)
_KEY = 0x299F31D0A4093822
_COUNTER = 0xFFFFFFFFFFFFFFF0  # wraps soon
_LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 65, 1000, 4095, 4096, 4097, 8192, 12289, 270001)
_SHORT = 200
# m, n, k, a transposed, b transposed, awkward values
_PRODUCTS = (
    (1, 1, 0, False, False, False),
    (1, 1, 1, False, False, False),
    (3, 5, 7, False, False, True),
    (14, 32, 256, False, False, False),
    (6, 16, 257, False, True, False),
    (29, 65, 20, True, False, True),
    (15, 33, 700, True, True, False),
    (300, 70, 257, False, False, False),
)


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel of tensor that is hashed here, by name."""
    from tensor.selftest_elementwise_ref import elementwise_digests
    from tensor.selftest_products_ref import product_digests
    from tensor.selftest_random_ref import random_digests
    from tensor.selftest_reduce_ref import reduce_digests
    from tensor.selftest_special_ref import special_digests

    f32, f64 = np.dtype(np.float32), np.dtype(np.float64)
    return (
        elementwise_digests()
        | {
            **special_digests(),
            **product_digests(),
            **reduce_digests(),
            "tensor.lanes_f32": fnv1a(probe_lanes_f32(awkward(seed, 32, f32)) for seed in range(100)),
            "tensor.lanes_f64": fnv1a(probe_lanes_f64(awkward(seed, 32, f64)[:16]) for seed in range(100)),
            "tensor.sum_f32": fnv1a(_sums(f32)),
            "tensor.sum_f64": fnv1a(_sums(f64)),
            "tensor.dot_f32": fnv1a(_dots(f32)),
            "tensor.dot_f64": fnv1a(_dots(f64)),
            "tensor.sum_rows_f32": fnv1a(_row_sums(f32)),
            "tensor.sum_rows_f64": fnv1a(_row_sums(f64)),
            "tensor.sum_columns_f32": fnv1a(_column_sums(f32)),
            "tensor.sum_columns_f64": fnv1a(_column_sums(f64)),
            "tensor.matmul_f32": fnv1a(_products(f32)),
            "tensor.matmul_f64": fnv1a(_products(f64)),
            "tensor.exp_f32": fnv1a(_unary(elementary_ref.exp_f32, f32)),
            "tensor.log_f32": fnv1a(_unary(elementary_ref.log_f32, f32)),
            "tensor.sin_f32": fnv1a(_unary(elementary_ref.sin_f32, f32)),
            "tensor.cos_f32": fnv1a(_unary(elementary_ref.cos_f32, f32)),
            "tensor.tanh_f32": fnv1a(_unary(elementary_ref.tanh_f32, f32)),
            "tensor.erf_f32": fnv1a(_unary(elementary_ref.erf_f32, f32)),
            "tensor.sqrt_f32": fnv1a(_unary(elementary_ref.sqrt_f32, f32)),
            "tensor.exp_f64": fnv1a(_unary(elementary_ref.exp_f64, f64)),
            "tensor.log_f64": fnv1a(_unary(elementary_ref.log_f64, f64)),
            "tensor.sqrt_f64": fnv1a(_unary(elementary_ref.sqrt_f64, f64)),
            "tensor.pow_f32": fnv1a(_powers()),
            "tensor.philox_words": fnv1a(iter([random_ref.philox_words(_KEY, _COUNTER, 7, 1, 3, 70001)])),
            "tensor.philox_uniform_f32": fnv1a(iter([random_ref.philox_uniform_f32(_KEY, _COUNTER, 1, 70001)])),
            "tensor.philox_normal_f32": fnv1a(iter([random_ref.philox_normal_f32(_KEY, _COUNTER, 1, 70001)])),
            **random_digests(),
        }
        | selftest_linalg_ref.digests()
    )


def fnv1a(parts: Iterator[Any] | bytes) -> str:
    """FNV-1a, 64 bits, over the bytes of all parts, as 16 hex digits.

    >>> fnv1a(b"a")
    'af63dc4c8601ec8c'
    """
    value = 0xCBF29CE484222325
    for part in [parts] if isinstance(parts, bytes) else parts:
        for byte in part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes():
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def splitmix64(seed: int, n: int) -> Words:
    """The first n words of the generator started at `seed`.

    >>> [hex(int(word)) for word in splitmix64(0, 2)]
    ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(seed: int, n: int, dtype: np.dtype[Any]) -> Floats:
    """Finite values over 32 binary orders of magnitude: plain_f32 and plain_f64 of selftest.hpp."""
    word = splitmix64(seed, n)
    if dtype == np.float32:
        mantissa = ((word >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32)
        exponent = np.uint64(127 - 40) + (word >> np.uint64(8) & np.uint64(31))
        return mantissa * (exponent << np.uint64(23)).astype(np.uint32).view(np.float32)
    wide = ((word >> np.uint64(11)).astype(np.int64) - (1 << 52)).astype(np.float64)
    power = np.uint64(1023 - 60) + (word & np.uint64(31)) << np.uint64(52)
    return wide * power.view(np.float64)


def awkward(seed: int, n: int, dtype: np.dtype[Any]) -> Floats:
    """One value in eight at an edge of the arithmetic, the others any bit pattern: awkward_f32 and awkward_f64."""
    word = splitmix64(seed, n)
    edge = (word & np.uint64(7)) == 0
    if dtype == np.float32:
        edges = _EDGES_F32[(word >> np.uint64(3)) % np.uint64(24)]
        return np.where(edge, edges, (word >> np.uint64(32)).astype(np.uint32)).view(np.float32)
    return np.where(edge, _EDGES_F64[(word >> np.uint64(3)) % np.uint64(16)], word).view(np.float64)


def _sums(dtype: np.dtype[Any]) -> Iterator[Any]:
    for n in _LENGTHS:
        x = values(n, n + 1, dtype)
        yield reduction_ref.sum(x[1:])
        if n <= 20000:
            yield reduction_ref.sum(x[:0:-1])
            yield reduction_ref.sum(x[: n // 3 * 3 : 3])
    for n in range(_SHORT):
        yield reduction_ref.sum(awkward(n, n, dtype))


def _dots(dtype: np.dtype[Any]) -> Iterator[Any]:
    for n in _LENGTHS:
        x, y = values(n, n + 1, dtype), values(n + 7, n, dtype)
        yield reduction_ref.dot(x[1:], y)
        if n <= 20000:
            yield reduction_ref.dot(x[::-1][: n // 2], y[::2][: n // 2])
    for n in range(_SHORT):
        yield reduction_ref.dot(awkward(n, n, dtype), awkward(n + 7, n, dtype))


def _row_sums(dtype: np.dtype[Any]) -> Iterator[Any]:
    for rows in (0, 1, 5, 60):
        for columns in (0, 1, 15, 300, 4100):
            x = values(rows, rows * (2 * columns + 1) + 1, dtype)[:-1].reshape(rows, 2 * columns + 1)
            yield np.array([reduction_ref.sum(row[: 2 * columns : 2]) for row in x], dtype)


def _column_sums(dtype: np.dtype[Any]) -> Iterator[Any]:
    for rows in (0, 1, 63, 65, 4100):
        for columns in (1, 15, 37):
            x = values(rows, (rows + 1) * (columns + 2), dtype)
            table = np.lib.stride_tricks.as_strided(x[1:], (rows, columns), ((columns + 2) * x.itemsize, x.itemsize))
            yield np.array([reduction_ref.sum(table[:, j]) for j in range(columns)], dtype)


def _products(dtype: np.dtype[Any]) -> Iterator[Any]:
    for m, n, k, a_transposed, b_transposed, is_awkward in _PRODUCTS:
        make = awkward if is_awkward else values
        a, b = make(k, m * k, dtype), make(k + 7, k * n, dtype)
        yield product_ref.matmul(
            a.reshape(k, m).T if a_transposed else a.reshape(m, k),
            b.reshape(n, k).T if b_transposed else b.reshape(k, n),
        )


def _unary(function: Callable[[Any], Any], dtype: np.dtype[Any]) -> Iterator[Any]:
    yield function(awkward(21, 70001, dtype))
    yield function(values(22, 20011, dtype))


def _powers() -> Iterator[Any]:
    f32 = np.dtype(np.float32)
    plain = values(22, 20011, f32)
    yield elementary_ref.pow_f32(awkward(21, 70001, f32), awkward(23, 70001, f32))
    yield elementary_ref.pow_f32(plain, values(24, 20011, f32))
    yield elementary_ref.pow_f32(plain, np.full_like(plain, 3))


def _canonical(x: Floats) -> Floats:
    return np.where(np.isnan(x), x.dtype.type(np.nan), x)


def _larger(a: Floats, b: Floats, word: Any, smaller: bool) -> Floats:
    """maximum (or minimum): NaN if either is NaN; equal operands give AND (OR) of the bits, so that +0 is above −0."""
    bits_a, bits_b = a.view(word), b.view(word)
    equal = (bits_a | bits_b) if smaller else (bits_a & bits_b)
    chosen = np.where(b < a, b, a) if smaller else np.where(a < b, b, a)
    out = np.where(a == b, equal.view(a.dtype), chosen)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), out)


def _lane_tree(x: Floats) -> Any:
    while len(x) > 1:
        half = len(x) // 2
        x = x[:half] + x[half:]
    return x[0]


def _common(a: Floats, b: Floats, shift: int) -> Iterator[Any]:
    """What lanes of both widths do, in the order of lanes_probe.cpp."""
    fma: Callable[..., Floats] = fma_f32 if a.dtype == np.float32 else fma_f64
    word: Any = np.uint32 if a.dtype == np.float32 else np.uint64
    signed: Any = np.int32 if a.dtype == np.float32 else np.int64

    def full(value: Any) -> Floats:
        return np.full(len(a), value)

    def mask(truth: NDArray[np.bool_]) -> Floats:
        return full(word(sum(1 << lane for lane, t in enumerate(truth) if t)))

    for result in (a + b, a - b, a * b, a / b, -a, fma(a, b, a), fma(-a, b, b), np.sqrt(a), np.rint(a), np.floor(a)):
        yield _canonical(result)
    yield _larger(a, b, word, smaller=False)
    yield _larger(a, b, word, smaller=True)
    for result in (np.abs(a), np.copysign(a, b), np.where(a < b, a, b)):
        yield _canonical(result)
    for truth in (a < b, a <= b, a > b, a >= b, a == b, ~(a == b), np.isnan(a) | np.isnan(b)):
        yield mask(truth)
    yield full(_canonical(np.asarray(_lane_tree(a))))
    x: Any = a.view(word)
    y: Any = b.view(word)
    yield from (x + y, x - y, x * y, (x & y) | (~x ^ y), x << word(shift), x >> word(shift))
    yield x.view(signed) >> signed(shift)
    yield from (mask(x < y), mask(x.view(signed) > y.view(signed)), mask((x == y) | (x.view(signed) >= y.view(signed))))


def _partial(x: Floats, width: int, word: Any) -> Iterator[Any]:
    a, b = x[:width], x[width:]
    for n in range(width + 2):
        yield _canonical(np.where(np.arange(width) < n, a, x.dtype.type(2)))
        yield np.where(np.arange(width) < n, _canonical(b).view(word), word(0xABCD))


def probe_lanes_f32(x: Floats) -> bytes:  # [32]
    """Every lane operation on 16 lanes of float32 and their neighbours."""
    a, b = x[:16], x[16:]
    with np.errstate(all="ignore"):
        parts = list(_common(a, b, 7))
        wide = np.where(np.isnan(a), np.float64(0), a.astype(np.float64))
        parts.append(np.clip(np.trunc(wide), -(2.0**31), 2.0**31 - 1).astype(np.int32))
        parts.append(a.view(np.int32).astype(np.float32))
        parts.append(_canonical(a))
        parts.append(_canonical((a.astype(np.float64) * b.astype(np.float64)).astype(np.float32)))
        words = a.view(np.uint32).astype(np.uint64)
        low = words[:8] * words[8:] >> np.uint64(16)
        parts.append(np.concatenate([low, words[8:]]).astype(np.uint32))
        parts.extend(_partial(x, 16, np.uint32))
    return b"".join(part.tobytes() for part in parts)


def probe_lanes_f64(x: Floats) -> bytes:  # [16]
    """Every lane operation on 8 lanes of float64 and their neighbours."""
    a, b = x[:8], x[8:]
    with np.errstate(all="ignore"):
        parts = list(_common(a, b, 13))
        low = np.uint64(0xFFFFFFFF)
        parts.append((a.view(np.uint64) & low) * (b.view(np.uint64) & low))
        parts.append(np.full(8, _canonical(np.asarray(_lane_tree(x)))))
        parts.extend(_partial(x, 8, np.uint64))
    return b"".join(part.tobytes() for part in parts)
