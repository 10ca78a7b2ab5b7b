"""`droveway export`."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import Head, Ledger, Retired, Signer, read_jsonl

Ask = Callable[..., Any]


@pytest.mark.parametrize("form", ["jsonl", "mcap"])
def test_a_run_is_exported_and_the_answer_says_what_was_written(
    form: str, ask: Ask, yard_run: Path, tmp_path: Path
) -> None:
    target = tmp_path / f"events.{form}"
    told = ask("export", yard_run, f"--{form}", target, "--json")
    assert told.code == 0
    record = told.record
    assert (record["events"], record["retired"], record["format"]) == (61, 0, form)
    assert record["bytes"] == target.stat().st_size
    told = ask("export", yard_run, f"--{form}", target)
    assert told.out == f"{target}: 61 events, {record['bytes']} bytes\nroot  {record['root']}\n"


def test_json_lines_of_a_run_read_back_to_its_root_also_from_stdout(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    record = ask("export", yard_run, "--jsonl", target, "--json").record
    head = Head(record["size"], bytes.fromhex(record["root"]))
    with Ledger.open(yard_run, mode="r") as ledger:
        assert list(read_jsonl(target, head)) == list(ledger.scan())
    told = ask("export", yard_run, "--jsonl", "-", "--json")
    assert told.out == target.read_text()


def test_the_times_of_mcap_are_those_of_the_site(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    from mcap.reader import make_reader

    ask("export", yard_run, "--mcap", tmp_path / "events.mcap")
    with (tmp_path / "events.mcap").open("rb") as stream:
        last = list(make_reader(stream).iter_messages())[-1][2]
    assert last.log_time == 29 * 1_000_000_000


def test_a_published_run_is_exported_like_the_run(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    run, web = tmp_path / "run", tmp_path / "web"
    shutil.copytree(yard_run, run)
    with Ledger.open(run) as ledger:
        ledger.retire([5])
        ledger.publish(str(web), Signer("yard.example", bytes(32)))
    for place, name in ((run, "a"), (web, "b")):
        told = ask("export", place, "--jsonl", tmp_path / name)
        assert told.out.startswith(f"{tmp_path / name}: 61 events, 1 of them without payload, ")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert isinstance(dict(read_jsonl(tmp_path / "a"))[5], Retired)


def test_one_format_is_asked_for(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    for options in ((), ("--jsonl", tmp_path / "a", "--mcap", tmp_path / "b")):
        told = ask("export", yard_run, *options)
        assert (told.code, told.err) == (2, "error: expected --jsonl F or --mcap F, one of them\n")


def test_a_place_that_holds_no_run_and_an_output_that_cannot_be_are_told_apart(
    ask: Ask, yard_run: Path, tmp_path: Path
) -> None:
    assert ask("export", tmp_path, "--jsonl", tmp_path / "a").code == 3
    told = ask("export", yard_run, "--jsonl", tmp_path / "no" / "a")
    assert told.code == 2
    assert f"expected the folder {tmp_path / 'no'} to exist" in told.err
    assert ask("export", yard_run, "--jsonl", tmp_path).code == 2


def test_a_full_stdout_is_a_limit_and_a_closed_one_is_no_error(yard_run: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "droveway", "export", str(yard_run), "--jsonl", "-"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd="/")
    assert done.returncode == 4
    assert done.stderr.startswith("error: stdout: expected room to write, got: no space left on device\n")
    shell = f"{' '.join(command)} | head -c 100 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, cwd="/")
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (errno.ENOSPC, 4, "expected room to write, got: no space left on device\nhint: free some space\n"),
        (errno.EACCES, 2, "expected to write it, got: permission denied\nhint: choose another place for the output\n"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_and_not_the_run(
    ask: Ask, yard_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int, text: str
) -> None:
    def refused(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refused)
    target = tmp_path / "events.jsonl"
    told = ask("export", yard_run, "--jsonl", target)
    assert (told.code, told.out, told.err) == (code, "", f"error: {target}: {text}")
    assert list(tmp_path.iterdir()) == []
