"""An audit reads the events of a whole ledger once, and of a damaged one again; what it says is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from coord import stl
from coord.auditing.audit import audit
from coord.auditing.report import Report
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from storage import Event, Ledger, event_batch
from storage.layout import log_key, store_path
from storage.notes.keys import Signer

FLEET = 'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 5\n[zones]\nrandom = 8\n'
TICKS = 140
SIZE = 1 + 2 * TICKS + 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and, of its producer and of another, events of other kinds; one number of its producer is left out."""
    folder = tmp_path_factory.mktemp("once") / "run"
    simulate(Scenario.loads(FLEET), TICKS, ledger=folder, sync="os")
    with Ledger.open(folder, sync="os") as ledger:
        for i in range(30):
            producer = "note" if i % 10 < 7 else "sim/fleet"
            kind = "note.text" if i % 5 else "coord.event"
            sequence = 1 + 2 * TICKS + i + (i > 20)
            ledger.append(Event(producer=producer, effect=b"", kind=kind, sequence=sequence, tick=0))
    return folder


class Passes:
    """How often the events were gone through again."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    counted, real = Passes(), stl.read_events

    def read(ledger: Ledger, size: int, start: int = 0) -> Iterator[tuple[int, Event | str | None]]:
        counted.count += 1
        return real(ledger, size, start)

    monkeypatch.setattr(stl, "read_events", read)
    return counted


def in_two_passes(place: str | Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report where nobody is shown anything while the ledger is checked."""
    real = stl.ledger_problems
    with monkeypatch.context() as patch:
        patch.setattr(stl, "ledger_problems", lambda *given: real(*given[:5]))
        return audit(place, resimulate=True)


def test_one_pass_finds_what_two_find(run: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    once = audit(run, resimulate=True)
    assert passes.count == 0
    assert once.problem_count > 0
    assert once.other_events == {"coord.event": 6, "note.text": 24}
    assert once == in_two_passes(run, monkeypatch)
    assert passes.count == 1


def test_one_pass_finds_what_two_find_where_events_are_retired(
    run: Path, tmp_path: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "run")
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.retire([5, 40, 2 * TICKS + 9])
    once = audit(tmp_path / "run", resimulate=True)
    assert passes.count == 0
    assert once == in_two_passes(tmp_path / "run", monkeypatch)


def test_a_published_run_is_read_once(
    run: Path, tmp_path: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "run")
    with Ledger.open(tmp_path / "run") as ledger:
        ledger.publish(str(tmp_path / "web"), Signer("a.example", bytes(32)))
    once = audit(str(tmp_path / "web"))
    assert passes.count == 0
    assert once.frames == TICKS
    assert once.other_events == {"coord.event": 6, "note.text": 24}
    assert in_two_passes(str(tmp_path / "web"), monkeypatch).other_events == once.other_events


@pytest.mark.parametrize("family", ["log", "ids"])
def test_a_damaged_ledger_is_gone_through_again_past_the_damage(
    run: Path, tmp_path: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    from storage.engine.engines import open_store

    shutil.copytree(run, tmp_path / "run")
    with Ledger.open(run, mode="r") as ledger:
        key = log_key(40) if family == "log" else ledger.at(40).id
    store = open_store(store_path(tmp_path / "run"), read_only=False)
    store.write([(family, key, b"damage")], sync=True)
    store.close()
    told: list[tuple[int, int]] = []
    once = audit(tmp_path / "run", resimulate=True, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[-1] == (2 * SIZE, 2 * SIZE)
    assert passes.count == (family == "log")
    assert once == in_two_passes(tmp_path / "run", monkeypatch)


def test_events_of_other_kinds_are_counted_by_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.append_many([Event(producer="p", effect=b"", kind="k", sequence=i, tick=0) for i in range(512)])
    rows: list[int] = []
    real = Report.add_other
    monkeypatch.setattr(Report, "add_other", lambda self, kind, n=1: (rows.append(n), real(self, kind, n))[1])
    assert audit(tmp_path / "run").other_events == {"k": 512}
    assert rows == [256, 256, 512]  # two tiles, and the report as a whole


def test_a_batch_that_is_checked_event_by_event_shows_them_all_the_same(
    run: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = audit(run)
    monkeypatch.setattr(event_batch, "audited", lambda *_: None)
    assert audit(run) == before
    assert passes.count == 0
