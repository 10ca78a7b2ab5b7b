"""Motion around obstacles: straight where the way is clear, else along a shortest way over corners.

Source: `docs/around.md`, section "Around obstacles". Corners stand a little outside the reach of their obstacle: by the
slack, more than all roundings of a step together. Ways are searched with obstacles widened by half of it, and each step
is tested with the obstacles as they are, by the planner's own test; so no step ever comes within reach of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.ground.obstacle import BOX, CIRCLE, Shapes, shapes_of
from coord.ground.rings import Rings
from coord.moving.motion import F32, straight_step
from coord.moving.motion_model import Rows, Site, Steps
from coord.records import POSITION_METRES_MAX, Records

F32s = npt.NDArray[np.float32]
F64s = npt.NDArray[np.float64]
I64s = npt.NDArray[np.int64]

UNITS_PER_METRE = 65536.0  # lengths are compared and added as integers: 2^-16 m
GOALS_KEPT = 4096  # goals of which is kept what can be seen from them
_FAR = np.int64(2**62)
# Twelve directions, 30° apart, as constants: no function of the C library, whose bits vary, has a part in a way.
_HALF, _ROOT = 0.5, 0.8660254037844386
_TWELVE = (
    (1.0, 0.0), (_ROOT, _HALF), (_HALF, _ROOT), (0.0, 1.0), (-_HALF, _ROOT), (-_ROOT, _HALF),
    (-1.0, 0.0), (-_ROOT, -_HALF), (-_HALF, -_ROOT), (0.0, -1.0), (_HALF, -_ROOT), (_ROOT, -_HALF),
)  # fmt: skip
_COS_15 = 0.9659258262890683


class Corners:
    """The corners that ways go over, and which of them see each other."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        span = max([1.0, *(float(np.abs(a).max()) for a in (shapes.x, shapes.y, shapes.corners) if a.size)])
        self.slack_m = 2.0**-10 + span * 2.0**-16
        self.wide = Shapes(
            shapes.kind, shapes.x, shapes.y, shapes.half_x, shapes.half_y,
            (shapes.reach.astype(np.float64) + 0.5 * self.slack_m).astype(np.float32),
            shapes.first, shapes.count, shapes.corners,
        )  # fmt: skip
        every = [place for o in range(len(shapes)) for place in _places(shapes, o, self.slack_m)]
        points = np.array(every, np.float64).reshape(-1, 2).astype(np.float32)
        inside = (np.abs(points) <= np.float32(POSITION_METRES_MAX)).all(axis=1)
        points = points[inside]
        free = ~backend.blocked_points(points[:, 0].copy(), points[:, 1].copy(), self.wide)
        self.x, self.y = points[free, 0].copy(), points[free, 1].copy()
        self._seen: dict[int, tuple[npt.NDArray[np.intp], I64s]] = {}
        self._goals: dict[tuple[float, float], tuple[npt.NDArray[np.bool_], F64s]] = {}

    def __len__(self) -> int:
        return len(self.x)

    def clear(self, ax: F32s, ay: F32s, bx: F32s, by: F32s) -> npt.NDArray[np.bool_]:
        """Whether each way from a to b keeps clear of the obstacles with half of the slack.

        An end within that half, where an agent or a zone may well be, counts with the obstacles as they are.
        """
        clear = ~backend.blocked_segments(ax, ay, bx, by, self.wide)
        some = np.flatnonzero(~clear)
        if len(some):
            near = backend.blocked_points(ax[some], ay[some], self.wide) | backend.blocked_points(
                bx[some], by[some], self.wide
            )
            some = some[near]
            clear[some] = ~backend.blocked_segments(ax[some], ay[some], bx[some], by[some], self.shapes)
        return clear

    def from_place(self, x: np.float32, y: np.float32) -> npt.NDArray[np.bool_]:
        """The corners that can be seen from a place: `clear`, as no corner stands within half of the slack."""
        n = len(self)
        ax, ay = np.full(n, x), np.full(n, y)
        near = bool(backend.blocked_points(ax[:1], ay[:1], self.wide).any())
        return ~backend.blocked_segments(ax, ay, self.x, self.y, self.shapes if near else self.wide)

    def way(self, start: F32s, goal: F32s) -> list[int] | None:
        """The corners of a shortest way between two places [2] that don't see each other; None where there is none.

        Of ways of equal length (in units of 2^-16 m, each leg rounded up) the one found first by a best-first search
        that takes, among equal sums, the corner of the lowest number.
        """
        n = len(self)
        goal_seen, ahead = self._goal(goal)
        length, parent = np.full(n + 1, _FAR), np.full(n + 1, -1, np.int64)
        hope = np.floor(np.append(ahead, 0.0)).astype(np.int64)
        seen = np.flatnonzero(self.from_place(start[0], start[1]))
        length[seen] = np.ceil(self._units(seen, start)).astype(np.int64)
        open_ = np.full(n + 1, _FAR)
        open_[seen] = length[seen] + hope[seen]
        while True:
            at = int(open_.argmin())
            if open_[at] == _FAR:
                return None
            if at == n:
                break
            open_[at] = _FAR
            others, legs = self._from_corner(at)
            if goal_seen[at]:
                others, legs = np.append(others, n), np.append(legs, np.int64(math.ceil(ahead[at])))
            sums = length[at] + legs
            better = sums < length[others]
            others, sums = others[better], sums[better]
            length[others], parent[others], open_[others] = sums, at, sums + hope[others]
        way: list[int] = []
        at = int(parent[n])
        while at >= 0:
            way.append(at)
            at = int(parent[at])
        return way[::-1]

    def _units(self, corners: npt.NDArray[np.intp] | slice, place: F32s) -> F64s:
        dx = self.x[corners].astype(np.float64) - float(place[0])
        dy = self.y[corners].astype(np.float64) - float(place[1])
        units: F64s = np.sqrt(dx * dx + dy * dy) * UNITS_PER_METRE
        return units

    def _goal(self, goal: F32s) -> tuple[npt.NDArray[np.bool_], F64s]:
        key = (float(goal[0]), float(goal[1]))
        if key not in self._goals:
            if len(self._goals) >= GOALS_KEPT:
                self._goals.clear()
            self._goals[key] = (self.from_place(goal[0], goal[1]), self._units(slice(None), goal))
        return self._goals[key]

    def _from_corner(self, at: int) -> tuple[npt.NDArray[np.intp], I64s]:
        if at not in self._seen:
            n = len(self)
            seen = ~backend.blocked_segments(np.full(n, self.x[at]), np.full(n, self.y[at]), self.x, self.y, self.wide)
            seen[at] = False
            others = np.flatnonzero(seen)
            place = np.array([self.x[at], self.y[at]], np.float32)
            self._seen[at] = (others, np.ceil(self._units(others, place)).astype(np.int64))
        return self._seen[at]


