"""The container PLY: its header, and the rows of an element, block by block, as numpy records.

Binary little-endian, binary big-endian and ASCII are read. What scenes are made of the rows is decided in `inria_ply`
and `compressed_ply`; the page is docs/formats/inria-ply.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.errors import SceneFileError
from splat.source_file import SourceFile

HEADER_BYTES_MAX = 65536  # a header of 62 properties takes 1.6 kB
COUNT_MAX = 2**31 - 1
BLOCK_BYTES, BLOCK_ROWS = 1 << 20, 4096  # a block's limits: what is computed of a row may take many times its size
ASCII_BLOCK_BYTES = 1 << 18

FORMATS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "="}
TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"},
    **{"float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2"},
    **{"int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8"},
}


@dataclass(frozen=True)
class Element:
    """One element of a header: `dtype` has its properties by name; None where a property is a list."""

    name: str
    count: int
    dtype: np.dtype[Any] | None
    properties: tuple[str, ...]


@dataclass(frozen=True)
class PlyFile:
    """A PLY file whose header was read, and whose sizes fit the file."""

    source: SourceFile
    form: str  # a key of FORMATS
    elements: tuple[Element, ...]
    body_offset: int

    def element(self, name: str) -> Element | None:
        """The element of that name, or None."""
        return next((element for element in self.elements if element.name == name), None)

    def rows(self, name: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """(index of the first row, records) for consecutive blocks of the element's rows."""
        element = self.element(name)
        assert element is not None and element.dtype is not None
        return self._ascii_rows(element) if self.form == "ascii" else self._binary_rows(element)

    @property
    def spare_bytes(self) -> int:
        """Bytes after the last element; 0 where that can't be told."""
        if self.form == "ascii" or any(element.dtype is None for element in self.elements):
            return 0
        return self.source.size - self.body_offset - sum(_nbytes(element) for element in self.elements)

    def _binary_rows(self, element: Element) -> Iterator[tuple[int, NDArray[Any]]]:
        assert element.dtype is not None
        before = self.elements[: self.elements.index(element)]
        self.source.seek(self.body_offset + sum(_nbytes(other) for other in before))
        block = max(256, min(BLOCK_ROWS, BLOCK_BYTES // max(1, element.dtype.itemsize) // 256 * 256))
        for first in range(0, element.count, block):
            count = min(block, element.count - first)
            yield first, self.source.read_rows(element.dtype, count, f"element {element.name}")

    def _ascii_rows(self, element: Element) -> Iterator[tuple[int, NDArray[Any]]]:
        assert element.dtype is not None
        before = self.elements[: self.elements.index(element)]
        values = _AsciiValues(self.source, self.body_offset)
        for other in before:
            for _ in values.blocks(other):
                pass
        yield from values.blocks(element)
        if element is self.elements[-1]:
            values.require_end(element)


def open_ply(source: SourceFile) -> PlyFile:
    """Read the header, and check that the rows it claims are in the file.

    Raises SceneFileError: no PLY, a bad line (with its number), an element or a property twice, a header without end,
    a body that is shorter than the header claims.
    """
    source.seek(0)
    head = source.read_most(HEADER_BYTES_MAX)
    if not re.match(rb"ply\r?\n", head):
        raise SceneFileError(source.path, 0, "magic", "ply and the end of the line", repr(head[:8]))
    end = re.search(rb"^end_header[ \t]*\r?\n", head, re.MULTILINE)
    if end is None:
        found = f"none in {len(head)} bytes" if len(head) == HEADER_BYTES_MAX else "the end of the file"
        raise SceneFileError(source.path, None, "header", "the line end_header", found)
    form, elements = _Header(source, head[: end.start()]).read()
    ply = PlyFile(source, form, elements, end.end())
    _check_size(ply)
    return ply


def require_rows(ply: PlyFile, element: Element) -> None:
    """Raises SceneFileError where a list, in this element or in one before it, keeps us from the rows."""
    for other in ply.elements[: ply.elements.index(element) + 1]:
        if other.dtype is None:
            raise SceneFileError(
                ply.source.path, None, f"element {other.name}", "properties that are numbers", "a list property"
            )


class _Header:
    """The lines between `ply` and `end_header`."""

    def __init__(self, source: SourceFile, text: bytes) -> None:
        self._source = source
        self._lines = text.split(b"\n")
        self._form: str | None = None
        self._elements: list[tuple[str, int, dict[str, str], bool]] = []  # name, count, types by property, has a list

    def read(self) -> tuple[str, tuple[Element, ...]]:
        offset = 0
        for line in self._lines:
            words = line.decode("utf-8", "replace").split()
            if offset and words:
                self._line(offset, words)
            offset += len(line) + 1
        if self._form is None:
            raise SceneFileError(self._source.path, None, "header", "a line format", "none")
        order = FORMATS[self._form]
        return self._form, tuple(
            Element(
                name,
                count,
                None if has_list else np.dtype([(key, order + kind) for key, kind in types.items()]),
                tuple(types),
            )
            for name, count, types, has_list in self._elements
        )

    def _line(self, offset: int, words: list[str]) -> None:
        match words:
            case ["comment" | "obj_info", *_]:
                return
            case ["format", form, "1.0"] if form in FORMATS and self._form is None:
                self._form = form
            case ["element", name, count] if re.fullmatch(r"[0-9]{1,18}", count):
                self._element(offset, name, int(count))
            case ["property", "list", _, _, name] if self._elements:
                self._property(offset, name, "", is_list=True)
            case ["property", kind, name] if self._elements and kind in TYPES:
                self._property(offset, name, TYPES[kind], is_list=False)
            case _:
                text = " ".join(words)
                shown = repr(text if len(text) <= 60 else text[:60] + "…")
                raise SceneFileError(self._source.path, offset, "header", _wanted(words, self._form), shown)

    def _element(self, offset: int, name: str, count: int) -> None:
        if any(name == other[0] for other in self._elements):
            raise SceneFileError(self._source.path, offset, "header", f"one element {name}", "another one")
        if count > COUNT_MAX:
            raise SceneFileError(self._source.path, offset, f"element {name}", f"at most {COUNT_MAX} rows", count)
        self._elements.append((name, count, {}, False))

    def _property(self, offset: int, name: str, kind: str, *, is_list: bool) -> None:
        element, count, types, has_list = self._elements[-1]
        if name in types:
            raise SceneFileError(self._source.path, offset, f"element {element}", f"one property {name}", "another one")
        types[name] = kind
        self._elements[-1] = (element, count, types, has_list or is_list)


def _wanted(words: list[str], form: str | None) -> str:
    match words[0]:
        case "format":
            return "one line format with " + ", ".join(FORMATS) + " and 1.0" if form is None else "one line format"
        case "element":
            return "element NAME COUNT"
        case "property":
            return "property TYPE NAME after an element, with TYPE one of " + ", ".join(TYPES)
        case _:
            return "comment, obj_info, format, element or property"


def _nbytes(element: Element) -> int:
    assert element.dtype is not None
    return element.dtype.itemsize * element.count


def _check_size(ply: PlyFile) -> None:
    """The rows up to the first list must fit the file; of ASCII a number and the space before the next take 2 bytes."""
    there, wanted = ply.source.size - ply.body_offset, 0
    for element in ply.elements:
        if element.dtype is None:
            break
        wanted += 2 * element.count * len(element.properties) if ply.form == "ascii" else _nbytes(element)
        slack = 1 if ply.form == "ascii" else 0  # the last number may lack its line end
        if wanted - slack > there:
            expected = f"at least {wanted - slack} bytes" if ply.form == "ascii" else f"{wanted} bytes"
            raise SceneFileError(
                ply.source.path, ply.body_offset, f"body, up to {element.count} rows of element {element.name}",
                expected, f"{there}",
            )  # fmt: skip


class _AsciiValues:
    """Numbers as text, in order, read in blocks; lines are white space like any other."""

    def __init__(self, source: SourceFile, offset: int) -> None:
        self._source = source
        source.seek(offset)
        self._rest = b""
        self._values = np.empty(0, np.float64)
        self._first = 0  # ordinal of the first value in _values

    def blocks(self, element: Element) -> Iterator[tuple[int, NDArray[Any]]]:
        """Records of the element; the reader stands behind them afterwards."""
        assert element.dtype is not None
        columns, row = len(element.properties), 0
        while row < element.count and columns:
            have = min(element.count - row, self._values.size // columns)
            if have == 0:
                self._fill(element, row)
                continue
            table = self._values[: have * columns].reshape(have, columns)
            records = np.empty(have, element.dtype)
            with np.errstate(over="ignore"):
                for i, name in enumerate(element.properties):
                    self._check_whole(element, name, row, table[:, i])
                    records[name] = table[:, i]
            yield row, records
            self._values = self._values[have * columns :]
            self._first += have * columns
            row += have

    def require_end(self, element: Element) -> None:
        """Raises SceneFileError where more than white space follows: rows of more columns would shift all numbers."""
        more = self._values.size > 0 or bool(self._rest.strip())
        while not more and (chunk := self._source.read_most(ASCII_BLOCK_BYTES)):
            more = bool(chunk.strip())
        if more:
            raise SceneFileError(
                self._source.path, None, f"element {element.name}",
                f"{element.count} rows of {len(element.properties)} numbers and the end of the file", "more",
            )  # fmt: skip

    def _check_whole(self, element: Element, name: str, row: int, values: NDArray[np.float64]) -> None:
        """A value of an integer property is a whole number that its type holds."""
        assert element.dtype is not None
        if element.dtype[name].kind == "f":
            return
        limits = np.iinfo(element.dtype[name])
        good = (values >= limits.min) & (values <= limits.max) & (np.floor(values) == values)
        if not good.all():
            i = int(np.argmin(good))
            raise SceneFileError(
                self._source.path, None, f"element {element.name}, {name} of row {row + i}",
                f"a whole number from {limits.min} to {limits.max}", f"{values[i]:g}",
            )  # fmt: skip

    def _fill(self, element: Element, row: int) -> None:
        start = self._source.position - len(self._rest)
        chunk = self._source.read_most(ASCII_BLOCK_BYTES)
        text = self._rest + chunk
        cut = len(text) if not chunk else max(text.rfind(b" "), text.rfind(b"\n"), text.rfind(b"\t")) + 1
        words, self._rest = text[:cut].split(), text[cut:]
        if not chunk and not words:
            raise SceneFileError(
                self._source.path, self._source.size, f"element {element.name}", f"{element.count} rows",
                f"the end of the file after {row} rows",
            )  # fmt: skip
        if len(self._rest) > ASCII_BLOCK_BYTES:
            raise SceneFileError(self._source.path, start, f"element {element.name}", "numbers", "a very long word")
        self._values = np.concatenate([self._values, self._numbers(words, start, element)])

    def _numbers(self, words: list[bytes], start: int, element: Element) -> NDArray[np.float64]:
        try:
            if any(b"_" in word for word in words):  # Python reads 1_0 as ten
                raise ValueError
            return np.array([float(word) for word in words], np.float64)
        except ValueError:
            bad = next(word for word in words if not _is_number(word))
            shown = repr(bad[:40].decode("utf-8", "replace"))
            raise SceneFileError(self._source.path, start, f"element {element.name}", "numbers", shown) from None


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return b"_" not in word
