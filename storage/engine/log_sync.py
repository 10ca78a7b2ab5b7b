"""Syncing RocksDB's write-ahead logs past the binding, which holds the interpreter's lock during a synced write.

A write without sync has reached the system when it returns: RocksDB hands every record to the kernel at once (it
buffers only with manual_wal_flush, which is off). So a write and `LogSync.sync` promise what a synced write does, and
other threads run meanwhile. What this rests on, all of it true of any RocksDB without recycled logs:

- Logs only grow, so a log whose size is the one it had when it was last synced holds nothing new.
- A write may begin a new log (each family's memtable has its own end), and the records before it stay in the old ones,
  which live until every family has flushed them. Therefore all live logs are looked at, not the newest only.
- A log is deleted after the tables that hold its records, and the manifest that names them, are on the disk. One that
  is gone needs no sync, also when it goes while we look at it.
- A new log's name is on the disk after a sync of the folder.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_LOG = re.compile(r"\d+\.log")


class LogSync:
    """The logs in a database's folder and how much of each is on the disk. One thread at a time.

    Descriptors are our own and stay open while a log lives, so that a failed write-back between two syncs is seen.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, int] = {}  # name → descriptor
        self._synced: dict[str, int] = {}  # name → bytes known to be on the disk
        self._folder_changed = False
        self._failed: OSError | None = None

    def sync(self) -> None:
        """Return after everything written before the call is on the disk. Raises OSError.

        After an error of a sync every call raises it again: the kernel forgets what it could not write, and a second
        sync of the same descriptor would succeed without it.
        """
        if self._failed is not None:
            raise self._failed
        names = sorted(file.name for file in os.scandir(self._folder) if _LOG.fullmatch(file.name))
        for gone in self._logs.keys() - set(names):
            self._forget(gone)
        for name in names:
            self._sync_log(name)
        if self._folder_changed:
            self._sync_folder()

    def _sync_log(self, name: str) -> None:
        descriptor = self._logs.get(name)
        if descriptor is None:
            try:
                descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            self._logs[name] = descriptor
            self._folder_changed = True
        size = os.fstat(descriptor).st_size
        if size == self._synced.get(name, 0):
            return
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            self._failed = error
            raise
        self._synced[name] = size

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            self._failed = error
            raise
        finally:
            os.close(descriptor)
        self._folder_changed = False

    def _forget(self, name: str) -> None:
        self._synced.pop(name, None)
        with suppress(OSError):
            os.close(self._logs.pop(name))

    def close(self) -> None:
        """Give the descriptors back; a second call does nothing."""
        for name in tuple(self._logs):
            self._forget(name)
