"""Small fixed runs whose roots stand in tests/golden.toml: one number each for motion, planning, encoding and ledger.

The twins write the numbers; every build, thread count and environment must come to the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario

YARD_MAP = """type octile
height 9
width 14
map
..............
.@@@.@@@@.@@@.
.@@@.@@@@.@@@.
..............
.@@@.TT.@.WW@.
.@@@.TT.@.WW@.
......S.......
.@@@.@@@@.@@@G
@@............
"""

_KERNELS = """
[[kernel]]
x = 6.0
y = 4.0
sigma = 3.0
weight = 1.5
[[kernel]]
x = 11.5
y = 7.25
sigma = 2.0
weight = -0.75
"""

# name → (text of SITE.toml, ticks)
SITES: dict[str, tuple[str, int]] = {
    "straight": (
        'version = 1\nname = "straight"\nseed = 11\norigin = [52.54, 5.52, 0.0]\n'
        "[motion]\nenergy_per_m = 0.004\ncharge_per_tick = 0.1\n[plan]\nflags = 1\n"
        "[agents]\nrandom = 10\nspeed = 6.5\nenergy = 0.6\n"
        "[zones]\nrandom = 16\nradius = 1.25\nservice_ticks = 3\n"
        '[[obstacle]]\nkind = "circle"\nx = 30.0\ny = 40.0\nradius = 6.0\nmargin = 0.5\n'
        '[[obstacle]]\nkind = "box"\nx = 70.0\ny = 20.0\nradius = 4.0\nhalf_y = 9.0\n'
        '[[obstacle]]\nkind = "polygon"\npoints = [[60.0, 60.0], [75.0, 62.0], [70.0, 80.0], [58.0, 71.5]]\n'
        + _KERNELS,
        80,
    ),
    "grid": (
        'version = 1\nname = "grid"\nseed = 3\n[map]\nfile = "yard.map"\n'
        "[agents]\nrandom = 7\nspeed = 1.5\n[zones]\nrandom = 12\nservice_ticks = 2\n" + _KERNELS,
        80,
    ),
    "greedy": (
        'version = 1\nname = "greedy"\nseed = 5\n[plan]\nplanner = "greedy"\nevery_ticks = 3\nw_travel = 2.5\n'
        '[map]\nfile = "yard.map"\ncell_m = 2.0\n[agents]\nrandom = 12\nspeed = 3.0\n[zones]\nrandom = 8\n',
        60,
    ),
    "listed": (
        'version = 1\nname = "listed"\n'
        + "".join(f"[[agent]]\nid = {i * 2**30}\nx = {i}.5\ny = {7 * i % 5}.0\ncaps = {i}\n" for i in range(6))
        + "".join(f"[[zone]]\nid = {9 - i}\nx = {3 * i}.0\ny = {i}.25\nneed_caps = {i % 3}\n" for i in range(7)),
        40,
    ),
}


def root_of(name: str) -> bytes:
    """Root of the ledger of one of the runs."""
    text, ticks = SITES[name]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "yard.map").write_text(YARD_MAP, newline="\n")
        run = simulate(Scenario.loads(text, folder), ticks, ledger=Path(folder) / "run", sync="os")
    assert run.root is not None
    return run.root


def roots() -> dict[str, str]:
    """Every root, hexadecimal."""
    return {name: root_of(name).hex() for name in SITES}
