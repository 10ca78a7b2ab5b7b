"""Where things lie in a RUN directory, and the keys and values of the store. Written in docs/formats/ledger.md."""

from __future__ import annotations

from pathlib import Path

from storage.errors import IntegrityError
from storage.tree import HASH_BYTES, Head

FORMAT = b"droveway-ledger/1"
FAMILIES = ("log", "ids", "tree", "meta")
TILE_HASHES = 256
TILE_BYTES = TILE_HASHES * HASH_BYTES

FORMAT_KEY = b"format"
HEAD_KEY = b"head"
CURSOR_PREFIX = b"cursor/"


def store_path(run: Path) -> Path:
    """The store of a RUN directory."""
    return run / "ledger"


def head_path(run: Path) -> Path:
    """The head file of a RUN directory."""
    return run / "HEAD"


def log_key(rank: int) -> bytes:
    """Key of an event in `log`: its rank, u64 big-endian."""
    return rank.to_bytes(8, "big")


def tile_key(level: int, index: int) -> bytes:
    """Key of a tile in `tree`: its level, u8, then its index, u64 big-endian."""
    return bytes((level,)) + index.to_bytes(8, "big")


def cursor_key(producer: str) -> bytes:
    """Key of a producer's cursor in `meta`."""
    return CURSOR_PREFIX + producer.encode()


def pack_head(head: Head) -> bytes:
    """Value of `head`: u64 big-endian size, root."""
    return head.size.to_bytes(8, "big") + head.root


def unpack_head(value: bytes) -> Head:
    """The head of a value. Raises IntegrityError for another length."""
    if len(value) != 40:
        raise IntegrityError(f"meta/head must have 40 bytes, got {len(value)}", file="meta/head")
    return Head(int.from_bytes(value[:8], "big"), value[8:])


def pack_cursor(sequence: int, event_id: bytes) -> bytes:
    """Value of a cursor: u64 big-endian last sequence number, last id."""
    return sequence.to_bytes(8, "big") + event_id


def unpack_cursor(key: bytes, value: bytes) -> tuple[int, bytes]:
    """The sequence number and id of a value. Raises IntegrityError for another length."""
    if len(value) != 40:
        where = f"meta/{key.decode(errors='replace')}"
        raise IntegrityError(f"{where} must have 40 bytes, got {len(value)}", file=where)
    return int.from_bytes(value[:8], "big"), value[8:]
