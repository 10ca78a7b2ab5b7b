"""A scene file while it is read: its size is known before anything is allocated, and what is cut off is named."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.errors import SceneFileError


class SourceFile:
    """An open regular file: `path`, `size` in bytes, `position`, and the `stream` itself.

    Raises OSError, also where the path is a folder, a pipe, a socket or a device.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            os.close(descriptor)
            if stat.S_ISDIR(about.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
            raise OSError(errno.EINVAL, "is not a regular file", str(self.path))
        self.stream = os.fdopen(descriptor, "rb")
        self.size = about.st_size

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()

    @property
    def position(self) -> int:
        """The offset of the next byte."""
        return self.stream.tell()

    def seek(self, offset: int) -> None:
        """Go to the byte at this offset."""
        self.stream.seek(offset)

    def read_most(self, count: int) -> bytes:
        """The next bytes, fewer than `count` only at the end of the file."""
        return self.stream.read(min(count, self.size))

    def read_rows(self, dtype: np.dtype[Any], count: int, field: str) -> NDArray[Any]:
        """The next `count` records, read-only. Raises SceneFileError where the file ends before (it shrank)."""
        start, wanted = self.position, dtype.itemsize * count
        data = self.stream.read(wanted)
        if len(data) != wanted:
            raise SceneFileError(self.path, start, field, f"{wanted} bytes", f"{len(data)}")
        return np.frombuffer(data, dtype, count)
