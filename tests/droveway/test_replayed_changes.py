"""replay follows fleets in which agents, zones and obstacles come and go, and tells what came from outside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coord import EventKind, FleetEvent, Scenario, metrics, simulate
from coord.stl import open_run
from droveway.change_text import WORDS, change_line, counted
from droveway.run_tracks import draw_tracks, read_tracks

Ask = Callable[..., Any]

COMES_AND_GOES = """
version = 1
name = "comes-and-goes"
seed = 3
[plan]
on_events = true
[agents]
random = 8
speed = 4.0
[zones]
random = 5
[demand]
model = "uniform"
rate = 0.5
deadline_ticks = 30
service_ticks = 2
[faults]
lost = 0.01
lost_ticks = [5, 20]
fault = 0.01
fault_ticks = [5, 9]
silent = 0.01
delay = 0.02
[[event]]
tick = 4
kind = "agent_lost"
id = 2
[[event]]
tick = 5
kind = "obstacle_added"
id = 0
shape = "polygon"
points = [[10.0, 10.0], [20.0, 10.0], [15.0, 30.0]]
[[event]]
tick = 6
kind = "obstacle_added"
id = 1
shape = "circle"
x = 70.0
y = 70.0
radius = 5.0
[[event]]
tick = 7
kind = "zone_removed"
id = 1
[[event]]
tick = 30
kind = "obstacle_removed"
id = 1
"""


@pytest.mark.parametrize("seed", range(4))
def test_services_are_those_of_metrics_where_zones_come_and_go(tmp_path: Path, seed: int) -> None:
    simulate(Scenario.loads(COMES_AND_GOES), 120, seed, tmp_path / "run", sync="os")
    with open_run(tmp_path / "run") as reader:
        tracks = read_tracks(reader, None, None, keep_points=True)
        draw_tracks(tracks, reader.scenario, "", "", tmp_path / "a.png")
        happened = list(reader.changes())
    found = metrics(tmp_path / "run", gap_every=0)
    assert tracks.services == found.services > 10
    assert int((tracks.served > 0).sum()) == round(found.coverage * found.zones)
    assert (len(tracks.agents), len(tracks.zones)) == (found.agents, found.zones)
    assert tracks.steps_m == pytest.approx(found.travel_m_total, rel=1e-5)
    assert tracks.changes == [change for change in happened if change.tick <= (tracks.last or 0)]
    assert all(place.shape == (8, 2) for place in tracks.points)
    gone = [bool(np.isnan(place).any()) for place in tracks.points]
    assert any(gone)
    assert not gone[0]


def test_text_names_what_came_and_json_counts_it(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "SITE.toml"
    site.write_text(COMES_AND_GOES)
    run = ask("simulate", site, "-o", tmp_path / "run", "--ticks", 100, "--sync", "os", "--json").record
    told = ask("replay", tmp_path / "run", "--png", tmp_path / "a.png", "--json").record
    assert told["events"] == run["events"]
    text = ask("replay", tmp_path / "run", "--to", 7).out
    for line in (
        "tick 4: agent 2 left\n", "tick 5: obstacle 0 was added\n", "tick 6: obstacle 1 was added\n",
        "tick 7: zone 1 was removed\n",
    ):  # fmt: skip
        assert line in text
    more = sum(run["events"].values()) - 12
    assert f" and {more} more: --json counts them\n" in ask("replay", tmp_path / "run").out


def test_verify_counts_what_came_from_outside_as_made_again_where_it_was(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "SITE.toml"
    site.write_text(COMES_AND_GOES)
    run = ask("simulate", site, "-o", tmp_path / "run", "--ticks", 60, "--sync", "os", "--json").record
    count = sum(run["events"].values())
    plain = ask("verify", tmp_path / "run").out
    assert f"; of other kinds the bytes only: {count} coord.event\n" in plain
    again = ask("verify", tmp_path / "run", "--resimulate").out
    assert f" with all their inputs, {count} events from outside made again\n" in again
    record = ask("verify", tmp_path / "run", "--resimulate", "--json").record
    assert (record["changes_resimulated"], record["other_events"]) == (count, {})


def test_every_kind_has_words() -> None:
    assert set(WORDS) == {kind.word for kind in EventKind}
    assert counted({"fault": 1, "agent_lost": 2}) == "1 fault, 2 agents lost"
    assert change_line(FleetEvent(5, EventKind.FAULT, 3, ticks=1)) == "tick 5: agent 3 failed, for 1 tick"
    assert change_line(FleetEvent(5, EventKind.FAULT, 3)) == "tick 5: agent 3 failed for good"


def test_info_of_a_site_says_how_to_get_the_schema(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "SITE.toml"
    site.write_text(COMES_AND_GOES)
    assert "coord.json_schema()" in ask("info", site).out.splitlines()[-1]
