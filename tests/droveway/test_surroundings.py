"""Unlucky surroundings: closed streams, other encodings, signals, limits of the system, two runs for one folder."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DROVEWAY = [sys.executable, "-m", "droveway"]


def _ran(command: list[object], **options: Any) -> subprocess.CompletedProcess[Any]:
    return subprocess.run(command, check=False, **options)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory, yard: Path) -> Path:
    run = tmp_path_factory.mktemp("surroundings") / "run"
    _ran([*DROVEWAY, "simulate", yard, "-o", run, "--ticks", "3", "--sync", "os"]).check_returncode()
    return run


def _verifies(run: Path) -> bool:
    return _ran([*DROVEWAY, "verify", run], capture_output=True).returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_run_is_whole_whichever_streams_the_caller_closed(closed: str, tmp_path: Path, yard: Path) -> None:
    script = f'"$1" -m droveway simulate "$2" -o run --ticks 3 --sync os {closed}'
    done = _ran(["sh", "-c", script, "sh", sys.executable, yard], cwd=tmp_path)
    assert done.returncode == 0
    assert _verifies(tmp_path / "run")


def test_a_full_stdout_is_a_limit_and_no_traceback(small_run: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = _ran([*DROVEWAY, "verify", small_run], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4
    assert done.stderr == (
        "error: stdout: expected room to write, got: no space left on device\n"
        "hint: free some space, or write elsewhere\n"
    )


@pytest.mark.parametrize(
    "arguments", [["verify", "/nowhere"], ["--no-such"], [], ["index", "info", "/nowhere", "--debug"]]
)
def test_a_full_stderr_changes_no_exit_code(arguments: list[str]) -> None:
    codes = []
    for place in (os.devnull, "/dev/full"):
        with Path(place).open("w") as stderr:
            codes.append(_ran([*DROVEWAY, *arguments], stdout=subprocess.DEVNULL, stderr=stderr).returncode)
    assert codes[0] == codes[1] != 1


def test_no_file_is_read_in_the_encoding_of_the_locale(small_run: Path) -> None:
    for command in (["demo", "--json"], ["verify", small_run]):
        done = _ran(
            [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-m", "droveway", *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_temporary_files_may_lie_in_a_folder_of_other_bytes(small_run: Path, tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"\xff \n")
    place.mkdir()
    done = _ran(
        [*DROVEWAY, "verify", small_run], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(place)}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(place.iterdir()) == []


def test_a_hint_for_a_name_that_reads_as_an_option_can_be_followed(tmp_path: Path, yard_run: Path) -> None:
    (tmp_path / "-d").mkdir()
    (tmp_path / "-d" / "run").symlink_to(yard_run)
    done = _ran([*DROVEWAY, "verify", "./-d"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.endswith("hint: its run is ./-d/run\n")


def test_a_second_signal_tears_nothing_that_is_being_put_in_order(tmp_path: Path) -> None:
    program = (
        "import pathlib, time, droveway.main as m, droveway.start as s\n"
        "def wait(**_):\n    try:\n        print('up', flush=True); time.sleep(60)\n"
        "    finally:\n        print('ending', flush=True); time.sleep(0.2); pathlib.Path('in order').touch()\n"
        "m.droveway.main = wait\ns.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "doctor"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in ("up\n", "ending\n"):
        assert process.stdout.readline() == line
        process.send_signal(signal.SIGTERM)
    assert process.communicate() == ("", "error: interrupted\n")
    assert process.returncode == 130
    assert (tmp_path / "in order").exists()


def test_help_into_a_closed_pipe_is_no_answer(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = _ran([*DROVEWAY, "--help"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_path_of_other_bytes_is_written_read_and_told_as_valid_json(tmp_path: Path, yard: Path) -> None:
    run = os.fsencode(tmp_path) + b"/run\xff"
    for command in ([b"simulate", os.fsencode(yard), b"-o", run, b"--ticks", b"3"], [b"verify", run], [b"info", run]):
        done = _ran([*DROVEWAY, *command, b"--json"], capture_output=True)
        assert done.returncode == 0, done.stderr
        (record,) = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
        assert os.fsencode(record.get("run") or record["path"]) == run


@pytest.mark.parametrize("command", [["explain", "--tick", "1", "--agent", "0"], ["info"]])
def test_a_stream_of_few_characters_gets_escapes(command: list[str], small_run: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = _ran([*DROVEWAY, command[0], small_run, *command[1:]], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_a_reader_without_a_place_for_its_links_says_so_and_speaks_of_no_damage(small_run: Path) -> None:
    environment = {**os.environ, "TMPDIR": "/nowhere"}
    done = _ran([*DROVEWAY, "verify", small_run], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {small_run}: /nowhere: reading a ledger needs a temporary folder: No such file or directory\n"
    )


def test_too_few_open_files_are_a_limit_and_no_damage(small_run: Path) -> None:
    done = _ran(
        [*DROVEWAY, "verify", small_run], capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"error: {small_run}/ledger: can't be read: Too many open files: ")
    assert done.stderr.endswith("(hint: ulimit -n)\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_ends_any_command_in_order(number: signal.Signals) -> None:
    program = (
        "import time, droveway.main as m, droveway.start as s\n"
        "def wait(**_):\n    print('up', flush=True)\n    time.sleep(60)\n"
        "m.droveway.main = wait\ns.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    assert process.communicate() == ("", "error: interrupted\n")
    assert process.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_modules_are_loaded_is_no_traceback(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [*DROVEWAY, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    assert process.communicate() == ("", "error: interrupted\n")
    assert process.returncode == 130


def test_a_second_run_into_the_same_folder_neither_joins_nor_removes_the_first(
    tmp_path: Path, yard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coord import Scenario, stl
    from coord.errors import OutputError
    from coord.simulation.simulate import simulate
    from storage import LockedError

    run = tmp_path / "run"
    first = subprocess.Popen([*DROVEWAY, "simulate", yard, "-o", run, "--ticks", "100000", "--sync", "os"])
    while not (run / "HEAD").exists():
        assert first.poll() is None
        time.sleep(0.01)
    monkeypatch.setattr(stl, "check_output", lambda _: None)  # as if it had looked before the first one began
    with pytest.raises(LockedError, match=f"process {first.pid} holds the ledger for writing"):
        simulate(Scenario.load(yard), 3, ledger=run)
    first.send_signal(signal.SIGINT)
    assert first.wait() == 130
    with pytest.raises(OutputError, match="another run was written there in the meantime"):
        simulate(Scenario.load(yard), 3, ledger=run)
    assert _verifies(run)


def test_a_failure_before_the_first_frame_leaves_nothing(
    tmp_path: Path, yard: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[..., object]
) -> None:
    from coord import stl
    from storage import StorageFullError

    def full(*_: object) -> None:
        raise StorageFullError("full")

    monkeypatch.setattr(stl.RunWriter, "write", full)
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        told = ask("simulate", yard, "-o", tmp_path / name)
        assert told.code == 4  # type: ignore[attr-defined]
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[object]]:
    """The command line that writes a file of an ending, without that file."""
    import numpy as np

    from splat import synthetic

    folder = tmp_path_factory.mktemp("outputs")
    np.save(folder / "v.npy", np.eye(8, dtype=np.float32))
    synthetic.warehouse(np.eye(4, dtype=bool), 1.0, 50, 0, 1).save(folder / "s.ply")
    _ran([*DROVEWAY, "index", "build", folder / "v.npy", "-o", folder / "x.jvim", "--quiet"]).check_returncode()
    commands: dict[str, list[object]] = {
        ".jvim": ["index", "build", folder / "v.npy", "-o"],
        ".jvi": ["index", "build", folder / "v.npy", "-o"],
        ".npz": ["search", folder / "x.jvim", folder / "v.npy", "-o"],
        ".png": ["render", folder / "s.ply", "--width", 8, "--height", 8, "-o"],
        ".ply": ["convert", folder / "s.ply"],
    }
    return commands.__getitem__


@pytest.mark.parametrize("ending", [".jvim", ".jvi", ".npz", ".png", ".ply"])
def test_an_output_that_is_a_pipe_or_a_device_is_refused_and_stays_what_it_is(
    ending: str, outputs: Callable[[str], list[object]], tmp_path: Path, ask: Callable[..., Any]
) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"device{ending}").symlink_to("/dev/null")
    for path in (tmp_path / f"pipe{ending}", tmp_path / f"device{ending}"):
        told = ask(*outputs(ending), path)
        assert (told.code, told.out) == (2, "")
        assert told.err == f"error: {path}: expected a file to write, got a pipe, a socket or a device\n"
    assert (tmp_path / f"pipe{ending}").is_fifo() and (tmp_path / f"device{ending}").is_symlink()


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("ending", [".jvim", ".jvi", ".npz", ".png", ".ply"])
def test_an_output_that_is_a_link_stays_one_and_leads_to_what_was_written(
    ending: str, there: bool, outputs: Callable[[str], list[object]], tmp_path: Path, ask: Callable[..., Any]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / f"a{ending}", tmp_path / f"link{ending}"
    link.symlink_to(f"elsewhere/a{ending}")
    if there:
        target.write_bytes(b"old")
    told = ask(*outputs(ending), link)
    assert (told.code, told.err) == (0, "")
    assert link.is_symlink() and target.stat().st_size > 3
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [target.name]
