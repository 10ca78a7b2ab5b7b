"""Service, capabilities and charge of a fleet as it runs, not of one plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord.records import NO_ZONE, AgentMode
from coord.simulation.world import World
from coord.sites.scenario import Scenario

HEAD = 'version = 1\nname = "work"\n'
PAIR = HEAD + (
    "[[agent]]\nid = 1\nx = 0.0\ny = 0.0\ncaps = 1\n[[agent]]\nid = 2\nx = 0.0\ny = 30.0\ncaps = 3\n"
    "[[zone]]\nid = 5\nx = 4.0\ny = 0.0\nneed_caps = 2\nservice_ticks = 3\n"
)


def _run(world: World, ticks: int) -> list[tuple[int, ...]]:
    told = []
    for _ in range(ticks):
        plan = world.plan_tick()
        told.append(tuple(plan.rows["status"].tolist()))
        world.assign(plan.rows)
        world.advance()
    return told


def test_only_an_agent_with_the_capabilities_serves_a_zone() -> None:
    world = World(Scenario.loads(PAIR).setup)
    told = _run(world, 37)
    assert {statuses[0] for statuses in told} == {1, 9}  # 1: while the zone is served, none is left
    assert world.served >= 1
    assert world.inputs.agents["x"].tolist()[0] == 0.0


@pytest.mark.parametrize("service", [0, 1, 7])
def test_a_service_takes_its_ticks_and_the_agent_stays_with_its_zone(service: int) -> None:
    text = PAIR.replace("service_ticks = 3", f"service_ticks = {service}").replace("need_caps = 2\n", "")
    world = World(Scenario.loads(text).setup)
    working = 0
    while world.served == 0:
        _run(world, 1)
        mode, zone = int(world.inputs.agents["mode"][0]), int(world.inputs.agents["zone"][0])
        working += mode == AgentMode.WORKING
        assert (mode == AgentMode.WORKING) <= (zone == 5)
    assert working == service
    assert int(world.inputs.zones["last_served_tick"][0]) == world.tick - 1 == 3 + service


def test_a_zone_that_costs_more_charge_than_an_agent_has_is_left_to_others() -> None:
    text = HEAD + "[[agent]]\nid = 1\nx = 0.0\ny = 0.0\nenergy = 0.4\n[[agent]]\nid = 2\nx = 9.0\ny = 0.0\n"
    world = World(Scenario.loads(text + "[[zone]]\nid = 5\nx = 1.0\ny = 0.0\nenergy_cost = 0.5\n").setup)
    told = _run(world, 20)
    assert {statuses[0] for statuses in told} == {1, 8}  # 1: while the zone is served, none is left
    assert world.inputs.agents["energy"][0] == np.float32(0.4)
    assert world.served >= 1


def test_an_agent_whose_charge_ends_on_its_way_gives_its_zone_up_and_charges() -> None:
    text = HEAD + "[[agent]]\nid = 1\nx = 0.0\ny = 0.0\nenergy = 0.3\n[[zone]]\nid = 5\nx = 50.0\ny = 0.0\n"
    text += "[motion]\nenergy_per_m = 0.05\ncharge_per_tick = 0.25\ncharged_energy = 0.75\n"
    world = World(Scenario.loads(text).setup)
    modes, zones = [], []
    for _ in range(10):
        _run(world, 1)
        modes.append(int(world.inputs.agents["mode"][0]))
        zones.append(int(world.inputs.agents["zone"][0]))
    assert modes[:10] == [1, 1, 1, 1, 1, 3, 3, 3, 0, 1]
    assert [zone == NO_ZONE for zone in zones] == [mode != 1 for mode in modes]


@given(st.integers(0, 2**32), st.floats(0, 0.3), st.floats(0, 1), st.floats(0, 0.5))
def test_charge_stays_between_nothing_and_full(seed: int, per_m: float, charge: float, low: float) -> None:
    text = HEAD + f"seed = {seed}\n[agents]\nrandom = 5\nspeed = 9.0\nenergy = 0.6\n[zones]\nrandom = 6\n"
    text += f"[motion]\nenergy_per_m = {per_m!r}\ncharge_per_tick = {charge!r}\n[plan]\nmin_energy = {low!r}\n"
    world = World(Scenario.loads(text).setup)
    for _ in range(12):
        _run(world, 1)
        agents = world.inputs.agents
        assert ((agents["energy"] >= 0) & (agents["energy"] <= 1)).all()
        mobile = np.isin(agents["mode"], (AgentMode.IDLE, AgentMode.TRAVELLING))
        assert (agents["energy"][mobile] >= np.float32(low)).all()
        assert (agents["zone"][agents["mode"] == AgentMode.CHARGING] == NO_ZONE).all()
