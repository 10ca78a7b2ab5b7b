"""The rows of an index in memory: segments of a fixed number of rows, so that growth copies at most one of them.

A searcher works on a snapshot: the list of segments and the number of rows at one moment. While snapshots are alive,
rows that they can see are not written: the segment is copied first. Adding rows writes only places that no snapshot
sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from vector.nibbles import BLOCK_ROWS

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

SEGMENT_BYTES = 1 << 22  # codes of a full segment, at most
SMALL_ROWS = (
    1024  # up to here the first segment doubles; then it has its full size, of which the system gives what is used
)
MOVED_ROWS = 1024  # rows copied by one numpy call


@dataclass
class Segment:
    """Some rows, with room for `capacity` of them. Content past the last row means nothing."""

    first: int  # slot of its first row
    codes: U8  # [capacity/32, D/64, 8, 32, 4]
    scales: F32  # [capacity]
    scales_high: F32  # [capacity]
    norms2: F32  # [capacity], or empty where the metric is not l2
    ids: U64  # [capacity], or empty where slots are the ids
    seen: int = 0  # rows of it that living snapshots see

    @property
    def capacity(self) -> int:
        return len(self.scales)


@dataclass(frozen=True)
class Snapshot:
    """The rows at one moment."""

    rows: int
    segments: list[tuple[U8, F32, F32, U64, int, int]]  # as the scan takes them


class RowStore:
    """Codes, scales and ids of rows, by slot."""

    def __init__(self, padded: int, *, l2: bool, with_ids: bool) -> None:
        self.padded = padded
        self.l2 = l2
        self.with_ids = with_ids
        self.shift = (SEGMENT_BYTES // (padded // 2)).bit_length() - 1
        self.segment_rows = 1 << self.shift
        self.segments: list[Segment] = []
        self.rows = 0
        self.snapshots = 0

    def segment_of(self, slot: int) -> Segment:
        """The segment that a slot lies in."""
        return self.segments[slot >> self.shift]

    def grow(self, rows: int) -> None:
        """Makes room for that many rows in all. Raises MemoryError (BudgetExceeded) with the rows as they were."""
        if rows == self.rows:
            return
        while True:
            last = self.segments[-1] if self.segments else None
            room = last.first + last.capacity if last else 0
            if room >= rows:
                break
            if last is None or last.capacity == self.segment_rows:
                self.segments.append(self._segment(room, self._capacity(rows - room)))
            else:
                self.segments[-1] = self._copy(last, self._capacity(rows - last.first))
        first = self.segments[self.rows >> self.shift]
        if self.snapshots and self.rows - first.first < first.seen:  # places of removed rows that a snapshot still sees
            self.segments[self.rows >> self.shift] = self._copy(first, first.capacity)

    def snapshot(self) -> Snapshot:
        """The rows now; `release` ends it."""
        parts = []
        for s in self.segments:
            rows = min(self.rows - s.first, s.capacity)
            if rows > 0:
                s.seen = max(s.seen, rows) if self.snapshots else rows
                parts.append((s.codes.reshape(-1), s.scales, s.norms2, s.ids, s.first, rows))
            elif not self.snapshots:
                s.seen = 0
        self.snapshots += 1
        return Snapshot(self.rows, parts)

    def release(self) -> None:
        """Ends a snapshot."""
        self.snapshots -= 1

    def make_writable(self, slots: I64) -> None:
        """Copies the segments of slots that a living snapshot sees. Raises MemoryError (BudgetExceeded)."""
        if not self.snapshots:
            return
        for number in np.unique(slots >> self.shift).tolist():
            segment = self.segments[number]
            if int(slots[slots >> self.shift == number].min()) - segment.first < segment.seen:
                self.segments[number] = self._copy(segment, segment.capacity)

    def take(self, other: RowStore, sources: I64, targets: I64) -> None:
        """Copies rows of a store into slots of this one, which `make_writable` or `grow` made ready."""
        for start in range(0, len(sources), MOVED_ROWS):
            piece = sources[start : start + MOVED_ROWS], targets[start : start + MOVED_ROWS]
            for source, target in sorted({*zip(piece[0] >> other.shift, piece[1] >> self.shift, strict=True)}):
                chosen = (piece[0] >> other.shift == source) & (piece[1] >> self.shift == target)
                a, b = other.segments[source], self.segments[target]
                i, j = piece[0][chosen] - a.first, piece[1][chosen] - b.first
                b.codes[j // BLOCK_ROWS, :, :, j % BLOCK_ROWS] = a.codes[i // BLOCK_ROWS, :, :, i % BLOCK_ROWS]
                b.scales[j], b.scales_high[j] = a.scales[i], a.scales_high[i]
                if self.l2:
                    b.norms2[j] = a.norms2[i]
                if self.with_ids:
                    b.ids[j] = a.ids[i]

    def set_ids(self, first: int, ids: U64) -> None:
        """Writes ids into the slots first, first + 1, …, which no snapshot sees."""
        done = 0
        while done < len(ids):
            segment = self.segment_of(first + done)
            place = first + done - segment.first
            part = ids[done : done + segment.capacity - place]
            segment.ids[place : place + len(part)] = part
            done += len(part)

    def shrink(self, rows: int) -> None:
        """Forgets the rows from `rows` on."""
        self.rows = rows
        while self.segments and self.segments[-1].first >= rows:
            self.segments.pop()

    def lanes(self, slot: int) -> tuple[U8, np.float32]:
        """Lanes uint8[D/64, 8, 4] and scale of one row."""
        segment = self.segment_of(slot)
        place = slot - segment.first
        return segment.codes[place // BLOCK_ROWS, :, :, place % BLOCK_ROWS].copy(), segment.scales[place]

    def ids_at(self, slots: I64) -> U64:
        """uint64[n]: the ids of slots."""
        out = np.empty(len(slots), np.uint64)
        for number, segment in enumerate(self.segments):
            chosen = slots >> self.shift == number
            out[chosen] = segment.ids[slots[chosen] - segment.first]
        return out

    def adopt(self, codes: U8, scales: F32, scales_high: F32, norms2: F32, ids: U64, *, rows: int) -> None:
        """Takes over arrays of a file, in views of a segment each; only the last is copied. For an empty store."""
        blocks = self.segment_rows // BLOCK_ROWS
        for first in range(0, rows, self.segment_rows):
            part = slice(first, first + self.segment_rows)
            piece = codes[first // BLOCK_ROWS : first // BLOCK_ROWS + blocks]
            segment = Segment(first, piece, scales[part], scales_high[part], norms2[part], ids[part])
            whole = segment.capacity == self.segment_rows
            self.segments.append(segment if whole else self._copy(segment, self._capacity(segment.capacity)))
        self.rows = rows

    def pieces(self, blocks: int) -> Iterator[tuple[U8, int]]:
        """Codes uint8[m, D/64, 8, 32, 4] of at most `blocks` blocks at a time, and how many rows of them are used."""
        for segment in self.segments:
            rows = min(self.rows - segment.first, segment.capacity)
            for start in range(0, rows, blocks * BLOCK_ROWS):
                stop = min(start + blocks * BLOCK_ROWS, rows)
                yield segment.codes[start // BLOCK_ROWS : -(-stop // BLOCK_ROWS)], stop - start

    def _segment(self, first: int, capacity: int) -> Segment:
        """Room for rows, all of it in one buffer whose arrays begin at cache lines."""
        groups = self.padded // 64
        shapes: list[tuple[tuple[int, ...], type]] = [
            ((capacity // BLOCK_ROWS, groups, 8, BLOCK_ROWS, 4), np.uint8),
            ((capacity,), np.float32),
            ((capacity,), np.float32),
            ((capacity if self.l2 else 0,), np.float32),
            ((capacity if self.with_ids else 0,), np.uint64),
        ]
        sizes = [-(-math.prod(shape) * np.dtype(kind).itemsize // 64) * 64 for shape, kind in shapes]
        large = capacity > SMALL_ROWS
        label = f"index rows uint8[{sum(sizes)}]"
        raw = memory.allocate_pages(sum(sizes), label) if large else _aligned(sum(sizes))
        arrays: list[NDArray[Any]] = []
        start = 0
        for (shape, kind), size in zip(shapes, sizes, strict=True):
            used = math.prod(shape) * np.dtype(kind).itemsize
            arrays.append(raw[start : start + used].view(kind).reshape(shape))
            start += size
        codes, scales, scales_high, norms2, ids = arrays
        return Segment(first, codes, scales, scales_high, norms2, ids)

    def _copy(self, old: Segment, capacity: int) -> Segment:
        new = self._segment(old.first, capacity)
        for name in ("codes", "scales", "scales_high", "norms2", "ids"):
            part = getattr(old, name)
            getattr(new, name)[: len(part)] = part
        return new

    def _capacity(self, rows: int) -> int:
        """Places to make for so many rows of a segment."""
        wanted = 1 << max(6, (rows - 1).bit_length()) if rows <= SMALL_ROWS else self.segment_rows
        return min(wanted, self.segment_rows)


def _aligned(nbytes: int) -> U8:
    raw = memory.allocate((nbytes + 64,), np.uint8, "index rows")
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]
