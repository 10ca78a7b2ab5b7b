"""An audit by several processes says what one says, byte for byte, of whole ledgers and of damaged ones."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coord.auditing.audit import audit
from coord.auditing.part import cuts
from coord.auditing.report import Report
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from storage import Event, Ledger
from storage.engine.engines import open_store
from storage.layout import log_key, store_path

FLEET = 'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 3\nspeed = 7\n[zones]\nrandom = 6\n'
TICKS = 200
SIZE = 1 + 2 * TICKS


class InTurn(Executor):
    """Does at once what it is given, from a copy of the bytes that a process would get."""

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks += 1
        done: Future[Any] = Future()
        done.set_result(pickle.loads(pickle.dumps(fn(*pickle.loads(pickle.dumps(args)), **kwargs))))
        return done


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel") / "run"
    simulate(Scenario.loads(FLEET), TICKS, ledger=folder, sync="os")
    return folder


@pytest.fixture(scope="module")
def events(run: Path) -> list[Event]:
    with Ledger.open(run, mode="r") as ledger:
        return [event for _, event in ledger.scan()]


def written(path: Path, events: list[Event]) -> Path:
    """A ledger of these events whose own tree is in order; numbers that repeat are left as they are."""
    with Ledger.open(path, sync="os") as ledger:
        ledger.append_many(events)
    return path


def assert_same(path: Path, **kwargs: Any) -> Report:
    crew = InTurn()
    alone, together = audit(path, **kwargs), audit(path, jobs=crew, **kwargs)
    assert together == alone
    return alone


def test_a_whole_ledger_is_cut_at_its_keys_and_each_part_taken(run: Path) -> None:
    crew = InTurn()
    report = audit(run, jobs=crew)
    assert report == audit(run)
    assert (report.ok, report.frames, report.planned) == (True, TICKS, TICKS)
    assert crew.tasks == 3  # keys at frames 64, 128 and 192
    with Ledger.open(run, mode="r") as ledger:
        assert [rank for rank, _ in cuts(ledger, 0, SIZE, 16)] == [1 + 2 * 64 * i for i in range(1, 4)]
        assert [rank for rank, _ in cuts(ledger, 0, SIZE, 1)] == [129]
        assert list(cuts(ledger, 386, SIZE, 16)) == []
    assert_same(run, replan=False)
    assert_same(run, expect=(SIZE, report.root))
    assert_same(run, expect=(SIZE, bytes(32)))


def test_two_processes_say_what_one_says(run: Path, tmp_path: Path, events: list[Event]) -> None:
    assert audit(run, jobs=2) == audit(run)
    broken = written(tmp_path / "broken", events[:301] + events[303:])
    report = audit(broken, jobs=2)
    assert report == audit(broken)
    assert not report.ok


def test_the_world_made_again_is_one_process_whatever_the_jobs(run: Path) -> None:
    crew = InTurn()
    assert audit(run, resimulate=True, jobs=crew) == audit(run, resimulate=True)
    assert crew.tasks == 0


@pytest.mark.parametrize("jobs", [0, -1, 1025, True, 2.0, "2"])
def test_jobs_that_are_no_number_of_processes_are_refused(run: Path, jobs: object) -> None:
    text = rf"^audit: jobs must be a number of processes from 1 to 1024, or an executor, got {jobs!r}$"
    with pytest.raises(ValueError, match=text):
        audit(run, jobs=jobs)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_dropped_moved_or_changed_both_say_the_same(seed: int, events: list[Event], tmp_path: Path) -> None:
    check_changed(seed, events, tmp_path)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(8, 2**32))
def test_whatever_is_dropped_moved_or_changed_both_say_the_same_often(
    seed: int, events: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_changed(seed, events, tmp_path_factory.mktemp("changed"))


def check_changed(seed: int, events: list[Event], folder: Path) -> None:
    draw = random.Random(seed)
    changed = list(events)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(changed))
        if draw.random() < 0.4:  # near a key, where parts meet
            at = max(0, min(len(changed) - 1, 129 * draw.randrange(1, 5) + draw.randrange(-3, 4)))
        kind = draw.choice(["drop", "swap", "effect", "tick", "parents", "kind", "drop many"])
        event = changed[at]
        if kind == "drop":
            del changed[at]
        elif kind == "drop many":
            del changed[at : at + draw.randrange(2, 150)]
        elif kind == "swap":
            other = min(len(changed) - 1, at + draw.randrange(1, 4))
            changed[at], changed[other] = changed[other], changed[at]
        elif kind == "effect":
            effect = bytearray(event.effect)
            effect[draw.randrange(len(effect))] ^= 1 << draw.randrange(8)
            changed[at] = event_with(event, effect=bytes(effect))
        elif kind == "tick":
            changed[at] = event_with(event, tick=event.tick + draw.randrange(1, 3))
        elif kind == "parents":
            changed[at] = event_with(event, parents=())
        else:
            changed[at] = event_with(event, kind=draw.choice(["coord.frame", "coord.inputs", "coord.event", "a.b"]))
        if not changed:
            return
    if draw.random() < 0.5:  # numbered anew: nothing seems to be missing
        changed = [event_with(event, sequence=i) for i, event in enumerate(changed)]
    changed = ascending(changed)
    path = written(folder / "changed", changed)
    assert_same(path)
    assert_same(path, replan=False)


def event_with(event: Event, **changes: Any) -> Event:
    import dataclasses

    return dataclasses.replace(event, **changes)


def ascending(events: list[Event]) -> list[Event]:
    """A ledger takes only rising numbers of one producer: those that do not rise go to a producer of their own."""
    kept, last = [], -1
    for index, event in enumerate(events):
        if event.sequence > last:
            kept.append(event)
            last = event.sequence
        else:
            kept.append(event_with(event, producer=f"other/{index}"))
    return kept


@pytest.mark.parametrize(
    "ranks",
    [(0,), (129,), (128, 129, 130), (SIZE - 1,), tuple(range(100, 300))],
)
def test_retired_events_are_told_alike(run: Path, tmp_path: Path, ranks: tuple[int, ...]) -> None:
    shutil.copytree(run, tmp_path / "run")
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.retire(ranks)
    report = assert_same(tmp_path / "run")
    assert report.ok
    assert report.retired_count == len(ranks)


@pytest.mark.parametrize("rank", [0, 129, 300])
@pytest.mark.parametrize("how", ["damage", "missing"])
def test_damage_of_the_store_is_told_alike(run: Path, tmp_path: Path, rank: int, how: str) -> None:
    shutil.copytree(run, tmp_path / "run")
    store = open_store(store_path(tmp_path / "run"), read_only=False)
    store.write([("log", log_key(rank), b"damage" if how == "damage" else None)], sync=True)
    store.close()
    report = assert_same(tmp_path / "run")
    assert not report.ok
    assert rank in {problem.rank for problem in report.problems}


def test_a_part_with_many_kinds_is_gone_through_again(run: Path, tmp_path: Path, events: list[Event]) -> None:
    noise = [Event(producer="p", effect=b"", kind=f"k{i % 70}", sequence=i, tick=0) for i in range(200)]
    path = written(tmp_path / "run", events[:140] + noise + events[140:])
    report = assert_same(path)
    assert report.ok
    assert len(report.other_events) == 65


def test_a_ledger_without_a_run_and_an_empty_one_are_told_alike(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "notes", sync="os") as ledger:
        ledger.append(Event(producer="p", effect=b"", kind="note.text", sequence=0, tick=0))
    Ledger.open(tmp_path / "empty", sync="os").close()
    for name in ("notes", "empty"):
        assert not assert_same(tmp_path / name).ok
        assert_same(tmp_path / name, replan=False)


def test_progress_goes_up_to_the_end(run: Path) -> None:
    told: list[tuple[int, int]] = []
    audit(run, jobs=InTurn(), progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (2 * SIZE, 2 * SIZE)


LIVELY = FLEET + (
    '[plan]\nqueue = 3\non_events = true\nevery_ticks = 2\n[demand]\nmodel = "uniform"\nrate = 0.3\n'
    "[faults]\ndelay = 0.02\nlost = 0.01\nlost_ticks = [3, 9]\nsilent = 0.02\nsilent_ticks = [5, 20]\n"
)


@pytest.mark.parametrize("seed", range(3))
def test_runs_with_events_queues_and_tasks_are_told_alike(seed: int, tmp_path: Path) -> None:
    simulate(Scenario.loads(LIVELY), 150, seed=seed, ledger=tmp_path / "run", sync="os")
    assert assert_same(tmp_path / "run").ok
    with Ledger.open(tmp_path / "run", mode="r") as ledger:
        events = [event for _, event in ledger.scan()]
    assert "coord.event" in {event.kind for event in events}
    for first, last in ((0, 3), (40, 90), (77, 77), (120, None)):
        report = assert_same(tmp_path / "run", first_tick=first, last_tick=last)
        assert report.ok, report
        assert (
            report.planned + report.external_decisions == report.frames - (report.checked_range or report).lead_frames
        )
    check_changed(seed, events, tmp_path)
