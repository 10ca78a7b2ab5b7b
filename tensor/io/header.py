"""The header of a safetensors file: read strictly, written in its one canonical form (docs/formats/safetensors.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from tensor.errors import TensorFileError
from tensor.io.scanner import Scanner
from tensor.io.stored import ITEMSIZE, RANK_MAX, nbytes_of

__all__ = ["CODES", "HEADER_MAX", "Entry", "encode_header", "order", "read_header"]

HEADER_MAX = 100_000_000
CODES = {
    **{"bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "float16": "F16"},
    **{"bfloat16": "BF16", "int32": "I32", "uint32": "U32", "float32": "F32", "int64": "I64", "uint64": "U64"},
    **{"float64": "F64", "complex64": "C64"},
}
_DTYPES = {code: dtype for dtype, code in CODES.items()}
_MEMBERS = ("dtype", "shape", "data_offsets")


class Entry(NamedTuple):
    """A tensor of a file: its type by name, its shape, and where its bytes are, [begin, end) in the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def order(name: str, dtype: str) -> tuple[int, str]:
    """Tensors lie by size of an element, largest first, then by name."""
    return -ITEMSIZE[dtype], name


def encode_header(entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> bytes:
    """The first 8 + N bytes of a file. `entries` come in the order of their data.

    >>> encode_header({"w": Entry("uint8", (2,), 0, 2)}, {})[8:]
    b'{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   '
    """
    members: dict[str, object] = {}
    if metadata:
        members["__metadata__"] = dict(sorted(metadata.items()))
    for name, entry in entries.items():
        offsets = [entry.begin, entry.end]
        members[name] = {"dtype": CODES[entry.dtype], "shape": list(entry.shape), "data_offsets": offsets}
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_MAX:
        raise ValueError(f"save: the header would take {len(text)} bytes, and a file can have {HEADER_MAX}")
    return len(text).to_bytes(8, "little") + text


def read_header(path: str, file: memoryview) -> tuple[dict[str, Entry], dict[str, str], int]:
    """The tensors of a file in the order of their data, its metadata, and where the data begins.

    Raises TensorFileError for whatever breaks a rule of the format, before anything is allocated for an element.
    """
    if len(file) < 8:
        raise TensorFileError(path, 0, "header length", "8 bytes", f"a file of {len(file)}")
    n = int.from_bytes(file[:8], "little")
    if n > HEADER_MAX:
        raise TensorFileError(path, 0, "header length", f"at most {HEADER_MAX}", str(n))
    if n > len(file) - 8:
        raise TensorFileError(path, 0, "header length", f"at most the {len(file) - 8} bytes that follow", str(n))
    scanner = Scanner(path, 8, file[8 : 8 + n])
    if bytes(scanner.data[:1]) != b"{":
        raise scanner.fail("header", "'{'")
    entries: dict[str, Entry] = {}
    places: dict[str, int] = {}
    metadata: dict[str, str] | None = None
    for name in scanner.members("header"):
        at = scanner.at
        if name == "__metadata__":
            if metadata is not None:
                raise scanner.fail("header", "one '__metadata__'", at, "a second one")
            metadata = _metadata(scanner)
        elif name in entries:
            raise scanner.fail(f"tensor {name!r}", "one tensor of this name", at, "a second one")
        else:
            entries[name], places[name] = _entry(scanner, name), at
    if bytes(scanner.data[scanner.at :]).strip(b" "):
        raise scanner.fail("header", "nothing but spaces after the last '}'")
    _check_places(scanner, entries, places, len(file) - 8 - n)
    entries = dict(
        sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end, order(item[0], item[1].dtype)))
    )
    return entries, metadata or {}, 8 + n


def _metadata(scanner: Scanner) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for key in scanner.members("__metadata__"):
        at = scanner.at
        value = scanner.string(f"__metadata__ {key!r}")
        if key in metadata:
            raise scanner.fail(f"__metadata__ {key!r}", "one value", at, "a second one")
        metadata[key] = value
    return metadata


def _entry(scanner: Scanner, name: str) -> Entry:
    field = f"tensor {name!r}"
    start = scanner.at
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None
    for member in scanner.members(field):
        at = scanner.at
        if member == "dtype" and dtype is None:
            code = scanner.string(f"{field} dtype")
            dtype = _DTYPES.get(code)
            if dtype is None:
                raise scanner.fail(f"{field} dtype", f"one of {' '.join(_DTYPES)}", at, repr(code))
        elif member == "shape" and shape is None:
            shape = scanner.integers(f"{field} shape", RANK_MAX)
        elif member == "data_offsets" and offsets is None:
            offsets = scanner.integers(f"{field} data_offsets", 2)
            if len(offsets) != 2:
                raise scanner.fail(f"{field} data_offsets", "two integers", at)
        else:
            found = f"a second {member!r}" if member in _MEMBERS else repr(member)
            raise scanner.fail(field, "dtype, shape and data_offsets, each once", at, found)
    if dtype is None or shape is None or offsets is None:
        missing = [m for m, value in zip(_MEMBERS, (dtype, shape, offsets), strict=True) if value is None]
        raise scanner.fail(field, "dtype, shape and data_offsets, each once", start, f"no {missing[0]!r}")
    return Entry(dtype, shape, *offsets)


def _check_places(scanner: Scanner, entries: dict[str, Entry], places: dict[str, int], nbytes: int) -> None:
    """Every tensor fits its bytes, and together they are the data, each byte once."""
    for name, entry in entries.items():
        field, at = f"tensor {name!r}", places[name]
        if entry.begin > entry.end or entry.end > nbytes:
            expected = f"begin <= end <= {nbytes}, the bytes of the data"
            raise scanner.fail(f"{field} data_offsets", expected, at, f"[{entry.begin}, {entry.end})")
        size = nbytes_of(entry.dtype, entry.shape)
        if size >= 2**63:
            raise scanner.fail(f"{field} shape", "fewer than 2^63 bytes", at, str(list(entry.shape)))
        if size != entry.end - entry.begin:
            expected = f"{size} bytes, {entry.dtype}{list(entry.shape)}"
            raise scanner.fail(f"{field} data_offsets", expected, at, f"[{entry.begin}, {entry.end})")
    end = 0
    for begin, stop, name in sorted((entry.begin, entry.end, name) for name, entry in entries.items()):
        if begin != end:
            what = f"an overlap at byte {begin}" if begin < end else f"a hole before byte {begin}"
            expected = f"data that goes on at its byte {end}"
            raise scanner.fail(f"tensor {name!r} data_offsets", expected, places[name], what)
        end = stop
    if end != nbytes:
        expected = f"the end of the file after {end} bytes of data"
        raise TensorFileError(scanner.path, scanner.base + len(scanner.data) + end, "data", expected, f"{nbytes} bytes")
