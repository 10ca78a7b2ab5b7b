"""A planning problem as plain arrays: what the kernels and their twins work on.

Agents are those that may be planned (readiness 0, not withheld), ascending id; zones are those not withheld, ascending
id. Everywhere below an agent or a zone is its index here, so comparing indices compares ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coord.ground.obstacle import Shapes

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]

NONE = -1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Agents:
    """Fields of n agents; `current` is the index of the zone the agent has now, or -1; `component` 0 without a grid
    and off the free cells of one."""

    x: F32
    y: F32
    z: F32
    speed: F32
    energy: F32
    caps: U32
    component: U32
    current: I32

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Agents:
        """Some of the agents, in the order given."""
        return Agents(
            x=self.x[index], y=self.y[index], z=self.z[index], speed=self.speed[index], energy=self.energy[index],
            caps=self.caps[index], component=self.component[index], current=self.current[index],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Zones:
    """Fields of m zones; `base` is the part of the score that every agent shares; `component` as of agents, and 0 on
    a blocked cell; blocked is 1 where no agent may be sent."""

    x: F32
    y: F32
    z: F32
    radius: F32
    base: F32
    cost: F32
    need: U32
    component: U32
    blocked: U8

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: NDArray[np.intp] | I32) -> Zones:
        """Some of the zones, in the order given."""
        return Zones(
            x=self.x[index], y=self.y[index], z=self.z[index], radius=self.radius[index], base=self.base[index],
            cost=self.cost[index], need=self.need[index], component=self.component[index], blocked=self.blocked[index],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Problem:
    """Agents, zones and the settings that pair scores need; `shapes` only where the path is tested."""

    agents: Agents
    zones: Zones
    w_travel: np.float32
    w_switch: np.float32
    max_travel: int
    grid: bool
    shapes: Shapes | None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Each agent's best feasible zones, best first; row a holds count[a] entries, the rest are -1 and 0."""

    zone: I32  # [n, k]
    score: I32  # [n, k]
    count: U32  # [n]
