"""RocksDB's own logs, looked at before RocksDB reads them.

Its reader of logs (write-ahead logs and MANIFEST) never comes back from a record whose type byte is one of those of
recycled logs, which this ledger never writes: one flipped bit would stop a reader for ever. Here only the chain of
headers is walked: blocks of 32 KiB, each record u32 CRC · u16 length · u8 type · bytes, no header in the last six bytes
of a block. Where the chain of a write-ahead log breaks, or its last record is cut off, RocksDB may drop what follows
without a word: such a log is named here, and torn_log.py decides. Everything else that can be wrong RocksDB finds.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from pathlib import Path
from typing import BinaryIO

from storage.errors import IntegrityError

BLOCK_BYTES = 32768
TYPE_MAX = 4  # 0 padding, 1 whole, 2 first, 3 middle, 4 last
FIRST, MIDDLE = 2, 3
LOG_BYTES_MAX = 1 << 32  # of a write-ahead log: 8 MiB and the largest batch, which RocksDB bounds so
MANIFEST_BYTES_MAX = 1 << 26  # of the list of tables: some KB for each GB of events
_HEADER = struct.Struct("<IHB")
_LOGS = re.compile(r"MANIFEST-\d+|\d+\.log")


def check_engine_logs(folder: Path) -> list[str]:
    """The write-ahead logs in `folder` whose chain of headers breaks before their end.

    Raises IntegrityError (file, offset) for a MANIFEST that RocksDB would read without end, and for files longer than
    any that a ledger writes.
    """
    doubtful = []
    for name in sorted(entry.name for entry in folder.iterdir() if _LOGS.fullmatch(entry.name)):
        try:
            descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # gone by now, or not to be read: RocksDB says which
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                continue
            most = LOG_BYTES_MAX if name.endswith(".log") else MANIFEST_BYTES_MAX
            if about.st_size > most:
                raise IntegrityError(f"{name}: expected at most {most} bytes, got {about.st_size}", file=name)
            if not _walk(stream, name) and name.endswith(".log"):
                doubtful.append(name)
    return doubtful


def _walk(stream: BinaryIO, name: str) -> bool:
    """Whether every block of a log is a chain of records up to its end."""
    start, inside = 0, False
    while block := stream.read(BLOCK_BYTES):
        offset = 0
        while offset + _HEADER.size <= len(block):
            _, length, kind = _HEADER.unpack_from(block, offset)
            if kind > TYPE_MAX and name.endswith(".log"):
                return False
            if kind > TYPE_MAX:  # before the length, as RocksDB does
                raise IntegrityError(
                    f"{name}: offset {start + offset}: expected a record of type 0 to {TYPE_MAX}, got {kind}", file=name
                )
            end = offset + _HEADER.size + length
            if end > len(block) or kind == 0:
                return False  # cut off, a wrong length, or a hole
            inside = kind in (FIRST, MIDDLE)
            offset = end
        if len(block) < BLOCK_BYTES and offset < len(block):
            return False
        start += len(block)
    return not inside
