"""Twin of vector/kernels/rotate.cpp: the definition of the rotation and of its tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor.random_ref import philox_words
from vector.codebook import block_size, inverse_root

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]

ROUNDS = 2
STREAM = 3  # fourth counter word of all words drawn here; tensor.random uses 0, 1 and 2
PERMUTATION, SIGNS = 0, 1
_SIGN_BIT = np.uint32(0x80000000)


def tables(padded: int, seed: int) -> tuple[U32, U32]:
    """Order and sign bits of each round, uint32[2, D] both, from Philox4x32-10 with the seed as key.

    Word i of purpose p in round r is word i mod 4 at the counter (i div 4, 0, 2·r + p, 3); p is 0 for the permutation
    and 1 for the signs. The permutation is Fisher and Yates' over 0 … D−1: for i = D−1 down to 1 entry i changes
    places with entry j = (word i · (i+1)) >> 32. A coordinate changes its sign where the top bit of its word is 1.

    >>> order, signs = tables(64, 0)
    >>> order[0, :5], signs[0, :5] >> 31
    (array([25, 39, 54, 57,  9], dtype=uint32), array([1, 1, 0, 1, 0], dtype=uint32))
    """
    order, signs = np.empty((ROUNDS, padded), np.uint32), np.empty((ROUNDS, padded), np.uint32)
    for r in range(ROUNDS):
        words = philox_words(seed, 0, 2 * r + PERMUTATION, STREAM, 0, padded).tolist()
        entries = list(range(padded))
        for i in range(padded - 1, 0, -1):
            j = (words[i] * (i + 1)) >> 32
            entries[i], entries[j] = entries[j], entries[i]
        order[r] = entries
        signs[r] = philox_words(seed, 0, 2 * r + SIGNS, STREAM, 0, padded) & _SIGN_BIT
    return order, signs


def rotate(x: F32, order: U32, signs: U32) -> F32:  # [n, D], [2, D], [2, D] → [n, D]
    """Two rounds of: coordinate i becomes coordinate order[i]; signs; the transform of each block times 1/sqrt(B)."""
    y = x
    for r in range(ROUNDS):
        y = hadamard((y[:, order[r]].view(np.uint32) ^ signs[r]).view(np.float32))
    return y


def unrotate(y: F32, order: U32, signs: U32) -> F32:  # [n, D], [2, D], [2, D] → [n, D]
    """The inverse of `rotate`, up to the rounding of each."""
    x = y
    for r in reversed(range(ROUNDS)):
        x, turned = np.empty_like(x), (hadamard(x).view(np.uint32) ^ signs[r]).view(np.float32)
        x[:, order[r]] = turned
    return x


def hadamard(x: F32) -> F32:  # [n, D] → [n, D]
    """Walsh–Hadamard transform of each block of B coordinates, times float32 1/sqrt(B).

    Stages h = 1, 2, 4, … B/2 in this order: (a, b) at distance h become (a + b, a − b).

    >>> hadamard(np.eye(1, 64, dtype=np.float32))[0, :3]
    array([0.125, 0.125, 0.125], dtype=float32)
    """
    n, padded = x.shape
    size = block_size(padded)
    y, h = x, 1
    while h < size:
        pairs = y.reshape(n, padded // (2 * h), 2, h)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(n, padded)
        h *= 2
    return y * inverse_root(size)
