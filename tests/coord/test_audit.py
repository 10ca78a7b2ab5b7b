"""audit: who rewrites a decision or an input, with every digest made to fit, is found and named."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import storage
import storage.canonical
from coord.auditing.audit import audit
from coord.auditing.report import Report, parse_checkpoint
from coord.frames.frame import DecisionFrame, decode_frame_event, rows_digest
from coord.frames.inputs import Inputs, apply, encode
from coord.planning.plan import plan
from coord.records import CONFIG_DTYPE, ROW_DTYPE, PlanConfig
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.stl import open_run, scenario_event
from storage import Event, Ledger

FLEET = 'version = 1\nname = "fleet"\nseed = 4\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 14\n'
TICKS = 20
Records = npt.NDArray[np.void]
EditRows = Callable[[int, Records], None]
EditInputs = Callable[[int, Inputs], None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "run"
    simulate(Scenario.loads(FLEET), TICKS, ledger=folder, sync="os")
    return folder


def _events(path: Path) -> list[Event]:
    with Ledger.open(path, mode="r") as ledger:
        return [event for _, event in ledger.scan()]


def _write(path: Path, events: list[Event]) -> Path:
    with Ledger.open(path, sync="os") as ledger:
        ledger.append_many(events)
    return path


def _fit(frame: DecisionFrame, rows: Records, digest: bytes, prev: bytes) -> DecisionFrame:
    """The frame with everything that its rows and inputs say, as our own writer would have it."""
    return dataclasses.replace(
        frame,
        input_digest=digest,
        rows_digest=rows_digest(rows),
        prev_digest=prev,
        assigned=int((rows["status"] == 0).sum()),
        rejected=int((rows["status"] >= 2).sum()),
        conflicts=int((rows["status"] == 7).sum()),
        score_sum=int(rows["score"][rows["status"] == 0].sum(dtype=np.int64)),
    )


def _plan(now: Inputs, tick: int):  # type: ignore[no-untyped-def]
    config = PlanConfig.from_record(np.frombuffer(now.config, CONFIG_DTYPE)[0])
    return plan(now.agents, now.zones, now.obstacles, now.kernels, config, now_tick=tick)


def forge(
    source: Path, out: Path, *, rows: EditRows | None = None, inputs: EditInputs | None = None, replan: bool = False
) -> Path:
    """A copy of a run in which somebody who owns the folder changed something and made every digest fit again.

    `inputs` may change each planned tick's inputs, `rows` its rows; replan=True makes the rows from the changed inputs.
    """
    events = _events(source)
    out_events = [events[0]]
    state: Inputs | None = None
    written: Inputs | None = None
    prev = bytes(16)
    for index in range(1, len(events), 2):
        part, event = events[index], events[index + 1]
        state = apply(state, [part.effect], tick=part.tick)
        now = state.copy()
        frame, old_rows = decode_frame_event(event.effect)
        if inputs is not None:
            inputs(frame.frame_id, now)
        effect = encode(now, part.tick, None if part.effect[4] == 0 else written)[0]
        written = now.copy()
        new_part = dataclasses.replace(part, effect=effect)
        again = _plan(now, part.tick)
        new_rows = again.rows.copy() if replan else old_rows.copy()
        if rows is not None:
            rows(frame.frame_id, new_rows)
        base = again.frame(frame.frame_id) if replan else frame
        new_frame = _fit(base, new_rows, again.input_digest, prev)
        prev = new_frame.digest()
        new_event = dataclasses.replace(event, effect=new_frame.encode() + new_rows.tobytes(), parents=(new_part.id,))
        out_events += [new_part, new_event]
    return _write(out, out_events)


def _sound(path: Path) -> bool:
    """No damage that the ledger alone could tell, and every frame well formed."""
    return storage.verify_ledger(path).ok and audit(path, replan=False).ok


def test_an_untouched_run_passes_every_audit(run: Path) -> None:
    for kwargs in ({}, {"resimulate": True}, {"replan": False}, {"replan": False, "resimulate": True}):
        report = audit(run, **kwargs)
        assert (report.ok, report.frames, report.size, report.name) == (True, TICKS, 2 * TICKS + 1, "fleet")
        assert report.planned == (TICKS if kwargs.get("replan", True) else 0)
        assert report.resimulated == (TICKS if kwargs.get("resimulate") else 0)


def test_forging_nothing_gives_the_same_root(run: Path, tmp_path: Path) -> None:
    forged = forge(run, tmp_path / "copy")
    assert [event.id for event in _events(forged)] == [event.id for event in _events(run)]
    assert audit(forged).root == audit(run).root


def test_a_rewritten_zone_is_found_with_frame_agent_and_field(run: Path, tmp_path: Path) -> None:
    with open_run(run) as reader:
        original = [view.rows["zone"].tolist() for view in reader.frames()][6]
    free = next(zone for zone in range(14) if zone not in original)

    def rewrite(frame_id: int, rows: Records) -> None:
        if frame_id == 6:
            rows["zone"][rows["agent"] == 4] = free

    forged = forge(run, tmp_path / "forged", rows=rewrite)
    assert _sound(forged)
    report = audit(forged)
    first = report.first_divergence
    assert first is not None
    assert not report.ok
    assert (first.frame_id, first.tick, first.agent, first.field, first.rank) == (6, 6, 4, "zone", 14)
    assert (first.expected, first.got) == (original[4], free)
    assert str(first) == f"frame 6 (tick 6, rank 14): agent 4: zone: expected {original[4]}, got {free}"
    assert [d.field for d in report.first_divergences] == ["zone", "frame.rows_digest", "frame.crc32c"]
    assert (report.divergences, report.frames_diverged, report.problems) == (3, 1, [])


def test_two_rewritten_frames_are_both_counted(run: Path, tmp_path: Path) -> None:
    def rewrite(frame_id: int, rows: Records) -> None:
        if frame_id in (3, 11):
            rows["score"][2] += 1

    report = audit(forge(run, tmp_path / "forged", rows=rewrite))
    assert report.frames_diverged == 2
    found = [(d.frame_id, d.agent, d.field) for d in report.first_divergences if d.agent is not None]
    assert found == [(3, 2, "score"), (11, 2, "score")]
    assert {d.frame_id for d in report.first_divergences if d.field == "frame.score_sum"} == {3, 11}


def _move_agent(frame_id: int, now: Inputs) -> None:
    if frame_id == 8:
        now.agents["x"][5] += np.float32(9)


def test_a_rewritten_input_is_found_by_the_decision_that_does_not_follow_from_it(run: Path, tmp_path: Path) -> None:
    forged = forge(run, tmp_path / "forged", inputs=_move_agent)
    assert _sound(forged)
    first = audit(forged).first_divergence
    assert first is not None
    assert (first.frame_id, first.agent) == (8, 5)
    assert first.field in ROW_DTYPE.names
    simulated = audit(forged, resimulate=True).first_divergence
    assert simulated is not None
    assert (simulated.frame_id, simulated.agent, simulated.field, simulated.rank) == (8, 5, "inputs.agents.x", 17)
    assert simulated.got == pytest.approx(float(str(simulated.expected)) + 9, rel=1e-6)


def test_an_input_that_changes_no_decision_is_found_by_simulating_again_alone(run: Path, tmp_path: Path) -> None:
    def rewrite(frame_id: int, now: Inputs) -> None:
        if frame_id == 8:
            now.agents["energy"][5] = 0.75

    forged = forge(run, tmp_path / "forged", inputs=rewrite)
    assert _sound(forged)
    assert audit(forged).ok
    report = audit(forged, resimulate=True)
    assert not report.ok
    assert [(d.frame_id, d.agent, d.field, d.got) for d in report.first_divergences] == [
        (8, 5, "inputs.agents.energy", 0.75)
    ]


def test_inputs_and_plans_rewritten_together_are_found_by_simulating_again_alone(run: Path, tmp_path: Path) -> None:
    forged = forge(run, tmp_path / "forged", inputs=_move_agent, replan=True)
    assert _sound(forged)
    assert audit(forged).ok
    for replan in (True, False):
        report = audit(forged, resimulate=True, replan=replan)
        first = report.first_divergence
        assert first is not None
        assert (first.frame_id, first.agent, first.field) == (8, 5, "inputs.agents.x")


def test_a_rewritten_first_input_of_a_drawn_fleet_contradicts_the_scenario(run: Path, tmp_path: Path) -> None:
    def rewrite(frame_id: int, now: Inputs) -> None:
        if frame_id == 0:
            now.zones["priority"][3] = 2.0

    report = audit(forge(run, tmp_path / "forged", inputs=rewrite, replan=True))
    first = report.first_divergence
    assert first is not None
    assert (first.frame_id, first.agent, first.field) == (0, None, "inputs.zones[3].priority")
    assert (first.expected, first.got) == (1.0, 2.0)


def test_a_rewritten_first_input_of_a_listed_fleet_contradicts_the_digest_of_the_scenario(tmp_path: Path) -> None:
    text = 'version = 1\nname = "two"\n[[agent]]\nid = 3\nx = 0.0\ny = 0.0\n[zones]\nrandom = 3\n'
    simulate(Scenario.loads(text), 4, ledger=tmp_path / "run", sync="os")

    def rewrite(frame_id: int, now: Inputs) -> None:
        if frame_id == 0:
            now.agents["caps"] = 7

    report = audit(forge(tmp_path / "run", tmp_path / "forged", inputs=rewrite, replan=True))
    assert not report.ok
    assert report.problems[0].rank == 0
    assert "coord.scenario: agents: expected digest" in report.problems[0].text


def test_a_whole_other_run_is_told_apart_by_a_checkpoint_alone(run: Path, tmp_path: Path) -> None:
    kept = audit(run)
    other = tmp_path / "other"
    simulate(Scenario.loads(FLEET), TICKS, 5, other, sync="os")
    assert audit(other, resimulate=True).ok
    assert kept.root is not None
    report = audit(other, expect=(kept.size, kept.root))
    assert not report.ok
    assert report.problems[0].where == "checkpoint"
    note = f"fleet\n{kept.size}\n{base64.b64encode(kept.root).decode()}\n"
    assert not audit(other, expect=note).ok
    assert audit(run, expect=note).ok
    assert audit(run, expect=(kept.size, kept.root.hex())).ok


def test_a_checkpoint_of_fewer_events_is_found_in_a_longer_ledger_and_not_in_a_shorter(
    run: Path, tmp_path: Path
) -> None:
    simulate(Scenario.loads(FLEET), 8, ledger=tmp_path / "short", sync="os")
    short, whole = audit(tmp_path / "short"), audit(run)
    assert short.root is not None
    assert whole.root is not None
    assert audit(run, expect=(short.size, short.root)).ok
    assert not audit(run, expect=(short.size - 1, short.root)).ok
    report = audit(tmp_path / "short", expect=(whole.size, whole.root))
    assert not report.ok
    assert report.problems[0].where == "checkpoint"


FORMS = "checkpoint: expected SIZE:ROOT, or the lines origin, size and base64 root, each ended by a newline, got "


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "",
            FORMS + "''",
        ),
        (
            "a\n1\nAAAA",
            FORMS + r"'a\n1\nAAAA'",
        ),
        (
            "foo",
            FORMS + "'foo'",
        ),
        ("5:abc", "checkpoint: expected the 64 hexadecimal digits of a root, or its base64, got 'abc'"),
        (
            "5:" + "g" * 64,
            "checkpoint: expected the 64 hexadecimal digits of a root, or its base64, got '" + "g" * 64 + "'",
        ),
        ("a\n01\nAAAA\n", "checkpoint: line 2: expected a decimal size below 2^64, got '01'"),
        ("a\n-1\nAAAA\n", "checkpoint: line 2: expected a decimal size below 2^64, got '-1'"),
        ("a\n1\nAAAA\n", "checkpoint: expected the base64 of a root of 32 bytes, got 'AAAA'"),
        ("a\n1\n!!\n", "checkpoint: expected the base64 of a root of 32 bytes, got '!!'"),
        ((2**64, bytes(32)), "checkpoint: expected a decimal size below 2^64, got '18446744073709551616'"),
        (("061", bytes(32)), "checkpoint: expected a decimal size below 2^64, got '061'"),
        (("٦١", bytes(32)), "checkpoint: expected a decimal size below 2^64, got '٦١'"),
        ((-1, bytes(32)), "checkpoint: expected a decimal size below 2^64, got '-1'"),
        ((1, b"a"), "checkpoint: expected a root of 32 bytes, got 1 bytes"),
    ],
)
def test_a_malformed_checkpoint_is_refused(value: tuple[int, bytes] | str, text: str) -> None:
    with pytest.raises(ValueError, match="checkpoint") as error:
        parse_checkpoint(value)
    assert str(error.value) == text


def test_the_checkpoint_of_the_worked_example_is_read() -> None:
    size, root = parse_checkpoint(
        "droveway.example/ledger\n2\ni78cvfbm2ngg8djMsyOgEvv5buE3kYuhvLNaw8h/eIU=\n\n— droveway.example/ledger rCrQ\n"
    )
    assert (size, root.hex()[:16]) == (2, "8bbf1cbdf6e6da78")


def _without(run: Path, out: Path, drop: set[int]) -> Path:
    return _write(out, [event for rank, event in enumerate(_events(run)) if rank not in drop])


def test_a_missing_frame_is_found(run: Path, tmp_path: Path) -> None:
    report = audit(_without(run, tmp_path / "gap", {15, 16}))
    assert [problem.text for problem in report.problems] == ["rank 15: sequence: expected 15, got 17"]
    assert (report.divergences, report.frames, report.planned, report.unplanned) == (0, TICKS - 1, 7, 12)


def test_a_frame_left_out_by_who_renumbers_the_rest_breaks_the_chain(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    report = audit(_write(tmp_path / "gap", _numbered(events[:15] + events[17:])), replan=False)
    texts = [problem.text for problem in report.problems]
    assert "rank 16: tick: expected 7, got 8" in texts
    assert "rank 16: frame_id: expected 7, got 8" in texts
    assert sum("prev_digest" in text for text in texts) == 1


@pytest.mark.parametrize("damaged", [{125}, {126}, {124, 125}, {125, 126, 127, 128, 129}, {139, 140}, {240}])
def test_of_a_damaged_block_only_the_damage_is_told(tmp_path: Path, damaged: set[int]) -> None:
    from storage.engine.rocks import RocksStore
    from storage.layout import log_key, store_path

    simulate(Scenario.loads(FLEET), 140, ledger=tmp_path / "run", sync="os")
    store = RocksStore.open(store_path(tmp_path / "run"), read_only=False)
    store.write([("log", log_key(rank), b"damage") for rank in sorted(damaged)], sync=True)
    store.close()
    for kwargs in ({}, {"replan": False}):
        report = audit(tmp_path / "run", **kwargs)
        assert {problem.rank for problem in report.problems} - {None} == damaged
        places = {problem.where.split("/")[0] for problem in report.problems}  # of the ledger, not of the run
        assert places <= {"log", "tree", "ids", "HEAD", "meta"}
        assert (report.divergences, report.frames) == (0, 140 - sum(rank % 2 == 0 for rank in damaged))


def test_after_a_gap_planning_goes_on_at_the_next_key(tmp_path: Path) -> None:
    simulate(Scenario.loads(FLEET), 80, ledger=tmp_path / "run", sync="os")
    report = audit(_without(tmp_path / "run", tmp_path / "gap", {121, 122}), resimulate=True)
    assert (report.frames, report.planned, report.unplanned) == (79, 76, 3)
    assert (report.ok, report.divergences) == (False, 0)


def test_a_ledger_that_begins_with_no_scenario_is_no_run(run: Path, tmp_path: Path) -> None:
    report = audit(_without(run, tmp_path / "headless", {0}))
    assert [problem.text for problem in report.problems] == [
        "ledger: scenario: expected a coord.scenario event at rank 0, got none"
    ]


def test_a_frame_without_its_inputs_is_a_problem_and_the_audit_goes_on(run: Path, tmp_path: Path) -> None:
    report = audit(_without(run, tmp_path / "lost", {15}))
    assert report.frames == TICKS
    assert [problem.text for problem in report.problems] == ["rank 15: sequence: expected 15, got 16"]
    assert (report.divergences, report.planned, report.unplanned) == (0, 7, 13)


def test_a_run_that_lost_its_first_events_is_planned_again_from_the_next_key(tmp_path: Path) -> None:
    simulate(Scenario.loads(FLEET), 70, ledger=tmp_path / "run", sync="os")
    for name, drop in (("inputs", {1}), ("tick", {1, 2}), ("scenario", {0})):
        report = audit(_without(tmp_path / "run", tmp_path / name, drop), resimulate=True)
        assert not report.ok
        assert report.divergences == 0
        assert report.planned == (70 if name == "scenario" else 6)


def test_a_second_scenario_and_an_unknown_kind_are_problems(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    more = [
        dataclasses.replace(scenario_event(Scenario.loads(FLEET).setup), sequence=41),
        Event(producer="sim/fleet", effect=b"", kind="coord.other", sequence=42, tick=20),
        Event(producer="notes", effect=b"", kind="note.text", sequence=0, tick=20),
    ]
    report = audit(_write(tmp_path / "more", events + more))
    assert [problem.text for problem in report.problems] == [
        "rank 41: kind: expected the scenario at rank 0 only, got coord.scenario",
        "rank 42: kind: expected a known kind, got coord.other",
    ]


def test_wall_time_another_producer_and_another_schema_are_problems(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    events[1] = dataclasses.replace(events[1], wall_ns=5)
    events[2] = dataclasses.replace(events[2], parents=(events[1].id,), producer="sim/other", schema=2)
    report = audit(_write(tmp_path / "odd", events))
    assert [problem.text for problem in report.problems] == [
        "rank 1: wall_ns: expected None, got 5",
        "rank 2: producer: expected sim/fleet, got sim/other",
        "rank 2: schema: expected 1, got 2",
    ]


FORGED_ENVELOPES = {
    "tick": (0, {"tick": 3}, "rank 0: tick: expected 0, got 3"),
    "parents": (0, {"parents": (bytes(32),)}, "rank 0: parents: expected none, got 1"),
    "schema": (0, {"schema": 2}, "rank 0: schema: expected 1, got 2"),
    "wall_ns": (0, {"wall_ns": 5}, "rank 0: wall_ns: expected None, got 5"),
    "producer": (0, {"producer": "sim/other"}, "rank 0: producer: expected sim/fleet, got sim/other"),
    "sequence": (0, {"sequence": 1}, "rank 0: sequence: expected 0, got 1"),
    "tick of inputs": (5, {"tick": 3}, "rank 5: tick: expected 2, got 3"),
    "parents of inputs": (5, {"parents": (bytes(32),)}, "rank 5: parents: expected none, got 1"),
    "schema of inputs": (5, {"schema": 2}, "rank 5: schema: expected 1, got 2"),
    "wall_ns of inputs": (5, {"wall_ns": 5}, "rank 5: wall_ns: expected None, got 5"),
    "producer of inputs": (5, {"producer": "sim/other"}, "rank 5: producer: expected sim/fleet, got sim/other"),
    "sequence of inputs": (5, {"sequence": 6}, "rank 5: sequence: expected 5, got 6"),
    "tick of a frame": (6, {"tick": 3}, "rank 5: tick: expected 3, got 2"),
    "parents of a frame": (6, {"parents": ()}, "rank 6: parents: expected 1 inputs before it, got 0 other parents"),
    "schema of a frame": (6, {"schema": 2}, "rank 6: schema: expected 1, got 2"),
    "wall_ns of a frame": (6, {"wall_ns": 5}, "rank 6: wall_ns: expected None, got 5"),
    "producer of a frame": (6, {"producer": "sim/other"}, "rank 6: producer: expected sim/fleet, got sim/other"),
    "sequence of a frame": (6, {"sequence": 7}, "rank 6: sequence: expected 6, got 7"),
}


@pytest.mark.parametrize("case", FORGED_ENVELOPES)
@pytest.mark.parametrize("replan", [True, False])
def test_no_field_around_an_effect_can_be_rewritten_unseen(case: str, replan: bool, run: Path, tmp_path: Path) -> None:
    rank, fields, text = FORGED_ENVELOPES[case]
    events = _events(run)
    events[rank] = dataclasses.replace(events[rank], **fields)
    if events[rank].kind == "coord.inputs":
        events[rank + 1] = dataclasses.replace(events[rank + 1], parents=(events[rank].id,))
    if "sequence" in fields:  # a ledger takes no number twice
        events[rank + 1 :] = [dataclasses.replace(event, sequence=event.sequence + 1) for event in events[rank + 1 :]]
    report = audit(_write(tmp_path / "odd", events), replan=replan)
    assert text in [problem.text for problem in report.problems]


def test_a_frame_with_a_wrong_crc_or_a_cut_row_is_found(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    effect = bytearray(events[4].effect)
    effect[125] ^= 1
    events[4] = dataclasses.replace(events[4], effect=bytes(effect))
    events[6] = dataclasses.replace(events[6], effect=events[6].effect[:-1])
    report = audit(_write(tmp_path / "cut", events))
    first = report.first_divergence
    assert first is not None
    assert (first.frame_id, first.field) == (1, "frame.crc32c")
    assert any(problem.rank == 6 and problem.where == "frame" for problem in report.problems)
    again = audit(tmp_path / "cut", replan=False)
    assert any("crc32c must be" in problem.text for problem in again.problems)


def test_a_row_too_few_names_its_agent(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    events[4] = dataclasses.replace(events[4], effect=events[4].effect[:-32])
    first = audit(_write(tmp_path / "few", events)).first_divergence
    assert first is not None
    assert (first.frame_id, first.agent, first.field, first.expected, first.got) == (1, 8, "row", "a row", "none")


def test_a_nan_in_stored_inputs_is_named_and_not_planned(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    state = apply(None, [events[1].effect])
    state.agents["x"][2] = np.nan
    events[1] = dataclasses.replace(events[1], effect=encode(state, 0, None)[0])
    events[2] = dataclasses.replace(events[2], parents=(events[1].id,))
    report = audit(_write(tmp_path / "nan", events))
    named = [(d.agent, d.field) for d in report.first_divergences]
    assert (2, "inputs.agents.x") in named


def test_a_flip_inside_a_stored_event_is_located_and_the_audit_goes_on(run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    target = _events(run)[20].effect[128:160]
    files = [path for path in (copy / "ledger").rglob("*") if path.is_file() and target in path.read_bytes()]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        data[data.find(target) + 5] ^= 4
        path.write_bytes(bytes(data))
    report = audit(copy)
    assert not report.ok
    assert 20 in {problem.rank for problem in report.problems}
    assert report.divergences == 0


def test_a_path_without_a_ledger_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(storage.NotALedgerError):
        audit(tmp_path / "nothing")


def test_progress_ends_at_its_total(run: Path) -> None:
    told: list[tuple[int, int]] = []
    audit(run, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (82, 82)
    assert told == sorted(told)


def test_an_open_ledger_is_audited_in_place(run: Path) -> None:
    with Ledger.open(run, mode="r") as ledger:
        assert audit(ledger, resimulate=True).ok


@given(st.integers(1, 12), st.integers(0, 10**6), st.integers(0, 7))
@example(3, 7, 1)  # a delta that repeats the rings, which are none
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flip_in_inputs_or_frames_with_a_new_tree_over_it_is_found(
    run: Path, tmp_path_factory: pytest.TempPathFactory, rank: int, offset: int, bit: int
) -> None:
    events = _events(run)[:13]
    effect = bytearray(events[rank].effect)
    effect[offset % len(effect)] ^= 1 << bit
    events[rank] = dataclasses.replace(events[rank], effect=bytes(effect))
    if rank % 2:
        events[rank + 1] = dataclasses.replace(events[rank + 1], parents=(events[rank].id,))
    forged = _write(tmp_path_factory.mktemp("flip") / "run", events)
    for kwargs in ({"resimulate": True}, {"replan": False}, {}):
        assert not audit(forged, **kwargs).ok


_NUMBERS = st.one_of(st.integers(-2, 2**64 - 1), st.floats(allow_nan=False))
_ANY = st.one_of(st.none(), _NUMBERS, st.binary(max_size=9), st.text(max_size=3), st.just([1]), st.just({}))


@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_scenario_event_makes_the_audit_fail(
    run: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    events = _events(run)[:5]
    value = storage.canonical.unpack(events[0].effect)
    assert isinstance(value, dict)
    inner = value
    while True:
        name = data.draw(st.sampled_from(sorted(inner)))
        if not (isinstance(inner[name], dict) and inner[name] and data.draw(st.booleans())):
            break
        inner = inner[name]
    before = inner[name]
    inner[name] = data.draw(_ANY)
    events[0] = dataclasses.replace(events[0], effect=storage.canonical.pack(value))
    report = audit(_write(tmp_path_factory.mktemp("scenario") / "run", events), resimulate=True)
    assert report.size == 5
    kept_by_nobody = name in ("tick_ns", "origin", "toml") or (inner is value.get("motion"))
    assert not report.ok or kept_by_nobody or before == inner[name]


def _numbered(events: list[Event]) -> list[Event]:
    """The events with the sequence numbers and parents that the run's producer would give them now."""
    out: list[Event] = []
    parents: list[bytes] = []
    for sequence, event in enumerate(events):
        known = event.parents if event.kind != "coord.frame" else tuple(sorted(parents))
        out.append(dataclasses.replace(event, sequence=sequence, parents=known))
        parents = [*parents, out[-1].id] if event.kind == "coord.inputs" else []
    return out


