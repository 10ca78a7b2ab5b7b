"""Service and energy of one tick: float32, each operation rounded, in the order written here.

Source: `docs/formats/coord-scenario.md`, section "One tick", steps 4 and 5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.moving.motion import F32, distances
from coord.records import NO_ZONE, AgentMode, Records
from coord.simulation.setup import Motion

Rows = npt.NDArray[np.intp]

_IDLE, _TRAVELLING, _WORKING = AgentMode.IDLE, AgentMode.TRAVELLING, AgentMode.WORKING
_CHARGING = AgentMode.CHARGING


def serve(
    agents: Records,
    zones: Records,
    zone_row: Rows,  # [agents] row of each agent's zone, while it has one
    service_left: npt.NDArray[np.uint32],  # [agents] ticks of service left, changed in place
) -> Rows:  # rows of agents whose service ends in this tick, in the order in which they end
    """One tick of service: those that work go on; then those that have arrived begin.

    An agent may end a service that began in the same tick: in a zone of no service time.
    """
    working = np.flatnonzero(agents["mode"] == _WORKING)
    service_left[working] -= np.uint32(1)
    ended = working[service_left[working] == 0]
    rows = np.flatnonzero(agents["mode"] == _TRAVELLING)
    at = zone_row[rows]
    dx, dy, dz = (zones[axis][at] - agents[axis][rows] for axis in "xyz")  # fields, as whole records would be copied
    inside = distances(dx, dy, dz) <= zones["radius"][at]
    arrived = rows[inside]
    service_left[arrived] = zones["service_ticks"][at[inside]]
    agents["mode"][arrived] = _WORKING
    return np.concatenate([ended, arrived[service_left[arrived] == 0]])


def finished(
    agents: Records, zones: Records, zone_row: Rows, rows: Rows, tick: int
) -> Rows:  # rows of the zones, one an agent
    """End the services of `rows`: the zones are served at this tick, the agents idle without a zone."""
    done = zone_row[rows]
    zones["last_served_tick"][done] = tick
    agents["zone"][rows] = NO_ZONE
    agents["mode"][rows] = _IDLE
    return done


def charge(agents: Records, gone_m: npt.NDArray[np.float32], motion: Motion, min_energy: float) -> None:
    """Energy of motion is taken off, that of charging added; who is low begins to charge, who is full is idle."""
    energy = np.maximum(agents["energy"] - F32(motion.energy_per_m) * gone_m, F32(0))
    charging = agents["mode"] == _CHARGING
    energy = np.where(charging, np.minimum(energy + F32(motion.charge_per_tick), F32(1)), energy)
    agents["energy"] = energy
    full = charging & (energy >= F32(motion.charged_energy))
    agents["mode"][full] = _IDLE
    mobile = (agents["mode"] == _IDLE) | (agents["mode"] == _TRAVELLING)
    low = mobile & ~full & (energy < F32(min_energy))
    agents["mode"][low] = _CHARGING
    agents["zone"][low] = NO_ZONE
