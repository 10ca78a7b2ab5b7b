"""simulate: scenario, ticks and seed in; a run, and its ledger, out.

Source: `docs/formats/coord-scenario.md`. No clock, no environment and no generator but the scenario's reaches a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coord.frames.decisions import DecisionLedger
from coord.frames.frame import DecisionFrame
from coord.health import CoordHealth
from coord.measuring.gap_proof import NO_PROOF, GapDue, proven
from coord.measuring.metrics import GAP_EVERY
from coord.measuring.metrics_record import Metrics
from coord.measuring.scorer import Scorer
from coord.moving.motion_model import MotionModel
from coord.planning.external import Planner
from coord.planning.plan import Plan
from coord.simulation.chronicle import Chronicle, Entry
from coord.simulation.demand import DemandModel
from coord.simulation.events import FleetEvent
from coord.simulation.external_models import ExternalModels
from coord.simulation.setup import Setup
from coord.simulation.world import World
from coord.sites.scenario import Scenario
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.stl import Ledger, RunWriter


@dataclass(frozen=True)
class Run:
    """What a run came to.

    `root` and `size` are those of its ledger (None and 0 without one); `health` is the worst of its frames; `ready`
    counts rows of agents that could take a zone, so `assigned_of_ready` is the share that got one.
    """

    name: str
    ticks: int
    frames: int
    root: bytes | None
    size: int
    stats: DecisionLedger
    ready: int
    health: CoordHealth
    served: int  # services completed
    zones_served: int  # zones served at least once
    cell_conflicts: int  # agents beyond the first in a cell, summed over ticks
    interrupted: bool
    waits: int = 0  # travelling agents that found no way, or none yet, summed over ticks: `Steps.waits`
    events: Mapping[str, int] = field(default_factory=dict)  # what happened from outside, counted by kind
    tasks_opened: int = 0  # tasks that came
    tasks_served: int = 0
    tasks_expired: int = 0  # gone at their deadline
    tasks_refused: int = 0  # came when as many as may be were open
    metrics: Metrics | None = None  # of the scorer that was given

    @property
    def assigned_of_ready(self) -> float:
        """Assigned rows ÷ ready rows; 1 where nobody was ready."""
        return self.stats.assigned / self.ready if self.ready else 1.0


@plain_mode()
def simulate(
    scenario: Scenario | str | Path,
    ticks: int,
    seed: int | None = None,
    ledger: Ledger | str | Path | None = None,
    *,
    planner: str | None = None,
    sync: Literal["fsync", "os"] = "fsync",
    should_stop: Callable[[], bool] | None = None,
    on_tick: Callable[[int, DecisionFrame | None], None] | None = None,
    scorer: Scorer | None = None,
    gap_every: int = GAP_EVERY,
    planner_model: Planner | None = None,
    demand_model: DemandModel | None = None,
    motion_model: MotionModel | None = None,
) -> Run:
    """Run a scenario for a number of ticks.

    `ledger` is a folder that does not exist or is empty, an open and empty `storage.Ledger`, or None. `seed` and
    `planner` replace the scenario's. `should_stop` is asked before each tick: when it says yes the run ends at a whole
    frame and `Run.interrupted` is true. `on_tick` is called after each tick with its number and its frame (None when
    the tick was not planned). `scorer` is given every planned tick, and a bound for the frames that `gap_every`
    asks for as in `coord.metrics`: `Run.metrics` is then what `coord.metrics` would find in the ledger.

    `planner_model`, `demand_model` and `motion_model` are somebody else's code in place of the scenario's models
    (docs/planners.md): what they return is checked, and the scenario event records their names. What they raise comes
    through, and the ledger ends at the frame before.

    Raises ScenarioError and MapError for a scenario, OutputError for the folder, BadInput (nothing of this tick is
    written; the ledger ends at the frame before), and what storage raises.

    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> simulate(site, 40).served > 0
    True
    """
    if isinstance(ticks, bool) or not isinstance(ticks, int) or ticks < 0:
        raise ValueError(f"simulate: ticks must be a whole number of at least 0, got {ticks!r}")
    site = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    if planner is not None and planner_model is not None:
        raise ValueError("simulate: expected planner or planner_model, got both")
    models = ExternalModels(planner_model, demand_model, motion_model)
    site = site.with_changes(seed=seed, planner=planner)
    with ExitStack() as stack:
        output = _Output(ledger, sync, stack)
        try:
            return _Loop(models.world(site.setup), output, scorer, gap_every).run(ticks, should_stop, on_tick)
        except BaseException:
            output.discard_without_frame()
            raise


class _Output:
    """Where events go. The folder is made when the first plan is there, so a refused input leaves nothing behind.

    Nor does a failure before the first frame: what was made by then is removed.
    """

    def __init__(self, target: Ledger | str | Path | None, sync: Literal["fsync", "os"], stack: ExitStack) -> None:
        self._target = Path(target) if isinstance(target, str) else target
        self._sync = sync
        self._stack = stack
        self._writer: RunWriter | None = None
        self._made: tuple[Ledger, Path, bool] | None = None  # the ledger made here, and whether its folder was there
        self.frames = 0
        self.wanted = target is not None
        if self._target is None:
            return
        from coord import stl
        from coord.errors import OutputError

        if isinstance(self._target, Path):
            stl.check_output(self._target)
        elif self._target.head().size != 0:
            raise OutputError(f"simulate: expected an empty ledger, got one of {self._target.head().size} events")

    def writer(self, setup: Setup) -> RunWriter:
        if self._writer is None:
            from coord import stl

            target = self._target
            assert target is not None
            if isinstance(target, Path):
                folder, was_there = target, target.exists()
                target = self._stack.enter_context(stl.create_ledger(folder, self._sync))
                self._made = (target, folder, was_there)
            self._writer = stl.RunWriter(target, setup)
        return self._writer

    def write(self, setup: Setup, entry: Entry | None, happened: Sequence[FleetEvent]) -> None:
        self.writer(setup).write(entry, happened)
        self.frames += entry is not None

    def discard_without_frame(self) -> None:
        """After a failure: a run that never began leaves nothing."""
        if self._made is None or self.frames:
            return
        from coord import stl

        ledger, folder, was_there = self._made
        with suppress(Exception):  # the failure is told, not what closing says to it
            ledger.close()
        stl.remove_run(folder, was_there)


class _Loop:
    def __init__(self, world: World, output: _Output, scorer: Scorer | None, gap_every: int) -> None:
        self._scorer = scorer
        self._gap_due = GapDue(gap_every)
        self._setup = world.setup
        self._output = output
        self._world = world
        self._chronicle = Chronicle()
        self._stats = DecisionLedger()
        self._ready = 0
        self._events: Counter[str] = Counter()
        self._health = CoordHealth.EMPTY

    def run(
        self,
        ticks: int,
        should_stop: Callable[[], bool] | None,
        on_tick: Callable[[int, DecisionFrame | None], None] | None,
    ) -> Run:
        interrupted = False
        while self._world.tick < ticks:
            if should_stop is not None and should_stop():
                interrupted = True
                break
            tick = self._world.tick
            frame = self._plan() if self._world.is_planned() else None
            if frame is None:
                self._pass()
            self._world.advance()
            if on_tick is not None:
                on_tick(tick, frame)
        return self._finish(interrupted)

    def _pass(self) -> None:
        """A tick without a plan: what happened is written all the same."""
        happened = self._world.happened
        self._events.update(event.kind.word for event in happened)
        if happened and self._output.wanted:
            self._output.write(self._setup, None, happened)

    def _plan(self) -> DecisionFrame:
        world = self._world
        plan = world.plan_tick()
        entry = self._chronicle.entry(world.tick, world.inputs, plan, with_inputs=self._output.wanted)
        if self._output.wanted:
            self._output.write(self._setup, entry, world.happened)
        self._events.update(event.kind.word for event in world.happened)
        self._measure(plan, entry)
        world.assign(entry.rows)
        self._stats = self._stats.add(entry.frame)
        self._ready += plan.stats.ready
        self._health = max(self._health, CoordHealth(entry.frame.health))
        return entry.frame

    def _measure(self, plan: Plan, entry: Entry) -> None:
        if self._scorer is None:
            return
        seen = plan.situation
        due = self._gap_due.at(entry.frame)
        proof = self._gap_due.given(proven(seen, entry.rows)) if due else NO_PROOF
        self._scorer.add(
            seen.agents,
            seen.zones,
            entry.frame,
            entry.rows,
            grid=seen.grid,
            bound=proof.bound,
            agents_left=proof.agents_left,
        )

    def _finish(self, interrupted: bool) -> Run:
        size, root = self._output.writer(self._setup).head() if self._output.wanted else (0, None)
        world = self._world
        return Run(
            name=self._setup.name,
            ticks=world.tick,
            frames=self._chronicle.frames,
            root=root,
            size=size,
            stats=self._stats,
            ready=self._ready,
            health=self._health,
            served=world.served,
            zones_served=world.visited_before + int(world.visited.sum()),
            cell_conflicts=world.cell_conflicts,
            waits=world.waits,
            interrupted=interrupted,
            events=dict(sorted(self._events.items())),
            tasks_opened=world.tasks_opened,
            tasks_served=world.tasks_served,
            tasks_expired=world.tasks_expired,
            tasks_refused=world.tasks_refused,
            metrics=None if self._scorer is None else self._scorer.result(),
        )
