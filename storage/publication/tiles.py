"""Names and content of the objects of a tiled log (C2SP tlog-tiles). Written in docs/formats/published.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storage import hashing
from storage.errors import IntegrityError
from storage.layout import TILE_HASHES
from storage.tree import LEAF_BYTES, LEAF_VERSION

LEVEL_MAX = 63
INDEX_MAX = (1 << 64) // TILE_HASHES - 1
ENTRY_BYTES = 2 + LEAF_BYTES

_PATH = re.compile(
    r"(tile/(?:entries|[0-9]|[1-5][0-9]|6[0-3])|payload)/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?"
)
_ENTRY_START = LEAF_BYTES.to_bytes(2, "big") + bytes((LEAF_VERSION,))
_HASHES, _ENTRIES, _PAYLOAD = "hashes", "entries", "payload"


@dataclass(frozen=True, slots=True)
class TileName:
    """What a path names: `kind` is "hashes", "entries" or "payload"; `width` is 256 for a full tile."""

    kind: str
    level: int
    index: int
    width: int


def number(index: int) -> str:
    """A tile's number in groups of three digits.

    >>> number(0), number(1000), number(1234067)
    ('000', 'x001/000', 'x001/x234/067')
    """
    if not 0 <= index <= INDEX_MAX:
        raise ValueError(f"tiles.number: index must be in [0, 2**56), got {index}")
    text = f"{index % 1000:03}"
    while index := index // 1000:
        text = f"x{index % 1000:03}/{text}"
    return text


def tile_path(level: int, index: int, width: int = TILE_HASHES) -> str:
    """The path of a tile of hashes.

    >>> tile_path(0, 273, 112), tile_path(1, 0)
    ('tile/0/273.p/112', 'tile/1/000')
    """
    if not 0 <= level <= LEVEL_MAX:
        raise ValueError(f"tile_path: level must be in [0, {LEVEL_MAX}], got {level}")
    return _wide(f"tile/{level}/{number(index)}", width)


def entries_path(index: int, width: int = TILE_HASHES) -> str:
    """The path of the leaves of a tile.

    >>> entries_path(1234067)
    'tile/entries/x001/x234/067'
    """
    return _wide(f"tile/entries/{number(index)}", width)


def payload_path(index: int, width: int = TILE_HASHES) -> str:
    """The path of the events of a tile.

    >>> payload_path(2, 7)
    'payload/002.p/7'
    """
    return _wide(f"payload/{number(index)}", width)


def blob_path(event_id: bytes) -> str:
    """The path of one long event."""
    return f"blob/{event_id.hex()}"


def _wide(path: str, width: int) -> str:
    if not 1 <= width <= TILE_HASHES:
        raise ValueError(f"tiles: width must be in [1, {TILE_HASHES}], got {width}")
    return path if width == TILE_HASHES else f"{path}.p/{width}"


def parse_path(path: str) -> TileName | None:
    """What a path names; None for any other text: each tile has one path only.

    >>> parse_path("tile/0/x001/234.p/7")
    TileName(kind='hashes', level=0, index=1234, width=7)
    >>> parse_path("tile/0/x000/234"), parse_path("tile/0/1234"), parse_path("tile/0/001.p/256")
    (None, None, None)
    """
    match = _PATH.fullmatch(path) if path.isascii() else None
    if match is None:
        return None
    tree, digits, partial = match[1], match[2], match[3]
    index = int(digits.replace("x", "").replace("/", ""))
    width = TILE_HASHES if partial is None else int(partial)
    if index > INDEX_MAX or number(index) != digits or (partial is not None and width >= TILE_HASHES):
        return None
    if tree == "payload":
        return TileName(_PAYLOAD, 0, index, width)
    name = tree.removeprefix("tile/")
    return TileName(_ENTRIES, 0, index, width) if name == "entries" else TileName(_HASHES, int(name), index, width)


def widths(size: int) -> Iterator[tuple[int, int, int]]:
    """(level, full tiles, width of the partial tile or 0) of each level of a tree of `size` leaves.

    >>> list(widths(70_000))
    [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    """
    level = 0
    while size:
        yield level, size // TILE_HASHES, size % TILE_HASHES
        size, level = size // TILE_HASHES, level + 1


def pack_entries(leaves: Sequence[bytes]) -> bytes:
    """An entry bundle: each leaf of 41 bytes behind its length, u16 big-endian."""
    return b"".join(_ENTRY_START[:2] + record for record in leaves)


def unpack_entries(data: bytes, width: int, path: str) -> list[bytes | None]:
    """The leaves of a bundle of `width` entries, None for one that is malformed; entries above the width are let be.

    Raises IntegrityError for another number of bytes.
    """
    if len(data) % ENTRY_BYTES or not width * ENTRY_BYTES <= len(data) <= TILE_HASHES * ENTRY_BYTES:
        raise IntegrityError(f"{path}: expected {width * ENTRY_BYTES} bytes, got {len(data)}", file=path)
    return [
        data[at + 2 : at + ENTRY_BYTES] if data[at : at + 3] == _ENTRY_START else None
        for at in range(0, width * ENTRY_BYTES, ENTRY_BYTES)
    ]


def leaf_parts(record: bytes) -> tuple[bytes, int]:
    """Id and event length of a leaf.

    >>> leaf_parts(bytes(33) + (300).to_bytes(8, "big"))[1]
    300
    """
    return record[1:33], int.from_bytes(record[33:], "big")


def leaf_hashes(leaves: Sequence[bytes]) -> bytes:
    """The hashes of leaves, joined, in one call of the kernel."""
    return hashing.leaf_hashes(b"".join(leaves), LEAF_BYTES)
