"""The auction against scipy's optimum of the same integers, time and cost: `python benchmarks/plan_auction.py`."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from harness import Report, alternate, prepare

prepare()

import numpy as np  # noqa: E402 (after prepare)
from scipy.optimize import linear_sum_assignment  # noqa: E402

from coord import (  # noqa: E402
    AGENT_DTYPE,
    KERNEL_DTYPE,
    OBSTACLE_DTYPE,
    ZONE_DTYPE,
    PlanConfig,
    plan_auction,
    plan_greedy,
)
from coord.planning.plan import Plan  # noqa: E402
from coord.records import Records  # noqa: E402

DATA = Path(os.environ.get("DROVEWAY_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SPEED = 0.1
CONFIG = PlanConfig(w_priority=0.0, w_idle=0.0, w_cover=0.0, w_avoid=0.0, w_travel=16.0, max_travel_ticks=20_000)


def fleet(places: np.ndarray, goals: np.ndarray) -> tuple[Records, Records]:
    """Agents and zones at these points, [n, 2] metres, that differ by travel only."""
    agents, zones = np.zeros(len(places), AGENT_DTYPE), np.zeros(len(goals), ZONE_DTYPE)
    for table, points in ((agents, places), (zones, goals)):
        table["id"] = np.arange(len(table))
        table["x"], table["y"] = points[:, 0], points[:, 1]
    agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = SPEED, 0.9, 50, 0xFFFFFFFF
    return agents, zones


def uniform(n: int) -> tuple[Records, Records]:
    """n agents and n zones in a square of 1 km."""
    rng = np.random.default_rng(1)
    return fleet(rng.uniform(0, 1000, (n, 2)), rng.uniform(0, 1000, (n, 2)))


def league(name: str) -> tuple[Records, Records]:
    """Agents and open tasks of an example problem of the League of Robot Runners, one metre a cell."""
    problem = next((DATA / "lorr" / f"{name}.domain").glob("*.json"))
    said = json.loads(problem.read_text())
    rows = (problem.parent / said["mapFile"]).read_text().split("map\n", 1)[1].split()

    def numbers(key: str, count: int) -> np.ndarray:
        lines = [x for x in (problem.parent / said[key]).read_text().split() if not x.startswith("#")]
        lines = [x for x in lines if x[0].isdigit()][1 : count + 1]
        cells = np.array([int(x.split(",")[0]) for x in lines])
        return np.stack([cells % len(rows[0]), cells // len(rows[0])], axis=1).astype(np.float64)

    size = int(said["teamSize"])
    return fleet(numbers("agentFile", size), numbers("taskFile", int(size * said["numTasksReveal"])))


def planned(agents: Records, zones: Records) -> Plan:
    """The auction's plan."""
    return plan_auction(agents, zones, np.zeros(0, OBSTACLE_DTYPE), np.zeros(0, KERNEL_DTYPE), CONFIG, now_tick=0)


def matrix(agents: Records, zones: Records) -> np.ndarray:
    """The integer scores of all pairs, from the positions."""
    dx, dy = zones["x"][None, :] - agents["x"][:, None], zones["y"][None, :] - agents["y"][:, None]
    ticks = np.ceil(np.sqrt(dx * dx + dy * dy) / np.float32(SPEED))
    share = np.minimum(ticks, np.float32(20_000)) / np.float32(20_000)
    return np.rint((np.float32(0) - np.float32(16) * share) * np.float32(65536))


def seconds(call: Callable[[], object]) -> float:
    """Of this thread on its processor."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def compare(report: Report, case: str, agents: Records, zones: Records) -> None:
    """Time of a whole plan against matrix and scipy; cost against the optimum; the bound against the optimum."""
    best = 0

    def peer() -> None:
        nonlocal best
        score = matrix(agents, zones)
        rows, columns = linear_sum_assignment(score, maximize=True)
        best = int(score[rows, columns].astype(np.int64).sum())

    if len(agents) > 2000:  # the peer takes seconds: once is enough
        theirs = seconds(peer)
        ours = statistics.median(seconds(lambda: planned(agents, zones)) for _ in range(7))
    else:
        ours, theirs = alternate(lambda: planned(agents, zones), peer, 1.0)
    made = planned(agents, zones)
    report.add(f"auction {case}", 1 / ours, 1 / theirs, "numpy matrix + scipy", "plans/s", "higher")
    report.add(f"auction cost {case}", -made.stats.score_sum, -best, "optimum (scipy)", "cost", "lower")
    report.add(f"auction proven cost {case}", -made.bound, -best, "optimum (scipy)", "cost, never above 1", "higher")


def large(report: Report, n: int) -> None:
    """The proven gap of n by n, and the time as a multiple of greedy's."""
    agents, zones = uniform(n)
    none = np.zeros(0, OBSTACLE_DTYPE), np.zeros(0, KERNEL_DTYPE)
    start = time.thread_time()
    plan_greedy(agents, zones, *none, CONFIG, now_tick=0)
    middle = time.thread_time()
    made = planned(agents, zones)
    end = time.thread_time()
    report.add(f"auction n={n} time", end - middle, middle - start, "greedy", "s", "lower")
    report.add(f"auction n={n} gap", made.gap, 0.02, "required", "proven share of the cost", "lower")


def run(report: Report) -> None:
    """All cases."""
    for name in ("random", "maze"):
        compare(report, f"league {name}", *league(name))
    for n in (1000, 2000, 5000):
        compare(report, f"uniform n={n}", *uniform(n))
    large(report, 100_000)


if __name__ == "__main__":
    alone = Report("plan_auction")
    run(alone)
    alone.finish()
