"""Twin of the Philox4x32-10 kernels: the definition of every random bit.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Positions count the words of a
stream: position p is word p mod 4 at the counter (lo, hi, c2, c3), where lo and hi are the halves of p div 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import elementary_ref
from tensor.fma_ref import F32

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
