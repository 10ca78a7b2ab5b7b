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
    with contextlib.ExitStack() as at_the_end:
        try:
            folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
            at_the_end.callback(os.close, folder)
            mode = _mode_of(target)
            descriptor, stem, number = _take_name(target)
            at_the_end.callback(_release, descriptor)
            with _removed_if_it_raises(b"%s%d" % (stem, number)) as name:
                _remove_what_others_left(stem, number + 1)
                os.ftruncate(descriptor, 0)
                if mode is not None:
                    with contextlib.suppress(PermissionError):
                        os.fchmod(descriptor, mode)
                yield descriptor
                os.fsync(descriptor)
                os.rename(name, target)  # noqa: PTH104 (names are bytes)
            os.fsync(folder)
        except OSError as error:
            refused = IndexSaveError(f"{os.fspath(path)}: can't be saved: {error.strerror}")
            refused.errno = error.errno
            raise refused from error


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


def _take_name(target: bytes) -> tuple[int, bytes, int]:
    """A file beside the target that this process alone writes: descriptor, stem and number of its name."""
    folder, name = os.path.split(target)
    stem = os.path.join(folder, b".%s.saving" % name[:_NAME_BYTES])  # noqa: PTH118
    for number in range(_WRITERS_MAX):
        descriptor = _lock(b"%s%d" % (stem, number))
        if descriptor is not None:
            return descriptor, stem, number
    raise OSError(errno.EBUSY, f"{_WRITERS_MAX} other processes are saving it")


def _remove_what_others_left(stem: bytes, number: int) -> None:
    """Removes the files from `number` on whose writers died."""
    while os.path.lexists(b"%s%d" % (stem, number)):
        descriptor = _lock(b"%s%d" % (stem, number))
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(b"%s%d" % (stem, number))  # noqa: PTH108
            os.close(descriptor)
        number += 1


def _lock(name: bytes) -> int | None:
    """A descriptor of the file of that name, made if need be, with the lock; None where the name is somebody else's."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(name, flags, 0o666)
        except OSError:
            if os.path.lexists(name):  # of another user, or no file
                return None
            raise
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


@contextlib.contextmanager
def _removed_if_it_raises(name: bytes) -> Iterator[bytes]:
    try:
        yield name
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


def _release(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may hold the descriptor too
    os.close(descriptor)
