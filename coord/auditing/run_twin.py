"""RunTwin: the run of a ledger made again from its scenario, one planned tick at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coord.checks import EXTERNAL
from coord.errors import BadInput, RowsError
from coord.planning.plan import Plan
from coord.records import Records
from coord.simulation.chronicle import Chronicle, Entry
from coord.simulation.events import FleetEvent
from coord.simulation.setup import Setup
from coord.simulation.world import World


class RunTwin:
    """The run made again from its setup, one planned tick at a time.

    The choices of an external planner are taken from the ledger's rows, and checked; external demand and motion can't
    be made again.
    """

    def __init__(self, setup: Setup) -> None:
        self.external = setup.config.planner == EXTERNAL
        self.inputs_are_external = ", ".join(
            f"{what} {name}" for what, name in sorted(setup.external.items()) if what != "planner"
        )
        self._rows: Records | None = None
        self.world = World(setup, planner=self._stored_choice if self.external else None)
        self.plan: Plan | None = None
        self._chronicle = Chronicle()
        self._entry: Entry | None = None
        self._changes: list[FleetEvent] = []
        self._begun = 0

    def changes(self) -> list[FleetEvent]:
        """What happened from outside since this was asked last, up to the tick that was begun last."""
        changes, self._changes = self._changes, []
        return changes

    def go_on(self, tick: int) -> None:
        """Up to a tick, its own changes among them, as long as no tick on the way is planned."""
        while not self._is_planned() and self.world.tick < tick:
            self.world.advance()

    def _is_planned(self) -> bool:
        planned = self.world.is_planned()
        if self._begun != self.world.tick:
            self._begun = self.world.tick
            self._changes += self.world.happened
        return planned

    def _stored_choice(self, *tables: Records, **rest: Any) -> npt.NDArray[np.uint32]:
        if self._rows is None:
            raise RowsError(None, "", None, "the rows of this tick", "none")
        return np.stack([self._rows["agent"], self._rows["zone"]], axis=1)

    def entry(self, tick: int, rows: Records | None = None) -> Entry | None:
        """The entry of a planned tick; None where the tick can't be reached or planned. `rows` are the stored ones."""
        self.plan = self._entry = self._rows = None
        while self.world.tick < tick:
            if self._is_planned():  # a tick whose events are retired
                try:
                    self._entry = self._chronicle.entry(self.world.tick, self.world.inputs, self.world.plan_tick())
                except BadInput:
                    return None
                self.world.assign(self._entry.rows)
            self.world.advance()
        if self.world.tick != tick or not self._is_planned():
            return None
        self._rows = rows
        try:
            self.plan = self.world.plan_tick()
        except BadInput:
            return None
        self._entry = self._chronicle.entry(tick, self.world.inputs, self.plan)
        return self._entry

    def advance(self) -> None:
        """Give out the plan and end the tick."""
        if self._entry is not None:
            self.world.assign(self._entry.rows)
            self.world.advance()
