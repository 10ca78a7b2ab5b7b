"""The conflict-free step: no two agents in a cell, none exchanged, twins and kernels alike, everybody arrives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import Grid, backend
from coord.ground.lattice import Lattice
from coord.moving import pibt_ref
from coord.moving.distance_tables import DistanceTables

needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref: nothing to compare the twins with")


def lattice_of(rows: list[str]) -> Lattice:
    """'.' free, '#' blocked; the first row is the north."""
    blocked = np.array([[glyph == "#" for glyph in row] for row in rows[::-1]])
    return Lattice(Grid(blocked.shape[1], blocked.shape[0], 1.0, 0.0, 0.0, blocked))


def crowd(seed: int, walls: float, share: float) -> tuple[Lattice, np.ndarray, np.ndarray]:
    """A random map, starts and goals on `share` of its free cells, all but one at most."""
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 9, 2)
    lattice = Lattice(Grid(int(width), int(height), 1.0, 0.0, 0.0, rng.random((height, width)) < walls))
    free = np.flatnonzero(lattice.free).astype(np.int32)
    n = max(0, min(len(free) - 1, round(share * len(free))))
    return lattice, rng.permutation(free)[:n], rng.permutation(free)[:n]


def step(lattice, bits, now, goal, order, *, swaps=None, guide=None, salt=0, to=None, twin=False):
    n = len(now)
    swaps = np.ones(n, np.uint8) if swaps is None else swaps
    to = np.full(n, -1, np.int32) if to is None else to.copy()
    row = np.arange(n, dtype=np.int32)
    if twin:
        told = to.tolist()
        made = pibt_ref.Step(lattice.exits, lattice.width, bits, now, goal, row, order, swaps, guide, salt, told)
        done = made.run()
        return (done, made.value() if done else 0), np.array(told, np.int32)
    result = backend.pibt_step(
        lattice.exits, lattice.width, bits, now, goal, row, order, swaps, guide, salt, to
    )  # fmt: skip
    return result, to


def assert_no_conflict(lattice: Lattice, now: np.ndarray, to: np.ndarray) -> None:
    assert lattice.free[to].all()
    assert len(set(to.tolist())) == len(to)
    came_from = dict(zip(to.tolist(), now.tolist(), strict=True))
    for a, b in zip(now.tolist(), to.tolist(), strict=True):
        assert a == b or b - a in lattice.offsets
        assert a == b or came_from.get(a) != b, "exchanged"


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2, 0.4]), st.sampled_from([0.2, 0.6, 1.0]))
def test_no_step_has_a_conflict_however_full_the_map_is(seed, walls, share):
    lattice, now, goal = crowd(seed, walls, share)
    rng = np.random.default_rng(seed)
    bits, length = lattice.distances(now, goal)
    goal = np.where(length < 0, -1, goal).astype(np.int32)
    for tick in range(12):
        told = np.where(rng.random(len(now)) < 0.2, now, -1).astype(np.int32)
        order = rng.permutation(len(now)).astype(np.int32)
        (done, _), to = step(lattice, bits, now, goal, order, to=told, salt=tick % 3)
        assert done
        assert_no_conflict(lattice, now, to)
        assert (to[told >= 0] == told[told >= 0]).all()
        now = to


@needs_kernels
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25, 0.4]), st.sampled_from([0.3, 0.7, 1.0]))
def test_twin_and_kernel_take_the_same_step(seed, walls, share):
    lattice, now, goal = crowd(seed, walls, share)
    rng = np.random.default_rng(seed)
    bits, length = lattice.distances(now, goal)
    twin_bits, twin_length = np.empty_like(bits), np.empty_like(length)
    pibt_ref.grid_waves(lattice.free_bits, lattice.width, lattice.cells, now, goal, twin_bits, twin_length)
    assert (bits == twin_bits).all()
    assert (length == twin_length).all()
    goal = np.where(length < 0, -1, goal).astype(np.int32)
    order = rng.permutation(len(now)).astype(np.int32)
    told = np.where(rng.random(len(now)) < 0.1, now, -1).astype(np.int32)
    # somebody may be told to go elsewhere, which may leave others no cell
    if len(now) and rng.random() < 0.5:
        who = int(rng.integers(len(now)))
        beside = [now[who] + o for d, o in enumerate(lattice.offsets) if lattice.exits[now[who]] >> d & 1]
        told[who] = beside[0] if beside else now[who]
    swaps = (rng.random(len(now)) < 0.8).astype(np.uint8)
    salt = int(rng.integers(0, 2)) * int(rng.integers(1, 2**63))
    kernel = step(lattice, bits, now, goal, order, swaps=swaps, salt=salt, to=told)
    twin = step(lattice, bits, now, goal, order, swaps=swaps, salt=salt, to=told, twin=True)
    assert kernel[0] == twin[0]
    if kernel[0][0]:
        assert (kernel[1] == twin[1]).all()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2, 0.4]))
def test_one_bit_a_cell_tells_which_neighbour_is_nearer(seed, walls):
    lattice, _, goal = crowd(seed, walls, 1.0)
    bits, _ = lattice.distances(goal, goal)
    for i, home in enumerate(goal[:5].tolist()):
        distance, front = {home: 0}, [home]
        while front:
            beside = [(c, c + o) for c in front for d, o in enumerate(lattice.offsets) if lattice.exits[c] >> d & 1]
            front = []
            for c, u in beside:
                if u not in distance:
                    distance[u] = distance[c] + 1
                    front.append(u)
        maker = pibt_ref.Step(
            lattice.exits, lattice.width, bits, goal, goal, np.arange(len(goal)), goal[:0],
            np.zeros(0, np.uint8), None, 0, [],
        )  # fmt: skip
        for c, far in distance.items():
            for d, o in enumerate(lattice.offsets):
                if lattice.exits[c] >> d & 1:
                    assert maker.nearer(i, c, c + o) == (distance[c + o] < far)


def run(lattice: Lattice, now: np.ndarray, goal: np.ndarray, ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """(cells at the end, whether each has been at its goal), priority by ticks since the last time there."""
    bits, _ = lattice.distances(now, goal)
    waiting, been = np.zeros(len(now), np.int64), now == goal
    for _ in range(ticks):
        waiting = np.where(now == goal, 0, waiting + 1)
        order = np.argsort(-waiting, kind="stable").astype(np.int32)
        swaps = (waiting >> 7 & 1 == 0).astype(np.uint8)
        (done, _), to = step(lattice, bits, now, goal, order, swaps=swaps)
        assert done
        assert_no_conflict(lattice, now, to)
        now = to
        been |= now == goal
    return now, been


@pytest.mark.parametrize("seed", range(4))
def test_everybody_reaches_the_goal_on_an_open_map_with_one_free_cell(seed):
    lattice = lattice_of(["....", "....", "....", "...."])
    rng = np.random.default_rng(seed)
    free = np.flatnonzero(lattice.free).astype(np.int32)
    _, been = run(lattice, rng.permutation(free)[:15], rng.permutation(free)[:15], 600)
    assert been.all()


@pytest.mark.parametrize(
    "rows",
    [
        ["#.#####", "......."],  # a corridor with one niche
        ["##.##", ".....", "##.##"],  # a crossing
        ["...#...", ".#.#.#.", ".#...#.", "...#..."],  # a bottleneck between two rings
    ],
)
def test_two_agents_exchange_the_ends_of_a_corridor_by_a_swap(rows):
    lattice = lattice_of(rows)
    row = (1 if len(rows) == 2 else 2) * lattice.width if len(rows) < 4 else 2 * lattice.width
    free = [c for c in range(row, row + lattice.width) if lattice.free[c]]
    ends = np.array([free[0], free[-1]], np.int32)
    now, been = run(lattice, ends, ends[::-1].copy(), 200)
    assert been.all()
    assert (now == ends[::-1]).all()


def test_agents_without_a_goal_stay_unless_they_are_pushed():
    lattice = lattice_of(["....", "...."])
    now = np.array([lattice.width + 1, lattice.width + 2], np.int32)
    goal = np.array([lattice.width + 4, -1], np.int32)
    bits, _ = lattice.distances(now, np.maximum(goal, 0))
    (_, _), to = step(lattice, bits, now, np.array([-1, -1], np.int32), np.array([0, 1], np.int32))
    assert (to == now).all()
    (_, _), to = step(lattice, bits, now, goal, np.array([0, 1], np.int32))
    assert to.tolist() == [now[1], now[1] + lattice.width]  # north comes before east
    told = np.array([-1, now[1]], np.int32)
    (_, _), to = step(lattice, bits, now, goal, np.array([0, 1], np.int32), to=told)
    assert to.tolist() == [now[0], now[1]]  # who may not be pushed is a wall, and the way around is longer


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_what_is_kept_of_tables_never_shows(seed, budget_tables):
    lattice, cells, _ = crowd(seed, 0.2, 1.0)
    if len(cells) == 0:
        return
    tables = DistanceTables(lattice, budget_tables * 8 * lattice.words)
    rng = np.random.default_rng(seed)
    for _ in range(8):
        goals = rng.choice(cells, int(rng.integers(1, 5)))
        rows = tables.rows(goals)
        assert (tables.bits[rows] == lattice.distances(goals, goals)[0]).all()
        assert len(tables) <= max(budget_tables, 4)


@needs_kernels
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"now": [7, 7]}, "pibt_step: agents must be in different cells"),
        ({"now": [7, 99]}, "pibt_step: now must hold cells"),
        ({"goal": [7, -2]}, "pibt_step: goal must hold -1 or cells"),
        ({"row": [0, 2]}, "pibt_step: row must be a row of bits"),
        ({"order": [0, 0]}, "order must hold every agent once"),
        ({"order": [0]}, "order must have one number an agent"),
        ({"to": [9, -1]}, "pibt_step: to must be -1, the agent's cell or a free one beside it"),
        ({"swaps": [1]}, "pibt_step: to and swaps must have one value an agent"),
    ],
)
def test_the_binding_refuses_what_the_step_could_not_read(change, message):
    lattice = lattice_of(["...", "..."])
    now = np.array([6, 7], np.int32)
    bits, _ = lattice.distances(now, now)
    values = {"now": [6, 7], "goal": [7, 6], "row": [0, 1], "order": [0, 1], "swaps": [1, 1], "to": [-1, -1], **change}
    arrays = {k: np.array(v, np.uint8 if k == "swaps" else np.int32) for k, v in values.items()}
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        backend.pibt_step(
            lattice.exits, lattice.width, bits, arrays["now"], arrays["goal"], arrays["row"], arrays["order"],
            arrays["swaps"], None, 0, arrays["to"],
        )  # fmt: skip


@needs_kernels
def test_the_binding_refuses_exits_that_do_not_fit_together():
    lattice = lattice_of(["...", "..."])
    now = np.array([6], np.int32)
    bits, _ = lattice.distances(now, now)
    one_way = lattice.exits.copy()
    one_way[6] = 0
    numbers = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match=r"^exits must lead both ways$"):
        backend.pibt_step(
            one_way, lattice.width, bits, now, now, numbers, numbers, np.ones(1, np.uint8), None, 0, now.copy()
        )
