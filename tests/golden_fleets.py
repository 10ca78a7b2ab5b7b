"""A small fleet under every planner, motion and demand that there is: its roots stand in tests/golden.toml.

Each site is given in any order of its rows, and with agents and zones in tables or in .npy files: the root of the run
is one. The twins write the numbers; builds, threads, orders and processes of a sweep must come to the same.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from golden_runs import YARD_MAP

from coord.records import AGENT_DTYPE, NO_ZONE, ZONE_DTYPE
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.sites.scenario_schema import DEMANDS, MOTIONS, PLANNERS, TABLES

TICKS = 40
Rows = list[dict[str, Any]]

_TASKS = "rate = 0.4\nopen_max = 12\ndeadline_ticks = 25\nservice_ticks = 2\nbox = [0.0, 0.0, 14.0, 9.0]\n"
_SPOTS = (
    "[[hot_spot]]\nx = 4.0\ny = 3.0\nsigma = 1.5\n{path}[[hot_spot]]\nx = 11.0\ny = 7.0\nsigma = 2.0\nweight = 0.5\n"
)
_DEMANDS = {
    "uniform": f'[demand]\nmodel = "uniform"\n{_TASKS}',
    "hot_spots": f'[demand]\nmodel = "hot_spots"\n{_TASKS}{_SPOTS}'.replace("box = [0.0, 0.0, 14.0, 9.0]\n", ""),
    "moving": f'[demand]\nmodel = "moving"\n{_TASKS}{_SPOTS}'.replace("box = [0.0, 0.0, 14.0, 9.0]\n", ""),
}
_PATH = "path = [[0, 4.0, 3.0], [20, 9.0, 4.5], [40, 2.0, 8.0]]\n"
_CHANCES = (
    "[faults]\ndelay = 0.02\nfault = 0.01\nfault_ticks = [3, 9]\nsilent = 0.02\nlost = 0.01\nlost_ticks = [5, 12]\n"
    '[[event]]\ntick = 6\nkind = "agent_lost"\nid = 11\nticks = 9\n'
    '[[event]]\ntick = 9\nkind = "zone_added"\nid = 900\nx = 6.5\ny = 4.5\n'
    '[[event]]\ntick = 14\nkind = "zone_removed"\nid = 3\n'
)


def cells() -> list[tuple[float, float]]:
    """Centres of the yard's free cells in a fixed shuffled order."""
    lines = YARD_MAP.splitlines()[4:]
    free = [
        (column + 0.5, len(lines) - row - 0.5)
        for row, line in enumerate(lines)
        for column, glyph in enumerate(line)
        if glyph in ".GS"
    ]
    random.Random(1).shuffle(free)
    return free


def rows() -> dict[str, Rows]:
    """Agents, zones, obstacles and kernels, ascending by id."""
    places = cells()
    agents = [
        {"id": 4 * i + 3, "x": x, "y": y, "speed": (0.75, 1.0, 1.5)[i % 3], "energy": 0.06 + i / 16, "caps": 1 + i % 3}
        for i, (x, y) in enumerate(places[:14])
    ]
    zones = [
        {"id": 3 * i, "x": x, "y": y, "radius": 0.5, "priority": 1 + i % 4, "service_ticks": i % 4, "need_caps": i % 2}
        for i, (x, y) in enumerate(places[10:32])
    ]
    obstacles: Rows = [
        {"kind": "circle", "x": 7.0, "y": 4.0, "radius": 0.75, "margin": 0.25},
        {"kind": "box", "x": 11.0, "y": 1.5, "radius": 0.5, "half_y": 1.0},
        {"kind": "polygon", "points": [[2.0, 5.0], [3.5, 5.5], [3.0, 7.25]]},
        {"kind": "circle", "x": 3.0, "y": 2.0, "radius": 0.5},
    ]
    kernels = [
        {"x": 1.0 + 2.5 * i, "y": 2.0 + 7 * i % 5, "sigma": 1.0 + i / 2, "weight": (1.5, -0.75)[i % 2]}
        for i in range(5)
    ]
    return {"agent": agents, "zone": zones, "obstacle": obstacles, "kernel": kernels}


def names() -> list[str]:
    """The fleets that this version can run."""
    found = [f"straight {planner}" for planner in PLANNERS]
    found += [f"{motion} swap" for motion in MOTIONS if motion != "straight"]
    found += [f"{motion} greedy every 3" for motion in MOTIONS if motion not in ("straight", "around")]
    found += [f"straight swap {demand}" for demand in DEMANDS if demand in _DEMANDS]
    if "event" in TABLES:
        found += ["straight swap events", "grid greedy events"]
    if any(key.name == "queue" for key in TABLES["plan"].keys):
        found.append("straight swap queue")
    return found


def write(name: str, folder: Path, *, order: int = 0, files: bool = False) -> Path:
    """The SITE.toml of a fleet and its files in a folder; `order` other than 0 shuffles all rows, `files` writes agents
    and zones as .npy."""
    words = name.split()
    motion, planner, more = words[0], words[1], words[2:]
    shuffled = random.Random(order)
    tables = rows()
    for table in tables.values() if order else ():
        shuffled.shuffle(table)
    on_grid = motion in ("grid", "pibt")
    if on_grid:
        (folder / "yard.map").write_text(YARD_MAP, newline="\n")
        tables["obstacle"] = []
    text = f'version = 1\nname = "fleet"\nseed = 9\n[plan]\nplanner = "{planner}"\nw_travel = 2.5\n'
    text += "every_ticks = 3\n" if "every" in more else ""
    text += "flags = 1\n" if motion == "straight" else ""
    text += "queue = 3\n" if "queue" in more else ""
    text += f'[motion]\nmodel = "{motion}"\nenergy_per_m = 0.004\ncharge_per_tick = 0.1\n'
    text += '[map]\nfile = "yard.map"\n' if on_grid else ""
    text += next((table for demand, table in _DEMANDS.items() if demand in more), "").format(
        path=_PATH if "moving" in more else ""
    )
    text += _CHANCES if "events" in more else ""
    for table in ("agent", "zone") if files else ():
        _write_records(table, tables.pop(table), folder)
        text += f'[{table}s]\nfile = "{table}s.npy"\n'
    for table, found in tables.items():
        for row in found:
            text += f"[[{table}]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in row.items())
    path = folder / "fleet.toml"
    path.write_text(text)
    return path


def _value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _write_records(table: str, found: Rows, folder: Path) -> None:
    out = np.zeros(len(found), AGENT_DTYPE if table == "agent" else ZONE_DTYPE)
    for name in found[0]:
        out[name] = [row[name] for row in found]
    if table == "agent":
        out["zone"], out["memory_ticks"] = NO_ZONE, 100
    np.save(folder / f"{table}s.npy", out)


def root_of(name: str, *, order: int = 0, files: bool = False) -> str:
    """Root of the fleet's run, hexadecimal."""
    with tempfile.TemporaryDirectory() as folder:
        site = Scenario.load(write(name, Path(folder), order=order, files=files))
        run = simulate(site, TICKS, ledger=Path(folder) / "run", sync="os")
    assert run.root is not None
    return run.root.hex()


def roots() -> dict[str, str]:
    """Every root."""
    return {name: root_of(name) for name in names()}
