"""Giving back the pages of a file that a library has mapped into this process.

Pages that are read through a map count as memory of the process until they are given back, and the system maps the
neighbours of each page that is touched: appending a gigabyte would hold a gigabyte. Giving back loses nothing: the
next access finds the page in the system's cache again.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

_MADV_DONTNEED = 4


class FileMap:
    """The map of a file in this process; does nothing where it is not found."""

    def __init__(self, path: Path) -> None:
        self._libc = ctypes.CDLL(None)
        self._ranges = _ranges(path.stat().st_ino, path.name)

    def give_back(self) -> None:
        """Let go of all pages. Any thread may go on using the map."""
        for start, size in self._ranges:
            self._libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_DONTNEED)


def _ranges(inode: int, name: str) -> list[tuple[int, int]]:
    """Start and size of the shared maps of a file: `7f00-7f01 r--s 00000000 fe:01 4711   /run/ledger/data.mdb`."""
    found = []
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6 and words[1].endswith("s") and int(words[4]) == inode and words[5].endswith(name):
                start, _, stop = words[0].partition("-")
                found.append((int(start, 16), int(stop, 16) - int(start, 16)))
    return found
