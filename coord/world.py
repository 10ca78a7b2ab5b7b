"""The state of a fleet between ticks, and what one tick does to it, in a fixed order.

Source: `docs/formats/coord-scenario.md`, section "One tick". Nothing here knows of files, clocks or the ledger.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.inputs import Inputs
from coord.motion import F32, GridPaths, can_move, distances, straight_steps
from coord.plan import Plan, plan
from coord.records import NO_ZONE, AgentMode
from coord.rings import Rings
from coord.setup import Setup
from tensor.float_mode import plain_mode

Records = npt.NDArray[np.void]

_IDLE, _TRAVELLING, _WORKING = AgentMode.IDLE, AgentMode.TRAVELLING, AgentMode.WORKING
_CHARGING, _OFFLINE = AgentMode.CHARGING, AgentMode.OFFLINE


class World:
    """One fleet at one tick.

    A tick is `plan_tick` (at ticks that `every_ticks` divides), `assign` with its rows, then `advance`. The arrays of
    `inputs` are the state; besides them a world keeps only what its motion needs (ways, service time left).
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.tick = 0
        rings = setup.rings or Rings.empty()
        self.inputs = Inputs(
            agents=setup.agents.copy(),
            zones=setup.zones.copy(),
            obstacles=setup.obstacles,
            kernels=setup.kernels,
            config=setup.config.encode(),
            rings=rings.table.tobytes() + np.ascontiguousarray(rings.points, "<f4").tobytes(),
            ring_count=len(rings),
            grid=b"" if setup.grid is None else setup.grid.encode(),
        )
        agents = self.inputs.agents
        self.service_left = np.zeros(len(agents), np.uint32)
        self._zone_row = np.zeros(len(agents), np.intp)  # row of the agent's zone, while it has one
        self.visited = np.zeros(len(self.inputs.zones), np.bool_)  # zones served at least once
        self.served = 0  # services completed
        self.cell_conflicts = 0  # agents beyond the first in a cell, summed over ticks
        self._paths = None if setup.grid is None else GridPaths(setup.grid, agents["x"], agents["y"])

    def is_planned(self) -> bool:
        """Whether a plan is made at this tick."""
        return self.tick % self.setup.every_ticks == 0

    def plan_tick(self) -> Plan:
        """The plan for the state of this tick. Raises BadInput."""
        now = self.inputs
        return plan(
            now.agents, now.zones, now.obstacles, now.kernels, self.setup.config,
            now_tick=self.tick, rings=self.setup.rings, grid=self.setup.grid,
        )  # fmt: skip

    @plain_mode()
    def assign(self, rows: Records) -> None:
        """Give each agent the zone of its row (queue_index 0); idle and travelling agents become one or the other."""
        agents = self.inputs.agents
        rows = rows[rows["queue_index"] == 0]
        assert len(rows) == len(agents), "one row an agent"
        free = (agents["mode"] == _IDLE) | (agents["mode"] == _TRAVELLING)
        zone = np.where(free, rows["zone"], agents["zone"])
        changed = free & (zone != agents["zone"])
        agents["zone"] = zone
        agents["mode"] = np.where(free, np.where(zone == NO_ZONE, _IDLE, _TRAVELLING), agents["mode"]).astype(np.uint8)
        started = np.flatnonzero(changed & (zone != NO_ZONE))
        self._zone_row[started] = np.searchsorted(self.inputs.zones["id"], zone[started])
        if self._paths is not None and len(started):
            target = self.inputs.zones[self._zone_row[started]]
            self._paths.set_goals(started, target["x"], target["y"])

    @plain_mode()
    def advance(self) -> None:
        """Motion, service, energy; then the tick is over."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gone = self._move()
            self._serve()
            self._charge(gone)
        agents = self.inputs.agents
        agents["last_seen_tick"][agents["mode"] != _OFFLINE] = self.tick
        self.tick += 1

    def _move(self) -> npt.NDArray[np.float32]:
        agents = self.inputs.agents
        travelling = agents["mode"] == _TRAVELLING
        gone = np.zeros(len(agents), np.float32)
        rows = np.flatnonzero(travelling & can_move(agents["speed"]))
        if self._paths is None:
            target = self.inputs.zones[self._zone_row[rows]]
            position = np.stack([agents[axis][rows] for axis in "xyz"], axis=1)
            goal = np.stack([target[axis] for axis in "xyz"], axis=1)
            moved, gone[rows] = straight_steps(position, goal, agents["speed"][rows])
            for index, axis in enumerate("xyz"):
                agents[axis][rows] = moved[:, index]
            return gone
        self._paths.stop(~travelling)
        steps = self._paths.advance(rows, agents["speed"][rows])
        movers = rows[steps > 0]
        centres = self._paths.centres(movers)
        agents["x"][movers], agents["y"][movers] = centres[:, 0], centres[:, 1]
        gone[rows] = steps.astype(np.float32) * F32(self._paths.cell_m)
        self.cell_conflicts += self._paths.sharing()
        return gone

    def _serve(self) -> None:
        agents, zones = self.inputs.agents, self.inputs.zones
        working = np.flatnonzero(agents["mode"] == _WORKING)
        self.service_left[working] -= np.uint32(1)
        self._finish(working[self.service_left[working] == 0])
        rows = np.flatnonzero(agents["mode"] == _TRAVELLING)
        target = zones[self._zone_row[rows]]
        apart = distances(
            target["x"] - agents["x"][rows], target["y"] - agents["y"][rows], target["z"] - agents["z"][rows]
        )
        inside = apart <= target["radius"]
        arrived = rows[inside]
        self.service_left[arrived] = target["service_ticks"][inside]
        agents["mode"][arrived] = _WORKING
        self._finish(arrived[self.service_left[arrived] == 0])

    def _finish(self, rows: npt.NDArray[np.intp]) -> None:
        agents, zones = self.inputs.agents, self.inputs.zones
        done = self._zone_row[rows]
        zones["last_served_tick"][done] = self.tick
        self.visited[done] = True
        self.served += len(done)
        agents["zone"][rows] = NO_ZONE
        agents["mode"][rows] = _IDLE

    def _charge(self, gone: npt.NDArray[np.float32]) -> None:
        agents, motion = self.inputs.agents, self.setup.motion
        energy = np.maximum(agents["energy"] - F32(motion.energy_per_m) * gone, F32(0))
        charging = agents["mode"] == _CHARGING
        energy = np.where(charging, np.minimum(energy + F32(motion.charge_per_tick), F32(1)), energy)
        agents["energy"] = energy
        full = charging & (energy >= F32(motion.charged_energy))
        agents["mode"][full] = _IDLE
        mobile = (agents["mode"] == _IDLE) | (agents["mode"] == _TRAVELLING)
        low = mobile & ~full & (energy < F32(self.setup.config.min_energy))
        agents["mode"][low] = _CHARGING
        agents["zone"][low] = NO_ZONE
