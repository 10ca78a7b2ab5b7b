"""`diff` tells how two fleets drift apart."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coord.auditing.difference import DriftTick, FirstOther

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
Ask = Callable[..., Any]


def test_the_table_and_the_object_say_the_same(ask: Ask, yard: Path, yard_run: Path, tmp_path: Path) -> None:
    ask("simulate", yard, "-o", tmp_path / "other", "--ticks", 12, "--seed", 77)
    record = ask("diff", yard_run, tmp_path / "other", "--rows", 4, "--json").record
    found = record["drift"]
    assert found["ticks"] > 4
    assert len(found["rows"]) == 4
    assert set(found["rows"][0]) == set(DriftTick._fields)
    told = ask("diff", yard_run, tmp_path / "other", "--rows", 4)
    assert told.code == 1
    assert f"{found['ticks']} ticks planned by both" in told.out
    heads = re.split(r"  +", told.out[told.out.index("\ntick ") :].splitlines()[1])
    assert heads[-2:] == ["objective, left (right - left)", "services, left (right - left)"]
    table = told.out[told.out.index("\ntick ") :].splitlines()[2:]
    assert [int(line.split()[0]) for line in table] == [row["tick"] for row in found["rows"]]
    words = set(re.findall(r"\w+", PAGE))
    assert {*found, *FirstOther._fields, *DriftTick._fields} <= words
    bare = ask("diff", yard_run, tmp_path / "other", "--rows", 0)
    assert "\ntick " not in bare.out


def test_equal_runs_have_no_drift_to_tell(ask: Ask, yard_run: Path) -> None:
    told = ask("diff", yard_run, yard_run)
    assert (told.code, told.out[:6]) == (0, "equal:")
