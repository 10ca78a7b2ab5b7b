"""The twins of the batch kernels: each event on its own, by Event and hash_ref. The definition of what they return."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from storage import hash_ref
from storage.errors import StorageError
from storage.event import Event
from storage.receipt import Receipt

_MASK = (1 << 64) - 1


def prepare(events: Sequence[Event]) -> tuple[list[bytes], list[bytes], bytes]:
    """Rows, ids and joined leaf hashes."""
    rows, ids, leaves = [], [], []
    for event in events:
        if not isinstance(event, Event):
            raise TypeError("prepare: everything appended must be an Event")
        data = event.encode()
        event_id = hash_ref.event_id(data)
        rows.append(event_id + data)
        ids.append(event_id)
        leaves.append(_leaf_hash(event_id, len(data)))
    return rows, ids, b"".join(leaves)


def _leaf_hash(event_id: bytes, size: int) -> bytes:
    return hash_ref.sha256(b"\0\1" + event_id + size.to_bytes(8, "big"))


def entries(first: int, ids: list[bytes], rows: list[bytes]) -> list[tuple[str, bytes, bytes]]:
    """(family, key, value), two for each event."""
    out = []
    for rank, (event_id, row) in enumerate(zip(ids, rows, strict=True), first):
        key = rank.to_bytes(8, "big")
        out += [("log", key, row), ("ids", event_id, key)]
    return out


def receipts(first: int, ids: list[bytes], size: int, root: bytes) -> list[Receipt]:
    """A receipt for each id."""
    return [Receipt(rank, event_id, size, root) for rank, event_id in enumerate(ids, first)]


def advance(start: int, events: Sequence[Event], ids: list[bytes], cursors: dict[str, Any]) -> int:
    """The index of the first event that doesn't follow its cursor."""
    for i in range(start, len(events)):
        event = events[i]
        if event.producer not in cursors:
            return i
        cursor = cursors[event.producer]
        if cursor is not None and event.sequence <= cursor[0]:
            return i
        cursors[event.producer] = (event.sequence, ids[i])
    return len(events)


def take(
    iterator: Iterator[tuple[bytes, bytes]], first: int, count: int, bytes_max: int, value_bytes_max: int
) -> tuple[list[bytes], Any]:
    """Values of the next ranks, and why they end."""
    values: list[bytes] = []
    held = 0
    while len(values) < count and held < bytes_max:
        try:
            key, value = next(iterator)
        except StopIteration:
            return values, ()
        except Exception as error:
            return values, error
        if key != (first + len(values)).to_bytes(8, "big") or len(value) > value_bytes_max:
            return values, (key, value)
        values.append(value)
        held += len(value)
    return values, None


def checked(first: int, values: list[bytes], leaves: bytes) -> list[tuple[int, Event]]:
    """Ranks and events up to the first odd value."""
    out = []
    for i, value in enumerate(values):
        event_id, data = value[:32], value[32:]
        held = leaves[32 * i : 32 * i + 32]
        if not data or hash_ref.event_id(data) != event_id or _leaf_hash(event_id, len(data)) != held:
            break
        try:
            out.append((first + i, Event.decode(data)))
        except StorageError:
            break
    return out


def audited(
    key: bytes,
    total: bytes,
    first: int,
    values: list[Any],
    leaves: bytes,
    cursors: dict[str, tuple[int, bytes]],
    shown: list[Any] | None = None,
    prefix: str = "",
) -> bytes | None:
    """The sum with the batch added, or None where anything is odd."""
    if any(type(value) is not bytes for value in values):
        return None
    found = checked(first, values, leaves)
    if len(found) != len(values):
        return None
    moved: dict[str, tuple[int, bytes]] = {}
    records = []
    for (rank, event), value in zip(found, values, strict=True):
        cursor = moved.get(event.producer) or cursors.get(event.producer)
        if cursor is not None and event.sequence <= cursor[0]:
            return None
        moved[event.producer] = (event.sequence, value[:32])
        records.append(value[:32] + rank.to_bytes(8, "big"))
    cursors.update(moved)
    if shown is not None:
        shown += _shown(found, prefix)
    return fingerprint(key, total, b"".join(records), 40)


def _shown(found: list[tuple[int, Event]], prefix: str) -> list[Any]:
    """The events whose kind begins with `prefix`; of others how many in a row, from whom, of what kind and number."""
    out: list[Any] = []
    row: list[Any] = []  # rank, count, producer, kind, sequence
    for rank, event in found:
        if event.kind.startswith(prefix):
            out.append((rank, event))
            row = []
        elif row and (event.producer, event.kind, event.sequence) == (row[2], row[3], row[4] + row[1]):
            row[1] += 1
            out[-1] = tuple(row)
        else:
            row = [rank, 1, event.producer, event.kind, event.sequence]
            out.append(tuple(row))
    return out


def fingerprint(key: bytes, total: bytes, records: bytes, width: int) -> bytes:
    """The sum with the keyed BLAKE3 of each record added, as four little-endian u64."""
    words = struct.unpack("<4Q", total)
    for at in range(0, len(records), width):
        part = struct.unpack("<4Q", hash_ref.blake3_keyed_chunk(key, records[at : at + width]))
        words = tuple((a + b) & _MASK for a, b in zip(words, part, strict=True))
    return struct.pack("<4Q", *words)


def fingerprint_of_ids(key: bytes, pairs: Iterator[tuple[bytes, bytes]]) -> tuple[int, bytes] | None:
    """How many pairs of id and rank, and their sum."""
    count, total = 0, bytes(32)
    for event_id, rank in pairs:
        if len(event_id) != 32 or len(rank) != 8:
            return None
        total = fingerprint(key, total, event_id + rank, 40)
        count += 1
    return count, total
