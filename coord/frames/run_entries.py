"""What the planned ticks of a run add to its catalogs: a walk over events that can begin anywhere in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from coord.frames.frame import DecisionFrame, decode_frame_event
from coord.frames.inputs import KEY, Head, Inputs, apply
from coord.frames.kinds import FRAME, INPUTS, EventReader, StoredEvent
from coord.records import Records

Pair = tuple[bytes, bytes | None]  # None deletes a key of a catalog
Entries = Callable[[Iterator[tuple[int, StoredEvent]], int], Iterator[Pair]]  # of events, and the rank of the first


class PlannedTick(NamedTuple):
    """A frame, its rows, and the inputs it was planned from; `inputs` changes with the next step: copy to keep."""

    rank: int
    inputs: Inputs
    frame: DecisionFrame
    rows: Records


class TickWalk:
    """Planned ticks of the events from some rank on; `before` is the inputs at that rank, None where there are none.

    Deltas need the inputs before them: the reader is asked for the events back to the last key, 64 ticks at most.
    """

    def __init__(self, reader: EventReader, start: int) -> None:
        self._parts: list[bytes] = []
        self.state: Inputs | None = None
        for _ in self.ticks(reader.scan(_last_key(reader, start), start)):
            pass
        self.before = None if self.state is None else self.state.copy()

    def ticks(self, events: Iterable[tuple[int, StoredEvent]]) -> Iterator[PlannedTick]:
        """The planned ticks among events that go on from those seen so far. Raises InputsError, FrameError."""
        for rank, event in events:
            if event.kind == INPUTS:
                self._parts.append(event.effect)
            elif event.kind == FRAME:
                self.state = apply(self.state, self._parts, tick=event.tick)
                self._parts = []
                yield PlannedTick(rank, self.state, *decode_frame_event(event.effect))


def from_start(entries: Entries) -> Callable[[Iterator[tuple[int, StoredEvent]]], Iterator[Pair]]:
    """A function of events as one of events and the rank of the first."""

    def of(events: Iterator[tuple[int, StoredEvent]]) -> Iterator[Pair]:
        first = next(events, None)
        if first is not None:
            yield from entries(chain((first,), events), first[0])

    return of


def _last_key(reader: EventReader, start: int) -> int:
    """The rank of the first part of the last key of inputs before a rank; the rank itself where there is none."""
    for rank in range(start - 1, -1, -1):
        event = reader.at(rank)
        if event.kind == INPUTS:
            head = Head.decode(event.effect)
            if head.kind == KEY and head.part == 0:
                return rank
    return start
