"""What a scenario says of its demand: the `[demand]` table, its hot spots and its file, and their form in a ledger.

Source: `docs/formats/site-toml.md` and `coord-scenario.md`. What the numbers do is `demand.py` and `tasks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from coord.records import Records
from coord.sites.scenario_schema import DEMANDS, POSITION_MAX_M, TABLES, fault_of

TASK_DTYPE = np.dtype([
    ("tick", "<u8"), ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("radius", "<f4"), ("priority", "<f4"),
    ("service_ticks", "<u4"), ("need_caps", "<u4"), ("energy_cost", "<f4"),
])  # fmt: skip
TASKS_MAX = 200_000
TASK_KEYS = ("radius", "priority", "service_ticks", "need_caps", "energy_cost")
SPOTS_MAX, PATH_MAX = 4096, 65536
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class HotSpot:
    """One Gaussian of the demand. `path` is (tick, x, y) with ticks ascending: where its centre is then."""

    x: float
    y: float
    sigma: float
    weight: float
    path: tuple[tuple[int, float, float], ...] = ()

    def centre(self, tick: int) -> tuple[float, float]:
        """Where the centre is at a tick: on the straight line between two places of the path, in float64.

        Before the first place and after the last one it stands there; without a path it stands at (x, y).

        >>> HotSpot(0.0, 0.0, 1.0, 1.0, ((10, 0.0, 0.0), (20, 5.0, 10.0))).centre(12)
        (1.0, 2.0)
        """
        if not self.path:
            return self.x, self.y
        for (t0, x0, y0), (t1, x1, y1) in pairwise(self.path):
            if t0 <= tick < t1:
                share = (tick - t0) / (t1 - t0)
                return x0 + (x1 - x0) * share, y0 + (y1 - y0) * share
        return self.path[0][1:] if tick < self.path[0][0] else self.path[-1][1:]


def _no_tasks() -> Records:
    return np.zeros(0, TASK_DTYPE)


@dataclass(frozen=True, eq=False)
class DemandSpec:
    """Everything that the demand of a run depends on, besides the seed and the map.

    >>> DemandSpec().to_map()
    {'model': 'persistent'}
    """

    model: str = "persistent"
    where: str = "tasks"
    rate: float = 0.0  # tasks a tick, on average
    open_max: int = 0
    deadline_ticks: int = 0  # 0: none
    box: Box = (0.0, 0.0, 100.0, 100.0)
    task: Mapping[str, float | int] = field(default_factory=dict)  # TASK_KEYS
    spots: tuple[HotSpot, ...] = ()
    replayed: Records = field(default_factory=_no_tasks)  # TASK_DTYPE, sorted by all fields

    def to_map(self) -> dict[str, Any]:
        """As it stands in the ledger's scenario."""
        if self.model == "persistent":
            return {"model": self.model}
        return {
            "box": list(self.box),
            "deadline_ticks": self.deadline_ticks,
            "model": self.model,
            "open_max": self.open_max,
            "rate": self.rate,
            "replayed": self.replayed.tobytes(),
            "spots": [
                {"path": [list(place) for place in spot.path], "sigma": spot.sigma, "weight": spot.weight,
                 "x": spot.x, "y": spot.y}
                for spot in self.spots
            ],
            "task": dict(self.task),
            "where": self.where,
        }  # fmt: skip

    @classmethod
    def from_map(cls, value: Mapping[str, Any]) -> DemandSpec:
        """From the ledger's scenario. ValueError naming what is missing, of another type or out of range."""
        model = value.get("model")
        if model not in DEMANDS:
            raise ValueError(f"demand.model: expected {' or '.join(DEMANDS)}, got {model!r}")
        if model == "persistent":
            return cls()
        keys = {"box", "deadline_ticks", "model", "open_max", "rate", "replayed", "spots", "task", "where"}
        if set(value) != keys:
            raise ValueError(f"demand: expected the keys {', '.join(sorted(keys))}")
        for name in ("where", "rate", "open_max", "deadline_ticks"):
            _same_kind(name, value[name], "demand")
        box, task = value["box"], value["task"]
        if not (
            _floats(box, 4) and all(abs(v) <= POSITION_MAX_M for v in box) and box[0] <= box[2] and box[1] <= box[3]
        ):
            raise ValueError("demand.box: expected [x0, y0, x1, y1] within 2^20, x0 <= x1 and y0 <= y1")
        if not isinstance(task, dict) or set(task) != set(TASK_KEYS):
            raise ValueError(f"demand.task: expected {', '.join(TASK_KEYS)}")
        for name in TASK_KEYS:
            _same_kind(name, task[name], "demand")
        if not isinstance(value["spots"], list) or len(value["spots"]) > SPOTS_MAX:
            raise ValueError(f"demand.spots: expected at most {SPOTS_MAX} maps")
        data = value["replayed"]
        if (
            not isinstance(data, bytes)
            or len(data) % TASK_DTYPE.itemsize
            or len(data) > TASKS_MAX * TASK_DTYPE.itemsize
        ):
            raise ValueError(f"demand.replayed: expected at most {TASKS_MAX} tasks of {TASK_DTYPE.itemsize} bytes")
        replayed = np.frombuffer(data, TASK_DTYPE)
        fault = task_fault(replayed)
        if fault is not None or replayed.tobytes() != sorted_tasks(replayed).tobytes():
            raise ValueError(f"demand.replayed: {fault or 'expected tasks in order'}")
        return cls(
            model, value["where"], value["rate"], value["open_max"], value["deadline_ticks"],
            (box[0], box[1], box[2], box[3]), dict(task), tuple(map(_spot, value["spots"])), replayed,
        )  # fmt: skip


