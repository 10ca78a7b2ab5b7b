"""Opening a file that must be a regular one: a pipe would be waited for, a device read without end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from storage.errors import IntegrityError


def open_to_read(path: Path) -> int:
    """A descriptor for reading. Raises OSError, and IntegrityError where the path is a folder, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise IntegrityError(f"{path}: expected a regular file, got a folder, a pipe or a device", file=str(path))


def read(path: Path, bytes_max: int | None = None) -> bytes:
    """The content, at most its first `bytes_max` bytes. Raises as `open_to_read`."""
    with os.fdopen(open_to_read(path), "rb") as stream:
        return stream.read() if bytes_max is None else stream.read(bytes_max)
