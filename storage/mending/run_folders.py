"""Folders of a database as a whole: a copy, a change of places in one step, and all of it on the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from storage.replaced_file import sync
from storage.system_errors import mapped_os_error

NOT_COPIED = frozenset(("LOCK", "LOG", "lock.mdb"))


def copy(old: Path, new: Path) -> None:
    """A copy of a database; tables are linked where the file system can, as the engine never changes one."""
    new.mkdir()
    for file in sorted(old.iterdir()):
        if file.name in NOT_COPIED or not file.is_file():
            continue
        try:
            if file.suffix == ".sst":
                try:
                    os.link(file, new / file.name)
                    continue
                except OSError:
                    pass
            shutil.copyfile(file, new / file.name)
        except OSError as error:
            raise mapped_os_error(error, new / file.name) from error


def swap(a: Path, b: Path) -> None:
    """Let two folders change names in one step; where the file system can't, in two, which a second repair ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    at_cwd, exchange = -100, 2
    if rename is not None and rename(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0:
        return
    code = ctypes.get_errno()
    if rename is not None and code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise mapped_os_error(OSError(code, os.strerror(code)), b)
    aside = a.with_name("ledger.old")
    b.rename(aside)
    a.rename(b)
    aside.rename(a)


def sync_tree(folder: Path) -> None:
    """Sync the files of a folder, the folder, and the one above."""
    for file in folder.iterdir():
        sync(file)
    sync(folder)
    sync(folder.parent)
