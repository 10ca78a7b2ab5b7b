"""What a file or folder that droveway knows holds, as one record of plain values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from droveway.exits import InputProblem, quoted, reading
from droveway.output import Output
from droveway.reading_run import opened_run

Record = dict[str, object]


def describe(out: Output, path: Path) -> Record:
    """The record of a run, a site, a map, a scenario, an index or a scene; its first key is `kind`.

    A folder is a run, or with a meta.json a scene; an index is told by its first bytes, another file by its ending.
    Raises InputProblem for anything else.
    """
    from droveway.index_files import ENDINGS as INDEX_ENDINGS
    from droveway.index_files import index_kind, index_record, load_index
    from droveway.scene_files import ENDINGS as SCENE_ENDINGS
    from droveway.scene_files import META, OF_OTHERS, is_scene_folder, scene_record

    if path.is_dir():
        return scene_record(out, path) if is_scene_folder(path) else run_record(out, path)

    ending = path.suffix.lower()
    if index_kind(path) is not None or ending in INDEX_ENDINGS:
        return index_record(path, load_index(path))
    if ending in (*SCENE_ENDINGS, *OF_OTHERS) or path.name == META:
        return scene_record(out, path)
    maker = MAKERS.get(ending)
    if maker is None:
        hint = f"droveway index build {quoted(path)} -o X.jvim makes an index of vectors" if ending == ".npy" else ""
        known = ", ".join((*MAKERS, *INDEX_ENDINGS, *SCENE_ENDINGS))
        raise InputProblem(path, f"expected a run's folder or a file that ends in {known}, got '{path.suffix}'", hint)
    with reading(path):
        return maker(path)


def run_record(out: Output, path: Path) -> Record:
    """A run: read-only, nothing is verified."""
    with opened_run(out, path) as reader:
        setup = reader.scenario
        first = last = None
        frames = 0
        for view in reader.frames():
            first = view.frame.tick if first is None else first
            last = view.frame.tick
            frames += 1
        kinds = reader.kinds()
        return {
            "kind": "run",
            "path": path,
            **_setup_record(setup),
            "first_tick": first,
            "last_tick": last,
            "frames": frames,
            "kinds": kinds,
            "size": reader.size,
            "root": reader.root,
        }


def site_record(path: Path) -> Record:
    """A SITE.toml with its map, as a run would start from it."""
    from coord.sites.scenario import Scenario

    setup = Scenario.load(path).setup
    return {"kind": "site", "path": path, **_setup_record(setup), "every_ticks": setup.every_ticks}


def _setup_record(setup: Any) -> Record:
    grid = setup.grid
    ids = {"agent_ids": setup.agent_ids, "zone_ids": setup.zone_ids}  # in the order of the numbers inside the run
    return {
        "name": setup.name,
        "seed": setup.seed,
        "planner": setup.planner,
        "motion": setup.motion.model,
        "tick_ns": setup.tick_ns,
        "origin": setup.origin,
        "agents": len(setup.agents),
        "zones": len(setup.zones),
        "obstacles": len(setup.obstacles),
        "kernels": len(setup.kernels),
        "grid": None if grid is None else {"width": grid.width, "height": grid.height, "cell_m": float(grid.cell_m)},
        **{name: table for name, table in ids.items() if table},
    }


def map_record(path: Path) -> Record:
    """A MovingAI map: size, free cells, and its 4-connected components."""
    import numpy as np

    from coord.sites.movingai import read_map

    grid = read_map(path)
    labels = grid.component[~grid.blocked]
    sizes = np.unique(labels, return_counts=True)[1]
    return {
        "kind": "map",
        "path": path,
        "width": grid.width,
        "height": grid.height,
        "free": int((~grid.blocked).sum()),
        "blocked": int(grid.blocked.sum()),
        "components": len(sizes),
        "largest_component": int(sizes.max()) if len(sizes) else 0,
    }


def scen_record(path: Path) -> Record:
    """A MovingAI scenario: number of trips, the map it names and its size."""
    from coord.sites.movingai import read_scen

    trips = read_scen(path)
    first = trips[0] if trips else None
    return {
        "kind": "scen",
        "path": path,
        "trips": len(trips),
        "map": None if first is None else first.map_name,
        "width": None if first is None else first.width,
        "height": None if first is None else first.height,
    }


MAKERS: Final[dict[str, Callable[[Path], Record]]] = {".toml": site_record, ".map": map_record, ".scen": scen_record}
