"""Greedy and swap from 10,000 to 1,000,000 agents: `python benchmarks/plan.py scale`.

n agents and n zones lie uniformly on a square with 10,000 of each on a square kilometre. Travel is all that counts:
every weight but w_travel is 0, an agent takes 200 ticks for 10 m, and max_travel_ticks is 65,536, so that a score is
minus the travel in ticks and a gap is one of cost. (For the growth to 1,000,000 the limit is 2^19 ticks for all sizes,
so that every zone stays within reach.) Times are of whole `plan` calls. Memory is the peak of a fresh
process after its plan less the peak before it, inputs and a small plan behind it.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time

import numpy as np
from harness import Report, prepare

prepare()

from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]  # noqa: E402
from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # noqa: E402

from coord import AGENT_DTYPE, ZONE_DTYPE, PlanConfig, plan  # noqa: E402
from coord.backend import ISA  # noqa: E402
from coord.planning import plan_ref  # noqa: E402
from coord.planning.plan import Plan  # noqa: E402
from coord.planning.situation import situation  # noqa: E402

GREEDY, SWAP, TRAVEL_MAX, FAR_TRAVEL_MAX, SPEED = 0, 1, 2**16, 2**19, 0.05
NEIGHBOURS = 24
MEMORY = """
import json, re, sys
sys.path.insert(0, sys.argv[3])
import plan_scale
def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
n, planner = int(sys.argv[1]), int(sys.argv[2])
agents, zones = plan_scale.scene(n)
plan_scale.planned(agents[:64], zones[:64], planner)
before = peak_mb()
made = plan_scale.planned(agents, zones, planner)
print(json.dumps(peak_mb() - before))
"""


def scene(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(agents, zones)."""
    rng = np.random.default_rng(seed)
    agents, zones = np.zeros(n, AGENT_DTYPE), np.zeros(n, ZONE_DTYPE)
    for table in (agents, zones):
        table["id"] = np.arange(n)
        for name in ("x", "y"):
            table[name] = rng.uniform(0, 10 * math.sqrt(n), n)
    agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = SPEED, 0.9, 50, 0xFFFFFFFF
    return agents, zones


def planned(agents: np.ndarray, zones: np.ndarray, planner: int, travel_max: int = TRAVEL_MAX) -> Plan:
    """The plan on travel alone."""
    config = PlanConfig(
        w_priority=0, w_idle=0, w_cover=0, w_avoid=0, w_switch=0, max_travel_ticks=travel_max, planner=planner,
        k_candidates=NEIGHBOURS,
    )  # fmt: skip
    return plan(agents, zones, [], [], config, now_tick=0)


def seconds(n: int, planner: int, rounds: int, travel_max: int = TRAVEL_MAX) -> float:
    """Median of `rounds` plan calls."""
    agents, zones = scene(n)
    taken = []
    for _ in range(rounds):
        start = time.thread_time()
        planned(agents, zones, planner, travel_max)
        taken.append(time.thread_time() - start)
    return statistics.median(taken)


def default_plan(n: int) -> Plan:
    """Swap's plan of the same scene on the default weights, every zone within reach, priorities from 0 to 2."""
    agents, zones = scene(n)
    agents["speed"], zones["priority"] = 4.5, np.random.default_rng(n).uniform(0, 2, n)
    return plan(agents, zones, [], [], PlanConfig(planner=SWAP, k_candidates=NEIGHBOURS), now_tick=0)


def tree_seconds(n: int) -> float:
    """One pass of scipy's cKDTree: the 24 nearest zones of every agent."""
    agents, zones = scene(n)
    at, to = (np.stack([table["x"], table["y"]], 1) for table in (agents, zones))
    tree = cKDTree(to)
    start = time.thread_time()
    tree.query(at, NEIGHBOURS)
    return time.thread_time() - start


def memory_mb(n: int, planner: int) -> float:
    """What one plan call adds to the peak of a fresh process."""
    folder = str(__file__).rpartition("/")[0] or "."
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(n), str(planner), folder], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout))


