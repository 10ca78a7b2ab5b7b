"""The new events of a group commit: which rank each gets, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add

from storage import layout
from storage.errors import EquivocationError
from storage.event import Event
from storage.store import Entry

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
        self.values: list[bytes] = []
        self.cursors: dict[str, Cursor] = {}
        self._cursor_of = cursor_of
        self._rank_of = rank_of
        self._ranks: dict[bytes, int] = {}  # of the first events of `ids`; the rest is added when one is looked for

    def place(self, events: Sequence[Event], ids: list[bytes], values: list[bytes]) -> Sequence[int]:
        """The ranks of one caller's events. Those the ledger has keep theirs.

        Raises EquivocationError, and then holds none of these events.
        """
        start = self.size + len(self.ids)
        if self._all_follow(events):
            self.ids += ids
            self.values += values
            last = events[-1]
            self.cursors[last.producer] = (last.sequence, ids[-1])
            return range(start, start + len(ids))
        mark, before = len(self.ids), dict(self.cursors)
        try:
            return list(map(self._place, events, ids, values))
        except BaseException:
            del self.ids[mark:]
            del self.values[mark:]
            self._ranks.clear()
            self.cursors = before
            raise

    def _cursor(self, producer: str) -> Cursor | None:
        return self.cursors[producer] if producer in self.cursors else self._cursor_of(producer)

    def _all_follow(self, events: Sequence[Event]) -> bool:
        """Whether the events are of one producer and each comes after the one before: the usual batch."""
        if not events:
            return False
        producer = events[0].producer
        cursor = self._cursor(producer)
        last = -1 if cursor is None else cursor[0]
        for event in events:
            if event.producer != producer or event.sequence <= last:
                return False
            last = event.sequence
        return True

    def _place(self, event: Event, event_id: bytes, value: bytes) -> int:
        cursor = self._cursor(event.producer)
        if cursor is None or event.sequence > cursor[0]:
            self.ids.append(event_id)
            self.values.append(value)
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
        keys = [rank.to_bytes(8, "big") for rank in range(self.size, self.size + len(self.ids))]
        out: list[Entry] = [("log", key, row) for key, row in zip(keys, map(add, self.ids, self.values), strict=True)]
        out += [("ids", event_id, key) for event_id, key in zip(self.ids, keys, strict=True)]
        for producer, (sequence, event_id) in self.cursors.items():
            out.append(("meta", layout.cursor_key(producer), layout.pack_cursor(sequence, event_id)))
        return out
