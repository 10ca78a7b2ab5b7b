"""The ways that replay tells and draws between plans are those that the agents went."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coord import Scenario
from coord.simulation.world import World
from coord.stl import open_run
from droveway.run_tracks import Tracks, read_tracks

Ask = Callable[..., Any]


def went(scenario: Scenario, ticks: int) -> tuple[list[set[tuple[float, float]]], float]:
    """Every cell of each agent up to the start of the last planned tick, and the metres of all: the run itself."""
    world = World(scenario.setup)
    last = (ticks - 1) // scenario.setup.every_ticks * scenario.setup.every_ticks
    cells: list[set[tuple[float, float]]] = [set() for _ in world.inputs.agents]
    before = None
    metres = 0.0
    while True:
        agents = world.inputs.agents
        places = np.stack([agents["x"], agents["y"]], axis=1)
        for seen, place in zip(cells, places.tolist(), strict=True):
            seen.add((place[0], place[1]))
        metres += 0.0 if before is None else float(np.abs(places - before).sum())
        before = places
        if world.tick == last:
            return cells, metres
        if world.is_planned():
            world.assign(world.plan_tick().rows)
        world.advance()


def told(run: Path) -> tuple[list[set[tuple[float, float]]], Tracks]:
    with open_run(run) as reader:
        tracks = read_tracks(reader, None, None, keep_points=True)
    ways = np.stack(tracks.points, axis=1).tolist()
    return [{(place[0], place[1]) for place in way} for way in ways], tracks


@pytest.mark.parametrize("every_ticks", [1, 5, 17])
def test_between_plans_replay_goes_cell_by_cell_where_the_agents_went(
    every_ticks: int, ask: Ask, yard: Path, tmp_path: Path
) -> None:
    site = tmp_path / "yard.toml"
    site.write_text(yard.read_text().replace("[plan]", f"[plan]\nevery_ticks = {every_ticks}"))
    (tmp_path / "yard.map").write_bytes(yard.with_suffix(".map").read_bytes())
    assert ask("simulate", site, "-o", tmp_path / "run", "--ticks", 60).code == 0
    cells, metres = went(Scenario.load(site), 60)
    ways, tracks = told(tmp_path / "run")
    assert ways == cells
    assert tracks.steps_m == pytest.approx(metres)


def test_fast_agents_do_not_jump_over_walls(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.map").write_text("type octile\nheight 3\nwidth 5\nmap\n.@...\n.@.@.\n...@.\n")
    site = tmp_path / "s.toml"
    site.write_text(
        'version = 1\nname = "s"\n[map]\nfile = "t.map"\n[[agent]]\nid = 0\nx = 0.5\ny = 2.5\nspeed = 4.0\n'
        "[[zone]]\nid = 0\nx = 4.5\ny = 0.5\n"
    )
    assert ask("simulate", site, "-o", tmp_path / "run", "--ticks", 4).code == 0
    (cells,), tracks = told(tmp_path / "run")
    free = {(0.5, 2.5), (0.5, 1.5), (0.5, 0.5), (1.5, 0.5), (2.5, 0.5), (2.5, 1.5), (2.5, 2.5), (3.5, 2.5), (4.5, 2.5)}
    assert cells == free | {(4.5, 1.5), (4.5, 0.5)}
    assert tracks.steps_m == 10.0


def test_replay_says_up_to_where_it_counts(ask: Ask, yard: Path, tmp_path: Path) -> None:
    assert ask("simulate", yard, "-o", tmp_path / "run", "--ticks", 30).code == 0
    assert "zones, up to the start of tick 29\n" in ask("replay", tmp_path / "run").out
