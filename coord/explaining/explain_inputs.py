"""explain: from the inputs of a plan, made again or at hand, to why an agent has its zone, or a zone its agent."""

from __future__ import annotations

from collections.abc import Iterable

from coord.explaining.explain import EXACT, Explanation, explain_situation
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.planning.plan import plan
from coord.planning.situation import situation
from coord.records import AgentState, GaussianKernel, Obstacle, PlanConfig, Records, WorkZone
from tensor.float_mode import plain_mode


@plain_mode()
def explain(
    agents: Records | Iterable[AgentState],
    zones: Records | Iterable[WorkZone],
    obstacles: Records | Iterable[Obstacle],
    kernels: Records | Iterable[GaussianKernel],
    config: Records | PlanConfig,
    *,
    now_tick: int,
    rings: Rings | None = None,
    grid: Grid | None = None,
    agent: int | None = None,
    zone: int | None = None,
    rows: Records | None = None,
    exact: int = EXACT,
) -> Explanation:
    """Explain the plan of these inputs for one agent id, or one zone id, or (both) one pair.

    `rows` are the plan's rows where they are at hand (a ledger's); without them the plan is made again. For planners
    swap and exact, `exact` is how many of the options, best first, get the exact `winning_change`; each takes some
    dozens of plans (swap) or three (exact). The others, those of the auction, and all where agents x zones > 250,000
    (exact: 4,194,304) or the rows are another planner's, get an estimate and `winning_change_exact` False. Greedy's are
    exact at any size. Raises UnknownIdError for an id that the inputs do not hold, and what `plan` raises.

    >>> told = explain([AgentState(id=7, speed=1.5)], [WorkZone(id=3, x=3, y=4, need_caps=2)], [], [], PlanConfig(),
    ...                now_tick=0, agent=7)
    >>> told.options[0].status.name, told.options[0].changes
    ('MISSING_CAPABILITY', ('agent 7 needs capability bits 0x2 besides 0x0',))
    """
    if rows is None:
        made = plan(agents, zones, obstacles, kernels, config, now_tick=now_tick, rings=rings, grid=grid)
        return explain_situation(made.situation, made.rows, agent=agent, zone=zone, exact=exact)
    seen = situation(agents, zones, obstacles, kernels, config, now_tick=now_tick, rings=rings, grid=grid)
    return explain_situation(seen, rows, agent=agent, zone=zone, exact=exact)
