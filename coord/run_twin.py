"""RunTwin: the run of a ledger made again from its scenario, one planned tick at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coord.checks import EXTERNAL
from coord.chronicle import Chronicle, Entry
from coord.errors import BadInput, RowsError
from coord.plan import Plan
from coord.records import Records
from coord.setup import Setup
from coord.world import World


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

    def _stored_choice(self, *tables: Records, **rest: Any) -> npt.NDArray[np.uint32]:
        if self._rows is None:
            raise RowsError(None, "", None, "the rows of this tick", "none")
        return np.stack([self._rows["agent"], self._rows["zone"]], axis=1)

    def entry(self, tick: int, rows: Records | None = None) -> Entry | None:
        """The entry of a planned tick; None where the tick can't be reached or planned. `rows` are the stored ones."""
        self.plan = self._entry = self._rows = None
        while self.world.tick < tick:
            if self.world.is_planned():  # a tick whose events are retired
                try:
                    self._entry = self._chronicle.entry(self.world.tick, self.world.inputs, self.world.plan_tick())
                except BadInput:
                    return None
                self.world.assign(self._entry.rows)
            self.world.advance()
        if self.world.tick != tick or not self.world.is_planned():
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
