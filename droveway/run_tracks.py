"""What a run's ledger says about the ways of agents and the service of zones, between two ticks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

CIRCLE, BOX, CELLS = 0, 2, 3  # kinds of obstacles; cells: those of the map in a box

if TYPE_CHECKING:
    from coord.simulation.events import FleetEvent
    from coord.simulation.setup import Setup
    from coord.stl import RunReader


@dataclass
class Tracks:
    """Planned ticks `first` to `last`: counters of the frames, the agents' ways, services by zone.

    The ledger holds the state at the start of each planned tick: what happened since the start of the last one is not
    in it. `points` has the places at each planned tick and, on a grid, those that lie between two of them; NaN where an
    agent is not there. Agents and zones are all that ever were, ascending by id.
    """

    first: int | None = None
    last: int | None = None
    frames: int = 0
    assigned: int = 0
    rejected: int = 0
    conflicts: int = 0
    health_worst: int = 0
    agents: list[int] = field(default_factory=list)
    points: list[Any] = field(default_factory=list)  # f32[agents, 2] each, metres, in the order of time
    zones: Any = None  # records, each as it was last seen
    served: Any = None  # i64[zones]
    steps_m: float = 0.0  # the way of all agents together, metres
    changes: list["FleetEvent"] = field(default_factory=list)  # what came from outside after tick `first`

    @property
    def services(self) -> int:
        """Services completed from the start of the first tick to the start of the last."""
        return 0 if self.served is None else int(self.served.sum())


def read_tracks(reader: "RunReader", start: int | None, stop: int | None, *, keep_points: bool) -> Tracks:
    """Walk the planned ticks from `start` to `stop`, both included, in one pass."""
    import numpy as np

    from droveway.grid_ways import GridWays

    tracks = Tracks()
    grid = reader.scenario.grid
    ways = None if grid is None else GridWays(grid)
    places: list[tuple[Any, Any]] = []  # ids of agents, where they are
    services = _Services()
    before: Any = None
    goal: Any = None
    for view in reader.frames():
        tick = view.frame.tick
        if start is not None and tick < start:
            continue
        if stop is not None and tick > stop:
            break
        agents, zones = view.inputs.agents, view.inputs.zones
        now = (agents["id"].copy(), np.stack([agents["x"], agents["y"]], axis=1))
        services.add(agents, zones, view.rows)
        if before is not None:
            _, old, new = np.intersect1d(before[0], now[0], assume_unique=True, return_indices=True)
            between, gone = _between(ways, before[1][old], now[1][new], goal[old])
            tracks.steps_m += gone
            if keep_points:
                places += [(now[0][new], step) for step in between]
        before, goal = now, _goals(view.rows, agents, zones)
        tracks.first = tick if tracks.first is None else tracks.first
        tracks.last = tick
        tracks.frames += 1
        tracks.assigned += view.frame.assigned
        tracks.rejected += view.frame.rejected
        tracks.conflicts += view.frame.conflicts
        tracks.health_worst = max(tracks.health_worst, view.frame.health)
        if keep_points:
            places.append(now)
        if len(tracks.agents) != len(now[0]) or tracks.agents != now[0].tolist():
            tracks.agents = np.union1d(np.array(tracks.agents, np.uint32), now[0]).tolist()
    if tracks.first is not None and tracks.last is not None:
        tracks.zones, tracks.served = services.result()
        tracks.points = [_of_all(tracks.agents, *place) for place in places]
        tracks.changes = [one for one in reader.changes() if tracks.first <= one.tick <= tracks.last]
    return tracks


def _of_all(agents: list[int], ids: Any, places: Any) -> Any:
    """f32[agents, 2] with NaN for those that are not there."""
    import numpy as np

    if len(ids) == len(agents):
        return places
    out = np.full((len(agents), 2), np.nan, np.float32)
    out[np.searchsorted(np.array(agents, np.uint32), ids)] = places
    return out


class _Services:
    """Services by zone, from what each planned tick shows; zones that have gone count as docs/metrics.md says."""

    def __init__(self) -> None:
        self._gone: list[Any] = []  # records and counts of zones that are no more
        self._agents: Any = None
        self._zones: Any = None
        self._served: Any = None  # of the zones there
        self._given: Any = None  # rows that give a zone

    def add(self, agents: Any, zones: Any, rows: Any) -> None:
        """One planned tick."""
        import numpy as np

        served = np.zeros(len(zones), np.int64)
        if self._zones is not None:
            _, old, new = np.intersect1d(self._zones["id"], zones["id"], assume_unique=True, return_indices=True)
            later = zones["last_served_tick"][new] != self._zones["last_served_tick"][old]
            served[new] = self._served[old] + later
            left = np.ones(len(self._zones), np.bool_)
            left[old] = False
            if left.any():
                ended = self._ended(agents, self._zones[left])
                self._gone.append((self._zones[left], self._served[left] + ended))
        self._agents, self._zones, self._served = agents.copy(), zones.copy(), served
        self._given = rows[rows["status"] == 0]

    def _ended(self, agents: Any, zones: Any) -> Any:
        """Which zones that have gone were served: its agent worked there, or stands within its radius now."""
        import numpy as np

        ended = np.zeros(len(zones), np.int64)
        holder = dict(zip(self._given["zone"].tolist(), self._given["agent"].tolist(), strict=True))
        working = dict(zip(self._agents["id"].tolist(), (self._agents["mode"] == 2).tolist(), strict=True))
        zone_of = dict(zip(self._agents["id"].tolist(), self._agents["zone"].tolist(), strict=True))
        for row, zone in enumerate(zones):
            who = holder.get(int(zone["id"]))
            if who is None:
                continue
            at = int(np.searchsorted(agents["id"], who))
            there = at < len(agents) and int(agents["id"][at]) == who
            with np.errstate(all="ignore"):  # a run that does not verify may hold any number
                near = there and float(
                    np.hypot(np.hypot(*(agents[axis][at] - zone[axis] for axis in "xy")), agents["z"][at] - zone["z"])
                ) <= float(zone["radius"])
            ended[row] = near or (working.get(who, False) and zone_of[who] == int(zone["id"]))
        return ended

    def result(self) -> tuple[Any, Any]:
        """Records of all zones, ascending by id, and how often each was served."""
        import numpy as np

        records = np.concatenate([*(records for records, _ in self._gone), self._zones])
        counts = np.concatenate([*(counts for _, counts in self._gone), self._served])
        order = np.argsort(records["id"], kind="stable")
        ids, first = np.unique(records["id"][order], return_index=True)
        if len(ids) == len(order):
            return records[order], counts[order]
        last = np.append(first[1:], len(order)) - 1  # an id that came back: as it was last seen, with all its services
        return records[order][last], np.add.reduceat(counts[order], first)


def _between(ways: Any, before: Any, place: Any, goal: Any) -> tuple[list[Any], float]:
    """Places between two planned ticks, and the metres gone. Without a map agents go straight: there are none."""
    import numpy as np

    if ways is not None:
        between: tuple[list[Any], float] = ways.between(before, place, goal)
        return between
    return [], float(np.hypot(*(place - before).T.astype(np.float64)).sum())


def _goals(rows: Any, agents: Any, zones: Any) -> Any:
    """Centres of the zones that a plan gives, f32[agents, 2]; NaN where it gives none."""
    import numpy as np

    goal = np.full((len(agents), 2), np.nan, np.float32)
    given = rows[(rows["queue_index"] == 0) & (rows["status"] == 0)]
    given = given[np.isin(given["zone"], zones["id"]) & np.isin(given["agent"], agents["id"])]
    at = np.searchsorted(zones["id"], given["zone"])
    who = np.searchsorted(agents["id"], given["agent"])
    goal[who, 0], goal[who, 1] = zones["x"][at], zones["y"][at]
    return goal


def draw_tracks(tracks: Tracks, setup: "Setup", subtitle: str, footnote: str, path: Path) -> None:
    """The picture of `tracks` as a PNG."""
    import numpy as np

    from droveway.paths_picture import Bounds, PathsPicture, ZoneMark

    picture = PathsPicture(Bounds(*_bounds(tracks, setup)), setup.name, subtitle, footnote)
    for kernel in setup.kernels:
        picture.kernel(*(float(kernel[name]) for name in ("x", "y", "sigma", "weight")))
    for obstacle in setup.obstacles:
        _draw_margin(picture, obstacle, setup)
    picture.walls(_blocked_boxes(setup.grid) if setup.grid is not None else ())
    for obstacle in setup.obstacles:
        _draw_obstacle(picture, obstacle, setup)
    for change in tracks.changes:
        _draw_change(picture, change, setup)
    picture.trim()
    shift = 0.0 if setup.grid is None else 0.28 * float(setup.grid.cell_m)
    points = np.stack(tracks.points, axis=1) if tracks.points else np.zeros((0, 0, 2), np.float32)
    for number, places in enumerate(points):
        way = places[np.isfinite(places).all(axis=1)]
        turns = np.ones(len(way), bool)
        turns[1:] = (way[1:] != way[:-1]).any(axis=1)
        picture.path(number, [(float(x), float(y)) for x, y in way[turns]], shift)
    marks = [
        ZoneMark(float(zone["x"]), float(zone["y"]), max(float(zone["radius"]), 0.3), int(count))
        for zone, count in zip(tracks.zones, tracks.served, strict=True)
    ]
    picture.zones(
        marks, least_px=10.0 if setup.grid is None else 5.0
    )  # agents end in the middle of zones, drawn over them
    picture.save(path)


def _bounds(tracks: Tracks, setup: "Setup") -> tuple[float, float, float, float]:
    grid = setup.grid
    if grid is not None:
        x0, y0, cell = float(grid.x0), float(grid.y0), float(grid.cell_m)
        return x0, y0, x0 + grid.width * cell, y0 + grid.height * cell
    import numpy as np

    places = [*tracks.points, np.stack([tracks.zones["x"], tracks.zones["y"]], axis=1)]
    every = np.concatenate(places)
    every = every[np.isfinite(every).all(axis=1)]
    if not len(every):
        return 0.0, 0.0, 1.0, 1.0
    (x0, y0), (x1, y1) = every.min(axis=0).tolist(), every.max(axis=0).tolist()
    room = 0.04 * max(x1 - x0, y1 - y0, 1.0)
    return x0 - room, y0 - room, x1 + room, y1 + room


def _blocked_boxes(grid: Any) -> Iterator[tuple[float, float, float, float]]:
    """Blocked cells as one box a run of a row."""
    import numpy as np

    cell, x0, y0 = float(grid.cell_m), float(grid.x0), float(grid.y0)
    for row in range(grid.height):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], grid.blocked[row], [False]]).astype(np.int8)))
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            yield x0 + first * cell, y0 + row * cell, x0 + end * cell, y0 + (row + 1) * cell


def _draw_margin(picture: Any, obstacle: Any, setup: "Setup") -> None:
    margin = float(obstacle["margin"])
    if obstacle["kind"] == CIRCLE:
        margin += float(obstacle["radius"]) if margin else 0.0
    picture.margin(_corners(obstacle, setup), margin)


def _draw_obstacle(picture: Any, obstacle: Any, setup: "Setup") -> None:
    # On a map nobody walks around obstacles: they only keep zones from being served. Without one they bind ways, too,
    # where the plan says so.
    stops = setup.grid is None and bool(setup.config.flags & 1)
    corners = _corners(obstacle, setup)
    if obstacle["kind"] == CIRCLE:
        picture.disc(*corners[0], float(obstacle["radius"]), stops=stops)
    elif corners:
        picture.polygon(corners, stops=stops)


def _draw_change(picture: Any, change: "FleetEvent", setup: "Setup") -> None:
    """An obstacle that came, drawn as those of the site; it may have gone again."""
    import numpy as np

    from coord.records import OBSTACLE_DTYPE
    from coord.simulation.events import EventKind

    if change.kind != EventKind.OBSTACLE_ADDED:
        return
    obstacle = np.frombuffer(change.record, OBSTACLE_DTYPE)[0]
    stops = int(obstacle["kind"]) == CELLS or (setup.grid is None and bool(setup.config.flags & 1))
    if change.points:
        corners = np.frombuffer(change.points, "<f4").reshape(-1, 2).tolist()
        picture.polygon([(x, y) for x, y in corners], stops=stops)
    elif obstacle["kind"] == CIRCLE:
        picture.disc(float(obstacle["x"]), float(obstacle["y"]), float(obstacle["radius"]), stops=stops)
    else:
        picture.polygon(_box(obstacle), stops=stops)


def _box(obstacle: Any) -> list[tuple[float, float]]:
    x, y, half_x, half_y = (float(obstacle[name]) for name in ("x", "y", "radius", "half_y"))
    return [(x + i * half_x, y + j * half_y) for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def _corners(obstacle: Any, setup: "Setup") -> list[tuple[float, float]]:
    """The corners of a box or a polygon, the centre of a circle."""
    if obstacle["kind"] == CIRCLE:
        return [(float(obstacle["x"]), float(obstacle["y"]))]
    if obstacle["kind"] == BOX:
        return _box(obstacle)
    if setup.rings is None:
        return []
    entry = setup.rings.table[int(obstacle["ring"])]
    first, count = int(entry["first"]), int(entry["count"])
    return [(float(px), float(py)) for px, py in setup.rings.points[first : first + count]]
