"""What tests of coord share: hex blocks of the format pages, random fleets, and plans as comparable bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings

from coord import AGENT_DTYPE, KERNEL_DTYPE, OBSTACLE_DTYPE, ZONE_DTYPE, Grid, PlanConfig, Rings, plan
from coord.planning.plan import Plan
from coord.records import Records

settings.register_profile("untimed", deadline=None)  # a loaded machine is no failure
settings.load_profile("untimed")


@dataclass
class Fleet:
    """Inputs of a plan call."""

    agents: Records
    zones: Records
    obstacles: Records
    kernels: Records
    config: PlanConfig
    now_tick: int = 1000
    rings: Rings | None = None
    grid: Grid | None = None

    def plan(self) -> Plan:
        return plan(
            self.agents, self.zones, self.obstacles, self.kernels, self.config,
            now_tick=self.now_tick, rings=self.rings, grid=self.grid,
        )  # fmt: skip


@pytest.fixture(scope="session")
def make_fleet() -> Callable[..., Fleet]:
    """make_fleet(seed, agents, zones, rich=True): a random fleet; rich ones have every feature."""
    return random_fleet


def random_fleet(seed: int, n: int = 40, m: int = 40, *, rich: bool = True, **config: float) -> Fleet:
    rng = np.random.default_rng(seed)
    size = float(rng.choice([1, 60, 400, 3000])) if rich else 400.0
    agents, zones = np.zeros(n, AGENT_DTYPE), np.zeros(m, ZONE_DTYPE)
    agents["id"], zones["id"] = rng.permutation(3 * n)[:n], rng.permutation(3 * m)[:m]
    for table in (agents, zones):
        table["x"], table["y"] = rng.uniform(0, size, len(table)), rng.uniform(0, size, len(table))
    agents["speed"], agents["energy"], agents["memory_ticks"] = 1.5, 0.9, 50
    agents["last_seen_tick"], agents["zone"] = 1000, 0xFFFFFFFF
    zones["radius"], zones["priority"] = 0.5, rng.uniform(0, 2, m)
    zones["last_served_tick"] = rng.integers(0, 1000, m)
    kernels = np.zeros(20, KERNEL_DTYPE)
    kernels["id"], kernels["sigma"] = rng.permutation(20), rng.uniform(5, 60, 20)
    kernels["x"], kernels["y"], kernels["weight"] = (
        rng.uniform(-1, size, 20),
        rng.uniform(-1, size, 20),
        rng.uniform(-1, 1, 20),
    )
    obstacles, rings, grid = np.zeros(0, OBSTACLE_DTYPE), None, None
    if rich:
        zones["z"], zones["need_caps"] = rng.uniform(0, 5, m), rng.choice([0, 1, 2, 8], m, p=[0.6, 0.2, 0.15, 0.05])
        zones["energy_cost"] = rng.choice([0, 0.5], m)
        agents["speed"] = rng.choice([0, 1e-40, -1, 0.5, 1.5, 3], n, p=[0.03, 0.02, 0.02, 0.31, 0.31, 0.31])
        agents["energy"], agents["caps"] = rng.uniform(0, 1, n), rng.integers(0, 8, n)
        agents["last_seen_tick"] = rng.choice([1000, 990, 900, 1010], n, p=[0.8, 0.1, 0.05, 0.05])
        agents["mode"] = rng.choice(8, n, p=[0.5, 0.25, 0.12, 0.03, 0.03, 0.03, 0.02, 0.02])
        if m:
            agents["zone"] = rng.choice(np.append(zones["id"], 0xFFFFFFFF), n)
        obstacles = np.zeros(5, OBSTACLE_DTYPE)
        obstacles["id"], obstacles["kind"] = np.arange(5), [0, 1, 2, 1, 0]
        obstacles["x"], obstacles["y"] = rng.uniform(0, size, 5), rng.uniform(0, size, 5)
        obstacles["radius"], obstacles["half_y"] = rng.uniform(0, size / 10, 5), rng.uniform(0, size / 10, 5)
        obstacles["margin"], obstacles["ring"] = rng.choice([0, 1], 5), [0, 1, 0, 0, 0]
        rings = Rings.of([rng.uniform(0, size, (corners, 2)).tolist() for corners in (3, 5)])
        if seed % 3 == 1:
            grid = Grid(20, 20, size / 20, 0.0, 0.0, rng.random((20, 20)) < 0.3)
        config = {
            "w_travel": float(rng.choice([1, 0, -1, 1e6])),
            "w_switch": float(rng.choice([0.1, -0.1, 0])),
            "max_travel_ticks": int(rng.choice([1000, 50, 0, 2**32 - 1])),
            "k_candidates": int(rng.choice([1, 3, 24, 40])),
            "flags": int(rng.integers(0, 2)),
            **config,
        }
    return Fleet(agents, zones, obstacles, kernels, PlanConfig(**config), rings=rings, grid=grid)  # type: ignore[arg-type]
