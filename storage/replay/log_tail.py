"""New events from the end of RocksDB's write-ahead log, as another process writes it: no database is opened.

A log is a chain of 32 KiB blocks of fragments: u32 masked CRC-32C of what follows the length · u16 length · u8 type
(1 whole, 2 first, 3 middle, 4 last) · bytes; fewer than seven bytes at the end of a block are padding. A record is a
batch: u64 sequence · u32 count · that many puts and deletions. All little-endian. Of a commit one batch holds events
and head, so each is checked by itself: ids, leaves, and the root over the tree so far. Whatever can't be read so is no
verdict on the ledger: `TailLostError` says that it must be opened and read as a reader does.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from storage import hashing, layout, state, tree
from storage.engine.sst_file import varint
from storage.errors import IntegrityError, StorageError
from storage.event import Event
from storage.tree import Head

BLOCK_BYTES = 32768
READ_BYTES = 8 * BLOCK_BYTES
RECORD_BYTES_MAX = 32 << 20  # larger batches are read from the ledger, a piece at a time
WAITS_MAX = 40  # polls in a row in which the same bytes can't be read
_FRAGMENT = struct.Struct("<IHB")
_BATCH = struct.Struct("<QI")
_LOG = re.compile(r"(\d+)\.log")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_CRC_DELTA = 0xA282EAD8

# tag of an entry in a batch → (names a family, byte strings)
_SHAPES = {
    0x00: (False, 1), 0x01: (False, 2), 0x03: (False, 1), 0x04: (True, 1), 0x05: (True, 2), 0x07: (False, 1),
    0x08: (True, 1), 0x0D: (False, 0), 0x0E: (True, 2), 0x0F: (False, 2),
}  # fmt: skip
_PUTS = (0x01, 0x05)


class TailLostError(Exception):
    """The log does not go on from where it was left: open the ledger again."""


class LogTail:
    """Where a log was left. Make it before a reader opens the ledger, then `start` it with that reader's head."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inode = folder.stat().st_ino
        self._descriptor = -1
        self._number = -1
        self._offset = 0
        self._fragments: list[bytes] = []
        self._size = 0
        self._frontier = b""
        self._waits = 0
        self._known_end = 0  # a record that ends at or before it was whole when the reader opened the ledger
        numbers = self._numbers()
        if numbers:
            self._open(numbers[-1])
            self._known_end = os.fstat(self._descriptor).st_size
            self._offset = self._known_end - self._known_end % BLOCK_BYTES  # where fragments can be read from

    def start(self, size: int, frontier: bytes) -> None:
        """Give out the events from rank `size` on; frontier: of the tree of that size."""
        self._size, self._frontier = size, frontier

    def poll(self) -> Iterator[tuple[Head, list[Event]]]:
        """Each new commit: its head and its events. Raises TailLostError."""
        while True:
            if self._descriptor >= 0:
                for record in self._records():
                    yield from self._commit(record)
            numbers = self._numbers()
            later = [number for number in numbers if number > self._number]
            if self._number not in numbers and self._number >= 0:
                # Logs are deleted in their order, so while this one is there none behind it is missing.
                raise TailLostError("the log is gone, perhaps with others behind it")
            if later:
                if self._descriptor >= 0:  # the writer has left this log: what it wrote last is there by now
                    for record in self._records():
                        yield from self._commit(record)
                self._open(later[0])
                continue
            return

    def _numbers(self) -> list[int]:
        try:
            if self._folder.stat().st_ino != self._inode:
                raise TailLostError("the folder is another")
            names = [file.name for file in self._folder.iterdir()]
        except OSError as error:
            raise TailLostError(str(error)) from error
        return sorted(int(found[1]) for found in map(_LOG.fullmatch, names) if found)

    def _open(self, number: int) -> None:
        self.close()
        self._number, self._offset, self._known_end, self._fragments, self._waits = number, 0, 0, [], 0
        for width in (6, 0):
            try:
                path = self._folder / f"{number:0{width}d}.log"
                self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                return
            except OSError as error:
                failed = error
        raise TailLostError(str(failed)) from failed

    def _records(self) -> Iterator[bytes]:
        """The whole records that the log holds beyond the offset."""
        while piece := os.pread(self._descriptor, READ_BYTES - self._offset % BLOCK_BYTES, self._offset):
            at = 0
            while at < len(piece):
                left = BLOCK_BYTES - (self._offset + at) % BLOCK_BYTES
                if left < _FRAGMENT.size:
                    at += left
                    continue
                if at + _FRAGMENT.size > len(piece):
                    break
                crc, length, kind = _FRAGMENT.unpack_from(piece, at)
                end = at + _FRAGMENT.size + length
                if end > len(piece) or not self._reads(crc, kind, length, left, piece[at + 6 : end]):
                    break
                if kind == _LAST and not self._fragments and self._offset + end > self._known_end:
                    raise TailLostError("a record that was not whole when reading began is whole now")
                record = self._joined(kind, piece[at + _FRAGMENT.size : end])
                at = end
                if record is not None:
                    self._offset, self._waits, before = self._offset + at, 0, at
                    yield record
                    piece, at = piece[before:], 0
            self._offset += min(at, len(piece))
            if at == 0:
                self._wait()
                return
            self._waits = 0

    def _reads(self, crc: int, kind: int, length: int, left: int, rest: bytes) -> bool:
        """Whether a fragment is whole. One that isn't may still be on its way."""
        if not _WHOLE <= kind <= _LAST or _FRAGMENT.size + length > left:
            return False
        found = hashing.crc32c(rest)
        return crc == ((found >> 15 | found << 17) + _CRC_DELTA) & 0xFFFFFFFF

    def _wait(self) -> None:
        self._waits += 1
        if self._waits > WAITS_MAX:
            raise TailLostError(f"{self._number:06d}.log: offset {self._offset}: the bytes there make no record")

    def _joined(self, kind: int, fragment: bytes) -> bytes | None:
        if kind in (_WHOLE, _FIRST):
            self._fragments = [fragment]
        elif self._fragments:  # else the record began before the place where reading began
            self._fragments.append(fragment)
        if sum(map(len, self._fragments)) > RECORD_BYTES_MAX:
            raise TailLostError("a batch is too large to be held")
        if kind not in (_WHOLE, _LAST) or not self._fragments:
            return None
        record = b"".join(self._fragments)
        self._fragments = []
        return record

    def _commit(self, record: bytes) -> Iterator[tuple[Head, list[Event]]]:
        try:
            puts = list(_puts(record))
            packed = [value for key, value in puts if key == layout.HEAD_KEY]
            if not packed:
                return
            head = layout.unpack_head(packed[-1])
        except (IndexError, struct.error, IntegrityError) as error:
            raise TailLostError(f"a record is no batch: {error}") from error
        if head.size <= self._size:
            return
        found = dict(puts)
        keys = [layout.log_key(rank) for rank in range(self._size, min(head.size, self._size + len(puts)))]
        values = [found[key] for key in keys if key in found]
        if len(values) != head.size - self._size or any(len(value) <= 32 for value in values):
            raise TailLostError("a commit does not go on from the last one")
        ids = hashing.event_ids([value[32:] for value in values])
        if any(value[:32] != event_id for value, event_id in zip(values, ids, strict=True)):
            raise TailLostError("an event has another id than the one stored")
        leaves = state.leaf_hashes(ids, [len(value) - 32 for value in values])
        frontier = tree.frontier_extend(self._size, self._frontier, leaves)
        if tree.frontier_root(frontier) != head.root:
            raise TailLostError("the events of a commit have another root than its head")
        try:
            events = [Event.decode(value[32:]) for value in values]
        except StorageError as error:
            raise TailLostError(str(error)) from error
        self._size, self._frontier = head.size, frontier
        yield head, events

    def close(self) -> None:
        """Close the log; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _puts(record: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a batch, whatever their family: the ledger's keys differ by their shape."""
    _, count = _BATCH.unpack_from(record)
    at = _BATCH.size
    for _ in range(count):
        tag = record[at]
        at += 1
        if tag not in _SHAPES:
            raise IndexError(f"tag {tag}")
        family, strings = _SHAPES[tag]
        if family:
            _, at = varint(record, at)
        pair = []
        for _ in range(strings):
            length, at = varint(record, at)
            if at + length > len(record):
                raise IndexError("a string passes the end")
            pair.append(record[at : at + length])
            at += length
        if tag in _PUTS:
            yield pair[0], pair[1]
