"""A fleet of 10,000 in ticks a second, and small plans against scipy's optimum: `python benchmarks/plan.py ticks`.

A fleet of 10,000 agents and 10,000 zones on one square kilometre with 64 kernels moves for some ticks: each plan sees
what the plan before made of it. A tick is counted from arrays to frame bytes, input digest and rows included; with
the ledger also the encoded inputs and one atomic batch of events (sync "os"). Peers are the required rates, and
scipy's linear_sum_assignment on the full matrix of integer scores.
"""

from __future__ import annotations

from harness import Report, alternate, prepare

prepare()

import statistics  # noqa: E402 (after prepare)
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]  # noqa: E402

from coord import AGENT_DTYPE, KERNEL_DTYPE, OBSTACLE_DTYPE, ZONE_DTYPE, PlanConfig, plan  # noqa: E402
from coord.backend import ISA  # noqa: E402
from coord.frames.inputs import Inputs  # noqa: E402
from coord.planning import plan_ref  # noqa: E402
from coord.planning.plan import Plan  # noqa: E402
from coord.planning.situation import situation  # noqa: E402
from coord.simulation.chronicle import Chronicle  # noqa: E402
from coord.stl import entry_events  # noqa: E402
from storage import Ledger  # noqa: E402

SIDE_M = 1000.0
SPEED = 1.5
TICKS = 25
CONFIG = PlanConfig()


class Fleet:
    """Random agents, zones and kernels that move a little between plans."""

    def __init__(self, seed: int, agents: int, zones: int, kernels: int = 64) -> None:
        rng = np.random.default_rng(seed)
        self.now = 1000
        self.agents, self.zones = np.zeros(agents, AGENT_DTYPE), np.zeros(zones, ZONE_DTYPE)
        self.kernels = np.zeros(kernels, KERNEL_DTYPE)
        for table in (self.agents, self.zones, self.kernels):
            table["id"] = np.arange(len(table))
            table["x"], table["y"] = rng.uniform(0, SIDE_M, len(table)), rng.uniform(0, SIDE_M, len(table))
        self.agents["speed"], self.agents["energy"], self.agents["memory_ticks"] = SPEED, 0.9, 50
        self.agents["zone"], self.agents["last_seen_tick"] = 0xFFFFFFFF, self.now
        self.zones["radius"], self.zones["priority"] = 0.5, rng.uniform(0, 2, zones)
        self.zones["last_served_tick"] = rng.integers(0, self.now, zones)
        self.kernels["sigma"], self.kernels["weight"] = rng.uniform(20, 100, kernels), rng.uniform(-1, 1, kernels)

    def plan(self) -> Plan:
        """The plan of this tick."""
        none = np.zeros(0, OBSTACLE_DTYPE)
        return plan(self.agents, self.zones, none, self.kernels, CONFIG, now_tick=self.now)

    def move(self, made: Plan) -> None:
        """One step towards the zones; those reached are served at once."""
        rows = made.rows
        has = rows["status"] == 0
        at = rows["zone"][has]
        self.agents["zone"] = rows["zone"]
        self.agents["mode"] = has
        dx, dy = self.zones["x"][at] - self.agents["x"][has], self.zones["y"][at] - self.agents["y"][has]
        away = np.hypot(dx, dy)
        step = np.minimum(1, SPEED / np.maximum(away, 1e-6))
        self.agents["x"][has] += dx * step
        self.agents["y"][has] += dy * step
        self.now += 1
        self.zones["last_served_tick"][at[away <= SPEED]] = self.now
        self.agents["last_seen_tick"] = self.now

    def inputs(self) -> Inputs:
        """As the ledger holds them."""
        return Inputs(agents=self.agents, zones=self.zones, kernels=self.kernels, config=CONFIG.encode())


