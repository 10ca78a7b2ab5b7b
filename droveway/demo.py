"""The demo: four journeys over one warehouse, in one folder and one process. Nothing here comes from a clock.

simulate and search are kept in a ledger by the events of the run and by `demo.search`, the picture by `demo.render`
(docs/formats/demo-events.md), so that the root of the ledger covers all of it.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from droveway.problem_groups import group_text, grouped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from splat import Camera, Image, Scene
    from storage import Head
    from vector import IdMapIndex

AGENTS, ZONES, TICKS, SEED = 64, 256, 200, 7
ROWS, QUERIES, NEIGHBOURS, METRIC = 4096, 16, 10, "cosine"
ROW_SPREAD, QUERY_SPREAD = 1.0, 0.5  # of the noise around a moment, in its own units
FIRST_QUERY_TICK, QUERY_EVERY = 6, 12
SPLATS, WIDTH, HEIGHT, SH_DEGREE = 20_000, 640, 360, 1
BACKGROUND = (0.93, 0.94, 0.96)

RUN, SITE, MAP, INDEX, QUERY_FILE, SCENE, CAMERA, PICTURE, COPY = (
    "run", "warehouse.toml", "warehouse.map", "moments.jvim", "queries.npy", "warehouse.ply", "camera.json",
    "warehouse.png", "copy",
)  # fmt: skip
SEARCH_KIND, RENDER_KIND = "demo.search", "demo.render"
SCHEMA: Final = 1


@dataclass(frozen=True)
class Simulated:
    """What the fleet did, and the ledger that holds it."""

    agents: int
    zones: int
    ticks: int
    planner: str
    services: int
    zones_served: int
    size: int
    root: bytes


@dataclass(frozen=True)
class Searched:
    """What was looked up among the moments of the run, and how well it was found.

    `recognised` queries found the tick that they were made of before all other ticks; `recall` is the share of the ten
    nearest that an exact search finds, too.
    """

    rows: int
    dim: int
    bits: int
    file_bytes: int
    queries: int
    k: int
    recall: float
    recognised: int
    example: int  # a tick that was looked up
    like_it: list[int]  # the ticks found, nearest first
    cid: str
    size: int
    root: bytes


@dataclass(frozen=True)
class Rendered:
    """The picture."""

    splats: int
    sh_degree: int
    width: int
    height: int
    digest: str
    size: int
    root: bytes


@dataclass(frozen=True)
class Audited:
    """What was checked and made again, and the damage that was made to be found."""

    ok: bool
    events: int
    decisions: int
    resimulated: int
    search_again: bool  # the answers of one query at a time, from the saved index, are those of the ledger
    render_again: bool  # the picture of the saved scene and camera is that of the ledger
    flipped_file: str
    flipped_byte: int
    found: bool
    damage: str
    size: int
    root: bytes


def simulate_fleet(folder: Path) -> Simulated:
    """Journey 1: the warehouse, its fleet, 200 ticks, every input and decision in the ledger folder/run."""
    from coord.simulation.simulate import simulate
    from coord.simulation.synthetic import write_warehouse

    site = write_warehouse(folder, agents=AGENTS, zones=ZONES, seed=SEED)
    run = simulate(site, TICKS, ledger=folder / RUN, sync="os")
    assert run.root is not None
    return Simulated(AGENTS, ZONES, TICKS, site.setup.planner, run.served, run.zones_served, run.size, run.root)


def search_moments(folder: Path) -> Searched:
    """Journey 2: an index of the run's moments and of variations of them; blurred moments are looked up in it."""
    import numpy as np

    from tensor.float_mode import plain_mode
    from vector import IdMapIndex, exact_search, recall_at_k
    from vector.synthetic import mixture

    moments, ticks = _moments(folder)
    rows = np.empty((ROWS, moments.shape[1]), np.float32)
    rows[: len(moments)] = moments
    mixture(moments, ROWS - len(moments), ROW_SPREAD, SEED, out=rows[len(moments) :])
    asked = np.arange(FIRST_QUERY_TICK, len(moments), QUERY_EVERY)[:QUERIES]
    noise, _ = mixture(np.zeros((1, rows.shape[1]), np.float32), QUERIES, QUERY_SPREAD, SEED + 1)
    with plain_mode():
        queries = moments[asked] + noise

    index = IdMapIndex(rows.shape[1], 4, METRIC, SEED)
    index.add(rows, np.arange(ROWS, dtype=np.uint64))
    index.save(folder / INDEX)
    np.save(folder / QUERY_FILE, queries)
    index = IdMapIndex.load(folder / INDEX)
    answer = index.search(queries, NEIGHBOURS)
    among_ticks = index.search(queries, NEIGHBOURS, allow=ticks.astype(np.uint64))
    truth = exact_search(rows, queries, NEIGHBOURS, METRIC)[1]
    head = _append(folder, SEARCH_KIND, search_effect(index, queries, answer, among_ticks))
    like = among_ticks[1].astype(np.int64)
    return Searched(
        rows=len(index),
        dim=index.dim,
        bits=index.bits,
        file_bytes=(folder / INDEX).stat().st_size,
        queries=len(queries),
        k=NEIGHBOURS,
        recall=float(recall_at_k(answer[1], truth, NEIGHBOURS)),
        recognised=int((like[:, 0] == ticks[asked]).sum()),
        example=int(ticks[asked[QUERIES // 2]]),
        like_it=like[QUERIES // 2, :4].tolist(),
        cid=index.cid,
        size=head.size,
        root=head.root,
    )


def render_scene(folder: Path) -> Rendered:
    """Journey 3: the same warehouse as Gaussian splats, saved, loaded, and drawn by the CPU."""
    image, effect = draw_scene(folder)
    head = _append(folder, RENDER_KIND, effect, parent=0)
    return Rendered(SPLATS, SH_DEGREE, WIDTH, HEIGHT, image.digest(), head.size, head.root)


def draw_scene(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Make the scene, save it and its camera, draw the picture from them: the image, and what the ledger says of it."""
    from coord.simulation.synthetic import warehouse_cells
    from splat.synthetic import warehouse, warehouse_camera

    cells = warehouse_cells()
    warehouse(cells, 1.0, SPLATS, SH_DEGREE, SEED).save(folder / SCENE)
    (folder / CAMERA).write_text(warehouse_camera(cells, 1.0, WIDTH, HEIGHT).to_json() + "\n", "utf-8")
    image, effect = _render_again(folder)
    image.save(folder / PICTURE)
    return image, effect


def audit_run(folder: Path) -> Audited:
    """Journey 4: the ledger is checked, and all that it holds made again; a bit of a copy is flipped, and found."""
    from coord.auditing.audit import audit

    report = audit(folder / RUN, resimulate=True)
    stored = _stored_effects(folder)
    file, place, damage = _flip_in_a_copy(folder)
    assert report.root is not None
    return Audited(
        ok=report.ok,
        events=report.size,
        decisions=report.planned,
        resimulated=report.resimulated,
        search_again=stored.get(SEARCH_KIND) == _search_again(folder),
        render_again=stored.get(RENDER_KIND) == _render_again(folder)[1],
        flipped_file=file,
        flipped_byte=place,
        found=bool(damage),
        damage=damage,
        size=report.size,
        root=report.root,
    )


def _moments(folder: Path) -> "tuple[NDArray[np.float32], NDArray[np.int64]]":
    from coord.stl import open_run
    from droveway.run_moments import moments

    with open_run(folder / RUN) as reader:
        return moments(reader)


def _append(folder: Path, kind: str, effect: dict[str, Any], parent: int = -1) -> "Head":
    """Append an event by the producer of the run; it follows from the event at rank `parent` (-1: the last one)."""
    from storage import Event, Ledger, canonical

    with Ledger.open(folder / RUN, sync="os") as ledger:
        last = ledger.at(ledger.head().size - 1)
        before = ledger.at(parent % ledger.head().size)
        cursor = ledger.cursor(last.producer)
        assert cursor is not None
        ledger.append(
            Event(
                producer=last.producer,
                effect=canonical.pack(effect),
                kind=kind,
                parents=(before.id,),
                sequence=cursor[0] + 1,
                schema=SCHEMA,
                tick=TICKS - 1,
            )
        )
        return ledger.head()


def _stored_effects(folder: Path) -> dict[str, Any]:
    """The effects of the events behind the frames, by kind, as they stand in the ledger."""
    from storage import Ledger, canonical

    with Ledger.open(folder / RUN, mode="r") as ledger:
        size = ledger.head().size
        return {event.kind: canonical.unpack(event.effect) for _, event in ledger.scan(max(size - 2, 0), size)}


def _search_again(folder: Path) -> dict[str, Any]:
    """The search from the saved index and queries, one query at a time."""
    import numpy as np

    from vector import IdMapIndex

    index = IdMapIndex.load(folder / INDEX)
    queries = np.load(folder / QUERY_FILE)
    ticks = np.arange(TICKS, dtype=np.uint64)
    found = [index.search(query[None], NEIGHBOURS) for query in queries]
    among = [index.search(query[None], NEIGHBOURS, allow=ticks) for query in queries]
    answer, among_ticks = (
        (np.concatenate([scores for scores, _ in part]), np.concatenate([ids for _, ids in part]))
        for part in (found, among)
    )
    return search_effect(index, queries, answer, among_ticks)


def _render_again(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The picture from the saved scene and camera, and what the ledger says of it."""
    from splat import Camera, RenderSettings, Scene, render

    scene = Scene.load(folder / SCENE)
    camera = Camera.from_json((folder / CAMERA).read_bytes())
    image = render(scene, camera, RenderSettings(background=BACKGROUND))
    return image, render_effect(scene, camera, image)


def search_effect(
    index: "IdMapIndex", queries: Any, answer: tuple[Any, Any], among_ticks: tuple[Any, Any]
) -> dict[str, Any]:
    """The effect of `demo.search`, as docs/formats/demo-events.md says; an answer is (scores, ids)."""
    return {
        "cid": bytes.fromhex(index.cid),
        "ids": _digest(answer[1]),
        "k": int(answer[1].shape[1]),
        "queries": _digest(queries),
        "rows": len(index),
        "scores": _digest(answer[0]),
        "tick_ids": _digest(among_ticks[1]),
        "tick_scores": _digest(among_ticks[0]),
    }


def render_effect(scene: "Scene", camera: "Camera", image: "Image") -> dict[str, Any]:
    """The effect of `demo.render`, as docs/formats/demo-events.md says."""
    import numpy as np

    lens = np.array([camera.fx, camera.fy, camera.cx, camera.cy], np.float64)
    fields = ("means", "log_scales", "quats", "opacities", "sh")
    return {
        "camera": _digest(np.concatenate([lens, np.asarray(camera.world_to_camera, np.float64).reshape(-1)])),
        "height": image.height,
        "image": bytes.fromhex(image.digest()),
        "scene": {name: _digest(getattr(scene, name)) for name in fields},
        "splats": len(scene),
        "width": image.width,
    }


def _digest(array: Any) -> bytes:
    from tensor import digest

    return bytes.fromhex(digest(array))


def _flip_in_a_copy(folder: Path) -> tuple[str, int, str]:
    """Flip one bit in the middle of the largest file of a copy: (file, byte, what is found), "" for nothing."""
    from storage import verify_ledger

    source, copy = folder / RUN, folder / COPY
    for path in sorted(source.rglob("*")):
        target = copy / path.relative_to(source)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    files = [path for path in (copy / "ledger").iterdir() if path.suffix in (".sst", ".log")]
    largest = max(files, key=lambda path: (path.stat().st_size, path.name))
    place = largest.stat().st_size // 2
    with largest.open("r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 1]))
    report = verify_ledger(copy)
    damage = "" if report.ok else group_text(grouped(report.problems)[0])
    remove_folder(copy)
    return largest.name, place, damage.removeprefix(f"{copy}: ")


def claim(folder: Path) -> None:
    """Make the folder of the run in the demo's folder: of two demos one gets it. Raises FileExistsError."""
    (folder / RUN).mkdir()


def remove_made(folder: Path) -> None:
    """Remove what a demo made in a folder that it claimed, and nothing else; the claim goes last."""
    for name in (SITE, MAP, INDEX, QUERY_FILE, SCENE, CAMERA, PICTURE):
        (folder / name).unlink(missing_ok=True)
    for name in (COPY, RUN):
        remove_folder(folder / name)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, where it is there."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()


def recorded_root() -> str | None:
    """The root that the twins gave for this version: section [demo] of the installed golden.toml; None without one."""
    import tomllib

    import droveway

    for place in droveway.__path__:
        file = Path(place) / "golden.toml"
        if file.is_file():
            root = tomllib.loads(file.read_text("utf-8")).get("demo", {}).get("root")
            return None if root is None else str(root)
    return None
