"""Part "paths" of benchmarks/fleet.py: conflict-free paths and steps on grids.

- First solution: processor time from starts and goals to paths, distances included, and the sum of costs ÷ the sum of
  shortest ways, of random-32-32-10 with 400 agents and of warehouse-20-40-10-2-2 with 3,000. The peer is LaCAM3, built
  from the sources in the folder $LACAM3 (its `lacam3` folder lies in it), as it looks for its first solution: single
  thread, its default options but no refinement after it; and without its planned paths ("quick", --no-scatter
  --pibt-num 1), which is its fastest. Without $LACAM3 the figures to be reached are the peer.
- Steps: ticks a second of 10,000 agents on the warehouse map: the step alone, and whole ticks of `simulate` with a
  plan at each (planner swap, greedy); needed are 20.

The maps are those of $DROVEWAY_DATA, else ../shared/data beside the checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import FOLDER, Report

from coord import Grid, Paths, Scenario, check_paths, first_solution
from coord.simulation.world import World
from coord.sites.importer import import_scen
from coord.sites.movingai import parse_map, read_scen

DATA = Path(os.environ.get("DROVEWAY_DATA", FOLDER.parent.parent / "shared" / "data"))
CASES = (  # name, map, scenario, agents, seconds and ratio to be reached, limit of the peer in seconds
    ("random-32-32-10, 400 agents", "random-32-32-10", "random-32-32-10-random-1", 400, 0.034, 2.29, 10),
    ("warehouse, 3,000 agents", "warehouse-20-40-10-2-2", "warehouse-20-40-10-2-2-10000agents-1", 3000, 3.1, 1.70, 120),
)
TICKS_A_SECOND_REQUIRED = 20.0
SEEDS = range(5)

PEER = r"""
#include <ctime>
#include <cstdio>
#include <cstdlib>
#include <lacam.hpp>
#include <metrics.hpp>
int main(int, char** argv) {
  const auto instance = Instance(std::string(argv[2]), std::string(argv[1]), atoi(argv[3]));
  Planner::FLG_MULTI_THREAD = false;
  Planner::FLG_STAR = false;
  Planner::RANDOM_INSERT_PROB1 = 0.001f;
  Planner::FLG_SCATTER = atoi(argv[6]) != 0;
  Planner::PIBT_NUM = atoi(argv[7]);
  const auto deadline = Deadline(atoi(argv[4]) * 1000);
  const auto begin = clock();
  const auto solution = solve(instance, 0, &deadline, atoi(argv[5]));
  const double seconds = double(clock() - begin) / CLOCKS_PER_SEC;
  auto table = DistTable(instance);
  printf("{\"seconds\": %.6f, \"cost\": %d, \"bound\": %d}\n", seconds, get_sum_of_costs(solution),
         get_sum_of_costs_lower_bound(instance, table));
}
"""


def run(report: Report) -> None:
    """All of the part."""
    peer = _built_peer()
    for name, map_name, scen, agents, seconds, ratio, limit in CASES:
        grid, starts, goals = _problem(map_name, scen, agents)
        ours = _median(lambda seed, g=grid, a=starts, b=goals: first_solution(g, a, b, seed=seed), grid, starts, goals)
        report.add(f"{name}: first solution", ours[0], seconds, "required", "s", "lower")
        report.add(f"{name}: sum of costs ÷ lower bound", ours[1], ratio, "required", "ratio", "lower")
        plain = _median(
            lambda seed, g=grid, a=starts, b=goals: first_solution(g, a, b, seed=seed, guided=False),
            grid, starts, goals,
        )  # fmt: skip
        report.add(f"{name}: without guides", plain[0], seconds, "required", "s", "lower")
        report.add(f"{name}: without guides, sum of costs ÷ lower bound", plain[1], ratio, "required", "ratio", "lower")
        if peer is not None:
            files = [str(DATA / "maps" / file) for file in (f"{map_name}.map", f"{scen}.scen")]
            arguments = [*files, str(agents), str(limit)]
            _against(report, name, peer, arguments, {"LaCAM3": ("1", "10"), "LaCAM3 quick": ("0", "1")}, ours)
    _steps(report)


def _against(
    report: Report, name: str, peer: Path, arguments: list[str], options: dict[str, tuple[str, str]],
    ours: tuple[float, float],
) -> None:  # fmt: skip
    for peer_name, chosen in options.items():
        runs = []
        for seed in SEEDS if arguments[-1] == "10" or peer_name != "LaCAM3" else range(1):
            done = subprocess.run([peer, *arguments, str(seed), *chosen], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            if found["cost"]:  # 0: nothing found within the limit
                runs.append((found["seconds"], found["cost"] / found["bound"]))
        if not runs:
            sys.stderr.write(f"{name}: {peer_name} found nothing in {arguments[-1]} s\n")
            continue
        seconds, ratio = np.median(np.array(runs), axis=0).tolist()
        report.add(f"{name}: first solution", ours[0], seconds, peer_name, "s", "lower")
        report.add(f"{name}: sum of costs ÷ lower bound", ours[1], ratio, peer_name, "ratio", "lower")


def _built_peer() -> Path | None:
    sources = os.environ.get("LACAM3")
    if sources is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="lacam3-"))
    (folder / "first.cpp").write_text(PEER)
    library = Path(sources) / "lacam3"
    out = folder / "first"
    command = ["g++", "-O3", "-std=c++17", "-pthread", f"-I{library / 'include'}", str(folder / "first.cpp")]
    subprocess.run([*command, *sorted(map(str, (library / "src").glob("*.cpp"))), "-o", str(out)], check=True)
    return out


def _problem(map_name: str, scen: str, agents: int) -> tuple[Grid, np.ndarray, np.ndarray]:
    path = DATA / "maps" / f"{map_name}.map"
    grid = parse_map(path.read_bytes(), str(path), 1.0)
    trips = read_scen(DATA / "maps" / f"{scen}.scen", agents)
    places = np.array([(trip.start, trip.goal) for trip in trips])  # [n, 2, (column, row from the north)]
    cells = (grid.height - 1 - places[..., 1]) * grid.width + places[..., 0]
    return grid, cells[:, 0], cells[:, 1]


def _median(
    solve: Callable[[int], Paths], grid: Grid, starts: np.ndarray, goals: np.ndarray
) -> tuple[float, float]:  # seconds, sum of costs ÷ lower bound
    found = []
    for seed in SEEDS:
        begin = time.process_time()
        paths = solve(seed)
        seconds = time.process_time() - begin
        assert paths.complete
        assert check_paths(grid, paths.cells, starts, goals) is None
        found.append((seconds, paths.sum_of_costs / paths.lower_bound))
    seconds, ratio = np.median(np.array(found), axis=0).tolist()
    return seconds, ratio


def _steps(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for planner in ("swap", "greedy"):
            moving, whole = _ticks_a_second(Path(folder) / planner, planner)
            name = "10,000 agents in the warehouse"
            if planner == "swap":
                report.add(f"{name}: the step", moving, TICKS_A_SECOND_REQUIRED, "required", "ticks/s", "higher")
            report.add(f"{name}: ticks with {planner}", whole, TICKS_A_SECOND_REQUIRED, "required", "ticks/s", "higher")


def _ticks_a_second(folder: Path, planner: str, ticks: int = 60) -> tuple[float, float]:
    """(of motion alone, of whole ticks): ticks a second of processor time, without the first, which finds distances."""
    folder.mkdir()
    import_scen(DATA / "maps" / f"{CASES[1][2]}.scen", folder / "site.toml", agents=10_000)
    text = (folder / "site.toml").read_text()
    assert 'model = "pibt"' not in text
    (folder / "site.toml").write_text(text + '[motion]\nmodel = "pibt"\n')
    world = World(Scenario.load(folder / "site.toml").with_changes(planner=planner).setup)
    moving = whole = 0.0
    for tick in range(ticks + 1):
        begin = time.process_time()
        world.assign(world.plan_tick().rows)
        middle = time.process_time()
        world.advance()
        end = time.process_time()
        if tick:
            moving, whole = moving + end - middle, whole + end - begin
    assert world.cell_conflicts == 0
    return ticks / moving, ticks / whole
