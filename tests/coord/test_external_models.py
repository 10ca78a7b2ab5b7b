"""Other people's motion and demand: checked, and never able to write to the world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coord import BadInput, Scenario, audit, simulate
from coord.moving.motion_model import Steps, StraightMotion
from coord.moving.pibt import PibtMotion
from coord.records import ZONE_DTYPE
from coord.simulation.demand import DemandChange, PersistentDemand
from coord.simulation.external_models import ExternalModels, GuardedDemand, GuardedMotion
from coord.simulation.setup import setup_from_map
from coord.simulation.world import World

FLEET = (
    'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 30\nservice_ticks = 1\n'
)


def site():
    return Scenario.loads(FLEET)


def zones(*ids, **fields):
    out = np.zeros(len(ids), ZONE_DTYPE)
    out["id"] = ids
    for name, value in fields.items():
        out[name] = value
    return out


def ids(*values):
    return np.array(values, np.uint32)


class Moving(StraightMotion):
    """Straight, then `edit` does what it likes."""

    name = "moving"

    def __init__(self, edit=None, steps=None):
        super().__init__()
        self.edit, self.steps = edit, steps

    def advance(self, agents, rows, tick):
        steps = super().advance(agents, rows, tick)
        if self.edit is not None:
            self.edit(agents, rows)
        return steps if self.steps is None else self.steps(len(rows))


class Demand:
    """The change it was given, at every tick."""

    name = "mine"

    def __init__(self, change):
        self._change = change

    def change(self, view):
        return self._change(view) if callable(self._change) else self._change


def test_a_built_in_model_passed_in_from_outside_decides_the_same_and_is_named(tmp_path):
    ours = simulate(site(), 20, ledger=tmp_path / "ours", sync="os")
    models = {"demand_model": PersistentDemand(), "motion_model": StraightMotion()}
    theirs = simulate(site(), 20, ledger=tmp_path / "theirs", sync="os", **models)
    assert replace(ours, root=None) == replace(theirs, root=None)
    assert ours.root != theirs.root  # the scenario event has the names
    report = audit(tmp_path / "theirs", resimulate=True)
    assert report.ok
    assert report.external == {"demand": "PersistentDemand", "motion": "StraightMotion"}
    assert (report.planned, report.resimulated, report.external_decisions) == (20, 0, 0)
    assert report.not_resimulated == "inputs after those of tick 0 (demand PersistentDemand, motion StraightMotion)"
    assert audit(tmp_path / "theirs").not_resimulated == ""


def test_the_first_inputs_are_still_held_against_the_scenario(tmp_path, monkeypatch):
    moved = World.__init__

    def elsewhere(self, *arguments, **models):
        moved(self, *arguments, **models)
        self.inputs.agents["x"][0] += 1

    with monkeypatch.context() as patch:
        patch.setattr(World, "__init__", elsewhere)
        simulate(site(), 3, ledger=tmp_path / "run", sync="os", motion_model=StraightMotion())
    report = audit(tmp_path / "run", resimulate=True)
    assert not report.ok
    assert report.first_divergence.field == "inputs.agents.x"


def test_a_motion_model_moves_the_rows_that_travel_and_nothing_else():
    def everything(agents, rows):
        agents["energy"], agents["mode"], agents["zone"], agents["id"] = 0, 5, 1, 0
        agents["x"][np.setdiff1d(np.arange(len(agents)), rows)] = 1e9

    models = {"motion_model": Moving(everything)}
    assert simulate(site(), 20, **models) == simulate(site(), 20)


def push(rows, metres):
    return lambda n: Steps(np.zeros(n, np.float32), 0, np.array(rows, np.intp), np.array(metres, np.float32))


def test_a_model_whose_agents_make_way_passes_and_decides_the_same(tmp_path):
    (tmp_path / "hall.map").write_text("type octile\nheight 1\nwidth 6\nmap\n......\n")
    text = (
        'version = 1\nname = "hall"\n[map]\nfile = "hall.map"\n[motion]\nmodel = "pibt"\n'
        "[[agent]]\nid = 0\nx = 0.5\ny = 0.5\ncaps = 1\n[[agent]]\nid = 1\nx = 2.5\ny = 0.5\n"
        "[[zone]]\nid = 0\nx = 4.5\ny = 0.5\nneed_caps = 1\n"
    )
    hall = Scenario.loads(text, tmp_path)

    class Watched(PibtMotion):
        pushes = 0

        def advance(self, agents, rows, tick):
            steps = super().advance(agents, rows, tick)
            self.pushes += 0 if steps.pushed is None else len(steps.pushed)
            return steps

    model = Watched()
    assert simulate(hall, 20, motion_model=model) == simulate(hall, 20)
    assert model.pushes == 3  # the agent in the way went to the end


def test_what_motion_and_demand_are_given_are_copies():
    class Rude(Moving):
        def site(self, agents, site):
            super().site(agents, site)
            spoil(agents, site.obstacles)

        def start(self, rows, zones):
            super().start(rows, zones)
            spoil(rows, zones)

        def stop(self, rows):
            spoil(rows)

    def rude(view):
        spoil(view.zones, view.served, view.working)

    def spoil(*arrays):
        for array in arrays:
            assert not array.flags.writeable
            array.flags.writeable = True
            array.view(np.uint8)[...] = 255 if len(array) else 0

    assert simulate(site(), 20, motion_model=Rude(), demand_model=Demand(rude)) == simulate(site(), 20)


def put(field, value):
    def edit(agents, rows):
        agents[field][rows[-1:]] = value

    return edit


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Moving(put("x", np.nan)), "motion moving: agents[8].x must be finite and within 2^20 m, got nan (id 8)"),
        (Moving(put("y", np.inf)), "motion moving: agents[8].y must be finite and within 2^20 m, got inf (id 8)"),
        (Moving(put("z", -(2.0**20) - 1)),
         "motion moving: agents[8].z must be finite and within 2^20 m, got -1048577.0 (id 8)"),
        (
            Moving(steps=lambda n: Steps(np.full(n, np.nan, np.float32), 0)),
            "motion moving: agents[0].gone_m must be finite and at least 0 m, got nan (id 0)",
        ),
        (
            Moving(steps=lambda n: Steps(np.full(n, -1, np.float32), 0)),
            "motion moving: agents[0].gone_m must be finite and at least 0 m, got -1.0 (id 0)",
        ),
        (
            Moving(steps=lambda n: Steps(np.zeros(n), 0)),
            "motion moving: gone_m must be float32[9], got float64[9]",
        ),
        (
            Moving(steps=lambda n: Steps(np.zeros(n + 1, np.float32), 0)),
            "motion moving: gone_m must be float32[9], got float32[10]",
        ),
        (Moving(steps=push([0], [1])), "motion moving: pushed must be rows of agents that don't travel, got 0"),
        (Moving(steps=push([9], [1])), "motion moving: pushed must be rows of agents that don't travel, got 9"),
        (Moving(steps=lambda n: Steps(np.zeros(n, np.float32), 0, [1])),
         "motion moving: pushed must be an array of int64 in one dimension, got list"),
        (Moving(steps=lambda n: Steps(np.zeros(n, np.float32), 0, np.array([], np.intp))),
         "motion moving: pushed_m must be float32[0], got NoneType"),
        (Moving(steps=lambda n: 7), "motion moving: gone_m must be float32[9], got NoneType"),
        (
            Moving(steps=lambda n: Steps(np.zeros(n, np.float32), -1)),
            "motion moving: conflicts must be a whole number of at least 0, got -1",
        ),
        (
            Moving(steps=lambda n: Steps(np.zeros(n, np.float32), 0.5)),
            "motion moving: conflicts must be a whole number of at least 0, got 0.5",
        ),
    ],
)  # fmt: skip
def test_motion_that_breaks_a_rule_is_refused_and_the_ledger_ends_at_a_whole_frame(tmp_path, model, message):
    with pytest.raises(BadInput) as caught:
        simulate(site(), 5, ledger=tmp_path / "run", sync="os", motion_model=model)
    assert str(caught.value) == message
    report = audit(tmp_path / "run")
    assert (report.ok, report.frames) == (True, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (7, "demand mine must return a DemandChange or None, got int"),
        (DemandChange(add=np.zeros(3)),
         "demand mine: add must be an array of ZONE_DTYPE in one dimension, got float64[3]"),
        (DemandChange(add=zones(29)), "demand mine: add[0].id must be new, from 30 on, got 29"),
        (DemandChange(add=zones(31, 30, 31)),
         "demand mine: add[2].id must be unique, got 31 as in zones[0]"),
        (DemandChange(add=zones(30, 31, x=[0, np.nan])),
         "demand mine: add[1].x must be finite and within 2^20 m, got nan (id 31)"),
        (DemandChange(remove=ids(3, 99)), "demand mine: remove[1] must be the id of a zone, got 99"),
        (DemandChange(remove=ids(3, 3)), "demand mine: remove must name a zone once, got 3 twice"),
        (DemandChange(remove=[3]), "demand mine: remove must be an array of uint32 in one dimension, got list"),
        (DemandChange(remove=ids(3), priority_of=ids(3), priority=np.ones(1, np.float32)),
         "demand mine: priority_of[0] must be the id of a zone, got 3"),
        (DemandChange(priority_of=ids(3)), "demand mine: priority must be as long as priority_of, 1, got 0"),
        (DemandChange(priority_of=ids(3), priority=np.array([np.inf], np.float32)),
         "demand mine: priority of zone 3 must be finite, got inf"),
        (DemandChange(priority_of=ids(3), priority=np.ones(1)),
         "demand mine: priority must be an array of float32 in one dimension, got float64[1]"),
        (DemandChange(opened=-1), "demand mine: opened must be a whole number of at least 0, got -1"),
        (DemandChange(expired=True), "demand mine: expired must be a whole number of at least 0, got True"),
        (DemandChange(served=2**90_000),
         "demand mine: served must be a whole number of at least 0, got an integer of 90001 bits"),
        (DemandChange(calls=np.array([1, 2])), "demand mine: calls must be True or False, got int64[2]"),
    ],
)  # fmt: skip
def test_demand_that_breaks_a_rule_is_refused_and_the_ledger_ends_at_a_whole_frame(tmp_path, change, message):
    with pytest.raises(BadInput) as caught:
        simulate(site(), 5, ledger=tmp_path / "run", sync="os", demand_model=Demand(change))
    assert str(caught.value) == message
    report = audit(tmp_path / "run")
    assert (report.ok, report.frames) == (True, 1)


def test_zones_of_an_external_demand_come_and_go_and_each_decision_is_planned_again(tmp_path):
    def churn(view):
        add = zones(view.next_id, x=view.tick, y=5, radius=1, priority=2)
        return DemandChange(
            add=add, remove=view.zones["id"][:1].copy(), priority_of=ids(view.next_id), priority=np.ones(1, np.float32)
        )

    simulate(site(), 30, ledger=tmp_path / "run", sync="os", demand_model=Demand(churn))
    report = audit(tmp_path / "run", resimulate=True)
    assert report.ok, report.first_divergences
    assert (report.planned, report.external) == (30, {"demand": "mine"})


EVENTS = """on_events = true
every_ticks = 10
[faults]
fault = 0.01
[[event]]
tick = 4
kind = "agent_lost"
id = 3
"""


def test_events_and_faults_of_a_run_with_external_motion_are_audited(tmp_path):
    eventful = Scenario.loads(FLEET.replace("[agents]", f"[plan]\n{EVENTS}[agents]"))
    simulate(eventful, 40, ledger=tmp_path / "run", sync="os", motion_model=Moving())
    report = audit(tmp_path / "run", resimulate=True)
    assert report.ok, (report.problems, report.first_divergences)
    assert report.frames > 5


def test_zones_of_an_external_demand_call_for_plans_at_their_tick(tmp_path):
    def sometimes(view):
        return DemandChange(add=zones(view.next_id, x=5, radius=1)) if view.tick in (3, 17) else None

    called = Scenario.loads(FLEET.replace("[agents]", "[plan]\non_events = true\nevery_ticks = 10\n[agents]"))
    ticks = []
    simulate(
        called, 30, ledger=tmp_path / "run", sync="os", demand_model=Demand(sometimes),
        on_tick=lambda tick, frame: ticks.append(tick) if frame is not None else None,
    )  # fmt: skip
    assert ticks == [0, 3, 10, 17, 20]
    for resimulate in (False, True):
        report = audit(tmp_path / "run", resimulate=resimulate)
        assert report.ok, (report.problems, report.first_divergences)


def test_what_a_model_raises_comes_through_and_leaves_whole_frames(tmp_path):
    def breaks(view):
        if view.tick == 4:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        simulate(site(), 9, ledger=tmp_path / "run", sync="os", demand_model=Demand(breaks))
    report = audit(tmp_path / "run")
    assert (report.ok, report.frames) == (True, 4)


def test_all_three_at_once_stand_in_the_scenario_event_and_the_guards_in_the_world():
    def mine(*tables, **rest):
        return []

    world = ExternalModels(mine, Demand(None), Moving()).world(site().setup)
    assert world.setup.external == {"demand": "mine", "motion": "moving", "planner": "mine"}
    assert setup_from_map(world.setup.to_map()).external == world.setup.external
    assert list(world.setup.to_map()["external"]) == ["demand", "motion", "planner"]
    assert isinstance(world._motion, GuardedMotion)
    assert isinstance(world._demand, GuardedDemand)
    assert "external" not in site().setup.to_map()
