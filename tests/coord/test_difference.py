"""Two runs side by side: the first thing that differs, and how far the fleets are from each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coord import drift, open_run, simulate
from coord.measuring.scorer import Scorer
from coord.sites.scenario import Scenario

SITE = 'version = 1\nname = "fleet"\nseed = {seed}\n[plan]\nevery_ticks = {every}\n[agents]\nrandom = {agents}\n'
SITE += "speed = 5\n[zones]\nrandom = {zones}\n"


def made(folder: Path, ticks: int = 60, planner: str | None = None, **given: int) -> Path:
    values = {"seed": 4, "every": 1, "agents": 8, "zones": 20} | given
    simulate(Scenario.loads(SITE.format(**values)), ticks, ledger=folder, sync="os", planner=planner)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("drift") / "run")


def test_a_run_does_not_drift_from_itself(run: Path) -> None:
    found = drift(run, run)
    assert (found.first, found.ticks, found.only_left, found.only_right, found.max_m) == (None, 60, 0, 0, 0.0)
    assert [row.tick for row in found.rows] == [59 * i // 9 for i in range(10)]
    for row in found.rows:
        assert (row.agents, row.mean_m, row.max_m, row.other_zones) == (8, 0.0, 0.0, 0)
        assert row.objective_left == row.objective_right
        assert row.services_left == row.services_right


def test_every_row_is_what_the_ledgers_say(run: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other", 45, planner="greedy")
    found = drift(run, other, rows=1000)
    assert found.only_left == 15
    with open_run(run) as left, open_run(other) as right:
        scorers, served, worst = (Scorer(), Scorer()), [0, 0], 0.0
        for row, one, two in zip(found.rows, left.frames(), right.frames(), strict=False):
            for i, view in enumerate((one, two)):
                now = view.inputs
                served[i] += scorers[i].add(now.agents, now.zones, view.frame, view.rows).services
            apart = [
                float(np.hypot(np.float64(a["x"]) - b["x"], np.float64(a["y"]) - b["y"]))
                for a, b in zip(one.inputs.agents, two.inputs.agents, strict=True)
            ]
            worst = max(worst, *apart)
            assert row.tick == one.frame.tick
            assert row.mean_m == pytest.approx(np.mean(apart))
            assert row.max_m == pytest.approx(max(apart))
            assert apart[int(row.farthest or 0)] == pytest.approx(max(apart))
            assert row.other_zones == int((one.rows["zone"] != two.rows["zone"]).sum())
            assert (row.objective_left, row.objective_right) == (one.frame.score_sum, two.frame.score_sum)
            assert [row.services_left, row.services_right] == served
        assert found.max_m == pytest.approx(worst)
    assert len(found.rows) == 45


def test_the_first_other_thing_has_its_tick_agent_field_and_values(run: Path, tmp_path: Path) -> None:
    found = drift(run, made(tmp_path / "seed", seed=5))
    assert found.first is not None
    assert (found.first.tick, found.first.agent, found.first.field) == (0, 0, "inputs.agents.x")
    with open_run(run) as left, open_run(tmp_path / "seed") as right:
        x = [float(reader.state_at(0).inputs.agents["x"][0]) for reader in (left, right)]
    assert [found.first.left, found.first.right] == x
    assert str(found.first) == f"tick 0 (frame 0): agent 0: inputs.agents.x: {x[0]} ≠ {x[1]}"


def test_other_sets_of_agents_are_compared_where_they_meet(run: Path, tmp_path: Path) -> None:
    found = drift(run, made(tmp_path / "more", agents=11))
    assert {(row.agents, row.only_left, row.only_right) for row in found.rows} == {(8, 0, 3)}
    assert found.first is not None
    assert found.first.field == "inputs.agents.ids"
    back = drift(tmp_path / "more", run)
    assert {(row.agents, row.only_left, row.only_right) for row in back.rows} == {(8, 3, 0)}


def test_runs_planned_at_other_ticks_are_compared_where_both_planned(run: Path, tmp_path: Path) -> None:
    found = drift(run, made(tmp_path / "third", every=3))
    assert (found.ticks, found.only_left, found.only_right) == (20, 40, 0)
    assert all(row.tick % 3 == 0 for row in found.rows)
    apart = drift(made(tmp_path / "empty", 0), run)
    assert (apart.ticks, apart.only_right, apart.rows, apart.max_m) == (0, 60, (), None)


def test_no_rows_one_row_and_rows_that_are_none(run: Path, tmp_path: Path) -> None:
    assert drift(run, run, rows=0).rows == ()
    assert [row.tick for row in drift(run, run, rows=1).rows] == [59]
    assert [row.tick for row in drift(run, run, rows=2).rows] == [0, 59]
    for rows in (-1, True, 2.0):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared in full
            drift(run, run, rows=rows)  # type: ignore[arg-type]
        assert str(caught.value) == f"drift: rows must be a whole number of at least 0, got {rows!r}"


def test_agents_are_the_same_by_their_outside_ids(tmp_path: Path) -> None:
    far = 2**40
    sites = []
    for name, ids in (("a", (far, far + 1)), ("b", (far + 1, far + 2))):
        agents = "".join(f"[[agent]]\nid = {i}\nx = {float(i - far)}\ny = 0.0\n" for i in ids)
        text = f'version = 1\nname = "{name}"\n{agents}[[zone]]\nid = 1\nx = 30.0\ny = 0.0\n'
        sites.append(simulate(Scenario.loads(text), 4, ledger=tmp_path / name, sync="os"))
    found = drift(tmp_path / "a", tmp_path / "b")
    assert {(row.agents, row.only_left, row.only_right) for row in found.rows} == {(1, 1, 1)}
    assert found.rows[0].farthest == far + 1
    assert found.rows[0].max_m == 0.0
    assert found.first is not None
    assert found.first.field == "agents ids"
