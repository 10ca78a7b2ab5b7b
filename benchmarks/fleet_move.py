"""Part "move" of `python benchmarks/fleet.py`: agents that step towards targets, alone and with their neighbours.

The job: each agent goes min(speed, distance) towards its target; who is there gets another one. numpy's is float32,
columns in place, no array made but that of the arrived. Mesa's is its own: an AgentSet of ContinuousSpaceAgents whose
positions are set one by one (mesa.experimental.continuous_space), or Agents that mesa.space.ContinuousSpace moves; the
faster of the two is the peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coord import AGENT_DTYPE, Scenario, neighbour_counts, straight_step
from coord.neighbours import Crowd
from coord.world import World

if TYPE_CHECKING:
    from harness import Report

F32 = np.float32
AGENTS, AGENTS_MESA = 100_000, 10_000
SIDE_M = 1000.0
NEIGHBOURS = 8.0


class Job:
    """Places, speeds and targets; a new target comes from a fixed list."""

    def __init__(self, n: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.x, self.y = (rng.uniform(0, SIDE_M, n).astype(F32) for _ in range(2))
        self.tx, self.ty = (rng.uniform(0, SIDE_M, n).astype(F32) for _ in range(2))
        self.z, self.tz = np.zeros(n, F32), np.zeros(n, F32)
        self.speed = rng.uniform(0.1, 0.2, n).astype(F32)  # 1 to 2 m/s, ten ticks a second
        self.list = rng.uniform(0, SIDE_M, (2, 65536)).astype(F32)
        self.drawn = 0
        self.arrived = np.zeros(n, np.uint8)
        self.room = [np.empty(n, F32) for _ in range(4)]
        self.there = np.empty(n, np.bool_)

    def renew(self, rows: np.ndarray) -> None:
        """Other targets for those that are there."""
        at = (self.drawn + np.arange(len(rows))) % self.list.shape[1]
        self.drawn += len(rows)
        self.tx[rows], self.ty[rows] = self.list[0, at], self.list[1, at]

    def ours(self) -> None:
        """One tick with coord."""
        straight_step((self.x, self.y, self.z, self.speed), (self.tx, self.ty, self.tz), arrived=self.arrived)
        rows = np.flatnonzero(self.arrived.view(np.bool_))
        if len(rows):
            self.renew(rows)

    def numpys(self) -> None:
        """One tick with numpy: seventeen passes over columns, in place."""
        dx, dy, dz, share = self.room
        np.subtract(self.tx, self.x, out=dx)
        np.subtract(self.ty, self.y, out=dy)
        np.subtract(self.tz, self.z, out=dz)
        np.multiply(dx, dx, out=share)
        share += dy * dy if False else np.multiply(dy, dy, out=self.spare)
        share += np.multiply(dz, dz, out=self.spare)
        np.sqrt(share, out=share)
        np.less_equal(share, self.speed, out=self.there)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.divide(self.speed, share, out=share)
        for column, d in ((self.x, dx), (self.y, dy), (self.z, dz)):
            d *= share
            column += d
        rows = np.flatnonzero(self.there)
        if len(rows):
            self.x[rows], self.y[rows], self.z[rows] = self.tx[rows], self.ty[rows], self.tz[rows]
            self.renew(rows)
