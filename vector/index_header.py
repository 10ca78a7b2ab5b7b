"""The first 256 bytes of a .jvi or .jvim file, and where everything else lies. Written in docs/formats/jvi.md."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NoReturn

from vector.errors import IndexFileError, UnsupportedIndex

JVI, JVIM = b"JVI\0", b"JVIM"
_READERS = {JVI: "TurboIndex.load", JVIM: "IdMapIndex.load"}
VERSION = 1
METRICS = ("ip", "cosine", "l2")
DIM_MAX = 16384
GROUP = 64  # coordinates that a plane keeps together
BLOCK = 32  # rows
ALIGNMENT = 64
HEADER_BYTES = 256
HASH_BLOCK = 1 << 20  # bytes of the body under one hash
HASH_BYTES = 32
FILE_BYTES_MAX = 1 << 44
ROWS_MAX = 2**32 - 64  # of an index in memory

CODES_HIGH, CODES_LOW, SCALES, SCALES_HIGH, NORMS2, IDS, CALIBRATION, SIDECAR = range(8)
SECTIONS = ("codes-high", "codes-low", "scales", "scales-high", "norms2", "ids", "calibration", "sidecar")
SECTION_TABLE = 96
ROWS, ROOT = 16, 224

_CALIBRATED, _PARTITIONED, _FLOAT16 = 1, 2, 4
_FIXED = struct.Struct("<4sHBBIIQQIIQQQQQQQ")  # offsets 0 to 95
_TABLE = struct.Struct("<16Q")
_PLACES = {
    "magic": 0, "version": 4, "bits": 6, "metric": 7, "dim": 8, "padded dim": 12, "rows": ROWS, "seed": 24, "block": 32,
    "flags": 36, "hash table offset": 40, "hash table length": 48, "patch map offset": 56, "patch map length": 64,
    "body length": 72, "file length": 80, "reserved": 88,
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Where the parts of a file lie, in bytes."""

    sections: tuple[tuple[int, int], ...]  # eight times offset, length; 0, 0 where a section is absent
    body_bytes: int
    table_offset: int
    table_bytes: int

    @property
    def file_bytes(self) -> int:
        return self.table_offset + self.table_bytes


