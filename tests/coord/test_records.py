from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import (
    AGENT_DTYPE,
    CONFIG_DTYPE,
    KERNEL_DTYPE,
    NO_ZONE,
    OBSTACLE_DTYPE,
    ROW_DTYPE,
    ZONE_DTYPE,
    AgentState,
    BadInput,
    GaussianKernel,
    Obstacle,
    PlanConfig,
    WorkZone,
    input_digest,
)
from coord.ground.rings import Rings
from coord.records import as_records

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
f32 = st.floats(width=32, allow_nan=False)

AGENTS = [
    AgentState(id=7, mode=1, speed=1.5, energy=0.8, last_seen_tick=118, memory_ticks=50, caps=1),
    AgentState(id=9, x=10, speed=1, energy=0.9, last_seen_tick=120, memory_ticks=50, caps=1),
    AgentState(id=12, x=5, y=5, speed=1, energy=0.9, last_seen_tick=30, memory_ticks=50, caps=1),
]
ZONES = [
    WorkZone(id=3, x=3, y=4, radius=1, priority=2, last_served_tick=20, service_ticks=5, need_caps=1),
    WorkZone(id=4, x=10, y=-2, radius=1, priority=1, last_served_tick=100, service_ticks=5, need_caps=1),
]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (AGENT_DTYPE, 48),
        (ZONE_DTYPE, 48),
        (OBSTACLE_DTYPE, 32),
        (KERNEL_DTYPE, 24),
        (CONFIG_DTYPE, 64),
        (ROW_DTYPE, 32),
    ],
)
def test_a_record_has_the_size_of_its_page(dtype, size):
    assert dtype.itemsize == size
    ends = sorted((offset, offset + field.itemsize) for field, offset in dtype.fields.values())
    assert [end for _, end in ends] == [*[start for start, _ in ends][1:], size]


def test_records_of_the_page_encode_to_its_hex(page_hex):
    assert b"".join(agent.encode() for agent in AGENTS) == page_hex("records", "agents")
    assert b"".join(zone.encode() for zone in ZONES) == page_hex("records", "zones")
    assert PlanConfig().encode() == page_hex("records", "config")
    assert PlanConfig().hash() == 0x7E51EE561F55FF21


def test_input_digest_of_the_page(page_hex):
    agents, zones = as_records(AGENTS, AGENT_DTYPE, "agents"), as_records(ZONES, ZONE_DTYPE, "zones")
    none = np.zeros(0, OBSTACLE_DTYPE), np.zeros(0, KERNEL_DTYPE), Rings.empty(), b""
    assert input_digest(agents, zones, *none) == page_hex("records", "input_digest")
    assert input_digest(agents[::-1], zones[::-1], *none) == page_hex("records", "input_digest")


@given(
    st.builds(
        AgentState, id=u32, mode=u8, flags=u8, x=f32, y=f32, z=f32, speed=f32, energy=f32, memory_ticks=u32,
        last_seen_tick=u64, zone=u32, caps=u32,
    )
)  # fmt: skip
def test_an_agent_decodes_to_itself(agent):
    assert AgentState.decode(agent.encode()) == agent


@given(
    st.builds(
        WorkZone, id=u32, x=f32, y=f32, z=f32, radius=f32, priority=f32, last_served_tick=u64, service_ticks=u32,
        need_caps=u32, energy_cost=f32,
    )
)  # fmt: skip
def test_a_zone_decodes_to_itself(zone):
    assert WorkZone.decode(zone.encode()) == zone


@given(
    st.builds(Obstacle, id=u32, kind=u8, x=f32, y=f32, radius=f32, half_y=f32, margin=f32, ring=u32),
    st.builds(GaussianKernel, id=u32, x=f32, y=f32, sigma=f32, weight=f32, kind=u8),
    st.builds(PlanConfig, w_priority=f32, idle_cap_ticks=u32, idle_score=st.integers(-(2**31), 2**31 - 1),
              work_budget=u64, k_candidates=u16, planner=u8, flags=u8),
)  # fmt: skip
def test_obstacles_kernels_and_configs_decode_to_themselves(obstacle, kernel, config):
    assert Obstacle.decode(obstacle.encode()) == obstacle
    assert GaussianKernel.decode(kernel.encode()) == kernel
    assert PlanConfig.decode(config.encode()) == config


def test_reserved_bytes_and_wrong_lengths_are_refused():
    data = bytearray(AGENTS[0].encode())
    data[6] = 1
    with pytest.raises(BadInput, match=r"^agents\[0\]\.reserved must be zero$"):
        AgentState.decode(bytes(data))
    with pytest.raises(BadInput, match=r"^config\.bytes must be 64 bytes long, got 3$"):
        PlanConfig.decode(b"abc")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (AgentState(id=-1), "agents[0].id must be a whole number from 0 to 4294967295, got -1"),
        (AgentState(id=2**32), "agents[0].id must be a whole number from 0 to 4294967295, got 4294967296"),
        (AgentState(id=1, x=1e39), "agents[0].x must be a float32, got 1e+39"),
        (AgentState(id=1, x="far"), "agents[0].x must be a number, got 'far'"),
        (AgentState(id=1.5), "agents[0].id must be a whole number, got 1.5"),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_named(item, message):
    with pytest.raises(BadInput) as caught:
        item.encode()
    assert str(caught.value) == message


def test_an_array_of_another_type_is_refused_with_the_mend():
    with pytest.raises(TypeError) as caught:
        as_records(np.zeros(3), AGENT_DTYPE, "agents")
    assert str(caught.value) == (
        "agents must be a one-dimensional array of coord.AGENT_DTYPE, got float64 with shape (3,) "
        "(hint: np.zeros(n, coord.AGENT_DTYPE), or a list of dataclasses)"
    )
    with pytest.raises(TypeError, match=r"^zones\[1\] must be a WorkZone, got AgentState$"):
        as_records([ZONES[0], AGENTS[0]], ZONE_DTYPE, "zones")


def test_bad_input_survives_pickling():
    error = pickle.loads(pickle.dumps(BadInput("zones", 4, "x", "must be finite, got nan")))
    assert (error.table, error.row, error.field, str(error)) == ("zones", 4, "x", "zones[4].x must be finite, got nan")


def test_no_zone_is_all_ones():
    assert AgentState(id=1).zone == NO_ZONE == 2**32 - 1
