"""`droveway simulate`: what it writes, says, and leaves behind when it is refused or stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
YARD = ROOT / "examples" / "sites" / "yard.toml"
Ask = Callable[..., Any]
TWO = 'version = 1\nname = "two"\nseed = 3\n[agents]\nrandom = 2\n[zones]\nrandom = 3\n'


def test_the_result_is_one_object_with_stable_keys(ask: Ask, tmp_path: Path) -> None:
    told = ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 5, "--json")
    assert told.code == 0 and told.err == ""
    assert list(told.record) == [
        "run",
        "name",
        "seed",
        "planner",
        "agents",
        "zones",
        "ticks",
        "frames",
        "assigned_of_ready",
        "served",
        "zones_served",
        "cell_conflicts",
        "waits",
        "events",
        "tasks_opened",
        "tasks_served",
        "tasks_expired",
        "tasks_refused",
        "health",
        "interrupted",
        "size",
        "root",
        "checkpoint",
    ]
    assert (told.record["ticks"], told.record["frames"], told.record["size"]) == (5, 5, 11)
    assert re.fullmatch("[0-9a-f]{64}", told.record["root"])
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["HEAD", "ledger"]


def test_the_text_ends_with_the_root_that_json_gives(ask: Ask, tmp_path: Path) -> None:
    text = ask("simulate", YARD, "-o", tmp_path / "a", "--ticks", 5).out
    record = ask("simulate", YARD, "-o", tmp_path / "b", "--ticks", 5, "--json").record
    assert text.splitlines()[-1] == f"root    {record['root']}"


def test_what_happened_is_told_where_anything_did(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "SITE.toml"
    site.write_text(TWO + '[demand]\nmodel = "uniform"\nrate = 2.0\n[[event]]\ntick = 2\nkind = "fault"\nid = 1\n')
    told = ask("simulate", site, "-o", tmp_path / "a", "--ticks", 9, "--json").record
    assert told["events"] == {"fault": 1}
    assert told["tasks_opened"] >= 5
    text = ask("simulate", site, "-o", tmp_path / "b", "--ticks", 9).out
    assert "events  1 fault\n" in text
    assert f"tasks   {told['tasks_opened']} opened, {told['tasks_served']} served, 0 expired, 0 refused\n" in text
    assert "events  " not in ask("simulate", YARD, "-o", tmp_path / "c", "--ticks", 2).out


def test_seed_and_planner_replace_those_of_the_site(ask: Ask, tmp_path: Path) -> None:
    options = ("--ticks", 3, "--json", "--seed", 9, "--planner", "greedy")
    other = ask("simulate", YARD, "-o", tmp_path / "a", *options).record
    same = ask("simulate", YARD, "-o", tmp_path / "b", "--ticks", 3, "--json").record
    assert (other["seed"], other["planner"]) == (9, "greedy")
    assert (same["seed"], same["planner"]) == (7, "swap")
    assert other["root"] != same["root"]
    assert ask("info", tmp_path / "a", "--json").record["seed"] == 9


def test_sync_and_threads_never_change_the_root(ask: Ask, ask_process: Ask, tmp_path: Path) -> None:
    roots = {ask("simulate", YARD, "-o", tmp_path / "a", "--ticks", 8, "--json").record["root"]}
    roots.add(ask("simulate", YARD, "-o", tmp_path / "b", "--ticks", 8, "--json", "--sync", "os").record["root"])
    for threads in (1, 3):
        options = ("--ticks", 8, "--json", "--threads", threads)
        roots.add(ask_process("simulate", YARD, "-o", tmp_path / f"t{threads}", *options).record["root"])
    assert len(roots) == 1


def test_an_empty_folder_is_taken(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 2).code == 0


def test_a_folder_that_is_not_empty_is_left_alone(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("mine")
    told = ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 2)
    assert told.code == 2 and told.out == ""
    assert told.err == (
        f"error: {tmp_path / 'run'}: expected a new or empty folder, got one that is not empty\n"
        "hint: choose another output with -o, or remove it\n"
    )
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


def test_a_file_in_place_of_the_folder_is_left_alone(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    told = ask("simulate", YARD, "-o", tmp_path / "run", "--ticks", 2)
    assert told.code == 2
    assert told.err.startswith(f"error: {tmp_path / 'run'}: expected a new or empty folder, got a file\n")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_missing_folder_around_the_output_is_named(ask: Ask, tmp_path: Path) -> None:
    told = ask("simulate", YARD, "-o", tmp_path / "a" / "run")
    assert told.code == 2
    assert told.err == (
        f"error: {tmp_path / 'a' / 'run'}: expected the folder {tmp_path / 'a'} to exist\n"
        f"hint: mkdir -p {tmp_path / 'a'}\n"
    )


def test_a_missing_site_is_an_unreadable_input(ask: Ask, tmp_path: Path) -> None:
    told = ask("simulate", tmp_path / "site.toml", "-o", tmp_path / "run")
    assert told.code == 3
    assert told.err == f"error: {tmp_path / 'site.toml'}: expected to read it, got: no such file or directory\n"
    assert not (tmp_path / "run").exists()


def test_a_file_system_that_cannot_be_written_is_exit_2(ask_process: Ask) -> None:
    told = ask_process("simulate", YARD, "-o", "/proc/droveway-run", "--ticks", 2)
    assert told.code == 2 and told.out == ""
    assert told.err == (
        "error: /proc/droveway-run: expected to write a ledger, got: No such file or directory\n"
        "hint: choose another output with -o\n"
    )


def test_a_full_disk_is_exit_4_and_what_was_written_verifies(ask: Ask, tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))\n"
        f"from droveway.main import run; sys.exit(run(['simulate', {str(YARD)!r}, '-o', 'run', '--ticks', '400']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"^error: run/ledger: no space left, .*File too large$", done.stderr, re.MULTILINE)
    assert re.search(r"^run: holds the run up to tick \d+; it verifies$", done.stderr, re.MULTILINE)
    told = ask("verify", tmp_path / "run", "--json")
    assert told.code == 0 and told.records[-1]["frames"] > 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_at_a_whole_tick_and_it_verifies(number: int, ask: Ask, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "droveway", "simulate", str(YARD), "-o", "run", "--ticks", "100000", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for((tmp_path / "run" / "ledger").is_dir)
    time.sleep(0.3)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == (
        f"{signal.Signals(number).name}: finishing the tick; once more to stop at once\n"
        "run: holds the run up to here and verifies; a run can't be continued, only made again\n"
    )
    assert '"interrupted": true' in out
    told = ask("verify", tmp_path / "run", "--resimulate", "--json")
    assert told.code == 0
    assert told.records[-1]["size"] > 3


def test_the_second_signal_stops_at_once() -> None:
    code = (
        "import os, signal, time; from droveway.interrupt import StopRequest\n"
        "with StopRequest('finishing') as stop:\n"
        "    os.kill(os.getpid(), signal.SIGTERM); assert stop(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_stdout_closed_early_leaves_a_whole_run(ask: Ask, tmp_path: Path) -> None:
    command = f"{sys.executable} -m droveway simulate {YARD} -o {tmp_path / 'run'} --ticks 5"
    script = f'{command} | true; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd="/", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ask("verify", tmp_path / "run").code == 0


def test_nothing_is_printed_on_stderr_where_there_is_no_terminal(ask_process: Ask, tmp_path: Path) -> None:
    assert ask_process("simulate", YARD, "-o", tmp_path / "run", "--ticks", 3).err == ""


def test_progress_shows_on_a_terminal(tmp_path: Path) -> None:
    import pty

    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "droveway", "simulate", str(YARD), "-o", str(tmp_path / "run"), "--ticks", "30"]
    done = subprocess.run(command, stderr=writer, stdout=subprocess.PIPE, cwd="/", text=True, check=False)
    os.close(writer)
    shown = os.read(reader, 65536).decode(errors="replace")
    os.close(reader)
    assert done.returncode == 0 and "ticks" in shown and "ticks" in done.stdout


def test_the_default_is_the_documented_number_of_ticks(ask: Ask) -> None:
    told = ask("simulate", "--help")
    assert "default: 200" in told.out
