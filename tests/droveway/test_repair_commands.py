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