def _places(shapes: Shapes, o: int, slack_m: float) -> Iterator[tuple[float, float]]:
    """Places around one obstacle, at least its reach and the slack away from it."""
    away = float(shapes.reach[o]) + slack_m
    if shapes.kind[o] == CIRCLE:
        for x, y in _TWELVE:
            yield float(shapes.x[o]) + x * (away / _COS_15), float(shapes.y[o]) + y * (away / _COS_15)
        return
    if shapes.kind[o] == BOX:
        x, y = float(shapes.x[o]), float(shapes.y[o])
        half_x, half_y = float(shapes.half_x[o]), float(shapes.half_y[o])
        ring = [(x - half_x, y - half_y), (x + half_x, y - half_y), (x + half_x, y + half_y), (x - half_x, y + half_y)]
    else:
        first, count = int(shapes.first[o]), int(shapes.count[o])
        ring = [(float(x), float(y)) for x, y in shapes.corners[first : first + count].tolist()]
    ring = [corner for i, corner in enumerate(ring) if corner != ring[i - 1]] or ring[:1]
    if len(ring) < 3:  # no area: a square around each end
        for x, y in ring:
            for sx, sy in ((-away, -away), (away, -away), (away, away), (-away, away)):
                yield x + sx, y + sy
        return
    for i, (x, y) in enumerate(ring):
        for nx, ny in _around_corner(ring[i - 1], (x, y), ring[(i + 1) % len(ring)]):
            yield x + nx * away, y + ny * away


def _unit(x: float, y: float) -> tuple[float, float]:
    size = math.sqrt(x * x + y * y)
    return (x / size, y / size) if size > 0.0 else (0.0, 0.0)


def _around_corner(
    a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]
) -> Iterator[tuple[float, float]]:
    """On the outer side of the turn a, b, c: one place for a turn of up to 90°, else two, in units of the distance.

    Each is where two lines meet that touch the circle of that distance around b.
    """
    ux, uy = _unit(b[0] - a[0], b[1] - a[1])
    vx, vy = _unit(c[0] - b[0], c[1] - b[1])
    side = 1.0 if ux * vy - uy * vx >= 0.0 else -1.0
    nx, ny, mx, my = uy * side, -ux * side, vy * side, -vx * side  # normals of the two edges
    if nx * mx + ny * my >= 0.0:
        pairs = [((nx, ny), (mx, my))]
    else:
        tip = _unit(ux - vx, uy - vy)
        pairs = [((nx, ny), tip), (tip, (mx, my))]
    for (px, py), (qx, qy) in pairs:
        dx, dy = _unit(px + qx, py + qy)
        share = dx * px + dy * py
        yield dx / share, dy / share


