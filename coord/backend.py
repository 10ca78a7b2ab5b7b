"""The one place that decides between kernels and twins: DROVEWAY_ISA=ref runs the twins, else `_kernels` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coord.fields import field_ref
from coord.frames import crc_ref, frame_chain_ref
from coord.ground import grid_ref, obstacle_ref
from coord.ground.obstacle import Shapes
from coord.moving import motion_ref, neighbours_ref, pibt_ref
from coord.planning import auction_ref, plan_ref
from coord.planning.problem import F32, I32, U8, U32, Agents, Candidates, Problem
from tensor._source_folder import load_kernels

_kernels = load_kernels("coord")
ISA: str = _kernels.isa()
REFERENCE = ISA == "ref"

Mask = NDArray[np.bool_]


def _shape_arrays(shapes: Shapes) -> tuple[Any, ...]:
    s = shapes
    return (s.kind, s.x, s.y, s.half_x, s.half_y, s.reach, s.first, s.count, s.corners.reshape(-1))


def _arguments(problem: Problem, agents: Agents | None = None) -> tuple[Any, ...]:
    a, z = problem.agents if agents is None else agents, problem.zones
    return (
        (a.x, a.y, a.z, a.speed, a.energy, a.caps, a.component, a.current),
        (z.x, z.y, z.z, z.radius, z.base, z.cost, z.need, z.component, z.blocked),
        float(problem.w_travel),
        float(problem.w_switch),
        problem.max_travel,
        problem.grid,
        None if problem.shapes is None else _shape_arrays(problem.shapes),
    )


_take: ContextVar[Callable[[int, int], I32] | None] = ContextVar("lists lent to this thread's plan", default=None)


def scratch_bytes(agents: int, zones: int, obstacles: int) -> int:
    """What the kernels of a plan need at most at a time; the twins need nothing of it."""
    return 0 if REFERENCE else int(_kernels.scratch_bytes(agents, zones, obstacles))


@contextmanager
def lending(scratch: U8, take: Callable[[int, int], I32]) -> Iterator[None]:
    """Within, this thread's kernels work in `scratch` and lists of candidates come from `take(rows, columns)`."""
    before = _take.set(take)
    if not REFERENCE:
        _kernels.lend(scratch)
    try:
        yield
    finally:
        _take.reset(before)
        if not REFERENCE:
            _kernels.lend(None)


def _list(rows: int, columns: int) -> I32:
    take = _take.get()
    return np.empty((rows, columns), np.int32) if take is None else take(rows, columns)


def candidates(problem: Problem, k: int) -> Candidates:
    """The k best feasible zones of each agent, best first; k ≤ 256."""
    if REFERENCE:
        return plan_ref.candidates(problem, k)
    n, k = len(problem.agents), min(k, len(problem.zones))
    found = Candidates(_list(n, k), _list(n, k), np.zeros(n, np.uint32))
    _kernels.candidates(*_arguments(problem), found.zone, found.score, found.count)
    return found


def list_scores(problem: Problem, found: Candidates) -> Candidates:
    """The same zones with the scores of this problem."""
    if REFERENCE:
        return plan_ref.list_scores(problem, found)
    score = _list(*found.zone.shape)
    _kernels.list_scores(*_arguments(problem), found.zone, found.count, score)
    return Candidates(found.zone, score, found.count)


def greedy(problem: Problem, found: Candidates | None = None) -> I32:
    """The greedy assignment; candidates already found only save time."""
    if REFERENCE:
        return plan_ref.greedy(problem)
    assigned = np.empty(len(problem.agents), np.int32)
    _kernels.greedy(*_arguments(problem), None if found is None else (found.zone, found.count), assigned)
    return assigned


def swap(
    problem: Problem, found: Candidates, start: I32, budget: int, sweeps: int = plan_ref.SWEEPS_MAX
) -> tuple[I32, int, bool]:
    """(assignment, tests, whether a bound ended the sweeps), starting from an assignment that stays as it is."""
    if REFERENCE:
        return plan_ref.swap(problem, found, start, budget, sweeps)
    assigned = start.copy()
    tests, bound = _kernels.swap(*_arguments(problem), found.zone, found.score, found.count, sweeps, budget, assigned)
    return assigned, tests, bound


