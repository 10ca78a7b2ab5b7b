"""The end of RocksDB's last write-ahead log after a crash: torn, or damaged?

A crash leaves the commit that was being written in any state: whole, cut off, or with holes where the disk wrote later
blocks before earlier ones. RocksDB accepts the second alone. Here is decided which end may be cut off, and why.

A commit is one record (in fragments, one a block of 32 KiB), and with sync="fsync" no commit is written before the one
before it is on the disk. So damage that a whole later record follows can't be the crash's: those bytes had been
confirmed, and the log is refused. Damage in the last record is either a commit that nobody was told of, or rot in one
confirmed: bytes alone don't tell. It may be cut off as long as what remains reaches HEAD, and it is reported.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from storage import hashing, regular_file
from storage.engine.engine_logs import BLOCK_BYTES
from storage.errors import IntegrityError

HEADER_BYTES = 7  # u32 masked CRC-32C of type and bytes · u16 length · u8 type
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_HEADER = struct.Struct("<IHB")
_LOG = re.compile(r"\d+\.log")
_MANIFEST = re.compile(r"MANIFEST-\d+")
_MASK_DELTA = 0xA282EAD8


@dataclass(frozen=True, slots=True)
class TornTail:
    """The end of a log that may be cut off: name, bytes that stay, bytes that go."""

    file: str
    kept_bytes: int
    dropped_bytes: int


def torn_tail(folder: Path) -> TornTail | None:
    """The torn end of the last log with content; None where every record of it is whole.

    Raises IntegrityError (file, offset) where whole records follow the damage, and where an earlier log is damaged.
    """
    logs = sorted(entry.name for entry in folder.iterdir() if _LOG.fullmatch(entry.name))
    found: TornTail | None = None
    for name in sorted(logs, key=lambda name: int(name[:-4])):
        data = regular_file.read(folder / name)
        if found is not None and data.rstrip(b"\0"):
            raise _damaged(found.file, found.kept_bytes, f"{name} goes on")
        if found is None:
            found = _end_of(name, data)
    return found


def torn_manifest(folder: Path) -> TornTail | None:
    """The torn end of the manifest in use; None where every record of it is whole. Raises as `torn_tail`.

    What the engine does on the strength of a record of the manifest it does after a sync: a record that a crash tore
    is one that nothing followed. Whether it was the crash, the tables tell: see `RocksStore`.
    """
    name = regular_file.read(folder / "CURRENT", 64).decode(errors="replace").strip()
    if _MANIFEST.fullmatch(name) is None:
        return None
    return _end_of(name, regular_file.read(folder / name))


def _damaged(name: str, offset: int, follows: str) -> IntegrityError:
    return IntegrityError(f"{name}: offset {offset}: expected a whole record, as {follows}, got damage", file=name)


def _end_of(name: str, data: bytes) -> TornTail | None:
    kept, broken = _whole_records(data)
    if kept == len(data):
        return None
    if broken < len(data):
        later = _later_record(data, broken + 1)
        if later is not None:
            raise _damaged(name, kept, f"a whole one follows at {later}")
    return TornTail(name, kept, len(data) - kept) if data[kept:].strip(b"\0") else None


def _whole_records(data: bytes) -> tuple[int, int]:
    """Where the last whole record ends, and where the first fragment lies that can't be one (or the end)."""
    at = kept = 0
    inside = False
    while at < len(data):
        room = BLOCK_BYTES - at % BLOCK_BYTES
        if room < HEADER_BYTES:
            at += room
            kept = kept if inside else min(at, len(data))
            continue
        kind = _fragment(data, at)
        if kind is None or inside != (kind in (MIDDLE, LAST)):
            return kept, at
        at += HEADER_BYTES + _HEADER.unpack_from(data, at)[1]
        inside = kind in (FIRST, MIDDLE)
        if not inside:
            kept = at
    return kept, len(data)


def _fragment(data: bytes, at: int) -> int | None:
    """The type of the whole fragment at an offset, or None."""
    if at + HEADER_BYTES > len(data):
        return None
    crc, length, kind = _HEADER.unpack_from(data, at)
    end = at + HEADER_BYTES + length
    if not WHOLE <= kind <= LAST or end > min(len(data), at - at % BLOCK_BYTES + BLOCK_BYTES):
        return None
    found = hashing.crc32c(data[at + 6 : end])
    return kind if crc == ((found >> 15 | found << 17) + _MASK_DELTA) & 0xFFFFFFFF else None


def _later_record(data: bytes, start: int) -> int | None:
    """The offset of a fragment that begins a record, at or after `start`; None where there is none."""
    for at in range(start, len(data) - HEADER_BYTES + 1):
        if data[at + 6] in (WHOLE, FIRST) and _fragment(data, at) in (WHOLE, FIRST):
            return at
    return None


def cut(folder: Path, tail: TornTail) -> None:
    """Cut a torn end off, durably. The caller holds the ledger's lock."""
    descriptor = os.open(folder / tail.file, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, tail.kept_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
