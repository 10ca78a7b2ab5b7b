"""Retiring events: the payload goes, the leaf stays, and with it every proof. Written in docs/formats/ledger.md.

The 41-byte leaf takes the place of id and event bytes in `log`; `ids`, `tree`, cursors and the head stay as they are.
Afterwards the engine rewrites its files, so that the payload is in none of them any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage import layout, state, tree
from storage.engine.store import Entry, Store
from storage.errors import IntegrityError, RetiredError
from storage.tree import HASH_BYTES

BATCH_RANKS_MAX = 1 << 16  # leaves in one atomic write: some 4 MB


@dataclass(frozen=True, slots=True)
class Retired:
    """What is left of a retired event: its id, and how many bytes it had.

    >>> Retired.decode(tree.leaf(bytes(32), 265)).length
    265
    """

    id: bytes
    length: int

    @classmethod
    def decode(cls, value: bytes) -> Retired:
        """From the 41 bytes in `log`. Raises ValueError for another length or version."""
        if len(value) != tree.LEAF_BYTES or value[0] != tree.LEAF_VERSION:
            raise ValueError(f"Retired.decode: expected a leaf of 41 bytes, version 1, got {value[:64].hex()}")
        return cls(value[1:33], int.from_bytes(value[33:], "big"))


def is_retired(value: bytes) -> bool:
    """Whether a value of `log` is a leaf: no event has 9 bytes, so no id with an event has 41."""
    return len(value) == tree.LEAF_BYTES


def retired_error(place: object, rank: int, found: Retired) -> RetiredError:
    """That the event at a rank of a ledger, `place`, is retired.

    >>> str(retired_error("run", 3, Retired(b"\\1", 265)))
    'run: rank 3 is retired: the 265 bytes of event 01 were removed'
    """
    text = f"{place}: rank {rank} is retired: the {found.length} bytes of event {found.id.hex()} were removed"
    return RetiredError(text, (rank,))


def ranges(ranks: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending ranks as (first, last) pairs.

    >>> ranges([3, 4, 5, 9])
    [(3, 5), (9, 9)]
    """
    out: list[tuple[int, int]] = []
    for rank in ranks:
        if out and out[-1][1] == rank - 1:
            out[-1] = (out[-1][0], rank)
        else:
            out.append((rank, rank))
    return out


def retire_events(store: Store, path: str, size: int, ranks: Iterable[int]) -> list[int]:
    """Put the leaf in the place of each event, atomically and synced; the ranks that held a payload, ascending.

    Above 65,536 ranks it takes several such writes. Ranks that are retired already are passed over. Every event is
    checked before anything is written: a damaged one raises IntegrityError, so that retiring never hides damage; a
    rank outside [0, size) raises IndexError.
    """
    wanted = set()
    for rank in ranks:
        if type(rank) is not int:
            raise TypeError(f"Ledger.retire: ranks must be int, got {type(rank).__name__}")
        if not 0 <= rank < size:
            raise IndexError(f"Ledger.retire: rank must be in [0, {size}), got {rank}")
        wanted.add(rank)
    entries: list[Entry] = [("log", layout.log_key(rank), leaf) for rank, leaf in _leaves(store, path, sorted(wanted))]
    for at in range(0, len(entries), BATCH_RANKS_MAX):
        store.write(entries[at : at + BATCH_RANKS_MAX], sync=True)
    return [int.from_bytes(key, "big") for _, key, _ in entries]


def _leaves(store: Store, path: str, ranks: list[int]) -> Iterator[tuple[int, bytes]]:
    """Rank and leaf of each event that still has its payload, checked against id and tree."""
    at, tile = -1, b""
    for rank in ranks:
        key = layout.log_key(rank)
        if rank // layout.TILE_HASHES != at:
            at = rank // layout.TILE_HASHES
            tile = store.get("tree", layout.tile_key(0, at)) or b""
        value = store.get("log", key)
        first = rank % layout.TILE_HASHES * HASH_BYTES
        fault = state.check_event(rank, value, None, tile[first : first + HASH_BYTES] or None)
        if fault is not None:
            raise IntegrityError(f"{path}: rank {rank} (log/{key.hex()}) {fault}", (rank,), f"log/{key.hex()}")
        assert value is not None
        if not is_retired(value):
            yield rank, tree.leaf(value[:32], len(value) - 32)
