"""keygen, simulate --key, verify --key, prove and check-proof: the way of a proof, and each wrong turn."""

import base64
import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from droveway.main import run as run_line

Ask = Callable[..., Any]
YARD = Path(__file__).parents[2] / "examples" / "sites" / "yard.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """log.key, w.key and run, a signed run of 12 ticks: only read by the tests."""
    from storage import Signer, write_key

    place = tmp_path_factory.mktemp("signed")
    write_key(place / "log.key", Signer("log.example", bytes(range(32))))
    write_key(place / "w.key", Signer("w.example", bytes(range(32)), 4))
    line = [
        "simulate",
        str(YARD),
        "-o",
        str(place / "run"),
        "--ticks",
        "12",
        "--quiet",
        "--key",
        str(place / "log.key"),
    ]
    assert run_line(line) == 0
    return place


def vkey(name: str = "log.example", seed: bytes = bytes(range(32)), kind: int = 1) -> str:
    from storage import Signer

    return str(Signer(name, seed, kind).verifier)


def test_keygen_prints_the_verifier_key_and_closes_the_file(ask: Ask, tmp_path: Path) -> None:
    from storage import read_key

    told = ask("keygen", "-o", tmp_path / "a.key", "--name", "fleet.example/north")
    assert (told.code, told.err) == (0, "")
    signer = read_key(tmp_path / "a.key")
    assert told.out == f"{signer.verifier}\n" and signer.name == "fleet.example/north" and signer.type == 1
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    record = ask("keygen", "-o", tmp_path / "b.key", "--witness", "--json").record
    assert list(record) == ["key", "name", "kind", "verifier"] and record["kind"] == "witness"
    assert read_key(tmp_path / "b.key").type == 4
    assert (tmp_path / "a.key").read_text().rpartition("+")[2].strip() not in told.out + told.err


def test_keygen_refuses_what_is_there_what_is_a_run_and_names_that_no_key_has(
    ask: Ask, folder: Path, tmp_path: Path
) -> None:
    ask("keygen", "-o", tmp_path / "a.key")
    before = (tmp_path / "a.key").read_bytes()
    told = ask("keygen", "-o", tmp_path / "a.key")
    assert (told.code, told.out) == (2, "")
    assert (
        told.err == f"error: {tmp_path}/a.key: exists already; a key is never written over\nhint: choose another file\n"
    )
    assert (tmp_path / "a.key").read_bytes() == before
    told = ask("keygen", "-o", folder / "run" / "a.key")
    assert told.code == 2 and "a key never lies inside a run" in told.err
    told = ask("keygen", "-o", tmp_path / "c.key", "--name", "a b")
    assert told.err.startswith("error: --name: note: the name of a key has no spaces and no '+', got 'a b'")
    assert ask("keygen", "-o", tmp_path / "none" / "c.key").code == 2
    assert not (tmp_path / "c.key").exists()


def test_a_signed_run_verifies_and_says_how_far_it_is_signed(ask: Ask, folder: Path) -> None:
    told = ask("verify", folder / "run")
    assert told.code == 0
    assert "1 checkpoint, held against the tree only: no --key is given, so no signature was checked" in told.out
    told = ask("verify", folder / "run", "--key", vkey())
    assert (told.code, told.err) == (0, "")
    assert "1 checkpoint; the first 25 of 25 events are under one that the key signed" in told.out
    record = ask("verify", folder / "run", "--key", vkey(), "--json").record
    assert (record["checkpoints"], record["signed_size"]) == (1, 25)
    record = ask("verify", folder / "run", "--json").record
    assert (record["checkpoints"], record["signed_size"]) == (1, None)
    told = ask("verify", folder / "run", "--expect", folder / "run" / "checkpoint", "--key", vkey())
    assert told.code == 0


def test_another_key_and_a_run_without_checkpoints_are_answers_of_no(ask: Ask, folder: Path, yard_run: Path) -> None:
    told = ask("verify", folder / "run", "--key", vkey("log.example", bytes(32)), "--json")
    assert told.code == 1
    assert [record["where"] for record in told.records[:-1]] == ["meta/checkpoint/0000000000000019", "checkpoint"]
    assert "expected a signature of log.example" in told.records[0]["text"]
    assert told.err == "hint: --key takes the verifier key that droveway keygen printed for the key that signed\n"
    told = ask("verify", yard_run, "--key", vkey(), "--json")
    assert (told.code, told.records[0]["text"]) == (1, f"{yard_run}: no checkpoint is kept: nothing is signed")


def test_repair_is_the_hint_for_damage_and_never_for_a_signature(ask: Ask, folder: Path, tmp_path: Path) -> None:
    run, wrong = tmp_path / "run", vkey("log.example", bytes(32))
    shutil.copytree(folder / "run", run)
    assert "droveway repair" not in ask("verify", run, "--key", wrong).err
    (table,) = [*run.rglob("*.sst"), *run.rglob("data.mdb")][:1] or [None]
    assert table is not None
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 1
    table.write_bytes(content)
    told = ask("verify", run, "--key", wrong)
    assert told.code in (1, 3)
    assert f"droveway repair {run}" in told.err


def test_a_checkpoint_file_that_was_changed_or_is_of_another_run_is_a_problem(
    ask: Ask, folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    text = (run / "checkpoint").read_text()
    (run / "checkpoint").write_text(text.replace("\n25\n", "\n24\n"))
    told = ask("verify", run, "--json")
    assert (told.code, told.records[0]["where"]) == (1, "checkpoint")
    assert "the checkpoint of 24 events has the root" in told.records[0]["text"]
    (run / "checkpoint").write_text(text.replace("\n25\n", "\n26\n"))
    told = ask("verify", run, "--json")
    assert told.code == 1
    assert any("the checkpoint names 26 events, the ledger has 25: ranks 25..25 are missing" in record["text"]
               for record in told.records[:-1])  # fmt: skip
    (run / "checkpoint").write_text("no checkpoint")
    told = ask("verify", run, "--json")
    assert (told.code, told.records[0]["text"]) == (
        1,
        f"{run}: checkpoint: note: expected a text, an empty line and signatures, got no empty line",
    )
    signature = text.rpartition(" ")[2].strip()
    other = base64.b64encode(bytes(68)).decode()
    (run / "checkpoint").write_text(text.replace(signature, other[:5] + signature[5:20] + other[20:]))
    assert ask("verify", run).code == 0, "without a key a signature is nobody's"
    assert ask("verify", run, "--key", vkey()).code == 1


def test_expecting_a_checkpoint_wants_its_signature_where_there_is_a_key(
    ask: Ask, folder: Path, tmp_path: Path
) -> None:
    text = (folder / "run" / "checkpoint").read_text()
    bare = tmp_path / "bare"
    bare.write_text(text.partition("\n\n")[0] + "\n")
    assert ask("verify", folder / "run", "--expect", bare).code == 0
    told = ask("verify", folder / "run", "--expect", bare, "--key", vkey())
    assert (told.code, told.out) == (3, "")
    assert told.err == (
        f"error: {bare}: note: expected a text, an empty line and signatures, got no empty line\n"
        "hint: without --key its signature is not checked\n"
    )
    forged = tmp_path / "forged"
    forged.write_text(text.replace("\n25\n", "\n24\n"))
    told = ask("verify", folder / "run", "--expect", forged, "--key", vkey())
    assert told.code == 3 and "is not one over this text" in told.err
    assert ask("verify", folder / "run", "--expect", forged).code == 1
    told = ask("verify", folder / "run", "--key", "nonsense")
    assert told.code == 2
    assert told.err.startswith("error: --key: verifier key: expected NAME+8 hexadecimal digits+BASE64, got 'nonsense'")
    told = ask("verify", folder / "run", "--key", vkey("w.example", kind=4))
    assert told.err == "error: --key: expected the key of a log, got one of a witness\n"


def test_a_proof_is_written_and_checked(ask: Ask, folder: Path, tmp_path: Path) -> None:
    from storage import Ledger

    proof, event = tmp_path / "p", tmp_path / "e"
    told = ask("prove", folder / "run", "--rank", 7, "-o", proof, "--event", event, "--json")
    record = told.record
    assert (told.code, record["rank"], record["size"], record["origin"], record["signatures"]) == (
        0,
        7,
        25,
        "log.example",
        1,
    )
    with Ledger.open(folder / "run", mode="r") as ledger:
        assert event.read_bytes() == ledger.at(7).encode()
        root = ledger.head().root.hex()
    told = ask("check-proof", proof, "--event", event, "--key", vkey(), "--json")
    assert told.code == 0
    assert told.record | {"proof": "", "id": ""} == {
        "verified": True, "proof": "", "reason": None, "id": "", "bytes": event.stat().st_size, "rank": 7,
        "origin": "log.example", "size": 25, "root": root, "witnesses": [],
    }  # fmt: skip
    told = ask("check-proof", proof, "--event", event, "--key", vkey())
    assert told.out.splitlines()[0] == "verified   rank 7 of 25 events"

    other = tmp_path / "other"
    ask("prove", folder / "run", "--rank", 8, "-o", tmp_path / "p8", "--event", other)
    told = ask("check-proof", proof, "--event", other, "--key", vkey(), "--json")
    assert (told.code, told.record["verified"]) == (1, False)
    assert told.record["reason"] == "the proof does not lead from the event to the root of the checkpoint"
    told = ask("check-proof", proof, "--event", event, "--key", vkey("other.example"))
    assert told.code == 1 and told.out.startswith("NOT VERIFIED: the checkpoint is not one that other.example")


def test_a_proof_with_a_witness_needs_its_line(ask: Ask, folder: Path, tmp_path: Path) -> None:
    from storage import Ledger, Signer
    from storage.notes.checkpoint import decode

    run, witness = tmp_path / "run", Signer("w.example", bytes(range(32)), 4)
    shutil.copytree(folder / "run", run)
    keys = ("--key", vkey(), "--witness", str(witness.verifier))
    files = (tmp_path / "p", "--event", tmp_path / "e")
    ask("prove", run, "--rank", 0, "-o", *files)
    told = ask("check-proof", *files, *keys)
    assert (told.code, told.out) == (1, "NOT VERIFIED: 0 witnesses cosigned, needed are 1\n")
    with Ledger.open(run) as ledger:
        text = decode(ledger.checkpoints()[-1])[1].text
        ledger.add_signatures(25, [witness.sign(text, time_s=1_700_000_000)])
    ask("prove", run, "--rank", 0, "-o", *files)
    assert ask("check-proof", *files, *keys, "--json").record["witnesses"] == ["w.example"]
    second = ("--witness", vkey("w2.example", bytes(32), 4))
    assert ask("check-proof", *files, *keys, *second).code == 1
    assert ask("check-proof", *files, *keys, *second, "--quorum", 1).code == 0
    told = ask("check-proof", *files, *keys, "--quorum", 2)
    assert (told.code, told.err) == (2, "error: --quorum: expected at most the 1 witnesses that are named, got 2\n")
    told = ask("check-proof", *files, "--key", vkey(), "--witness", vkey())
    assert (told.code, told.err) == (2, "error: --witness: expected the key of a witness, got one of a log\n")


def test_proving_without_a_checkpoint_says_how_to_get_one(
    ask: Ask, yard_run: Path, folder: Path, tmp_path: Path
) -> None:
    told = ask("prove", yard_run, "--rank", 0, "-o", tmp_path / "p")
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        f"error: {yard_run}: expected a checkpoint that covers rank 0, got: it holds no checkpoint\n"
        f"hint: droveway prove {yard_run} --rank 0 -o FILE --key KEYFILE signs one (droveway keygen makes a key)\n"
    )
    run = tmp_path / "run"
    shutil.copytree(yard_run, run)
    told = ask("prove", run, "--rank", 60, "-o", tmp_path / "p", "--event", tmp_path / "e", "--key", folder / "log.key")
    assert told.code == 0, told.err
    assert (run / "checkpoint").is_file()
    assert ask("check-proof", tmp_path / "p", "--event", tmp_path / "e", "--key", vkey()).code == 0
    told = ask("prove", run, "--rank", 61, "-o", tmp_path / "q")
    assert (told.code, told.err) == (2, f"error: {run}: --rank: expected at most 60, got 61\n")
    assert not (tmp_path / "q").exists()


def test_wrong_files_are_told_apart_from_wrong_answers(ask: Ask, folder: Path, tmp_path: Path) -> None:
    files = (tmp_path / "p", "--event", tmp_path / "e")
    ask("prove", folder / "run", "--rank", 0, "-o", *files)
    (tmp_path / "x").write_text("nothing")
    told = ask("check-proof", tmp_path / "x", *files[1:], "--key", vkey())
    assert (told.code, told.out) == (3, "")
    assert told.err.startswith(f"error: {tmp_path}/x: expected a proof file: expected the line c2sp.org/tlog-proof@v1")
    told = ask("check-proof", files[0], "--event", tmp_path / "none", "--key", vkey())
    assert (told.code, told.out) == (3, "")
    told = ask("check-proof", files[0], "--event", tmp_path / "x", "--key", vkey())
    assert (told.code, told.out) == (1, "NOT VERIFIED: the event bytes are no canonical event\n")
    (tmp_path / "loose.key").write_text((folder / "log.key").read_text())
    (tmp_path / "loose.key").chmod(0o644)
    told = ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 2, "--key", tmp_path / "loose.key")
    assert (told.code, (tmp_path / "run").exists()) == (3, False)
    assert told.err == (
        f"error: {tmp_path}/loose.key: expected a key that only its owner can read, got mode 0644\n"
        f"hint: chmod 600 {tmp_path}/loose.key\n"
    )
    told = ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 2, "--key", folder / "w.key")
    assert told.code == 3 and "expected the key of a log, got one of a witness" in told.err
    told = ask("prove", tmp_path / "nowhere", "--rank", 0, "-o", tmp_path / "p")
    assert told.code == 3


def test_a_signed_run_has_the_root_of_one_that_is_not_signed(ask: Ask, folder: Path, tmp_path: Path) -> None:
    plain = ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 12, "--json").record
    assert plain["checkpoint"] is None
    assert base64.b64encode(bytes.fromhex(plain["root"])).decode() in (folder / "run" / "checkpoint").read_text()
    assert ask("diff", tmp_path / "run", folder / "run").code == 0


def test_the_commands_of_the_ledger_page_run_in_their_order(
    ask_process: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import re
    import subprocess
    import sys

    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for file in YARD.parent.glob("yard.*"):
        shutil.copy(file, tmp_path)
    shutil.copy(Path(__file__).parents[2] / "storage" / "verify.py", tmp_path)
    (tmp_path / "bin").mkdir()
    for name, words in (("droveway", "-m droveway"), ("python", "-P")):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu", "-c", "".join(blocks)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.replace("\n", "")) == (0, ""), done.stderr
    assert done.stdout.count("verified") == 4
    assert "is at rank 7" in done.stdout.splitlines()[-3]
    assert json.loads(ask_process("verify", tmp_path / "run", "--json").out)["checkpoints"] == 1


def test_no_output_is_written_over_a_part_of_a_run_over_the_key_or_over_the_other_output(
    ask: Ask, folder: Path, tmp_path: Path
) -> None:
    run, key = tmp_path / "run", tmp_path / "log.key"
    shutil.copytree(folder / "run", run)
    shutil.copy2(folder / "log.key", key)
    (tmp_path / "link").symlink_to(run / "HEAD")
    before = {path: path.read_bytes() for path in (*run.rglob("*"), key) if path.is_file()}
    for part in (run / "HEAD", run / "checkpoint", run / "ledger" / "CURRENT", tmp_path / "link"):
        told = ask("prove", run, "--rank", 1, "-o", part)
        assert (told.code, told.out) == (2, "")
        text = f"error: {part}: expected a file to write, got a part of the run {run}\nhint: choose another output\n"
        assert told.err == text
        assert ask("export", run, "--jsonl", part).code == 2
    told = ask("prove", run, "--rank", 1, "-o", key, "--key", key)
    assert told.err == f"error: {key}: expected another file than the input\nhint: choose another output\n"
    told = ask("prove", run, "--rank", 1, "-o", tmp_path / "p", "--event", tmp_path / "run" / ".." / "p")
    assert told.code == 2 and "--event: expected another file than that of the proof" in told.err
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "p").exists()


def test_a_file_without_end_is_no_checkpoint(ask: Ask, folder: Path) -> None:
    told = ask("verify", folder / "run", "--expect", "/dev/zero")
    assert (told.code, told.err) == (3, "error: /dev/zero: expected a checkpoint of at most 65536 bytes, got more\n")


def test_with_a_key_that_signed_nothing_the_answer_does_not_say_that_there_was_none(ask: Ask, folder: Path) -> None:
    told = ask("verify", folder / "run", "--no-replan", "--key", vkey(seed=bytes(32)))
    assert told.code == 1
    assert told.out.endswith("\n1 checkpoint, none of them of this tree and signed by the key\n")


def test_leaving_the_key_away_is_no_way_out_for_what_is_no_checkpoint(ask: Ask, folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes((folder / "run" / "checkpoint").read_bytes().replace(b"\n", b"\r\n"))
    told = ask("verify", folder / "run", "--expect", kept, "--key", vkey())
    text = "note: byte 11: expected no control character but newline, got 0x0d"
    assert (told.code, told.err) == (3, f"error: {kept}: {text}\n")