def auction(problem: Problem, k_candidates: int, idle: int, budget: int, endless: bool) -> auction_ref.AuctionResult:
    """The auction of a problem; see auction_ref.auction."""
    if REFERENCE:
        return auction_ref.auction(problem, k_candidates, idle, budget, endless)
    assigned = np.empty(len(problem.agents), np.int32)
    out = _kernels.auction(*_arguments(problem), k_candidates, idle, budget, endless, assigned)
    return auction_ref.AuctionResult(assigned, *out)


def pair_values(problem: Problem, assigned: I32) -> tuple[I32, U32, Mask]:
    """(score, travel, saturated) of each agent with its zone."""
    if REFERENCE:
        return plan_ref.pair_values(problem, assigned)
    n = len(assigned)
    score, travel, saturated = np.empty(n, np.int32), np.empty(n, np.uint32), np.empty(n, np.uint8)
    _kernels.pair_values(*_arguments(problem), assigned, score, travel, saturated)
    return score, travel, saturated.astype(np.bool_)


def leftover_status(problem: Problem, agents: Agents, taken: U8) -> U8:
    """Status of agents that have neither a zone nor a failure of their own."""
    if REFERENCE:
        return plan_ref.leftover_status(problem, agents, taken)
    status = np.empty(len(agents), np.uint8)
    _kernels.leftover_status(*_arguments(problem, agents), taken, status)
    return status


def idle_norm(idle: NDArray[np.uint64], cap: int) -> F32:
    """min(idle, cap) / cap, 0 when cap is 0."""
    if REFERENCE:
        return plan_ref.idle_norm(idle, cap)
    out = np.empty(len(idle), np.float32)
    _kernels.idle_norm(idle, cap, out)
    return out


def zone_base(priority: F32, idle: F32, cover: F32, avoid: F32, weights: F32) -> F32:
    """The part of each zone's score that all agents share."""
    if REFERENCE:
        return plan_ref.zone_base(priority, idle, cover, avoid, weights)
    out = np.empty(len(priority), np.float32)
    _kernels.zone_base(priority, idle, cover, avoid, weights, out)
    return out


def blocked_points(x: F32, y: F32, shapes: Shapes) -> Mask:
    """Whether each point lies within reach of an obstacle."""
    if REFERENCE:
        return obstacle_ref.blocked_points(x, y, shapes)
    if len(shapes) == 0:
        return np.zeros(len(x), np.bool_)
    out = np.empty(len(x), np.uint8)
    _kernels.blocked_points(x, y, _shape_arrays(shapes), out)
    return out.astype(np.bool_)


def blocked_segments(ax: F32, ay: F32, bx: F32, by: F32, shapes: Shapes) -> Mask:
    """Whether each segment from a to b comes within reach of an obstacle."""
    if REFERENCE:
        return obstacle_ref.blocked_segments(ax, ay, bx, by, shapes)
    out = np.empty(len(ax), np.uint8)
    _kernels.blocked_segments(ax, ay, bx, by, _shape_arrays(shapes), out)
    return out.astype(np.bool_)


def grid_components(blocked: Mask) -> U32:
    """The 4-connected region of each free cell, 0 where blocked."""
    if REFERENCE:
        return grid_ref.grid_components(blocked)
    label = np.empty(blocked.shape, np.uint32)
    _kernels.grid_components(blocked.view(np.uint8), label, np.empty(blocked.size, np.uint32))
    return label


def gaussian_terms(sigma: F32, cutoff: np.float32) -> tuple[F32, F32]:
    """(c·c, 1 / (2·sigma²)) of each kernel."""
    if REFERENCE:
        return field_ref.gaussian_terms(sigma, cutoff)
    reach, inv = np.empty(len(sigma), np.float32), np.empty(len(sigma), np.float32)
    _kernels.gaussian_terms(sigma, float(cutoff), reach, inv)
    return reach, inv


