"""Exporting a ledger to a file that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from storage.system_errors import mapped_os_error

if TYPE_CHECKING:
    from storage.reader import Reader


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written: events, those of them that are retired, bytes of the file, and the ledger's root."""

    path: str
    events: int
    retired: int
    size_bytes: int
    root: bytes


def export(
    reader: Reader,
    *,
    jsonl: str | os.PathLike[str] | None = None,
    mcap: str | os.PathLike[str] | None = None,
    tick_ns: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Export to one file; see `Ledger.export`."""
    place = jsonl if mcap is None else mcap
    if place is None or (jsonl is not None and mcap is not None):
        raise TypeError("export: expected jsonl or mcap, one of them")
    root = reader.head().root
    with _whole(Path(place)) as stream:
        if mcap is None:
            from storage.replay.export_jsonl import write_jsonl

            events, retired = write_jsonl(reader, stream, progress)
        else:
            from storage.replay.export_mcap import write_mcap

            events, retired = write_mcap(reader, stream, tick_ns, progress)
        size = stream.tell()
    return ExportReport(os.fspath(place), events, retired, size, root)


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path`, which becomes it, synced, at the end, and is gone after an error."""
    temporary = path.with_name(f".{os.getpid()}-{os.urandom(4).hex()}-{path.name[-32:]}")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise mapped_os_error(error, path) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
