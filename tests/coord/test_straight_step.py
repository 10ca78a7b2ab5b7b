"""A straight step gives the same bits as columns, records and rows, alone and among others, with any threads."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import AGENT_DTYPE, ZONE_DTYPE, _kernels, backend, straight_step
from coord.moving import motion_ref
from tensor import _kernels as pool

F32 = npt.NDArray[np.float32]
SPECIAL = np.array([0.0, -0.0, 1e-40, -1e-30, np.inf, -np.inf, np.nan, 2.0**20, 3e38], np.float32)
needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref has no kernels")


def fleet(n: int, seed: int = 1) -> tuple[list[F32], list[F32]]:
    """(x, y, z, speed) and goals, special values among them."""
    rng = np.random.default_rng(seed)
    columns = [rng.uniform(-9, 9, n).astype(np.float32) for _ in range(7)]
    for column in columns:
        at = rng.random(n) < 0.1
        column[at] = rng.choice(SPECIAL, int(at.sum()))
    columns[3] = np.abs(columns[3])
    return columns[:4], columns[4:]


def stepped(columns: list[F32], goals: list[F32]) -> bytes:
    """All results of the twin, as bytes: x, y, z, metres gone, who arrived."""
    moved, gone, arrived = motion_ref.straight_steps(
        (columns[0], columns[1], columns[2]), columns[3], (goals[0], goals[1], goals[2])
    )
    return b"".join(a.tobytes() for a in (*moved, gone, np.flatnonzero(arrived)))


def results(n: int) -> dict[str, npt.NDArray]:
    return {"gone_m": np.empty(n, np.float32), "arrived": np.empty(n, np.int64)}


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 8191, 20000])
def test_columns_have_the_bits_of_the_twin(n: int) -> None:
    columns, goals = fleet(n)
    wanted, out = stepped(columns, goals), results(n)
    count = straight_step(tuple(columns), tuple(goals), **out)
    assert b"".join(a.tobytes() for a in (*columns[:3], out["gone_m"], out["arrived"][:count])) == wanted


@pytest.mark.parametrize("n", [1, 17, 9000])
def test_records_rows_and_strides_change_no_bit(n: int) -> None:
    columns, goals = fleet(n)
    wanted = stepped(columns, goals)
    agents, zones = np.zeros(n, AGENT_DTYPE), np.zeros(n, ZONE_DTYPE)
    agents["energy"], agents["id"] = 0.5, np.arange(n)
    for field, column in zip(("x", "y", "z", "speed"), columns, strict=True):
        agents[field] = column
    for axis, column in zip("xyz", goals, strict=True):
        zones[axis] = column
    before, out = agents.copy(), results(n)
    count = straight_step(agents, zones, **out)
    there = out["arrived"][:count]
    assert b"".join(a.tobytes() for a in (*(agents[f] for f in "xyz"), out["gone_m"], there)) == wanted
    for field in set(AGENT_DTYPE.names) - set("xyz"):
        assert agents[field].tobytes() == before[field].tobytes()
    rows = np.arange(0, n, 3)
    some = before.copy()
    gone, arrived = np.empty(len(rows), np.float32), np.empty(len(rows), np.int64)
    count = straight_step(some, np.stack(goals, axis=1), rows=rows, gone_m=gone, arrived=arrived)
    assert arrived[:count].tolist() == [row for row in there.tolist() if row % 3 == 0]
    assert some[rows].tobytes() == agents[rows].tobytes()
    assert gone.tobytes() == out["gone_m"][rows].tobytes()
    rest = np.setdiff1d(np.arange(n), rows)
    assert some[rest].tobytes() == before[rest].tobytes()
    backwards = [np.ascontiguousarray(c[::-1])[::-1] for c in columns]
    straight_step(tuple(backwards), tuple(goals))
    assert b"".join(np.ascontiguousarray(c).tobytes() for c in backwards[:3]) == wanted[: 12 * n]


@given(st.integers(0, 2**32))
def test_an_agent_alone_steps_as_among_others(seed: int) -> None:
    columns, goals = fleet(40, seed)
    together = [c.copy() for c in columns]
    straight_step(tuple(together), tuple(goals))
    alone = [columns[0][7:8].copy(), columns[1][7:8].copy(), columns[2][7:8].copy(), columns[3][7:8]]
    straight_step(tuple(alone), tuple(g[7:8] for g in goals))
    assert [a.tobytes() for a in alone[:3]] == [t[7:8].tobytes() for t in together[:3]]


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_change_no_bit(threads: int) -> None:
    columns, goals = fleet(40000)
    wanted = stepped(columns, goals)
    before = pool.threads()
    try:
        pool.set_threads(threads)
        straight_step(tuple(columns), tuple(goals))
    finally:
        pool.set_threads(before)
    assert b"".join(c.tobytes() for c in columns[:3]) == wanted[: 12 * 40000]


def test_arrays_that_can_not_be_stepped_are_refused_by_name() -> None:
    columns, goals = fleet(3)
    agents = np.zeros(3, AGENT_DTYPE)
    with pytest.raises(
        TypeError, match=re.escape("straight_step: agents must be records or columns with x, y, z, speed")
    ):
        straight_step(np.zeros((3, 4), np.float32), tuple(goals))
    with pytest.raises(TypeError, match=re.escape("straight_step: y of targets must be float32[n]")):
        straight_step(tuple(columns), (goals[0], goals[1].astype(np.float64), goals[2]))
    with pytest.raises(ValueError, match=re.escape("straight_step: expected a target an agent, got 2 for 3 agents")):
        straight_step(agents, np.zeros((2, 3), np.float32))
    if backend.REFERENCE:
        return
    for rows in ([1, 1], [2, 1], [-1], [3]):
        with pytest.raises(ValueError, match="rows must be rows of the agents, ascending"):
            straight_step(agents, np.zeros((3, 3), np.float32), rows=np.array(rows, np.int64))
    with pytest.raises(ValueError, match="must not share memory"):
        straight_step(tuple(columns), tuple(goals), gone_m=columns[0])
    frozen = agents.copy()
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        straight_step(frozen, np.zeros((3, 3), np.float32))
    with pytest.raises(TypeError, match="gone must be None or float32, one value a step"):
        _kernels.straight_steps(*columns, *goals, None, np.zeros(2, np.float32), None)
