"""An audit and the changes from outside: well-formed, in its place, and what scenario and seed make again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from coord.auditing.audit import audit
from coord.errors import RunError
from coord.simulation.events import EventKind, FleetEvent
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.stl import fleet_event
from storage import Event, Ledger, canonical

SITE = """
version = 1
name = "told"
seed = 12
[plan]
every_ticks = 5
on_events = true
[agents]
random = 8
speed = 5.0
[zones]
random = 20
[faults]
delay = 0.05
fault = 0.01
silent = 0.02
lost = 0.02
lost_ticks = [4, 8]
[[event]]
tick = 7
kind = "zone_removed"
id = 3
"""
TICKS = 40
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "coord-event.md"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    folder = tmp_path_factory.mktemp("told") / "run"
    simulate(Scenario.loads(SITE), TICKS, ledger=folder, sync="os")
    with Ledger.open(folder, mode="r") as ledger:
        return [event for _, event in ledger.scan()]


def _write(path: Path, events: list[Event]) -> Path:
    """A ledger of these events, numbered anew, frames with the parents that stand before them."""
    parents: list[bytes] = []
    with Ledger.open(path, sync="os") as ledger:
        for sequence, event in enumerate(events):
            known = tuple(sorted(parents)) if event.kind == "coord.frame" else event.parents
            mine = dataclasses.replace(event, sequence=sequence, parents=known)
            parents = [*parents, mine.id] if event.kind == "coord.inputs" else []
            ledger.append(mine)
    return path


def _changed(event: Event, **fields: object) -> Event:
    value = canonical.unpack(event.effect)
    return dataclasses.replace(event, effect=canonical.pack({**value, **fields}))  # type: ignore[dict-item]


def _ranks(events: list[Event], *kinds: str) -> list[int]:
    return [
        rank for rank, event in enumerate(events)
        if event.kind == "coord.event" and (not kinds or fleet_event(event).kind.word in kinds)
    ]  # fmt: skip


def _texts(path: Path, *, resimulate: bool) -> list[str]:
    report = audit(path, resimulate=resimulate)
    return [problem.text for problem in report.problems]


def test_the_example_of_the_page_is_its_bytes(page_hex: Callable[[str, str], bytes]) -> None:
    fault = FleetEvent(5, EventKind.FAULT, 7, "faults", 12)
    assert canonical.pack(fault.to_map()) == page_hex("coord-event", "fault")
    for kind in EventKind:
        assert f"| {int(kind)} `{kind.word}` |" in PAGE.read_text()


def test_a_run_with_changes_is_in_order(events: list[Event], tmp_path: Path) -> None:
    path = _write(tmp_path / "run", events)
    kinds = {fleet_event(events[rank]).kind for rank in _ranks(events)}
    assert len(kinds) == 6
    for options in ({}, {"resimulate": True}, {"jobs": 2}, {"replan": False}, {"first_tick": 11, "last_tick": 30}):
        report = audit(path, **options)  # type: ignore[arg-type]
        assert report.ok, report.problems
        if "first_tick" not in options:
            again = "resimulate" in options
            assert report.other_events == ({} if again else {"coord.event": len(_ranks(events))})
            assert report.changes_resimulated == (len(_ranks(events)) if again else 0)


def test_a_part_of_an_audit_can_begin_in_front_of_changes(events: list[Event], tmp_path: Path) -> None:
    path = _write(tmp_path / "run", events)
    bad = [*events]
    rank = _ranks(events, "delay")[-1]
    bad[rank] = _changed(events[rank], ticks=0)
    damaged = _write(tmp_path / "bad", bad)
    for place in (path, damaged):
        one, two = audit(place), audit(place, jobs=2)
        assert (one.problems, one.divergences, one.other_events) == (two.problems, two.divergences, two.other_events)
    assert not audit(damaged).ok


def test_a_change_that_was_left_out_is_found(events: list[Event], tmp_path: Path) -> None:
    rank = _ranks(events, "delay")[0]
    lost = fleet_event(events[rank])
    path = _write(tmp_path / "run", events[:rank] + events[rank + 1 :])
    assert audit(path).ok  # a delay leaves no mark on a decision: only making the run again shows it
    texts = _texts(path, resimulate=True)
    assert len(texts) == 1
    assert f"event: expected delay {lost.id} at tick {lost.tick}, got " in texts[0]


def test_a_change_that_never_happened_is_found(events: list[Event], tmp_path: Path) -> None:
    rank = _ranks(events, "delay")[0]
    made_up = dataclasses.replace(
        events[rank], effect=canonical.pack(FleetEvent(0, EventKind.OBSTACLE_REMOVED, 9, record=_obstacle(9)).to_map())
    )
    path = _write(tmp_path / "run", [*events[: rank + 1], made_up, *events[rank + 1 :]])
    assert any("got obstacle_removed 9 at tick" in text for text in _texts(path, resimulate=True))


def _obstacle(number: int) -> bytes:
    return number.to_bytes(4, "little") + bytes(28)


def test_a_change_with_another_length_is_found(events: list[Event], tmp_path: Path) -> None:
    rank = _ranks(events, "delay")[0]
    was = fleet_event(events[rank])
    bad = [*events]
    bad[rank] = _changed(events[rank], ticks=was.ticks + 1)
    path = _write(tmp_path / "run", bad)
    assert audit(path).ok
    shown = f"delay {was.id} at tick {was.tick}"
    assert _texts(path, resimulate=True) == [f"rank {rank}: event: expected {shown}, got {shown}, with another content"]


def test_changes_out_of_order_and_out_of_time_are_found(events: list[Event], tmp_path: Path) -> None:
    pair = next(
        (a, b) for a, b in zip(_ranks(events), _ranks(events)[1:], strict=False)
        if b == a + 1 and events[a].tick == events[b].tick
    )  # fmt: skip
    bad = [*events]
    bad[pair[0]], bad[pair[1]] = bad[pair[1]], bad[pair[0]]
    assert any("event: expected one after" in text for text in _texts(_write(tmp_path / "a", bad), resimulate=False))
    rank = _ranks(events, "delay")[0]
    bad = [*events]
    bad[rank] = dataclasses.replace(events[rank], tick=900)
    texts = _texts(_write(tmp_path / "b", bad), resimulate=False)
    assert any(f"rank {rank}: tick: expected" in text and "got 900" in text for text in texts)


def test_with_on_events_a_change_without_its_plan_is_found(events: list[Event], tmp_path: Path) -> None:
    rank = _ranks(events, "zone_removed")[0]
    tick = events[rank].tick
    following = next(i for i in range(rank, len(events)) if events[i].kind == "coord.frame")
    assert events[following].tick == tick
    delayed = [event for i, event in enumerate(events) if not (i > rank and event.tick == tick)]
    texts = _texts(_write(tmp_path / "run", delayed), resimulate=False)
    assert any(f"event: expected a plan at tick {tick}" in text for text in texts)


def test_changes_after_the_last_frame_are_made_again(tmp_path: Path) -> None:
    text = SITE.replace("on_events = true\n", "").replace("every_ticks = 5", "every_ticks = 30")
    simulate(Scenario.loads(text), 25, ledger=tmp_path / "run", sync="os")
    with Ledger.open(tmp_path / "run", mode="r") as ledger:
        events = [event for _, event in ledger.scan()]
    assert [event.kind for event in events[:3]] == ["coord.scenario", "coord.inputs", "coord.frame"]
    assert len(_ranks(events)) > 5
    assert audit(tmp_path / "run", resimulate=True).ok
    bad = [*events[:5], *events[6:]]
    assert not audit(_write(tmp_path / "bad", bad), resimulate=True).ok
    cut = _write(tmp_path / "cut", events[:-1])  # cut short within a tick: as any cut, only a checkpoint shows it
    assert audit(cut).ok


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 2}, "version: expected 1, got 2"),
        ({"kind": "gone"}, "kind: expected agent_lost or agent_back or fault or silent or delay or zone_added or "
         "zone_removed or obstacle_added or obstacle_removed, got 'gone'"),
        ({"source": "me"}, "source: expected site or faults, got 'me'"),
        ({"id": 2**32 - 1}, "id: expected 0 to 4294967294, got 4294967295"),
        ({"ticks": -1}, "ticks: expected 0 to 4294967295, got -1"),
        ({"ticks": True}, "ticks: expected int, got bool"),
        ({"ticks": 0}, "ticks: expected at least 1 for delay, got 0"),
        ({"record": b"x"}, "record: expected 0 bytes for delay, got 1"),
        ({"kind": "zone_removed", "ticks": 0}, "record: expected 48 bytes for zone_removed, got 0"),
        ({"kind": "zone_removed"}, "ticks: expected 0 for zone_removed, got 3"),
        ({"kind": "obstacle_removed", "ticks": 0, "record": _obstacle(8)}, "record: expected one of id 7, got 8"),
        ({"points": bytes(24)}, "points: expected none, got 24 bytes"),
        ({"kind": "obstacle_removed", "ticks": 0, "record": b"\x07\0\0\0\x01" + bytes(27)},
         "points: expected at least 3 pairs, got 0 bytes"),
        ({"more": 1}, "expected the keys id, kind, points, record, source, ticks, version, got others"),
    ],
)  # fmt: skip
def test_a_map_that_is_no_change_is_refused(fields: dict[str, object], message: str) -> None:
    value = {**FleetEvent(4, EventKind.DELAY, 7, ticks=3).to_map(), **fields}
    event = Event(producer="sim/x", effect=canonical.pack(value), kind="coord.event", sequence=1, schema=1, tick=4)
    with pytest.raises(RunError) as error:
        fleet_event(event)
    assert str(error.value) == f"coord.event: {message}"


def test_bytes_that_are_no_map_are_a_problem_of_their_rank(events: list[Event], tmp_path: Path) -> None:
    rank = _ranks(events)[0]
    bad = [*events]
    bad[rank] = dataclasses.replace(events[rank], effect=canonical.pack([1]))
    texts = _texts(_write(tmp_path / "run", bad), resimulate=False)
    assert texts == [f"rank {rank}: coord.event: expected a map, got list"]
