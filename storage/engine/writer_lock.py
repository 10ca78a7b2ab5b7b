"""One writer a ledger: a lock on the store's folder that the system drops when its holder ends.

RocksDB's own lock is of the older kind that a process loses when it closes any descriptor of the lock file, as copying
the folder does. This one belongs to the descriptor.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from storage.errors import LockedError


class WriterLock:
    """Holds the lock until released. Raises LockedError naming the holder, OSError where the folder can't be opened."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _holder(os.fstat(self._descriptor))
            self.release()
            who = "another process" if pid is None else f"process {pid}"
            if pid == os.getpid():
                who = f"this process ({pid})"
            raise LockedError(f"{folder}: {who} holds the ledger for writing", pid) from None

    def nameable(self, folder: Path) -> Path:
        """The locked folder as an engine can name it, whatever the current folder becomes: absolute, and in UTF-8.

        Where its name is no UTF-8, a name that is good in this process until the lock is given up.
        """
        absolute = folder.absolute()
        try:
            str(absolute).encode()
        except UnicodeEncodeError:
            return Path(f"/proc/self/fd/{self._descriptor}")
        return absolute

    def release(self) -> None:
        """Give the lock up; a second call does nothing. In a forked child the parent keeps it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # of an opening that was broken off, by a signal for one
            self.release()


def _holder(folder: os.stat_result) -> int | None:
    """The process that holds the lock, from the kernel's list: `1: FLOCK ADVISORY WRITE pid device:inode 0 EOF`."""
    found = None
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text("utf-8").splitlines():
            words = line.split()
            if words[1] != "FLOCK" or int(words[4]) <= 0:
                continue
            major, minor, inode = words[5].split(":")
            if int(inode) != folder.st_ino:
                continue
            if (int(major, 16), int(minor, 16)) == (os.major(folder.st_dev), os.minor(folder.st_dev)):
                return int(words[4])
            found = int(words[4])  # a stacked file system shows the device below it
    return found
