"""The operating system's refusals as errors of this package."""

from __future__ import annotations

import errno
from pathlib import Path

from storage.errors import ReadOnlyError, StorageError, StorageFullError


def mapped_os_error(error: OSError, path: Path) -> StorageError:
    """An operating system's refusal as ours."""
    text = f"{path}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFullError(text)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyError(text)
    return StorageError(text)
