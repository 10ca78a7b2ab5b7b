"""Which reader a scene file needs: told by its first bytes, then by the extension of its name."""

from __future__ import annotations

from pathlib import Path

from splat.compressed_ply import is_compressed_ply, read_compressed_ply
from splat.errors import SceneFileError
from splat.inria_ply import read_inria_ply
from splat.ply import open_ply
from splat.scene import Scene
from splat.scene_checks import SplatArrays, checked
from splat.source_file import SourceFile
from splat.splat_file import read_splat_file

READABLE = "INRIA .ply, compressed .ply or .splat"
_SIGNATURES = ((b"NGSP", "SPZ"), (b"\x1f\x8b", "gzip, as of SPZ"), (b"glTF", "glTF"), (b"PK\x03\x04", "zip, as of SOG"))
_EXTENSIONS = {".spz": "SPZ", ".ksplat": ".ksplat", ".glb": "glTF", ".gltf": "glTF"}


def read_scene(path: Path, axes: str | None, *, repair: bool) -> Scene:
    """The scene in a file or folder; see `Scene.load`."""
    arrays, notes = _read(path)
    frame = axes or "RDF"
    arrays, warnings = checked(arrays, path, frame, repair=repair)
    return Scene(
        arrays.means, arrays.log_scales, arrays.quats, arrays.opacities, arrays.sh,
        source_axes=frame, warnings=(*notes, *warnings),
    )  # fmt: skip


def _read(path: Path) -> tuple[SplatArrays, tuple[str, ...]]:
    """The arrays as the file has them, and warnings."""
    with SourceFile(path) as source:
        head = source.read_most(8)
        source.seek(0)
        if head.startswith(b"ply"):
            ply = open_ply(source)
            read = read_compressed_ply if is_compressed_ply(ply) else read_inria_ply
            spare = ply.spare_bytes
            return read(ply), (f"ignored {spare} bytes after the last element",) if spare else ()
        if path.suffix.lower() == ".splat":
            return read_splat_file(source), ()
        raise _not_readable(path, head)


def _not_readable(path: Path, head: bytes) -> SceneFileError:
    if path.suffix.lower() == ".ply":
        return SceneFileError(path, 0, "magic", "ply and the end of the line", repr(head))
    named = [name for signature, name in _SIGNATURES if head.startswith(signature)]
    found = named[0] if named else _EXTENSIONS.get(path.suffix.lower())
    if found is None:
        found = f"bytes {head!r} and the name {path.name!r}"
    else:
        found += ", which this version does not read"
    return SceneFileError(path, None, "format", READABLE, found)
