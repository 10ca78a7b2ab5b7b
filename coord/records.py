"""The records of a plan call: layouts of docs/formats/records.md as numpy dtypes, and as frozen dataclasses.

Planning works on the dtypes; the dataclasses are for people. Little-endian, naturally aligned, reserved bytes zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Self, TypeVar

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from coord.errors import BadInput
from tensor.float_mode import plain_mode

NO_ZONE = 0xFFFFFFFF
COORD_UNREACHABLE_TRAVEL_TIME = 0xFFFFFFFF
POSITION_METRES_MAX = float(2**20)

Records = NDArray[np.void]


def _dtype(size: int, layout: Sequence[tuple[str, str, int]]) -> np.dtype[np.void]:
    return np.dtype(
        {
            "names": [name for name, _, _ in layout],
            "formats": [kind for _, kind, _ in layout],
            "offsets": [offset for _, _, offset in layout],
            "itemsize": size,
        }
    )


AGENT_DTYPE = _dtype(
    48,
    [
        ("id", "<u4", 0), ("mode", "u1", 4), ("flags", "u1", 5), ("reserved", "<u2", 6),
        ("x", "<f4", 8), ("y", "<f4", 12), ("z", "<f4", 16), ("speed", "<f4", 20), ("energy", "<f4", 24),
        ("memory_ticks", "<u4", 28), ("last_seen_tick", "<u8", 32), ("zone", "<u4", 40), ("caps", "<u4", 44),
    ],
)  # fmt: skip
ZONE_DTYPE = _dtype(
    48,
    [
        ("id", "<u4", 0), ("x", "<f4", 4), ("y", "<f4", 8), ("z", "<f4", 12), ("radius", "<f4", 16),
        ("priority", "<f4", 20), ("last_served_tick", "<u8", 24), ("service_ticks", "<u4", 32),
        ("need_caps", "<u4", 36), ("energy_cost", "<f4", 40), ("reserved", "<u4", 44),
    ],
)  # fmt: skip
OBSTACLE_DTYPE = _dtype(
    32,
    [
        ("id", "<u4", 0), ("kind", "u1", 4), ("reserved", "3u1", 5), ("x", "<f4", 8), ("y", "<f4", 12),
        ("radius", "<f4", 16), ("half_y", "<f4", 20), ("margin", "<f4", 24), ("ring", "<u4", 28),
    ],
)  # fmt: skip
KERNEL_DTYPE = _dtype(
    24,
    [
        ("id", "<u4", 0), ("x", "<f4", 4), ("y", "<f4", 8), ("sigma", "<f4", 12), ("weight", "<f4", 16),
        ("kind", "u1", 20), ("reserved", "3u1", 21),
    ],
)  # fmt: skip
CONFIG_DTYPE = _dtype(
    64,
    [
        ("w_priority", "<f4", 0), ("w_idle", "<f4", 4), ("w_cover", "<f4", 8), ("w_avoid", "<f4", 12),
        ("w_travel", "<f4", 16), ("w_switch", "<f4", 20), ("idle_cap_ticks", "<u4", 24),
        ("max_travel_ticks", "<u4", 28), ("max_stale_ticks", "<u4", 32), ("min_energy", "<f4", 36),
        ("cutoff_sigmas", "<f4", 40), ("idle_score", "<i4", 44), ("work_budget", "<u8", 48),
        ("k_candidates", "<u2", 56), ("planner", "u1", 58), ("flags", "u1", 59), ("reserved", "<u4", 60),
    ],
)  # fmt: skip
ROW_DTYPE = _dtype(
    32,
    [
        ("agent", "<u4", 0), ("zone", "<u4", 4), ("status", "u1", 8), ("mode", "u1", 9), ("reason", "<u2", 10),
        ("score", "<i4", 12), ("travel", "<u4", 16), ("stale", "<u4", 20), ("idle", "<u4", 24),
        ("queue_index", "<u4", 28),
    ],
)  # fmt: skip
RING_DTYPE = _dtype(8, [("first", "<u4", 0), ("count", "<u4", 4)])


class AgentMode(IntEnum):
    """What an agent is doing; codes of `AgentState.mode`."""

    IDLE = 0
    TRAVELLING = 1
    WORKING = 2
    CHARGING = 3
    OFFLINE = 4
    FAULT = 5


class _Record:
    """Shared by the dataclasses: encoding to the layout of their dtype and back. Equal records have equal bytes, so a
    value and its float32 are the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    @classmethod
    def _layout(cls) -> tuple[str, np.dtype[np.void]]:
        return _LAYOUTS[cls.__name__]

    def encode(self) -> bytes:
        """The record's bytes; BadInput where a whole number does not fit its field."""
        table, dtype = self._layout()
        return as_records([self], dtype, table).tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The record in `data`, which must have exactly its size and zero reserved bytes."""
        table, dtype = cls._layout()
        if len(data) != dtype.itemsize:
            raise BadInput(table, None, "bytes", f"must be {dtype.itemsize} bytes long, got {len(data)}")
        record = np.frombuffer(data, dtype)
        check_reserved(record, table)
        return cls.from_record(record[0])

    @classmethod
    @plain_mode()
    def from_record(cls, record: np.void) -> Self:
        """From one element of an array of the record's dtype; reserved bytes are left out."""
        return cls(**{field.name: record[field.name].item() for field in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentState(_Record):
    """One agent: position in metres east-north-up, speed in metres a tick, energy 0..1.

    The fields are those of docs/formats/records.md, the defaults those of `[[agent]]` in a SITE.toml.
    >>> len(AgentState(id=7, x=0, y=0, speed=1.5).encode())
    48
    """

    id: int
    mode: int = AgentMode.IDLE
    flags: int = 0
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    speed: float = 1.0
    energy: float = 1.0
    memory_ticks: int = 100
    last_seen_tick: int = 0
    zone: int = NO_ZONE
    caps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkZone(_Record):
    """One zone: a disc that an agent serves from inside; `need_caps` are bits that the agent's caps must contain.

    radius, priority and service_ticks are 0 here where nothing is said; a SITE.toml has 0.5 m, 1.0 and 5 ticks instead
    (docs/formats/site-toml.md).

    >>> WorkZone.decode(WorkZone(id=3, x=3, y=4, radius=1).encode()).y
    4.0
    """

    id: int
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    radius: float = 0.0
    priority: float = 0.0
    last_served_tick: int = 0
    service_ticks: int = 0
    need_caps: int = 0
    energy_cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Obstacle(_Record):
    """Kind 0 circle (radius), 1 polygon (`ring` of Rings), 2 box (half width `radius`, half height `half_y`)."""

    id: int
    kind: int = 0
    x: float = 0.0
    y: float = 0.0
    radius: float = 0.0
    half_y: float = 0.0
    margin: float = 0.0
    ring: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianKernel(_Record):
    """One influence: weight > 0 attracts, < 0 repels; `kind` (0 hand-made, 1 learned, 2 imported) changes no score."""

    id: int
    x: float = 0.0
    y: float = 0.0
    sigma: float = 1.0
    weight: float = 1.0
    kind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanConfig(_Record):
    """How to plan. Planner 0 greedy, 1 swap, 2 auction, 3 exact (the name is for SITE.toml and the command line);
    flags bit 0 tests the segment agent–zone against obstacles. Every field: docs/formats/records.md; the defaults are
    those of `[plan]`.

    >>> hex(PlanConfig().hash())
    '0x7e51ee561f55ff21'
    """

    w_priority: float = 1.0
    w_idle: float = 1.0
    w_cover: float = 1.0
    w_avoid: float = 1.0
    w_travel: float = 1.0
    w_switch: float = 0.1
    idle_cap_ticks: int = 1000
    max_travel_ticks: int = 1000
    max_stale_ticks: int = 100
    min_energy: float = 0.05
    cutoff_sigmas: float = 4.0
    idle_score: int = -(2**31)
    work_budget: int = 0
    k_candidates: int = 24
    planner: int = 1
    flags: int = 0

    def hash(self) -> int:
        """First 8 bytes of BLAKE3 of the encoded config, little-endian."""
        return int.from_bytes(blake3(self.encode()).digest(8), "little")


_LAYOUTS: dict[str, tuple[str, np.dtype[np.void]]] = {
    "AgentState": ("agents", AGENT_DTYPE),
    "WorkZone": ("zones", ZONE_DTYPE),
    "Obstacle": ("obstacles", OBSTACLE_DTYPE),
    "GaussianKernel": ("kernels", KERNEL_DTYPE),
    "PlanConfig": ("config", CONFIG_DTYPE),
}
_TYPES = {"agents": AgentState, "zones": WorkZone, "obstacles": Obstacle, "kernels": GaussianKernel}
DTYPES = {"agents": AGENT_DTYPE, "zones": ZONE_DTYPE, "obstacles": OBSTACLE_DTYPE, "kernels": KERNEL_DTYPE}

R = TypeVar("R", bound=_Record)


@plain_mode()
def as_records(items: Records | Iterable[Any], dtype: np.dtype[np.void], table: str) -> Records:
    """An array of `dtype` from such an array (as it is, no copy) or from dataclasses; `table` names it in errors.

    >>> as_records([WorkZone(id=1), WorkZone(id=2)], ZONE_DTYPE, "zones")["id"].tolist()
    [1, 2]
    """
    if isinstance(items, np.ndarray):
        if items.dtype != dtype or items.ndim != 1:
            raise TypeError(
                f"{table} must be a one-dimensional array of coord.{_dtype_name(table)}, got {items.dtype} with shape "
                f"{items.shape} (hint: np.zeros(n, coord.{_dtype_name(table)}), or a list of dataclasses)"
            )
        return items
    rows = list(items)
    out = np.zeros(len(rows), dtype)
    for name in dtype.names or ():
        if name == "reserved":
            continue
        kind = dtype[name]
        column = []
        for i, row in enumerate(rows):
            if not isinstance(row, _Record) or row._layout()[1] is not dtype:
                place = "config" if table == "config" else f"{table}[{i}]"
                raise TypeError(f"{place} must be {_type_name(table)}, got {type(row).__name__}")
            column.append(_checked(getattr(row, name), kind, table, i, name))
        out[name] = column
    return out


def _checked(value: Any, kind: np.dtype[Any], table: str, row: int, name: str) -> Any:
    place = None if table == "config" else row
    if kind.kind == "f":
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
            raise BadInput(table, place, name, f"must be a number, got {value!r}")
        number = float(value)
        if math.isfinite(number) and abs(number) > 3.4028235677973366e38:
            raise BadInput(table, place, name, f"must be a float32, got {value!r}")
        return number
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        meaning = " (0 greedy, 1 swap, 2 auction, 3 exact)" if (table, name) == ("config", "planner") else ""
        raise BadInput(table, place, name, f"must be a whole number{meaning}, got {value!r}")
    info = np.iinfo(kind)
    if not info.min <= value <= info.max:
        raise BadInput(table, place, name, f"must be a whole number from {info.min} to {info.max}, got {value}")
    return int(value)


def check_reserved(records: Records, table: str) -> None:
    """BadInput naming the first row whose reserved bytes are not zero."""
    reserved = records["reserved"]
    if reserved.any():
        bad = reserved if reserved.ndim == 1 else reserved.any(axis=1)
        row = int(np.flatnonzero(bad)[0])
        raise BadInput(table, None if table == "config" else row, "reserved", "must be zero")


def _dtype_name(table: str) -> str:
    kinds = {"agents": "AGENT", "zones": "ZONE", "obstacles": "OBSTACLE", "kernels": "KERNEL", "config": "CONFIG"}
    return f"{kinds[table]}_DTYPE"


def _type_name(table: str) -> str:
    name = "PlanConfig" if table == "config" else _TYPES[table].__name__
    return f"an {name}" if name[0] in "AO" else f"a {name}"