@dataclass(frozen=True)
class IndexHeader:
    """What the header of an index says; the rest of it follows.

    magic: JVI or JVIM; dim: 1..16384; rows: the number of vectors; metric: a name in METRICS; seed: of the rotation.

    >>> header = IndexHeader(JVI, dim=100, rows=0)
    >>> header.padded_dim, header.layout().file_bytes
    (128, 256)
    >>> header.encode(bytes(32))[:16].hex()
    '4a564900010004006400000080000000'
    """

    magic: bytes
    dim: int
    rows: int
    bits: int = 4
    metric: str = "ip"
    seed: int = 0

    @property
    def padded_dim(self) -> int:
        """The number of coordinates that a code has: dim rounded up to a multiple of 64."""
        return -(-self.dim // GROUP) * GROUP

    @property
    def blocks(self) -> int:
        """The number of blocks of 32 rows."""
        return -(-self.rows // BLOCK)

    def layout(self) -> Layout:
        """The places of a full save."""
        end = HEADER_BYTES
        sections = []
        for length in self._section_bytes():
            sections.append((end, length) if length else (0, 0))
            end += _padded(length)
        body = end - HEADER_BYTES
        return Layout(tuple(sections), body, end, _table_bytes(body))

    def encode(self, root: bytes) -> bytes:
        """The 256 bytes, with the given root (32 bytes)."""
        layout = self.layout()
        fixed = _FIXED.pack(
            *(self.magic, VERSION, self.bits, METRICS.index(self.metric), self.dim, self.padded_dim),
            *(self.rows, self.seed, BLOCK, 0, layout.table_offset, layout.table_bytes, 0, 0),
            *(layout.body_bytes, layout.file_bytes, 0),
        )
        return fixed + _TABLE.pack(*(number for section in layout.sections for number in section)) + root

    def _section_bytes(self) -> tuple[int, ...]:
        """Bytes of each section; those of calibration and sidecar, which this version doesn't make, are 0."""
        codes = self.blocks * BLOCK * self.padded_dim
        return (
            codes * min(self.bits, 2) // 8,
            codes // 4 * {4: 1, 8: 3}.get(self.bits, 0),
            4 * self.rows,
            4 * self.rows * (self.bits == 4),
            4 * self.rows * (self.metric == "l2"),
            8 * self.rows * (self.magic == JVIM),
            0,
            0,
        )


def decode(data: bytes, path: str, magic: bytes) -> IndexHeader:
    """The header in the first 256 bytes of a file, of which fewer may be there; `magic` is JVI or JVIM.

    Everything but the root is checked, as the page says: nothing can be read from a file whose header is not legal.
    Raises IndexFileError, and UnsupportedIndex for a legal header of a kind that this version doesn't read.
    """
    return _Decoder(data, path).header(magic)


class _Decoder:
    def __init__(self, data: bytes, path: str) -> None:
        self.path = path
        if len(data) < HEADER_BYTES:
            self.refuse("file length", f"at least {HEADER_BYTES}", len(data), offset=len(data))
        self.values = dict[str, Any](zip(_PLACES, _FIXED.unpack_from(data, 0), strict=True))
        table = _TABLE.unpack_from(data, SECTION_TABLE)
        self.sections = list(zip(table[::2], table[1::2], strict=True))

    def header(self, magic: bytes) -> IndexHeader:
        v = self.values
        if v["magic"] != magic and v["magic"] in _READERS:
            self.refuse("magic", repr(magic), f"{v['magic']!r} (hint: {_READERS[v['magic']]})")
        self.require("magic", v["magic"] == magic, repr(magic))
        self.require("version", v["version"] == VERSION, str(VERSION))
        self.require("bits", v["bits"] in (1, 2, 4, 8), "1, 2, 4 or 8")
        self.require("metric", v["metric"] < len(METRICS), "0 (ip), 1 (cosine) or 2 (l2)")
        self.require("dim", 1 <= v["dim"] <= DIM_MAX, f"1 to {DIM_MAX}")
        found = IndexHeader(magic, v["dim"], v["rows"], v["bits"], METRICS[v["metric"]], v["seed"])
        self.equal("padded dim", found.padded_dim)
        self.equal("block", BLOCK)
        self.require("flags", v["flags"] < 8, "0 to 7")
        self.equal("reserved", 0)
        end, spare = self.check_sections(found)
        self.equal("body length", _padded(end) - HEADER_BYTES)
        self.check_tail(v)
        self.check_supported(v, spare)
        return found

    def check_sections(self, header: IndexHeader) -> tuple[int, tuple[int, int] | None]:
        """Checks the table; returns the end of the last section, and the first section that doesn't start right there
        where it could, with the place where it could."""
        flags = self.values["flags"]
        end = HEADER_BYTES
        spare = None
        for section, (offset, length) in enumerate(self.sections):
            self.check_length(header, section, length, flags)
            place = SECTION_TABLE + 16 * section
            if length == 0:
                self.require_section(section, offset == 0, "0 (the section is absent)", offset, place)
                continue
            start = _padded(end)
            if section == CODES_HIGH:
                self.require_section(section, offset == start, str(start), offset, place)
            legal = offset % ALIGNMENT == 0 and offset >= start
            self.require_section(section, legal, f"a multiple of {ALIGNMENT} from {start}", offset, place)
            if offset > start and spare is None:
                spare = (section, start)
            end = offset + length
        return end, spare

    def check_length(self, header: IndexHeader, section: int, length: int, flags: int) -> None:
        place = SECTION_TABLE + 16 * section + 8
        if section == CALIBRATION:
            least = 0
            if flags & _CALIBRATED:
                least += 16 + 8 * header.padded_dim
            if flags & _PARTITIONED:  # one list at least
                least += 16 + 8 + header.padded_dim + -(-4 * header.rows // 8) * 8
            exact = flags & _PARTITIONED == 0
            legal = length == least if exact else length >= least and length % 8 == 0
            wanted = str(least) if exact else f"a multiple of 8 from {least}"
        elif section == SIDECAR:
            full = header.rows * header.dim * (2 if flags & _FLOAT16 else 4)
            legal = length == full if flags & _FLOAT16 and full else length in (0, full) and not flags & _FLOAT16
            wanted = str(full) if flags & _FLOAT16 else f"0 or {full}"
            if flags & _FLOAT16 and not full:
                self.refuse("flags", "without bit 2, as there is no sidecar", flags)
        else:
            exact_bytes = header._section_bytes()[section]
            legal, wanted = length == exact_bytes, str(exact_bytes)
        if not legal:
            self.refuse(f"section {section} ({SECTIONS[section]}) length", wanted, length, offset=place)

    def check_tail(self, v: dict[str, Any]) -> None:
        """Hash table, patch map and the file's length."""
        body_end = HEADER_BYTES + v["body length"]
        self.equal("hash table length", _table_bytes(v["body length"]))
        if v["patch map length"] == 0:
            self.equal("patch map offset", 0)
            self.equal("hash table offset", body_end)
        else:
            size, blocks = v["patch map length"], v["hash table length"] // HASH_BYTES
            self.require("patch map length", size % 16 == 0 and size // 16 <= blocks, f"16 to {16 * blocks}, in pairs")
            first = body_end + v["hash table length"] + ALIGNMENT
            last = v["hash table offset"] - size
            wanted = f"{first} or more and leave room for the map before {v['hash table offset']}"
            self.require("patch map offset", first <= v["patch map offset"] <= last, wanted)
        self.equal("file length", v["hash table offset"] + v["hash table length"])
        self.require("file length", v["file length"] <= FILE_BYTES_MAX, f"at most {FILE_BYTES_MAX}")

    def check_supported(self, v: dict[str, Any], spare: tuple[int, int] | None) -> None:
        """What the format allows and this version doesn't read."""
        for field, wanted in (("bits", 4), ("flags", 0), ("patch map length", 0)):
            if v[field] != wanted:
                raise UnsupportedIndex(self.path, _PLACES[field], field, str(wanted), str(v[field]))
        place = SECTION_TABLE + 16 * SIDECAR
        if self.sections[SIDECAR] != (0, 0):
            found = str(self.sections[SIDECAR][1])
            raise UnsupportedIndex(self.path, place + 8, f"section {SIDECAR} (sidecar) length", "0", found)
        if spare is not None:
            section, start = spare
            field = f"section {section} ({SECTIONS[section]}) offset"
            found = f"{self.sections[section][0]} (space is reserved before it)"
            raise UnsupportedIndex(self.path, SECTION_TABLE + 16 * section, field, str(start), found)

    def equal(self, field: str, wanted: int) -> None:
        self.require(field, self.values[field] == wanted, str(wanted))

    def require(self, field: str, condition: bool, wanted: str) -> None:
        if not condition:
            self.refuse(field, wanted, self.values[field])

    def require_section(self, section: int, condition: bool, wanted: str, found: int, place: int) -> None:
        if not condition:
            self.refuse(f"section {section} ({SECTIONS[section]}) offset", wanted, found, offset=place)

    def refuse(self, field: str, wanted: str, found: object, offset: int | None = None) -> NoReturn:
        place = _PLACES[field] if offset is None else offset
        raise IndexFileError(self.path, place, field, wanted, repr(found) if isinstance(found, bytes) else str(found))


def _padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def _table_bytes(body_bytes: int) -> int:
    return -(-body_bytes // HASH_BLOCK) * HASH_BYTES
