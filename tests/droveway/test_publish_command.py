"""`droveway publish`, and verifying and replaying from where a run is published."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import Ledger, Signer, write_key

Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def signed_run(yard_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the yard's run with a signed checkpoint."""
    folder = tmp_path_factory.mktemp("signed") / "run"
    shutil.copytree(yard_run, folder)
    with Ledger.open(folder) as ledger:
        ledger.checkpoint(Signer("yard.example", bytes(32)))
    return folder


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key file."""
    path = tmp_path / "log.key"
    write_key(path, Signer("yard.example", bytes(32)))
    return path


def test_a_run_is_published_verified_and_replayed_from_there_with_the_same_answers(
    ask: Ask, yard_run: Path, key: Path, tmp_path: Path
) -> None:
    run, web = tmp_path / "run", tmp_path / "web"
    shutil.copytree(yard_run, run)
    told = ask("publish", run, web, "--key", key, "--json")
    assert told.code == 0
    assert told.record["size"] == told.record["ledger_size"] == 61
    assert told.record["objects_written"] == 4
    for place in (web, f"file://{web}"):
        for options in ((), ("--resimulate",), ("--no-replan",)):
            here, there = ask("verify", run, *options, "--json"), ask("verify", place, *options, "--json")
            assert (here.code, there.code) == (0, 0)
            assert {**there.record, "run": None} == {**here.record, "run": None}
        here, there = ask("replay", run, "--json"), ask("replay", place, "--json")
        assert {**there.record, "run": None} == {**here.record, "run": None}
    again = ask("publish", run, web, "--key", key)
    assert "events     61, 0 of them new" in again.out
    assert "written    0 objects, 0 bytes" in again.out


def test_the_last_checkpoint_is_published_without_a_key(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    told = ask("publish", signed_run, tmp_path / "web")
    assert (told.code, told.err) == (0, "")
    assert (tmp_path / "web" / "checkpoint").read_bytes() == (signed_run / "checkpoint").read_bytes()


def test_events_that_no_checkpoint_covers_are_told(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    from storage import Event

    run = tmp_path / "run"
    shutil.copytree(signed_run, run)
    with Ledger.open(run) as ledger:
        ledger.append(Event(producer="me", effect=b"", kind="note.text", sequence=0, tick=0))
    told = ask("publish", run, tmp_path / "web")
    assert told.code == 0
    assert told.err == f"{run}: 1 events are newer than its last checkpoint; --key signs and publishes them, too\n"


def test_a_run_without_a_checkpoint_and_without_a_key_is_not_published(
    ask: Ask, yard_run: Path, tmp_path: Path
) -> None:
    told = ask("publish", yard_run, tmp_path / "web")
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        f"error: {yard_run}: publishing needs a signed checkpoint, the ledger has none\n"
        f"hint: droveway keygen -o KEYFILE, then droveway publish {yard_run} {tmp_path / 'web'} --key KEYFILE\n"
    )
    assert not (tmp_path / "web").exists()


def test_a_run_is_never_published_into_itself(ask: Ask, signed_run: Path) -> None:
    for place in (signed_run, signed_run / "web"):
        told = ask("publish", signed_run, place)
        assert told.code == 2
        assert told.err == f"error: {place}: lies in the folder of a run: publish to another place\n"


def test_damage_at_the_place_is_an_answer_and_names_object_and_rank(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    web = tmp_path / "web"
    ask("publish", signed_run, web)
    bundle = web / "payload" / "000.p" / "61"
    data = bundle.read_bytes()
    bundle.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    told = ask("verify", web, "--json")
    assert told.code == 1
    problem = told.records[0]
    assert (problem["rank"], problem["where"]) == (60, "payload/000.p/61")
    bundle.unlink()
    told = ask("verify", web, "--json")
    assert told.code == 1
    assert (told.records[0]["rank"], told.records[0]["last_rank"]) == (0, 60)
    (web / "tile" / "0" / "000.p" / "61").unlink()
    assert ask("verify", web).code == 1


def test_a_checkpoint_of_another_history_is_an_answer(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    web = tmp_path / "web"
    ask("publish", signed_run, web)
    answer = ask("verify", web, "--expect", f"62:{'00' * 32}", "--json")
    assert answer.code == 1
    assert answer.records[0]["where"] == "expected"
    root = json.loads(ask("verify", web, "--json").out)["root"]
    assert ask("verify", web, "--expect", f"61:{root}").code == 0


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_a_place_that_holds_nothing_or_cannot_be_reached_is_exit_3(command: str, ask: Ask, tmp_path: Path) -> None:
    told = ask(command, f"file://{tmp_path}")
    assert (told.code, told.out) == (3, "")
    assert told.err == f"error: file://{tmp_path}: no ledger is published there (expected checkpoint)\n"
    told = ask(command, "http://127.0.0.1:1/run")
    assert told.code == 3
    assert told.err.startswith("error: http://127.0.0.1:1/run: checkpoint: Generic HTTP error")


def test_a_retired_event_leaves_the_place_and_verifying_says_so(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    run, web = tmp_path / "run", tmp_path / "web"
    shutil.copytree(signed_run, run)
    ask("publish", run, web)
    assert ask("retire", run, "--ranks", "60").code == 0
    assert ask("publish", run, web, "--json").record["ranks_retired"] == [[60, 60]]
    told = ask("verify", web, "--json")
    assert told.code == 0
    assert told.record["retired_ranks"] == [[60, 60]]


def test_another_log_at_the_place_is_refused(ask: Ask, signed_run: Path, yard_run: Path, tmp_path: Path) -> None:
    ask("publish", signed_run, tmp_path / "web")
    run, key = tmp_path / "run", tmp_path / "other.key"
    shutil.copytree(yard_run, run)
    write_key(key, Signer("other.example", bytes(range(32))))
    told = ask("publish", run, tmp_path / "web", "--key", key)
    assert (told.code, told.out) == (2, "")
    text = "the ledger of 'yard.example' is published there, got one of 'other.example'"
    assert told.err == f"error: {tmp_path / 'web'}: {text}\n"


def test_a_published_run_is_explained_and_compared_like_the_run(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    web = tmp_path / "web"
    ask("publish", signed_run, web)
    words = ("--tick", 3, "--agent", 3, "--json")
    assert ask("explain", web, *words).record == ask("explain", signed_run, *words).record
    told = ask("diff", signed_run, f"file://{web}")
    assert told.code == 0
    assert told.out.startswith("equal: 61 events, root ")
    bundle = web / "payload" / "000.p" / "61"
    bundle.write_bytes(bundle.read_bytes()[:-1] + b"?")
    told = ask("diff", signed_run, web)
    assert told.code == 3
    assert told.err.startswith(f"error: {web}: expected a whole ledger, got damage: ")


def test_the_whole_way_from_a_new_key_to_a_stranger_who_verifies(ask: Ask, yard: Path, tmp_path: Path) -> None:
    run, web, key = tmp_path / "run", tmp_path / "web", tmp_path / "fleet.key"
    verifier = ask("keygen", "-o", key, "--name", "example.com/fleet").out.strip()
    other = ask("keygen", "-o", tmp_path / "other.key", "--name", "example.com/fleet").out.strip()
    assert ask("simulate", yard, "-o", run, "--ticks", 3, "--key", key).code == 0
    assert ask("publish", run, web).code == 0
    told = ask("verify", web, "--key", verifier, "--json")
    assert told.code == 0
    assert (told.record["checkpoints"], told.record["signed_size"]) == (1, told.record["size"])
    told = ask("verify", web, "--key", other, "--json")
    assert told.code == 1
    assert (told.records[0]["where"], told.records[-1]["signed_size"]) == ("checkpoint", None)
    told = ask("verify", web, "--expect", run / "checkpoint", "--key", verifier)
    assert told.code == 0


def test_the_key_of_a_witness_signs_no_run(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    key = tmp_path / "witness.key"
    ask("keygen", "-o", key, "--witness")
    told = ask("publish", signed_run, tmp_path / "web", "--key", key)
    assert told.code == 3
    assert told.err.startswith(f"error: {key}: expected the key of a log, got one of a witness")


def test_an_error_of_the_place_names_the_place(ask: Ask, signed_run: Path, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"")
    told = ask("publish", signed_run, place)
    assert (told.code, told.err) == (2, f"error: {place}/payload/000.p/61: Not a directory\n")
    told = ask("publish", signed_run, "")
    assert (told.code, told.err) == (2, "error: URL: expected a path or a URL, got nothing\n")
    assert ask("verify", "http://[::1").code == 3
