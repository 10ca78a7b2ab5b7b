"""Demand as tasks: zones of their own that come and go, or priorities of zones that rise until they are served.

Source: `docs/formats/coord-scenario.md`, section "Demand".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.records import ZONE_DTYPE, Records
from coord.simulation.arrivals import Arrivals
from coord.simulation.demand import DemandChange, DemandView
from coord.simulation.demand_spec import TASK_KEYS, DemandSpec
from coord.simulation.fleet import ID_MAX

U32 = npt.NDArray[np.uint32]


class TaskDemand:
    """Each task is a zone with a new id; it goes when it is served, or at its deadline while nobody works there."""

    def __init__(self, spec: DemandSpec, arrivals: Arrivals) -> None:
        self._spec, self._arrivals = spec, arrivals
        self._ids: U32 = np.zeros(0, np.uint32)  # of open tasks, ascending
        self._due = np.zeros(0, np.uint64)  # ticks at which they are gone

    def change(self, view: DemandView) -> DemandChange | None:
        """Served and expired tasks go, new ones come."""
        there = np.isin(self._ids, view.zones["id"])  # an event may have removed a task
        ids, due = self._ids[there], self._due[there]
        served = np.isin(ids, view.served)
        expired = ~served & (due <= view.tick) & ~np.isin(ids, view.working)
        stays = ~(served | expired)
        remove = ids[~stays]
        tasks = self._arrivals.tasks(view.tick)
        room = min(self._spec.open_max - int(stays.sum()), ID_MAX + 1 - view.next_id, len(tasks))
        add = _zones(tasks[: max(room, 0)], view)
        last = view.tick + self._spec.deadline_ticks if self._spec.deadline_ticks else 2**64 - 1
        self._ids = np.concatenate([ids[stays], add["id"]])
        self._due = np.concatenate([due[stays], np.full(len(add), min(last, 2**64 - 1), np.uint64)])
        refused = len(tasks) - len(add)
        if not (len(remove) or len(add) or refused):
            return None
        return DemandChange(
            add=add, remove=remove, opened=len(add), served=int(served.sum()), expired=int(expired.sum()),
            refused=refused, calls=bool(len(add) or expired.any()),
        )  # fmt: skip


def _zones(tasks: Records, view: DemandView) -> Records:
    out = np.zeros(len(tasks), ZONE_DTYPE)
    out["id"] = view.next_id + np.arange(len(tasks))
    for name in ("x", "y", "z", *TASK_KEYS):
        out[name] = tasks[name]
    out["last_served_tick"] = view.tick
    return out


class ZoneDemand:
    """Each task raises the priority of a zone: base + count · step in float32. A service there does all its tasks."""

    def __init__(self, spec: DemandSpec, arrivals: Arrivals) -> None:
        self._spec, self._arrivals = spec, arrivals
        self._step = np.float32(spec.task["priority"])
        self._open: dict[int, tuple[int, np.float32]] = {}  # zone id → tasks, priority without any

    def change(self, view: DemandView) -> DemandChange | None:
        """Priorities of served zones fall back, those of zones where tasks come rise."""
        zones = view.zones
        changed: dict[int, np.float32] = {}
        served = 0
        gone = [number for number in self._open if not _has(zones, number)] if self._open else []
        for number in gone:  # an event removed the zone, and its tasks with it
            del self._open[number]
        for number in view.served.tolist():
            if number in self._open:
                count, base = self._open.pop(number)
                served += count
                changed[number] = base
        rows = self._arrivals.zone_rows(view.tick, zones)
        room = max(0, self._spec.open_max - sum(count for count, _ in self._open.values()))
        for row in rows[:room]:
            number = int(zones["id"][row])
            count, base = self._open.get(number, (0, changed.get(number, zones["priority"][row])))
            self._open[number] = (count + 1, base)
            changed[number] = base + np.float32(count + 1) * self._step
        if not changed and len(rows) <= room:
            return None
        ids = np.array(sorted(changed), np.uint32)
        return DemandChange(
            priority_of=ids, priority=np.array([changed[number] for number in ids.tolist()], np.float32),
            opened=min(room, len(rows)), served=served, refused=max(0, len(rows) - room),
            calls=bool(room and len(rows)),
        )  # fmt: skip


def _has(zones: Records, number: int) -> bool:
    row = int(np.searchsorted(zones["id"], number))
    return row < len(zones) and int(zones["id"][row]) == number