@pytest.mark.parametrize("kind", ["demo.search", "demo.render"])
def test_events_of_other_kinds_by_the_run_itself_are_no_gap_and_hide_none(run: Path, tmp_path: Path, kind: str) -> None:
    events = _events(run)
    guest = dataclasses.replace(events[0], kind=kind, effect=b"x", tick=1)
    events = _numbered([*events[:5], guest, *events[5:9], guest, *events[9:], guest])
    report = audit(_write(tmp_path / "all", events), resimulate=True)
    assert report.ok and report.other_events == {kind: 3}
    report = audit(_write(tmp_path / "gap", events[:5] + events[6:]))
    assert [problem.text for problem in report.problems] == ["rank 5: sequence: expected 5, got 6"]


def test_events_of_other_producers_are_left_alone(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    guest = dataclasses.replace(events[0], producer="witness", kind="note.text", effect=b"x", sequence=70)
    report = audit(_write(tmp_path / "run", [*events[:5], guest, *events[5:]]), resimulate=True)
    assert report.ok and report.other_events == {"note.text": 1}


def test_a_report_tells_64_kinds_of_other_events_apart() -> None:
    report = Report()
    for number in range(70):
        report.add_other(f"kind.{number}")
        report.add_other("kind.0")
    assert len(report.other_events) == 65 and sum(report.other_events.values()) == 140
    assert (report.other_events["kind.0"], report.other_events["…"]) == (71, 6)


def test_an_audit_beside_a_live_writer_speaks_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coord import stl

    real = stl.ledger_problems
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        more = _events_of_a_run(tmp_path / "source")
        ledger.append_many(more[:11])

        def then_more(*arguments: object) -> object:
            yield from real(*arguments)  # type: ignore[arg-type]
            ledger.append_many(more[11:])

        monkeypatch.setattr(stl, "ledger_problems", then_more)
        report = audit(tmp_path / "run")
    assert report.ok and (report.size, report.frames) == (11, 5)


def _events_of_a_run(path: Path) -> list[Event]:
    simulate(Scenario.loads(FLEET), TICKS, ledger=path, sync="os")
    return _events(path)


def test_a_frame_with_the_last_number_is_found_and_the_audit_goes_on(run: Path, tmp_path: Path) -> None:
    events = _events(run)
    frame, rows = decode_frame_event(events[2].effect)
    effect = dataclasses.replace(frame, frame_id=2**64 - 1).encode() + rows.tobytes()
    events[2] = dataclasses.replace(events[2], effect=effect)
    report = audit(_write(tmp_path / "run", events))
    assert report.frames == TICKS and report.first_divergence is not None
    assert report.first_divergence[3:] == (None, "frame.frame_id", 0, 2**64 - 1)


@pytest.mark.parametrize(
    ("claimed", "text"),
    [
        (500_000, "coord.scenario: agents: expected 9 at the first tick, got 500000"),
        (2**24, "coord.scenario: agents.draw.count: expected 0 to 524000, got 16777216"),
    ],
)
def test_a_fleet_that_the_scenario_claims_is_not_drawn_before_its_size_is_compared(
    claimed: int, text: str, run: Path, tmp_path: Path
) -> None:
    events = _events(run)
    value = storage.canonical.unpack(events[0].effect)
    value["agents"]["draw"]["count"] = claimed
    events[0] = dataclasses.replace(events[0], effect=storage.canonical.pack(value))
    (problem,) = audit(_write(tmp_path / "run", events)).problems
    assert problem.text == text
