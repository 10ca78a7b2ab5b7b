"""Whole paths: nobody meets, everybody arrives, the answer is the same everywhere, and what can't be solved is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import BadInput, Grid, check_paths, first_solution
from coord.sites.movingai import parse_map


def grid_of(rows: list[str]) -> Grid:
    """'.' free, '#' blocked; the first row is the north."""
    blocked = np.array([[glyph == "#" for glyph in row] for row in rows[::-1]])
    return Grid(blocked.shape[1], blocked.shape[0], 1.0, 0.0, 0.0, blocked)


def problem(seed: int, walls: float, share: float) -> tuple[Grid, np.ndarray, np.ndarray]:
    """A random map; starts and goals in its largest region, on `share` of its cells and all but one at most."""
    rng = np.random.default_rng(seed)
    height, width = rng.integers(2, 8, 2)
    grid = Grid(int(width), int(height), 1.0, 0.0, 0.0, rng.random((height, width)) < walls)
    region = grid.component.reshape(-1)
    sizes = np.bincount(region[region > 0], minlength=2)
    free = np.flatnonzero((region == sizes.argmax()) & (region > 0))
    n = max(0, min(len(free) - 1, round(share * len(free))))
    return grid, rng.permutation(free)[:n], rng.permutation(free)[:n]


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2]), st.sampled_from([0.2, 0.5]), st.booleans())
def test_paths_lead_from_starts_to_goals_without_a_conflict(seed, walls, share, guided):
    grid, starts, goals = problem(seed, walls, share)
    paths = first_solution(grid, starts, goals, seed=seed, guided=guided, work_budget=300)
    assert check_paths(grid, paths.cells, starts, goals if paths.complete else None) is None
    assert paths.work <= 302
    if paths.complete:
        assert paths.lower_bound <= paths.sum_of_costs <= paths.makespan * len(starts)
        assert not paths.unsolvable


@pytest.mark.parametrize("seed", range(3))
def test_all_cells_but_one_can_be_full(seed):
    rng = np.random.default_rng(seed)
    grid = grid_of(["...", "...", "..."])
    starts = rng.permutation(9)[:8]
    goals = starts[[1, 0, 3, 2, 4, 5, 6, 7]]  # half of the arrangements can't be reached; two exchanges are even
    paths = first_solution(grid, starts, goals, seed=seed, work_budget=60_000)
    assert paths.complete
    assert check_paths(grid, paths.cells, starts, goals) is None


@pytest.mark.parametrize(
    "rows",
    [
        ["#.#####", "......."],  # one niche beside a corridor
        ["###.###", "###.###", ".......", "###.###"],  # a tree with a crossing
        ["..###..", ".......", "..###.."],  # a bottleneck
        [".###", ".###", "....", ".###"],  # dead ends
    ],
)
@pytest.mark.parametrize("guided", [True, False])
def test_agents_pass_each_other_in_trees_and_corridors(rows, guided):
    grid = grid_of(rows)
    free = np.flatnonzero(~grid.blocked.reshape(-1))
    row = free // grid.width
    line = free[row == np.bincount(row).argmax()]
    starts, goals = line[[0, -1]], line[[-1, 0]]
    paths = first_solution(grid, starts, goals, guided=guided)
    assert paths.complete
    assert check_paths(grid, paths.cells, starts, goals) is None


@pytest.mark.parametrize(
    ("name", "agents"),
    [("maze-32-32-4", 60), ("random-32-32-10", 300), ("room-64-64-16", 200), ("warehouse-10-20-10-2-1", 500)],
)
def test_maps_of_the_benchmark_are_solved(data, name, agents):
    grid = parse_map(data(f"maps/{name}.map").read_bytes(), name, 1.0)
    region = grid.component.reshape(-1)
    free = np.flatnonzero(region == np.bincount(region[region > 0]).argmax())
    rng = np.random.default_rng(len(name))
    starts, goals = rng.permutation(free)[:agents], rng.permutation(free)[:agents]
    paths = first_solution(grid, starts, goals, seed=1)
    assert paths.complete
    assert check_paths(grid, paths.cells, starts, goals) is None
    assert paths.sum_of_costs < 3 * paths.lower_bound


def test_no_agents_and_agents_at_home_need_no_tick():
    grid = grid_of(["..", ".."])
    nobody = np.zeros(0, np.int64)
    assert first_solution(grid, nobody, nobody).cells.shape == (1, 0)
    paths = first_solution(grid, np.array([0, 3]), np.array([0, 3]))
    assert (paths.complete, paths.makespan, paths.sum_of_costs, paths.lower_bound) == (True, 0, 0, 0)


def test_what_cannot_be_solved_is_told_from_a_budget_that_was_used_up():
    corridor = grid_of(["..."])
    paths = first_solution(corridor, np.array([0, 2]), np.array([2, 0]))
    assert (paths.complete, paths.unsolvable) == (False, True)
    assert check_paths(corridor, paths.cells, [0, 2]) is None
    square = grid_of(["....", "...."])
    paths = first_solution(square, np.array([0, 3]), np.array([3, 0]), work_budget=2)
    assert (paths.complete, paths.unsolvable, paths.work) == (False, False, 2)
    assert check_paths(square, paths.cells, [0, 3]) is None
    assert paths.costs.tolist() == [paths.makespan, paths.makespan]


def test_a_cost_is_the_tick_from_which_on_an_agent_stays():
    grid = grid_of(["..."])
    paths = first_solution(grid, np.array([0]), np.array([2]))
    assert (paths.costs.tolist(), paths.cells[:, 0].tolist()) == ([2], [0, 1, 2])


@pytest.mark.parametrize(
    ("starts", "goals", "message"),
    [
        ([1], [0], "starts[0].cell must be a free cell of the grid, got 1"),
        ([0], [9], "goals[0].cell must be a free cell of the grid, got 9"),
        ([-1], [0], "starts[0].cell must be a free cell of the grid, got -1"),
        ([0, 3, 0], [0, 3, 4], "starts[2].cell must be of one agent only, 0 is that of row 0, too"),
        ([0, 3], [4, 4], "goals[1].cell must be of one agent only, 4 is that of row 0, too"),
        ([0], [0, 3], "goals must be as many as starts, 1, got 2"),
        ([3, 0], [0, 2], "goals[1].cell must be in the region of its start, cell 0, got 2"),
    ],
)
def test_what_no_search_can_start_from_is_named(starts, goals, message):
    grid = grid_of(["..#", ".#."])
    with pytest.raises(BadInput) as caught:
        first_solution(grid, np.array(starts), np.array(goals))
    assert str(caught.value) == message


def test_numbers_out_of_range_are_refused():
    grid = grid_of([".."])
    cells = np.array([0])
    with pytest.raises(BadInput, match=r"^starts\.cells must be whole numbers\[n\], got float64\[1\]$"):
        first_solution(grid, cells.astype(np.float64), cells)
    with pytest.raises(ValueError, match=r"^first_solution: seed must be a whole number from 0 to 2\^64 - 1, got -1$"):
        first_solution(grid, cells, cells, seed=-1)
    with pytest.raises(
        ValueError, match=r"^first_solution: work_budget must be a whole number of at least 0, got 1.5$"
    ):
        first_solution(grid, cells, cells, work_budget=1.5)


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ([[0, 1], [0, 1]], None),
        ([[1, 0], [1, 0]], ("start", 0, (0,))),
        ([[0, 1], [0, 5]], ("blocked", 1, (1,))),
        ([[0, 1], [3, 1], [3, 3]], ("jump", 2, (1,))),
        ([[0, 1], [3, 0], [3, 3]], ("shared", 2, (0, 1))),
        ([[0, 1], [1, 0]], ("exchanged", 1, (0, 1))),
        ([[0, 1], [0, 2]], ("goal", 1, (1,))),
    ],
)
def test_the_check_names_the_first_fault(cells, fault):
    grid = grid_of([".##", "..."])
    found = check_paths(grid, np.array(cells, np.uint32), np.array([0, 1]), np.array([0, 1]))
    assert found == fault


def test_the_check_refuses_what_is_no_table_of_cells():
    grid = grid_of([".."])
    with pytest.raises(BadInput, match=r"^paths\.cells must be below 2, the cells of the grid$"):
        check_paths(grid, np.array([[2]], np.uint32))
    with pytest.raises(BadInput, match=r"^paths\.cells must be whole numbers\[ticks \+ 1, n\], got float64\(1, 1\)$"):
        check_paths(grid, np.zeros((1, 1)))


@given(st.integers(0, 10**6), st.integers(0, 1))
def test_another_order_of_agents_changes_only_ties(seed, guided):
    grid, starts, goals = problem(seed, 0.1, 0.3)
    order = np.random.default_rng(seed).permutation(len(starts))
    paths = first_solution(grid, starts[order], goals[order], guided=bool(guided), work_budget=300)
    assert check_paths(grid, paths.cells, starts[order], goals[order] if paths.complete else None) is None
    again = first_solution(grid, starts[order], goals[order], guided=bool(guided), work_budget=300)
    assert (paths.cells == again.cells).all()


def test_every_build_and_thread_count_gives_the_same_paths(python):
    code = (
        "import hashlib, json, numpy as np\nfrom coord import Grid, first_solution, _kernels\n"
        "rng = np.random.default_rng(3)\n"
        "grid = Grid(12, 9, 1.0, 0.0, 0.0, rng.random((9, 12)) < 0.15)\n"
        "free = np.flatnonzero(grid.component.reshape(-1) == 1)\n"
        "a, b = rng.permutation(free)[:30], rng.permutation(free)[:30]\n"
        "paths = [first_solution(grid, a, b, seed=s, guided=g) for s in range(2) for g in (True, False)]\n"
        "data = b''.join(p.cells.tobytes() for p in paths)\n"
        "print(json.dumps([_kernels.isa(), hashlib.sha256(data).hexdigest()]))"
    )
    best, digest = json.loads(python(code).stdout)
    builds = ["ref", *{"v4": ["v3", "v4", "v4"], "v3": ["v3"] * 3, "neon": ["neon"] * 3}.get(best, [])]
    for isa, threads in zip(builds, "1237", strict=False):
        assert digest in python(code, DROVEWAY_ISA=isa, DROVEWAY_THREADS=threads).stdout, isa


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2]), st.booleans())
def test_with_ids_each_agent_gets_the_same_path_in_any_order_of_rows(seed, walls, guided):
    grid, starts, goals = problem(seed, walls, 0.4)
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(1000, len(starts), replace=False))
    order = rng.permutation(len(starts))
    options = {"seed": seed, "guided": guided, "work_budget": 300}
    one = first_solution(grid, starts, goals, ids=ids, **options)
    other = first_solution(grid, starts[order], goals[order], ids=ids[order], **options)
    assert one.cells[:, order].tolist() == other.cells.tolist()
    assert one.goals[order].tolist() == other.goals.tolist()
    assert (one.complete, one.work, one.lower_bound) == (other.complete, other.work, other.lower_bound)
    assert one.cells.tolist() == first_solution(grid, starts, goals, **options).cells.tolist()  # rows ascend by id


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([7, 3, 7], "ids[2].id must be of one agent only, 7 is that of row 0, too"),
        ([1, 2], "ids must be whole numbers[3], got int64[2]"),
        ([1.0, 2.0, 3.0], "ids must be whole numbers[3], got float64[3]"),
    ],
)
def test_ids_that_name_no_agents_are_refused(ids, message):
    with pytest.raises(BadInput) as refused:
        first_solution(grid_of(["....."]), np.array([0, 2, 4]), np.array([2, 4, 0]), ids=np.array(ids))
    assert str(refused.value) == message


def test_a_goal_out_of_reach_is_named_by_its_row_with_ids_too():
    with pytest.raises(BadInput, match=r"^goals\[0\].cell must be in the region of its start, cell 0, got 4$"):
        first_solution(grid_of(["..#.."]), np.array([0, 3]), np.array([4, 3]), ids=np.array([9, 1]))
