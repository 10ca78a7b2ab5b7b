"""A site whose ids do not fit 32 bits: the command line speaks of its agents and zones by the ids it gave them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from droveway.main import run

Ask = Callable[..., Any]
AGENTS = (1, 2, 7, 9_000_000_000)
ZONES = (5, 2**32 - 1, 2**60)


@pytest.fixture(scope="module")
def tall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a site with agents 1, 2, 7 and 9000000000: numbers inside a run are 0, 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("tall")
    text = 'version = 1\nname = "tall"\n'
    for place, number in enumerate(AGENTS):
        text += f"[[agent]]\nid = {number}\nx = {place}.0\ny = {10 * place}.0\n"
    for place, number in enumerate(ZONES):
        text += f"[[zone]]\nid = {number}\nx = {place + 9}.0\ny = {20 * place}.0\n"
    (folder / "site.toml").write_text(text)
    assert run(["simulate", str(folder / "site.toml"), "-o", str(folder / "run"), "--ticks", "20"]) == 0
    return folder / "run"


def test_explain_takes_and_gives_the_ids_of_the_site(ask: Ask, tall: Path) -> None:
    told = ask("explain", tall, "--tick", 0, "--agent", 1)
    assert told.out.startswith("tick 0: agent 1 (ready) ")
    record = ask("explain", tall, "--tick", 0, "--agent", 1, "--json").record
    assert (record["agent"], record["internal_agent"], record["internal_zone"]) == (1, 0, None)
    zones = {int(option["zone"]) for option in record["options"]}
    assert zones == set(ZONES)
    assert {option["agent"] for option in record["options"]} == {1}
    assert all(option["winner"] is None or option["winner"] in AGENTS for option in record["options"])
    last = ask("explain", tall, "--tick", 0, "--agent", AGENTS[-1], "--json").record
    assert (last["agent"], last["internal_agent"]) == (AGENTS[-1], 3)


def test_explain_names_other_agents_by_the_ids_of_the_site(ask: Ask, tall: Path) -> None:
    record = ask("explain", tall, "--tick", 0, "--zone", 5, "--json").record
    named = [change for option in record["options"] for change in option["changes"]]
    assert named and all("zone 5" in change for change in named)
    winner = record["row"]["agent"]
    assert winner in AGENTS
    assert any(f"zone 5 went to agent {winner}: " in change for change in named)


def test_explain_refuses_numbers_that_only_the_run_knows(ask: Ask, tall: Path) -> None:
    told = ask("explain", tall, "--tick", 0, "--agent", 3)
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        "error: --agent 3: is not among the 4 agents of this run\nhint: its agents are 1, 2, 7, 9000000000\n"
    )


def test_info_shows_the_table(ask: Ask, tall: Path, yard_run: Path) -> None:
    record = ask("info", tall, "--json").record
    assert (record["agent_ids"], record["zone_ids"]) == (list(AGENTS), [5, 2**32 - 1, str(2**60)])
    assert "agent ids   1, 2, 7, 9000000000\n" in ask("info", tall).out
    assert "agent_ids" not in ask("info", yard_run, "--json").record


def test_diff_and_verify_name_the_ids_of_the_site(ask: Ask, tall: Path, tmp_path: Path, rewritten: Any) -> None:
    before = ask("explain", tall, "--tick", 3, "--agent", 9_000_000_000, "--json").record["row"]["zone"]
    rewritten(tall, tmp_path / "other", tick=3, agent=3, zone=0xFFFFFFFF if int(before) in ZONES else 0)
    told = ask("diff", tall, tmp_path / "other")
    shown = before if int(before) in ZONES else "none"
    assert told.out.startswith(f"rank 8: coord.frame, tick 3, agent 9000000000, zone: {shown} ≠ ")
    record = ask("diff", tall, tmp_path / "other", "--json").record
    assert record["row"] == "agent 9000000000"
    told = ask("verify", tmp_path / "other")
    assert told.code == 1
    assert f"frame 3 (tick 3, rank 8): agent 9000000000: zone: expected {shown}, got " in told.out.replace(
        "None", "none"
    )
    found = ask("verify", tmp_path / "other", "--json").records[0]
    assert (found["agent"], found["internal_agent"]) == (9_000_000_000, 3)


def test_an_agent_that_stands_badly_is_named_by_the_id_of_the_site(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.map").write_text("type octile\nheight 1\nwidth 3\nmap\n..@\n")
    text = 'version = 1\nname = "a"\n[map]\nfile = "t.map"\n[zones]\nrandom = 1\n'
    for number, x in ((4, 0.5), (2**40, 2.5)):
        text += f"[[agent]]\nid = {number}\nx = {x}\ny = 0.5\n"
    (tmp_path / "s.toml").write_text(text)
    told = ask("simulate", tmp_path / "s.toml", "-o", tmp_path / "run")
    assert told.code == 3
    assert told.err.startswith(f"error: {tmp_path / 's.toml'}: agent {2**40}: (2.5, 0.5, 0.0) is on an obstacle")
