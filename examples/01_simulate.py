"""Simulate a fleet from Python, ask why one decision came out as it did, and draw the run.

python examples/01_simulate.py [FOLDER]: writes the run and run.png into FOLDER (default: a new temporary one).
"""

import sys
import tempfile
from pathlib import Path

from coord import Scenario, explain, simulate
from coord.stl import open_run
from droveway.run_tracks import draw_tracks, read_tracks

SITE = """
version = 1
name = "orchard"
seed = 11
[plan]
w_idle = 2.0
idle_cap_ticks = 60
flags = 1                          # nobody swims: the way to a zone must be clear
[agents]
random = 12
speed = 2.5
[zones]
random = 80
radius = 1.5
service_ticks = 3
[[obstacle]]                       # a pond
kind = "circle"
x = 35.0
y = 60.0
radius = 9.0
[[kernel]]                         # ripe fruit in the south-east
x = 75.0
y = 25.0
sigma = 15.0
weight = 0.8
"""

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
run = simulate(Scenario.loads(SITE), ticks=120, ledger=folder / "run")
print(f"{run.served} services at {run.zones_served} zones, root {run.root.hex()}")

with open_run(folder / "run") as reader:
    setup = reader.scenario
    now = reader.state_at(60)
    state = now.inputs
    parts = (state.agents, state.zones, state.obstacles, state.kernels, setup.config)
    told = explain(*parts, now_tick=60, agent=3, rows=now.rows)
    best = told.options[0]
    print(f"tick 60, agent 3: its best zone {best.zone} scores {best.score.score_i32}: {best.status.name.lower()}")
    tracks = read_tracks(reader, None, None, keep_points=True)
    draw_tracks(
        tracks, setup, f"12 agents, 120 ticks, {run.served} services", f"root {run.root.hex()}", folder / "run.png"
    )
print(f"picture: {folder / 'run.png'}")
