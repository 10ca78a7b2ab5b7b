"""Opening a store with the engine that its files, or the caller, name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from storage.engine.files import Engine, engine_of
from storage.errors import NotALedgerError, StorageError

if TYPE_CHECKING:
    from storage.engine.store import Store

DEFAULT: Engine = "rocksdb"


def open_store(
    folder: Path,
    *,
    read_only: bool,
    engine: Engine | None = None,
    paranoid: bool = True,
    durable: bool = True,
) -> Store:
    """Open the store in a folder; to write, one is made where there is none.

    engine: of a new store (None: RocksDB), or what the one that is there must be (None: whatever it is).
    paranoid: refuse damaged files at once, where the engine can; without, damage raises when it is read.
    durable: how a store that is opened to write treats power cuts between syncs; see `LmdbStore`.

    Raises NotALedgerError where there is nothing to read, StorageError for another engine than was asked for,
    IntegrityError, LockedError, ReadOnlyError, StorageFullError, LimitError.
    """
    found = engine_of(folder)
    if found is None and read_only:
        raise NotALedgerError(f"{folder}: holds no store of RocksDB or LMDB")
    if found is not None and engine is not None and found != engine:
        raise StorageError(f"{folder}: the engine is {found}, asked for was {engine}")
    if (found or engine or DEFAULT) == "rocksdb":
        from storage.engine.rocks import RocksStore

        return RocksStore.open(folder, read_only=read_only, paranoid=paranoid)
    if read_only:
        from storage.engine.lmdb_reader import LmdbReader

        return LmdbReader(folder)
    from storage.engine.lmdb_store import LmdbStore

    return LmdbStore(folder, durable=durable)
