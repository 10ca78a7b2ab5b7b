"""The agents and zones of a scenario: from tables, from a .npy file of records, or drawn from the seed.

Source: `docs/formats/site-toml.md`. Draws use the counter-based generator of `tensor.random`: agents take the first
child of the seed's key, zones the second, so a change of one number never moves the others.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coord.checks import check_agents, check_zones
from coord.errors import BadInput, ScenarioError, unreadable
from coord.ground.grid import Grid
from coord.records import AGENT_DTYPE, NO_ZONE, ZONE_DTYPE, AgentMode
from coord.sites.movingai import cell_centres
from coord.sites.regular_file import open_regular
from coord.sites.scenario_schema import U32_MAX
from tensor.float_mode import plain_mode

Records = npt.NDArray[np.void]

ID_MAX = U32_MAX - 1  # 2^32 - 1 means "no zone"
BOX_DEFAULT = (0.0, 0.0, 100.0, 100.0)
AGENT_KEYS = ("speed", "energy", "caps", "memory_ticks")
ZONE_KEYS = ("radius", "priority", "service_ticks", "need_caps", "energy_cost")
_FIRST_MODES = (AgentMode.IDLE, AgentMode.CHARGING, AgentMode.OFFLINE, AgentMode.FAULT)


@dataclass(frozen=True)
class Draw:
    """How many records are drawn, with which fields, and where: on the grid, or in a box without one."""

    what: str  # "agents" or "zones"
    count: int
    fields: Mapping[str, float | int]
    box: tuple[float, float, float, float] = BOX_DEFAULT

    def to_map(self) -> dict[str, Any]:
        """As it stands in the ledger's scenario."""
        return {"box": list(self.box), "count": self.count, "fields": dict(self.fields)}

    @plain_mode()
    def records(self, seed: int, grid: Grid | None) -> Records:
        """The drawn records, ids 0, 1, 2, … in the order of the draws.

        On a grid: distinct free cells of the largest 4-connected component. Without one: uniform in the box, each
        coordinate x0 + u·(x1 - x0) in float32. Raises ValueError when the component has too few cells.
        """
        from tensor.random import Key

        key = Key(seed).split(2)[0 if self.what == "agents" else 1]
        out = np.zeros(self.count, AGENT_DTYPE if self.what == "agents" else ZONE_DTYPE)
        if grid is None:
            x0, y0, x1, y1 = (np.float32(v) for v in self.box)
            u = key.uniform((self.count, 2)).numpy()
            places = np.stack([x0 + u[:, 0] * (x1 - x0), y0 + u[:, 1] * (y1 - y0)], axis=1)
        else:
            cells = largest_component(grid)
            if self.count > len(cells):
                raise ValueError(
                    f"{self.count} {self.what} need distinct free cells, the largest component of the map has "
                    f"{len(cells)}"
                )
            order = key.permutation(len(cells)).numpy()
            places = cell_centres(grid, cells[order[: self.count]])
        out["id"] = np.arange(self.count)
        out["x"], out["y"] = places[:, 0], places[:, 1]
        for name, value in self.fields.items():
            out[name] = value
        if self.what == "agents":
            out["zone"] = NO_ZONE
        return out


def largest_component(grid: Grid) -> npt.NDArray[np.int64]:
    """Cells (row · width + column, ascending) of the largest 4-connected component; ties to the lowest first cell."""
    labels = grid.component.reshape(-1)
    sizes = np.bincount(labels)
    sizes[0] = 0  # the blocked cells
    return np.flatnonzero(labels == np.argmax(sizes)).astype(np.int64) if sizes.any() else np.zeros(0, np.int64)


@plain_mode()
def from_tables(what: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Records, list[int]]:
    """Records from [[agent]] or [[zone]] tables ascending by id, and the external ids (none when all fit u32)."""
    names, dtype = (AGENT_KEYS, AGENT_DTYPE) if what == "agents" else (ZONE_KEYS, ZONE_DTYPE)
    external = [int(row["id"]) for row in rows]
    assert all(a < b for a, b in itertools.pairwise(external)), "sorted and unique"
    if not external or external[-1] <= ID_MAX:
        ids, external = external, []
    else:
        ids = list(range(len(external)))
    out = np.zeros(len(rows), dtype)
    out["id"] = ids
    for name in ("x", "y", "z", *names):
        out[name] = [row[name] for row in rows]
    if what == "agents":
        out["zone"] = NO_ZONE
    return out, external


def from_file(what: str, path: Path, file: str, most: int) -> Records:
    """At most `most` records sorted by id from a .npy file; never a pickle, and never more bytes than the file has."""
    dtype = AGENT_DTYPE if what == "agents" else ZONE_DTYPE
    where = f"[{what}] file {path.name}"
    try:
        with open_regular(path) as stream:
            kind = "AgentState" if dtype is AGENT_DTYPE else "WorkZone"
            count = npy_count(stream, dtype, kind, path.stat().st_size, file, where, most)
            out = np.fromfile(stream, dtype, count)
    except OSError as error:
        raise ScenarioError(file, where, unreadable(error)) from error
    except ValueError as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(file, where, f"is not a .npy file: {error}") from error
    try:
        (check_agents if what == "agents" else check_zones)(out)
    except BadInput as error:
        raise ScenarioError(file, where, str(error)) from error
    order = np.argsort(out["id"], kind="stable")
    out = out[order]
    if what == "agents":
        _refuse_busy(out, order, file, where)
    return out


