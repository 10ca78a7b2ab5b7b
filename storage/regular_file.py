"""Files that must be regular ones: a pipe would be waited for, a device read without end, a link followed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from storage.errors import IntegrityError


def open_to_read(path: Path) -> int:
    """A descriptor for reading. Raises OSError, and IntegrityError where the path is a folder, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise IntegrityError(f"{path}: expected a regular file, got a folder, a pipe or a device", file=str(path))


def create(path: Path, mode: int = 0o644) -> int:
    """A descriptor for writing a new file; a file, link or pipe that has the name is removed, never followed.

    Raises OSError.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def read(path: Path, bytes_max: int | None = None) -> bytes:
    """The content, at most its first `bytes_max` bytes. Raises as `open_to_read`."""
    with os.fdopen(open_to_read(path), "rb") as stream:
        if bytes_max is None:
            return stream.read()
        held = os.fstat(stream.fileno()).st_size  # as much as is asked for is allocated
        return stream.read(min(bytes_max, held + 1))
