"""Twin of the self-test (coord/kernels/selftest.cpp): the digest of every kernel, computed by the Python twins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coord.fields import field_ref
from coord.frames import crc_ref, frame_chain_ref
from coord.ground import grid_ref, obstacle_ref
from coord.ground.obstacle import Shapes
from coord.moving import motion_ref, neighbours_ref
from coord.planning import auction_ref, plan_ref
from coord.planning.problem import NONE, Agents, Problem, Zones
from coord.selftest_steps_ref import steps

_AGENTS, _ZONES, _KERNELS, _OBSTACLES, _CANDIDATES = 211, 197, 53, 7, 12
_WIDTH, _HEIGHT = 37, 29
_TRIPS, _HORIZON = 60, 9
_SIZE = 256.0
_WORD = 2**64 - 1
_NAMES = (
    "gaussian_terms", "field_points", "field_gradient", "field_by_cells",
    "blocked_points", "blocked_segments", "idle_norm", "zone_base",
    "candidates", "list_scores", "greedy", "swap", "auction", "pair_values", "leftover_status", "grid_components",
    "grid_paths", "straight_steps", "neighbours", "closest_pair", "grid_waves", "guide_paths", "pibt_step", "frame_crc",
    "check_frames",
)  # fmt: skip


class _Numbers:
    """splitmix64, and the numbers made from it."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        return (self.next() >> 33) % n

    def places(self, n: int, size: float) -> NDArray[np.float32]:
        return np.array([(self.next() >> 40) * (size / 16777216.0) for _ in range(n)], np.float32)

    def words(self, n: int, limit: int) -> NDArray[np.uint32]:
        return np.array([self.below(limit) for _ in range(n)], np.uint32)


