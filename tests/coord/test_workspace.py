"""Plans in memory that the caller owns: the same bytes, refused where it is too small, nothing kept."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

from coord import PlanConfig, TooLargeError, Workspace, backend, plan
from coord.planning.plan import Plan

needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref: the twins use no scratch")


def planned(fleet, workspace: Workspace | None) -> Plan:
    return plan(
        fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config,
        now_tick=fleet.now_tick, rings=fleet.rings, grid=fleet.grid, workspace=workspace,
    )  # fmt: skip


@pytest.mark.parametrize("planner", [0, 1, 2])
def test_a_plan_has_the_same_bytes_with_and_without_a_workspace(make_fleet, planner):
    room = Workspace(agents=90, zones=80, k=40, obstacles=5)
    for seed in range(8):
        fleet = make_fleet(seed, 90 - seed, 80 - 3 * seed, planner=planner)
        alone = planned(fleet, None).event(0)
        assert planned(fleet, room).event(0) == alone
        assert planned(fleet, room).event(0) == alone


def test_what_a_plan_returns_is_its_own(make_fleet):
    room = Workspace(agents=200, zones=200)
    first = planned(make_fleet(1, 200, 200, rich=False), room)
    rows, bound = first.rows.copy(), planned(make_fleet(1, 200, 200, rich=False), None).bound
    planned(make_fleet(2, 200, 200, rich=False), room)
    assert first.rows.tobytes() == rows.tobytes()
    assert first.bound == bound


def test_a_workspace_that_is_too_small_is_refused_by_numbers(make_fleet):
    fleet = make_fleet(3, 20, 30, rich=False)
    with pytest.raises(TooLargeError) as caught:
        planned(fleet, Workspace(agents=20, zones=29))
    assert str(caught.value) == (
        "Workspace: room for 20 agents, 29 zones, 24 k, 0 obstacles, got 20 agents, 30 zones, 24 k, 0 obstacles"
    )
    with pytest.raises(TooLargeError) as caught:
        Workspace(agents=10, zones=10, k=257)
    assert str(caught.value) == "Workspace: k must be from 0 to 256, got 257"
    room = Workspace(agents=20, zones=30)
    assert room.fits(20, 30, 24, 0)
    assert not room.fits(20, 30, 25, 0)
    assert len(planned(fleet, room).rows) == 20


def test_a_workspace_serves_one_plan_at_a_time(make_fleet):
    fleet, room = make_fleet(3, 20, 30, rich=False), Workspace(agents=20, zones=30)
    with room.lent(20, 30, 24, 0), pytest.raises(ValueError, match=r"^Workspace: lent to another plan \(hint: one for"):
        planned(fleet, room)
    assert len(planned(fleet, room).rows) == 20


def test_threads_with_a_workspace_each_give_the_same_bytes(make_fleet):
    fleet = make_fleet(4, 300, 300, rich=False)
    wanted, found = planned(fleet, None).event(0), []

    def work() -> None:
        room = Workspace(agents=300, zones=300)
        found.extend(planned(fleet, room).event(0) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 9


@needs_kernels
def test_only_aligned_bytes_are_lent():
    from coord import _kernels

    room = np.zeros(200, np.uint8)
    odd = room[1 + -room.ctypes.data % 64 :]
    with pytest.raises(ValueError, match=r"^lend: memory must begin at a multiple of 64$"):
        _kernels.lend(odd)
    with pytest.raises(TypeError, match=r"^lend: memory must be None or uint8, contiguous and writable$"):
        _kernels.lend(np.zeros(8))


@needs_kernels
def test_a_second_plan_in_a_workspace_adds_nothing_to_the_peak(python):
    code = """
import json, re
import numpy as np
from coord import AGENT_DTYPE, ZONE_DTYPE, PlanConfig, Workspace, plan
def peak_kb():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
n, rng = 30_000, np.random.default_rng(0)
agents, zones = np.zeros(n, AGENT_DTYPE), np.zeros(n, ZONE_DTYPE)
for table in (agents, zones):
    table["id"], table["x"], table["y"] = np.arange(n), rng.uniform(0, 900, n), rng.uniform(0, 900, n)
agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = 1, 1, 50, 2**32 - 1
room, peaks = Workspace(agents=n, zones=n), []
for _ in range(6):
    rows = plan(agents, zones, [], [], PlanConfig(), now_tick=0, workspace=room).rows
    peaks.append(peak_kb())
print(json.dumps(peaks))
"""
    peaks = json.loads(python(code).stdout)
    assert peaks[5] - peaks[1] < 1024


def test_the_work_of_a_budget_is_the_same_in_a_workspace(make_fleet):
    fleet = make_fleet(5, 120, 120, rich=False)
    room = Workspace(agents=120, zones=120)
    for budget in (1, 500, 10**9):
        fleet.config = PlanConfig(work_budget=budget)
        assert planned(fleet, room).work == planned(fleet, None).work
