"""RunTwin: the run of a ledger made again from its scenario, one planned tick at a time."""

from __future__ import annotations

from coord.chronicle import Chronicle, Entry
from coord.errors import BadInput
from coord.plan import Plan
from coord.setup import Setup
from coord.world import World


class RunTwin:
    """The run made again from its setup, one planned tick at a time."""

    def __init__(self, setup: Setup) -> None:
        self.world = World(setup)
        self.plan: Plan | None = None
        self._chronicle = Chronicle()
        self._entry: Entry | None = None

    def entry(self, tick: int) -> Entry | None:
        """The entry of a planned tick; None where the tick can't be reached or planned."""
        self.plan = self._entry = None
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
