"""RocksDB's own logs, looked at before RocksDB reads them.

Its reader of logs (write-ahead logs and MANIFEST) never comes back from a record whose type byte is one of those of
recycled logs, which this ledger never writes: one flipped bit would stop a reader for ever. Here only the chain of
headers is walked: blocks of 32 KiB, each record u32 CRC · u16 length · u8 type · bytes, no header in the last six bytes
of a block. Everything else that can be wrong in a log RocksDB itself finds.
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
_HEADER = struct.Struct("<IHB")
_LOGS = re.compile(r"MANIFEST-\d+|\d+\.log")


def check_engine_logs(folder: Path) -> None:
    """Raise IntegrityError (file, offset) for a log in `folder` that RocksDB would read without end."""
    for name in sorted(entry.name for entry in folder.iterdir() if _LOGS.fullmatch(entry.name)):
        try:
            descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # gone by now, or not to be read: RocksDB says which
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                _walk(stream, name)


def _walk(stream: BinaryIO, name: str) -> None:
    start = 0
    while block := stream.read(BLOCK_BYTES):
        offset = 0
        while offset + _HEADER.size <= len(block):
            _, length, kind = _HEADER.unpack_from(block, offset)
            if kind > TYPE_MAX:  # before the length, as RocksDB does
                raise IntegrityError(
                    f"{name}: offset {start + offset}: expected a record of type 0 to {TYPE_MAX}, got {kind}", file=name
                )
            end = offset + _HEADER.size + length
            if end > len(block):
                break  # cut off, or a wrong length, which RocksDB finds
            offset = end
        start += len(block)
