"""Saving and reading the files of indexes, .jvi and .jvim, as docs/formats/jvi.md says.

Both ways the bytes stream through: saving holds no second copy of an index, reading none of the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from vector import index_header, planes
from vector.errors import CidMismatch, IndexFileError, UnsupportedIndex
from vector.file_replacement import replacing, write_all
from vector.index_header import (
    BLOCK,
    CODES_HIGH,
    CODES_LOW,
    GROUP,
    HASH_BLOCK,
    HASH_BYTES,
    HEADER_BYTES,
    IDS,
    NORMS2,
    ROOT,
    ROWS,
    ROWS_MAX,
    SCALES,
    SCALES_HIGH,
    SECTIONS,
    IndexHeader,
    Layout,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    Sections = Mapping[int, Iterable[ReadableBuffer]]

GROUP_BYTES = 16  # of one row in one plane
PIECE_BYTES = 1 << 18  # of a plane that are turned into nibbles at a time, about
NORM2_MAX = 2.0**122
SCALE_MIN, SCALE_MAX = 2.0**-64, 2.0**64
TAIL_MARK = b"JVIT\0\0\0\0"


@dataclass(frozen=True)
class IndexContent:
    """What a file holds, all of it checked. The arrays are the caller's to keep.

    codes: uint8[blocks, D/64, 32, 32], nibbles as in vector/planes.py, block by block, group by group, row by row; rows
    past `header.rows` are zero. scales, scales_high: float32[n]. norms2: float32[n] of a l2 index. ids: uint64[n] of a
    .jvim. cid: the root in hex.
    """

    header: IndexHeader
    cid: str
    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    scales_high: NDArray[np.float32]
    norms2: NDArray[np.float32] | None
    ids: NDArray[np.uint64] | None


def write_index(path: str | os.PathLike[str], header: IndexHeader, sections: Sections) -> str:
    """Saves an index; returns its cid (64 hex digits).

    sections: number of a section → its bytes in pieces of any size; exactly the sections that the page asks for. The
    file is replaced at once, see vector/file_replacement.py. Raises IndexSaveError where the system refuses, ValueError
    where the pieces don't have the length that the header says (the old file stays).
    """
    with replacing(path) as descriptor:
        os.lseek(descriptor, HEADER_BYTES, os.SEEK_SET)
        root, table = _stream_body(header, sections, lambda piece: write_all(descriptor, piece))
        write_all(descriptor, memoryview(table))
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, memoryview(header.encode(root)))
    return root.hex()


def index_cid(header: IndexHeader, sections: Sections) -> str:
    """The cid that `write_index` would return, without a file.

    >>> index_cid(IndexHeader(index_header.JVI, dim=100, rows=0), {})[:16]
    'e40bf47939c967db'
    """
    return _stream_body(header, sections, lambda _: None)[0].hex()


def plane_pieces(codes: NDArray[np.uint8], plane: int) -> Iterable[NDArray[np.uint8]]:
    """The bytes of section `plane` (CODES_HIGH or CODES_LOW) of uint8[blocks, D/64, 32, 32] nibbles, in pieces."""
    for start, stop in _pieces(codes.shape[0], codes.shape[1]):
        yield planes.split(codes[start:stop])[plane]


def read_index(path: str | os.PathLike[str], magic: bytes) -> IndexContent:
    """Reads and checks a whole file; `magic` says which kind it must be (JVI or JVIM of vector/index_header.py).

    Raises OSError where it can't be read, IndexFileError for anything that the page says a reader rejects (CidMismatch
    where a hash differs, UnsupportedIndex for what this version doesn't read), BudgetExceeded.
    """
    with _File(path) as file:
        header, root, table = _open(file, magic)
        if header.rows > ROWS_MAX:
            raise UnsupportedIndex(file.path, ROWS, "number of rows", f"at most {ROWS_MAX}", str(header.rows))
        body = _Body(file, header.layout(), table)
        content = IndexContent(
            header=header,
            cid=root.hex(),
            codes=_read_codes(body, header),
            scales=_read_floats(body, SCALES, SCALE_MIN, SCALE_MAX),
            scales_high=_read_floats(body, SCALES_HIGH, SCALE_MIN, SCALE_MAX),
            norms2=_read_floats(body, NORMS2, 0.0, NORM2_MAX) if header.metric == "l2" else None,
            ids=_read_ids(body) if magic == index_header.JVIM else None,
        )
        _check_scale_pairs(file, header.layout(), content)
        return content


# Saving.


def _stream_body(
    header: IndexHeader, sections: Sections, sink: Callable[[memoryview], None]
) -> tuple[bytes, bytes | bytearray]:
    """Passes the body on piece by piece; returns the root and the hash table."""
    layout = header.layout()
    hashes = _BlockHashes()
    place = HEADER_BYTES
    for section, (offset, length) in enumerate(layout.sections):
        given = 0
        for piece in sections.get(section, ()):
            view = memoryview(piece).cast("B")
            given += len(view)
            if given > length:
                break
            hashes.update(view)
            sink(view)
        if given != length:
            raise ValueError(f"write_index: section {SECTIONS[section]} must have {length} bytes, got {given} or more")
        if length:
            place = offset + length
            gap = memoryview(bytes(-place % index_header.ALIGNMENT))
            hashes.update(gap)
            sink(gap)
    table = hashes.table()
    return _root(header.encode(bytes(HASH_BYTES)), table), table


class _BlockHashes:
    """BLAKE3 of each MiB of what passes."""

    def __init__(self) -> None:
        from blake3 import blake3

        self._new = blake3
        self._hasher = blake3()
        self._room = HASH_BLOCK
        self._table = bytearray()

    def update(self, data: memoryview) -> None:
        while data:
            self._hasher.update(data[: self._room])
            taken = min(len(data), self._room)
            data = data[taken:]
            self._room -= taken
            if self._room == 0:
                self._close()

    def table(self) -> bytearray:
        if self._room != HASH_BLOCK:
            self._close()
        return self._table

    def _close(self) -> None:
        self._table += self._hasher.digest()
        self._hasher = self._new()
        self._room = HASH_BLOCK


def _root(header: bytes, table: bytes | bytearray) -> bytes:
    from blake3 import blake3

    return blake3(header[:ROOT] + bytes(HASH_BYTES) + table).digest()


# Reading.


class _File:
    """A regular file, open for reading; its size is that of the moment it was opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(self.descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self.descriptor)
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
            raise IndexFileError(self.path, 0, "file", "a regular file", kind)
        self.size = found.st_size

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def into(self, view: memoryview, offset: int) -> None:
        """Fills the view with the bytes at `offset`."""
        while view:
            count = os.preadv(self.descriptor, [view], offset)
            if count == 0:
                self.refuse(offset, "file length", str(self.size), f"{offset} (it changed meanwhile)")
            view, offset = view[count:], offset + count

    def bytes_at(self, offset: int, count: int) -> bytearray:
        data = bytearray(max(0, min(count, self.size - offset)))
        self.into(memoryview(data), offset)
        return data

    def refuse(self, offset: int, field: str, expected: str, found: str) -> NoReturn:
        raise IndexFileError(self.path, offset, field, expected, found)


