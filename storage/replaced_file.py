"""Replacing a file at once: a reader, and whoever comes after a crash, finds the old bytes or the new ones."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from storage import regular_file


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Temporary file beside `path`, fsync, rename, fsync of the folder. Raises OSError; the old file is there then.

    Without `durable` the two syncs are left to the system.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for text in (b"first", b"then"):
    ...         replace(Path(folder, "a"), text)
    ...     Path(folder, "a").read_bytes(), os.listdir(folder)
    (b'then', ['a'])
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        descriptor = regular_file.create(temporary)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Return after a file's bytes, or a folder's names, are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
