"""Reading RocksDB's write-ahead logs without RocksDB: every record that is whole, also after one that is not.

Layout: blocks of 32 KiB; a record is u32 masked CRC-32C (of type and bytes), u16 length, u8 type (1 whole, 2 first, 3
middle, 4 last), bytes; no header in the last six bytes of a block. A whole record is a write batch: u64 first sequence
number, u32 count, then operations: u8 tag (1 put, 0 delete; 5 and 4 the same with a varint column family in front),
length and key, and for a put length and value.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from storage import regular_file
from storage.engine.engine_logs import BLOCK_BYTES
from storage.engine.sst_file import Cell, masked_crc32c, varint

HEADER = struct.Struct("<IHB")
BATCH_HEADER_BYTES = 12
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
RECORD_BYTES_MAX = 1 << 28


class WalFile:
    """One log. `faults` tells what could not be read; `good_end` is where the last whole record before any of it ends.

    Raises OSError, and IntegrityError where the path is no regular file; damage is never raised.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.faults: list[str] = []
        self.bytes_lost = 0
        self.good_end = 0
        self._descriptor = regular_file.open_to_read(path)
        self.size = os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def cells(self) -> Iterator[Cell]:
        """Every operation of every whole record, in order."""
        for record in self.records():
            yield from self._operations(record)

    def records(self) -> Iterator[bytes]:
        """The bytes of every whole record."""
        parts: list[bytes] = []
        held = 0
        for kind, data, end in self._fragments():
            if kind == WHOLE:
                if parts:
                    self._fault(end, held, "a record without its end")
                parts, held = [], 0
                self._good(end)
                yield data
            elif kind == FIRST:
                if parts:
                    self._fault(end, held, "a record without its end")
                parts, held = [data], len(data)
            elif not parts:
                self._fault(end, len(data), "a record without its start")
            else:
                parts.append(data)
                held += len(data)
                if held > RECORD_BYTES_MAX:
                    self._fault(end, held, "a record without end")
                    parts, held = [], 0
                elif kind == LAST:
                    self._good(end)
                    yield b"".join(parts)
                    parts, held = [], 0
        if parts:
            self._fault(self.size, held, "a record without its end")

    def _fragments(self) -> Iterator[tuple[int, bytes, int]]:
        """Type, bytes and end of each part of a record whose checksum fits."""
        for start in range(0, self.size, BLOCK_BYTES):
            block = os.pread(self._descriptor, BLOCK_BYTES, start)
            offset = 0
            while offset + HEADER.size <= len(block):
                checksum, length, kind = HEADER.unpack_from(block, offset)
                end = offset + HEADER.size + length
                if checksum == length == kind == 0:
                    if any(block[offset:]):
                        self._fault(start + offset, len(block) - offset, "zeros before the end of a block")
                    break  # room that was reserved and not written
                if end > len(block):
                    self._fault(start + offset, len(block) - offset, "a record longer than its block")
                    break
                data = block[offset + HEADER.size : end]
                if masked_crc32c(block[offset + 6 : end]) != checksum:
                    # A wrong length would lead anywhere: only the next block is sure to begin with a record.
                    self._fault(start + offset, end - offset, "a record with another checksum")
                    after = self._next_whole(block, offset)
                    if after is None:
                        self.bytes_lost += len(block) - end
                        break
                    offset = after
                    continue
                if not WHOLE <= kind <= LAST:
                    self._fault(start + offset, end - offset, f"a record of type {kind}")
                else:
                    yield kind, data, start + end
                offset = end

    def _next_whole(self, block: bytes, offset: int) -> int | None:
        """Where the record after a damaged one begins, if the damaged one's length can be believed."""
        _, length, _ = HEADER.unpack_from(block, offset)
        after = offset + HEADER.size + length
        if after + HEADER.size > len(block):
            return None
        checksum, length, kind = HEADER.unpack_from(block, after)
        end = after + HEADER.size + length
        good = WHOLE <= kind <= LAST and end <= len(block) and masked_crc32c(block[after + 6 : end]) == checksum
        return after if good else None

    def _good(self, end: int) -> None:
        if not self.faults:
            self.good_end = end

    def _fault(self, offset: int, size: int, text: str) -> None:
        self.bytes_lost += size
        if len(self.faults) < 100:
            self.faults.append(f"{self.name}: at offset {offset} {text}")

    def _operations(self, record: bytes) -> Iterator[Cell]:
        if len(record) < BATCH_HEADER_BYTES:
            self._fault(0, len(record), "a batch without its header")
            return
        sequence = int.from_bytes(record[:8], "little")
        at = BATCH_HEADER_BYTES
        try:
            while at < len(record):
                tag = record[at]
                at += 1
                if tag in (4, 5):
                    _, at = varint(record, at)
                if tag in (0, 1, 4, 5):
                    key, at = _string(record, at)
                    value = None
                    if tag in (1, 5):
                        value, at = _string(record, at)
                    yield Cell(key, value, sequence, True)
                    sequence += 1
                elif tag == 3:  # a note of the engine's
                    _, at = _string(record, at)
                elif tag != 13:  # nothing
                    raise ValueError(f"an operation {tag}")
        except (IndexError, ValueError) as error:
            self._fault(0, len(record) - at, f"a batch that can't be read: {error}")


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = varint(data, at)
    if at + length > len(data):
        raise ValueError("a length beyond the end")
    return data[at : at + length], at + length
