"""The readable twins of `kernels/motion.cpp` and `kernels/step.cpp`: shortest paths on a grid, straight steps."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
BLOCKED = 0xFFFFFFFF
NORMAL_MIN = np.finfo(np.float32).tiny
_ZERO, _NAN = np.float32(0), np.float32(np.nan)


@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def straight_steps(
    position: tuple[F32, F32, F32],  # [n] each, metres
    speed: F32,  # [n] metres a tick
    goal: tuple[F32, F32, F32],  # [n] each, metres
) -> tuple[tuple[F32, F32, F32], F32, npt.NDArray[np.bool_]]:  # positions, [n] metres gone, [n] whether at the goal
    """One step of min(speed, distance) towards the goal; a speed that is no normal number above 0 does not move."""
    dx, dy, dz = (to - at for to, at in zip(goal, position, strict=True))
    distance = np.sqrt((dx * dx + dy * dy) + dz * dz)
    moves = (speed >= NORMAL_MIN) & (speed < np.float32(np.inf))
    arrives = moves & (distance <= speed)
    share = speed / distance
    moved = [
        np.where(arrives, to, np.where(moves, _canonical(at + d * share), at))
        for at, d, to in zip(position, (dx, dy, dz), goal, strict=True)
    ]
    gone = np.where(arrives, distance, np.where(moves, speed, _ZERO))
    return (moved[0], moved[1], moved[2]), gone, arrives


def _canonical(value: F32) -> F32:
    return np.where(np.isnan(value), _NAN, value)


def grid_paths(
    seen: npt.NDArray[np.uint32],  # [cells] of the grid with its blocked border: 0xFFFFFFFF where blocked
    width: int,  # cells of a row, border included
    starts: npt.NDArray[np.int32],  # [n]
    goals: npt.NDArray[np.int32],  # [n]
    directions: npt.NDArray[np.uint8],  # [n, horizon], written: 0 north, 1 east, 2 south, 3 west
    lengths: npt.NDArray[np.int32],  # [n], written: cells of the whole path, -1 where there is no way
) -> None:
    """Breadth first from each start, neighbours N, E, S, W; the first `horizon` directions of each path are kept."""
    step = (width, 1, -width, -1)
    free = (seen != BLOCKED).tolist()
    directions[:] = 0
    for i, (start, goal) in enumerate(zip(starts.tolist(), goals.tolist(), strict=True)):
        entered = _search(free, step, start, goal)
        lengths[i] = -1
        if goal not in entered or not free[start]:
            continue
        path: list[int] = []
        cell = goal
        while cell != start:
            path.append(entered[cell])
            cell -= step[entered[cell]]
        path.reverse()
        lengths[i] = len(path)
        kept = path[: directions.shape[1]]
        directions[i, : len(kept)] = kept


def _search(free: list[bool], step: tuple[int, ...], start: int, goal: int) -> dict[int, int]:
    entered = {start: 0}
    queue = deque([start] if free[start] else [])
    while queue and goal not in entered:
        cell = queue.popleft()
        for direction, offset in enumerate(step):
            following = cell + offset
            if free[following] and following not in entered:
                entered[following] = direction
                queue.append(following)
    return entered
