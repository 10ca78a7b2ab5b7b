"""An audit of some ticks: what it reads, what it finds, what it leaves, wherever the range begins and ends."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from coord.auditing.audit import audit
from coord.auditing.report import RangeChecked
from coord.frames.frame import DecisionFrame, decode_frame_event, rows_digest
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.stl import open_run
from storage import Event, Ledger, NotALedgerError
from storage.engine.engines import open_store
from storage.layout import log_key, store_path, tile_key

SITE = (
    'version = 1\nname = "fleet"\nseed = 4\n[plan]\nevery_ticks = 3\n'
    "[agents]\nrandom = 3\nspeed = 7\n[zones]\nrandom = 6\n"
)
FRAMES, EVERY = 150, 3
TICKS = FRAMES * EVERY
SIZE = 1 + 2 * FRAMES  # frame i: inputs at 1 + 2i, frame at 2 + 2i; keys at frames 0, 64, 128


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("range") / "run"
    simulate(Scenario.loads(SITE), TICKS, ledger=folder, sync="os")
    return folder


@pytest.fixture(scope="module")
def events(run: Path) -> list[Event]:
    with Ledger.open(run, mode="r") as ledger:
        return [event for _, event in ledger.scan()]


def written(path: Path, events: list[Event]) -> Path:
    with Ledger.open(path, sync="os") as ledger:
        ledger.append_many(events)
    return path


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 0), (0, 1), (1, 3), (189, 192), (190, 200), (192, 192), (193, 400), (0, None), (440, None), (449, 10**9)],
)
def test_the_decisions_of_a_range_are_made_again_and_no_others(run: Path, first: int, last: int | None) -> None:
    report = audit(run, first_tick=first, last_tick=last)
    ticks = [3 * i for i in range(FRAMES) if first <= 3 * i <= (TICKS if last is None else last)]
    if not ticks:
        assert (report.frames, report.planned) == (0, 0)
        return
    assert report.ok, report
    lead = ticks[0] // 3 % 64
    key = ticks[0] // 3 - lead
    assert (report.planned, report.frames) == (len(ticks), len(ticks) + lead)
    checked = report.checked_range
    assert checked is not None
    start, stop = (1 if key == 0 else 1 + 2 * key), 3 + 2 * (ticks[-1] // 3)
    tiles = len({0} | set(range(start // 256, (stop - 1) // 256 + 1))) + (start // 256 == 0)
    assert checked == RangeChecked(first, last, start, stop, lead, tiles, stop < SIZE)


def test_a_range_reads_the_key_before_it_and_the_search_but_not_the_ledger(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coord import stl

    read: set[int] = set()
    real = stl.read_events

    def counting(ledger: Ledger, size: int, start: int = 0):  # type: ignore[no-untyped-def]
        for rank, event in real(ledger, size, start):
            read.add(rank)
            yield rank, event

    monkeypatch.setattr(stl, "read_events", counting)
    assert audit(run, first_tick=390, last_tick=393).ok  # frames 130 and 131
    assert len(read) < 40
    assert min(read - {0}) > 128


def test_a_range_says_what_it_did_not_check(run: Path) -> None:
    report = audit(run, first_tick=195, last_tick=201)
    assert report.checked_range is not None
    assert report.checked_range.checked(report.size) == (
        "ranks 0 and ranks 129..136 of 301, their leaves led to the root (2 tiles); 1 decisions before the range only "
        "read, as its inputs stand on them; the decision behind it names the last one"
    )


def test_ranges_behind_the_end_and_between_planned_ticks(run: Path) -> None:
    behind = audit(run, first_tick=448, last_tick=500)
    assert [problem.text for problem in behind.problems] == [
        "ledger: ticks: expected a decision at tick 448 or later, got a run whose last decision is of tick 447"
    ]
    between = audit(run, first_tick=100, last_tick=101)
    assert (between.ok, between.frames, between.warnings) == (True, 0, ["no tick of 100 to 101 was planned"])
    beyond = audit(run, first_tick=441, last_tick=500)
    assert beyond.ok
    assert beyond.warnings == ["the last decision of the run is of tick 447, asked was to tick 500"]


def test_ranges_that_are_none_and_questions_about_the_whole_are_refused(run: Path) -> None:
    for given, text in (
        ({"first_tick": 5, "last_tick": 4}, "audit: last_tick must be at least first_tick, got 5 and 4"),
        ({"first_tick": -1}, "audit: first_tick must be a tick of at least 0, got -1"),
        ({"last_tick": 2.5}, "audit: last_tick must be a tick of at least 0, got 2.5"),
        (
            {"last_tick": 2, "keys": ("k",)},
            "audit: keys are about the checkpoints of the whole ledger, not about a range of ticks",
        ),
        (
            {"first_tick": 2, "resimulate": True},
            "audit: a run is made again from its first tick, not from the first tick of a range",
        ),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared in full
            audit(run, **given)  # type: ignore[arg-type]
        assert str(caught.value) == text


def test_the_expected_root_is_held_against_a_range_too(run: Path) -> None:
    with Ledger.open(run, mode="r") as ledger:
        head = ledger.head()
    assert audit(run, first_tick=300, last_tick=303, expect=(head.size, head.root)).ok
    assert not audit(run, first_tick=300, last_tick=303, expect=(head.size, bytes(32))).ok
    assert not audit(run, first_tick=300, last_tick=303, expect=(head.size + 1, head.root)).ok


def test_a_rewritten_decision_is_found_in_its_range_and_at_its_border(
    run: Path, events: list[Event], tmp_path: Path
) -> None:
    frame, rows = decode_frame_event(events[2 + 2 * 100].effect)
    rows = rows.copy()
    free = next(zone for zone in range(6) if zone not in rows["zone"])
    agent = int(rows["agent"][rows["status"] == 0][0])
    rows["zone"][rows["agent"] == agent] = free
    forged = dataclasses.replace(frame, rows_digest=rows_digest(rows))
    changed = list(events)
    changed[202] = dataclasses.replace(events[202], effect=forged.encode() + rows.tobytes())
    path = written(tmp_path / "forged", changed)
    inside = audit(path, first_tick=297, last_tick=300)
    assert inside.first_divergence is not None
    assert (inside.first_divergence.frame_id, inside.first_divergence.agent) == (100, agent)
    assert inside.first_divergence.field == "zone"
    border = [(problem.rank, problem.where) for problem in inside.problems]
    assert border == [(204, "prev_digest")]  # the next frame names the one that was there
    before = audit(path, first_tick=291, last_tick=297)
    assert [(problem.rank, problem.where) for problem in before.problems] == []  # what lies behind is not its business
    after = audit(path, first_tick=303, last_tick=306)
    assert after.first_divergence is not None
    assert (after.first_divergence.frame_id, after.first_divergence.field) == (101, "frame.prev_digest")


def test_what_is_taken_out_between_is_found_by_the_chain(events: list[Event], tmp_path: Path) -> None:
    shorter = events[:201] + events[203:]  # frame 100 and its inputs
    numbered = [dataclasses.replace(event, sequence=i) for i, event in enumerate(shorter)]
    path = written(tmp_path / "shorter", numbered)
    for first, last in ((297, 303), (303, 306), (294, 297)):
        report = audit(path, first_tick=first, last_tick=last)
        assert not report.ok, (first, last)


@pytest.mark.parametrize("frame", [64, 100, 128, 140])
def test_a_flipped_byte_names_the_first_bad_frame_of_its_range_only(run: Path, tmp_path: Path, frame: int) -> None:
    shutil.copytree(run, tmp_path / "run")
    store = open_store(store_path(tmp_path / "run"), read_only=False)
    rank = 2 + 2 * frame
    value = bytearray(store.get("log", log_key(rank)) or b"")
    value[-40] ^= 1
    store.write([("log", log_key(rank), bytes(value))], sync=True)
    store.close()
    inside = audit(tmp_path / "run", first_tick=3 * frame - 3, last_tick=3 * frame + 3)
    assert not inside.ok
    assert inside.problems[0].rank == rank
    far = audit(tmp_path / "run", first_tick=30, last_tick=60)
    assert far.ok


def test_a_tile_that_does_not_lead_to_the_root_is_found(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    store = open_store(store_path(tmp_path / "run"), read_only=False)
    key = tile_key(0, 0)
    tile = bytearray(store.get("tree", key) or b"")
    tile[32 * 3] ^= 1  # the leaf of rank 3, far from the range
    store.write([("tree", key, bytes(tile))], sync=True)
    store.close()
    report = audit(tmp_path / "run", first_tick=195, last_tick=201)
    assert not report.ok
    assert {problem.where for problem in report.problems} >= {"tree"}


def test_a_retired_key_leaves_the_range_not_replayable(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.retire([129])
    report = audit(tmp_path / "run", first_tick=198, last_tick=204)
    assert report.ok
    assert report.planned == 0
    assert report.not_replayable_count > 0
    later = audit(tmp_path / "run", first_tick=390, last_tick=396)
    assert (later.ok, later.planned) == (True, 3)


def test_a_range_by_an_executor_is_the_same(run: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        assert audit(run, first_tick=90, last_tick=430, jobs=pool) == audit(run, first_tick=90, last_tick=430)


def test_a_published_run_has_ranges_too(run: Path, tmp_path: Path) -> None:
    from storage import Signer

    shutil.copytree(run, tmp_path / "run")
    with Ledger.open(tmp_path / "run") as ledger:
        ledger.publish(str(tmp_path / "web"), Signer("a.example", bytes(32)))
    report = audit(str(tmp_path / "web"), first_tick=200, last_tick=210)
    assert report.ok
    assert report.planned == 4


def test_the_state_at_a_tick_is_sought(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run(run) as reader:
        walked = {view.frame.tick: (view.rank, view.rows.tobytes(), view.inputs.agents.tobytes())
                  for view in reader.frames()}  # fmt: skip
        read: list[int] = []
        real = reader.ledger.scan

        def counting(start: int = 0, stop: int | None = None, **kwargs: bool):  # type: ignore[no-untyped-def]
            for rank, event in real(start, stop, **kwargs):  # type: ignore[call-overload]
                read.append(rank)
                yield rank, event

        monkeypatch.setattr(reader.ledger, "scan", counting)
        for tick in (0, 1, 190, 191, 192, 300, 446, 447, 448, 10**12):
            read.clear()
            view = reader.state_at(tick)
            wanted = max(t for t in walked if t <= tick)
            assert view.frame.tick == wanted
            assert (view.rank, view.rows.tobytes(), view.inputs.agents.tobytes()) == walked[wanted]
            assert len(read) < 2 * 64 + 2 * 64 + 40


def test_frames_of_a_run_are_a_chain_in_one_buffer(run: Path) -> None:
    from coord import check_chain, decode_frames

    with open_run(run) as reader:
        data = b"".join(view.frame.encode() + view.rows.tobytes() for view in reader.frames())
    offsets = [i * (128 + 96) for i in range(FRAMES)]
    assert check_chain(data, offsets=offsets, frame_id=0, prev_digest=bytes(16)) is None
    assert decode_frames(data, offsets)["tick"].tolist() == [3 * i for i in range(FRAMES)]
    assert DecisionFrame.decode(data[:128]).frame_id == 0


@pytest.mark.parametrize("kind", ["missing", "empty folder", "file", "published nothing"])
def test_a_place_without_a_ledger_is_an_error_and_no_finding(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "run"
    if kind == "file":
        place.write_text("text")
    elif kind != "missing":
        place.mkdir()
    where = place.as_uri() if kind == "published nothing" else place
    for options in ({}, {"first_tick": 3}, {"last_tick": 3}, {"jobs": 2}):
        with pytest.raises(NotALedgerError):
            audit(where, **options)  # type: ignore[arg-type]
    assert not any(place.iterdir()) if place.is_dir() else place.exists() == (kind == "file")