def optimum(n: int, seed: int) -> tuple[int, int, int]:
    """Travel of (optimum, greedy, swap) in ticks."""
    agents, zones = scene(n, seed)
    dx, dy = (np.subtract.outer(agents[name], zones[name]) for name in ("x", "y"))
    ticks = np.ceil(np.sqrt(dx * dx + dy * dy) / np.float32(SPEED))
    rows, columns = linear_sum_assignment(ticks)
    sums = [-planned(agents, zones, planner).stats.score_sum for planner in (GREEDY, SWAP)]
    return int(ticks[rows, columns].sum(dtype=np.float64)), sums[0], sums[1]


def sample_is_dense(seed: int) -> bool:
    """Whether greedy's plan of 300 agents and zones of the 100,000 is that of the dense twin."""
    agents, zones = scene(100_000)
    rng = np.random.default_rng(seed)
    agents, zones = (np.sort(rng.choice(table, 300, replace=False), order="id") for table in (agents, zones))
    made = planned(agents, zones, GREEDY)
    problem = situation(agents, zones, [], [], made.situation.config, now_tick=0).problem
    return made.assigned.tobytes() == plan_ref.greedy(problem).tobytes()


def run(report: Report) -> None:
    """Times, growth, memory, gaps."""
    for n in (1000, 2000, 5000):
        for seed in range(2 if n < 5000 else 1):
            best, greedy, swap = optimum(n, seed)
            case = f"travel n={n} seed={seed}"
            report.add(f"greedy {case}", greedy, best, "optimum (scipy)", "ticks", "lower")
            report.add(f"swap {case}", swap, best, "optimum (scipy)", "ticks", "lower")
    greedy_s: list[float] = []
    swap_s: list[float] = []
    for _ in range(5):
        greedy_s.append(seconds(100_000, GREEDY, 1))
        swap_s.append(seconds(100_000, SWAP, 1))
    agents, zones = scene(100_000)
    costs = [-planned(agents, zones, planner).stats.score_sum for planner in (GREEDY, SWAP)]
    case = f"n=100000 {ISA}"
    middle = statistics.median(greedy_s)
    report.add(f"greedy {case}", middle, tree_seconds(100_000), "cKDTree k=24", "s", "lower")
    report.add(f"swap {case}", statistics.median(swap_s), middle, "our greedy", "s", "lower")
    report.add("swap travel n=100000", costs[1], costs[0], "our greedy", "ticks", "lower")
    far = planned(agents, zones, SWAP, FAR_TRAVEL_MAX)  # every agent has a zone, as in the plans that the bound is over
    proven = -far.prove().bound
    report.add("swap travel n=100000 proven", -far.stats.score_sum, proven, "auction's bound", "8 ticks", "lower")
    gap = default_plan(10_000).prove().gap  # of 100,000 the proof takes minutes
    report.add("swap default weights n=10000 gap", gap, 0.04, "required", "proven share of score_sum", "lower")
    small, large = (seconds(n, GREEDY, rounds, FAR_TRAVEL_MAX) for n, rounds in ((10_000, 9), (1_000_000, 1)))
    exponent = math.log(large / small) / math.log(100)
    report.add(f"greedy n=1000000 {ISA}", large, middle, "our greedy n=100000", "s", "lower")
    report.add(f"greedy growth 10000 to 1000000 {ISA}", exponent, 1.15, "required", "exponent", "lower")
    for name, planner in (("greedy", GREEDY), ("swap", SWAP)):
        report.add(f"{name} n=100000 memory added", memory_mb(100_000, planner), 64, "required", "MB", "lower")
    report.add(
        "greedy rows = dense rows",
        float(all(map(sample_is_dense, range(5)))),
        1,
        "dense twin",
        "of 5 samples",
        "higher",
    )


if __name__ == "__main__":
    alone = Report("plan_scale")
    run(alone)
    alone.finish()
