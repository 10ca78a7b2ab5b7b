"""Outside: what comes to a fleet from outside at each tick, and how long it lasts.

Source: `docs/formats/coord-scenario.md`, sections "One tick" and "Events". Scheduled events, returns and seeded faults
are applied in the order (kind, id); an event that finds nothing to change leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from coord.frames.inputs import Inputs
from coord.ground.grid import Grid
from coord.ground.obstacle import POLYGON
from coord.ground.rings import Rings
from coord.records import AGENT_DTYPE, NO_ZONE, OBSTACLE_DTYPE, ZONE_DTYPE, AgentMode, Records
from coord.simulation.events import CELLS, UNNOTICED, EventKind, FleetEvent, event_of
from coord.simulation.faults import fault_key
from coord.simulation.setup import Setup
from coord.sites.movingai import cell_centres

U64 = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.intp]
_FOR_GOOD = 2**64 - 1


class Fleet(Protocol):
    """What events change: `World` is one. Records ascend by id."""

    tick: int
    agents: Records
    inputs: Inputs
    rings: Rings | None
    grid: Grid | None

    def change_agents(self, remove: npt.NDArray[np.uint32], add: Records) -> None:
        """Agents go and come."""

    def change_zones(self, remove: npt.NDArray[np.uint32], add: Records) -> None:
        """Zones go and come."""

    def change_site(self, obstacles: Records, rings: Rings | None, grid: Grid | None) -> None:
        """Other obstacles, rings or blocked cells."""


class Outside:
    """The schedule of a run, and the state that its events leave behind. Rows are those of the world's agents.

    `silent` marks agents whose last report is old news: `reported` is that report. They are told nothing.
    """

    def __init__(self, setup: Setup) -> None:
        n = len(setup.agents)
        self.silent = np.zeros(n, np.bool_)
        self.reported = setup.agents.copy()
        self._still = np.zeros(n, np.uint64)  # the first tick in which the agent moves again
        self._mute = np.zeros(n, np.uint64)  # the first tick in which it reports again
        self._broken = np.zeros(n, np.uint64)  # the tick at whose start it is repaired
        self._scheduled: dict[int, list[FleetEvent]] = {}
        for event in setup.events:
            self._scheduled.setdefault(event.tick, []).append(event)
        self._faults, self._key = setup.faults, fault_key(setup.seed)
        self._broken[setup.agents["mode"] == AgentMode.FAULT] = _FOR_GOOD
        self._away: dict[int, Records] = {}
        self._back_at: dict[int, tuple[int, str]] = {}  # of agents that come back by themselves
        self._cells: dict[int, Records] = {}
        self._base = setup.grid
        self._one_a_cell = setup.motion.model == "pibt"
        self.is_quiet = not setup.events and setup.faults is None  # nothing ever comes

    def resize(self, kept: Rows) -> None:
        """Other agents: row i is what row kept[i] was, -1 for one that comes."""
        old, new = kept[kept >= 0], np.flatnonzero(kept >= 0)
        for name in ("silent", "_still", "_mute", "_broken", "reported"):
            before = getattr(self, name)
            after = np.zeros(len(kept), before.dtype)
            after[new] = before[old]
            setattr(self, name, after)

    def moves(self, tick: int) -> npt.NDArray[np.bool_]:
        """Agents that nothing delays in this tick."""
        return self._still <= tick

    def report(self, tick: int) -> npt.NDArray[np.bool_]:
        """Agents that report at the end of this tick; what they report is no old news."""
        reporting = self._mute <= tick
        self.silent &= ~reporting
        return reporting

    def begin(self, world: Fleet) -> tuple[list[FleetEvent], bool]:
        """Apply what comes at the world's tick. What happened, and whether any of it calls for a plan."""
        tick = world.tick
        if self.is_quiet:
            return [], False
        due = self._scheduled.pop(tick, [])
        returns = [(number, source) for number, (at, source) in self._back_at.items() if at == tick]
        due = due + [FleetEvent(tick, EventKind.AGENT_BACK, number, source) for number, source in returns]
        if self._faults is not None:
            due = due + self._faults.drawn(self._key, tick, world.agents["id"])
        repaired = np.flatnonzero((self._broken == tick) & (world.agents["mode"] == AgentMode.FAULT))
        world.agents["mode"][repaired] = AgentMode.IDLE
        happened: list[FleetEvent] = []
        due.sort()
        for kind in EventKind:
            mine = [event for event in due if event.kind == kind]
            if mine:
                happened += self._handlers[kind](self, world, mine)
        return happened, bool(len(repaired)) or any(event.kind not in UNNOTICED for event in happened)

    def _lost(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        agents, out = world.agents, {}
        for event in events:
            row = _row(agents, event.id)
            if row is None or event.id in out:
                continue
            out[event.id] = event_of(event.kind, agents[row], event.tick, source=event.source, ticks=event.ticks)
            self._away[event.id] = agents[row : row + 1].copy()
            if event.ticks:
                self._back_at[event.id] = (event.tick + event.ticks, event.source)
        if out:
            world.change_agents(np.array(list(out), np.uint32), np.zeros(0, AGENT_DTYPE))
        return list(out.values())

    def _back(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        out: dict[int, FleetEvent] = {}
        fresh: list[Records] = []
        for event in events:
            record = np.frombuffer(event.record, AGENT_DTYPE).copy() if event.record else self._away.get(event.id)
            if record is None or event.id in out or _row(world.agents, event.id) is not None:
                continue
            if self._one_a_cell and world.grid is not None and _stuck(world.grid, record, [world.agents, *fresh]):
                self._put_off(event)
                continue
            self._away.pop(event.id, None)
            self._back_at.pop(event.id, None)
            if int(record["mode"][0]) not in (AgentMode.CHARGING, AgentMode.OFFLINE):
                record["mode"] = AgentMode.IDLE
            record["zone"], record["last_seen_tick"] = NO_ZONE, event.tick - 1
            out[event.id] = event
            fresh.append(record)
        if fresh:
            world.change_agents(np.zeros(0, np.uint32), np.concatenate(fresh))
        rows = np.searchsorted(world.agents["id"], np.array(list(out), np.uint32))  # motion may have made room
        return [
            event_of(event.kind, world.agents[row], event.tick, source=event.source)
            for row, event in zip(rows, out.values(), strict=True)
        ]

    def _put_off(self, event: FleetEvent) -> None:
        """The agent comes as soon as its cell is free: tried again at the next tick."""
        if event.id in self._back_at:
            self._back_at[event.id] = (event.tick + 1, event.source)
        else:
            later = replace(event, tick=event.tick + 1)
            self._scheduled.setdefault(later.tick, []).append(later)

    def _fault(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        agents = world.agents
        reachable = [
            event for event in events
            if (row := _row(agents, event.id)) is not None and int(agents["mode"][row]) != AgentMode.OFFLINE
        ]  # fmt: skip
        happened = self._extend(world, self._broken, reachable)
        rows = [row for row in (_row(world.agents, event.id) for event in happened) if row is not None]
        world.agents["mode"][rows] = AgentMode.FAULT
        world.agents["zone"][rows] = NO_ZONE
        return happened

    def _silence(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        happened = self._extend(world, self._mute, events)
        for event in happened:
            row = _row(world.agents, event.id)
            if row is not None and not self.silent[row]:
                self.silent[row] = True
                self.reported[row] = world.agents[row]
        return happened

    def _delay(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        return self._extend(world, self._still, events)

    def _extend(self, world: Fleet, until: U64, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        """Events that last: the longest of all that an agent meets with counts, shorter ones change nothing."""
        happened = []
        for event in events:
            row = _row(world.agents, event.id)
            end = event.tick + event.ticks if event.ticks else _FOR_GOOD
            if row is not None and end > int(until[row]):
                until[row] = end
                happened.append(event)
        return happened

    def _zones_come(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        fresh = [event for event in events if _row(world.inputs.zones, event.id) is None]
        if fresh:
            records = np.frombuffer(b"".join(event.record for event in fresh), ZONE_DTYPE)
            world.change_zones(np.zeros(0, np.uint32), records)
        return fresh

    def _zones_go(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        out = []
        for event in events:
            row = _row(world.inputs.zones, event.id)
            if row is not None:
                out.append(event_of(event.kind, world.inputs.zones[row], event.tick, source=event.source))
        if out:
            world.change_zones(np.array([event.id for event in out], np.uint32), np.zeros(0, ZONE_DTYPE))
        return out

    def _obstacles_come(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        shapes = _Shapes(world.inputs.obstacles, world.rings)
        out = []
        for event in events:
            if event.id in shapes.records or event.id in self._cells:
                continue
            record = np.frombuffer(event.record, OBSTACLE_DTYPE).copy()
            if int(record["kind"][0]) == CELLS:
                self._cells[event.id] = record
            else:
                shapes.add(record, np.frombuffer(event.points, "<f4").reshape(-1, 2))
            out.append(event)
        if out:
            world.change_site(*shapes.site(), self._grid())
        return out

    def _obstacles_go(self, world: Fleet, events: Sequence[FleetEvent]) -> list[FleetEvent]:
        shapes = _Shapes(world.inputs.obstacles, world.rings)
        out = []
        for event in events:
            cells = self._cells.pop(event.id, None)
            record, points = (cells, b"") if cells is not None else shapes.take(event.id)
            if record is not None:
                out.append(event_of(event.kind, record[0], event.tick, source=event.source, points=points))
        if out:
            world.change_site(*shapes.site(), self._grid())
        return out

    def _grid(self) -> Grid | None:
        """The map with the cells that obstacles block by now."""
        base = self._base
        if base is None or not self._cells:
            return base
        blocked = base.blocked.copy()
        for record in self._cells.values():
            blocked |= blocked_cells(base, record[0])
        return Grid(base.width, base.height, base.cell_m, base.x0, base.y0, blocked)

    _handlers: ClassVar[dict[EventKind, Callable[[Outside, Fleet, Sequence[FleetEvent]], list[FleetEvent]]]] = {
        EventKind.AGENT_LOST: _lost,
        EventKind.AGENT_BACK: _back,
        EventKind.FAULT: _fault,
        EventKind.SILENT: _silence,
        EventKind.DELAY: _delay,
        EventKind.ZONE_ADDED: _zones_come,
        EventKind.ZONE_REMOVED: _zones_go,
        EventKind.OBSTACLE_ADDED: _obstacles_come,
        EventKind.OBSTACLE_REMOVED: _obstacles_go,
    }


def blocked_cells(grid: Grid, record: np.void) -> npt.NDArray[np.bool_]:  # [height, width]
    """Cells whose centres lie within a box: |cx − x| ≤ radius and |cy − y| ≤ half_y, in float32."""
    columns = cell_centres(grid, np.arange(grid.width, dtype=np.int64))[:, 0]
    rows = cell_centres(grid, np.arange(grid.height, dtype=np.int64) * grid.width)[:, 1]
    within: npt.NDArray[np.bool_] = (np.abs(rows - record["y"]) <= record["half_y"])[:, None] & (
        np.abs(columns - record["x"]) <= record["radius"]
    )[None, :]
    return within


def _stuck(grid: Grid, record: Records, others: Sequence[Records]) -> bool:
    """Whether the cell of a record is blocked, and one of the others stands in it: neither could make room."""
    cell = int(grid.index_of(record["x"], record["y"])[0])
    blocked = cell >= 0 and bool(grid.blocked.reshape(-1)[cell])
    return blocked and any(bool((grid.index_of(other["x"], other["y"]) == cell).any()) for other in others)


def _row(records: Records, number: int) -> int | None:
    """The row of an id in records that ascend by id."""
    row = int(np.searchsorted(records["id"], number))
    return row if row < len(records) and int(records["id"][row]) == number else None


class _Shapes:
    """Obstacles by id with the corners of their polygons, so that some can come and go."""

    def __init__(self, obstacles: Records, rings: Rings | None) -> None:
        self.records = {int(obstacles["id"][i]): obstacles[i : i + 1].copy() for i in range(len(obstacles))}
        self._corners = {
            number: np.asarray(rings.ring(int(record["ring"][0])))
            for number, record in self.records.items()
            if rings is not None and int(record["kind"][0]) == POLYGON
        }

    def add(self, record: Records, corners: npt.NDArray[np.float32]) -> None:
        """One more."""
        self.records[int(record["id"][0])] = record
        if int(record["kind"][0]) == POLYGON:
            self._corners[int(record["id"][0])] = corners

    def take(self, number: int) -> tuple[Records | None, bytes]:
        """Remove one: its record and corners, or None where there is none."""
        corners = self._corners.pop(number, None)
        return self.records.pop(number, None), b"" if corners is None else corners.astype("<f4").tobytes()

    def site(self) -> tuple[Records, Rings | None]:
        """All of them by id; polygons' rings in the same order."""
        out = np.zeros(len(self.records), OBSTACLE_DTYPE)
        polygons: list[list[list[float]]] = []
        for row, number in enumerate(sorted(self.records)):
            out[row] = self.records[number][0]
            if number in self._corners:
                out[row]["ring"] = len(polygons)
                polygons.append(self._corners[number].tolist())
        return out, Rings.of(polygons) if polygons else None
