"""Motion of one tick: shortest paths in one order, steps never longer than the speed."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from coord import _kernels, backend
from coord.ground.grid import Grid
from coord.moving import motion_ref
from coord.moving.motion import HORIZON, GridPaths, can_move, straight_step

STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # (row, column): north, east, south, west


def _oracle(blocked: npt.NDArray[np.bool_], start: tuple[int, int], goal: tuple[int, int]) -> list[int] | None:
    """Distances from the goal, then the first direction in the order N, E, S, W that comes nearer."""
    far = {goal: 0}
    queue = deque([goal])
    while queue:
        row, column = queue.popleft()
        for up, right in STEPS:
            cell = (row + up, column + right)
            inside = 0 <= cell[0] < blocked.shape[0] and 0 <= cell[1] < blocked.shape[1]
            if inside and not blocked[cell] and cell not in far:
                far[cell] = far[row, column] + 1
                queue.append(cell)
    if start not in far:
        return None
    path, cell = [], start
    while cell != goal:
        for direction, (up, right) in enumerate(STEPS):
            following = (cell[0] + up, cell[1] + right)
            if far.get(following, -1) == far[cell] - 1:
                path.append(direction)
                cell = following
                break
    return path


grids = hnp.arrays(
    np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.sampled_from([False, False, True])
)


@given(grids, st.data())
@settings(deadline=None)
def test_a_path_is_the_first_of_all_shortest_paths_in_the_order_of_directions(
    blocked: npt.NDArray[np.bool_], data: st.DataObject
) -> None:
    free = [tuple(int(v) for v in cell) for cell in np.argwhere(~blocked)]
    if not free:
        return
    height, width = blocked.shape
    grid = Grid(width, height, 1.0, 0.0, 0.0, blocked)
    start, goal = data.draw(st.sampled_from(free)), data.draw(st.sampled_from(free))
    expected = _oracle(blocked, (start[0], start[1]), (goal[0], goal[1]))
    bordered = np.ones((height + 2, width + 2), np.bool_)
    bordered[1:-1, 1:-1] = blocked
    seen = np.where(bordered.reshape(-1), np.uint32(motion_ref.BLOCKED), np.uint32(0))
    cells = [np.array([(row + 1) * (width + 2) + column + 1], np.int32) for row, column in (start, goal)]
    directions, lengths = np.zeros((1, HORIZON), np.uint8), np.zeros(1, np.int32)
    motion_ref.grid_paths(seen, width + 2, cells[0], cells[1], directions, lengths)
    if expected is None:
        assert lengths.tolist() == [-1]
        return
    assert lengths.tolist() == [len(expected)]
    assert directions[0, : len(expected)].tolist() == expected[:HORIZON]
    _walks_like(grid, start, goal, expected)


def _walks_like(grid: Grid, start: tuple[int, ...], goal: tuple[int, ...], expected: list[int]) -> None:
    x, y = (np.array([cell + 0.5], np.float32) for cell in (start[1], start[0]))
    paths = GridPaths(grid, x, y)
    one = np.array([0])
    paths.set_goals(one, np.array([goal[1] + 0.5], np.float32), np.array([goal[0] + 0.5], np.float32))
    row, column = start
    for direction in expected:
        assert paths.advance(one, np.ones(1, np.float32)).tolist() == [1]
        row, column = row + STEPS[direction][0], column + STEPS[direction][1]
        assert paths.centres(one).tolist() == [[column + 0.5, row + 0.5]]
    assert paths.advance(one, np.ones(1, np.float32)).tolist() == [0]


def _serpentine(width: int, height: int) -> npt.NDArray[np.bool_]:
    blocked = np.zeros((height, width), np.bool_)
    for row in range(1, height, 2):
        blocked[row, 1 if row % 4 == 1 else 0 : width if row % 4 == 1 else width - 1] = True
    return blocked


def test_a_path_longer_than_what_is_kept_is_walked_to_its_end() -> None:
    blocked = _serpentine(20, 19)
    expected = _oracle(blocked, (0, 19), (18, 19))
    assert expected is not None
    assert len(expected) > 3 * HORIZON
    _walks_like(Grid(20, 19, 1.0, 0.0, 0.0, blocked), (0, 19), (18, 19), expected)


def test_many_cells_a_tick_end_where_single_cells_end() -> None:
    blocked = _serpentine(20, 19)
    grid = Grid(20, 19, 1.0, 0.0, 0.0, blocked)
    expected = _oracle(blocked, (0, 19), (18, 19))
    assert expected is not None
    one = np.array([0])
    for speed in (1.0, 2.5, 70.0, 1e30):
        paths = GridPaths(grid, np.array([19.5], np.float32), np.array([0.5], np.float32))
        paths.set_goals(one, np.array([19.5], np.float32), np.array([18.5], np.float32))
        gone = 0
        for tick in range(1, 1000):
            gone += int(paths.advance(one, np.array([speed], np.float32))[0])
            assert gone <= speed * tick
            if gone == len(expected):
                break
        assert paths.centres(one).tolist() == [[19.5, 18.5]]


def test_a_speed_that_overflows_in_cells_still_ends_at_the_goal() -> None:
    grid = Grid(9, 1, 0.5, 0.0, 0.0, np.zeros((1, 9), np.bool_))
    paths = GridPaths(grid, np.array([0.25], np.float32), np.array([0.25], np.float32))
    one, speed = np.array([0]), np.array([3e38], np.float32)
    for goal, cells in ((4.25, 8), (0.25, 8), (1.25, 2)):
        paths.set_goals(one, np.array([goal], np.float32), np.array([0.25], np.float32))
        with np.errstate(all="ignore"):
            assert paths.advance(one, speed).tolist() == [cells]
        assert paths.centres(one).tolist() == [[goal, 0.25]]


def test_half_a_cell_a_tick_is_carried_and_forgotten_when_the_agent_stops() -> None:
    grid = Grid(9, 1, 2.0, 0.0, 0.0, np.zeros((1, 9), np.bool_))
    paths = GridPaths(grid, np.array([1.0], np.float32), np.array([1.0], np.float32))
    one, speed = np.array([0]), np.array([1.0], np.float32)
    paths.set_goals(one, np.array([17.0], np.float32), np.array([1.0], np.float32))
    assert [int(paths.advance(one, speed)[0]) for _ in range(6)] == [0, 1, 0, 1, 0, 1]
    paths.advance(one, speed)
    paths.stop(np.array([True]))
    assert [int(paths.advance(one, speed)[0]) for _ in range(2)] == [0, 1]


def test_a_goal_in_another_component_is_never_walked_to() -> None:
    grid = Grid(3, 1, 1.0, 0.0, 0.0, np.array([[False, True, False]]))
    paths = GridPaths(grid, np.array([0.5], np.float32), np.array([0.5], np.float32))
    one = np.array([0])
    for x in (2.5, 1.5, 99.0):
        paths.set_goals(one, np.array([x], np.float32), np.array([0.5], np.float32))
        assert paths.advance(one, np.ones(1, np.float32)).tolist() == [0]
    assert paths.centres(one).tolist() == [[0.5, 0.5]]


def test_agents_beyond_the_first_in_a_cell_are_counted() -> None:
    grid = Grid(3, 1, 1.0, 0.0, 0.0, np.zeros((1, 3), np.bool_))
    x = np.array([0.5, 0.5, 1.5, 0.5, 1.5], np.float32)
    assert GridPaths(grid, x, np.full(5, 0.5, np.float32)).sharing() == 3


places = hnp.arrays(np.float32, (4, 3), elements=st.floats(-(2**20), 2**20, width=32))
speeds = hnp.arrays(np.float32, 4, elements=st.floats(np.finfo(np.float32).tiny.item(), 2**21, width=32))


def _step(
    position: npt.NDArray[np.float32], goal: npt.NDArray[np.float32], speed: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], list[int]]:
    """One step as columns: (positions [n, 3], metres gone, who arrived)."""
    columns = [np.ascontiguousarray(position[:, axis]) for axis in range(3)]
    gone, arrived = np.empty(len(speed), np.float32), np.empty(len(speed), np.int64)
    count = straight_step((columns[0], columns[1], columns[2], speed), goal, gone_m=gone, arrived=arrived)
    return np.stack(columns, axis=1), gone, arrived[:count].tolist()


@given(places, places, speeds)
def test_a_straight_step_goes_towards_the_goal_and_no_farther_than_the_speed(
    position: npt.NDArray[np.float32], goal: npt.NDArray[np.float32], speed: npt.NDArray[np.float32]
) -> None:
    moved, gone, _ = _step(position, goal, speed)
    assert (gone <= speed).all()
    step = np.sqrt(((moved.astype(np.float64) - position) ** 2).sum(axis=1))
    rounding = np.sqrt(3) * np.spacing(np.maximum(np.abs(position), np.abs(goal)).max(axis=1)).astype(np.float64)
    assert (step <= speed.astype(np.float64) * (1 + 1e-6) + rounding + 1e-18).all()  # squares underflow below 1e-19 m
    low, high = np.minimum(position, goal), np.maximum(position, goal)
    slack = np.spacing(np.maximum(np.abs(low), np.abs(high)))
    assert (moved >= low - slack).all()
    assert (moved <= high + slack).all()


def test_a_step_that_reaches_the_goal_ends_exactly_there() -> None:
    goal = np.array([[0.1, 0.7, -3.3]], np.float32)
    moved, gone, arrived = _step(np.zeros((1, 3), np.float32), goal, np.array([9], np.float32))
    assert (moved.tobytes(), arrived) == (goal.tobytes(), [0])
    assert gone[0] == np.sqrt((goal[0, 0] * goal[0, 0] + goal[0, 1] * goal[0, 1]) + goal[0, 2] * goal[0, 2])
    again, none, arrived = _step(goal, goal, np.array([1], np.float32))
    assert (again.tobytes(), none.tolist(), arrived) == (goal.tobytes(), [0.0], [0])


def test_an_agent_that_cannot_move_stays_bit_for_bit() -> None:
    speed = np.array([0, -1, 1e-39, np.nan, np.inf, -np.inf], np.float32)
    position = np.full((6, 3), -0.0, np.float32)
    moved, gone, arrived = _step(position, np.zeros((6, 3), np.float32), speed)
    assert (moved.tobytes(), gone.tolist(), arrived) == (position.tobytes(), [0.0] * 6, [])


def test_only_normal_speeds_above_zero_move() -> None:
    speeds = np.array([1, 0, -1, 1e-39, np.nan, np.inf, np.finfo(np.float32).tiny], np.float32)
    assert can_move(speeds).tolist() == [True, False, False, False, False, False, True]


@given(grids, st.integers(0, 2**32))
@settings(deadline=None)
def test_the_kernel_and_its_twin_write_the_same_bytes(blocked: npt.NDArray[np.bool_], seed: int) -> None:
    random = np.random.default_rng(seed)
    bordered = np.pad(blocked, 1, constant_values=True)
    seen = np.where(bordered.reshape(-1), np.uint32(motion_ref.BLOCKED), np.uint32(0))
    start, goal = random.integers(0, len(seen), (2, 30), np.int32)
    width, cells = bordered.shape[1], len(seen)
    twin, kernel = [(np.full((30, 5), 9, np.uint8), np.full(30, 9, np.int32)) for _ in range(2)]
    motion_ref.grid_paths(seen, width, start, goal, *twin)
    if backend.REFERENCE:
        return
    scratch = (seen.copy(), np.full(cells, 7, np.uint8), np.full(cells, 7, np.int32))
    for generation in (1, 31):
        _kernels.grid_paths(*scratch, width, start, goal, generation, *kernel)
        assert kernel[0].tobytes() == twin[0].tobytes()
        assert kernel[1].tobytes() == twin[1].tobytes()


def test_the_kernel_refuses_arguments_that_would_leave_the_grid() -> None:
    if backend.REFERENCE:
        return
    seen = np.full(9, motion_ref.BLOCKED, np.uint32)
    seen[4] = 0
    entered, queue, one = np.zeros(9, np.uint8), np.zeros(9, np.int32), np.array([4], np.int32)
    out = (np.zeros((1, 4), np.uint8), np.zeros(1, np.int32))
    _kernels.grid_paths(seen, entered, queue, 3, one, one, 1, *out)
    assert out[1].tolist() == [0]
    for arguments, text in (
        ((seen, entered, queue, 3, one, one, 1), "below generation"),
        ((np.zeros(9, np.uint32), entered, queue, 3, one, one, 1), "blocked on the border"),
        ((seen, entered, queue, 4, one, one, 2), "rows of width cells"),
        ((seen, entered, queue, 0, one, one, 2), "rows of width cells"),
        ((seen, entered[:8], queue, 3, one, one, 2), "one entry a cell"),
        ((seen, entered, queue, 3, np.array([9], np.int32), one, 2), "must be cells"),
        ((seen, entered, queue, 3, np.array([-1], np.int32), one, 2), "must be cells"),
        ((seen, entered, queue, 3, one, np.array([4, 4], np.int32), 2), "the same length"),
        ((seen, entered, queue, 3, one, one, 0), "generation is out of range"),
        ((seen, entered, queue, 3, one, one, 2**32 - 2), "generation is out of range"),
    ):
        with pytest.raises(ValueError, match=text):
            _kernels.grid_paths(*arguments, *out)
