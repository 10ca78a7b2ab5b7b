"""JCI1: what a plan was made from, as bytes of a `coord.inputs` event: keys, deltas and parts.

Source: `docs/formats/coord-inputs.md`. A key holds everything; a delta holds the records that changed since the inputs
of the planned tick before. Records are compared as bytes, so a NaN or the sign of a zero is a change like any other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from coord.errors import InputsError, TooLargeError
from coord.ground.rings import Rings
from coord.records import AGENT_DTYPE, CONFIG_DTYPE, KERNEL_DTYPE, OBSTACLE_DTYPE, RING_DTYPE, ZONE_DTYPE

MAGIC = b"JCI1"
KEY, DELTA = 0, 1
HAS_CONFIG, HAS_RINGS, HAS_GRID = 1, 2, 4
ALL_FLAGS = HAS_CONFIG | HAS_RINGS | HAS_GRID
HEAD = struct.Struct("<4sBBBBQ6I4I")
HEAD_BYTES = HEAD.size  # 56
PART_BYTES_MAX = 8 * 2**20
PARTS_MAX = 16  # an event has at most 16 parents, and a frame names each part
KEY_EVERY = 64  # planned ticks
CONFIG_BYTES = CONFIG_DTYPE.itemsize

ARRAYS: tuple[tuple[str, np.dtype[np.void]], ...] = (
    ("agents", AGENT_DTYPE),
    ("zones", ZONE_DTYPE),
    ("obstacles", OBSTACLE_DTYPE),
    ("kernels", KERNEL_DTYPE),
)
COUNTS = ("agents", "zones", "obstacles", "kernels", "rings", "grid bytes")

Records = npt.NDArray[np.void]


@dataclass
class Inputs:
    """Everything a plan depends on but the tick: arrays sorted by id, and encoded config, rings and grid.

    `rings` is the table of (first, count) pairs followed by the float32 points; `ring_count` is the table's length.
    """

    agents: Records = field(default_factory=lambda: np.zeros(0, AGENT_DTYPE))
    zones: Records = field(default_factory=lambda: np.zeros(0, ZONE_DTYPE))
    obstacles: Records = field(default_factory=lambda: np.zeros(0, OBSTACLE_DTYPE))
    kernels: Records = field(default_factory=lambda: np.zeros(0, KERNEL_DTYPE))
    config: bytes = bytes(CONFIG_BYTES)
    rings: bytes = b""
    ring_count: int = 0
    grid: bytes = b""

    def ring_arrays(self) -> Rings | None:
        """The rings as `plan` and `explain` take them, or None."""
        if not self.ring_count:
            return None
        cut = self.ring_count * RING_DTYPE.itemsize
        return Rings(np.frombuffer(self.rings[:cut], RING_DTYPE), np.frombuffer(self.rings[cut:], "<f4").reshape(-1, 2))

    def array(self, name: str) -> Records:
        """One of the four arrays by its name."""
        value: Records = getattr(self, name)
        return value

    def counts(self) -> tuple[int, ...]:
        """The six counts of the header."""
        return (*(len(self.array(name)) for name, _ in ARRAYS), self.ring_count, len(self.grid))

    def copy(self) -> Inputs:
        """A copy whose arrays can change without this one."""
        arrays = {name: self.array(name).copy() for name, _ in ARRAYS}
        return Inputs(**arrays, config=self.config, rings=self.rings, ring_count=self.ring_count, grid=self.grid)


@dataclass(frozen=True)
class Head:
    """The 56 bytes in front of a part."""

    kind: int
    part: int
    parts: int
    flags: int
    tick: int
    counts: tuple[int, ...]
    changed: tuple[int, ...]

    def encode(self) -> bytes:
        """The bytes of the header."""
        return HEAD.pack(MAGIC, self.kind, self.part, self.parts, self.flags, self.tick, *self.counts, *self.changed)

    @classmethod
    def decode(cls, data: bytes) -> Head:
        """Read and check a header; InputsError names offset and field."""
        if len(data) < HEAD_BYTES:
            raise InputsError(len(data), "header", f"{HEAD_BYTES} bytes", f"{len(data)} bytes")
        magic, kind, part, parts, flags, tick, *numbers = HEAD.unpack_from(data)
        _expect(magic == MAGIC, 0, "magic", MAGIC.decode(), repr(magic))
        _expect(kind in (KEY, DELTA), 4, "kind", "0 or 1", kind)
        _expect(part < parts, 5, "part", f"below {parts}", part)
        _expect(1 <= parts <= PARTS_MAX, 6, "parts", f"1 to {PARTS_MAX}", parts)
        _expect(flags <= ALL_FLAGS, 7, "flags", f"0 to {ALL_FLAGS}", flags)
        head = cls(kind, part, parts, flags, tick, tuple(numbers[:6]), tuple(numbers[6:]))
        for index, (name, _) in enumerate(ARRAYS):
            fits = head.changed[index] <= head.counts[index]
            _expect(fits, 40 + 4 * index, f"changed {name}", f"at most {head.counts[index]}", head.changed[index])
        return head


def is_key(before: Inputs | None, now: Inputs, planned_index: int) -> bool:
    """Whether this planned tick gets a key: the first one, every 64th, and when a set of ids changed."""
    if before is None or planned_index % KEY_EVERY == 0:
        return True
    return any(
        len(before.array(name)) != len(now.array(name))
        or bool((before.array(name)["id"] != now.array(name)["id"]).any())
        for name, _ in ARRAYS
    )


def encode(now: Inputs, tick: int, before: Inputs | None, *, part_bytes_max: int = PART_BYTES_MAX) -> list[bytes]:
    """The parts of one tick's inputs: a key when `before` is None, else a delta against it.

    Raises TooLargeError when one item, or the whole, does not fit (16 parts of at most 8 MiB).

    >>> [len(part) for part in encode(Inputs(), 0, None)]
    [120]
    """
    pieces = [_changed_rows(now.array(name), None if before is None else before.array(name)) for name, _ in ARRAYS]
    extras = [b"", b"", b""]
    flags = 0
    for bit, name in ((0, "config"), (1, "rings"), (2, "grid")):
        value: bytes = getattr(now, name)
        if before is None or value != getattr(before, name) or (bit == 1 and now.ring_count != before.ring_count):
            flags |= 1 << bit
            extras[bit] = value
    parts = _split(pieces, flags, extras, part_bytes_max)
    if len(parts) > PARTS_MAX:
        raise TooLargeError(
            f"coord.inputs: expected at most {PARTS_MAX} parts of {part_bytes_max} bytes, got {len(parts)}"
        )
    kind = KEY if before is None else DELTA
    counts = now.counts()
    encoded = []
    for index, (changed, part_flags, body) in enumerate(parts):
        head = Head(kind, index, len(parts), part_flags, tick, counts, changed)
        encoded.append(head.encode() + body)
    return encoded


@cache
def _row_dtype(dtype: np.dtype[np.void]) -> np.dtype[np.void]:
    return np.dtype([("row", "<u4"), ("record", np.void, dtype.itemsize)])


def _changed_rows(now: Records, before: Records | None) -> Records:
    raw = np.ascontiguousarray(now).view(np.dtype((np.void, now.dtype.itemsize)))
    if before is None:
        rows = np.arange(len(now), dtype=np.uint32)
    else:
        words = now.dtype.itemsize // 4
        a = np.ascontiguousarray(now).view("<u4").reshape(len(now), words)
        b = np.ascontiguousarray(before).view("<u4").reshape(len(now), words)
        rows = np.flatnonzero((a != b).any(axis=1)).astype(np.uint32)
    out = np.zeros(len(rows), _row_dtype(now.dtype))
    out["row"] = rows
    out["record"] = raw[rows]
    return out


_Part = tuple[tuple[int, ...], int, bytes]


def _split(pieces: Sequence[Records], flags: int, extras: Sequence[bytes], part_bytes_max: int) -> list[_Part]:
    room_whole = part_bytes_max - HEAD_BYTES
    parts: list[_Part] = []
    changed, part_flags, body = [0, 0, 0, 0], 0, bytearray()

    def close() -> None:
        nonlocal changed, part_flags, body
        parts.append((tuple(changed), part_flags, bytes(body)))
        changed, part_flags, body = [0, 0, 0, 0], 0, bytearray()

    for index, rows in enumerate(pieces):
        size = rows.dtype.itemsize
        done = 0
        while done < len(rows):
            fit = (room_whole - len(body)) // size
            if fit == 0:
                close()
                fit = room_whole // size
                if fit == 0:
                    raise TooLargeError(f"coord.inputs: a part of {part_bytes_max} bytes holds no record of {size}")
            take = rows[done : done + fit]
            body += take.tobytes()
            changed[index] += len(take)
            done += len(take)
    for bit, extra in enumerate(extras):
        if not flags & (1 << bit):
            continue
        if len(extra) > room_whole:
            raise TooLargeError(
                f"coord.inputs: {('config', 'rings', 'grid')[bit]} of {len(extra)} bytes does not fit a part"
            )
        if len(body) + len(extra) > room_whole:
            close()
        part_flags |= 1 << bit
        body += extra
    close()
    return parts


def apply(state: Inputs | None, parts: Sequence[bytes], *, tick: int | None = None) -> Inputs:
    """The inputs after the parts of one tick: a fresh object for a key, else `state` with the delta written into it.

    The bytes present are checked against every count before anything is allocated. Raises InputsError (offset, field,
    expected, got) for damaged parts, for a delta without a key before it, and for counts that do not fit the state.
    """
    heads = [Head.decode(part) for part in parts]
    _expect(len(heads) > 0, 0, "parts", "at least one", 0)
    first = heads[0]
    _expect(len(heads) == first.parts, 6, "parts", first.parts, len(heads))
    if tick is not None:
        _expect(first.tick == tick, 8, "tick", tick, first.tick)
    for index, head in enumerate(heads):
        _expect(head.part == index, 5, "part", index, head.part)
        same = (head.kind, head.parts, head.tick, head.counts) == (first.kind, first.parts, first.tick, first.counts)
        _expect(same, 4, "header", "that of part 0", f"another in part {index}")
    if first.kind == KEY:
        state = _empty_like(heads)
    elif state is None:
        raise InputsError(4, "kind", "a key first", "a delta")
    else:
        have = (*(len(state.array(name)) for name, _ in ARRAYS),)
        _expect(have == first.counts[:4], 16, "counts", have, first.counts[:4])
    _last_rows = [-1, -1, -1, -1]
    for head, part in zip(heads, parts, strict=True):
        _apply_part(state, head, part, _last_rows)
    _finish(state, first, [sum(head.changed[index] for head in heads) for index in range(len(ARRAYS))])
    return state


def _empty_like(heads: Sequence[Head]) -> Inputs:
    first = heads[0]
    flags = 0
    for index, (name, _) in enumerate(ARRAYS):
        total = sum(head.changed[index] for head in heads)
        _expect(total == first.counts[index], 40 + 4 * index, f"changed {name}", first.counts[index], total)
    for head in heads:
        flags |= head.flags
    _expect(flags == ALL_FLAGS, 7, "flags", ALL_FLAGS, flags)
    return Inputs()


def _apply_part(state: Inputs, head: Head, part: bytes, last_rows: list[int]) -> None:
    sizes = [4 + dtype.itemsize for _, dtype in ARRAYS]
    need = HEAD_BYTES + sum(n * size for n, size in zip(head.changed, sizes, strict=True))
    _expect(len(part) >= need, len(part), "rows", f"{need} bytes", f"{len(part)} bytes")
    offset = HEAD_BYTES
    for index, (name, dtype) in enumerate(ARRAYS):
        count = head.changed[index]
        rows = np.frombuffer(part, _row_dtype(dtype), count, offset)
        if head.kind == KEY:
            _extend(state, name, dtype, rows, last_rows, index, offset)
        elif count:
            numbers = rows["row"].astype(np.int64)
            limit = head.counts[index]
            good = numbers[0] > last_rows[index] and numbers[-1] < limit and bool((numbers[1:] > numbers[:-1]).all())
            _expect(good, offset, f"{name} rows", f"ascending, below {limit}", _brief(numbers))
            last_rows[index] = int(numbers[-1])
            fresh = np.ascontiguousarray(rows["record"]).view(dtype)
            if count == limit:  # they ascend, so they are all
                state.array(name)[:] = fresh
            else:
                state.array(name)[numbers] = fresh
        offset += count * sizes[index]
    offset = _apply_extras(state, head, part, offset)
    _expect(offset == len(part), offset, "end", f"{offset} bytes", f"{len(part)} bytes")


def _extend(
    state: Inputs, name: str, dtype: np.dtype[np.void], rows: Records, last_rows: list[int], index: int, offset: int
) -> None:
    first = last_rows[index] + 1
    expected = np.arange(first, first + len(rows), dtype=np.int64)
    _expect(bool((rows["row"] == expected).all()), offset, f"{name} rows", "0, 1, 2, …", _brief(rows["row"]))
    if len(rows):
        fresh = np.ascontiguousarray(rows["record"]).view(dtype)
        setattr(state, name, np.concatenate([state.array(name), fresh]) if first else fresh.copy())
        last_rows[index] += len(rows)


def _apply_extras(state: Inputs, head: Head, part: bytes, offset: int) -> int:
    before = (state.config, state.rings, state.ring_count, state.grid)
    if head.flags & HAS_CONFIG:
        state.config = _take(part, offset, CONFIG_BYTES, "config")
        offset += CONFIG_BYTES
    if head.flags & HAS_RINGS:
        table = _take(part, offset, head.counts[4] * RING_DTYPE.itemsize, "rings")
        counts = np.frombuffer(table, "<u4").reshape(-1, 2)[:, 1]
        points = _take(part, offset + len(table), 8 * int(counts.sum(dtype=np.uint64)), "ring points")
        state.rings, state.ring_count = table + points, head.counts[4]
        offset += len(state.rings)
    if head.flags & HAS_GRID:
        state.grid = _take(part, offset, head.counts[5], "grid")
        offset += len(state.grid)
    if head.kind == DELTA:  # one encoding for one change: what stays is not repeated
        same = (state.config == before[0], (state.rings, state.ring_count) == before[1:3], state.grid == before[3])
        for bit, unchanged in enumerate(same):
            repeated = bool(head.flags & (1 << bit)) and unchanged
            _expect(not repeated, 7, "flags", "flags of what changes", f"bit {bit} set for what stays")
    return offset


def _take(part: bytes, offset: int, size: int, name: str) -> bytes:
    _expect(len(part) - offset >= size, offset, name, f"{size} bytes", f"{len(part) - offset} bytes")
    return bytes(part[offset : offset + size])


def _finish(state: Inputs, head: Head, changed: Sequence[int]) -> None:
    have = state.counts()
    for index, name in enumerate(COUNTS):
        _expect(have[index] == head.counts[index], 16 + 4 * index, f"count of {name}", have[index], head.counts[index])
    for index, (name, _) in enumerate(ARRAYS):
        if changed[index]:
            ids = state.array(name)["id"]
            _expect(bool((ids[1:] > ids[:-1]).all()), HEAD_BYTES, f"{name} ids", "ascending", "others")


def differences(expected: Inputs, got: Inputs) -> Iterator[tuple[str, int | None, str, object, object]]:
    """Every difference as (array, id, field, expected, got); the id is None where it is not about one record."""
    for name, dtype in ARRAYS:
        a, b = expected.array(name), got.array(name)
        if len(a) != len(b) or bool((a["id"] != b["id"]).any()):
            yield name, None, "ids", f"{len(a)} records", f"{len(b)} records or other ids"
            continue
        yield from record_differences(name, dtype, a, b)
    for name in ("config", "rings", "grid"):
        before, after = getattr(expected, name), getattr(got, name)
        if before == after:
            continue
        if name == "config" and len(before) == len(after):
            pair = (np.frombuffer(before, CONFIG_DTYPE), np.frombuffer(after, CONFIG_DTYPE))
            for _, _, part, old, new in record_differences("config", CONFIG_DTYPE, *pair):
                yield "config", None, part, old, new
        else:
            yield name, None, name, f"{len(before)} bytes", f"{len(after)} other bytes"


def record_differences(
    name: str, dtype: np.dtype[np.void], a: Records, b: Records
) -> Iterator[tuple[str, int | None, str, object, object]]:
    """Differing fields of two arrays with the same rows, by row, then by field."""
    words = dtype.itemsize // 4
    raw_a = np.ascontiguousarray(a).view("<u4").reshape(len(a), words)
    raw_b = np.ascontiguousarray(b).view("<u4").reshape(len(b), words)
    for row in np.flatnonzero((raw_a != raw_b).any(axis=1)):
        key = int(a[row][dtype.names[0]]) if dtype.names and dtype.names[0] in ("id", "agent") else None
        for part in dtype.names or ():
            if a[row][part].tobytes() != b[row][part].tobytes():
                yield name, key, part, a[row][part].tolist(), b[row][part].tolist()


def _brief(values: npt.NDArray[np.integer]) -> str:
    return str(values[:6].tolist())


def _expect(good: bool, offset: int, name: str, expected: object, got: object) -> None:
    if not good:
        raise InputsError(offset, name, expected, got)
