"""Getting one event back: from its own bytes, from another copy, or at least its leaf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from storage import hashing, state, tree
from storage.errors import RetiredError, StorageError
from storage.event import EVENT_BYTES_MAX, Event
from storage.mending.retire import Retired
from storage.tree import HASH_BYTES

FLIP_BYTES_MAX = 64 << 10  # events up to this size are tried with each of their bits flipped
LENGTHS_AT_A_TIME = 1 << 16


class Source(Protocol):
    """What another copy of the ledger must offer: part of what every reader does."""

    def at(self, rank: int) -> Event:
        """The event at a rank."""

    def scan(self, start: int, stop: int | None, *, retired: bool) -> Iterator[tuple[int, Event | Retired]]:
        """Ranks and events."""


def healed(value: bytes, leaf: bytes) -> bytes | None:
    """The value before one bit of it was flipped, or its id was overwritten; None where that is not what happened."""
    data = value[32:]
    if not 0 < len(data) <= EVENT_BYTES_MAX:
        return None
    hashed = hashing.event_id(data)
    if tree.leaf_hash(tree.leaf(hashed, len(data))) == leaf:
        return hashed + data
    wanted = value[:32]
    if len(data) > FLIP_BYTES_MAX or tree.leaf_hash(tree.leaf(wanted, len(data))) != leaf:
        return None
    changed = bytearray(data)
    for at in range(len(data)):
        tried = []
        for bit in range(8):
            changed[at] ^= 1 << bit
            tried.append(bytes(changed))
            changed[at] ^= 1 << bit
        for candidate, event_id in zip(tried, hashing.event_ids(tried), strict=True):
            if event_id == wanted:
                return wanted + candidate
    return None


def length_of(event_id: bytes, leaf: bytes, likely: int, longest: int) -> int | None:
    """The length of an event of which only id and leaf hash are known, or None where the id is another's."""
    if 0 <= likely <= EVENT_BYTES_MAX and tree.leaf_hash(tree.leaf(event_id, likely)) == leaf:
        return likely
    start = 0
    while start <= longest:  # short ones first: most events are
        lengths = range(start, min(2 * start or 512, start + LENGTHS_AT_A_TIME, longest + 1))
        hashes = state.leaf_hashes([event_id] * len(lengths), lengths)
        at = hashes.find(leaf)
        while at >= 0 and at % HASH_BYTES:
            at = hashes.find(leaf, at + 1)
        if at >= 0:
            return start + at // HASH_BYTES
        start = lengths.stop
    return None


def fetched(source: Source, rank: int) -> bytes | None:
    """The value of `log` that a source has for a rank, or the leaf of an event that is retired there; None for none."""
    try:
        event = source.at(rank)
        return event.id + event.encode()
    except RetiredError:
        try:
            found = [entry for _, entry in source.scan(rank, rank + 1, retired=True)]
        except (StorageError, LookupError, ValueError):
            return None
        return tree.leaf(found[0].id, found[0].length) if found and isinstance(found[0], Retired) else None
    except (StorageError, LookupError, ValueError):
        return None