def _open(file: _File, magic: bytes) -> tuple[IndexHeader, bytes, bytearray]:
    """Header, root and hash table of a file, all checked against each other and the file's size."""
    data = bytes(file.bytes_at(0, HEADER_BYTES))
    header = index_header.decode(data, file.path, magic)
    layout, root = header.layout(), data[ROOT:]
    _check_size(file, layout, root)
    found = _table_root(file, layout, data)
    if found != root:
        raise CidMismatch(file.path, ROOT, "root", root.hex(), found.hex())
    table = file.bytes_at(layout.table_offset, layout.table_bytes)
    if _root(data, table) != root:
        file.refuse(layout.table_offset, "hash table", "as it was", "other bytes (it changed meanwhile)")
    return header, root, table


def _check_size(file: _File, layout: Layout, root: bytes) -> None:
    """The file ends where its header says, or goes on with a save that was cut off."""
    wanted = layout.file_bytes
    mark = TAIL_MARK + root
    if file.size < wanted or (file.size > wanted and bytes(file.bytes_at(wanted, len(mark))) != mark):
        state = "cut off" if file.size < wanted else "extended"
        file.refuse(80, "file length", f"{file.size}, the size of the file (which was {state})", str(wanted))


def _table_root(file: _File, layout: Layout, header: bytes) -> bytes:
    """The root of header and hash table as they lie in the file; the table may be large, and isn't kept."""
    from blake3 import blake3

    hasher = blake3(header[:ROOT] + bytes(HASH_BYTES))
    end = layout.table_offset + layout.table_bytes
    for offset in range(layout.table_offset, end, HASH_BLOCK):
        hasher.update(file.bytes_at(offset, min(HASH_BLOCK, end - offset)))
    return hasher.digest()


class _Body:
    """The body of a file, in blocks that are given out only when their hash is right."""

    def __init__(self, file: _File, layout: Layout, table: bytearray) -> None:
        self.file = file
        self.layout = layout
        self.table = table

    def section(self, number: int) -> _Section:
        return _Section(self, number)

    def load_block(self, number: int, buffer: bytearray) -> memoryview:
        """The bytes of block `number`, read into the buffer."""
        from blake3 import blake3

        offset = HEADER_BYTES + number * HASH_BLOCK
        view = memoryview(buffer)[: min(HASH_BLOCK, self.layout.table_offset - offset)]
        self.file.into(view, offset)
        wanted = self.table[number * HASH_BYTES : (number + 1) * HASH_BYTES]
        found = blake3(view).digest()
        if found != wanted:
            raise CidMismatch(self.file.path, offset, f"hash of block {number}", wanted.hex(), found.hex())
        return view


