"""Which reader a scene file needs: told by its first bytes, then by the extension of its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from splat.compressed_ply import is_compressed_ply, read_compressed_ply
from splat.errors import SceneFileError
from splat.inria_ply import read_inria_ply
from splat.ply import open_ply
from splat.scene import Scene
from splat.scene_checks import SplatArrays, checked
from splat.source_file import SourceFile
from splat.splat_file import read_splat_file
from tensor import memory

READABLE = "INRIA .ply, compressed .ply, .splat or SOG (a folder, its meta.json, or .sog)"
META = "meta.json"  # as in splat/sog_meta.py, which is read when it is needed
_SIGNATURES = ((b"NGSP", "SPZ"), (b"\x1f\x8b", "gzip, as of SPZ"), (b"glTF", "glTF"))
_EXTENSIONS = {".spz": "SPZ", ".ksplat": ".ksplat", ".glb": "glTF", ".gltf": "glTF"}


@dataclass(frozen=True)
class _Content:
    """What a file holds, as it holds it."""

    arrays: SplatArrays
    antialiased: bool = False
    notes: tuple[str, ...] = ()


def read_scene(path: Path, axes: str | None, *, repair: bool) -> Scene:
    """The scene in a file or folder; see `Scene.load`."""
    content = _read(path)
    source_axes = axes or "RDF"
    arrays, warnings = checked(content.arrays, path, source_axes, repair=repair)
    memory.give_back()
    return Scene(
        means=arrays.means,
        log_scales=arrays.log_scales,
        quats=arrays.quats,
        opacities=arrays.opacities,
        sh=arrays.sh,
        antialiased=content.antialiased,
        source_axes=source_axes,
        warnings=(*content.notes, *warnings),
    )


def _read(path: Path) -> _Content:
    if path.is_dir() or path.name == META:
        from splat.sog import read_sog_folder

        return _Content(*read_sog_folder(path if path.is_dir() else path.parent))
    with SourceFile(path) as source:
        head = source.read_most(8)
        source.seek(0)
        if head.startswith(b"PK"):
            from splat.sog import read_sog_zip

            return _Content(*read_sog_zip(source))
        if head.startswith(b"ply"):
            ply = open_ply(source)
            read = read_compressed_ply if is_compressed_ply(ply) else read_inria_ply
            spare = ply.spare_bytes
            notes = (f"ignored {spare} bytes after the last element",) if spare else ()
            return _Content(read(ply), notes=notes)
        if path.suffix.lower() == ".splat":
            return _Content(read_splat_file(source))
        raise _not_readable(path, head)


def _not_readable(path: Path, head: bytes) -> SceneFileError:
    if path.suffix.lower() == ".ply":
        return SceneFileError(path, 0, "magic", "ply and the end of the line", repr(head) if head else "an empty file")
    named = [name for signature, name in _SIGNATURES if head.startswith(signature)]
    found = named[0] if named else _EXTENSIONS.get(path.suffix.lower())
    if found is None:
        found = f"bytes {head!r} and the name {path.name!r}"
    else:
        found += ", which this version does not read"
    return SceneFileError(path, None, "format", READABLE, found)
