"""The keys of SITE.toml, version 1: one definition for the reader, the defaults, the documentation and the JSON schema.

Source: `docs/formats/site-toml.md`. Unit suffixes belong to Python names, not to TOML names: what a number means
stands in the text of its key.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
F64_MAX = sys.float_info.max
F32_MAX = float.fromhex("0x1.fffffep127")
POSITION_MAX_M = 2.0**20
AGENTS_MAX = 524_000  # a decision is one event: 128 bytes and 32 an agent, the ids of its inputs, at most 16 MiB
ZONES_MAX = 2**24
NAME_BYTES_MAX = 60  # the producer "sim/" + name has at most 64 bytes

PLANNERS = ("greedy", "swap", "auction", "exact")
MOTIONS = ("straight", "around", "grid", "pibt")
DEMANDS = ("persistent", "uniform", "hot_spots", "moving", "replayed")
PLACES = ("tasks", "zones")
OBSTACLE_KINDS = ("circle", "polygon", "box")
EVENT_SHAPES = (*OBSTACLE_KINDS, "cells")
OPEN_MAX = 100_000  # tasks open at a time
RATE_MAX = 1024.0  # tasks a tick
PATH_MAX = 65_536  # places of one path

# Keys of a row that depend on one of its words: those that must be there, and those that may.
SHAPE_KEYS = {
    "circle": ("x", "y", "radius"),
    "box": ("x", "y", "radius", "half_y"),
    "polygon": ("points",),
    "cells": ("x", "y", "radius", "half_y"),
}
AGENT_PLACE = ("x", "y", "z", "speed", "energy", "caps", "memory_ticks")
ZONE_PLACE = ("x", "y", "z", "radius", "priority", "service_ticks", "need_caps", "energy_cost")
EVENT_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "agent_lost": ((), ("ticks",)),
    "agent_back": ((), AGENT_PLACE),
    "fault": ((), ("ticks",)),
    "silent": ((), ("ticks",)),
    "delay": (("ticks",), ("ticks",)),
    "zone_added": (("x", "y"), ZONE_PLACE),
    "zone_removed": ((), ()),
    "obstacle_added": (("shape",), ("shape", "margin", "x", "y", "radius", "half_y", "points")),
    "obstacle_removed": ((), ()),
}

REQUIRED = object()  # a key without a default: it must be given


@dataclass(frozen=True)
class Key:
    """One key: its type, default, bounds, and the line that documents it.

    `kind` is "int", "float", "str", "bool", "position" (a float within ±2^20), "point3", "points", "matrix", "span"
    (two integers, least and most), or "path" (places with their ticks).
    """

    name: str
    kind: str
    default: Any
    text: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    later: tuple[str, ...] = ()  # words of later versions: named in the error
    quiet: bool = False  # left out of the canonical text at its default: a key that came after the first runs


@dataclass(frozen=True)
class Table:
    """One table of the file; `rows` is true for an array of tables ([[agent]])."""

    name: str
    text: str
    keys: tuple[Key, ...]
    rows: bool = False
    required: bool = False

    def key(self, name: str) -> Key:
        """The key of that name; KeyError if there is none."""
        for key in self.keys:
            if key.name == name:
                return key
        raise KeyError(name)


def _u32(name: str, default: Any, text: str, minimum: int = 0, maximum: int = U32_MAX) -> Key:
    return Key(name, "int", default, text, minimum, maximum)


def _f32(name: str, default: Any, text: str, minimum: float = -F32_MAX, maximum: float = F32_MAX) -> Key:
    return Key(name, "float", default, text, minimum, maximum)


def _position(name: str, default: Any, text: str) -> Key:
    return Key(name, "position", default, text, -POSITION_MAX_M, POSITION_MAX_M)


_SPEED = _f32("speed", 1.0, "metres a tick", 0.0)
_ENERGY = _f32("energy", 1.0, "charge at the first tick, 0 to 1", 0.0, 1.0)
_CAPS = _u32("caps", 0, "capabilities, one bit each")
_MEMORY = _u32("memory_ticks", 100, "ticks for which a silent agent is still believed")
_RADIUS = _f32("radius", 0.5, "metres within which an agent serves the zone", 0.0)
_PRIORITY = _f32("priority", 1.0, "weight of the zone itself in the score")
_SERVICE = _u32("service_ticks", 5, "ticks that one service takes")
_NEEDS = _u32("need_caps", 0, "capability bits that an agent must have")
_COST = _f32("energy_cost", 0.0, "charge below which an agent may not take the zone", 0.0, 1.0)
_BOX = Key(
    "box", "box", None,
    "[x0, y0, x1, y1] metres: where random places are drawn when there is no map; default [0, 0, 100, 100]",
)  # fmt: skip

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "", "At the top of the file",
            (
                Key("version", "int", REQUIRED, "version of this format: 1", 1, 1),
                Key("name", "str", REQUIRED, '1 to 60 bytes; in a ledger, events are by "sim/" and this name'),
                Key("seed", "int", 0, "seed of every random draw", 0, U64_MAX),
                Key("tick_ns", "int", 1_000_000_000, "nanoseconds of a tick; they never reach a decision", 1, U64_MAX),
                Key("origin", "point3", None, "latitude, longitude (degrees), height (metres) of (0, 0, 0)"),
            ),
            required=True,
        ),
        Table(
            "plan", "Weights and limits of the planner: the fields of PlanConfig",
            (
                Key("planner", "str", "swap", "who decides", choices=PLANNERS),
                _u32("every_ticks", 1, "a plan is made at ticks that this number divides", 1),
                Key("on_events", "bool", False, "a plan is made also at ticks at which something happens", quiet=True),
                _f32("w_priority", 1.0, "weight of the zone's priority"),
                _f32("w_idle", 1.0, "weight of the time since the last service"),
                _f32("w_cover", 1.0, "weight of the kernels that attract"),
                _f32("w_avoid", 1.0, "weight of the kernels that repel"),
                _f32("w_travel", 1.0, "weight of the travel time"),
                _f32("w_switch", 0.1, "bonus of the zone an agent already has"),
                _u32("idle_cap_ticks", 1000, "idle ticks that count as 1"),
                _u32("max_travel_ticks", 1000, "travel above this is unreachable"),
                _u32("max_stale_ticks", 100, "an agent silent for longer is stale"),
                _f32("min_energy", 0.05, "charge below which an agent is not ready", 0.0, 1.0),
                _f32("cutoff_sigmas", 4.0, "a kernel ends at this many sigmas", math.ldexp(1.0, -10), 8.0),
                Key("idle_score", "int", -(2**31), "integer score of staying idle; -2147483648 derives it",
                    -(2**31), 2**31 - 1),
                Key("work_budget", "int", 0, "most swap tests or bids of one plan; 0 is the planner's own bound",
                    0, U64_MAX),
                _u32("k_candidates", 24, "candidates kept for each agent", 1, 256),
                _u32("flags", 0, "bit 0: obstacles on the straight way to a zone bind", 0, 1),
                Key("queue", "int", 1, "zones of one agent's queue, the first one among them", 1, 8, quiet=True),
            ),
        ),
        Table(
            "motion", "How agents move, serve and charge",
            (
                Key("model", "str", None, "default: grid with a [map], else straight", choices=MOTIONS),
                _f32("energy_per_m", 1e-4, "charge that one metre takes", 0.0, 1.0),
                _f32("charge_per_tick", 0.01, "charge that one tick of charging gives", 0.0, 1.0),
                _f32("charged_energy", 0.8, "charge at which charging ends", 0.0, 1.0),
            ),
        ),
        Table(
            "map", "A MovingAI grid map",
            (
                Key("file", "str", REQUIRED, "the .map file, relative to SITE.toml"),
                Key("blake3", "str", None, "BLAKE3 of that file, 64 hexadecimal digits; checked when given"),
                _f32("cell_m", 1.0, "side of a cell in metres", math.ldexp(1.0, -10), 1024.0),
            ),
        ),
        Table(
            "agents", "Agents by number or from a file (else [[agent]])",
            (
                _u32("random", None, "so many agents, at places drawn from the seed", 0, AGENTS_MAX),
                Key("file", "str", None, "a .npy file of AgentState records"),
                _BOX, _SPEED, _ENERGY, _CAPS, _MEMORY,
            ),
        ),
        Table(
            "zones", "Zones by number or from a file (else [[zone]])",
            (
                _u32("random", None, "so many zones, at places drawn from the seed", 0, ZONES_MAX),
                Key("file", "str", None, "a .npy file of WorkZone records"),
                _BOX, _RADIUS, _PRIORITY, _SERVICE, _NEEDS, _COST,
            ),
        ),
        Table(
            "agent", "One agent",
            (
                Key("id", "int", REQUIRED, "unique; one above 2^32 - 2 numbers all agents anew", 0, U64_MAX),
                _position("x", REQUIRED, "metres east"), _position("y", REQUIRED, "metres north"),
                _position("z", 0.0, "metres up"), _SPEED, _ENERGY, _CAPS, _MEMORY,
            ),
            rows=True,
        ),
        Table(
            "zone", "One zone",
            (
                Key("id", "int", REQUIRED, "unique; one above 2^32 - 2 numbers all zones anew", 0, U64_MAX),
                _position("x", REQUIRED, "metres east"), _position("y", REQUIRED, "metres north"),
                _position("z", 0.0, "metres up"), _RADIUS, _PRIORITY, _SERVICE, _NEEDS, _COST,
            ),
            rows=True,
        ),
        Table(
            "obstacle", "One obstacle",
            (
                Key("kind", "str", REQUIRED, "shape", choices=OBSTACLE_KINDS),
                _position("x", None, "centre of a circle or box, metres east"),
                _position("y", None, "centre of a circle or box, metres north"),
                _f32("radius", None, "radius of a circle, half width (x) of a box", 0.0, POSITION_MAX_M),
                _f32("half_y", None, "half height (y) of a box", 0.0, POSITION_MAX_M),
                Key("points", "points", None, "corners of a polygon: [[x, y], …], at least 3, closed implicitly"),
                _f32("margin", 0.0, "metres kept around it", 0.0, POSITION_MAX_M),
            ),
            rows=True,
        ),
        Table(
            "kernel", "One Gaussian of the influence field",
            (
                _position("x", REQUIRED, "metres east"), _position("y", REQUIRED, "metres north"),
                _f32("sigma", REQUIRED, "metres", math.ldexp(1.0, -10), math.ldexp(1.0, 20)),
                _f32("weight", REQUIRED, "above 0 attracts, below 0 repels; 0, or a size from 2^-64 to 2^64",
                     -math.ldexp(1.0, 64), math.ldexp(1.0, 64)),
            ),
            rows=True,
        ),
        Table(
            "demand", "How zones come and go",
            (
                Key("model", "str", "persistent", "persistent: zones stay, and wait for their next service; else tasks "
                    "come, at places of their own", choices=DEMANDS),
                Key("where", "str", "tasks", "tasks: each is a new zone; zones: each raises the priority of a zone",
                    choices=PLACES, quiet=True),
                Key("rate", "float", 1.0, "tasks that come in a tick, on average", 0.0, RATE_MAX, quiet=True),
                Key("open_max", "int", 1000, "most tasks open at a time; what comes then is refused", 1, OPEN_MAX,
                    quiet=True),
                Key("deadline_ticks", "int", 0, "ticks after which a task that nobody serves is gone; 0: it stays",
                    0, U32_MAX, quiet=True),
                Key("box", "box", None, "[x0, y0, x1, y1] metres: where uniform tasks come when there is no map; "
                    "default [0, 0, 100, 100]"),
                Key("file", "str", None, "tasks of a replayed demand: a .npy or .jsonl file, relative to SITE.toml"),
                Key("blake3", "str", None, "BLAKE3 of that file, 64 hexadecimal digits; checked when given"),
                replace(_RADIUS, quiet=True), replace(_PRIORITY, quiet=True, text="priority of a task; where = "
                "\"zones\": what it adds to that of its zone"),
                replace(_SERVICE, quiet=True), replace(_NEEDS, quiet=True), replace(_COST, quiet=True),
            ),
        ),
        Table(
            "hot_spot", "One Gaussian of the demand: where tasks come",
            (
                _position("x", REQUIRED, "metres east"), _position("y", REQUIRED, "metres north"),
                _f32("sigma", REQUIRED, "metres", math.ldexp(1.0, -10), math.ldexp(1.0, 20)),
                _f32("weight", 1.0, "its share of the tasks, among those of all hot spots", math.ldexp(1.0, -20),
                     math.ldexp(1.0, 20)),
                Key("path", "path", None, "[[tick, x, y], …], ticks ascending: where its centre is, straight between"),
            ),
            rows=True,
        ),
        Table(
            "faults", "What happens to each agent by chance, from tick 1 on",
            tuple(
                key
                for name, least, most, start, text in (
                    ("delay", 1, 10, 1, "stands still"), ("fault", 10, 50, 0, "is out of order (mode 5)"),
                    ("silent", 10, 100, 1, "does not report"), ("lost", 100, 500, 0, "is away"),
                )
                for key in (
                    Key(name, "float", 0.0, f"chance of an agent at a tick that from then on it {text}", 0.0, 1.0,
                        quiet=True),
                    Key(f"{name}_ticks", "span", [least, most], f"for how many ticks it {text}: [least, most]"
                        + ("" if start else "; 0: for good"), start, U32_MAX, quiet=True),
                )
            ),
        ),
        Table(
            "event", "One thing that happens at a tick",
            (
                Key("tick", "int", REQUIRED, "when", 1, U64_MAX),
                Key("kind", "str", REQUIRED, "what", choices=tuple(EVENT_KEYS)),
                Key("id", "int", REQUIRED, "of the agent, zone or obstacle; obstacles of the file count from 0 in the "
                    "order of their content", 0, U64_MAX),
                _u32("ticks", None, "how long it lasts; 0, or none: for good"),
                _position("x", None, "metres east"), _position("y", None, "metres north"),
                _position("z", None, "metres up"),
                replace(_SPEED, default=None), replace(_ENERGY, default=None), replace(_CAPS, default=None),
                replace(_MEMORY, default=None),
                replace(_RADIUS, default=None, text="of a zone or circle; half width (x) of a box or cells"),
                replace(_PRIORITY, default=None), replace(_SERVICE, default=None), replace(_NEEDS, default=None),
                replace(_COST, default=None),
                Key("shape", "str", None, "of an obstacle; cells: the cells of the map whose centres lie in a box are "
                    "blocked", choices=EVENT_SHAPES),
                _f32("half_y", None, "half height (y) of a box or cells", 0.0, POSITION_MAX_M),
                Key("points", "points", None, "corners of a polygon: [[x, y], …], at least 3, closed implicitly"),
                _f32("margin", None, "metres kept around an obstacle", 0.0, POSITION_MAX_M),
            ),
            rows=True,
        ),
        Table(
            "scene", "The Gaussian-splat scene of the site; it never reaches a decision",
            (
                Key("file", "str", REQUIRED, "the scene file, relative to SITE.toml"),
                Key("transform", "matrix", None, "4 × 4 from the site to the scene, row by row; default: identity"),
            ),
        ),
    )
}  # fmt: skip


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """The known word most like `word`: by likeness of letters, ties to the earlier one.

    >>> nearest("priorty", ("radius", "priority"))
    'priority'
    """
    return max(known, key=lambda k: difflib.SequenceMatcher(None, word, k, autojunk=False).ratio())


def fault_of(key: Key, value: object) -> str | None:
    """What is wrong with a value, as the end of an error text, or None."""
    kind = key.kind
    if kind == "int":
        if not isinstance(value, int) or isinstance(value, bool):
            return f"expected an integer, got {shown(value)}"
        return _range_fault(key, value)
    if kind in ("float", "position"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected a number, got {shown(value)}"
        if not _is_finite(value):
            return f"expected a finite number, got {_number(value)}"
        return _range_fault(key, value)
    if kind == "bool":
        return None if isinstance(value, bool) else f"expected true or false, got {shown(value)}"
    if kind == "str":
        return _word_fault(key, value)
    if kind == "span":
        return _span_fault(key, value)
    return _array_fault(kind, value)


def _span_fault(key: Key, value: object) -> str | None:
    whole = isinstance(value, list) and len(value) == 2 and all(type(number) is int for number in value)
    if not isinstance(value, list) or not whole:
        return f"expected 2 integers [least, most], got {shown(value)}"
    fault = _range_fault(key, value[0]) or _range_fault(key, value[1])
    if fault is None and value[0] > value[1]:
        return f"expected least <= most, got {value}"
    return fault


def _range_fault(key: Key, value: int | float) -> str | None:
    low, high = key.minimum, key.maximum
    if (low is None or value >= low) and (high is None or value <= high):
        return None
    return f"expected {bound_text(low)} to {bound_text(high)}, got {_number(value)}"


def _is_finite(value: int | float) -> bool:
    """Whether a number is one that float64 can hold: TOML's integers have any size."""
    return abs(value) <= F64_MAX


