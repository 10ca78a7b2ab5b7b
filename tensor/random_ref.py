"""Twin of the Philox4x32-10 kernels: the definition of every random bit.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Positions count the words of a
stream: position p is word p mod 4 at the counter (lo, hi, c2, c3), where lo and hi are the halves of p div 4. The
functions at the end draw for arrays of keys: element `offset` + i of each key's stream, i < n, along a new last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import elementary_ref
from tensor.fma_ref import F32, F64

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = 0xFFFFFFFF


def philox_block(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """The four words at one counter, in plain integers; key: 64 bits, low word first.

    >>> [f"{word:08x}" for word in philox_block(0, (1, 0, 0, 0))]
    ['f8e4cca4', '5cb200db', 'b1a574eb', '097eff67']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key & LOW, key >> 32
    for _ in range(ROUNDS):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & LOW, (p0 >> 32) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + KEY_STEPS[0]) & LOW, (k1 + KEY_STEPS[1]) & LOW
    return c0, c1, c2, c3


def philox_words(key: int, counter: int, c2: int, c3: int, skip: int, n: int) -> U32:
    """n words of the stream, from word `skip` of `counter` on."""
    counters = np.uint64(counter) + np.arange((skip + n + 3) // 4, dtype=np.uint64)
    low, shift = np.uint64(LOW), np.uint64(32)
    a, b = counters & low, counters >> shift
    c, d = np.full_like(a, c2), np.full_like(a, c3)
    k0, k1 = key & LOW, key >> 32
    for _ in range(ROUNDS):
        p, q = np.uint64(MULTIPLIERS[0]) * a, np.uint64(MULTIPLIERS[1]) * c
        a, b, c, d = (q >> shift) ^ b ^ np.uint64(k0), q & low, (p >> shift) ^ d ^ np.uint64(k1), p & low
        k0, k1 = (k0 + KEY_STEPS[0]) & LOW, (k1 + KEY_STEPS[1]) & LOW
    words = np.stack([a, b, c, d], axis=1).astype(np.uint32).reshape(-1)
    return words[skip : skip + n]


def _unit(words: U32) -> F32:
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def philox_uniform_f32(key: int, counter: int, skip: int, n: int) -> F32:
    """The upper 24 bits of each word, times 2^-24: in [0, 1)."""
    return _unit(philox_words(key, counter, 0, 0, skip, n))


def philox_normal_f32(key: int, counter: int, skip: int, n: int) -> F32:
    """Box and Muller on the word pairs (0, 1) and (2, 3) of each counter: r·cos 2πu₂, r·sin 2πu₂."""
    w = philox_words(key, counter, 0, 0, 0, 4 * ((skip + n + 3) // 4)).reshape(-1, 2)
    u1 = ((w[:, 0] >> np.uint32(8)) + np.uint32(1)).astype(np.float32) * np.float32(2.0**-24)  # above 0
    radius = np.sqrt(elementary_ref.log_f32(u1) * np.float32(-2))
    sine, cosine = elementary_ref.sine_and_cosine_2pi_f32(_unit(w[:, 1]))
    z = np.stack([radius * cosine, radius * sine], axis=1).reshape(-1)
    return z[skip : skip + n]


def philox_words64(key: int, offset: int, n: int, attempt: int = 0) -> U64:
    """n numbers of 64 bits, from the one with index `offset` on: two words each, the first one low."""
    words = philox_words(key, offset // 2, attempt, 0, 2 * (offset % 2), 2 * n).astype(np.uint64).reshape(-1, 2)
    return np.asarray(words[:, 0] | words[:, 1] << np.uint64(32))


def multiply_high(u: U64, m: int) -> tuple[U64, U64]:
    """High and low halves of the 128 bits of u·m, 1 ≤ m ≤ 2^64."""
    if m == 2**64:
        return u, np.zeros_like(u)
    low, shift = np.uint64(LOW), np.uint64(32)
    m0, m1 = np.uint64(m & LOW), np.uint64(m >> 32)
    u0, u1 = u & low, u >> shift
    p00, p01, p10 = u0 * m0, u0 * m1, u1 * m0
    middle = (p00 >> shift) + (p01 & low) + (p10 & low)
    high = u1 * m1 + (p01 >> shift) + (p10 >> shift) + (middle >> shift)
    return high, (middle << shift) | (p00 & low)


def _unit64(u: U64) -> F64:
    return (u >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _uniform(key: int, offset: int, n: int, dtype: str) -> Any:
    if dtype == "float64":
        return _unit64(philox_words64(key, offset, n))
    words = philox_words(key, offset // 4, 0, 0, offset % 4, n)
    if dtype == "float16":
        return ((words >> np.uint32(21)).astype(np.float32) * np.float32(2.0**-11)).astype(np.float16)
    if dtype == "bfloat16":
        return (words >> np.uint32(24)).astype(np.float32) * np.float32(2.0**-8)
    return _unit(words)


def _normal(key: int, offset: int, n: int, dtype: str) -> Any:
    if dtype != "float64":
        z = philox_normal_f32(key, offset // 4, offset % 4, n)
        return z.astype(np.float16) if dtype == "float16" else z
    from tensor.twins.trigonometric_ref import cos_f64, sin_f64

    skip = offset % 2
    u = philox_words64(key, offset - skip, 2 * ((skip + n + 1) // 2)).reshape(-1, 2)
    u1 = ((u[:, 0] >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
    radius = np.sqrt(elementary_ref.log_f64(u1) * -2.0)
    angle = _unit64(np.ascontiguousarray(u[:, 1])) * float.fromhex("0x1.921fb54442d18p+2")
    return np.stack([radius * cos_f64(angle), radius * sin_f64(angle)], axis=1).reshape(-1)[skip : skip + n]


def _integers(key: int, offset: int, n: int, low: int, count: int) -> U64:
    """low + ⌊u·count / 2^64⌋, modulo 2^64; where the lower half of u·count says so, of the next attempt's word."""
    value, rest = multiply_high(philox_words64(key, offset, n), count)
    attempt = 0
    while (again := rest < np.uint64(2**64 % count)).any():
        attempt += 1
        new_value, new_rest = multiply_high(philox_words64(key, offset, n, attempt), count)
        value, rest = np.where(again, new_value, value), np.where(again, new_rest, rest)
    return value + np.uint64(low % 2**64)


def _each(keys: U64, shape: tuple[int, ...], draw: Callable[[int, int], Any]) -> Any:
    """draw(key, n) for every key, in the shape of keys and then `shape`."""
    n = int(np.prod(shape, dtype=np.int64))
    rows = [draw(int(key), n) for key in keys.reshape(-1)]
    return np.stack(rows).reshape(keys.shape + shape) if rows else np.zeros(keys.shape + shape, draw(0, 0).dtype)


def _stored(values: Any, dtype: str) -> Any:
    if dtype != "bfloat16":
        return values
    from tensor.twins.bfloat16_ref import narrow_bfloat16

    return narrow_bfloat16(values)


def bits(keys: U64, shape: tuple[int, ...], offset: int, dtype: str) -> Any:
    """The words themselves: uint32, or uint64 made of two."""
    if dtype == "uint64":
        return _each(keys, shape, lambda key, n: philox_words64(key, offset, n))
    return _each(keys, shape, lambda key, n: philox_words(key, offset // 4, 0, 0, offset % 4, n))


def uniform(keys: U64, shape: tuple[int, ...], offset: int, dtype: str) -> Any:
    """In [0, 1): the upper 24 bits of a word; of float16 11, of bfloat16 8, of float64 the upper 53 of two words."""
    return _stored(_each(keys, shape, lambda key, n: _uniform(key, offset, n, dtype)), dtype)


def normal(keys: U64, shape: tuple[int, ...], offset: int, dtype: str) -> Any:
    """By Box and Muller in float32, for float16 and bfloat16 rounded once; float64 with 53 bits of two words."""
    return _stored(_each(keys, shape, lambda key, n: _normal(key, offset, n, dtype)), dtype)


def randint(keys: U64, shape: tuple[int, ...], offset: int, low: int, high: int, dtype: str) -> Any:
    """low ≤ x < high by Lemire's method."""
    return _each(keys, shape, lambda key, n: _integers(key, offset, n, low, high - low).astype(dtype))


def bernoulli(keys: U64, shape: tuple[int, ...], offset: int, limit: int) -> Any:
    """Where the upper 24 bits of a word are below the limit."""
    words = bits(keys, shape, offset, "uint32")
    return np.asarray((words >> np.uint32(8)) < np.uint32(limit))


def children(keys: U64, numbers: U64, tag: int) -> U64:
    """The first two words at the counter (lo, hi, 0, tag) of each number, under each key; the arrays broadcast."""
    keys, numbers = np.broadcast_arrays(keys, numbers)
    found = np.zeros(keys.shape, np.uint64)
    for at in np.ndindex(keys.shape):
        number = int(numbers[at])
        words = philox_block(int(keys[at]), (number & LOW, number >> 32, 0, tag))
        found[at] = words[0] | words[1] << 32
    return found
