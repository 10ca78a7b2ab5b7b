"""Around obstacles: no step within reach of one, ways no longer than another search's, the same bits every time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import AGENT_DTYPE, OBSTACLE_DTYPE, ZONE_DTYPE, Rings, Scenario, backend, simulate
from coord.ground.obstacle import shapes_of
from coord.moving.around import AroundMotion, Corners
from coord.moving.motion_model import Site
from coord.records import Records
from coord.simulation.world import World

F32 = npt.NDArray[np.float32]


def obstacles_of(rng: np.random.Generator, n: int, size: float) -> tuple[Records, Rings]:
    """Circles, triangles and boxes, with and without margin."""
    records, rings = np.zeros(n, OBSTACLE_DTYPE), []
    records["id"] = rng.permutation(n)
    for record in records:
        x, y = rng.uniform(0, size, 2)
        kind = rng.integers(3)
        record["kind"], record["margin"] = kind, rng.choice([0.0, 0.0, 0.7])
        if kind == 1:
            record["ring"] = len(rings)
            rings.append([(x + a, y + b) for a, b in rng.uniform(-size / 9, size / 9, (3 + rng.integers(3), 2))])
            continue
        record["x"], record["y"], record["radius"] = x, y, rng.uniform(0.2, size / 12)
        if kind == 2:
            record["half_y"] = rng.uniform(0.2, size / 6)
    return records, Rings.of(rings) if rings else Rings.empty()


class Checked(AroundMotion):
    """Each straight piece of each step is tested as the planner tests ways."""

    def site(self, agents: Records, site: Site) -> None:
        self.shapes = shapes_of(site.obstacles[np.argsort(site.obstacles["id"])], site.rings or Rings.empty())
        super().site(agents, site)

    def _go(self, position: list[F32], went: npt.NDArray[np.intp], there: list[F32]) -> None:
        pieces = [position[0][went], position[1][went], there[0], there[1]]
        moved = (pieces[0] != pieces[2]) | (pieces[1] != pieces[3])
        assert not (backend.blocked_segments(*pieces, self.shapes) & moved).any()
        super()._go(position, went, there)


class Walk:
    """Agents that walk to their zones."""

    def __init__(self, records: Records, rings: Rings, start: F32, goal: F32, speed: float) -> None:
        n = len(start)
        self.shapes = shapes_of(records[np.argsort(records["id"])], rings)
        self.agents, self.zones = np.zeros(n, AGENT_DTYPE), np.zeros(n, ZONE_DTYPE)
        for axis, places in enumerate("xyz"[: start.shape[1]]):
            self.agents[places], self.zones[places] = start[:, axis], goal[:, axis]
        self.agents["speed"] = speed
        self.model, self.rows = Checked(), np.arange(n)
        self.model.site(self.agents, Site(records, rings, None))
        self.model.start(self.rows, self.zones)
        self.gone, self.waits = np.zeros(n), 0

    def tick(self) -> tuple[F32, F32]:
        """One tick: places before and after."""
        before = np.stack([self.agents["x"], self.agents["y"]], axis=1)
        steps = self.model.advance(self.agents, self.rows, 0)
        assert (steps.gone_m <= self.agents["speed"]).all()
        self.gone += steps.gone_m
        self.waits = steps.waits
        return before, np.stack([self.agents["x"], self.agents["y"]], axis=1)

    def there(self) -> npt.NDArray[np.bool_]:
        return (self.agents["x"] == self.zones["x"]) & (self.agents["y"] == self.zones["y"])


def free_places(rng: np.random.Generator, records: Records, rings: Rings, n: int, size: float) -> F32:
    places = rng.uniform(-size / 5, size * 1.2, (40 * n, 2)).astype(np.float32)
    shapes = shapes_of(records, rings)
    free = ~backend.blocked_points(places[:, 0].copy(), places[:, 1].copy(), shapes)
    return places[free][:n]


@given(st.integers(0, 2**32), st.sampled_from([3.0, 60.0, 4000.0, 500_000.0]))
@settings(max_examples=25)
def test_no_step_comes_within_reach_of_an_obstacle(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    records, rings = obstacles_of(rng, int(rng.integers(1, 12)), size)
    places = free_places(rng, records, rings, 12, size)
    n = len(places) // 2
    if n == 0:
        return
    walk = Walk(records, rings, places[:n], places[n : 2 * n], size / 17)
    for _ in range(150):
        before, after = walk.tick()
        assert not backend.blocked_points(after[:, 0].copy(), after[:, 1].copy(), walk.shapes).any()
        if (walk.there() | (before == after).all(axis=1)).all():
            break
    stuck = ~walk.there()
    assert walk.waits == stuck.sum()  # who is not there waits, and is counted
    assert (before[stuck] == after[stuck]).all()


def _oracle_m(corners: Corners, start: F32, goal: F32) -> float:
    """Dijkstra over the same corners, in float64, the plain way."""
    x = np.concatenate([[start[0]], corners.x, [goal[0]]]).astype(np.float32)
    y = np.concatenate([[start[1]], corners.y, [goal[1]]]).astype(np.float32)
    n = len(x)
    far = np.full(n, np.inf)
    far[0], done = 0.0, np.zeros(n, np.bool_)
    while not done.all():
        at = int(np.where(done, np.inf, far).argmin())
        if far[at] == np.inf or done[at]:
            break  # the other corners are walled in
        done[at] = True
        legs = np.hypot(x.astype(float) - float(x[at]), y.astype(float) - float(y[at]))
        seen = corners.clear(np.full(n, x[at]), np.full(n, y[at]), x, y)
        far = np.where(seen, np.minimum(far, far[at] + legs), far)
    return float(far[-1])


@given(st.integers(0, 2**32))
@settings(max_examples=25)
def test_a_way_is_a_shortest_one_over_the_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    records, rings = obstacles_of(rng, 7, 50.0)
    places = free_places(rng, records, rings, 2, 50.0)
    if len(places) < 2:
        return
    walk = Walk(records, rings, places[:1], places[1:2], 1.0)
    corners = Corners(walk.shapes)
    shortest = _oracle_m(corners, places[0], places[1])
    for _ in range(400):
        walk.tick()
        if walk.there()[0] or walk.waits:
            break
    if np.isinf(shortest):
        assert walk.waits == 1
    else:
        assert walk.there()[0]
        assert walk.gone[0] == pytest.approx(shortest, rel=1e-4, abs=1e-3)


def _box(**fields: float) -> Records:
    record = np.zeros(1, OBSTACLE_DTYPE)
    record["kind"] = 2
    for name, value in fields.items():
        record[name] = value
    return record


def test_around_a_box_the_way_goes_over_its_nearer_corners_at_the_margin() -> None:
    walk = Walk(
        _box(x=10, y=1, radius=2, half_y=5, margin=1), Rings.empty(),
        np.array([[0, 0, 3]], np.float32), np.array([[20, 0, 3]], np.float32), 0.5,
    )  # fmt: skip
    seen = np.concatenate([walk.tick()[1] for _ in range(60)])
    assert walk.there()[0]
    assert seen[:, 1].min() == pytest.approx(-5, abs=0.01)  # 1 - 5 - the margin
    assert seen[:, 1].max() <= 0
    legs = 2 * np.hypot(7, 5) + 6
    assert walk.gone[0] == pytest.approx(legs, abs=0.05)
    assert walk.agents["z"][0] == 3


def test_height_rises_with_the_share_of_the_way() -> None:
    walk = Walk(
        _box(x=10, y=1, radius=2, half_y=5), Rings.empty(),
        np.array([[0, 0, 0]], np.float32), np.array([[20, 0, 10]], np.float32), 0.5,
    )  # fmt: skip
    heights = []
    while not walk.there()[0]:
        walk.tick()
        heights.append(float(walk.agents["z"][0]))
    assert heights == sorted(heights)
    assert heights[len(heights) // 2] == pytest.approx(5, abs=0.3)


def test_an_agent_shut_in_waits_and_a_clear_way_is_straight() -> None:
    shut = np.concatenate([
        _box(id=1, x=0, y=3, radius=4, half_y=1), _box(id=2, x=0, y=-3, radius=4, half_y=1),
        _box(id=3, x=3, y=0, radius=1, half_y=4), _box(id=4, x=-3, y=0, radius=1, half_y=4),
    ])  # fmt: skip
    start, goal = np.array([[0, 0], [0, 0], [9, 9]], np.float32), np.array([[9, 0], [1, 1], [9, -9]], np.float32)
    walk = Walk(shut, Rings.empty(), start, goal, 100.0)
    walk.tick()
    assert (walk.there().tolist(), walk.waits) == ([False, True, True], 1)
    walk.model.site(walk.agents, Site(shut[:3], Rings.empty(), None))  # the western wall falls
    walk.model.start(walk.rows[:1], walk.zones[:1])
    walk.tick()
    assert (walk.there().tolist(), walk.waits) == ([True, True, True], 0)


SITE = """
version = 1
name = "yard"
seed = 3
[plan]
every_ticks = 2
[motion]
model = "around"
[agents]
random = 30
speed = 2.0
[zones]
random = 50
[[obstacle]]
kind = "box"
x = 50
y = 50
radius = 3
half_y = 40
margin = 0.5
[[obstacle]]
kind = "circle"
x = 20
y = 30
radius = 8
[[obstacle]]
kind = "polygon"
points = [[70, 10], [95, 20], [80, 45]]
"""


def test_a_simulated_fleet_keeps_clear_and_ends_the_same_every_time() -> None:
    setup = Scenario.loads(SITE).setup
    ends = set()
    for _ in range(2):
        world = World(setup, motion=Checked())
        agents = world.inputs.agents
        for _ in range(80):
            if world.is_planned():
                world.assign(world.plan_tick().rows)
            world.advance()
        ends.add((agents.tobytes(), world.waits, world.served))
    assert len(ends) == 1
    assert world.served > 100


def test_a_run_around_obstacles_is_made_again_by_an_audit(tmp_path: object) -> None:
    from coord import audit

    run = simulate(Scenario.loads(SITE), 24, ledger=str(tmp_path) + "/run")
    report = audit(str(tmp_path) + "/run", resimulate=True)
    assert report.ok, report
    assert run.frames == 12
