"""ChangeCheck: what a run's `coord.event` events must be, where they stand, and whether they are what is made again.

Source: `docs/formats/coord-event.md`, section "What an audit checks".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coord.auditing.report import Problem, Report
from coord.errors import RunError
from coord.frames.kinds import CHANGE
from coord.simulation.events import UNNOTICED, FleetEvent

if TYPE_CHECKING:
    from coord.stl import Event


class ChangeCheck:
    """Takes the changes of a run in order, and is told of its frames."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._pending: list[tuple[int, FleetEvent]] = []  # since the frame before, with their ranks
        self._whole = True  # whether all since the frame before could be read
        self._uncounted = 0  # events since the frame before

    def add(self, rank: int, event: Event) -> None:
        """One event of the run's producer."""
        from coord import stl

        self._uncounted += 1
        try:
            change = stl.fleet_event(event)
        except RunError as error:
            self._whole = False
            self._report.add_problem(Problem(rank, "event", "a fleet event", "another", f"rank {rank}: {error}"))
            return
        if self._pending and not self._pending[-1][1] < change:
            self._report.tell(rank, "event", f"one after {_shown(self._pending[-1][1])}", _shown(change))
        self._pending.append((rank, change))

    def forget(self) -> None:
        """Events are missing."""
        self._count(made_again=False)
        self._pending, self._whole = [], False

    def frame(
        self, tick_before: int | None, tick: int, on_events: bool, made: Sequence[FleetEvent] | None, known: bool
    ) -> None:
        """A frame: what came since the one before must lie between them, and be what was made again.

        made: None where nothing was made again. known: whether no event between them is retired or damaged.
        """
        pending, whole = self._pending, self._whole and known
        self._pending, self._whole = [], True
        for rank, change in pending:
            if (tick_before is not None and change.tick <= tick_before) or change.tick > tick:
                first = 0 if tick_before is None else tick_before + 1
                self._report.tell(rank, "tick", f"{first} to {tick}", str(change.tick))
            elif whole and on_events and change.tick < tick and change.kind not in UNNOTICED:
                self._report.tell(rank, "event", f"a plan at tick {change.tick}", f"the next one at tick {tick}")
        if made is not None and whole:
            self._compare(pending, made)
        self._count(made_again=made is not None and whole)

    def end(self, made: Sequence[FleetEvent] | None, known: bool) -> None:
        """After the last frame."""
        again = made is not None and self._whole and known
        if made is not None and again:
            self._compare(self._pending, made)
        self._count(made_again=again)

    def _count(self, *, made_again: bool) -> None:
        """The events since the frame before: made again, or of a kind whose bytes alone are checked."""
        if made_again:
            self._report.changes_resimulated += self._uncounted
        elif self._uncounted:
            self._report.add_other(CHANGE, self._uncounted)
        self._uncounted = 0

    @property
    def last_tick(self) -> int | None:
        """The tick of the last change since the frame before."""
        return self._pending[-1][1].tick if self._pending else None

    def _compare(self, stored: Sequence[tuple[int, FleetEvent]], made: Sequence[FleetEvent]) -> None:
        for (rank, change), again in zip(stored, made, strict=False):
            if change != again:
                other = ", with another content" if _shown(change) == _shown(again) else ""
                self._report.tell(rank, "event", f"{_shown(again)}", f"{_shown(change)}{other}")
                return
        if len(stored) > len(made):
            rank, change = stored[len(made)]
            self._report.tell(rank, "event", "none made again", _shown(change))
        elif len(made) > len(stored):
            self._report.tell(None, "event", _shown(made[len(stored)]), "none")


def _shown(change: FleetEvent) -> str:
    return f"{change.kind.word} {change.id} at tick {change.tick}"