def _same_kind(name: str, value: Any, table: str) -> None:
    key = TABLES[table].key(name)
    fault = fault_of(key, value)
    if fault is not None or isinstance(value, float) != (key.kind == "float"):
        raise ValueError(f"{table}.{name}: {fault or 'expected the type of its key'}")


def _floats(value: Any, n: int) -> bool:
    return isinstance(value, list) and len(value) == n and all(isinstance(v, float) and math.isfinite(v) for v in value)


def _spot(value: Any) -> HotSpot:
    if not isinstance(value, dict) or set(value) != {"path", "sigma", "weight", "x", "y"}:
        raise ValueError("demand.spots: expected maps of path, sigma, weight, x and y")
    for name in ("x", "y", "sigma", "weight"):
        fault = fault_of(TABLES["hot_spot"].key(name), value[name])
        if fault is not None or not isinstance(value[name], float):
            raise ValueError(f"demand.spots.{name}: {fault or 'expected a float'}")
    if value["path"]:
        fault = fault_of(TABLES["hot_spot"].key("path"), value["path"])
        if fault is not None:
            raise ValueError(f"demand.spots.path: {fault}")
    elif value["path"] != []:
        raise ValueError("demand.spots.path: expected an array")
    return HotSpot(value["x"], value["y"], value["sigma"], value["weight"], path_of(value["path"]))


def path_of(rows: list[Any]) -> tuple[tuple[int, float, float], ...]:
    """A checked path as HotSpot has it."""
    return tuple((int(tick), float(x), float(y)) for tick, x, y in rows)


def sorted_tasks(tasks: Records) -> Records:
    """Tasks by tick, then by all other fields: the order of a file never matters."""
    return np.sort(tasks, order=list(TASK_DTYPE.names or ()), kind="stable")


def task_fault(tasks: Records) -> str | None:
    """The first field of a task that is out of range, as the end of an error text, or None."""
    if len(tasks) and int(tasks["tick"].min()) < 1:
        return "tick: expected at least 1, got 0"
    for axis in "xyz":
        if not (np.abs(tasks[axis]) <= POSITION_MAX_M).all():
            return f"{axis}: expected finite numbers within 2^20"
    for name in ("radius", "priority", "energy_cost"):
        key = TABLES["demand"].key(name)
        values = tasks[name].astype(np.float64)
        assert key.minimum is not None
        assert key.maximum is not None
        if not ((values >= key.minimum) & (values <= key.maximum)).all():
            return f"{name}: expected numbers in the range of [demand] {name}"
    return None
