"""The frame around the commands: help, version, usage errors, completion, closed pipes, lazy imports."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest

import droveway
from droveway import exits
from droveway.main import COMMANDS, Command, CommandGroup, run
from droveway.output import Output, json_line, plain

ROOT = Path(__file__).parents[2]


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, away from the source folder."""
    return subprocess.run(
        [sys.executable, "-m", "droveway", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, **environment},
        check=False,
    )


def test_version_is_that_of_the_distribution() -> None:
    assert droveway.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    done = cli("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"droveway {droveway.__version__}\n", "")


def test_help_and_version_load_click_and_no_package_of_ours_nor_numpy() -> None:
    code = (
        "import sys; from droveway.main import run\n"
        "before = set(sys.modules); assert run(['--help']) == 0 and run(['--version']) == 0\n"
        "heavy = {'numpy', 'tensor', 'vector', 'splat', 'storage', 'coord', 'importlib.metadata', 'rich', 'PIL'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr


def test_help_lists_every_command_and_each_has_the_common_options() -> None:
    listed = cli("--help").stdout
    for name, (module, line) in COMMANDS.items():
        assert re.search(rf"^  {name} ", listed, re.MULTILINE), name
        command = import_module(f"droveway.commands.{module}").command
        assert command.name == name and line.endswith(".") and command.help, name
        several = isinstance(command, CommandGroup)
        for one in command.commands.values() if several else [command]:
            assert isinstance(one, Command) and one.help
            options = {option for parameter in one.params for option in parameter.opts}
            assert {"--json", "--quiet", "--threads", "--debug"} <= options, (name, one.name)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_prints_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: droveway {name} ")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["doktor"], "there is no command 'doktor'; did you mean 'doctor'?", "droveway --help"),
        (["--frobnicate"], "--frobnicate", "droveway --help"),
        (
            ["doctor", "--threads", "0"],
            "Invalid value for '--threads': 0 is not in the range 1<=x<=1024.",
            "droveway doctor --help",
        ),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'.", "droveway completion --help"),
        (["doctor", "extra"], "Got unexpected extra argument (extra)", "droveway doctor --help"),
    ],
)
def test_a_wrong_command_line_is_exit_2_with_error_and_hint(
    arguments: list[str], error: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("error: ") and error in first
    assert second == f"hint: {hint}"


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete -o nosort"), ("zsh", "#compdef droveway"), ("fish", "complete ")]
)
def test_completion_prints_a_script_that_asks_droveway(shell: str, words: str) -> None:
    done = cli("completion", shell)
    assert done.returncode == 0 and done.stderr == ""
    assert words in done.stdout and "_DROVEWAY_COMPLETE" in done.stdout
    record = json.loads(cli("completion", shell, "--json").stdout)
    assert record == {"shell": shell, "script": done.stdout.rstrip("\n")} or record["script"] + "\n" == done.stdout


def test_the_bash_completion_completes_commands_and_options() -> None:
    words = {"_DROVEWAY_COMPLETE": "bash_complete", "COMP_WORDS": "droveway do", "COMP_CWORD": "1"}
    assert cli(**words).stdout.split() == ["plain,doctor"]
    words = {"_DROVEWAY_COMPLETE": "bash_complete", "COMP_WORDS": "droveway doctor --q", "COMP_CWORD": "2"}
    assert cli(**words).stdout.split() == ["plain,--quiet"]


def test_stdout_closed_early_is_quiet_and_keeps_the_exit_code() -> None:
    script = f'{sys.executable} -m droveway doctor | head -n 1; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert done.returncode == cli("doctor").returncode


def test_a_closed_reader_is_noted_and_the_rest_goes_nowhere() -> None:
    code = (
        "import os, sys; from droveway.output import Output\n"
        "read, write = os.pipe(); os.dup2(write, 1); os.close(write); os.close(read)\n"
        "out = Output(); out.text('a' * 100); assert out.closed; out.text('b'); print('c'); sys.stdout.flush()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unexpected_error_is_exit_5_and_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("droveway.doctor.findings", broken)
    assert run(["doctor"]) == exits.BUG
    err = capsys.readouterr().err
    assert err.startswith("error: droveway has a bug: ZeroDivisionError: division by zero; please report it")
    assert "--debug" in err and "Traceback" not in err
    assert run(["doctor", "--debug"]) == exits.BUG
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_is_exit_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("droveway.doctor.findings", interrupted)
    assert run(["doctor"]) == 130
    assert capsys.readouterr().err.strip() == "error: interrupted"


def test_quiet_silences_notes_and_neither_results_nor_errors(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(quiet=True)
    out.note("a note")
    out.result({"a": 1}, "a result")
    out.error("an error", "a way out")
    assert capsys.readouterr() == ("a result\n", "error: an error\nhint: a way out\n")


def test_json_lines_hold_only_what_json_knows() -> None:
    record = {
        "bytes": b"\x00\xff",
        "nan": float("inf"),
        "large": 2**53 + 1,
        "exact": 2**53,
        "path": Path("a"),
        "none": None,
    }
    assert json.loads(json_line(record)) == {
        "bytes": "00ff",
        "nan": None,
        "large": "9007199254740993",
        "exact": 9007199254740992,
        "path": "a",
        "none": None,
    }
    assert plain({1: [True, (2.5, "x")]}) == {"1": [True, [2.5, "x"]]}


def test_openblas_gets_one_thread_before_numpy_is_loaded() -> None:
    code = (
        "import os, sys; sys.argv = ['droveway', '--version']; from droveway.main import main\n"
        "try: main()\nexcept SystemExit as end: assert end.code == 0\n"
        "assert os.environ['OPENBLAS_NUM_THREADS'] == '1' and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr


def test_no_arguments_at_all_print_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: droveway [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("DROVEWAY_ISA", "v9", "DROVEWAY_ISA=v9 is not a build of droveway: expected"),
        ("DROVEWAY_THREADS", "0", "DROVEWAY_THREADS"),
        ("DROVEWAY_THREADS", "abc", "DROVEWAY_THREADS"),
    ],
)
def test_a_wrong_environment_variable_is_one_sentence_and_exit_2(
    variable: str, value: str, words: str, tmp_path: Path
) -> None:
    done = cli("info", str(ROOT / "examples" / "sites" / "yard.toml"), **{variable: value})
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ") and words in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_click_is_told_to_leave_errors_to_us() -> None:
    with pytest.raises(click.UsageError):
        droveway_group().main(args=["nonsense"], standalone_mode=False)


def droveway_group() -> click.Group:
    from droveway.main import droveway as group

    return group
