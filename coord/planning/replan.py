"""replan: the plan after something changed, and which rows it changed.

Source: docs/planning.md, section Planning again. A plan is a function of its inputs, so a plan made again is one made
afresh; what is worth reusing is little, and measured there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from coord.checks import EXTERNAL
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.planning.plan import Plan, plan_situation
from coord.planning.situation import situation
from coord.records import AgentState, GaussianKernel, Obstacle, PlanConfig, Records, WorkZone
from tensor.float_mode import plain_mode


@dataclass(frozen=True, eq=False)
class Replan(Plan):
    """A plan, and the one that it takes the place of."""

    before: Plan = field(repr=False)

    @cached_property
    def changed_rows(self) -> Records:
        """The rows whose zone is not what the same agent's row of the same queue_index said before: ROW_DTYPE[c].

        Scores, travel and idle times change from tick to tick by themselves and do not count. Agents that are gone have
        no row here; the row of an agent that was not there before counts where it has a zone.
        """
        return self.rows[changed(self.before.rows, self.rows)]


def changed(before: Records, after: Records) -> npt.NDArray[np.bool_]:
    """Whether each row of `after` has another zone than the row of `before` with its agent and queue_index.

    A row without one there is compared with a row of no zone.
    """
    zone = np.full(len(after), 0xFFFFFFFF, np.uint32)
    if len(before):
        keys = _keys(before)
        wanted = _keys(after)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        same = keys[at] == wanted
        zone[same] = before["zone"][at[same]]
    different: npt.NDArray[np.bool_] = zone != after["zone"]
    return different


def _keys(rows: Records) -> npt.NDArray[np.uint64]:
    return rows["agent"].astype(np.uint64) << np.uint64(32) | rows["queue_index"].astype(np.uint64)


@plain_mode()
def replan(
    before: Plan,
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
) -> Replan:
    """The plan of these inputs, byte for byte that of `plan`, and the rows in which it differs from `before`.

    Where inputs, config and tick are those of `before`, its rows are taken over. What an event must not change, and how
    `w_switch` holds agents to their zones: docs/planning.md, section Planning again.

    Raises what `plan` raises.

    >>> from coord import plan
    >>> agents, zones = [AgentState(id=1), AgentState(id=2, x=4)], [WorkZone(id=1, x=3), WorkZone(id=2, x=8)]
    >>> before = plan(agents, zones, [], [], PlanConfig(), now_tick=0)
    >>> after = replan(before, agents, [*zones, WorkZone(id=3, x=0)], [], [], PlanConfig(), now_tick=0)
    >>> [(int(row["agent"]), int(row["zone"])) for row in after.changed_rows]
    [(1, 3), (2, 1)]
    """
    seen = situation(agents, zones, obstacles, kernels, config, now_tick=now_tick, rings=rings, grid=grid)
    old = before.situation
    same = (seen.input_digest, seen.now_tick) == (old.input_digest, old.now_tick)
    same = same and seen.config.tobytes() == old.config.tobytes() and seen.config["planner"][0] != EXTERNAL
    made = before if same else plan_situation(seen)
    return Replan(**{part.name: getattr(made, part.name) for part in fields(Plan)}, before=before)
