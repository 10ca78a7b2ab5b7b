"""Reading RocksDB's tables without RocksDB: what can be read of a damaged one, block by block.

Layout (table format 2 to 6, no compression): data blocks, each followed by u8 compression and u32 checksum; then
filter, properties, index and metaindex blocks of the same kind; a footer of 53 bytes at the end. A block is entries
(varint shared, varint unshared, varint value length, key bytes, value), u32 restart offsets, u32 their number; the key
of the table's entries ends with u64 sequence << 8 | type. Checksums are checked where they are XXH3, the engine's own
choice, or CRC-32C; others are left to what the ledger itself knows of its events.

Every length is held against the bytes that there are; nothing is believed because it is written.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from storage import hashing, regular_file

FOOTER_BYTES = 53
TRAILER_BYTES = 5
MAGIC = 0x88E241B785F4CFF7
EXTENDED_MAGIC = b">\0z\0"
CRC32C, XXH3 = 1, 4
XXH3_KIND_FACTOR = 0x6B9083D9  # XXH3 is of the block alone; its compression is mixed in
BLOCK_BYTES_MAX = 1 << 28  # of one block: an event is at most 16 MiB, an index holds a line a block
VALUE, DELETION = 1, 0


class Cell(NamedTuple):
    """One entry of a table or of a write-ahead log. `value` is None for a deletion; `checked`: its checksum fits."""

    key: bytes
    value: bytes | None
    sequence: int
    checked: bool


class SstFile:
    """One table. `faults` tells what could not be read, `bytes_lost` how much of the file that was.

    Raises OSError, and IntegrityError where the path is no regular file; damage is never raised.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.faults: list[str] = []
        self.bytes_lost = 0
        self._descriptor = regular_file.open_to_read(path)
        self.size = os.fstat(self._descriptor).st_size
        self._checksum = 0  # of the footer; 0: not known
        self._base = 0  # what the offset of a block adds to its checksum, format 6

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def cells(self) -> Iterator[Cell]:
        """Every entry that can be read, block by block; deletions too."""
        handles = self._handles()
        if handles is None:
            yield from self._walk()
            return
        end = 0
        for offset, size in handles:
            block = self._block(offset, size)
            end = max(end, offset + size + TRAILER_BYTES)
            if block is None:
                self._fault(offset, size, "is cut off")
                continue
            data, checked = block
            if not checked and self._checksum in (CRC32C, XXH3):
                self._fault(offset, 0, "has another checksum")
            yield from self._cells_of(data, offset, checked)

    def _fault(self, offset: int, size: int, text: str) -> None:
        self.bytes_lost += size
        if len(self.faults) < 100:
            self.faults.append(f"{self.name}: the block at offset {offset} {text}")

    def _pread(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or size > BLOCK_BYTES_MAX or offset + size > self.size:
            return b""
        return os.pread(self._descriptor, size, offset)

    def _block(self, offset: int, size: int) -> tuple[bytes, bool] | None:
        """The bytes of a block, and whether its checksum fits; None where the file ends before, or it is compressed."""
        whole = self._pread(offset, size + TRAILER_BYTES)
        if len(whole) != size + TRAILER_BYTES or size < 4:
            return None
        data, kind = whole[:size], whole[size]
        if kind != 0:
            return None if self._checksum_of(whole[: size + 1], offset) == whole[size + 1 :] else (data, False)
        return data, self._checksum_of(whole[: size + 1], offset) == whole[size + 1 :]

    def _checksum_of(self, data: bytes, offset: int) -> bytes | None:
        if self._checksum == CRC32C:
            value = masked_crc32c(data)
        elif self._checksum == XXH3:
            value = (hashing.xxh3(data[:-1]) ^ data[-1] * XXH3_KIND_FACTOR) & 0xFFFFFFFF
        else:
            return None
        if self._base:
            value += self._base ^ ((offset & 0xFFFFFFFF) + (offset >> 32))
        return (value & 0xFFFFFFFF).to_bytes(4, "little")

    # where the blocks are

    def _handles(self) -> list[tuple[int, int]] | None:
        """Offset and size of each data block, from footer and index; None where one of them can't be read."""
        try:
            index = self._index_handle()
            block = self._block(*index)
            if block is None:
                raise _WrongError("the index can't be read")
            handles = _index_entries(block[0], delta=True)
            if handles is None or any(offset + size + TRAILER_BYTES > index[0] for offset, size in handles):
                handles = _index_entries(block[0], delta=False)
            if handles is None or any(offset + size + TRAILER_BYTES > self.size for offset, size in handles):
                raise _WrongError("the index names no blocks")
        except _WrongError as error:
            self.faults.append(f"{self.name}: {error}: read from the start")
            return None
        return handles

    def _index_handle(self) -> tuple[int, int]:
        footer = self._pread(self.size - FOOTER_BYTES, FOOTER_BYTES)
        if len(footer) != FOOTER_BYTES or int.from_bytes(footer[45:], "little") != MAGIC:
            raise _WrongError("the footer is missing")
        version = int.from_bytes(footer[41:45], "little")
        self._checksum = footer[0]
        if version < 6:
            _, at = _handle(footer, 1)
            return _handle(footer, at)[0]
        if footer[1:5] != EXTENDED_MAGIC:
            raise _WrongError("the footer is damaged")
        self._base = int.from_bytes(footer[9:13], "little")
        size = int.from_bytes(footer[13:17], "little")
        offset = self.size - FOOTER_BYTES - TRAILER_BYTES - size
        block = self._block(offset, size)
        if block is None:
            raise _WrongError("the metaindex can't be read")
        for key, value in _entries(block[0]):
            if key == b"rocksdb.index":
                return _handle(value, 0)[0]
        raise _WrongError("the metaindex names no index")

    def _walk(self) -> Iterator[Cell]:
        """Data blocks one after another from the start: a block says itself where it ends."""
        offset = 0
        while offset < self.size:
            window = self._pread(offset, min(BLOCK_BYTES_MAX, self.size - offset))
            size = _end_of_block(window)
            if size is None:
                # The last one, cut off, or no data block any more: what stands at its start may still be whole.
                yield from self._cells_of(window, offset, checked=False, restarts=False)
                self._fault(offset, self.size - offset, "has no end")
                return
            yield from self._cells_of(window[:size], offset, checked=False)
            offset += size + TRAILER_BYTES

    # what is in a block

    def _cells_of(self, data: bytes, offset: int, checked: bool, *, restarts: bool = True) -> Iterator[Cell]:
        stops = _restarts(data) if restarts else [0, len(data)]
        if stops is None:
            stops = [0, len(data)]
        for start, stop in itertools.pairwise(stops):
            end = start
            for after, key, value in _entries_between(data, start, stop):
                end = after
                cell = cell_of(key, value, checked)
                if cell is not None:
                    yield cell
            if end != stop and restarts:
                self._fault(offset, stop - end, "has entries that can't be read")


class _WrongError(Exception):
    """Something that is not as a table has it."""


def cell_of(key: bytes, value: bytes, checked: bool) -> Cell | None:
    """An entry from its internal key; None where that can't be one."""
    if len(key) < 8:
        return None
    number = int.from_bytes(key[-8:], "little")
    kind = number & 0xFF
    if kind not in (VALUE, DELETION):
        return None
    return Cell(key[:-8], value if kind == VALUE else None, number >> 8, checked)


def masked_crc32c(data: bytes) -> int:
    """CRC-32C as RocksDB stores it: rotated, and a constant added."""
    value = hashing.crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number and where it ends. Raises IndexError past the end, ValueError above 64 bits."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    try:
        offset, at = varint(data, at)
        size, at = varint(data, at)
    except (IndexError, ValueError):
        raise _WrongError("a block's place can't be read") from None
    return (offset, size), at


def _restarts(data: bytes) -> list[int] | None:
    """Where the parts of a block begin that stand for themselves, and where the last one ends; None for damage."""
    count = int.from_bytes(data[-4:], "little")
    end = len(data) - 4 - 4 * count
    if not 0 < count <= len(data) // 4 or end < 0:
        return None
    found = [*struct.unpack_from(f"<{count}I", data, end), end]
    if found[0] != 0 or any(a >= b for a, b in itertools.pairwise(found) if b != 0):
        return None
    return found


def _entries_between(data: bytes, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Where each entry ends, its key and its value, as far as they can be read."""
    at, key = start, b""
    while at < stop:
        try:
            shared, at = varint(data, at)
            unshared, at = varint(data, at)
            length, at = varint(data, at)
        except (IndexError, ValueError):
            return
        if shared > len(key) or at + unshared + length > stop or shared + unshared == 0:
            return
        key = key[:shared] + data[at : at + unshared]
        at += unshared + length
        yield at, key, data[at - length : at]


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    stops = _restarts(data)
    if stops is not None:
        for _, key, value in _entries_between(data, 0, stops[-1]):
            yield key, value


def _index_entries(data: bytes, *, delta: bool) -> list[tuple[int, int]] | None:
    """The handles in an index block. delta: values without a length, and after the first of a part only the size."""
    stops = _restarts(data)
    if stops is None:
        return None
    if not delta:
        try:
            return [_handle(value, 0)[0] for _, value in _entries(data)]
        except _WrongError:
            return None
    found: list[tuple[int, int]] = []
    at, starts = 0, set(stops)
    try:
        while at < stops[-1]:
            first = at in starts
            shared, at = varint(data, at)
            unshared, at = varint(data, at)
            at += unshared
            if first:
                (offset, size), at = _handle(data, at)
            else:
                difference, at = varint(data, at)
                offset, size = found[-1]
                offset, size = offset + size + TRAILER_BYTES, size + (difference >> 1 ^ -(difference & 1))
            if size < 0 or (found and offset < sum(found[-1])) or shared > 1 << 16:
                return None
            found.append((offset, size))
    except (IndexError, ValueError, _WrongError):
        return None
    return found if at == stops[-1] else None


def _end_of_block(data: bytes) -> int | None:
    """How long the block at the start of some bytes is: its restarts begin with 0 and end with their number."""
    end = 0
    for at, key, _ in _entries_between(data, 0, len(data)):
        if len(key) < 8:
            break
        end = at
    if end == 0 or data[end : end + 4] != bytes(4):
        return None
    before = -1
    for count in range(0, (len(data) - end) // 4):
        number = int.from_bytes(data[end + 4 * count : end + 4 * count + 4], "little")
        if count >= 1 and number == count and (count < 2 or number <= before or count == 1):
            return end + 4 * count + 4
        if number <= before or number >= end:
            return None
        before = number
    return None
