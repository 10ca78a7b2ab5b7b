"""Another library may leave a thread in flush-to-zero or round-up mode: decisions stay, and the mode stays."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from coord import AgentState, GaussianKernel, Obstacle, PlanConfig, Scenario, WorkZone, plan, simulate, wgs84_to_enu
from tensor import _kernels

# Round up, flush to zero, subnormal inputs are zero: MXCSR on x86-64, FPCR on arm64.
HOSTILE = 0x1F80 | 0x4000 | 0x8000 | 0x0040 if platform.machine() == "x86_64" else (1 << 22) | (1 << 24)


@pytest.fixture
def hostile():
    """Calls a function in the hostile mode, and checks that the mode is still there afterwards."""

    def call(function):
        saved = _kernels.float_mode_enter()
        try:
            _kernels.float_mode_leave(HOSTILE)
            result = function()
            after = _kernels.float_mode_enter()
        finally:
            _kernels.float_mode_leave(saved)
        assert after & ~0x3F == HOSTILE & ~0x3F  # the low bits of MXCSR record what happened, they are no mode
        return result

    return call


def awkward_plan():
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-40, 40, (2, 60))
    agents = [AgentState(id=i, x=x[i], y=y[i], speed=0.3 + 0.1 * i, energy=0.9) for i in range(30)]
    zones = [WorkZone(id=i, x=x[59 - i], y=y[59 - i], radius=0.1 * i, priority=0.7) for i in range(30)]
    kernels = [GaussianKernel(id=i, x=x[i], y=y[i], sigma=7.3, weight=0.3 - 0.1 * i) for i in range(6)]
    obstacles = [Obstacle(id=i, x=x[i] + 1, y=y[i], radius=0.7, margin=0.3) for i in range(5)]
    return plan(agents, zones, obstacles, kernels, PlanConfig(flags=1), now_tick=77).rows.tobytes()


SITE = """
version = 1
name = "field"
plan.w_idle = 0.7
plan.w_switch = 1e-3
agents.random = 9
agents.speed = 0.7
zones.random = 30
[[kernel]]
x = 30.1
y = 40
sigma = 9
weight = 0.3
"""


def small_runs():
    return [simulate(Scenario.loads(SITE), 60, seed=seed) for seed in (4, 5)]


def test_the_fixture_really_changes_the_mode(hostile):
    tiny = np.array([1e-40], np.float32)

    def half():
        return (tiny * np.float32(0.5)).tobytes()

    assert half() != bytes(4)
    assert hostile(half) == bytes(4)


def test_a_plan_is_the_same_in_a_hostile_mode(hostile):
    assert hostile(awkward_plan) == awkward_plan()


def test_a_run_is_the_same_in_a_hostile_mode(hostile):
    assert hostile(small_runs) == small_runs()


def test_coordinates_are_the_same_in_a_hostile_mode(hostile):
    def place():
        return wgs84_to_enu((52.54, 5.52, 0.0), (52.541, 5.521, 10.0))

    assert hostile(place) == place()


CONSTANTS = """
import importlib, pkgutil, sys
from tensor import _kernels
import numpy as np

plain = _kernels.float_mode_enter()
_kernels.float_mode_leave(int(sys.argv[1]) or plain)
modules = []
for package in ("tensor", "vector", "splat", "coord", "storage"):
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__, package + "."):
        if not found.name.split(".")[1].startswith(("_kernels", "lib")):
            modules.append(importlib.import_module(found.name))
_kernels.float_mode_leave(plain)

def shown(value):
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.tobytes().hex()
    if isinstance(value, dict):
        value = list(value.values())
    return [shown(item) for item in value] if isinstance(value, (list, tuple)) else None

for module in modules:
    for name, value in sorted(vars(module).items()):
        if not name.startswith("__"):
            print(module.__name__, name, shown(value))
"""


@pytest.mark.parametrize("rounding", [0x4000, 0x6000])
def test_constants_are_the_same_when_the_packages_are_imported_in_another_mode(rounding, tmp_path):
    hostile = HOSTILE if platform.machine() != "x86_64" else HOSTILE & ~0x6000 | rounding
    told = []
    # The first one leaves compiled modules, as an installation does: Python's compiler reads numbers in the mode.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    for mode in (0, 0, hostile):
        done = subprocess.run(
            [sys.executable, "-c", CONSTANTS, str(mode)],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            env=environment,
        )
        told.append(done.stdout.splitlines())
    assert len(told[1]) > 300
    assert [(a, b) for a, b in zip(told[1], told[2], strict=True) if a != b] == []
