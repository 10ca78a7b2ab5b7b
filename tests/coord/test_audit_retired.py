"""audit over retired ranks: "not replayable", never "diverged"; and what is still there is made again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from coord.auditing.audit import audit
from coord.errors import RunError
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.stl import open_run
from storage import Event, Ledger

FLEET = 'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 14\n'
TICKS = 70  # keys at ticks 0 and 64: ranks 1 and 129
SIZE = 1 + 2 * TICKS
LAST_BEFORE_KEY = 128


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("retired") / "run"
    simulate(Scenario.loads(FLEET), TICKS, ledger=folder, sync="os")
    return folder


def retired(run: Path, out: Path, *ranks: int) -> Path:
    shutil.copytree(run, out)
    with Ledger.open(out, sync="os") as ledger:
        ledger.retire(ranks)
    return out


CASES = {
    # retired ranks → where decisions can't be made again, how many, decisions left
    "the inputs of one tick": ((5,), [(5, LAST_BEFORE_KEY)], 62, 70),
    "the key": ((1,), [(1, LAST_BEFORE_KEY)], 64, 70),
    "the scenario and the key": ((0, 1), [(0, LAST_BEFORE_KEY)], 64, 70),
    "the scenario": ((0,), [(0, 0)], 0, 70),
    "one frame": ((6,), [(6, 6)], 0, 69),
    "frames in a row": ((6, 8, 10), [(6, 10)], 0, 67),
    "inputs and frame of one tick": ((7, 8), [(7, LAST_BEFORE_KEY)], 60, 69),
    "the second key": ((129,), [(129, SIZE - 1)], 6, 70),
    "the last frame": ((SIZE - 1,), [(SIZE - 1, SIZE - 1)], 0, 69),
    "the last inputs": ((SIZE - 2,), [(SIZE - 2, SIZE - 1)], 1, 70),
    "everything": (tuple(range(SIZE)), [(0, SIZE - 1)], 0, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_frames_over_retired_ranks_are_not_replayable_and_all_others_are_made_again(
    run: Path, tmp_path: Path, name: str
) -> None:
    ranks, ranges, lost, frames = CASES[name]
    report = audit(retired(run, tmp_path / "out", *ranks))
    assert report.problems == []
    assert report.first_divergences == []
    assert report.ok
    assert report.retired_count == len(ranks)
    assert report.not_replayable == ranges
    assert report.not_replayable_count == lost
    assert (report.frames, report.planned) == (frames, frames - lost)


@pytest.mark.parametrize("name", [name for name in CASES if 0 not in CASES[name][0] and 1 not in CASES[name][0]])
def test_resimulating_makes_every_frame_that_is_left_again_from_scenario_and_seed(
    run: Path, tmp_path: Path, name: str
) -> None:
    ranks, _, _, frames = CASES[name]
    report = audit(retired(run, tmp_path / "out", *ranks), resimulate=True)
    assert report.problems == []
    assert report.first_divergences == []
    assert (report.resimulated, report.planned, report.not_replayable_count) == (frames, frames, 0)


def test_without_the_scenario_nothing_is_resimulated_and_nothing_diverges(run: Path, tmp_path: Path) -> None:
    report = audit(retired(run, tmp_path / "out", 0), resimulate=True)
    assert report.ok
    assert (report.resimulated, report.planned) == (0, TICKS)


def test_any_retired_ranks_give_no_problem_and_no_divergence(run: Path, tmp_path: Path) -> None:
    randomly = random.Random(8)
    for i in range(12):
        ranks = randomly.sample(range(SIZE), randomly.choice([1, 2, 5, 40]))
        out = retired(run, tmp_path / f"{i}", *ranks)
        for resimulate in (False, True):
            report = audit(out, resimulate=resimulate)
            assert report.ok, (ranks, report.problems[:2], report.first_divergences[:2])
            assert report.retired_count == len(ranks)
            assert report.planned + report.not_replayable_count == report.frames


def test_a_forged_frame_beside_a_retired_one_still_diverges(run: Path, tmp_path: Path) -> None:
    with Ledger.open(run, "r") as ledger:
        events = [event for _, event in ledger.scan()]
    frame = events[12]
    effect = bytearray(frame.effect)
    effect[128 + 4] ^= 1
    events[12] = Event(
        producer=frame.producer, effect=bytes(effect), kind=frame.kind, parents=frame.parents,
        sequence=frame.sequence, schema=frame.schema, tick=frame.tick,
    )  # fmt: skip
    with Ledger.open(tmp_path / "out", sync="os") as ledger:
        ledger.append_many(events)
        ledger.retire([10])
    report = audit(tmp_path / "out")
    assert not report.ok
    assert report.first_divergence is not None
    assert report.first_divergence.rank == 12


def test_an_event_left_out_beside_a_retired_one_is_still_a_gap(run: Path, tmp_path: Path) -> None:
    with Ledger.open(run, "r") as ledger:
        events = [event for _, event in ledger.scan()]
    with Ledger.open(tmp_path / "out", sync="os") as ledger:
        ledger.append_many(events[:10] + events[12:])
        ledger.retire([6])
    report = audit(tmp_path / "out")
    assert [problem.where for problem in report.problems] == ["sequence"]


def test_a_retired_event_of_another_part_of_a_run_costs_no_decision(run: Path, tmp_path: Path) -> None:
    with Ledger.open(run, "r") as ledger:
        events = [event for _, event in ledger.scan()]
    note = Event(producer="note", effect=b"x", kind="demo.search", sequence=0, tick=0)
    with Ledger.open(tmp_path / "out", sync="os") as ledger:
        ledger.append_many([*events[:5], note, *events[5:]])
        ledger.retire([5])
    report = audit(tmp_path / "out")
    assert report.ok
    assert (report.planned, report.not_replayable, report.retired) == (TICKS, [], [(5, 5)])


def test_a_reader_leaves_out_the_frames_whose_inputs_are_not_known(run: Path, tmp_path: Path) -> None:
    with open_run(retired(run, tmp_path / "out", 5)) as reader, open_run(run) as whole:
        seen = [(view.rank, view.frame.tick, view.inputs.copy()) for view in reader.frames()]
        assert [tick for _, tick, _ in seen] == [0, 1, *range(64, TICKS)]
        assert reader.skipped == 62
        expected = {view.rank: view.inputs.copy() for view in whole.frames()}
        assert all((expected[rank].agents == inputs.agents).all() for rank, _, inputs in seen)
        assert reader.kinds()["retired"] == 1
        assert reader.state_at(1).frame.tick == 1
        assert reader.state_at(66).frame.tick == 66
        with pytest.raises(RunError) as caught:
            reader.state_at(7)
        assert str(caught.value) == "the decision at tick 7 can't be shown: what it depends on is retired"
