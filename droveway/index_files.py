"""Indexes on the disk: told apart by their first bytes, loaded whole and checked, described as one record."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from droveway.exits import InputProblem, UsageProblem, quoted, reading, writing

if TYPE_CHECKING:
    from vector import IdMapIndex, TurboIndex

MAGICS: Final = {b"JVI\0": "jvi", b"JVIM": "jvim"}
ENDINGS: Final = (".jvim", ".jvi")
ONLY_JVIM: Final = "droveway index build VECTORS.npy -o X.jvim makes one"


def index_kind(path: Path) -> str | None:
    """ "jvi" or "jvim" by the first bytes of a file, None where they are others. Raises InputProblem."""
    from coord.sites.regular_file import open_regular

    with reading(path), open_regular(path) as stream:
        return MAGICS.get(stream.read(4))


def load_index(path: Path, *, with_ids: bool = False, otherwise: str = "") -> "TurboIndex | IdMapIndex":
    """The index of a file; every byte of it is checked. `otherwise` is the hint for a file that is no index.

    Raises InputProblem, and what vector raises for a damaged file.
    """
    kind = index_kind(path)
    if kind is None:
        raise InputProblem(path, f"expected an index (.jvim or .jvi), got {_what(path)}", otherwise or _hint(path))
    if with_ids and kind != "jvim":
        raise InputProblem(path, "expected an index with ids (.jvim), got one without (.jvi)", ONLY_JVIM)
    from vector import IdMapIndex, TurboIndex

    with reading(path):
        return (IdMapIndex if kind == "jvim" else TurboIndex).load(path)


@contextlib.contextmanager
def changing_index(path: Path, *, with_ids: bool = False) -> Iterator[Any]:
    """The index of a file, to be changed inside; at the end it is saved in its place.

    Raises as `load_index`, and UsageProblem, with the file as it is, where another process replaced it meanwhile.
    """
    before = _root(path)
    index = load_index(path, with_ids=with_ids)
    yield index
    if _root(path) != before:  # saving would undo what the other one did
        raise UsageProblem(path, "another command changed it meanwhile: nothing was written", "run this command again")
    with writing(path):
        index.save(path)


def _root(path: Path) -> bytes:
    from coord.sites.regular_file import open_regular

    with reading(path), open_regular(path) as stream:
        stream.seek(224)  # docs/formats/jvi.md
        return stream.read(32)


@contextlib.contextmanager
def about(path: Path, **named: Path | None) -> Iterator[None]:
    """What an index refuses inside is said of the file `path`, or of the file of the argument that the text names.

    >>> with about(Path("q.npy"), allow=Path("a.npy")):
    ...     from vector.errors import VectorValueError
    ...     raise VectorValueError("IdMapIndex.search: allow: no row has id 7")
    Traceback (most recent call last):
    droveway.exits.InputProblem: a.npy: no row has id 7
    """
    from vector.errors import IndexFileError, IndexSaveError, VectorError

    try:
        yield
    except (IndexFileError, IndexSaveError):
        raise
    except VectorError as error:
        text, _, mend = str(error).partition(" (hint: ")
        hint = mend.removesuffix(")").replace("upsert replaces", "--upsert replaces the rows that are there")
        _, colon, rest = text.partition(": ")
        name, colon_too, detail = rest.partition(": ")
        file = named.get(name)
        if colon_too and file is not None:
            raise InputProblem(file, detail, hint) from error
        raise InputProblem(path, rest if colon else text, hint) from error


def _what(path: Path) -> str:
    with reading(path), path.open("rb") as stream:
        start = stream.read(6)
    if not start:
        return "an empty file"
    if start == b"\x93NUMPY":
        return "a .npy file"
    if start.startswith(b"ply"):
        return "a scene (.ply)"
    return f"a file that starts with {start[:4].hex(' ')}"


def _hint(path: Path) -> str:
    if path.suffix.lower() == ".npy":
        return f"droveway index build {quoted(path)} -o X.jvim makes an index of vectors"
    return ""


def index_record(path: Path, index: Any) -> dict[str, object]:
    """What an index holds, as plain values."""
    return {
        "kind": index_kind(path),
        "path": path,
        "rows": len(index),
        "dim": index.dim,
        "bits": index.bits,
        "metric": index.metric,
        "seed": index.seed,
        "bytes": path.stat().st_size,
        "cid": index.cid,
    }
