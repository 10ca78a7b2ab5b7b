"""Output files that are there whole or not at all: written beside the target, synced, then renamed over it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from droveway.exits import UsageProblem, quoted, writing


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name beside `path`, with its ending, to write to; it becomes `path` at the end, and is gone after an error.

    A symbolic link stays one: the file that it leads to is replaced. Raises UsageProblem as `require_place` and where
    the folder can't be written, LimitProblem on a full disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder, "a.txt")) as place:
    ...         _ = place.write_text("all of it")
    ...     print(Path(folder, "a.txt").read_text(), [file.name for file in Path(folder).iterdir()])
    all of it ['a.txt']
    """
    require_place(path)
    target = path.resolve() if path.is_symlink() else path
    place = target.with_name(f".{os.getpid()}-{os.urandom(4).hex()}-{path.name[-32:]}")  # a name has at most 255 bytes
    try:
        with writing(path):
            yield place
            _sync(place)
            place.replace(target)
            _sync(target.parent)
    finally:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)


def require_place(path: Path) -> None:
    """Refuse an output whose folder is missing, and one that is a folder, a pipe, a device, part of a run: exit 2."""
    with writing(path):  # even looking fails for a name that no file can have
        folder, place, other = path.is_dir(), path.parent.is_dir(), path.exists() and not path.is_file()
        run = _run_of(path)
    if run is not None:
        raise UsageProblem(path, f"expected a file to write, got a part of the run {run}", "choose another output")
    if folder:
        raise UsageProblem(path, "expected a file to write, got a folder")
    if other:  # it would be replaced by a file
        raise UsageProblem(path, "expected a file to write, got a pipe, a socket or a device")
    if not place:
        raise UsageProblem(path, f"expected the folder {path.parent} to exist", f"mkdir -p {quoted(path.parent)}")


def require_ending(path: Path, *endings: str) -> None:
    """Refuse an output whose name says that it is something else: exit 2."""
    if not path.name.lower().endswith(endings):
        wanted = " or ".join(endings)
        raise UsageProblem(path, f"expected an output that ends in {wanted}, got '{path.suffix}'")


def require_another(path: Path, *sources: Path | None) -> None:
    """Refuse to write over an input: exit 2."""
    for source in sources:
        with contextlib.suppress(OSError):
            if source is not None and path.samefile(source):
                raise UsageProblem(path, "expected another file than the input", "choose another output")


def _run_of(path: Path) -> Path | None:
    """The run that would be damaged by writing here: its head, its checkpoint, or what lies in its ledger."""
    target = Path(os.path.realpath(path))
    for run in target.parents:
        part = target.relative_to(run).parts[0]
        if part in ("HEAD", "checkpoint", "ledger") and (run / "ledger").is_dir() and (run / "HEAD").exists():
            return run
    return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