def _fnv1a(data: bytes, value: int) -> int:
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & _WORD
    return value


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel of coord that is hashed here, by name."""
    hashes = dict.fromkeys(_NAMES, 0xCBF29CE484222325)

    def add(name: str, *values: NDArray[Any] | int) -> None:
        for value in values:
            data = value.to_bytes(8, "little") if isinstance(value, int) else value.tobytes()
            hashes[name] = _fnv1a(data, hashes[name])

    for round_ in range(3):
        _round(round_, add)
    steps(_Numbers, add)
    data = bytes((i * 7 + 3) & 0xFF for i in range(160))
    add("frame_crc", np.array([crc_ref.crc32c(data[i:]) for i in range(160)], np.uint32))
    add("check_frames", _frames())
    return {f"coord.{name}": f"{value:016x}" for name, value in hashes.items()}


def _frames() -> NDArray[np.uint32]:
    """What is found in a chain of frames with one changed byte, for each byte of a frame, and with none."""
    count, prev = 37, np.zeros(16, np.uint8)
    chain: list[bytearray] = []
    for i in range(count):
        frame = bytearray((at * 11 + i * 5) & 0xFF for at in range(80)) + bytes(48)
        frame[:16] = b"JDF1\1\0\0\0" + i.to_bytes(8, "little")
        frame[64:80] = prev.tobytes()
        chain.append(_sealed(frame))
        frame_chain_ref.check_frames(np.frombuffer(bytes(frame), np.uint8), None, True, False, 0, prev)
    found = []
    for at in range(129):
        frame = chain[at % count]
        whole = bytes(frame)
        frame[at % 128] ^= 0 if at == 128 else 9
        if at % 128 < 124:
            _sealed(frame)
        last = np.zeros(16, np.uint8)
        data = np.frombuffer(b"".join(chain), np.uint8)
        found += [*frame_chain_ref.check_frames(data, None, True, True, 0, last), *last.view("<u4").tolist()]
        frame[:] = whole
    return np.array(found, np.uint32)


def _sealed(frame: bytearray) -> bytearray:
    frame[124:] = crc_ref.crc32c(bytes(frame[:124])).to_bytes(4, "little")
    return frame


def _round(round_: int, add: Any) -> None:
    r = _Numbers(0x636F6F7264 + round_)
    zx, zy, zz = r.places(_ZONES, _SIZE), r.places(_ZONES, _SIZE), r.places(_ZONES, 2.0)
    kx, ky, sigma = r.places(_KERNELS, _SIZE), r.places(_KERNELS, _SIZE), r.places(_KERNELS, 32.0)
    weight = r.places(_KERNELS, 4.0)
    sigma, weight = sigma + np.float32(0.5), weight - np.float32(2.0)
    reach, inv = field_ref.gaussian_terms(sigma, np.float32(4.0))
    add("gaussian_terms", reach, inv)
    start = np.array([0, _KERNELS, _KERNELS + _KERNELS // 2], np.uint32)
    items = np.concatenate([np.arange(_KERNELS), 2 * np.arange(_KERNELS // 2)]).astype(np.uint32)
    cell = np.array([r.below(3) - 1 for _ in range(_ZONES)], np.int32)
    cover = field_ref.field_points(zx, zy, cell, start, items, kx, ky, reach, inv, weight)
    add("field_points", cover)
    add("field_gradient", field_ref.field_gradient(zx, zy, cell, start, items, kx, ky, reach, inv, weight))
    whole = (np.zeros(_ZONES, np.int32), np.array([0, _KERNELS], np.uint32), np.arange(_KERNELS, dtype=np.uint32))
    every = [
        made(zx, zy, *whole, kx, ky, reach, inv, weight) for made in (field_ref.field_points, field_ref.field_gradient)
    ]
    add("field_by_cells", *every)
    idle = np.array([_idle(r) for _ in range(_ZONES)], np.uint64)
    priority = r.places(_ZONES, 2.0)
    norm = plan_ref.idle_norm(idle, 70000001 * round_)
    add("idle_norm", norm)
    weights = np.array([3e38 if round_ == 2 else 1.0, 0.75, 0.5, 0.1], np.float32)
    base = plan_ref.zone_base(priority, norm, cover, np.full(_ZONES, 0.25, np.float32), weights)
    add("zone_base", base)

    ox, oy, half_x, half_y = (r.places(_OBSTACLES, size) for size in (_SIZE, _SIZE, 16.0, 16.0))
    margin, corners = r.places(_OBSTACLES, 4.0), r.places(6 * _OBSTACLES, _SIZE)
    kind = (np.arange(_OBSTACLES) % 3).astype(np.uint8)
    shapes = Shapes(
        kind=kind, x=ox, y=oy, half_x=half_x, half_y=half_y, reach=margin, corners=corners.reshape(-1, 2),
        first=np.where(kind == 1, 3 * np.arange(_OBSTACLES), 0).astype(np.uint32),
        count=np.where(kind == 1, 3, 0).astype(np.uint32),
    )  # fmt: skip
    blocked = obstacle_ref.blocked_points(zx, zy, shapes).astype(np.uint8)
    add("blocked_points", blocked)
    ax, ay, az = r.places(_AGENTS, _SIZE), r.places(_AGENTS, _SIZE), r.places(_AGENTS, 2.0)
    add("blocked_segments", obstacle_ref.blocked_segments(ax[:_ZONES], ay[:_ZONES], zx, zy, shapes).astype(np.uint8))

    speed, energy = r.places(_AGENTS, 2.0) + np.float32(0.125), r.places(_AGENTS, 1.0)
    caps, acomponent, zcomponent = r.words(_AGENTS, 8) | np.uint32(1), r.words(_AGENTS, 3), r.words(_ZONES, 3)
    if round_ == 2:
        blocked[zcomponent == 0] = 1
    current = np.array([r.below(_ZONES + 1) - 1 for _ in range(_AGENTS)], np.int32)
    radius, cost, need = r.places(_ZONES, 4.0), r.places(_ZONES, 0.5), r.words(_ZONES, 4)
    problem = Problem(
        agents=Agents(x=ax, y=ay, z=az, speed=speed, energy=energy, caps=caps, component=acomponent, current=current),
        zones=Zones(
            x=zx, y=zy, z=zz, radius=radius, base=base, cost=cost, need=need, component=zcomponent, blocked=blocked
        ),
        w_travel=np.float32(1.0),
        w_switch=np.float32(0.1),
        max_travel=1000 if round_ == 0 else 150,
        grid=round_ == 2,
        shapes=shapes if round_ == 1 else None,
    )
    _plan(problem, add)
    wall = np.array([r.below(100) < 30 + 10 * round_ for _ in range(_WIDTH * _HEIGHT)]).reshape(_HEIGHT, _WIDTH)
    add("grid_components", grid_ref.grid_components(wall))
    _ways(wall, r, add)
    _moves((ax, ay, az), speed, (zx, zy, zz), round_, add)


def _ways(wall: NDArray[np.bool_], r: _Numbers, add: Any) -> None:
    bordered = np.pad(wall, 1, constant_values=True)
    seen = np.where(bordered.reshape(-1), np.uint32(motion_ref.BLOCKED), np.uint32(0))
    start = np.array([r.below(len(seen)) for _ in range(_TRIPS)], np.int32)
    goal = np.array([r.below(len(seen)) for _ in range(_TRIPS)], np.int32)
    directions, length = np.zeros((_TRIPS, _HORIZON), np.uint8), np.zeros(_TRIPS, np.int32)
    motion_ref.grid_paths(seen, _WIDTH + 2, start, goal, directions, length)
    add("grid_paths", directions, length)


def _moves(
    agents: tuple[NDArray[np.float32], ...],
    speed: NDArray[np.float32],
    zones: tuple[NDArray[np.float32], ...],
    round_: int,
    add: Any,
) -> None:
    x, y, z = (column[:_ZONES] for column in agents)
    (x, y, z), gone, arrived = motion_ref.straight_steps((x, y, z), speed[:_ZONES], (zones[0], zones[1], zones[2]))
    third = slice(None, None, 3)
    again, _, _ = motion_ref.straight_steps(
        (x[third], y[third], z[third]), speed[:_ZONES][third], (zones[0][third], zones[1][third], zones[2][third])
    )
    for column, whole, moved in zip((x, y, z), agents, again, strict=True):
        column[third] = moved
        add("straight_steps", np.concatenate([column, whole[_ZONES:]]))
    add("straight_steps", gone, np.flatnonzero(arrived).astype(np.int64))
    points = (zones[0], zones[1], None if round_ == 0 else zones[2])
    radius = np.float32(8 + 8 * round_)
    add("neighbours", neighbours_ref.neighbour_counts(*points, radius))
    add("neighbours", neighbours_ref.neighbour_lists(*points, radius))
    square, first, second = neighbours_ref.closest_pair(*points)
    add("closest_pair", np.array([square], np.float32), np.array([first, second], np.uint32))


def _idle(r: _Numbers) -> int:
    word = r.next()
    return word >> (20 + r.below(40))


def _plan(problem: Problem, add: Any) -> None:
    found = plan_ref.candidates(problem, _CANDIDATES)
    add("candidates", found.zone, found.score, found.count)
    add("list_scores", plan_ref.list_scores(problem, found).score)
    assigned = plan_ref.greedy(problem)
    add("greedy", assigned, assigned)
    for budget in (500, 0):
        improved, tests, bound = plan_ref.swap(problem, found, assigned, budget)
        add("swap", tests, int(bound), improved)
    for budget in (300, 3000):
        sold = auction_ref.auction(problem, _CANDIDATES, auction_ref.IDLE_LOWEST, budget, False)
        add("auction", sold.worth, sold.bound, sold.bids, int(sold.bound_reached), sold.assigned)
    score, travel, saturated = plan_ref.pair_values(problem, assigned)
    add("pair_values", score, travel, saturated.astype(np.uint8))
    taken = np.zeros(_ZONES, np.uint8)
    taken[assigned[assigned != NONE]] = 1
    add("leftover_status", plan_ref.leftover_status(problem, problem.agents, taken))
