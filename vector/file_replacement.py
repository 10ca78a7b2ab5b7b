"""Replacing a file at once: whatever interrupts it, the old content or the new one is there, whole.

The new content is written under another name in the same folder, `.NAME.saving0`, locked (flock) while a process writes
it; a second writer at the same time takes `.NAME.saving1`, and so on. A killed process leaves its file behind, without
the lock: the next one uses it again, so such files don't pile up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from vector.errors import IndexSaveError

_NAME_BYTES = 200  # of a long name, so that what is added still fits into a file name
_WRITERS_MAX = 64


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[int]:
    """`with replacing(path) as descriptor:` the file written to the descriptor takes the place of `path` at the end.

    A link at `path` stays, the file it leads to is replaced. If the block raises, the old file stays and nothing else
    is left. Raises IndexSaveError where the system refuses (no space, no permission, no such folder).
    """
    target = os.path.realpath(os.fsencode(path))
    try:
        mode = _mode_of(target)
        descriptor, name = _take_name(target)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        try:
            with contextlib.suppress(PermissionError):
                if mode is not None:
                    os.fchmod(descriptor, mode)
            yield descriptor
            os.fsync(descriptor)
            os.rename(name, target)  # noqa: PTH104 (names are bytes)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise
        _sync_folder(os.path.dirname(target))  # noqa: PTH120
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may hold the descriptor too
        os.close(descriptor)


def write_all(descriptor: int, data: memoryview) -> None:
    """Writes all of the bytes; a write may take fewer than it was given."""
    while data:
        data = data[os.write(descriptor, data) :]


def _mode_of(target: bytes) -> int | None:
    """Permissions of the file that is to be replaced, None where there is none."""
    try:
        found = os.stat(target)  # noqa: PTH116
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return stat.S_IMODE(found.st_mode)


def _take_name(target: bytes) -> tuple[int, bytes]:
    """An empty file that this process alone writes, and its name. Files of writers that died are removed on the way."""
    folder, name = os.path.split(target)
    stem = os.path.join(folder, b".%s.saving" % name[:_NAME_BYTES])  # noqa: PTH118
    taken: tuple[int, bytes] | None = None
    for number in range(_WRITERS_MAX):
        candidate = b"%s%d" % (stem, number)
        if taken is not None and not os.path.lexists(candidate):
            break
        descriptor = _lock(candidate)
        if descriptor is None:
            continue
        if taken is None:
            taken = descriptor, candidate
            continue
        with contextlib.suppress(OSError):
            os.unlink(candidate)  # noqa: PTH108
        os.close(descriptor)
    if taken is None:
        raise OSError(errno.EBUSY, f"{_WRITERS_MAX} other processes are saving it")
    os.ftruncate(taken[0], 0)
    return taken


def _lock(name: bytes) -> int | None:
    """A descriptor of the file of that name, made if need be, with the lock; None where another process has it."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(name, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Meanwhile its writer may have renamed it: then it is somebody's index now.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.lstat(name)):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _sync_folder(folder: bytes) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refused(path: str | os.PathLike[str], error: OSError) -> IndexSaveError:
    refused = IndexSaveError(f"{os.fspath(path)}: can't be saved: {error.strerror}")
    refused.errno = error.errno
    return refused
