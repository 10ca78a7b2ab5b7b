"""Following a ledger that another process writes: what is there, then each event as it comes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from storage import layout
from storage.errors import NotALedgerError, StorageError
from storage.event import Event
from storage.ledger import Ledger
from storage.opening import RECOVERY_DEGRADED
from storage.replay.cursor import Cursor, require_before
from storage.replay.log_tail import LogTail, TailLostError
from storage.tree import Head

OPENINGS_MAX = 5  # in a row, beside a writer that changes its files meanwhile
FRESH_NS = 100_000_000  # a file changed this recently may change again without showing it


def follow(
    path: str | os.PathLike[str],
    start: int | Cursor = 0,
    *,
    stop: Callable[[], bool] | None = None,
    poll_s: float = 0.05,
) -> Iterator[tuple[int, Event]]:
    """Ranks and events of a ledger from `start` on, without end: each one checked, none left out, in order.

    The ledger may be open for writing in another process, end, crash and start again. Nothing in its folder is
    altered. start: a rank, or a cursor, which must belong to this ledger's history.  stop: when it says True, what is
    there by then is still given out, and the iteration ends.  poll_s: how long to wait where nothing new is there.

    An event may be given out before its writer has been told that the disk has it; where a power cut then takes it
    back, the next step raises RollbackError or ForkError.

    Raises NotALedgerError where there is no ledger yet, ValueError for a start above its size, RollbackError and
    ForkError where it no longer extends what was given out, IntegrityError for damage, RetiredError at a rank whose
    payload was removed (go on from the next one).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
    ...     feed = follow(folder + "/run", stop=lambda: True)
    ...     _ = ledger.append(Event(producer="pump", effect=b"on", kind="note.text", sequence=0, tick=3))
    ...     [(rank, event.effect) for rank, event in feed]
    [(0, b'on')]
    """
    run = Path(path)
    rank, seen = (start.rank, start) if isinstance(start, Cursor) else (start, Cursor())
    while True:
        watch = _watch(layout.store_path(run))
        try:
            last = stop is not None and stop()
            with _opened(run, poll_s) as ledger:
                head = ledger.head()
                require_before(ledger, seen)
                if not 0 <= rank <= head.size:
                    raise ValueError(f"follow: {run}: start must be in [0, {head.size}], got {rank}")
                yield from ledger.scan(rank)
                rank, seen = head.size, Cursor(head.size, head.root)
                watch.start(head.size, ledger.frontier())
            while not last:
                last = stop is not None and stop()
                news = False
                for head, events in watch.poll():
                    yield from enumerate(events, rank)
                    rank, seen, news = head.size, Cursor(head.size, head.root), True
                if not news and not last:
                    time.sleep(poll_s)
        except TailLostError:
            continue
        else:
            return
        finally:
            watch.close()


class _FolderWatch:
    """Whether the files of a folder have changed: for an engine whose changes can't be read from a log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen, self._fresh = self._look()

    def _look(self) -> tuple[list[tuple[str, int, int, int]], bool]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    about = entry.stat()
                    found.append((entry.name, about.st_ino, about.st_size, about.st_mtime_ns))
        newest = max((about[-1] for about in found), default=0)
        return sorted(found), newest > time.time_ns() - FRESH_NS

    def start(self, size: int, frontier: bytes) -> None:
        """Nothing to do: what changed is read from the ledger."""

    def poll(self) -> Iterator[tuple[Head, list[Event]]]:
        """Raises TailLostError where something changed, or could have without showing it."""
        seen, fresh = self._look()
        if seen != self._seen or self._fresh:
            raise TailLostError("the files changed")
        self._fresh = fresh
        return iter(())

    def close(self) -> None:
        """Nothing to give back."""


def _watch(folder: Path) -> LogTail | _FolderWatch:
    with suppress(OSError, TailLostError):  # opening says what is wrong
        if (folder / "CURRENT").exists():
            return LogTail(folder)
    return _FolderWatch(folder)


def _opened(run: Path, poll_s: float) -> Ledger:
    """The ledger read-only, as its writer left it. What a writer's changes meanwhile can bring about is tried again."""
    for attempt in range(1, OPENINGS_MAX + 1):
        try:
            ledger = Ledger.open(run, mode="r")
        except NotALedgerError:
            raise
        except StorageError:
            if attempt == OPENINGS_MAX:
                raise
        else:
            if ledger.manifest_status != RECOVERY_DEGRADED:
                return ledger
            problem = ledger.problems[0]
            ledger.close()
            if attempt == OPENINGS_MAX:
                raise problem
        time.sleep(poll_s)
    raise AssertionError("the last attempt returns or raises")
