"""What a run's ledger says about the ways of agents and the service of zones, between two ticks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

CIRCLE, BOX = 0, 2  # kinds of obstacles

if TYPE_CHECKING:
    from coord.simulation.setup import Setup
    from coord.stl import RunReader


@dataclass
class Tracks:
    """Planned ticks `first` to `last`: counters of the frames, the agents' ways, services by zone.

    The ledger holds the state at the start of each planned tick: what happened since the start of the last one is not
    in it. `points` has the places at each planned tick and, on a grid, those that lie between two of them.
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
    zones: Any = None  # records of the last planned tick
    served: Any = None  # i64[zones]
    steps_m: float = 0.0  # the way of all agents together, metres

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
    before: Any = None
    goal: Any = None
    served_before: Any = None
    for view in reader.frames():
        tick = view.frame.tick
        if start is not None and tick < start:
            continue
        if stop is not None and tick > stop:
            break
        agents, zones = view.inputs.agents, view.inputs.zones
        place = np.stack([agents["x"], agents["y"]], axis=1)
        if tracks.first is None:
            tracks.first = tick
            tracks.served = np.zeros(len(zones), np.int64)
        elif len(place) == len(before):
            between, gone = _between(ways, before, place, goal)
            tracks.steps_m += gone
            if keep_points:
                tracks.points += between
        if served_before is not None and len(served_before) == len(zones):
            tracks.served += served_before != zones["last_served_tick"]
        before, served_before = place, zones["last_served_tick"].copy()
        goal = _goals(view.rows, agents, zones)
        tracks.last = tick
        tracks.frames += 1
        tracks.assigned += view.frame.assigned
        tracks.rejected += view.frame.rejected
        tracks.conflicts += view.frame.conflicts
        tracks.health_worst = max(tracks.health_worst, view.frame.health)
        if keep_points:
            tracks.points.append(place)
        tracks.agents = agents["id"].tolist()
        tracks.zones = zones.copy()
    return tracks


def _between(ways: Any, before: Any, place: Any, goal: Any) -> tuple[list[Any], float]:
    """Places between two planned ticks, and the metres gone. Without a map agents go straight: there are none."""
    import numpy as np

    if ways is not None and len(goal) == len(place):
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
    picture.trim()
    shift = 0.0 if setup.grid is None else 0.28 * float(setup.grid.cell_m)
    points = np.stack(tracks.points, axis=1) if tracks.points else np.zeros((0, 0, 2), np.float32)
    for number, way in enumerate(points):
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


def _corners(obstacle: Any, setup: "Setup") -> list[tuple[float, float]]:
    """The corners of a box or a polygon, the centre of a circle."""
    x, y, half_x = float(obstacle["x"]), float(obstacle["y"]), float(obstacle["radius"])
    if obstacle["kind"] == CIRCLE:
        return [(x, y)]
    if obstacle["kind"] == BOX:
        half_y = float(obstacle["half_y"])
        return [(x + i * half_x, y + j * half_y) for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    if setup.rings is None:
        return []
    entry = setup.rings.table[int(obstacle["ring"])]
    first, count = int(entry["first"]), int(entry["count"])
    return [(float(px), float(py)) for px, py in setup.rings.points[first : first + count]]
