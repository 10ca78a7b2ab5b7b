"""Several ledgers as one sequence, whatever the order in which they are named.

Order: tick, producer (by its UTF-8 bytes), sequence. Of one producer and sequence there is one event; the same event
in several ledgers is given out once, and two different ones are an EquivocationError, so no further rule is needed.

A ledger is in the order of its appends, in which ticks may go back. A first reading finds its ascending stretches.
Where these are few they are merged as they lie; else the keys of all events are sorted, on the disk where they are
many, and the events fetched by rank. Either way memory is bounded, and every event is checked as `scan` does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from storage.errors import EquivocationError, RetiredError
from storage.event import Event
from storage.mending.retire import Retired
from storage.reader import Reader, name_of
from storage.replay.sorted_records import SortedRecords

STRETCHES_MAX = 64
WINDOW_EVENTS = 256
WINDOWS_BYTES = 4 << 20  # of all stretches together
WINDOW_BYTES_MIN = 16 << 10
EVENT_OVERHEAD_BYTES = 400
HELD_EVENT_BYTES_MAX = 64 << 10  # larger ones are read again when their turn comes
PRODUCERS_MAX = 1 << 16
NEAR_RANKS = 64

_PLACE_BYTES = 12


class MergedEvent(NamedTuple):
    """An event, and where it was read: the ledger as an index into the arguments of `merge`, and its rank there."""

    event: Event
    ledger: int
    rank: int


class _Placed(NamedTuple):
    """What is compared in the merge. Ledger and rank differ always, so `event` is never compared."""

    tick: int
    producer: str
    sequence: int
    ledger: int
    rank: int
    event: Event | None


def merge(ledgers: Sequence[Reader]) -> Iterator[MergedEvent]:
    """The events of all ledgers, each once, by (tick, producer, sequence): the same for every order of the ledgers.

    Ledgers may grow meanwhile: what they held at the call is merged. An event retired in one ledger comes from
    another that still has it.

    Raises EquivocationError, naming both, where two different events have the same producer and sequence: at the
    latest when the second of them is due. RetiredError where no ledger has the payload of an event any more, and what
    reading raises: IntegrityError, ClosedError; StorageFullError where sorting finds no room in $TMPDIR.

    >>> import tempfile
    >>> from storage import Ledger
    >>> def note(who, sequence, tick):
    ...     return Event(producer=who, effect=b"", kind="note.text", sequence=sequence, tick=tick)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.open(folder + "/a") as a, Ledger.open(folder + "/b") as b:
    ...         _ = a.append_many([note("pump", 0, 1), note("pump", 1, 7)])
    ...         _ = b.append_many([note("gate", 0, 3), note("pump", 0, 1)])
    ...         [(e.event.tick, e.event.producer, e.ledger) for e in merge([a, b])]
    [(1, 'pump', 0), (3, 'gate', 1), (7, 'pump', 0)]
    """
    return _Merge(tuple(ledgers)).events()


class _Merge:
    def __init__(self, ledgers: tuple[Reader, ...]) -> None:
        self._ledgers = ledgers
        self._sizes = [ledger.head().size for ledger in ledgers]

    def events(self) -> Iterator[MergedEvent]:
        stretches = self._stretches()
        yield from self._distinct(self._keyed() if stretches is None else self._merged(stretches))

    def _scan(self, ledger: int, start: int, stop: int) -> Iterator[tuple[int, Event | Retired]]:
        return self._ledgers[ledger].scan(start, stop, retired=True)

    def _stretches(self) -> list[tuple[int, int, int]] | None:
        """(ledger, start, stop) of each ascending stretch; None where there are too many."""
        found: list[tuple[int, int, int]] = []
        for ledger, size in enumerate(self._sizes):
            start, before = 0, (-1, "", -1)
            for rank, event in self._scan(ledger, 0, size):
                if isinstance(event, Retired):
                    self._require_elsewhere(ledger, rank, event)
                    continue
                key = (event.tick, event.producer, event.sequence)
                if key < before:
                    found.append((ledger, start, rank))
                    start = rank
                before = key
            if size:
                found.append((ledger, start, size))
            if len(found) > STRETCHES_MAX and len(found) > len(self._ledgers):
                return None
        return found

    def _require_elsewhere(self, ledger: int, rank: int, gone: Retired) -> None:
        for other, reader in enumerate(self._ledgers):
            if other != ledger:
                try:
                    if reader.rank_of(gone.id) < self._sizes[other]:
                        reader.get(gone.id)
                        return
                except (KeyError, RetiredError):
                    pass
        raise RetiredError(
            f"merge: {name_of(self._ledgers[ledger])}: rank {rank} is retired and no other ledger has event "
            f"{gone.id.hex()}",
            (rank,),
        )

    def _merged(self, stretches: list[tuple[int, int, int]]) -> Iterator[_Placed]:
        bytes_max = max(WINDOW_BYTES_MIN, WINDOWS_BYTES // max(1, len(stretches)))
        return heapq.merge(*(self._stretch(*stretch, bytes_max) for stretch in stretches))

    def _stretch(self, ledger: int, start: int, stop: int, bytes_max: int) -> Iterator[_Placed]:
        """In windows, so that no engine's iterator, with the memory it reads ahead, stays open between them."""
        while start < stop:
            window: list[_Placed] = []
            held = 0
            for rank, event in self._scan(ledger, start, min(start + WINDOW_EVENTS, stop)):
                start = rank + 1
                if isinstance(event, Retired):
                    continue
                small = len(event.effect) <= HELD_EVENT_BYTES_MAX
                held += EVENT_OVERHEAD_BYTES + small * len(event.effect)
                window.append(_placed(ledger, rank, event, keep=small))
                if held >= bytes_max or not small:
                    break
            yield from window

    def _keyed(self) -> Iterator[_Placed]:
        """By sorted keys, events fetched by rank: a window around it where the last one was near, else it alone."""
        keys = SortedRecords()
        try:
            for ledger, size in enumerate(self._sizes):
                for rank, event in self._scan(ledger, 0, size):
                    if not isinstance(event, Retired):
                        keys.add(event.tick.to_bytes(8, "big") + _by_producer(event) + _place(ledger, rank))
            windows: dict[int, dict[int, Event]] = {}
            last: dict[int, int] = {}
            for key in keys:
                ledger, rank = _read_place(key)
                held = windows.get(ledger, {}).get(rank)
                if held is None and abs(rank - last.get(ledger, -1)) <= NEAR_RANKS:
                    windows[ledger] = self._window(ledger, rank)
                    held = windows[ledger].get(rank)
                last[ledger] = rank
                yield _placed(ledger, rank, held or self._ledgers[ledger].at(rank), keep=True)
        finally:
            keys.close()

    def _window(self, ledger: int, rank: int) -> dict[int, Event]:
        start = rank - rank % NEAR_RANKS
        held = 0
        window: dict[int, Event] = {}
        for at, event in self._scan(ledger, start, min(start + 2 * NEAR_RANKS, self._sizes[ledger])):
            if isinstance(event, Retired) or len(event.effect) > HELD_EVENT_BYTES_MAX:
                continue
            window[at] = event
            held += EVENT_OVERHEAD_BYTES + len(event.effect)
            if held >= max(WINDOW_BYTES_MIN, WINDOWS_BYTES // len(self._ledgers)) and at >= rank:
                break
        return window

    def _distinct(self, placed: Iterator[_Placed]) -> Iterator[MergedEvent]:
        """The same event once. Where a producer's sequence doesn't rise, two events could have the same one."""
        last: dict[str, int] = {}
        proven = False
        before: _Placed | None = None
        for next_ in placed:
            found, event = next_, next_.event
            if event is None:
                event = self._ledgers[next_.ledger].at(next_.rank)
                found = next_._replace(event=event)
            if before is not None and before[:3] == found[:3]:
                if before.event != event:
                    raise self._equivocation(before, found)
                continue
            if not proven and (found.sequence <= last.get(found.producer, -1) or len(last) > PRODUCERS_MAX):
                self._prove_distinct()
                proven = True
            if not proven:
                last[found.producer] = found.sequence
            before = found
            yield MergedEvent(event, found.ledger, found.rank)

    def _prove_distinct(self) -> None:
        """Raise EquivocationError unless no two events have the same producer and sequence: all of them, sorted so."""
        keys = SortedRecords()
        try:
            for ledger, size in enumerate(self._sizes):
                for rank, event in self._scan(ledger, 0, size):
                    if not isinstance(event, Retired):
                        keys.add(_by_producer(event) + _place(ledger, rank))
            for one, two in pairwise(keys):
                if one[:-_PLACE_BYTES] == two[:-_PLACE_BYTES]:
                    first, second = self._fetched(one), self._fetched(two)
                    if first.event != second.event:
                        raise self._equivocation(first, second)
        finally:
            keys.close()

    def _fetched(self, key: bytes) -> _Placed:
        ledger, rank = _read_place(key)
        return _placed(ledger, rank, self._ledgers[ledger].at(rank), keep=True)

    def _equivocation(self, one: _Placed, two: _Placed) -> EquivocationError:
        """Both are named in the order of their ids."""
        assert one.event is not None and two.event is not None
        told = sorted(
            (placed.event.id.hex(), f"{name_of(self._ledgers[placed.ledger])}, rank {placed.rank}")
            for placed in (one, two)
            if placed.event is not None
        )
        said = " and ".join(f"{event_id} ({where})" for event_id, where in told)
        return EquivocationError(
            f"merge: producer {one.producer!r} used sequence {one.sequence} for two events: {said}"
        )


def _placed(ledger: int, rank: int, event: Event, *, keep: bool) -> _Placed:
    return _Placed(event.tick, event.producer, event.sequence, ledger, rank, event if keep else None)


def _by_producer(event: Event) -> bytes:
    """Producer and sequence as bytes that sort as they do: a zero byte of the name becomes 00 ff, 00 00 ends it."""
    producer = event.producer.encode().replace(b"\0", b"\0\xff") + b"\0\0"
    return producer + event.sequence.to_bytes(8, "big")


def _place(ledger: int, rank: int) -> bytes:
    return ledger.to_bytes(4, "big") + rank.to_bytes(8, "big")


def _read_place(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[-12:-8], "big"), int.from_bytes(key[-8:], "big")
