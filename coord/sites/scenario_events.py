"""The `[[event]]` rows of a SITE.toml as fleet events, checked against the fleet, and its `[demand]` as a spec.

Source: `docs/formats/site-toml.md`.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from coord.errors import ScenarioError
from coord.ground.grid import Grid
from coord.records import AGENT_DTYPE, NO_ZONE, OBSTACLE_DTYPE, ZONE_DTYPE, Records
from coord.simulation import fleet
from coord.simulation.demand_spec import TASK_KEYS, DemandSpec, HotSpot, path_of
from coord.simulation.events import CELLS, KINDS, EventKind, FleetEvent
from coord.simulation.task_file import read_tasks
from coord.sites.scenario_schema import AGENT_PLACE, AGENTS_MAX, EVENT_KEYS, SHAPE_KEYS, TABLES

Document = dict[str, Any]

SHAPE_CODES = {"circle": 0, "polygon": 1, "box": 2, "cells": CELLS}
_OF_AGENTS = (EventKind.AGENT_LOST, EventKind.FAULT, EventKind.SILENT, EventKind.DELAY, EventKind.AGENT_BACK)


def check_event_row(row: Mapping[str, Any], file: str, where: str) -> None:
    """The keys of a kind: which belong, which are missing."""
    kind = row["kind"]
    needed, allowed = EVENT_KEYS[kind]
    if kind == "agent_back" and any(row[name] is not None for name in AGENT_PLACE):
        needed = ("x", "y")
    if kind == "obstacle_added" and row["shape"] is not None:
        needed = ("shape", *SHAPE_KEYS[row["shape"]])
        allowed = needed if row["shape"] == "cells" else (*needed, "margin")
    for key in TABLES["event"].keys[3:]:
        if key.name not in allowed and row[key.name] is not None:
            of = f"{kind} of shape {row['shape']}" if kind == "obstacle_added" and row["shape"] else kind
            raise ScenarioError(
                file, f"{where}{key.name}", f"does not belong to {of}: {', '.join(allowed) or 'no more'}"
            )
        if key.name in needed and row[key.name] is None:
            raise ScenarioError(file, f"{where}{key.name}", f"is missing in {kind}: {', '.join(needed)}")
    if kind == "delay" and row["ticks"] == 0:
        raise ScenarioError(file, f"{where}ticks", "expected at least 1 for delay, got 0")


def event_order(row: Mapping[str, Any]) -> tuple[int, int, int, str]:
    """Where a row stands in the canonical text."""
    return row["tick"], KINDS[row["kind"]], row["id"], json.dumps(row, sort_keys=True)


class EventRows:
    """Rows become events: ids of the file become those of the records, and must be known."""

    def __init__(
        self, agents: Records, zones: Records, agent_ids: Sequence[int], zone_ids: Sequence[int], obstacles: int,
        grid: Grid | None, file: str, *, tasks: bool,
    ) -> None:  # fmt: skip
        self._ids = {"agent": (agents["id"], agent_ids), "zone": (zones["id"], zone_ids)}
        self._obstacles, self._grid, self._file, self._tasks = obstacles, grid, file, tasks

    def events(self, rows: Sequence[Document]) -> tuple[FleetEvent, ...]:
        """In the order in which they are applied. Raises ScenarioError naming tick, kind and id."""
        out = [self._event(row) for row in rows]
        out.sort()
        for before, event in pairwise(out):
            if before.place == event.place:
                raise ScenarioError(self._file, _where(event), "expected once, got it twice at this tick")
        self._check_known(out)
        return tuple(out)

    def _event(self, row: Document) -> FleetEvent:
        kind = KINDS[row["kind"]]
        number = self._number(kind, row)
        record, points = b"", b""
        if kind == EventKind.AGENT_BACK and row["x"] is not None:
            record = self._agent(row, number)
        elif kind == EventKind.ZONE_ADDED:
            record = self._zone(row, number)
        elif kind == EventKind.OBSTACLE_ADDED:
            record, points = self._obstacle(row, number)
        return FleetEvent(row["tick"], kind, number, "site", row["ticks"] or 0, record, points)

    def _number(self, kind: EventKind, row: Document) -> int:
        """The id that the records have: that of the file, or its number where ids do not fit 32 bits."""
        number = int(row["id"])
        _, external = self._ids["agent" if kind in _OF_AGENTS else "zone"]
        if kind not in (EventKind.OBSTACLE_ADDED, EventKind.OBSTACLE_REMOVED) and external:
            at = bisect_left(external, number)
            if at < len(external) and external[at] == number:
                return at
            if number < len(external):
                raise self._error(
                    row, f"expected an id of at least {len(external)}: lower ones number those of the file"
                )
        if number > fleet.ID_MAX:
            raise self._error(row, f"expected an id of the file, or at most {fleet.ID_MAX}, got {number}")
        return number

    def _agent(self, row: Document, number: int) -> bytes:
        out = np.zeros(1, AGENT_DTYPE)
        _fill(out, row, number, "agent", ("z", *fleet.AGENT_KEYS))
        out["zone"], out["last_seen_tick"] = NO_ZONE, row["tick"] - 1
        if self._grid is not None:
            fleet.check_on_grid(out, np.zeros(0, ZONE_DTYPE), self._grid, self._file, [row["id"]])
        return out.tobytes()

    def _zone(self, row: Document, number: int) -> bytes:
        out = np.zeros(1, ZONE_DTYPE)
        _fill(out, row, number, "zone", ("z", *fleet.ZONE_KEYS))
        out["last_served_tick"] = row["tick"]
        if self._grid is not None:
            fleet.check_on_grid(np.zeros(0, AGENT_DTYPE), out, self._grid, self._file, (), [row["id"]])
        return out.tobytes()

    def _obstacle(self, row: Document, number: int) -> tuple[bytes, bytes]:
        out = np.zeros(1, OBSTACLE_DTYPE)
        shape = row["shape"]
        if shape == "cells" and self._grid is None:
            raise self._error(row, 'shape "cells" expects a [map]')
        out["id"], out["kind"], out["margin"] = number, SHAPE_CODES[shape], row["margin"] or 0.0
        if shape == "polygon":
            return out.tobytes(), np.asarray(row["points"], "<f4").tobytes()
        for name in SHAPE_KEYS[shape]:
            out[name] = row[name]
        return out.tobytes(), b""

    def _check_known(self, events: Sequence[FleetEvent]) -> None:
        agents = _Known(self._ids["agent"][0])
        zones = _Known(self._ids["zone"][0])
        obstacles = _Known(np.arange(self._obstacles, dtype=np.uint32))
        agents.extra |= {event.id for event in events if event.kind == EventKind.AGENT_BACK and event.record}
        zones.extra |= {event.id for event in events if event.kind == EventKind.ZONE_ADDED}
        obstacles.extra |= {event.id for event in events if event.kind == EventKind.OBSTACLE_ADDED}
        for event in events:
            if event.kind in _OF_AGENTS:
                known, what = agents, "an agent of the file, or one that an agent_back with a place brings"
            elif event.kind in (EventKind.ZONE_ADDED, EventKind.ZONE_REMOVED):
                known, what = zones, "a zone of the file, or one that a zone_added brings"
            else:
                known, what = obstacles, "an obstacle of the file (0, 1, …), or one that an obstacle_added brings"
            if not known.has(event.id) and not (known is zones and self._tasks):
                raise ScenarioError(self._file, _where(event), f"expected {what}")
        total = len(self._ids["agent"][0]) + sum(not agents.was(number) for number in agents.extra)
        if total > AGENTS_MAX:
            raise ScenarioError(self._file, "[[event]]", f"expected at most {AGENTS_MAX} agents in all, got {total}")

    def _error(self, row: Document, text: str) -> ScenarioError:
        return ScenarioError(self._file, f"[[event]] at tick {row['tick']}: {row['kind']} {row['id']}", text)


class _Known:
    def __init__(self, ids: Any) -> None:
        self._ids = ids
        self.extra: set[int] = set()

    def was(self, number: int) -> bool:
        at = int(np.searchsorted(self._ids, number))
        return at < len(self._ids) and int(self._ids[at]) == number

    def has(self, number: int) -> bool:
        return number in self.extra or self.was(number)


def _where(event: FleetEvent) -> str:
    return f"[[event]] at tick {event.tick}: {event.kind.word} {event.id}"


def _fill(out: Records, row: Document, number: int, table: str, names: Sequence[str]) -> None:
    out["id"], out["x"], out["y"] = number, row["x"], row["y"]
    for name in names:
        out[name] = TABLES[table].key(name).default if row[name] is None else row[name]


_ONLY: dict[str, tuple[str, ...]] = {  # keys of [demand] that a model has beside model, where, open_max and the task's
    "uniform": ("rate", "box", "deadline_ticks"), "hot_spots": ("rate", "deadline_ticks"),
    "moving": ("rate", "deadline_ticks"), "replayed": ("file", "blake3", "deadline_ticks"),
}  # fmt: skip


def demand_spec(document: Document, base_dir: Path, grid: Grid | None, file: str) -> DemandSpec:
    """The demand of a scenario. Raises ScenarioError naming the key that does not belong or is missing."""
    table, spots = document["demand"], document.get("hot_spot", [])
    model = table["model"]
    common = () if model == "persistent" else ("where", "open_max", *TASK_KEYS)
    allowed = ("model", *common, *_ONLY.get(model, ()))
    for key in TABLES["demand"].keys:
        if key.name not in allowed and table[key.name] != key.default:
            if model == "persistent":
                models = [name for name in _ONLY if key.name in _ONLY[name]] or list(_ONLY)
                needed = " or ".join(f'"{name}"' for name in models)
                raise ScenarioError(file, f"[demand] {key.name}", f"needs [demand] model = {needed}")
            raise ScenarioError(file, f"[demand] {key.name}", f"does not belong to {model}: {', '.join(allowed)}")
    if bool(spots) != (model in ("hot_spots", "moving")):
        expected = "tables [[hot_spot]]" if not spots else "none"
        raise ScenarioError(file, "[[hot_spot]]", f'expected {expected} with [demand] model = "{model}"')
    if model == "hot_spots" and any(row["path"] is not None for row in spots):
        raise ScenarioError(file, "[[hot_spot]] path", 'expected [demand] model = "moving" for hot spots with a path')
    if model == "persistent":
        return DemandSpec()
    if table["where"] == "zones" and table["deadline_ticks"]:
        raise ScenarioError(file, "[demand] deadline_ticks", 'does not belong to where = "zones"')
    if table["box"] is not None and (grid is not None or table["where"] == "zones"):
        raise ScenarioError(file, "[demand] box", "expected no box with a [map] or with zones: places are theirs")
    task = {name: table[name] for name in TASK_KEYS}
    if model == "replayed":
        if table["file"] is None:
            raise ScenarioError(file, "[demand] file", "is missing: a replayed demand comes from a file")
        replayed = read_tasks(base_dir / table["file"], table["blake3"], task, file)
    else:
        replayed = DemandSpec().replayed
    box = table["box"] or fleet.BOX_DEFAULT
    return DemandSpec(
        model=model, where=table["where"], rate=0.0 if model == "replayed" else table["rate"],
        open_max=table["open_max"], deadline_ticks=table["deadline_ticks"], box=(box[0], box[1], box[2], box[3]),
        task=task, replayed=replayed,
        spots=tuple(
            HotSpot(row["x"], row["y"], row["sigma"], row["weight"], path_of(row["path"] or [])) for row in spots
        ),
    )  # fmt: skip