def _number(value: int | float) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def bound_text(value: float | None) -> str:
    """A bound as errors and pages write it."""
    assert value is not None
    return str(value) if isinstance(value, int) or abs(value) >= 1e16 or value != int(value) else f"{value:.1f}"


def _word_fault(key: Key, value: object) -> str | None:
    if not isinstance(value, str):
        return f"expected a text, got {shown(value)}"
    if "\0" in value:
        return "expected a text without the character U+0000"
    if value in key.later:
        return f'"{value}" comes in a later version; this one has {", ".join(key.choices)}'
    if key.choices and value not in key.choices:
        told = value if len(value) <= 40 else f"{value[:37]}..."
        return f'expected {" or ".join(key.choices)}, got "{told}" (nearest: {nearest(told, key.choices)})'
    return None


_ARRAYS = {"point3": "3 numbers", "box": "4 numbers [x0, y0, x1, y1]", "matrix": "4 rows of 4 numbers",
           "points": "at least 3 pairs [x, y]", "path": "at least 1 row [tick, x, y]"}  # fmt: skip


def _array_fault(kind: str, value: object) -> str | None:
    rows: list[object] = value if isinstance(value, list) else [value]
    if kind in ("point3", "box"):
        rows = [value]
    shape = {"point3": (1, 3), "box": (1, 4), "matrix": (4, 4), "points": (len(rows), 2), "path": (len(rows), 3)}[kind]
    good = len(rows) == shape[0] and (kind != "points" or len(rows) >= 3)
    for row in rows:
        good = good and isinstance(row, list) and len(row) == shape[1]
        for number in row if isinstance(row, list) else ():
            good = good and isinstance(number, int | float) and not isinstance(number, bool) and _is_finite(number)
            if good and kind in ("points", "box") and abs(number) > POSITION_MAX_M:
                return f"expected coordinates of at most 2^20 metres, got {_number(number)}"
    if not good or (kind == "path" and not isinstance(value, list)):
        return f"expected {_ARRAYS[kind]}, got {shown(value)}"
    if kind == "path":
        return _path_fault(rows)
    if kind == "box" and isinstance(value, list) and not (value[0] <= value[2] and value[1] <= value[3]):
        return f"expected x0 <= x1 and y0 <= y1, got {value}"
    if kind == "point3" and isinstance(value, list) and not (abs(value[0]) <= 90 and abs(value[1]) <= 180):
        return f"expected a latitude within ±90 and a longitude within ±180, got {value}"
    return None


