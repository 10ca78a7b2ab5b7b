"""`verify` of some ticks, and by several processes."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coord.auditing.report import RangeChecked

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
Ask = Callable[..., Any]


def test_a_range_is_verified_and_says_what_was_not(ask: Ask, yard_run: Path) -> None:
    told = ask("verify", yard_run, "--from", 2, "--to", 3)
    assert told.code == 0
    assert "not checked: other events, ids, cursors, kept checkpoints and their signatures" in told.out
    record = ask("verify", yard_run, "--from", 2, "--to", 3, "--json").record
    assert (record["ok"], record["planned"], record["range"]["first_tick"]) == (True, 2, 2)
    assert set(record["range"]) == {field.name for field in dataclasses.fields(RangeChecked)}
    for name in (*record["range"], "range", "not_checked"):
        assert f"`{name}`" in PAGE


def test_a_range_behind_the_end_is_not_verified(ask: Ask, yard_run: Path) -> None:
    told = ask("verify", yard_run, "--from", 10**6)
    assert told.code == 1
    assert "expected a decision at tick 1000000 or later, got a run whose last decision is of tick" in told.out


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("--from", 9, "--to", 3), "error: expected --to of at least --from, got --from 9 --to 3\n"),
        (("--to", 3, "--resimulate"), "error: expected --resimulate or a range, got both\n"),
        (("--from", 3, "--key", "x"), "error: expected --key or a range, got both\n"),
    ],
)
def test_ranges_that_are_none_are_usage_errors(ask: Ask, yard_run: Path, given: tuple[object, ...], text: str) -> None:
    told = ask("verify", yard_run, *given)
    assert told.code == 2
    assert told.err.startswith(text)


def test_several_processes_say_the_same(ask: Ask, yard_run: Path) -> None:
    assert ask("verify", yard_run, "--jobs", 2, "--json").out == ask("verify", yard_run, "--json").out