def ticks_per_second(fleet: Fleet, ledger: Ledger | None) -> tuple[float, float, float]:
    """(median rate by the clock, by CPU time, share of agents with a zone) over some ticks, the first left out."""
    chronicle, seconds, cpu_seconds, shares, sequence = Chronicle(), [], [], [], 0
    for _ in range(TICKS):
        start, cpu_start = time.perf_counter(), time.process_time()
        made = fleet.plan()
        entry = chronicle.entry(fleet.now, fleet.inputs(), made, with_inputs=ledger is not None)
        effect = entry.frame_effect()
        if ledger is not None:
            events = entry_events(entry, "bench", sequence)
            ledger.append_many(events)
            sequence += len(events)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
        shares.append(made.stats.assigned / made.stats.agents)
        assert len(effect) == 128 + 32 * len(made.rows)
        fleet.move(made)
    return 1 / statistics.median(seconds[1:]), 1 / statistics.median(cpu_seconds[1:]), statistics.mean(shares)


def dense_rows(fleet: Fleet) -> tuple[bytes, bytes]:
    """Digests of the frame's rows: from the kernels, and with the dense twin's assignment in their place."""
    made = fleet.plan()
    problem = situation(
        fleet.agents, fleet.zones, np.zeros(0, OBSTACLE_DTYPE), fleet.kernels, CONFIG, now_tick=fleet.now
    ).problem
    assigned, _, _ = plan_ref.swap_plan(problem, CONFIG.k_candidates, 0)
    rows = made.rows.copy()
    rows["score"], rows["travel"], _ = plan_ref.pair_values(problem, assigned)
    rows["zone"] = fleet.zones["id"][assigned]
    rows["idle"] = np.maximum(fleet.now - fleet.zones["last_served_tick"].astype(np.int64), 0)[assigned]
    return made.rows.tobytes(), rows.tobytes()


def optimum(fleet: Fleet) -> tuple[int, float, float]:
    """(optimal sum of scores, seconds of matrix and scipy, seconds of our plan)."""
    problem = situation(
        fleet.agents, fleet.zones, np.zeros(0, OBSTACLE_DTYPE), fleet.kernels, CONFIG, now_tick=fleet.now
    ).problem
    best = 0

    def peer() -> None:
        nonlocal best
        dx = problem.zones.x[None, :] - problem.agents.x[:, None]
        dy = problem.zones.y[None, :] - problem.agents.y[:, None]
        ticks = np.ceil(np.sqrt(dx * dx + dy * dy) / np.float32(SPEED))
        score = np.rint((problem.zones.base[None, :] - ticks / np.float32(1000)) * np.float32(65536))
        rows, columns = linear_sum_assignment(score, maximize=True)
        best = int(score[rows, columns].astype(np.int64).sum())

    ours, theirs = alternate(fleet.plan, peer, 1.0)
    return best, theirs, ours


def run(report: Report) -> None:
    """All cases."""
    size = "10000 agents 10000 zones 64 kernels swap"
    rate, cpu_rate, share = ticks_per_second(Fleet(1, 10_000, 10_000), None)
    report.add(f"{size} {ISA}", rate, 20, "required", "ticks/s", "higher")
    report.add(f"{size} {ISA}", cpu_rate, 20, "required", "ticks/CPU-s", "higher")
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder) / "run", sync="os") as ledger:
        rate, cpu_rate, _ = ticks_per_second(Fleet(1, 10_000, 10_000), ledger)
    report.add(f"{size} ledger sync=os {ISA}", rate, 10, "required", "ticks/s", "higher")
    report.add(f"{size} ledger sync=os {ISA}", cpu_rate, 10, "required", "ticks/CPU-s", "higher")
    report.add(f"{size} assigned", share, 0.95, "required", "share of agents", "higher")

    sparse, dense = dense_rows(Fleet(2, 500, 500))
    report.add("sparse rows = dense rows, n=500", float(sparse == dense), 1.0, "dense twin", "equal digests", "higher")
    if sparse != dense:
        sys.exit("sparse and dense plans differ")

    for n in (500, 1000):
        fleet = Fleet(3, n, 2 * n)
        best, theirs, ours = optimum(fleet)
        report.add(f"plan n={n} m={2 * n}", 1 / ours, 1 / theirs, "numpy matrix + scipy", "plans/s", "higher")
        report.add(
            f"score_sum n={n} m={2 * n}", fleet.plan().stats.score_sum, best, "optimum (scipy)", "score", "higher"
        )


if __name__ == "__main__":
    alone = Report("plan_ticks")
    run(alone)
    alone.finish()
