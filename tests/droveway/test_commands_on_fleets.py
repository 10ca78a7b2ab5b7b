"""Every scenario of docs/fleets.md goes through each command that reads a run, whatever comes and goes in it."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., Any]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fleets.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
TICKS = 120  # of bad-day three agents leave, one comes back
PNG = b"\x89PNG\r\n\x1a\n"


def written(text: str, folder: Path) -> Path:
    tasks = re.search(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)
    assert tasks is not None
    (folder / "yesterday.jsonl").write_text(tasks[1])
    (folder / "yard.map").write_text(runpy.run_path(str(ROOT / "tests" / "golden_runs.py"))["YARD_MAP"])
    (folder / "SITE.toml").write_text(text)
    return folder / "SITE.toml"


@pytest.mark.parametrize("text", EXAMPLES, ids=[re.findall(r'name = "(.*?)"', text)[0] for text in EXAMPLES])
def test_every_reading_command_takes_a_fleet_of_the_page(ask: Ask, text: str, tmp_path: Path) -> None:
    site = written(text, tmp_path)
    run, other, png = tmp_path / "run", tmp_path / "other", tmp_path / "a.png"
    made = ask("simulate", site, "-o", run, "--ticks", TICKS, "--sync", "os", "--json")
    assert (made.code, made.err) == (0, "")
    if 'name = "bad-day"' in text:
        assert {"agent_lost", "agent_back", "fault", "silent", "delay"} == made.record["events"].keys()
    assert ask("simulate", site, "-o", other, "--ticks", 40, "--seed", 99, "--sync", "os").code == 0
    replayed = ask("replay", run, "--json").record
    drawn = ask("replay", run, "--png", png)
    assert (drawn.code, drawn.err, png.read_bytes()[:8]) == (0, "", PNG)
    measured = ask("metrics", run, "--png", tmp_path / "m.png", "--json").record
    assert (tmp_path / "m.png").read_bytes()[:8] == PNG
    assert replayed["services"] == measured["services"] > 0
    assert replayed["agents"] == measured["agents"]
    for tick in (replayed["first_tick"], replayed["last_tick"]):
        explained = ask("explain", run, "--tick", tick, "--agent", 3)
        here = explained.code == 0 and f"tick {tick}: agent 3 (" in explained.out
        away = explained.code == 2 and "agent 3" in explained.err
        assert here or away, explained
    assert (ask("diff", run, run).code, ask("diff", run, other).code) == (0, 1)
    assert ask("verify", run, "--no-replan", "--from", replayed["last_tick"]).code == 0
