"""Files as memory: mapped to be read, replaced at once to be written."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tensor.errors import TensorFileError

__all__ = ["map_file", "replace"]


def map_file(path: str) -> memoryview:
    """The bytes of a regular file, mapped: pages are read when they are first touched, and a change stays private.

    The mapping lives as long as a view of it. Who shortens the file meanwhile takes the pages away (SIGBUS), as with
    every mapping. Raises OSError, TensorFileError if it is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TensorFileError(path, 0, "file", "a regular file", _kind(status.st_mode))
        if status.st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_COPY))
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}
    return next((word for test, word in kinds.items() if test(mode)), "something else")


def replace(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Writes the parts one after another into `path`.tmp, syncs, renames, syncs the folder.

    Raises OSError, and FileNotFoundError that names the folder where there is none; whatever stood at `path` is there
    then, and no temporary file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace(Path(folder, "a"), [b"one, ", b"two"])
    ...     Path(folder, "a").read_bytes(), os.listdir(folder)
    (b'one, two', ['a'])
    """
    temporary = path.with_name(path.name + ".tmp")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder to write a file in", str(path.parent))
    with suppress(FileNotFoundError):
        temporary.unlink()  # what a crash left: never written through, it may be a link
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            for part in parts:
                left = memoryview(part)
                while left:
                    left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