class AroundMotion:
    """Around obstacles to the zone's centre; who can't get there waits, which is counted as `Steps.waits`."""

    def __init__(self) -> None:
        self._corners = Corners(shapes_of(_no_obstacles(), Rings.empty()))
        self._goal = np.zeros((0, 3), np.float32)
        self._target = np.zeros((0, 3), np.float32)  # end of the leg an agent is on
        self._way: list[list[tuple[float, float, float]]] = []  # legs after that, last one first
        self._searched = np.zeros(0, np.bool_)
        self._lost = np.zeros(0, np.bool_)  # no way to the goal

    def site(self, agents: Records, site: Site) -> None:
        """Other obstacles: every way is searched again."""
        obstacles = site.obstacles[np.argsort(site.obstacles["id"], kind="stable")]
        self._corners = Corners(shapes_of(obstacles, site.rings or Rings.empty()))
        if len(self._goal) != len(agents):
            self.resize(agents, np.full(len(agents), -1, np.intp))
        self._searched[:] = False

    def resize(self, agents: Records, kept: Rows) -> None:
        """Ways go with their agents."""
        old, new = kept[kept >= 0], np.flatnonzero(kept >= 0)
        for name in ("_goal", "_target", "_searched", "_lost"):
            before = getattr(self, name)
            after = np.zeros((len(kept), *before.shape[1:]), before.dtype)
            after[new] = before[old]
            setattr(self, name, after)
        self._way = [self._way[row] if row >= 0 else [] for row in kept.tolist()]

    def start(self, rows: Rows, zones: Records) -> None:
        """The centre of the zone is the goal; the way is searched when the agent next moves."""
        self._goal[rows] = np.stack([zones[axis] for axis in "xyz"], axis=1)
        self._searched[rows] = False

    def stop(self, rows: Rows) -> None:
        """Nothing is kept."""

    def advance(self, agents: Records, rows: Rows, tick: int) -> Steps:
        """Leg after leg until the speed is used up; an agent whose step would come within reach of an obstacle, or
        that has no way, waits."""
        position = [np.ascontiguousarray(agents[axis][rows]) for axis in "xyz"]
        self._search(rows[~self._searched[rows]], agents)
        left = np.ascontiguousarray(agents["speed"][rows])
        gone = np.zeros(len(rows), np.float32)
        going = np.flatnonzero(~self._lost[rows])
        waits = len(rows) - len(going)
        while len(going):
            moved = [column[going] for column in position]
            step_m, arrived = np.empty(len(going), np.float32), np.empty(len(going), np.int64)
            there = np.zeros(len(going), np.bool_)
            count = straight_step(
                (moved[0], moved[1], moved[2], left[going]), self._target[rows[going]], gone_m=step_m, arrived=arrived
            )
            there[arrived[:count]] = True
            blocked = backend.blocked_segments(
                position[0][going], position[1][going], moved[0], moved[1], self._corners.shapes
            )
            waits += int(blocked.sum())
            self._searched[rows[going[blocked]]] = False  # another way, from where it stands
            went = going[~blocked]
            self._go(position, went, [column[~blocked] for column in moved])
            gone[went] += step_m[~blocked]
            left[went] -= step_m[~blocked]
            going = self._next_legs(rows, going[~blocked & there])
        for axis, column in zip("xyz", position, strict=True):
            agents[axis][rows] = column
        return Steps(np.minimum(gone, agents["speed"][rows]), 0, waits=waits)

    def _go(self, position: list[F32s], went: Rows, there: list[F32s]) -> None:
        for column, new in zip(position, there, strict=True):
            column[went] = new

    def _next_legs(self, rows: Rows, there: Rows) -> Rows:
        """Those of `there`, at the end of their leg, that have another one."""
        more = [at for at in there.tolist() if self._way[rows[at]]]
        for at in more:
            self._target[rows[at]] = self._way[rows[at]].pop()
        return np.array(more, np.intp)

    def _search(self, rows: Rows, agents: Records) -> None:
        corners = self._corners
        self._searched[rows], self._lost[rows] = True, False
        self._target[rows] = self._goal[rows]
        start = np.stack([agents[axis][rows] for axis in "xyz"], axis=1)
        goal = self._goal[rows]
        clear = corners.clear(*(np.ascontiguousarray(a[:, i]) for a in (start, goal) for i in range(2)))
        for i, row in enumerate(rows.tolist()):
            self._way[row] = []
            if clear[i]:
                continue
            found = corners.way(start[i, :2], goal[i, :2])
            if found is None:
                self._lost[row] = True
                continue
            legs = [*self._heights(found, start[i], goal[i]), tuple(goal[i].tolist())]
            self._target[row] = legs[0]
            self._way[row] = legs[:0:-1]

    def _heights(self, found: list[int], start: F32s, goal: F32s) -> list[tuple[float, float, float]]:
        """The corners of a way, as high as the share of the way to them."""
        x = np.concatenate([start[:1], self._corners.x[found], goal[:1]]).astype(np.float64)
        y = np.concatenate([start[1:2], self._corners.y[found], goal[1:2]]).astype(np.float64)
        legs = np.sqrt(np.diff(x) * np.diff(x) + np.diff(y) * np.diff(y))
        gone, whole = [0.0], 0.0
        for leg in legs.tolist():  # in this order
            whole += leg
            gone.append(whole)
        low, rise = float(start[2]), float(goal[2]) - float(start[2])
        return [
            (float(x[i]), float(y[i]), float(F32(low + rise * (gone[i] / whole)))) for i in range(1, len(found) + 1)
        ]


def _no_obstacles() -> Records:
    from coord.records import OBSTACLE_DTYPE

    return np.zeros(0, OBSTACLE_DTYPE)
