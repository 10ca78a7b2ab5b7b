"""Which engine made the files of a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

from storage import layout
from storage.errors import IntegrityError, StorageError

Engine = Literal["rocksdb", "lmdb"]
ENGINES: tuple[Engine, ...] = ("rocksdb", "lmdb")
LMDB_FILE = "data.mdb"
LMDB_NEW_BYTES_MAX = 1 << 15  # of a file whose making was interrupted


def engine_of(folder: Path) -> Engine | None:
    """The engine whose files a folder holds, whole or damaged; None where no store was finished.

    A RocksDB that holds no table, and has no CURRENT or neither HEAD beside it nor a byte in its logs, was never
    finished: its making was interrupted. Nor was an LMDB file of zeros, or a short one that can't be read and has no
    HEAD beside it. Raises IntegrityError where there are files of both, StorageError where the folder can't be read.
    """
    if not folder.is_dir():
        return None
    try:
        names = {entry.name for entry in folder.iterdir()}
        lmdb = LMDB_FILE in names and _lmdb_was_used(folder / LMDB_FILE)
        rocksdb = any(name.endswith(".sst") for name in names) or ("CURRENT" in names and _was_used(folder, names))
    except OSError as error:
        raise StorageError(f"{folder}: can't be read: {error.strerror}") from error
    if rocksdb and lmdb:
        raise IntegrityError(f"{folder}: holds the files of two engines, RocksDB and LMDB", file=str(folder))
    return "lmdb" if lmdb else "rocksdb" if rocksdb else None


def _was_used(folder: Path, names: set[str]) -> bool:
    """Whether a RocksDB was made to its end: HEAD lies beside it, or something is in its logs."""
    if layout.head_path(folder.parent).exists():
        return True
    for name in names:
        with suppress(FileNotFoundError):  # a live writer removes logs at any time
            if name.endswith(".log") and (folder / name).lstat().st_size:
                return True
    return False


def _lmdb_was_used(path: Path) -> bool:
    """Whether an LMDB file was made to its end: more than zeros is in it, and HEAD lies beside it or it can be read."""
    if not path.is_file():
        return True  # a folder, a pipe, a link to nowhere: somebody put it there, and opening says what it is
    with path.open("rb") as stream:
        if not any(stream.read(1 << 13)):
            return False
    if layout.head_path(path.parent.parent).exists() or path.stat().st_size > LMDB_NEW_BYTES_MAX:
        return True
    from storage.engine.lmdb_pages import PageFile, read_meta

    file = PageFile(path)
    try:
        read_meta(file)
    except IntegrityError:
        return False
    else:
        return True
    finally:
        file.close()
