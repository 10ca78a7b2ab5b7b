"""Opening a named input that must be a regular file: a pipe would be waited for, a device read without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading bytes. Raises OSError, also where the path is a folder, a pipe, a socket or a device.

    >>> with open_regular(Path(__file__)) as file:
    ...     file.read(3)
    b'\"""'
    >>> open_regular(Path(os.devnull))
    Traceback (most recent call last):
    OSError: [Errno 22] is not a regular file: '/dev/null'
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))
