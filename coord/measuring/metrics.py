"""metrics: the measures of a run, read from its ledger as a stream.

What each measure is: docs/metrics.md. Nothing is planned again, except where a bound is asked for: every `gap_every`th
frame gets one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coord.errors import RunError
from coord.frames.inputs import Inputs
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.measuring.gap_proof import NO_PROOF, GapDue, Proof, proven
from coord.measuring.metrics_record import Metrics, jain_index
from coord.measuring.scorer import Scorer, TickMetrics
from coord.planning.plan import Plan
from coord.planning.situation import situation
from coord.records import CONFIG_DTYPE, RING_DTYPE, Records
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.stl import Ledger, PublishedLedger, RunReader

GAP_EVERY = 64  # frames; as often as a run's inputs are written whole


def metrics(
    run: RunReader | Ledger | PublishedLedger | str | Path,
    *,
    first_tick: int | None = None,
    last_tick: int | None = None,
    gap_every: int = GAP_EVERY,
) -> Metrics:
    """The measures of a run's planned ticks from `first_tick` to `last_tick`, both included.

    run: a folder, the URL of a published run, an open ledger, or what `open_run` gives. It is read once, in order;
    memory is bounded by one tick (docs/metrics.md). gap_every: the frames with a number that it divides get a proven
    bound, which costs about one more plan each, and where they have nothing to assign the next one that has; 0: none.

    Raises ValueError for numbers that are no range, RunError where the ledger holds no run, and what reading raises.

    >>> import tempfile
    >>> from coord import Scenario, simulate
    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = simulate(site, 100, ledger=folder + "/run")
    ...     found = metrics(folder + "/run")
    >>> found.frames, found.agents, found.services, found.coverage
    (100, 2, 15, 1.0)
    """
    scorer = Scorer()
    for _ in tick_metrics(run, scorer, first_tick=first_tick, last_tick=last_tick, gap_every=gap_every):
        pass
    return scorer.result()


def tick_metrics(
    run: RunReader | Ledger | PublishedLedger | str | Path,
    scorer: Scorer,
    *,
    first_tick: int | None = None,
    last_tick: int | None = None,
    gap_every: int = GAP_EVERY,
) -> Iterator[TickMetrics]:
    """The measures tick by tick, as they are added to `scorer`; arguments and errors as of `metrics`."""
    for name, value in (("first_tick", first_tick), ("last_tick", last_tick), ("gap_every", gap_every)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise ValueError(f"metrics: {name} must be a whole number of at least 0, got {value!r}")
    if first_tick is not None and last_tick is not None and first_tick > last_tick:
        raise ValueError(f"metrics: first_tick must be at most last_tick, got {first_tick} and {last_tick}")
    from coord.stl import RunReader, open_run

    with ExitStack() as stack:
        if isinstance(run, str | Path):
            reader = stack.enter_context(open_run(run))
        else:
            reader = run if isinstance(run, RunReader) else RunReader(run)
        if reader.size == 0:
            raise RunError("the ledger is empty: no run")
        geometry, due = _Geometry(), GapDue(gap_every)
        for view in reader.frames():
            tick = view.frame.tick
            if last_tick is not None and tick > last_tick:
                return
            if first_tick is not None and tick < first_tick:
                continue
            geometry.follow(view.inputs)
            proof = NO_PROOF
            if due.at(view.frame):
                proof = due.given(_bound_again(view.inputs, view.rows, tick, geometry))
            yield scorer.add(
                view.inputs.agents, view.inputs.zones, view.frame, view.rows, grid=geometry.grid, bound=proof.bound,
                agents_left=proof.agents_left,
            )  # fmt: skip


class _Geometry:
    """Grid and rings of inputs, decoded when they change."""

    def __init__(self) -> None:
        self._bytes: tuple[bytes, bytes, int] | None = None
        self.grid: Grid | None = None
        self.rings: Rings | None = None

    def follow(self, inputs: Inputs) -> None:
        now = (inputs.grid, inputs.rings, inputs.ring_count)
        if now == self._bytes:
            return
        self._bytes = now
        self.grid = Grid.decode(inputs.grid) if inputs.grid else None
        table = np.frombuffer(inputs.rings, RING_DTYPE, inputs.ring_count)
        points = np.frombuffer(inputs.rings, "<f4", offset=table.nbytes).reshape(-1, 2)
        self.rings = Rings(table, points) if len(table) else None


@plain_mode()
def _bound_again(inputs: Inputs, rows: Records, tick: int, geometry: _Geometry) -> Proof:
    """The proof of a stored decision, from its inputs and how many agents it gave a zone."""
    seen = situation(
        inputs.agents, inputs.zones, inputs.obstacles, inputs.kernels, np.frombuffer(inputs.config, CONFIG_DTYPE),
        now_tick=tick, rings=geometry.rings, grid=geometry.grid,
    )  # fmt: skip
    return proven(seen, rows)


def quality(plans: Iterable[Plan]) -> Metrics:
    """The measures of plans of one fleet in the order of their ticks, each with its proven bound.

    >>> from coord import AgentState, PlanConfig, WorkZone, plan
    >>> quality([plan([AgentState(id=7)], [WorkZone(id=3, x=2)], [], [], PlanConfig(), now_tick=0)]).makespan_ticks
    2
    """
    scorer = Scorer()
    prev_digest = bytes(16)
    for number, made in enumerate(plans):
        frame = made.frame(number, prev_digest)
        prev_digest = frame.digest()
        seen = made.situation
        bound, left = proven(seen, made.rows)
        scorer.add(seen.agents, seen.zones, frame, made.rows, grid=seen.grid, bound=bound, agents_left=left)
    return scorer.result()


__all__ = ["GAP_EVERY", "Metrics", "Scorer", "TickMetrics", "jain_index", "metrics", "quality", "tick_metrics"]
