"""Splat scenes on the disk: read with their warnings told, and described as one record."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from droveway.exits import InputProblem, UsageProblem, quoted, reading
from droveway.output import Output

if TYPE_CHECKING:
    from splat import Scene

WIDTH, HEIGHT = 1280, 720  # of the camera that `info` prints
ENDINGS: Final = (".ply", ".splat", ".sog")
META: Final = "meta.json"
OF_OTHERS: Final = (".spz", ".ksplat")  # scenes that splat knows by name only: its error says so
AXES_HELP: Final = (
    "Where x, y, z of the file point, if not where its format says: each R or L (right, left), U or D (up, down), "
    "F or B (forward, back), such as RUB."
)


def load_scene(out: Output, path: Path, *, axes: str | None = None, repair: bool = False) -> "Scene":
    """The scene of a file; what its reader saw or repaired goes to stderr.

    Raises InputProblem for what is no scene, and what splat raises, with --repair as the hint where that would help.
    """
    from splat import Scene, SplatValueError
    from splat.source_file import SourceFile  # coord has one, too, but brings 5 MB

    if path.is_dir():
        _require_scene_folder(path)
    else:
        with reading(path), SourceFile(path) as source:
            start = source.read_most(6)
        if start == b"\x93NUMPY" or start[:4] in (b"JVI\0", b"JVIM"):
            what = "an array (.npy)" if start[1:2] == b"N" else "an index"
            raise InputProblem(path, f"expected a scene (.ply, .splat, .sog), got {what}")
    if axes is not None:
        from splat.harmonics import AXES

        if axes not in AXES:
            raise UsageProblem(None, f"--axes: expected one of {', '.join(AXES)}, got {axes!r}")
    try:
        with reading(path):
            scene = Scene.load(path, axes=axes, repair=repair)
    except SplatValueError as error:
        if not repair:
            error.hint = "--repair leaves such splats out"  # type: ignore[attr-defined]
        raise
    for warning in scene.warnings:
        out.note(f"{path}: {warning}")
    return scene


def is_scene_folder(path: Path) -> bool:
    """Whether a folder is a scene in SOG's parts, by its meta.json."""
    return (path / META).is_file()


def _require_scene_folder(path: Path) -> None:
    if (path / "ledger").is_dir() or (path / "HEAD").is_file():
        raise InputProblem(
            path, "expected a scene file, got a run", f"droveway replay {quoted(path)} --png a.png draws a run"
        )
    if not is_scene_folder(path):
        raise InputProblem(path, f"expected a scene file, or a folder with a {META} (SOG), got a folder without one")


def scene_record(out: Output, path: Path) -> dict[str, object]:
    """What a scene holds, where it lies, and the camera that shows it."""
    from splat import Camera

    scene = load_scene(out, path)
    least = scene.means.min(axis=0).tolist() if len(scene) else None
    most = scene.means.max(axis=0).tolist() if len(scene) else None
    return {
        "kind": "scene",
        "path": path,
        "splats": len(scene),
        "sh_degree": scene.degree,
        "least": least,
        "most": most,
        "antialiased": scene.antialiased,
        "color_space": scene.color_space,
        "axes": scene.source_axes,
        "warnings": list(scene.warnings),
        "camera": json.loads(Camera.default(scene, WIDTH, HEIGHT).to_json()),
    }