def npy_count(stream: Any, dtype: np.dtype[np.void], kind: str, size: int, file: str, where: str, most: int) -> int:
    """How many records follow the header of a .npy file, which is read; ScenarioError where they are others."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ScenarioError(file, where, f"expected .npy version 1.0 or 2.0, got {version[0]}.{version[1]}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy repairs headers of Python 2 and warns: refused here
            shape, fortran, got = read(stream)
    except OSError:
        raise
    except Exception as error:  # numpy's parser lets errors of the tokenizer through
        raise ScenarioError(file, where, f"is not a .npy file: {str(error)[:200]}") from error
    if got != dtype:
        raise ScenarioError(
            file, where, f"expected {kind} records of {dtype.itemsize} bytes, got dtype {str(got)[:60]}"
        )
    if len(shape) != 1 or fortran:
        raise ScenarioError(file, where, f"expected one dimension, got shape {shape}")
    present = size - stream.tell()
    if present != shape[0] * dtype.itemsize:
        raise ScenarioError(file, where, f"expected {shape[0] * dtype.itemsize} bytes of records, got {present}")
    if shape[0] > most:
        raise ScenarioError(file, where, f"expected at most {most} records, got {shape[0]}")
    return int(shape[0])


def _refuse_busy(agents: Records, order: npt.NDArray[np.intp], file: str, where: str) -> None:
    busy = np.flatnonzero(~np.isin(agents["mode"], _FIRST_MODES))
    if len(busy):
        mode = int(agents["mode"][busy[0]])
        raise ScenarioError(
            file, where, f"row {int(order[busy[0]])}: expected mode 0, 3, 4 or 5 at the first tick, got {mode}"
        )
    held = np.flatnonzero(agents["zone"] != NO_ZONE)
    if len(held):
        raise ScenarioError(file, where, f"row {int(order[held[0]])}: expected no zone (4294967295) at the first tick, "
                            f"got {int(agents['zone'][held[0]])}")  # fmt: skip


@plain_mode()
def check_on_grid(
    agents: Records, zones: Records, grid: Grid, file: str, agent_ids: Sequence[int] = (), zone_ids: Sequence[int] = ()
) -> None:
    """Agents of a grid fleet stand on centres of free cells, zones can be served from the centre of their cell.

    `agent_ids` and `zone_ids` are the site's own ids by row, where they are others than those of the records.
    """
    for what, records in (("agent", agents), ("zone", zones)):
        index = grid.index_of(records["x"], records["y"])
        inside = index >= 0
        index = np.maximum(index, 0)
        centre = cell_centres(grid, index)
        if what == "agent":
            _check_agents(records, grid, inside, index, centre, file, agent_ids or records["id"].tolist())
        else:
            _check_zones(records, inside, centre, file, zone_ids or records["id"].tolist())


def _check_agents(
    agents: Records, grid: Grid, inside: npt.NDArray[np.bool_], index: npt.NDArray[np.int64],
    centre: npt.NDArray[np.float32], file: str, ids: Sequence[int],
) -> None:  # fmt: skip
    blocked = grid.blocked.reshape(-1)[index]
    off = (agents["x"] != centre[:, 0]) | (agents["y"] != centre[:, 1]) | (agents["z"] != 0)
    for row in np.flatnonzero(~inside | blocked | off).tolist():
        place = f"({agents['x'][row]}, {agents['y'][row]}, {agents['z'][row]})"
        where = f"agent {ids[int(row)]}"
        if not inside[row]:
            raise ScenarioError(file, where, f"{place} lies outside the map")
        south, column = divmod(int(index[row]), grid.width)
        if blocked[row]:
            raise ScenarioError(
                file, where, f"{place} is on an obstacle (column {column}, row {grid.height - 1 - south} of the map)"
            )
        x, y = centre[row]
        raise ScenarioError(file, where, f"{place} is not the centre of a cell (the nearest is ({x}, {y}, 0.0))")


def _check_zones(
    zones: Records, inside: npt.NDArray[np.bool_], centre: npt.NDArray[np.float32], file: str, ids: Sequence[int]
) -> None:  # fmt: skip
    dx, dy = zones["x"] - centre[:, 0], zones["y"] - centre[:, 1]
    far = (dx * dx + dy * dy) + zones["z"] * zones["z"] > zones["radius"] * zones["radius"]
    for row in np.flatnonzero(inside & far).tolist():
        x, y = centre[row]
        raise ScenarioError(
            file, f"zone {ids[int(row)]}",
            f"cannot be served from the centre ({x}, {y}, 0.0) of its cell: expected a radius that reaches it, got "
            f"{zones['radius'][row]}",
        )  # fmt: skip
