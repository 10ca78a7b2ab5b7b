"""What happens to a fleet from outside: agents lost and back, faults, silence, delays, zones and obstacles.

Source: `docs/formats/coord-event.md`. The same form stands in a scenario (what is to happen, `[[event]]`) and in a
ledger (what happened, `coord.event`); in the second one the records are always there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from coord.records import AGENT_DTYPE, OBSTACLE_DTYPE, ZONE_DTYPE
from coord.sites.scenario_schema import U32_MAX

VERSION = 1
POINTS_BYTES_MAX = 8 * 2**20 - 64
SOURCES = ("site", "faults")
CELLS = 3  # an obstacle record of this kind blocks cells of the grid; it stands in events only


class EventKind(IntEnum):
    """Kinds in the order in which they are applied within a tick."""

    AGENT_LOST = 0
    AGENT_BACK = 1
    FAULT = 2
    SILENT = 3
    DELAY = 4
    ZONE_ADDED = 5
    ZONE_REMOVED = 6
    OBSTACLE_ADDED = 7
    OBSTACLE_REMOVED = 8

    @property
    def word(self) -> str:
        """The name in files."""
        return self.name.lower()


KINDS = {kind.word: kind for kind in EventKind}
UNNOTICED = (EventKind.SILENT, EventKind.DELAY)  # nobody is told, so no plan is made for them
_RECORDS = {
    EventKind.AGENT_LOST: AGENT_DTYPE,
    EventKind.AGENT_BACK: AGENT_DTYPE,
    EventKind.ZONE_ADDED: ZONE_DTYPE,
    EventKind.ZONE_REMOVED: ZONE_DTYPE,
    EventKind.OBSTACLE_ADDED: OBSTACLE_DTYPE,
    EventKind.OBSTACLE_REMOVED: OBSTACLE_DTYPE,
}
_LASTS = (EventKind.AGENT_LOST, EventKind.FAULT, EventKind.SILENT, EventKind.DELAY)
_BRINGS = (EventKind.ZONE_ADDED, EventKind.OBSTACLE_ADDED)


@dataclass(frozen=True, order=True)
class FleetEvent:
    """One event. Sorted by (tick, kind, id, source): the order in which a tick applies them."""

    tick: int
    kind: EventKind
    id: int  # of the agent, zone or obstacle
    source: str = "site"  # "site": written in SITE.toml; "faults": drawn from the seed
    ticks: int = 0  # how long it lasts; 0: for good, and for kinds that don't last
    record: bytes = b""  # AgentState, WorkZone or Obstacle; in a scenario empty where none is given
    points: bytes = b""  # float32 pairs: the corners of a polygon

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands in the order of a scenario: no two events share one."""
        return self.tick, self.kind, self.id

    def to_map(self) -> dict[str, Any]:
        """The map of the effect; the tick is the event's own."""
        return {
            "id": self.id,
            "kind": self.kind.word,
            "points": self.points,
            "record": self.record,
            "source": self.source,
            "ticks": self.ticks,
            "version": VERSION,
        }

    @classmethod
    def from_map(cls, value: Mapping[str, Any], tick: int, *, happened: bool = True) -> FleetEvent:
        """The event of a map. ValueError naming the key that is missing, of another type or out of place.

        happened: whether it stands in a ledger; an event of a scenario has a record only where it brings one.
        """
        keys = ("id", "kind", "points", "record", "source", "ticks", "version")
        types = (int, str, bytes, bytes, str, int, int)
        for name, kind in zip(keys, types, strict=True):
            if type(value.get(name)) is not kind:
                raise ValueError(f"{name}: expected {kind.__name__}, got {type(value.get(name)).__name__}")
        if set(value) != set(keys):
            raise ValueError(f"expected the keys {', '.join(keys)}, got others")
        if value["version"] != VERSION:
            raise ValueError(f"version: expected {VERSION}, got {value['version']}")
        if value["kind"] not in KINDS:
            raise ValueError(f"kind: expected {' or '.join(KINDS)}, got {value['kind']!r}")
        if value["source"] not in SOURCES:
            raise ValueError(f"source: expected {' or '.join(SOURCES)}, got {value['source']!r}")
        for name in ("id", "ticks"):
            if not 0 <= value[name] <= U32_MAX - (name == "id"):
                raise ValueError(f"{name}: expected 0 to {U32_MAX - (name == 'id')}, got {value[name]}")
        event = cls(
            tick, KINDS[value["kind"]], value["id"], value["source"], value["ticks"], value["record"], value["points"]
        )
        event._check(happened)
        return event

    def _check(self, happened: bool) -> None:
        if self.ticks and self.kind not in _LASTS:
            raise ValueError(f"ticks: expected 0 for {self.kind.word}, got {self.ticks}")
        if self.kind == EventKind.DELAY and not self.ticks:
            raise ValueError("ticks: expected at least 1 for delay, got 0")
        dtype = _RECORDS.get(self.kind)
        full = 0 if dtype is None else dtype.itemsize
        sizes = {full} if happened or self.kind in _BRINGS else {0, full if self.kind == EventKind.AGENT_BACK else 0}
        if len(self.record) not in sizes:
            expected = " or ".join(map(str, sorted(sizes)))
            raise ValueError(f"record: expected {expected} bytes for {self.kind.word}, got {len(self.record)}")
        polygon = False
        if self.record and dtype is not None:
            record = np.frombuffer(self.record, dtype)[0]
            if int(record["id"]) != self.id:
                raise ValueError(f"record: expected one of id {self.id}, got {int(record['id'])}")
            polygon = dtype is OBSTACLE_DTYPE and int(record["kind"]) == 1
        corners, rest = divmod(len(self.points), 8)
        if rest or len(self.points) > POINTS_BYTES_MAX or (corners >= 3) != polygon or (corners and not polygon):
            raise ValueError(
                f"points: expected {'at least 3 pairs' if polygon else 'none'}, got {len(self.points)} bytes"
            )


def event_of(kind: EventKind, record: np.void, tick: int, **fields: Any) -> FleetEvent:
    """An event about a record."""
    return FleetEvent(tick, kind, int(record["id"]), record=record.tobytes(), **fields)
