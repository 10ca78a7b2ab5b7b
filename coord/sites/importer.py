"""Import: a SITE.toml, with everything it names beside it, from a MovingAI `.map` or `.scen` file.

Source: `docs/formats/site-toml.md`. Nothing is overwritten, and nothing is left behind when an import fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from coord.errors import MapError, OutputError
from coord.records import AGENT_DTYPE, NO_ZONE, ZONE_DTYPE
from coord.sites.movingai import free_cell, map_beside, parse_map, read_file, read_scen
from coord.sites.scenario import Scenario, canonical_text
from coord.sites.scenario_schema import defaults
from tensor.float_mode import plain_mode

Records = npt.NDArray[np.void]

TABLES_MAX = 256  # more agents than this go to agents.npy and zones.npy


@plain_mode()
def import_map(path: str | Path, out: str | Path, *, agents: int, zones: int, seed: int = 0) -> Scenario:
    """Write a SITE.toml with so many agents and zones on the map, drawn from the seed; returns the scenario.

    Raises MapError, ScenarioError (too many for the free cells), OutputError when a file is already there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "tiny.map").write_text("type octile\\nheight 1\\nwidth 3\\nmap\\n..@\\n")
    ...     site = import_map(folder + "/tiny.map", folder + "/SITE.toml", agents=1, zones=2)
    >>> sorted(site.setup.zones["x"].tolist())
    [0.5, 1.5]
    """
    path, out = Path(path), Path(out)
    data = read_file(path)
    parse_map(data, str(path))
    document = site_document(path.stem, data, path.name, seed)
    document["agents"] = {"random": agents}
    document["zones"] = {"random": zones}
    return write_site(out, document, {path.name: data})


@plain_mode()
def import_scen(path: str | Path, out: str | Path, *, agents: int | None = None) -> Scenario:
    """Write a SITE.toml from the first lines of a `.scen` file, starts as agents, goals as zones; returns the scenario.

    The map is found by its base name beside the `.scen` file. Up to 256 agents become tables, more become agents.npy
    and zones.npy. Raises MapError, with the line, for a start or goal on an obstacle, OutputError when a file is there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "tiny.map").write_text("type octile\\nheight 1\\nwidth 3\\nmap\\n..@\\n")
    ...     line = "0\\t/maps/tiny.map\\t3\\t1\\t0\\t0\\t1\\t0\\t1\\n"
    ...     _ = Path(folder, "tiny.scen").write_text("version 1\\n" + line)
    ...     site = import_scen(folder + "/tiny.scen", folder + "/SITE.toml")
    >>> site.setup.agents["x"].tolist(), site.setup.zones["x"].tolist()
    ([0.5], [1.5])
    """
    path, out = Path(path), Path(out)
    trips = read_scen(path, agents)
    if not trips:
        raise MapError(str(path), 1, 1, "expected at least one agent")
    found = map_beside(path, trips[0].map_name)
    data = read_file(found)
    grid = parse_map(data, str(found))
    starts = [free_cell(grid, trip, trip.start, "start", str(path)) for trip in trips]
    goals = [free_cell(grid, trip, trip.goal, "goal", str(path)) for trip in trips]
    document = site_document(path.stem, data, found.name)
    files = {found.name: data, **tables_or_files(document, starts, goals)}
    return write_site(out, document, files)


def npy_bytes(records: Records) -> bytes:
    """The bytes of a .npy file (version 1.0) of records."""
    import io

    stream = io.BytesIO()
    np.lib.format.write_array(stream, records, version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def _agents(places: list[tuple[float, float]]) -> Records:
    value = defaults({}, "agents")
    out = np.zeros(len(places), AGENT_DTYPE)
    out["id"], out["zone"] = np.arange(len(places)), NO_ZONE
    out["x"], out["y"] = np.array(places, np.float32).reshape(-1, 2).T
    for name in ("speed", "energy", "caps", "memory_ticks"):
        out[name] = value[name]
    return out


def _zones(places: list[tuple[float, float]]) -> Records:
    value = defaults({}, "zones")
    out = np.zeros(len(places), ZONE_DTYPE)
    out["id"] = np.arange(len(places))
    out["x"], out["y"] = np.array(places, np.float32).reshape(-1, 2).T
    for name in ("radius", "priority", "service_ticks", "need_caps", "energy_cost"):
        out[name] = value[name]
    return out


def site_name(stem: str) -> str:
    """A name for a scenario, from that of a file."""
    return "".join(c for c in stem if c.isprintable()).encode()[:60].decode("utf-8", "ignore") or "site"


def site_document(stem: str, data: bytes, map_name: str, seed: int = 0) -> dict[str, Any]:
    """The top, [plan] and [map] of a SITE.toml with a map of these bytes."""
    section = {"file": map_name, "blake3": blake3(data).hexdigest()}
    return {"version": 1, "name": site_name(stem), "seed": seed, "plan": {"planner": "swap"}, "map": section}


def tables_or_files(
    document: dict[str, Any], starts: list[tuple[float, float]], goals: list[tuple[float, float]]
) -> dict[str, bytes]:
    """Agents and zones numbered from 0: tables of the document, or, where they are many, the files that it names."""
    if max(len(starts), len(goals)) <= TABLES_MAX:
        document["agent"] = [{"id": i, "x": x, "y": y} for i, (x, y) in enumerate(starts)]
        document["zone"] = [{"id": i, "x": x, "y": y} for i, (x, y) in enumerate(goals)]
        return {}
    document["agents"], document["zones"] = {"file": "agents.npy"}, {"file": "zones.npy"}
    return {"agents.npy": npy_bytes(_agents(starts)), "zones.npy": npy_bytes(_zones(goals))}


def write_site(out: Path, document: dict[str, Any], files: dict[str, bytes]) -> Scenario:
    """Write SITE.toml and the files beside it, none of which may be there but the same map; the scenario they make."""
    if out.name in files:
        raise OutputError(f"{out}: expected another name than that of a file beside it, {', '.join(files)}")
    text = canonical_text(document)
    made: list[Path] = []
    try:
        for name, data in {**files, out.name: text.encode()}.items():
            if _place(out.parent / name, data, same_is_fine=name.lower().endswith(".map")):
                made.append(out.parent / name)
        return Scenario.load(out)
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


def _place(path: Path, data: bytes, *, same_is_fine: bool) -> bool:
    """Write a new file; False when it is there with the same bytes and that is fine."""
    made = False
    try:
        with path.open("xb") as stream:
            made = True
            stream.write(data)
    except FileExistsError as error:
        if same_is_fine and path.is_file() and path.read_bytes() == data:
            return False
        raise OutputError(f"{path}: is already there, and nothing is overwritten") from error
    except BaseException as error:
        if made:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputError(f"{path}: expected to write it, got: {(error.strerror or str(error)).lower()}") from error
        raise
    return True
