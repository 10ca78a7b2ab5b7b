"""Whatever a scenario holds, its run verifies, and comes out the same from the ledger alone."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coord.auditing.audit import audit
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.stl import open_run

YARD_MAP = runpy.run_path(str(Path(__file__).parents[1] / "golden_runs.py"))["YARD_MAP"]
share = st.floats(0, 1, width=32)
weight = st.floats(-4, 4, width=32)
place = st.floats(-50, 150, width=32)


def _table(name: str, **values: object) -> str:
    head = f"[[{name}]]" if name in ("kernel", "obstacle", "hot_spot", "event") else f"[{name}]"
    return f"{head}\n" + "".join(f"{key} = {_value(value)}\n" for key, value in values.items())


def _value(value: object) -> str:
    return repr(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


@st.composite
def demands(draw: st.DrawFn) -> str:
    """Any model but the replayed one, whose file other tests have."""
    model = draw(st.sampled_from(["persistent", "uniform", "hot_spots", "moving"]))
    if model == "persistent":
        return ""
    values: dict[str, object] = {
        "model": model, "where": draw(st.sampled_from(["tasks", "zones"])), "rate": draw(st.floats(0, 3)),
        "open_max": draw(st.integers(1, 30)), "service_ticks": draw(st.integers(0, 3)), "radius": 0.75,
        "priority": draw(weight), "energy_cost": draw(share),
    }  # fmt: skip
    if values["where"] == "tasks":
        values["deadline_ticks"] = draw(st.integers(0, 9))
    text = _table("demand", **values)
    for _ in range(0 if model == "uniform" else draw(st.integers(1, 3))):
        spot: dict[str, object] = {
            "x": draw(place), "y": draw(place), "sigma": draw(st.floats(0.5, 40)), "weight": draw(st.floats(0.1, 3)),
        }  # fmt: skip
        if model == "moving" and draw(st.booleans()):
            ticks = sorted(draw(st.sets(st.integers(0, 60), min_size=1, max_size=4)))
            spot["path"] = [[tick, draw(place), draw(place)] for tick in ticks]
        text += _table("hot_spot", **spot)
    return text


@st.composite
def faults(draw: st.DrawFn) -> str:
    """Chances that come true now and then within some dozen ticks."""
    values: dict[str, object] = {}
    for name in sorted(draw(st.sets(st.sampled_from(["delay", "fault", "silent", "lost"])))):
        least = draw(st.integers(1, 6))
        values[name] = draw(st.sampled_from([0.0, 0.02, 0.2]))
        values[f"{name}_ticks"] = [least, least + draw(st.integers(0, 9))]
    return _table("faults", **values) if values else ""


@st.composite
def events(draw: st.DrawFn, agents: int, zones: int, on_map: bool) -> str:
    """Rows of any kind, each once for a tick, kind and id."""
    rows: dict[tuple[object, ...], str] = {}
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["agent_lost", "agent_back", "fault", "silent", "delay", "zone_added",
                                     "zone_removed", "obstacle_added"]))  # fmt: skip
        count = zones if kind == "zone_removed" else 3 if kind in ("zone_added", "obstacle_added") else agents
        if count == 0:
            continue
        number = draw(st.integers(0, count - 1)) + (100 if kind.endswith("_added") else 0)
        keys: dict[str, object] = {"tick": draw(st.integers(1, 50)), "kind": kind, "id": number}
        if kind in ("agent_lost", "fault", "silent", "delay"):
            keys["ticks"] = draw(st.integers(1, 12))
        if kind in ("zone_added", "obstacle_added"):
            keys |= {"x": draw(st.integers(0, 13)) + 0.5, "y": draw(st.integers(0, 8)) + 0.5, "radius": 9.0}
        if kind == "obstacle_added":
            keys["shape"] = draw(st.sampled_from(["circle", "cells"] if on_map else ["circle", "box"]))
            keys["radius"] = draw(st.floats(0, 4))
            if keys["shape"] != "circle":
                keys["half_y"] = draw(st.floats(0, 4))
            if draw(st.booleans()):
                gone = {"tick": draw(st.integers(1, 60)), "kind": "obstacle_removed", "id": number}
                rows[tuple(gone.values())] = _table("event", **gone)
        rows[keys["tick"], kind, number] = _table("event", **keys)
    return "".join(rows.values())


@st.composite
def scenarios(draw: st.DrawFn) -> str:
    """The text of a SITE.toml on the yard map or in the open, with odd speeds, charges and weights."""
    on_map = draw(st.booleans())
    top = f'version = 1\nname = "any"\nseed = {draw(st.integers(0, 2**64 - 1))}\n'
    names = ("w_priority", "w_idle", "w_travel", "w_switch")
    plan = _table(
        "plan", planner=draw(st.sampled_from(["greedy", "swap"])), every_ticks=draw(st.integers(1, 4)),
        max_travel_ticks=draw(st.integers(1, 100)), k_candidates=draw(st.integers(1, 6)),
        flags=draw(st.integers(0, 1)), queue=draw(st.integers(1, 8)), on_events=draw(st.booleans()),
        **{name: draw(weight) for name in names},
    )  # fmt: skip
    models = ["grid", "pibt"] if on_map else ["straight", "around"]
    motion = _table(
        "motion", model=draw(st.sampled_from(models)), energy_per_m=draw(st.floats(0, 0.2)), charge_per_tick=draw(share)
    )
    count, zone_count = draw(st.integers(0, 9)), draw(st.integers(0, 12))
    agents = _table(
        "agents", random=count, speed=draw(st.one_of(st.floats(0, 9, width=32), st.just(1e30))),
        energy=draw(share), caps=draw(st.integers(0, 3)), memory_ticks=draw(st.integers(0, 5)),
    )  # fmt: skip
    zones = _table(
        "zones", random=zone_count, radius=draw(st.floats(0.25, 9, width=32)),
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
    outside = draw(demands()) + draw(faults()) + draw(events(count, zone_count, on_map))
    return top + plan + motion + agents + zones + field + grid + outside


@given(scenarios(), st.integers(1, 70))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    assert simulate(site, ticks, ledger=folder / "again", sync="os").root == run.root
    assert Scenario.loads(site.to_toml(), folder).setup.to_map() == site.setup.to_map()
    with open_run(folder / "run") as reader:
        if run.frames:
            assert reader.scenario.to_map() == site.setup.to_map()
        speed = site.setup.agents["speed"][:1].astype(np.float64)
        before = None
        for view in reader.frames():
            now = view.inputs.agents.copy()
            if before is not None and len(now) and before["id"].tolist() == now["id"].tolist():
                reported = now["last_seen_tick"].astype(np.int64) - before["last_seen_tick"].astype(np.int64)
                gone = np.hypot(*(now[axis].astype(np.float64) - before[axis] for axis in "xy"))
                most = speed * (reported + (before["last_seen_tick"] == 0))  # tick 0 is reported at its start, too
                assert (gone <= most * (1 + 1e-6) + _slack(site)).all()
            before = now


def _slack(site: Scenario) -> float:
    """A fraction of a cell saved up on a grid; the rounding of coordinates without one."""
    return site.setup.grid.cell_m if site.setup.grid is not None else 1e-4
