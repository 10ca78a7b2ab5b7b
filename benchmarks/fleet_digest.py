"""One digest: how many runs of the same fleets, made in different ways, come to the recorded root (tests/golden.toml).

Every fleet of tests/golden_fleets.py (planners, motions, demands, events) in processes of their own: each build of the
kernels with 1, 2, 3 and 7 threads and its rows in another order each time, the Python twins, and the two processes of a
sweep. "ours" are the runs with the recorded root, the peer is the number of runs: the ratio must be 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from harness import Report

TESTS = Path(__file__).resolve().parent.parent / "tests"
THREADS = (1, 2, 3, 7)
ROOTS = (
    "import json, sys\nsys.path.insert(0, sys.argv[1])\nimport golden_fleets\n"
    "print(json.dumps({name: golden_fleets.root_of(name, order=int(sys.argv[2])) for name in golden_fleets.names()}))\n"
)


def run(report: Report) -> None:
    """Add the lines of this part."""
    recorded = tomllib.loads((TESTS / "golden.toml").read_text())["fleet"]
    from tensor import build_info

    builds = {"v4": ("v3", "v4"), "v3": ("v3",), "neon": ("neon",)}[str(build_info()["isa"])]
    for isa in builds:
        made = [_roots(isa, threads, order) for order, threads in enumerate(THREADS)]
        _add(report, f"{isa}, 1 2 3 7 threads, rows in 4 orders", made, recorded)
    _add(report, "Python twins", [_roots("ref", 1, 9)], recorded)
    _add(report, "two processes of a sweep", [_swept()], recorded)


def _add(report: Report, case: str, made: list[dict[str, str]], recorded: dict[str, str]) -> None:
    runs = [(name, root) for roots in made for name, root in roots.items()]
    same = sum(recorded.get(name) == root for name, root in runs)
    report.add(f"digest: {case}", same, len(runs), "all runs", "runs with the recorded root", "higher")


def _roots(isa: str, threads: int, order: int) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", ROOTS, str(TESTS), str(order)], check=True, capture_output=True, text=True,
        env={**os.environ, "DROVEWAY_ISA": isa, "DROVEWAY_THREADS": str(threads)},
    )  # fmt: skip
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _swept() -> dict[str, str]:
    """The roots of the fleets that go straight, by planner, from a sweep."""
    sys.path.insert(0, str(TESTS))
    import golden_fleets

    from coord import Scenario, process_pool, sweep
    from coord.sites.scenario_schema import PLANNERS

    with tempfile.TemporaryDirectory() as folder:
        site = Scenario.load(golden_fleets.write("straight swap", Path(folder), order=7))
        done = sweep(
            site, [site.setup.seed], {"plan.planner": list(PLANNERS)}, golden_fleets.TICKS,
            executor=process_pool(2), folder=Path(folder) / "sweep",
        )  # fmt: skip
    return {f"straight {one.case.parameters['plan.planner']}": one.record["root"] for one in done.cases}
