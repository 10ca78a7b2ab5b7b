"""What a catalog records about itself, and the checksum of an entry. Layout: docs/formats/catalog.md."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import blake3

from storage import regular_file, replaced_file
from storage.errors import IntegrityError
from storage.tree import EMPTY_ROOT, Head

FORMAT = "droveway-catalog/1"
CONTEXT = "droveway catalog v1"
CHECKSUM_BYTES = 8
NAME_BYTES_MAX = 64
STATE_KEY = b"state"
SEAL_FILE = "CATALOG"
DATA_FILE = "data.mdb"
READ_BYTES = 1 << 20

_FIXED_BYTES = 57
_EMPTY = Head(0, EMPTY_ROOT)
_CLOSED = re.compile(rf"{re.escape(FORMAT)}\nclosed (0|[1-9][0-9]{{0,18}}) ([0-9a-f]{{64}})\n", re.ASCII)


def checksum(key: bytes, value: bytes) -> bytes:
    """The 8 bytes that follow a value: of the key, too, since a flipped bit can bring a value to another key.

    >>> checksum(b"key", b"value").hex()
    'fce774cf2e8d527d'
    """
    data = len(key).to_bytes(2, "big") + key + value
    return blake3.blake3(data, derive_key_context=CONTEXT).digest(CHECKSUM_BYTES)


def sealed(key: bytes, value: bytes) -> bytes:
    """A value as it is stored."""
    return value + checksum(key, value)


def unsealed(key: bytes, stored: bytes) -> bytes | None:
    """The value of what is stored; None where the checksum is another."""
    value, found = stored[:-CHECKSUM_BYTES], stored[-CHECKSUM_BYTES:]
    return value if found == checksum(key, value) else None


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What `state` holds: the ledger's head, entries, sum of their checksums, whether a change is unfinished, name."""

    head: Head = _EMPTY
    entries: int = 0
    sum: int = 0
    unfinished: bool = False
    name: str = ""

    def pack(self) -> bytes:
        """As it is stored under `state`.

        >>> CatalogState.unpack(CatalogState(name="words/1").pack()).name
        'words/1'
        """
        fixed = self.head.size.to_bytes(8, "big") + self.head.root
        fixed += self.entries.to_bytes(8, "big") + self.sum.to_bytes(8, "big") + bytes((self.unfinished,))
        return sealed(STATE_KEY, fixed + self.name.encode())

    @classmethod
    def unpack(cls, stored: bytes) -> CatalogState:
        """From what is stored. Raises IntegrityError."""
        value = unsealed(STATE_KEY, stored)
        if value is None or not _FIXED_BYTES <= len(value) <= _FIXED_BYTES + NAME_BYTES_MAX or value[56] > 1:
            raise IntegrityError(f"meta/state is damaged: {stored[:160].hex()}", file="meta/state")
        number = [int.from_bytes(value[at : at + 8], "big") for at in (0, 40, 48)]
        try:
            name = value[_FIXED_BYTES:].decode()
        except UnicodeDecodeError:
            raise IntegrityError("meta/state is damaged: the name is no UTF-8", file="meta/state") from None
        return cls(Head(number[0], value[8:40]), number[1], number[2], bool(value[56]), name)


def is_catalog(folder: Path) -> bool:
    """Whether a folder holds a catalog, whole or damaged."""
    return (folder / SEAL_FILE).exists()


def is_as_closed(folder: Path) -> bool:
    """Whether `data.mdb` has the bytes it had when the catalog was closed. Raises OSError."""
    try:
        text = regular_file.read(folder / SEAL_FILE, 256).decode("ascii", errors="replace")
        said = _CLOSED.fullmatch(text)
        return said is not None and said[1] == str((folder / DATA_FILE).stat().st_size) and said[2] == digest(folder)
    except (FileNotFoundError, IntegrityError):
        return False


def digest(folder: Path) -> str:
    """BLAKE3 of `data.mdb`, in hex."""
    hasher = blake3.blake3()
    with os.fdopen(regular_file.open_to_read(folder / DATA_FILE), "rb", buffering=0) as stream:
        while piece := stream.read(READ_BYTES):
            hasher.update(piece)
    return hasher.hexdigest()


def write_seal(folder: Path, *, closed: bool) -> None:
    """Replace CATALOG at once: `open`, or `closed` with length and digest of the data. Raises OSError."""
    line = f"closed {(folder / DATA_FILE).stat().st_size} {digest(folder)}" if closed else "open"
    replaced_file.replace(folder / SEAL_FILE, f"{FORMAT}\n{line}\n".encode())
