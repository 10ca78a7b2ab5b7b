"""Tasks of a replayed demand from a file: `.npy` records, or one JSON object a line.

Source: `docs/formats/demand-file.md`. Never a pickle, and never more bytes than the file has.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from coord.errors import ScenarioError, unreadable
from coord.records import Records
from coord.simulation.demand_spec import TASK_DTYPE, TASK_KEYS, TASKS_MAX, sorted_tasks, task_fault
from coord.simulation.fleet import npy_count
from coord.sites.regular_file import open_regular
from coord.sites.scenario_schema import POSITION_MAX_M, TABLES, Key, fault_of, nearest

BYTES_MAX = 2**26
_PLACE = tuple(
    Key(axis, "position", 0.0 if axis == "z" else None, "metres", -POSITION_MAX_M, POSITION_MAX_M) for axis in "xyz"
)
KEYS: dict[str, Key] = {
    key.name: key for key in (TABLES["event"].key("tick"), *_PLACE, *(TABLES["demand"].key(name) for name in TASK_KEYS))
}


def read_tasks(path: Path, expected: str | None, defaults: Mapping[str, Any], file: str) -> Records:
    """The tasks of a file by tick, then by their other fields. Raises ScenarioError with line or offset.

    `expected` is the BLAKE3 it must have, `defaults` what a line of JSON leaves out, `file` stands in error texts.
    """
    where = f"[demand] file {path.name}"
    try:
        with open_regular(path) as stream:
            data = stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise ScenarioError(file, where, unreadable(error)) from error
    if len(data) > BYTES_MAX:
        raise ScenarioError(file, where, f"expected at most {BYTES_MAX} bytes")
    got = blake3(data).hexdigest()
    if expected is not None and expected != got:
        raise ScenarioError(file, "[demand] blake3", f"expected {expected}, {path} has {got}")
    if path.suffix == ".npy":
        tasks = _from_npy(data, file, where)
    elif path.suffix == ".jsonl":
        tasks = _from_lines(data, defaults, file, where)
    else:
        raise ScenarioError(file, where, "expected a .npy or .jsonl file")
    fault = task_fault(tasks)
    if fault is not None:
        raise ScenarioError(file, where, fault)
    return sorted_tasks(tasks)


def _from_npy(data: bytes, file: str, where: str) -> Records:
    stream = io.BytesIO(data)
    try:
        count = npy_count(stream, TASK_DTYPE, "task", len(data), file, where, TASKS_MAX)
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError(file, where, f"is not a .npy file: {error}") from error
    return np.frombuffer(data, TASK_DTYPE, count, stream.tell())


def _from_lines(data: bytes, defaults: Mapping[str, Any], file: str, where: str) -> Records:
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) > TASKS_MAX:
        raise ScenarioError(file, where, f"expected at most {TASKS_MAX} tasks, got {len(lines)}")
    out = np.zeros(len(lines), TASK_DTYPE)
    row = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            task = _line(line, f"{where} line {number}", file)
            for name in KEYS:
                out[row][name] = task.get(name, defaults.get(name, 0))
            row += 1
    return out


def _line(line: bytes, where: str, file: str) -> dict[str, Any]:
    try:
        task = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ScenarioError(file, where, f"is not JSON: {str(error)[:80]}") from error
    if not isinstance(task, dict):
        raise ScenarioError(file, where, "expected an object {tick, x, y, …}")
    for name, value in task.items():
        if name not in KEYS:
            raise ScenarioError(file, f"{where} {name[:40]}", f"unknown key (nearest: {nearest(name, list(KEYS))})")
        fault = fault_of(KEYS[name], value)
        if fault is not None:
            raise ScenarioError(file, f"{where} {name}", fault)
    for name in ("tick", "x", "y"):
        if name not in task:
            raise ScenarioError(file, f"{where} {name}", "is missing")
    return task
