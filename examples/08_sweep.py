"""Compare planners: run a site with each planner and several seeds, sum up, and draw one seed of each over time.

python examples/08_sweep.py [FOLDER]: writes the sweep into FOLDER/sweep (default: a new temporary
folder) and sweep.png. The last line is one digest of every run, whatever machine and number of processes made it.
"""

import sys
import tempfile
from pathlib import Path

from coord import Scenario, Scorer, process_pool, sweep, tick_metrics
from droveway.metrics_picture import Curve, draw_metrics
from droveway.metrics_series import Series

SITE = """
version = 1
name = "field"
agents = { random = 40, speed = 4.0, box = [0, 0, 400, 400] }
plan = { w_travel = 20.0, max_travel_ticks = 200 }
demand = { model = "uniform", rate = 2.0, box = [0, 0, 400, 400] }
"""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    seeds = range(3)
    done = sweep(Scenario.loads(SITE), seeds, {"plan.planner": ["greedy", "swap", "auction"]}, ticks=120,
                 executor=process_pool(2), folder=folder / "sweep", verify=1)  # fmt: skip
    for group in done.summaries():
        planner, travel = group.parameters["plan.planner"], group.spreads["travel_ticks_mean"]
        idle = group.spreads["idle_p99_ticks"]
        print(f"{planner}: {travel.mean:.2f} ticks to the zone ahead ({travel.least:.2f} to {travel.most:.2f}), "
              f"zones idle for up to {idle.median:.0f} ticks (p99)")  # fmt: skip
    curves = []
    for one in done.cases[:: len(seeds)]:
        series = Series()
        for tick in tick_metrics(folder / "sweep" / "runs" / one.case.name, Scorer(), gap_every=8):
            series.add_tick(tick)
        curves.append(Curve(str(one.case), series))
    draw_metrics(folder / "sweep.png", "field", curves)
    print(f"picture: {folder / 'sweep.png'}")
    print(f"{len(done.cases)} runs, {done.verified} made twice, digest {done.digest}")


if __name__ == "__main__":  # processes that are spawned read this file, too
    main()
