"""From vectors to what an index stores and searches by: codes and scales of rows, int8 queries.

norm → unit → rotate → code → scale, as `encoder_ref.py` defines it. Dividing the norm by ⟨u, L⟩, the product of the
rotated unit vector with the levels it is scored by, makes a row's product with itself come out right; it is worth
several points of recall. A row's result depends on that row only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from tensor.float_mode import plain_mode
from vector import _kernels, encoder_ref
from vector.codebook import boundaries
from vector.nibbles import lanes_of
from vector.rotation import Rotation
from vector.row_store import RowStore, Segment

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

REFERENCE = _kernels.isa() == "ref"
CHUNK_ROWS = 4096  # rows encoded by one call: bounds the wait for Ctrl-C and the twin's memory


@dataclass(frozen=True)
class Queries:
    """Queries as rows are scored against them."""

    values: NDArray[np.int8]  # [nq, D]
    scales: F64  # [nq], s_q
    norms2: F64  # [nq], the squares of the norms


def encode(x: F32, turn: Rotation, metric: str, store: RowStore, first: int) -> None:  # x: [n, d]
    """Encodes rows into the places first … first + n − 1 of the store, for which it has room."""
    limits = boundaries(turn.padded)
    done = 0
    while done < len(x):
        segment = store.segment_of(first + done)
        place = first + done - segment.first
        chunk = x[done : done + min(CHUNK_ROWS, segment.capacity - place)]
        if REFERENCE:
            _encode_by_twin(chunk, turn, limits, metric, segment, place)
        else:
            _kernels.encode_rows(
                *(chunk, turn.order, turn.signs, limits, metric == "cosine", place),
                *(segment.codes.reshape(-1), segment.scales, segment.scales_high, segment.norms2),
            )
        done += len(chunk)


def quantise(q: F32, turn: Rotation) -> Queries:  # [nq, d]
    """Queries as int8 coordinates with a scale each."""
    n = len(q)
    values = memory.allocate((n, turn.padded), np.int8, "queries")
    scales, norms2 = np.empty(n), np.empty(n)
    if REFERENCE:
        with plain_mode():
            values[...], scales, norms2 = encoder_ref.quantise(q, turn.order, turn.signs)
    else:
        _kernels.encode_queries(q, turn.order, turn.signs, values, scales, norms2)
    return Queries(values, scales, norms2)


def _encode_by_twin(x: F32, turn: Rotation, limits: F32, metric: str, segment: Segment, place: int) -> None:
    with plain_mode():
        rows = encoder_ref.encode(x, turn.order, turn.signs, limits, metric == "cosine")
    at = np.arange(place, place + len(x))
    segment.codes[at // 32, :, :, at % 32] = lanes_of(rows.codes)
    segment.scales[at], segment.scales_high[at] = rows.scales, rows.scales_high
    if len(segment.norms2):
        segment.norms2[at] = rows.norms2
