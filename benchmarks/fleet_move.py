"""Part "move" of `python benchmarks/fleet.py`: agents that step towards targets, alone and with their neighbours.

Jobs, all on one thread, positions written in place:

- **To targets** is this library's job: min(speed, distance) towards a target; who is there gets another one. numpy's
  is float32 on columns, no array made but the list of the arrived. Mesa's is its own way: an AgentSet whose agents set
  their positions one by one, in mesa.experimental.continuous_space and in mesa.space; the faster of both is the peer.
- **On a torus** is the move of Mesa's own example, Boid Flockers: `position += direction · speed`, wrapped at the
  sides. The library has no torus; it does the dearer step to targets against Mesa's and numpy's step on the torus.
- **With neighbours**: after the move each agent's number of neighbours within the radius that gives about 8. The peers
  are numpy that only moves, numpy that moves and asks scipy's cKDTree for the same numbers, and a whole tick of Boid
  Flockers (1,000 agents: each looks at all others), of which the steering by the neighbours is a small part.
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
AGENTS, AGENTS_MESA, AGENTS_FLOCK = 100_000, 10_000, 1_000
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
        neighbour_counts((self.x, self.y), self.radius)

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


class Torus:
    """Places and headings; numpy's step of Mesa's job."""

    def __init__(self, n: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.x, self.y = (rng.uniform(0, SIDE_M, n).astype(F32) for _ in range(2))
        angle, self.speed = rng.uniform(0, 2 * np.pi, n), rng.uniform(0.1, 0.2, n).astype(F32)
        self.heading = np.cos(angle).astype(F32), np.sin(angle).astype(F32)
        self.room, self.out = np.empty(n, F32), np.empty(n, np.bool_)

    def numpys(self) -> None:
        """One tick: passes over columns, in place; few agents pass a side, so only they are wrapped."""
        for column, heading in zip((self.x, self.y), self.heading, strict=True):
            np.multiply(heading, self.speed, out=self.room)
            np.add(column, self.room, out=column)
            np.less(column, 0, out=self.out)
            column[np.flatnonzero(self.out)] += F32(SIDE_M)
            np.greater_equal(column, F32(SIDE_M), out=self.out)
            column[np.flatnonzero(self.out)] -= F32(SIDE_M)


def _torus(n: int) -> Callable[[], object]:
    """A tick of Boid Flockers' move without the steering: its agents that see no neighbour."""
    import mesa
    from mesa.experimental.continuous_space import ContinuousSpace, ContinuousSpaceAgent

    class Boid(ContinuousSpaceAgent):
        def __init__(self, model: Any, space: Any, place: Any, direction: Any) -> None:
            super().__init__(space, model)
            self.position, self.direction, self.speed = place, direction, 0.15

        def step(self) -> None:
            self.position += self.direction * self.speed

    rng = np.random.default_rng(1)
    model = mesa.Model(seed=1)
    space = ContinuousSpace([[0, SIDE_M], [0, SIDE_M]], torus=True, random=model.random, n_agents=n)
    for place, angle in zip(rng.uniform(0, SIDE_M, (n, 2)), rng.uniform(0, 2 * np.pi, n), strict=True):
        Boid(model, space, place, np.array([np.cos(angle), np.sin(angle)]))
    return lambda: model.agents.shuffle_do("step")


def _flockers(n: int) -> Callable[[], object]:
    """A tick of Mesa's example as it is, with room for about 8 neighbours in the vision of each."""
    from mesa.examples.basic.boid_flockers.model import BoidFlockers

    side = float(np.sqrt(n * np.pi * 100 / NEIGHBOURS))
    model = BoidFlockers(population_size=n, width=side, height=side, vision=10, seed=1)
    step: Callable[[], object] = model.step
    return step


def _ticks(count: int, tick: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    """Seconds a tick, ours `count` at a time: `alternate` calls the slow one as often as the fast one."""

    def several() -> None:
        for _ in range(count):
            tick()

    ours, theirs = alternate(several, peer, seconds=0.3)
    return ours / count, theirs


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


def _numpys_with_neighbours(job: Job) -> None:
    from scipy.spatial import cKDTree

    job.numpys()
    places = np.stack([job.x, job.y], axis=1)
    cKDTree(places).query_ball_point(places, job.radius, return_length=True)


def run(report: Report) -> None:
    """Agent steps a second, ours and the peer's."""

    def add(case: str, n: int, seconds: tuple[float, float], peer: str) -> None:
        report.add(case, n / seconds[0], n / seconds[1], peer, "agent steps/s", "higher")

    job, peer, torus = Job(AGENTS), Job(AGENTS), Torus(AGENTS)
    np.seterr(divide="ignore", invalid="ignore")
    name = "numpy, float32 in place"
    add("to targets, 100,000 agents, columns", AGENTS, alternate(job.ours, peer.numpys), name)
    add("to targets, 100,000 agents, records", AGENTS, alternate(lambda: job.ours(job.records), peer.numpys), name)
    add("to targets against a torus, 100,000 agents", AGENTS, alternate(job.ours, torus.numpys), f"{name}, torus")
    add(
        "to targets and neighbours, 100,000 agents",
        AGENTS,
        alternate(job.ours_with_neighbours, peer.numpys),
        f"{name}, move only",
    )
    both = _ticks(100, job.ours_with_neighbours, lambda: _numpys_with_neighbours(peer))
    add("to targets and neighbours, 100,000 agents, same job", AGENTS, both, "numpy and scipy cKDTree")

    small = Job(AGENTS_MESA)
    mesas = min(_mesa(AGENTS_MESA), key=_seconds)
    add("to targets, 10,000 agents", AGENTS_MESA, _ticks(1000, small.ours, mesas), "Mesa")
    both = _ticks(1000, small.ours, _torus(AGENTS_MESA))
    add("to targets against a torus, 10,000 agents", AGENTS_MESA, both, "Mesa, Boid Flockers' move")
    few = Job(AGENTS_FLOCK)
    both = _ticks(1000, few.ours_with_neighbours, _flockers(AGENTS_FLOCK))
    add("to targets and neighbours, 1,000 agents", AGENTS_FLOCK, both, "Mesa, Boid Flockers")

    places = np.stack([small.x, small.y], axis=1)
    ours, scipys = alternate(lambda: minimum_separation(places), lambda: _scipys(places))
    report.add("closest pair of 10,000 agents", ours * 1e3, scipys * 1e3, "scipy cKDTree, k = 2", "ms", "lower")
