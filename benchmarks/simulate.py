"""Ticks a second of whole fleets: `python benchmarks/simulate.py` (one thread; the peer is the limit we promise).

"plan" is from positions to a plan, "tick" a whole tick (plan, motion, service, energy), "tick, ledger" that with
every event in a ledger that syncs with the operating system. The warehouse needs ../shared/data or $DROVEWAY_DATA.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness import Report, prepare

prepare()

from coord import Scenario, audit, import_map, import_scen, simulate  # noqa: E402
from coord.simulation.world import World  # noqa: E402
from tensor.random import Key  # noqa: E402

MAPS = Path(os.environ.get("DROVEWAY_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "maps"
TICKS = 60
UNIT = "ticks/s"


def open_field(n: int) -> Scenario:
    """n agents and n zones on a square kilometre, 64 kernels."""
    box = "box = [0.0, 0.0, 1000.0, 1000.0]"
    text = f'version = 1\nname = "field"\nseed = 9\n[agents]\nrandom = {n}\n{box}\nspeed = 3.0\n'
    text += f"[zones]\nrandom = {n}\n{box}\n"
    for x, y, sigma, weight in Key(9).uniform((64, 4)).tolist():
        text += f"[[kernel]]\nx = {1000 * x}\ny = {1000 * y}\nsigma = {20 + 80 * sigma}\nweight = {2 * weight - 1}\n"
    return Scenario.loads(text)


def plan_rate(site: Scenario) -> float:
    """Plans a second: the median over the ticks of a run."""
    world = World(site.setup)
    seconds = []
    for _ in range(TICKS):
        start = time.perf_counter()
        plan = world.plan_tick()
        seconds.append(time.perf_counter() - start)
        world.assign(plan.rows)
        world.advance()
    return 1 / statistics.median(seconds)


def tick_rate(site: Scenario, ticks: int, ledger: bool) -> float:
    """Whole ticks a second, setting up and closing the ledger included."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        simulate(site, ticks, ledger=Path(folder) / "run" if ledger else None, sync="os")
        return ticks / (time.perf_counter() - start)


def warehouse(report: Report) -> None:
    """The two warehouses of the real maps."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        small = import_map(MAPS / "warehouse-10-20-10-2-1.map", out / "small.toml", agents=200, zones=400, seed=1)
        start = time.perf_counter()
        run = simulate(small, 500, ledger=out / "small")
        seconds = time.perf_counter() - start
        report.add("warehouse 200 agents 400 zones, fsync", 500 / seconds, 10.0, "limit", UNIT, "higher")
        size = sum(path.stat().st_size for path in (out / "small").rglob("*") if path.is_file())
        report.add("warehouse 200 agents, size of 500 ticks", size / 1e6, 18.0, "limit", "MB", "lower")
        report.add("warehouse 200 agents, assigned of ready", run.assigned_of_ready, 0.95, "limit", "share", "higher")
        report.add("warehouse 200 agents, zones served", run.zones_served, 300, "limit", "zones", "higher")
        start = time.perf_counter()
        found = audit(out / "small", resimulate=True)
        assert found.ok
        assert found.root == run.root
        rate = 500 / (time.perf_counter() - start)
        report.add("audit --resimulate of it", rate, 500 / seconds, "simulate", UNIT, "higher")
        scen = MAPS / "warehouse-20-40-10-2-2-10000agents-1.scen"
        large = import_scen(scen, out / "large.toml", agents=10_000)
        report.add("warehouse 10000 agents, ledger", tick_rate(large, 20, True), 10.0, "limit", UNIT, "higher")


def main() -> None:
    """All cases."""
    report = Report("simulate")
    for n in (1000, 10_000):
        site = open_field(n)
        case = f"{n} agents {n} zones 64 kernels"
        report.add(f"{case}, plan", plan_rate(site), 20.0, "limit", UNIT, "higher")
        report.add(f"{case}, tick", tick_rate(site, TICKS, False), 20.0, "limit", UNIT, "higher")
        report.add(f"{case}, tick, ledger", tick_rate(site, TICKS, True), 10.0, "limit", UNIT, "higher")
    if MAPS.is_dir():
        warehouse(report)
    else:
        sys.stderr.write(f"no warehouse: {MAPS} is absent\n")
    report.finish()


if __name__ == "__main__":
    main()
