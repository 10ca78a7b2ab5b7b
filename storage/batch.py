"""The new events of a group commit: which rank each gets, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from storage import event_batch, layout
from storage.engine.store import Entry
from storage.errors import EquivocationError
from storage.event import Event
from storage.event_batch import Prepared
from storage.tree import HASH_BYTES

Cursor = tuple[int, bytes]  # last sequence number, last id


class Batch:
    """Events that are to be written after `size` others.

    path: of the ledger, for errors.  cursor_of: a producer's stored cursor, or None.  rank_of: the stored rank of an
    id, or None.
    """

    def __init__(
        self,
        path: str,
        size: int,
        cursor_of: Callable[[str], Cursor | None],
        rank_of: Callable[[bytes], int | None],
    ) -> None:
        self.path = path
        self.size = size
        self.ids: list[bytes] = []
        self.rows: list[bytes] = []
        self.leaves: list[bytes] = []  # of one or more events each
        self.cursors: dict[str, Cursor] = {}
        self._cursor_of = cursor_of
        self._rank_of = rank_of
        self._ranks: dict[bytes, int] = {}  # of the first events of `ids`; the rest is added when one is looked for

    def place(self, events: Sequence[Event], prepared: Prepared) -> Sequence[int]:
        """The ranks of one caller's events. Those the ledger has keep theirs.

        Raises EquivocationError, and then holds none of these events.
        """
        rows, ids, leaves = prepared
        if len(ids) == 1:  # most callers' batch
            return (self._place(events[0], ids[0], rows[0], leaves),)
        start = self.size + len(self.ids)
        moved = self._moved(events, ids)
        if moved is not None:
            self.ids += ids
            self.rows += rows
            self.leaves.append(leaves)
            self.cursors.update(moved)
            return range(start, start + len(ids))
        mark, leaf_mark, before = len(self.ids), len(self.leaves), dict(self.cursors)
        try:
            starts = range(0, len(leaves), HASH_BYTES)
            return list(map(self._place, events, ids, rows, (leaves[at : at + HASH_BYTES] for at in starts)))
        except BaseException:
            del self.ids[mark:]
            del self.rows[mark:]
            del self.leaves[leaf_mark:]
            self._ranks.clear()
            self.cursors = before
            raise

    def _cursor(self, producer: str) -> Cursor | None:
        return self.cursors[producer] if producer in self.cursors else self._cursor_of(producer)

    def _moved(self, events: Sequence[Event], ids: list[bytes]) -> dict[str, Cursor] | None:
        """The cursors after events that all come after those of their producers, the usual batch; else None."""
        moved: dict[str, Any] = {}
        at = 0
        while (at := event_batch.advance(at, events, ids, moved)) < len(events):
            producer = events[at].producer
            if producer in moved:
                return None
            moved[producer] = self._cursor(producer)
        return moved

    def _place(self, event: Event, event_id: bytes, row: bytes, leaf: bytes) -> int:
        cursor = self._cursor(event.producer)
        if cursor is None or event.sequence > cursor[0]:
            self.ids.append(event_id)
            self.rows.append(row)
            self.leaves.append(leaf)
            self.cursors[event.producer] = (event.sequence, event_id)
            return self.size + len(self.ids) - 1
        rank = self._rank_here(event_id)
        if rank is None:
            rank = self._rank_of(event_id)
        if rank is None:
            raise EquivocationError(
                f"{self.path}: producer {event.producer!r} used sequence {event.sequence} for event {event_id.hex()}, "
                f"but has reached sequence {cursor[0]} (event {cursor[1].hex()})"
            )
        return rank

    def _rank_here(self, event_id: bytes) -> int | None:
        known = len(self._ranks)
        if known < len(self.ids):
            self._ranks.update(zip(self.ids[known:], range(self.size + known, self.size + len(self.ids)), strict=True))
        return self._ranks.get(event_id)

    def entries(self) -> list[Entry]:
        """What to write for the events and the cursors."""
        out: list[Entry] = [*event_batch.entries(self.size, self.ids, self.rows)]
        for producer, (sequence, event_id) in self.cursors.items():
            out.append(("meta", layout.cursor_key(producer), layout.pack_cursor(sequence, event_id)))
        return out
