"""Repair and salvage as callers see them: of paths, with other copies of the history at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from storage.ledger import Ledger
from storage.mending.event_recovery import Source
from storage.mending.repair import RepairReport, repair_run, salvage_run
from storage.publication.published import is_published, open_published


def repair_ledger(
    path: str | os.PathLike[str],
    *,
    accept_loss: bool = False,
    sources: Sequence[Source | str | os.PathLike[str]] = (),
    on_step: Callable[[str], None] | None = None,
) -> RepairReport:
    """Repair a RUN directory that nobody has open for writing.

    Rebuilt byte for byte from the events: `ids`, tiles, cursors, head, HEAD. A damaged event comes back from its own
    bytes (one flipped bit), from a source, or else as its leaf. A database that does not open is salvaged from its
    tables and logs.

    accept_loss: also end the ledger before ranks of which nothing is known, lower HEAD, and let a leaf hash stand for
    an event whose leaf can't be found.  sources: readers of the same history, paths of RUN directories, or URLs
    where it is published.  on_step: told the name of each step before it is done.

    Raises NotALedgerError, LockedError, ReadOnlyError, StorageFullError; what can't be repaired is reported.

    >>> import tempfile
    >>> from storage import Event, Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.open(folder + "/run") as ledger:
    ...         receipt = ledger.append(Event(producer="me", effect=b"", kind="note.text", sequence=0, tick=0))
    ...     os.remove(folder + "/run/HEAD")
    ...     report = repair_ledger(folder + "/run")
    >>> report.ok, report.size, report.rebuilt
    (True, 1, {'HEAD': 1})
    """
    return repair_run(Path(path), [*map(_opened, sources)], accept_loss=accept_loss, on_step=on_step)


def salvage_ledger(
    path: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    sources: Sequence[Source | str | os.PathLike[str]] = (),
) -> RepairReport:
    """Write what can be read of a RUN directory into a new one, with the same ranks; the first one is not altered.

    As `repair_ledger` with `accept_loss`: a damaged event comes back, or its leaf or leaf hash stands for it, and the
    new ledger ends before the first rank of which not even that is known. `ok` says whether it is whole.

    Raises NotALedgerError; LockedError while somebody has the ledger open for writing; ValueError unless `into` is a
    folder that does not exist yet or is empty; ReadOnlyError, StorageFullError.
    """
    return salvage_run(Path(path), Path(into), [*map(_opened, sources)])


@contextmanager
def _opened(source: Source | str | os.PathLike[str]) -> Iterator[tuple[str, Source]]:
    """Name and reader of a source; one that was given as a path is closed at the end."""
    if isinstance(source, str | os.PathLike):
        place = os.fspath(source)
        with open_published(place) if is_published(place) else Ledger.open(source, "r") as ledger:
            yield place, ledger
    else:
        yield str(getattr(source, "path", type(source).__name__)), source
