"""Whatever a scenario holds, its run verifies, and comes out the same from the ledger alone."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coord.audit import audit
from coord.scenario import Scenario
from coord.simulate import simulate
from coord.stl import open_run

YARD_MAP = runpy.run_path(str(Path(__file__).parents[1] / "golden_runs.py"))["YARD_MAP"]
share = st.floats(0, 1, width=32)
weight = st.floats(-4, 4, width=32)
place = st.floats(-50, 150, width=32)


def _table(name: str, **values: object) -> str:
    head = f"[[{name}]]" if name in ("kernel", "obstacle") else f"[{name}]"
    return f"{head}\n" + "".join(f"{key} = {value!r}\n".replace("'", '"') for key, value in values.items())


@st.composite
def scenarios(draw: st.DrawFn) -> str:
    """The text of a SITE.toml on the yard map or in the open, with odd speeds, charges and weights."""
    on_map = draw(st.booleans())
    top = f'version = 1\nname = "any"\nseed = {draw(st.integers(0, 2**64 - 1))}\n'
    names = ("w_priority", "w_idle", "w_travel", "w_switch")
    plan = _table(
        "plan", planner=draw(st.sampled_from(["greedy", "swap"])), every_ticks=draw(st.integers(1, 4)),
        max_travel_ticks=draw(st.integers(1, 100)), k_candidates=draw(st.integers(1, 6)),
        flags=draw(st.integers(0, 1)), queue=draw(st.integers(1, 8)), **{name: draw(weight) for name in names},
    )  # fmt: skip
    motion = _table("motion", energy_per_m=draw(st.floats(0, 0.2)), charge_per_tick=draw(share))
    agents = _table(
        "agents", random=draw(st.integers(0, 9)), speed=draw(st.one_of(st.floats(0, 9, width=32), st.just(1e30))),
        energy=draw(share), caps=draw(st.integers(0, 3)), memory_ticks=draw(st.integers(0, 5)),
    )  # fmt: skip
    zones = _table(
        "zones", random=draw(st.integers(0, 12)), radius=draw(st.floats(0.25, 9, width=32)),
        service_ticks=draw(st.integers(0, 4)), need_caps=draw(st.integers(0, 3)), energy_cost=draw(share),
    )  # fmt: skip
    field = ""
    for _ in range(draw(st.integers(0, 3))):
        field += _table(
            "kernel",
            x=draw(place),
            y=draw(place),
            sigma=draw(st.floats(1, 50)),
            weight=draw(st.sampled_from([-1.5, 0.0, 0.75])),
        )
        field += _table("obstacle", kind="circle", x=draw(place), y=draw(place), radius=draw(st.floats(0, 20)))
    cell = draw(st.sampled_from([1.0, 0.5, 3.25]))
    grid = _table("map", file="yard.map", cell_m=cell) if on_map else ""
    return top + plan + motion + agents + zones + field + grid


@given(scenarios(), st.integers(1, 70))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_run_verifies_and_is_made_again_from_its_ledger(
    tmp_path_factory: pytest.TempPathFactory, text: str, ticks: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("any")
    (folder / "yard.map").write_text(YARD_MAP)
    site = Scenario.loads(text, folder)
    run = simulate(site, ticks, ledger=folder / "run", sync="os")
    report = audit(folder / "run", resimulate=True)
    assert report.ok, (report.first_divergence, report.problems)
    assert (report.root, report.frames, report.resimulated) == (run.root, run.frames, run.frames)
    assert audit(folder / "run").ok
    with open_run(folder / "run") as reader:
        if run.frames:
            assert reader.scenario.to_map() == site.setup.to_map()
        speed = site.setup.agents["speed"][:1].astype(np.float64)
        before = None
        for view in reader.frames():
            now = view.inputs.agents.copy()
            if before is not None and len(speed):
                gone = np.hypot(*(now[axis].astype(np.float64) - before[axis] for axis in "xy"))
                assert (gone <= speed * site.setup.every_ticks * (1 + 1e-6) + _slack(site)).all()
            before = now


def _slack(site: Scenario) -> float:
    """A fraction of a cell saved up on a grid; the rounding of coordinates without one."""
    return site.setup.grid.cell_m if site.setup.grid is not None else 1e-4
