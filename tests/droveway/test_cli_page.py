"""docs/cli.md lists the JSON keys, commands and exit codes that there are."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from droveway.main import COMMANDS, CommandGroup

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
WORDS = f" {' '.join(PAGE.split())} "
Ask = Callable[..., Any]


def test_the_page_has_the_keys_of_every_record(ask: Ask, yard: Path, yard_run: Path, tmp_path: Path) -> None:
    options = ("--agents", 2, "--zones", 3)
    scen = tmp_path / "trip.scen"
    scen.write_text("version 1\n0\tyard.map\t50\t30\t0\t0\t5\t0\t5\n")
    told = ask("explain", yard_run, "--tick", 2, "--agent", 3, "--json").record
    records = {
        "explain": told,
        "explain, row": told["row"],
        "explain, option": told["options"][0],
        "explain, score": told["options"][0]["score"],
        "info of a run": ask("info", yard_run, "--json").record,
        "info of a site": ask("info", yard, "--json").record,
        "info of a map": ask("info", yard.with_suffix(".map"), "--json").record,
        "info of trips": ask("info", scen, "--json").record,
        "simulate": ask("simulate", yard, "-o", tmp_path / "run", "--ticks", 3, "--json").record,
        "verify": ask("verify", yard_run, "--json").record,
        "repair": ask("repair", yard_run, "--json").record,
        "replay": ask("replay", yard_run, "--json").record,
        "sweep, set": ask("sweep", yard, "--seeds", "1", "--ticks", 2, "--json").records[0],
        "sweep, answer": ask("sweep", yard, "--seeds", "1", "--ticks", 2, "--json").records[1],
        "metrics": ask("metrics", yard_run, "--json").record,
        "export": ask("export", yard_run, "--jsonl", tmp_path / "e.jsonl", "--json").record,
        "publish": ask("publish", tmp_path / "run", tmp_path / "web", "--key", keyfile(tmp_path), "--json").record,
        "diff, equal": ask("diff", yard_run, yard_run, "--json").record,
        "diff, different": ask("diff", yard_run, tmp_path / "run", "--json").record,
        "import": ask("import", yard.with_suffix(".map"), "-o", tmp_path / "s.toml", *options, "--json").record,
        "doctor": ask("doctor", "--json").records[0],
        "completion": ask("completion", "fish", "--json").record,
    }
    for command, record in records.items():
        assert f" {' '.join(record)} " in WORDS, command


def keyfile(folder: Path) -> Path:
    """A new key."""
    from storage import Signer, write_key

    write_key(folder / "log.key", Signer("log.example", bytes(32)))
    return folder / "log.key"


COMMON = {"--json", "--quiet", "--threads", "--debug", "--help", "-h", "--output"}  # -o stands for --output


def command_lines() -> list[list[str]]:
    """["index", "build"] for a command of two words, ["verify"] for one of one."""
    lines = []
    for name, (module, _) in COMMANDS.items():
        command = import_module(f"droveway.commands.{module}").command
        lines += [[name, word] for word in command.commands] if isinstance(command, CommandGroup) else [[name]]
    return lines


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_the_page_names_every_command_with_exactly_its_options(words: list[str], ask: Ask) -> None:
    usage = re.search(
        rf"^(?:`[^`]*`,\n)?`{' '.join(words)}(?: [^`]*)?`|, `{' '.join(words)} [^`]*`", PAGE, re.MULTILINE
    )
    assert usage, words
    shown = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage.group()[usage.group().index(words[-1]) :]))
    options = import_module(f"droveway.commands.{COMMANDS[words[0]][0]}").command
    options = options.commands[words[1]] if len(words) > 1 else options
    given = {name for parameter in options.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert shown == {name for name in given if name.startswith("-")} - COMMON
    assert ask(*words, "--help").code == 0


def test_the_page_has_every_exit_code() -> None:
    from droveway import exits

    codes = (exits.YES, exits.NO, exits.USAGE, exits.INPUT, exits.LIMIT, exits.BUG, exits.INTERRUPTED)
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == list(codes)
