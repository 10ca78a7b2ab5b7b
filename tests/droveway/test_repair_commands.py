"""droveway retire and droveway repair: what they say, and with which exit code."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import Ledger

Ask = Callable[..., Any]


@pytest.fixture
def run(yard_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(yard_run, tmp_path / "run")
    return tmp_path / "run"


def test_retire_says_what_is_gone_and_verify_says_it_and_stays_at_yes(ask: Ask, run: Path) -> None:
    with Ledger.open(run, "r") as ledger:
        root = ledger.head().root.hex()
    told = ask("retire", run, "--ranks", "5..6,9")
    assert (told.code, told.out) == (0, f"retired: ranks 5..6, 9, 3 payloads removed\nroot  {root}\n")
    told = ask("retire", run, "--ranks", "9..10", "--json")
    assert told.record == {
        "run": str(run), "ranks": [[9, 10]], "retired": 1, "before": 1, "size": 61, "root": root,
    }  # fmt: skip
    told = ask("verify", run)
    assert told.code == 0
    assert told.out.splitlines()[1:] == [
        "retired: ranks 5..6, 9..10: payloads removed, leaves and proofs kept",
        "not replayable at ranks 5..60: 26 decisions there can't be made again",
        f"root  {root}",
    ]
    record = ask("verify", run, "--json").record
    assert record["ok"] is True
    assert (record["retired"], record["retired_ranks"]) == (4, [[5, 6], [9, 10]])
    assert (record["not_replayable"], record["not_replayable_ranks"]) == (26, [[5, 60]])
    assert ask("verify", run, "--resimulate").code == 0


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ("61", "RUN: --ranks: expected ranks below 61, got 61"),
        ("0..99999999999999999999", "RUN: --ranks: expected ranks below 61, got 99999999999999999999"),
        ("5..3", "--ranks: expected the lower rank first, got '5..3'"),
        ("", "--ranks: expected ranks such as 7 or 3..5,9, got ''"),
        ("-1", "--ranks: expected ranks such as 7 or 3..5,9, got '-1'"),
        ("1,,2", "--ranks: expected ranks such as 7 or 3..5,9, got '1,,2'"),
    ],
)
def test_retire_refuses_other_ranks(ask: Ask, run: Path, ranks: str, text: str) -> None:
    told = ask("retire", run, f"--ranks={ranks}")
    assert told.code == 2
    assert told.err.startswith(f"error: {text.replace('RUN', str(run))}")


def test_retire_and_repair_make_no_ledger_where_there_is_none(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments in (("retire", "--ranks", "1"), ("repair",)):
        for name in ("empty", "missing"):
            told = ask(arguments[0], tmp_path / name, *arguments[1:])
            assert told.code == 3, told
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["empty"]


def test_a_retired_run_is_read_on_with_a_note(ask: Ask, run: Path) -> None:
    ask("retire", run, "--ranks", "5")
    told = ask("replay", run, "--json")
    assert told.code == 0
    assert told.record["frames"] == 2
    assert told.err == f"{run}: 28 decisions left out: what they depend on is retired\n"
    told = ask("explain", run, "--tick", "7", "--agent", "3")
    assert told.code == 3
    assert "the decision at tick 7 can't be shown: what it depends on is retired" in told.err
    assert ask("info", run, "--json").code == 0
    assert ask("explain", run, "--tick", "1", "--agent", "3").code == 0


def test_repair_finds_nothing_to_do_on_a_whole_run(ask: Ask, run: Path) -> None:
    told = ask("repair", run)
    assert told.code == 0
    assert told.out.startswith("nothing to repair: 61 events\nroot  ")


def test_repair_writes_a_torn_head_again(ask: Ask, run: Path) -> None:
    (run / "HEAD").write_bytes(b"torn")
    assert ask("verify", run).code == 1
    told = ask("repair", run)
    assert told.code == 0
    assert told.out.splitlines()[:-1] == [
        "HEAD was missing or damaged: what it named is not known",
        "rebuilt: 1 of HEAD",
        f"as it was: {run}.damaged-1",
        "whole again: 61 events",
    ]
    assert ask("verify", run).code == 0


def test_repair_names_lost_ranks_and_lowers_head_only_when_asked(ask: Ask, run: Path, tmp_path: Path) -> None:
    from storage import Head
    from storage import head as head_file

    seen = head_file.read(run / "HEAD")
    assert seen is not None
    head_file.write(run / "HEAD", Head(64, seen.root))
    told = ask("repair", run)
    assert told.code == 1
    assert told.out.splitlines()[:2] == ["LOST: ranks 61..63", "NOT REPAIRED: 61 events"]
    assert "--accept-loss goes on without" in told.err
    told = ask("repair", run, "--accept-loss", "--json")
    assert told.code == 1
    record = told.record
    assert (record["ok"], record["ranks_lost"], record["size"]) == (False, [[61, 63]], 61)
    assert ask("verify", run).code == 0


def test_repair_takes_events_from_another_copy(ask: Ask, run: Path, yard_run: Path) -> None:
    from storage import layout
    from storage.engine.rocks import RocksStore

    store = RocksStore.open(run / "ledger", read_only=False)
    store.write([("log", layout.log_key(3), b"rubbish" * 9)], sync=True)
    store.close()
    told = ask("repair", run, "--from", yard_run, "--json")
    assert told.code == 0
    assert told.record["ranks_restored"] == {str(yard_run): [[3, 3]]}
    assert ask("diff", run, yard_run).code == 0


def test_repair_says_where_another_copy_holds_more_events(ask: Ask, run: Path, yard_run: Path, tmp_path: Path) -> None:
    from storage import head as head_file

    with Ledger.open(yard_run, mode="r") as ledger:
        events = [event for _, event in ledger.scan(0, 40)]
    with Ledger.open(tmp_path / "older") as ledger:
        ledger.append_many(events)
    shutil.rmtree(tmp_path / "older" / "ledger")
    assert head_file.read(tmp_path / "older" / "HEAD") is not None
    told = ask("repair", tmp_path / "older", "--from", yard_run)
    assert told.code == 0
    assert f"{yard_run} holds 61 events, 21 more than are named here: they were not taken" in told.out.splitlines()
    assert told.out.splitlines()[-2] == "whole again: 40 events"
    again = ask("repair", tmp_path / "older", "--from", yard_run, "--json")
    assert (again.code, again.record["changed"], len(again.record["notes"])) == (0, False, 1)


def test_verify_leads_to_repair_where_there_is_damage_and_only_there(ask: Ask, run: Path) -> None:
    told = ask("verify", run, "--expect", f"61:{'0' * 64}")
    assert (told.code, told.err) == (1, "")
    (run / "ledger" / "CURRENT").unlink()
    told = ask("verify", run)
    assert told.code == 1
    assert told.err == f"hint: droveway repair {run} puts right what can be, and names what is lost\n"
    lines = told.out.splitlines()
    assert "CURRENT" in lines[0] and len(lines) == len(set(lines))  # nothing is told twice


def test_a_ledger_that_holds_no_run_is_not_sent_to_repair(ask: Ask, tmp_path: Path) -> None:
    from storage import Event

    with Ledger.open(tmp_path / "notes") as ledger:
        ledger.append(Event(producer="me", effect=b"", kind="note.text", sequence=0, tick=0))
    told = ask("verify", tmp_path / "notes")
    assert (told.code, told.err) == (1, "")
    assert told.out.startswith("ledger: scenario: expected a coord.scenario event at rank 0, got none\n")


def test_without_planning_a_ledger_that_holds_no_run_is_verified_as_a_ledger(ask: Ask, tmp_path: Path) -> None:
    from storage import Event

    with Ledger.open(tmp_path / "notes") as ledger:
        for i in (0, 5, 7):  # gaps in a producer's sequence are allowed
            root = ledger.append(Event(producer="me", effect=b"", kind="note.text", sequence=i, tick=0)).root
    told = ask("verify", tmp_path / "notes", "--no-replan")
    assert (told.code, told.err) == (0, "")
    assert told.out == (
        f"verified: 3 events, 0 decisions; of other kinds the bytes only: 3 note.text\nroot  {root.hex()}\n"
    )
    head = tmp_path / "notes" / "HEAD"
    head.write_bytes(head.read_bytes()[:20])
    assert ask("verify", tmp_path / "notes", "--no-replan").code == 1
    with Ledger.open(tmp_path / "ours") as ledger:  # a part of a run is no ledger of others
        ledger.append(Event(producer="me", effect=b"", kind="coord.frame", sequence=0, tick=0))
    assert ask("verify", tmp_path / "ours", "--no-replan").code == 1


def test_what_the_engine_says_in_two_lines_is_one_line(ask: Ask, run: Path) -> None:
    largest = max((run / "ledger").glob("*.sst"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-100])
    told = ask("verify", run)
    assert told.code == 1 and "Sst file size mismatch" in told.out
    assert all(line.strip() and not line.startswith(" ") for line in told.out.splitlines())
    told = ask("info", run)
    assert told.code == 3 and told.err.splitlines()[-1].startswith("error: ")
    assert all(line.startswith((f"{run}: ", "error: ")) for line in told.err.splitlines())


def test_retiring_the_scenario_says_what_no_longer_works(ask: Ask, run: Path) -> None:
    assert ask("retire", run, "--ranks", "5").err == ""
    told = ask("retire", run, "--ranks", "0..3")
    assert told.code == 0
    assert told.err == "rank 0 is the scenario of a run: info, replay and explain can't read the run without it\n"
    assert ask("info", run).code == 3


def test_a_url_where_a_folder_is_meant_is_a_usage_error(ask: Ask, tmp_path: Path) -> None:
    for words in (("info",), ("repair",), ("prove", "--rank", "1", "-o", tmp_path / "p")):
        told = ask(words[0], "http://127.0.0.1:1/run", *words[1:])
        assert told.code == 2
        assert "expected a file or folder here, got the URL http://127.0.0.1:1/run" in told.err


def test_an_error_of_another_copy_names_that_copy(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    shutil.copytree(yard_run, tmp_path / "run")
    told = ask("repair", tmp_path / "run", "--from", tmp_path / "nothing")
    text = f"error: {tmp_path / 'nothing'}: expected to read it, got: no such file or directory\n"
    assert (told.code, told.err) == (3, text)