def _path_fault(rows: list[Any]) -> str | None:
    if not 1 <= len(rows) <= PATH_MAX:
        return f"expected 1 to {PATH_MAX} places, got {len(rows)}"
    for before, row in zip([None, *rows], rows, strict=False):
        if not (type(row[0]) is int or float(row[0]).is_integer()) or not 0 <= row[0] <= 2**53:
            return f"expected ticks that are whole numbers up to 2^53, got {_number(row[0])}"
        if before is not None and not before[0] < row[0]:
            return f"expected ticks that ascend, got {_number(row[0])} after {_number(before[0])}"
        for number in row[1:]:
            if abs(number) > POSITION_MAX_M:
                return f"expected coordinates of at most 2^20 metres, got {_number(number)}"
    return None


def shown(value: object) -> str:
    """A value of a TOML file as an error names it."""
    names = {bool: "boolean", str: "text", int: "integer", float: "number", list: "array", dict: "table"}
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, arrays in arrays in arrays
        text = "too large to show"
    return f"{names.get(type(value), type(value).__name__)} {text if len(text) <= 40 else text[:37] + '...'}"


def defaults(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The table with every missing optional key set to its default (None where there is none), in schema order."""
    return {key.name: table.get(key.name, key.default) for key in TABLES[name].keys}