def field_points(
    x: F32, y: F32, cell: I32, start: U32, items: U32, kx: F32, ky: F32, reach: F32, inv: F32, weight: F32
) -> F32:
    """The field at each point; see field_ref.field_points for the arguments."""
    if REFERENCE:
        return field_ref.field_points(x, y, cell, start, items, kx, ky, reach, inv, weight)
    out = np.empty(len(x), np.float32)
    _kernels.field_points(x, y, cell, start, items, kx, ky, reach, inv, weight, out)
    return out


def field_gradient(
    x: F32, y: F32, cell: I32, start: U32, items: U32, kx: F32, ky: F32, reach: F32, inv: F32, weight: F32
) -> F32:
    """The field's derivatives by x and y at each point, [n, 2]; see field_ref.field_gradient."""
    if REFERENCE:
        return field_ref.field_gradient(x, y, cell, start, items, kx, ky, reach, inv, weight)
    out = np.empty(2 * len(x), np.float32)
    _kernels.field_gradient(x, y, cell, start, items, kx, ky, reach, inv, weight, out)
    return out.reshape(-1, 2)


def field_by_cells(x: F32, y: F32, kx: F32, ky: F32, reach: F32, inv: F32, weight: F32) -> F32:
    """The field of all kernels at each point, the kernels in range found by a grid of cells."""
    if REFERENCE:
        return field_ref.field_points(x, y, *field_ref.cells(x, y, kx, ky, reach), kx, ky, reach, inv, weight)
    out = np.empty(len(x), np.float32)
    _kernels.field_by_cells(x, y, kx, ky, reach, inv, weight, out)
    return out


def gradient_by_cells(x: F32, y: F32, kx: F32, ky: F32, reach: F32, inv: F32, weight: F32) -> F32:
    """The derivatives of `field_by_cells`, [n, 2]."""
    if REFERENCE:
        return field_ref.field_gradient(x, y, *field_ref.cells(x, y, kx, ky, reach), kx, ky, reach, inv, weight)
    out = np.empty(2 * len(x), np.float32)
    _kernels.gradient_by_cells(x, y, kx, ky, reach, inv, weight, out)
    return out.reshape(-1, 2)


def grid_paths(
    seen: U32, entered: U8, queue: I32, width: int, start: I32, goal: I32, generation: int, directions: U8, length: I32
) -> None:
    """Shortest paths on a bordered grid; see motion_ref.grid_paths. `generation` is above all free of `seen`."""
    if REFERENCE:
        motion_ref.grid_paths(seen, width, start, goal, directions, length)
    else:
        _kernels.grid_paths(seen, entered, queue, width, start, goal, generation, directions, length)


def check_frames(
    data: U8, offsets: NDArray[np.uint64] | None, chained: bool, known: bool, number: int, prev: U8
) -> tuple[int, int]:
    """(index of the first frame that breaks a rule, which rule), or (number of frames, 0); see frame_chain_ref."""
    if REFERENCE:
        return frame_chain_ref.check_frames(data, offsets, chained, known, number, prev)
    index, code = _kernels.check_frames(data, offsets, chained, known, number, prev)
    return index, code


def straight_steps(
    position: tuple[F32, F32, F32],
    speed: F32,
    goal: tuple[F32, F32, F32],
    rows: NDArray[np.int64] | None,
    gone: F32 | None,
    arrived: NDArray[np.int64] | None,
) -> int:
    """Moves positions in place, of all agents or of `rows`; see motion_ref.straight_steps. How many rows arrived."""
    if not REFERENCE:
        count: int = _kernels.straight_steps(*position, speed, *goal, rows, gone, arrived)
        return count
    some = slice(None) if rows is None else rows
    moved, metres, there = motion_ref.straight_steps(
        (position[0][some], position[1][some], position[2][some]),
        speed[some],
        (goal[0][some], goal[1][some], goal[2][some]),
    )
    for axis in range(3):
        position[axis][some] = moved[axis]
    if gone is not None:
        gone[:] = metres
    if arrived is None:
        return 0
    at = np.flatnonzero(there) if rows is None else rows[there]
    arrived[: len(at)] = at
    return len(at)


