"""Twin of vector/kernels/encode.cpp: norm → unit → rotate → code → scale, and the quantised query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensor.reduction_ref import ACCUMULATORS, BLOCK, LANES
from vector import rotation_ref
from vector.codebook import HIGH_LEVELS, LEVELS

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]

NORM_MIN = 1e-10  # a stored row is a zero row up to this norm


@dataclass(frozen=True)
class Encoded:
    """Rows as an index stores them."""

    codes: U8  # [n, D], 0 … 15
    scales: F32  # [n]
    scales_high: F32  # [n]
    norms2: F32  # [n]


def encode(x: F32, order: U32, signs: U32, limits: F32, unit_norm: bool) -> Encoded:  # x: [n, d], limits: [15]
    """Codes and scales of rows; unit_norm: scales as if every norm were 1 (the cosine metric).

    The norm is a float64 root of the float64 sum of squares in the lane order of tensor.reduction; the unit vector is
    the float64 quotient rounded to float32. A scale is norm / ⟨u, L⟩ in float64, rounded to float32: u the rotated
    unit vector, L the levels of its codes (of its two high bits for scales_high), the sum in the same lane order. A row
    of norm ≤ 1e-10 has the codes and the scale of a zero row.
    """
    norms2 = dot_rows(_wide(x), _wide(x))
    norm = np.sqrt(norms2)
    zero = norm <= NORM_MIN
    divisor = np.where(zero, 1.0, norm)
    unit = np.zeros((len(x), order.shape[1]), np.float32)
    unit[:, : x.shape[1]] = (_wide(x) / divisor[:, None]).astype(np.float32)
    unit[zero] = 0
    u = rotation_ref.rotate(unit, order, signs)
    codes = codes_of(u, limits)
    numerator = np.ones_like(norm) if unit_norm else norm
    return Encoded(
        codes,
        _scale(numerator, zero, dot_rows(_wide(u), LEVELS[codes].astype(np.float64))),
        _scale(numerator, zero, dot_rows(_wide(u), HIGH_LEVELS[codes >> 2].astype(np.float64))),
        norms2.astype(np.float32),
    )


def codes_of(u: F32, limits: F32) -> U8:  # [n, D], [15] → [n, D]
    """The number of boundaries strictly below each coordinate."""
    codes = np.zeros(u.shape, np.uint8)
    for boundary in limits:
        codes += boundary < u
    return codes


def quantise(q: F32, order: U32, signs: U32) -> tuple[I8, F64, F64]:  # [n, d] → [n, D], [n], [n]
    """int8 coordinates of queries, s_q, and the square of the norm.

    m = max |q|; x = rotate(q / m) in float32; t = max |x|; q_i = rint(x_i·127 / t) in float64, half to even;
    s_q = m·t / 127. A zero query has all q_i = 0 and s_q = 0.
    """
    m = np.abs(q).max(axis=1, initial=np.float32(0))
    padded = np.zeros((len(q), order.shape[1]), np.float32)
    padded[:, : q.shape[1]] = q / np.where(m == 0, np.float32(1), m)[:, None]
    x = rotation_ref.rotate(padded, order, signs)
    t = np.abs(x).max(axis=1, initial=np.float32(0))
    divisor = np.where(t == 0, 1.0, _wide(t))
    values = np.clip(np.rint(_wide(x) * 127.0 / divisor[:, None]), -127, 127).astype(np.int8)
    return values, _wide(m) * _wide(t) / 127.0, dot_rows(_wide(q), _wide(q))


def dot_rows(a: F64, b: F64) -> F64:  # [n, d], [n, d] → [n]
    """Row by row the bits of tensor.reduction.dot, for products that float64 holds exactly.

    >>> dot_rows(np.array([[3.0, 4.0]]), np.array([[3.0, 4.0]]))
    array([25.])
    """
    n, d = a.shape
    totals: list[F64] = []
    for first in range(0, d, BLOCK):
        lanes = np.zeros((n, ACCUMULATORS, LANES))
        for r, start in enumerate(range(first, min(first + BLOCK, d), LANES)):
            stop = min(start + LANES, d)
            lanes[:, r % ACCUMULATORS, : stop - start] += a[:, start:stop] * b[:, start:stop]
        folded = (lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3])
        for half in (8, 4, 2, 1):
            folded = folded[:, :half] + folded[:, half : 2 * half]
        totals.append(folded[:, 0])
    while len(totals) > 1:  # at most four blocks: neighbours join, an odd one waits
        totals = [totals[i] + totals[i + 1] if i + 1 < len(totals) else totals[i] for i in range(0, len(totals), 2)]
    return totals[0]


def _scale(numerator: F64, zero: NDArray[np.bool_], divisor: F64) -> F32:
    return np.where(zero, 0.0, numerator / np.where(zero, 1.0, divisor)).astype(np.float32)


def _wide(x: F32) -> F64:
    return x.astype(np.float64)
