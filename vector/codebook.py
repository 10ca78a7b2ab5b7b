"""The 4-bit code of a coordinate: Lloyd–Max quantiser of the normal distribution, and the int8 levels it is scored by.

A rotated unit vector of D coordinates has coordinates close to N(0, 1/D): boundaries and centroids are those of N(0,
1) times 1/sqrt(D). Source: Lloyd, "Least squares quantization in PCM", 1982; Max, "Quantizing for minimum
distortion", 1960. The two high bits of a code are themselves a 2-bit code, with levels of its own.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tensor.float_mode import plain_mode
from vector.errors import VectorValueError

F32 = NDArray[np.float32]

BITS = (4,)  # the code sizes that are built
GROUP = 64  # a padded dimension is a multiple of it
DIM_MAX = 16384

# Positive halves for N(0, 1); the boundary between codes 7 and 8 is 0.
CENTROIDS_POSITIVE = (
    *(0.1283950299, 0.3880482995, 0.6567591185, 0.9423404565),
    *(1.2562311973, 1.6180463860, 2.0690172265, 2.7325895710),
)
BOUNDARIES_POSITIVE = (
    *(0.2582216647, 0.5224037090, 0.7995497875, 1.0992858269),
    *(1.4371387917, 1.8435318063, 2.4008033988),
)
LEVELS_POSITIVE = (6, 18, 31, 44, 58, 75, 96, 127)  # round(127 · c / the largest c)
HIGH_LEVELS_POSITIVE = (39, 127)

LEVELS: NDArray[np.int8] = np.array([*(-x for x in LEVELS_POSITIVE[::-1]), *LEVELS_POSITIVE], np.int8)  # by code
HIGH_LEVELS: NDArray[np.int8] = np.array([-127, -39, 39, 127], np.int8)  # by code >> 2
for _table in (LEVELS, HIGH_LEVELS):
    _table.flags.writeable = False


def padded_dim(dim: int) -> int:
    """D: the dimension padded to the next multiple of 64.

    >>> padded_dim(100)
    128
    """
    return -(-dim // GROUP) * GROUP


def block_size(padded: int) -> int:
    """B: the largest power of two that divides D, the length of a Walsh–Hadamard block; at least 64.

    >>> block_size(192), block_size(256)
    (64, 256)
    """
    return padded & -padded


@plain_mode()
def inverse_root(n: int) -> np.float32:
    """1/sqrt(n) as float32: the root of the float32 quotient 1/n, each rounded once.

    >>> inverse_root(64)
    np.float32(0.125)
    """
    root: np.float32 = np.sqrt(np.float32(1) / np.float32(n))
    return root


@lru_cache(maxsize=16)
@plain_mode()
def boundaries(padded: int) -> F32:
    """float32[15], ascending: a coordinate's code is the number of boundaries strictly below it.

    >>> boundaries(128)[6:9]
    array([-0.02282378,  0.        ,  0.02282378], dtype=float32)
    """
    positive = np.array(BOUNDARIES_POSITIVE, np.float32) * inverse_root(padded)
    limits = np.concatenate([-positive[::-1], np.zeros(1, np.float32), positive])
    limits.flags.writeable = False
    return limits


def check_bits(bits: object, function: str) -> int:
    """The number of bits if codes of that size are built, else VectorValueError saying which are."""
    if isinstance(bits, (bool, np.bool_)) or not isinstance(bits, (int, np.integer)) or bits not in BITS:
        raise VectorValueError(f"{function}: bits must be 4, the code size that this version has, got {bits!r}")
    return int(bits)
