"""Byte strings in sorted order with bounded memory: sorted runs go to an unnamed temporary file."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from storage.system_errors import mapped_os_error

HELD_BYTES_MAX = 4 << 20
RECORD_OVERHEAD_BYTES = 48  # of a bytes object and its place in a list
RUNS_MAX = 128  # above it the runs become one
READ_BYTES = 16 << 10
RECORD_BYTES_MAX = 0xFFFF


class SortedRecords:
    """Add records in any order, iterate over them sorted. Raises StorageFullError where $TMPDIR has no room.

    >>> records = SortedRecords()
    >>> for word in (b"rank", b"id", b"head"):
    ...     records.add(word)
    >>> list(records)
    [b'head', b'id', b'rank']
    """

    def __init__(self, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._held_bytes_max = held_bytes_max
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._file: _Runs | None = None

    def add(self, record: bytes) -> None:
        """Take one record of at most 65,535 bytes."""
        if len(record) > RECORD_BYTES_MAX:
            raise ValueError(f"SortedRecords.add: a record has at most {RECORD_BYTES_MAX} bytes, got {len(record)}")
        self._held.append(record)
        self._held_bytes += len(record) + RECORD_OVERHEAD_BYTES
        if self._held_bytes >= self._held_bytes_max:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = _Runs()
        self._held.sort()
        self._file.append(self._held)
        self._held, self._held_bytes = [], 0
        if len(self._file.bounds) > RUNS_MAX:
            merged = _Runs()
            merged.append(heapq.merge(*self._file.runs()))
            self._file.close()
            self._file = merged

    def __iter__(self) -> Iterator[bytes]:
        self._held.sort()
        if self._file is None:
            return iter(self._held)
        return heapq.merge(*self._file.runs(), self._held)

    def close(self) -> None:
        """Give the memory and the file back; a second call does nothing."""
        self._held = []
        if self._file is not None:
            self._file.close()
            self._file = None


class _Runs:
    """Sorted runs one after another in a file without a name: u16 big-endian length, record."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("TMPDIR") or "/tmp")
        self._path = folder / f"droveway-{os.getpid()}-{os.urandom(8).hex()}.runs"
        self.bounds: list[tuple[int, int]] = []
        self._end = 0
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._path.unlink()
        except OSError as error:
            raise mapped_os_error(error, self._path) from error

    def append(self, records: Iterable[bytes]) -> None:
        start, piece = self._end, bytearray()
        for record in records:
            piece += len(record).to_bytes(2, "big") + record
            if len(piece) >= READ_BYTES:
                self._write(piece)
                piece.clear()
        self._write(piece)
        self.bounds.append((start, self._end))

    def _write(self, piece: bytearray) -> None:
        at = 0
        try:
            while at < len(piece):
                written = os.pwrite(self._descriptor, bytes(piece[at:]), self._end)
                at += written
                self._end += written
        except OSError as error:
            raise mapped_os_error(error, self._path) from error

    def runs(self) -> list[Iterator[bytes]]:
        return [self._read(start, stop) for start, stop in self.bounds]

    def _read(self, start: int, stop: int) -> Iterator[bytes]:
        piece = b""
        while start < stop or piece:
            fresh = os.pread(self._descriptor, min(READ_BYTES, stop - start), start)
            start += len(fresh)
            piece += fresh
            at = 0
            while at + 2 <= len(piece):
                end = at + 2 + int.from_bytes(piece[at : at + 2], "big")
                if end > len(piece):
                    break
                yield piece[at + 2 : end]
                at = end
            assert at or fresh, "a run ends inside a record"
            piece = piece[at:]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()
