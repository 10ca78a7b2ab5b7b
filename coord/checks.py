"""Input checks of a plan call: the first bad value raises BadInput with table, row and field; nothing is planned.

Rows are named as the caller passed them. Float tests work on the values' bits, so no floating-point mode of the
host can change what is accepted. The checks of tables return the order that sorts them by id, None where they are
sorted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coord.errors import BadInput, PlannerError
from coord.ground.rings import Rings
from coord.records import CONFIG_DTYPE, Records, check_reserved

TICK_MAX = 2**64 - 1
K_CANDIDATES_MAX = 256  # what a search keeps on its stack
EXTERNAL = 4  # somebody else's code
PLANNERS = {0: "greedy", 1: "swap", 2: "auction", 3: "exact", EXTERNAL: "external"}
POSITION_BITS = np.float32(2.0**20).view(np.uint32)
_INFINITY_BITS = np.uint32(0x7F800000)


Order = NDArray[np.intp]


def magnitude(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bits of |value|: they order as the magnitudes do, infinity and NaN above every finite value."""
    return np.ascontiguousarray(values).view(np.uint32) & np.uint32(0x7FFFFFFF)


def _bits(value: float) -> np.uint32:
    return np.float32(value).view(np.uint32)


def _refuse(records: Records, table: str, field: str, bad: NDArray[np.bool_], rule: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value: Any = records[field][row]
        identity = f" (id {int(records['id'][row])})" if "id" in (records.dtype.names or ()) else ""
        raise BadInput(table, None if table == "config" else row, field, f"{rule}, got {value}{identity}")


def _finite(records: Records, table: str, *names: str) -> None:
    for name in names:
        _refuse(records, table, name, magnitude(records[name]) >= _INFINITY_BITS, "must be finite")


def _positions(records: Records, table: str, *names: str) -> None:
    for name in names:
        size = magnitude(records[name])
        _refuse(records, table, name, size > POSITION_BITS, "must be finite and within 2^20 m")


def _lengths(records: Records, table: str, *names: str) -> None:
    for name in names:
        bits = np.ascontiguousarray(records[name]).view(np.uint32)
        bad = (bits > POSITION_BITS) & (bits != 0x80000000)
        _refuse(records, table, name, bad, "must be from 0 to 2^20 m")


def order_of_ids(records: Records, table: str) -> Order | None:
    """The order that sorts the rows by id, None where they are sorted; BadInput naming both rows of a repeated id."""
    ids = records["id"]
    if len(ids) < 2 or bool((ids[1:] > ids[:-1]).all()):
        return None
    order = np.argsort(ids)
    if bool((ids[order[1:]] == ids[order[:-1]]).any()):
        order = np.argsort(ids, kind="stable")
        again = int(np.flatnonzero(ids[order[1:]] == ids[order[:-1]])[0])
        first, second = int(order[again]), int(order[again + 1])
        raise BadInput(table, second, "id", f"must be unique, got {int(ids[second])} as in {table}[{first}]")
    return order


def check_agents(agents: Records) -> Order | None:
    """Positions within 2^20 m, speed finite, energy 0..1, ids unique, reserved zero."""
    table = "agents"
    check_reserved(agents, table)
    _positions(agents, table, "x", "y", "z")
    _finite(agents, table, "speed")
    energy = np.ascontiguousarray(agents["energy"]).view(np.uint32)
    _refuse(agents, table, "energy", (energy > _bits(1.0)) & (energy != 0x80000000), "must be from 0 to 1")
    return order_of_ids(agents, table)


def check_zones(zones: Records) -> Order | None:
    """Positions within 2^20 m, radius 0..2^20 m, priority and energy cost finite, ids unique, reserved zero."""
    table = "zones"
    check_reserved(zones, table)
    _positions(zones, table, "x", "y", "z")
    _lengths(zones, table, "radius")
    _finite(zones, table, "priority", "energy_cost")
    _refuse(zones, table, "id", zones["id"] == 0xFFFFFFFF, "must not be the id that means no zone")
    return order_of_ids(zones, table)


def check_obstacles(obstacles: Records, rings: Rings) -> Order | None:
    """Kinds known, lengths 0..2^20 m, a polygon's ring in the table and 0 elsewhere, ids unique, reserved zero."""
    table = "obstacles"
    if len(obstacles) == 0:
        return None
    check_reserved(obstacles, table)
    _refuse(obstacles, table, "kind", obstacles["kind"] > 2, "must be 0 circle, 1 polygon or 2 box")
    _positions(obstacles, table, "x", "y")
    _lengths(obstacles, table, "radius", "half_y", "margin")
    polygon = obstacles["kind"] == 1
    outside = polygon & (obstacles["ring"] >= len(rings))
    _refuse(obstacles, table, "ring", outside, f"must be below the number of rings, {len(rings)}")
    _refuse(obstacles, table, "ring", ~polygon & (obstacles["ring"] != 0), "must be 0 where the kind is no polygon")
    return order_of_ids(obstacles, table)


def check_kernels(kernels: Records) -> Order | None:
    """2^-10 ≤ sigma ≤ 2^20, weight 0 or 2^-64 ≤ |weight| ≤ 2^64, kinds known, ids unique, reserved zero."""
    table = "kernels"
    if len(kernels) == 0:
        return None
    check_reserved(kernels, table)
    _positions(kernels, table, "x", "y")
    sigma = np.ascontiguousarray(kernels["sigma"]).view(np.uint32)
    bad = (sigma < _bits(2.0**-10)) | (sigma > POSITION_BITS)
    _refuse(kernels, table, "sigma", bad, "must be from 2^-10 to 2^20 m")
    weight = magnitude(kernels["weight"])
    bad = (weight != 0) & ((weight < _bits(2.0**-64)) | (weight > _bits(2.0**64)))
    _refuse(kernels, table, "weight", bad, "must be 0 or from 2^-64 to 2^64 in magnitude")
    _refuse(kernels, table, "kind", kernels["kind"] > 2, "must be 0 hand-made, 1 learned or 2 imported")
    return order_of_ids(kernels, table)


def check_config(config: Records) -> None:
    """Weights finite, cutoff in (0, 8], at least one candidate, known flags and planner, reserved zero."""
    table = "config"
    if not isinstance(config, np.ndarray):
        raise TypeError(f"config must be a PlanConfig or CONFIG_DTYPE[1], got {type(config).__name__}")
    if config.dtype != CONFIG_DTYPE or config.shape != (1,):
        raise TypeError(f"config must be a PlanConfig or CONFIG_DTYPE[1], got {config.dtype} with shape {config.shape}")
    if _plainly_good(config[0]):
        return
    check_reserved(config, table)
    _finite(config, table, "w_priority", "w_idle", "w_cover", "w_avoid", "w_travel", "w_switch", "min_energy")
    cutoff = np.ascontiguousarray(config["cutoff_sigmas"]).view(np.uint32)
    _refuse(config, table, "cutoff_sigmas", (cutoff == 0) | (cutoff > _bits(8.0)), "must be above 0 and at most 8")
    k = config["k_candidates"]
    _refuse(config, table, "k_candidates", (k == 0) | (k > K_CANDIDATES_MAX), f"must be from 1 to {K_CANDIDATES_MAX}")
    _refuse(config, table, "flags", config["flags"] > 15, "must have no bit above 3")
    check_planner(int(config["planner"][0]))


def _plainly_good(row: Any) -> bool:
    """Whether a config is good by its values as Python's numbers; one that is not may still be."""
    weights = ("w_priority", "w_idle", "w_cover", "w_avoid", "w_travel", "w_switch", "min_energy")
    return (
        all(math.isfinite(row[name]) for name in weights)
        and 0.0 < row["cutoff_sigmas"] <= 8.0
        and 0 < row["k_candidates"] <= K_CANDIDATES_MAX
        and row["flags"] <= 15
        and int(row["planner"]) in PLANNERS
        and not row["reserved"].any()
    )


def check_planner(code: int) -> None:
    """PlannerError unless this version has the planner."""
    if code not in PLANNERS:
        known = ", ".join(f"{number} {name}" for number, name in PLANNERS.items())
        raise PlannerError(f"config.planner must be one of the planners that exist ({known}), got {code}")


def check_tick(now_tick: int) -> None:
    """BadInput unless now_tick is a u64."""
    if isinstance(now_tick, bool) or not isinstance(now_tick, (int, np.integer)) or not 0 <= now_tick <= TICK_MAX:
        raise BadInput("now_tick", None, "", f"must be a whole number from 0 to 2^64 - 1, got {now_tick!r}")