def _crowd_order(x: F32, y: F32) -> U32:
    order = np.empty(len(x), np.uint32)
    _kernels.crowd_order(x, y, order)
    return order


def neighbour_counts(x: F32, y: F32, z: F32 | None, radius: np.float32, limit: int) -> U32 | None:
    """Neighbours of each point, None where there are more than `limit` in all."""
    if REFERENCE:
        counts = neighbours_ref.neighbour_counts(x, y, z, radius)
        return counts if int(counts.sum(dtype=np.uint64)) <= limit else None
    out = np.empty(len(x), np.uint32)
    if len(x) == 0:
        return out
    total: int = _kernels.neighbour_counts(x, y, z, None, float(radius), limit, out)
    return out if total <= limit else None


def neighbour_lists(x: F32, y: F32, z: F32 | None, radius: np.float32, start: U32) -> U32:
    """The neighbours of each point, ascending; those of point i begin at start[i]."""
    if REFERENCE:
        return neighbours_ref.neighbour_lists(x, y, z, radius)
    index = np.empty(int(start[-1]), np.uint32)
    if len(x) != 0:
        _kernels.neighbour_lists(x, y, z, None, float(radius), start, index)
    return index


def closest_pair(x: F32, y: F32, z: F32 | None) -> tuple[np.float32, int, int]:
    """(square distance, i, j) of the closest pair of at least two points."""
    if REFERENCE:
        return neighbours_ref.closest_pair(x, y, z)
    square, first, second = _kernels.closest_pair(x, y, z, _crowd_order(x, y))
    return np.float32(square), first, second


def crc32c(data: bytes) -> int:
    """CRC-32C of the bytes of a decision frame.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    found: int = crc_ref.crc32c(data) if ISA == "ref" else _kernels.frame_crc(data)
    return found


def grid_waves(
    free: NDArray[np.uint64], width: int, cells: int, start: I32, goal: I32, bits: NDArray[np.uint64], length: I32
) -> None:
    """Distances to goals as one bit a cell; see pibt_ref.grid_waves."""
    if REFERENCE:
        pibt_ref.grid_waves(free, width, cells, start, goal, bits, length)
    else:
        _kernels.grid_waves(free, width, cells, start, goal, bits, length)


def pibt_step(
    exits: U8,
    width: int,
    bits: NDArray[np.uint64],
    now: I32,
    goal: I32,
    row: I32,
    order: I32,
    swaps: U8,
    guide: tuple[I32, NDArray[np.int64]] | None,
    salt: int,
    to: I32,
) -> tuple[bool, int]:
    """(whether everybody has a cell, value) of one conflict-free step, written to `to`; see pibt_ref.Step."""
    if not REFERENCE:
        done, value = _kernels.pibt_step(exits, width, bits, now, goal, row, order, swaps, guide, salt, to)
        return bool(done), int(value)
    step = pibt_ref.Step(exits, width, bits, now, goal, row, order, swaps, guide, salt, to.tolist())
    done = step.run()
    to[:] = step.to
    return done, step.value() if done else 0


def guide_paths(
    exits: U8,
    width: int,
    bits: NDArray[np.uint64],
    costs: tuple[int, int, int],
    start: I32,
    goal: I32,
    length: I32,
    order: I32,
    slabs: int,
    path: I32,
    path_start: NDArray[np.int64],
) -> None:
    """Shortest paths that avoid each other; see pibt_ref.guide_paths."""
    if REFERENCE:
        pibt_ref.guide_paths(exits, width, bits, costs, start, goal, length, order, slabs, path, path_start)
        return
    leaving = np.zeros((slabs, len(exits)), np.uint16)
    _kernels.guide_paths(
        exits, width, bits, np.array(costs, np.uint32), start, goal, length, order, leaving, path, path_start
    )
