"""Salvage: reading the files of a damaged database one by one, and keeping of each key the entry that can be right.

Neither the list of tables nor sequence numbers are needed to choose: a ledger only grows. Of two values of a rank the
one whose id is that of its bytes wins, and over that the leaf of the same event (it was retired); of two tiles the
longer one; of two heads the larger; of two cursors the later. Which family a key belongs to shows in its shape.
Everything is held against ids, leaves and roots afterwards, by storage/mending/rebuilding.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from storage import hashing, layout, state, tree
from storage.engine.files import LMDB_FILE
from storage.engine.lmdb_scan import LmdbFile
from storage.engine.sst_file import Cell, SstFile
from storage.engine.store import Entry, Store
from storage.engine.wal_file import WalFile
from storage.errors import IntegrityError
from storage.mending.retire import is_retired
from storage.tree import HASH_BYTES

BATCH_BYTES = 1 << 20
CHECKPOINT_PREFIX = b"checkpoint/"
FAULTS_KEPT_MAX = 100


@dataclass(slots=True)
class Tally:
    """What salvage read and what it could not."""

    files: int = 0
    notes: list[str] = field(default_factory=list)
    bytes_dropped: int = 0


def salvage_store(folder: Path, store: Store, tally: Tally) -> None:
    """Put everything that can be read of the tables and logs, or pages, in `folder` into an empty store.

    Damage is told in `tally`, never raised.
    """
    merger = _Merger(store)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        kind = _kind_of(path)
        if kind is None:
            continue
        try:
            file = kind(path)
        except (OSError, IntegrityError) as error:
            tally.notes.append(f"{path.name}: can't be read: {error}")
            continue
        try:
            merger.take(file.cells())
        finally:
            file.close()
        tally.files += file.size > 0
        tally.notes += file.faults[: max(0, FAULTS_KEPT_MAX - len(tally.notes))]
        tally.bytes_dropped += file.bytes_lost
    merger.flush()
    tally.bytes_dropped += merger.bytes_dropped


def _kind_of(path: Path) -> type[SstFile | WalFile | LmdbFile] | None:
    if path.name == LMDB_FILE:
        return LmdbFile
    return SstFile if path.suffix == ".sst" else WalFile if path.suffix == ".log" else None


def family_of(key: bytes, value: bytes) -> str | None:
    """The family that an entry belongs to, by the shape of key and value; None for one that no ledger has.

    >>> family_of(bytes(8), bytes(41)), family_of(b"cursor/x", bytes(40)), family_of(bytes(3), b"")
    ('log', 'meta', None)
    """
    if key.startswith(layout.CURSOR_PREFIX) and len(value) == 40:
        return "meta"
    if key in (layout.FORMAT_KEY, layout.HEAD_KEY) or (key.startswith(CHECKPOINT_PREFIX) and len(key) == 19):
        return "meta"
    if len(key) == 8 and HASH_BYTES <= len(value) <= state.VALUE_BYTES_MAX:
        return "log"
    if len(key) == HASH_BYTES and len(value) == 8:
        return "ids"
    if len(key) == 9 and key[0] < 8 and 0 < len(value) <= layout.TILE_BYTES and len(value) % HASH_BYTES == 0:
        return "tree"
    return None


class _Merger:
    """Puts entries into the store, of each key the better one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pending: dict[tuple[str, bytes], bytes] = {}
        self.held = 0
        self.bytes_dropped = 0

    def take(self, cells: Iterable[Cell]) -> None:
        """Take all entries; deletions are left out, as nothing of a ledger is deleted but strays."""
        for cell in cells:
            if cell.value is None:
                continue
            family = family_of(cell.key, cell.value)
            if family is None:
                self.bytes_dropped += len(cell.key) + len(cell.value)
                continue
            place = (family, cell.key)
            there = self.pending.get(place)
            if there is None:
                there = self.store.get(family, cell.key)
            if there is None or (there != cell.value and better(family, there, cell.value)):
                self.pending[place] = cell.value
                self.held += len(cell.value)
                if self.held >= BATCH_BYTES:
                    self.flush()

    def flush(self) -> None:
        """Write what is held."""
        entries: list[Entry] = [(family, key, value) for (family, key), value in self.pending.items()]
        if entries:
            self.store.write(entries, sync=False)
        self.pending, self.held = {}, 0


def better(family: str, there: bytes, new: bytes) -> bool:
    """Whether of two values of a key the new one is to be kept.

    >>> better("tree", bytes(32), bytes(64)), better("meta", bytes(40), bytes(40))
    (True, False)
    """
    if family == "log":
        return _weight(new, there) > _weight(there, new)
    if family == "meta" and len(there) == len(new) == 40:  # a head or a cursor: its number comes first
        return new[:8] > there[:8]
    return family in ("tree", "meta") and len(new) > len(there)


def _weight(value: bytes, other: bytes) -> int:
    """How good a value of a rank is, beside another one."""
    if is_retired(value):
        return 3 if _is_event(other) and value == tree.leaf(other[:32], len(other) - 32) else 1
    if len(value) <= HASH_BYTES:
        return 0
    return 2 if _is_event(value) else 0


def _is_event(value: bytes) -> bool:
    return len(value) > HASH_BYTES and not is_retired(value) and value[:32] == hashing.event_id(value[32:])
