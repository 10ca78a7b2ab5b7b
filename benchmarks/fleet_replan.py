"""Planning again, changing one's mind, queues, and rows of somebody else's planner, on seeded fleets.

- replan: `replan` after one zone more, beside `plan` of the same inputs (10,000 agents, 10,000 zones), and what swap's
  candidates take of a plan: all that could be kept, and only within a tick.
- switches: how often agents change their zone while they travel, and services, with `w_switch` beside without (60
  agents, 80 zones, 300 ticks, three seeds). Counts, the same on every machine.
- queues: services of a fleet that is planned every 20 ticks, with queues of eight zones beside none.
- external: checking and completing the rows of an external planner, beside greedy planning of the same inputs.
"""

from __future__ import annotations

from typing import Any

from harness import Report, alternate

SITE = """version = 1
name = "minds"
seed = {seed}
[plan]
planner = "{planner}"
w_switch = {w_switch}
queue = {queue}
every_ticks = {every_ticks}
idle_cap_ticks = 300
max_travel_ticks = 400
[agents]
random = 60
box = [0, 0, 400, 400]
speed = {speed}
[zones]
random = 80
box = [0, 0, 400, 400]
service_ticks = {service_ticks}
"""
AGENTS = 10_000
SEEDS = (1, 2, 3)


def run(report: Report) -> None:
    """Add the lines of this part."""
    _again(report)
    for planner in ("greedy", "swap"):
        slow = {"planner": planner, "queue": 1, "every_ticks": 1, "speed": 1.5, "service_ticks": 10}
        counts = {w: _counts(w_switch=w, **slow) for w in (0.0, 0.01, 0.1, 1000.0)}
        for w in (0.01, 0.1, 1000.0):
            for what, unit, better in ((0, "switches", "lower"), (1, "services", "higher")):
                case = f"replan: {planner}, w_switch {w}, {unit}"
                report.add(case, counts[w][what], counts[0.0][what], "w_switch 0", unit, better)
        quick = {"planner": planner, "w_switch": 0.1, "every_ticks": 20, "speed": 6.0, "service_ticks": 2}
        queued, alone = (_counts(queue=q, **quick)[1] for q in (8, 1))
        report.add(f"replan: {planner}, a plan every 20 ticks, queue 8", queued, alone, "queue 1", "services", "higher")


def _counts(**plan: Any) -> tuple[int, int]:
    """(switches, services) over the seeds."""
    from coord import Scenario, Scorer, simulate

    switches = services = 0
    for seed in SEEDS:
        scorer = Scorer()
        done = simulate(Scenario.loads(SITE.format(seed=seed, **plan)), 300, scorer=scorer, gap_every=0)
        assert done.metrics is not None
        switches, services = switches + done.metrics.switches, services + done.served
    return switches, services


def _again(report: Report) -> None:
    import numpy as np

    from coord import (
        AGENT_DTYPE,
        KERNEL_DTYPE,
        OBSTACLE_DTYPE,
        ZONE_DTYPE,
        PlanConfig,
        backend,
        plan,
        plan_external,
        replan,
    )

    rng = np.random.default_rng(1)
    agents, zones = np.zeros(AGENTS, AGENT_DTYPE), np.zeros(AGENTS + 1, ZONE_DTYPE)
    for table in (agents, zones):
        table["id"] = np.arange(len(table))
        table["x"], table["y"] = rng.uniform(0, 1000, len(table)), rng.uniform(0, 1000, len(table))
    agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = 1.5, 1, 100, 0xFFFFFFFF
    agents["last_seen_tick"], zones["radius"] = 1000, 0.5
    zones["last_served_tick"] = rng.integers(0, 1000, len(zones))
    rest = np.zeros(0, OBSTACLE_DTYPE), np.zeros(0, KERNEL_DTYPE)
    for code, planner in enumerate(("greedy", "swap")):
        config = PlanConfig(planner=code)
        before = plan(agents, zones[:-1], *rest, config, now_tick=1000)
        ours, fresh = alternate(
            lambda before=before, config=config: replan(before, agents, zones, *rest, config, now_tick=1000),
            lambda config=config: plan(agents, zones, *rest, config, now_tick=1000),
        )
        report.add(f"replan: {planner}, one zone more", ours * 1e3, fresh * 1e3, "plan", "ms", "lower")
    problem = before.situation.problem
    found, whole = alternate(
        lambda: backend.candidates(problem, 24),
        lambda: plan(agents, zones, *rest, config, now_tick=1000),
    )
    report.add("replan: candidates of swap", found * 1e3, whole * 1e3, "plan", "ms", "lower")
    rows = plan(agents, zones, *rest, PlanConfig(planner=0), now_tick=1000).rows
    checked, greedy = alternate(
        lambda: plan_external(lambda *tables, **more: rows, agents, zones, *rest, PlanConfig(), now_tick=1000),
        lambda: plan(agents, zones, *rest, PlanConfig(planner=0), now_tick=1000),
    )
    report.add("replan: external rows checked", checked * 1e3, greedy * 1e3, "greedy plan", "ms", "lower")