class _Section:
    """One section, read from its beginning to its end."""

    def __init__(self, body: _Body, number: int) -> None:
        self._body = body
        self.number = number
        self.offset, self.length = body.layout.sections[number]
        self._place = self.offset
        self._buffer = bytearray(min(HASH_BLOCK, body.layout.body_bytes))
        self._block: memoryview = memoryview(b"")
        self._block_number = -1

    def into(self, array: NDArray[Any]) -> None:
        """Fills a C-contiguous array with the next bytes; at the section's end the gap behind it must be zero."""
        view = array.reshape(-1).view(np.uint8).data
        while view:
            piece = self._next(len(view))
            view[: len(piece)] = piece
            view = view[len(piece) :]
        if self._place == self.offset + self.length:
            place = self._place
            gap = bytes(self._next(-place % index_header.ALIGNMENT))
            if any(gap):
                name = f"gap behind section {self.number} ({SECTIONS[self.number]})"
                self._body.file.refuse(place, name, "zero", gap.hex())

    def _next(self, count: int) -> memoryview:
        """At most `count` of the next bytes: those of the block they begin in."""
        number, start = divmod(self._place - HEADER_BYTES, HASH_BLOCK)
        if number != self._block_number:
            self._block = self._body.load_block(number, self._buffer)
            self._block_number = number
        piece = self._block[start : start + count]
        self._place += len(piece)
        return piece


def _read_codes(body: _Body, header: IndexHeader) -> NDArray[np.uint8]:
    groups = header.padded_dim // GROUP
    codes = memory.allocate((header.blocks, groups, BLOCK, 2 * GROUP_BYTES), np.uint8, "index codes")
    high, low = body.section(CODES_HIGH), body.section(CODES_LOW)
    for start, stop in _pieces(header.blocks, groups):
        pair = np.empty((2, stop - start, groups, BLOCK, GROUP_BYTES), np.uint8)
        high.into(pair[0])
        low.into(pair[1])
        if stop == header.blocks and header.rows % BLOCK:
            for section, plane in ((high, pair[0]), (low, pair[1])):
                _check_rows_past_end(body.file, section, plane[-1], header)
        planes.join(pair[0], pair[1], codes[start:stop])
    return codes


def _check_rows_past_end(file: _File, section: _Section, block: NDArray[np.uint8], header: IndexHeader) -> None:
    past = block.copy()  # [groups, 32, 16], the last one
    past[:, : header.rows % BLOCK] = 0
    if past.any():
        at = int(np.flatnonzero(past)[0])
        offset = section.offset + section.length - past.size + at
        file.refuse(offset, f"{SECTIONS[section.number]} of a row past the last", "0", f"{past.reshape(-1)[at]}")


def _read_floats(body: _Body, number: int, low: float, high: float) -> NDArray[np.float32]:
    """float32[n]: each +0, or from low to high."""
    section = body.section(number)
    values = memory.allocate((section.length // 4,), np.float32, f"index {SECTIONS[number]}")
    section.into(values)
    bits = values.view(np.uint32)  # of floats from +0 on, bits ascend as the values do
    first, last = (int(np.float32(value).view(np.uint32)) for value in (low, high))
    for start in range(0, len(values), PIECE_BYTES):
        piece = bits[start : start + PIECE_BYTES]
        bad = (piece - np.uint32(first) > np.uint32(last - first)) & (piece != 0)
        if bad.any():
            row = start + int(np.flatnonzero(bad)[0])
            body.file.refuse(
                section.offset + 4 * row,
                f"{SECTIONS[number]} of row {row}",
                f"0, or from {low:g} to {high:g}" if low else f"from 0 to {high:g}",
                f"{values[row]!s} (bits {bits[row]:08x})",
            )
    return values


def _check_scale_pairs(file: _File, layout: Layout, content: IndexContent) -> None:
    differ = (content.scales == 0) != (content.scales_high == 0)
    if differ.any():
        row = int(np.flatnonzero(differ)[0])
        offset = layout.sections[SCALES_HIGH][0] + 4 * row
        wanted = "0, as its scale is" if content.scales[row] == 0 else "above 0, as its scale is"
        file.refuse(offset, f"scales-high of row {row}", wanted, str(content.scales_high[row]))


def _read_ids(body: _Body) -> NDArray[np.uint64]:
    section = body.section(IDS)
    ids = memory.allocate((section.length // 8,), np.uint64, "index ids")
    section.into(ids)
    order = np.sort(ids)
    doubled = np.flatnonzero(order[1:] == order[:-1])
    if len(doubled):
        wanted = order[doubled[0]]
        first, second = (int(row) for row in np.flatnonzero(ids == wanted)[:2])
        place = section.offset + 8 * second
        body.file.refuse(place, f"id of row {second}", "one that no other row has", f"{wanted}, as row {first}")
    return ids


def _pieces(blocks: int, groups: int) -> list[tuple[int, int]]:
    """Ranges of blocks, of about PIECE_BYTES of a plane each."""
    step = max(1, PIECE_BYTES // (groups * BLOCK * GROUP_BYTES))
    return [(start, min(start + step, blocks)) for start in range(0, blocks, step)]
