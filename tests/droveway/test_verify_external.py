"""verify of a run that somebody else's code took part in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coord import Scenario, decode_frame_event, plan_greedy, simulate
from coord.frames.frame import rows_digest
from coord.moving.motion_model import StraightMotion
from storage import Ledger

Ask = Callable[..., Any]
FLEET = 'version = 1\nname = "fleet"\n[agents]\nrandom = 3\n[zones]\nrandom = 9\n'


@pytest.fixture(scope="module")
def external_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("external") / "run"
    simulate(Scenario.loads(FLEET), 6, ledger=folder, sync="os", planner_model=plan_greedy)
    return folder


def test_decisions_of_an_external_planner_are_checked_and_not_replanned(ask: Ask, external_run: Path) -> None:
    for options in ((), ("--resimulate",)):
        told = ask("verify", external_run, *options)
        assert told.code == 0
        assert "6 of an external planner (plan_greedy): checked, not re-planned" in told.out
    record = ask("verify", external_run, "--json").record
    assert (record["external"], record["external_decisions"], record["planned"]) == ({"planner": "plan_greedy"}, 6, 0)


def test_a_forged_score_of_an_external_planner_is_exit_1_with_frame_agent_and_field(
    ask: Ask, external_run: Path, tmp_path: Path
) -> None:
    with Ledger.open(external_run, mode="r") as ledger:
        events = [event for _, event in ledger.scan()]
    frame, rows = decode_frame_event(events[-1].effect)
    rows = rows.copy()
    row = int(np.flatnonzero(rows["status"] == 0)[0])
    rows["score"][row] += 1
    frame = dataclasses.replace(frame, rows_digest=rows_digest(rows), score_sum=frame.score_sum + 1)
    events[-1] = dataclasses.replace(events[-1], effect=frame.encode() + rows.tobytes())
    with Ledger.open(tmp_path / "forged", sync="os") as ledger:
        ledger.append_many(events)
    told = ask("verify", tmp_path / "forged")
    assert told.code == 1
    score = int(rows["score"][row])
    agent = int(rows["agent"][row])
    assert f"frame 5 (tick 5, rank 12): agent {agent}: score: expected {score - 1}, got {score}" in told.out


def test_resimulate_says_what_external_motion_keeps_it_from_making_again(ask: Ask, tmp_path: Path) -> None:
    class Own(StraightMotion):
        name = "own"

    simulate(Scenario.loads(FLEET), 6, ledger=tmp_path / "run", sync="os", motion_model=Own())
    told = ask("verify", tmp_path / "run", "--resimulate")
    assert told.code == 0
    assert "not made again: inputs after those of tick 0 (motion own)" in told.out
    assert "6 made again" in told.out
