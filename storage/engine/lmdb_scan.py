"""Reading the leaves of an LMDB file page by page, without its trees: for a file whose upper pages are damaged.

Pages that were freed are read too; what they hold is older, and storage/mending/salvage.py keeps the better entry. A
page of leaves says so in its header; each of its nodes is held against the page and the file alone, so that one
damaged node costs no other. Layout: docs/formats/lmdb.md.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from storage import regular_file
from storage.engine.lmdb_pages import BIG, HEADER, HEADER_BYTES, LEAF, NODE, NODE_BYTES, NUMBER, OVERFLOW
from storage.engine.lmdb_tree import SUM_BYTES, VALUE_BYTES_MAX, checksum
from storage.engine.sst_file import Cell

PAGE_SIZES = (4096, 512, 1024, 2048, 8192, 16384, 32768, 65536)
PROBED_PAGES = 64


class LmdbFile:
    """One data file. `faults` tells what could not be read, `bytes_lost` how much of the file that was.

    Raises OSError, and IntegrityError where the path is no regular file; damage is never raised.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.faults: list[str] = []
        self.bytes_lost = 0
        self._descriptor = regular_file.open_to_read(path)
        self.size = os.fstat(self._descriptor).st_size
        self._page_bytes = self._find_page_bytes()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _find_page_bytes(self) -> int:
        """The page size by which most of the first pages state their own number."""

        def fitting(size: int) -> int:
            heads = (os.pread(self._descriptor, HEADER_BYTES, number * size) for number in range(PROBED_PAGES))
            return sum(
                len(head) == HEADER_BYTES and HEADER.unpack(head)[0] == number for number, head in enumerate(heads)
            )

        return max(PAGE_SIZES, key=fitting)

    def cells(self) -> Iterator[Cell]:
        """Every entry of every page of leaves."""
        for number in range(-(-self.size // self._page_bytes)):
            page = os.pread(self._descriptor, self._page_bytes, number * self._page_bytes)
            if len(page) < HEADER_BYTES:
                continue
            own, _, flags, lower, _ = HEADER.unpack_from(page)
            if own != number or flags != LEAF or not HEADER_BYTES <= lower <= len(page):
                continue
            count = (lower - HEADER_BYTES) // 2
            for offset in struct.unpack_from(f"{NODE.format[0]}{count}H", page, HEADER_BYTES):
                cell = self._cell(page, offset)
                if cell is not None:
                    yield cell

    def _cell(self, page: bytes, offset: int) -> Cell | None:
        if offset + NODE_BYTES > len(page):
            return None
        low, high, flags, key_size = NODE.unpack_from(page, offset)
        size, start = low | high << 16, offset + NODE_BYTES + key_size
        key = page[offset + NODE_BYTES : start]
        if len(key) != key_size or flags & ~BIG or size > VALUE_BYTES_MAX:
            return None
        value = self._big(page[start : start + NUMBER.size], size) if flags else page[start : start + size]
        if value is None or len(value) != size:
            self._fault(size, f"the value of {key.hex()} is cut off")
            return None
        if value[-SUM_BYTES:] == checksum(key, value[:-SUM_BYTES]):
            return Cell(key, value[:-SUM_BYTES], 0, True)
        return Cell(key, value, 0, False) if len(key) == NUMBER.size else None

    def _big(self, place: bytes, size: int) -> bytes | None:
        """A value on pages of its own; None where there are none."""
        if len(place) != NUMBER.size:
            return None
        number = NUMBER.unpack(place)[0]
        if number >= self.size // self._page_bytes:
            return None
        data = os.pread(self._descriptor, HEADER_BYTES + size, number * self._page_bytes)
        if len(data) != HEADER_BYTES + size:
            return None
        own, _, flags, _, _ = HEADER.unpack_from(data)
        return data[HEADER_BYTES:] if own == number and flags == OVERFLOW else None

    def _fault(self, size: int, text: str) -> None:
        self.bytes_lost += size
        if len(self.faults) < 100:
            self.faults.append(f"{self.name}: {text}")
