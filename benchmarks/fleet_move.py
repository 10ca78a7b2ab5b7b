"""Part "move" of `python benchmarks/fleet.py`: agents that step towards targets, alone and with their neighbours.

The job: each agent goes min(speed, distance) towards its target; who is there gets another one. numpy's is float32 on
columns, in place, no array made but the list of the arrived. Mesa's is its own way: an AgentSet whose agents set their
positions one by one, in mesa.experimental.continuous_space and in mesa.space; the faster of the two is the peer. With
neighbours, ours also counts each agent's neighbours within the radius that gives about 8; the peer is numpy without.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from harness import alternate

from coord import AGENT_DTYPE, minimum_separation, neighbour_counts, straight_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness import Report

F32 = np.float32
AGENTS, AGENTS_MESA = 100_000, 10_000
SIDE_M = 1000.0
NEIGHBOURS = 8.0


class Job:
    """Places, speeds and targets; new targets come from a fixed list."""

    def __init__(self, n: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.x, self.y, self.tx, self.ty = (rng.uniform(0, SIDE_M, n).astype(F32) for _ in range(4))
        self.z, self.tz = np.zeros(n, F32), np.zeros(n, F32)
        self.speed = rng.uniform(0.1, 0.2, n).astype(F32)  # 1 to 2 m/s at ten ticks a second
        self.list = rng.uniform(0, SIDE_M, (2, 65536)).astype(F32)
        self.drawn = 0
        self.arrived = np.zeros(n, np.int64)
        self.room = [np.empty(n, F32) for _ in range(5)]
        self.there = np.empty(n, np.bool_)
        self.records = np.zeros(n, AGENT_DTYPE)
        for field in ("x", "y", "z", "speed"):
            self.records[field] = getattr(self, field)
        self.radius = float(np.sqrt(NEIGHBOURS * SIDE_M * SIDE_M / n / np.pi))

    def renew(self, rows: Any) -> None:
        """Other targets for those that are there."""
        at = (self.drawn + np.arange(len(rows))) % self.list.shape[1]
        self.drawn += len(rows)
        self.tx[rows], self.ty[rows] = self.list[0, at], self.list[1, at]

    def ours(self, agents: Any = None) -> None:
        """One tick with coord."""
        agents = (self.x, self.y, self.z, self.speed) if agents is None else agents
        count = straight_step(agents, (self.tx, self.ty, self.tz), arrived=self.arrived)
        if count:
            self.renew(self.arrived[:count])

    def ours_with_neighbours(self) -> None:
        """One tick with coord, and every agent's number of neighbours."""
        self.ours()
        neighbour_counts(np.stack([self.x, self.y], axis=1), self.radius)

    def numpys(self) -> None:
        """One tick with numpy: passes over columns, in place."""
        dx, dy, dz, share, room = self.room
        np.subtract(self.tx, self.x, out=dx)
        np.subtract(self.ty, self.y, out=dy)
        np.subtract(self.tz, self.z, out=dz)
        np.multiply(dx, dx, out=share)
        np.multiply(dy, dy, out=room)
        np.add(share, room, out=share)
        np.multiply(dz, dz, out=room)
        np.add(share, room, out=share)
        np.sqrt(share, out=share)
        np.less_equal(share, self.speed, out=self.there)
        np.divide(self.speed, share, out=share)
        for column, d in ((self.x, dx), (self.y, dy), (self.z, dz)):
            np.multiply(d, share, out=d)
            np.add(column, d, out=column)
        rows = np.flatnonzero(self.there)
        if len(rows):
            self.x[rows], self.y[rows], self.z[rows] = self.tx[rows], self.ty[rows], self.tz[rows]
            self.renew(rows)


def _mesa(n: int) -> list[Callable[[], object]]:
    """A tick of Mesa's move job, in each of its two continuous spaces."""
    import mesa
    from mesa.experimental.continuous_space import ContinuousSpace, ContinuousSpaceAgent
    from mesa.space import ContinuousSpace as FirstSpace

    rng = np.random.default_rng(1)
    targets = rng.uniform(0, SIDE_M, (65536, 2))
    places, speeds = rng.uniform(0, SIDE_M, (n, 2)), rng.uniform(0.1, 0.2, n).tolist()

    class Walker(ContinuousSpaceAgent):
        def __init__(self, model: Any, space: Any, place: Any, speed: float, target: Any) -> None:
            super().__init__(space, model)
            self.position, self.speed, self.target = place, speed, target

        def step(self) -> None:
            delta = self.target - self.position
            away = float(np.sqrt(delta @ delta))
            if away <= self.speed:
                self.position, self.target = self.target, targets[random.randrange(65536)]
            else:
                self.position += delta * (self.speed / away)

    class FirstWalker(mesa.Agent):
        def __init__(self, model: Any, speed: float, target: Any) -> None:
            super().__init__(model)
            self.speed, self.target = speed, target

        def step(self) -> None:
            (x, y), (tx, ty) = self.pos, self.target
            dx, dy = tx - x, ty - y
            away = (dx * dx + dy * dy) ** 0.5
            if away <= self.speed:
                place, self.target = self.target, tuple(targets[random.randrange(65536)].tolist())
            else:
                place = (x + dx * (self.speed / away), y + dy * (self.speed / away))
            self.model.space.move_agent(self, place)

    new = mesa.Model(seed=1)
    space = ContinuousSpace([[0, SIDE_M], [0, SIDE_M]], torus=False, random=new.random, n_agents=n)
    for i in range(n):
        Walker(new, space, places[i].copy(), speeds[i], targets[i])
    first = mesa.Model(seed=1)
    first.space = FirstSpace(SIDE_M, SIDE_M, torus=False)
    for i in range(n):
        first.space.place_agent(FirstWalker(first, speeds[i], tuple(targets[i].tolist())), tuple(places[i].tolist()))
    return [lambda: new.agents.do("step"), lambda: first.agents.do("step")]


def _seconds(call: Callable[[], object]) -> float:
    call()
    start = time.thread_time()
    call()
    return time.thread_time() - start


def _scipys(places: Any) -> float:
    from scipy.spatial import cKDTree

    return float(cKDTree(places).query(places, k=2)[0][:, 1].min())


def run(report: Report) -> None:
    """Agent steps a second, ours and the peer's."""
    job, peer = Job(AGENTS), Job(AGENTS)
    np.seterr(divide="ignore", invalid="ignore")
    for case, tick in (
        ("move 100,000 agents, columns", job.ours),
        ("move 100,000 agents, AgentState records", lambda: job.ours(job.records)),
        ("move 100,000 agents and count their neighbours", job.ours_with_neighbours),
    ):
        ours, numpys = alternate(tick, peer.numpys)
        name = "numpy, float32 in place" + (", move only" if "neighbours" in case else "")
        report.add(case, AGENTS / ours, AGENTS / numpys, name, "agent steps/s", "higher")
    small = Job(AGENTS_MESA)
    mesas = min(_mesa(AGENTS_MESA), key=_seconds)
    ours, mesa = alternate(small.ours, mesas)
    report.add("move 10,000 agents", AGENTS_MESA / ours, AGENTS_MESA / mesa, "Mesa", "agent steps/s", "higher")

    places = np.stack([small.x, small.y], axis=1)
    ours, scipys = alternate(lambda: minimum_separation(places), lambda: _scipys(places))
    report.add("closest pair of 10,000 agents", ours * 1e3, scipys * 1e3, "scipy cKDTree, k = 2", "ms", "lower")
