"""The head file: size and root that the next open must find. Written in docs/formats/head.md."""

from __future__ import annotations

from pathlib import Path

from storage import hashing, regular_file, replaced_file
from storage.errors import IntegrityError, StorageError
from storage.tree import Head

MAGIC = b"DWH1"
HEAD_BYTES = 48


def pack(head: Head) -> bytes:
    """The 48 bytes of a head file: magic, CRC-32C of the rest, size, root.

    >>> pack(Head(2, bytes(32)))[:16].hex()
    '44574831ed2de1830000000000000002'
    """
    rest = head.size.to_bytes(8, "big") + head.root
    return MAGIC + hashing.crc32c(rest).to_bytes(4, "big") + rest


def unpack(data: bytes, path: str = "HEAD") -> Head:
    """The head in 48 bytes. Raises IntegrityError naming path, offset, what was expected and what was found."""
    if len(data) != HEAD_BYTES:
        raise IntegrityError(f"{path}: expected {HEAD_BYTES} bytes, got {len(data)}", file=path)
    if data[:4] != MAGIC:
        raise IntegrityError(f"{path}: offset 0: magic must be {MAGIC!r}, got {data[:4]!r}", file=path)
    expected = hashing.crc32c(data[8:])
    found = int.from_bytes(data[4:8], "big")
    if expected != found:
        raise IntegrityError(f"{path}: offset 4: CRC-32C must be {expected:08x}, got {found:08x}", file=path)
    return Head(int.from_bytes(data[8:16], "big"), data[16:])


def read(path: Path) -> Head | None:
    """The head that a file holds; None where there is no file.

    Raises IntegrityError for a damaged one, StorageError for one that can't be read.
    """
    try:
        data = regular_file.read(path, HEAD_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror}") from error
    if len(data) > HEAD_BYTES:
        raise IntegrityError(f"{path}: expected {HEAD_BYTES} bytes, got more", file=str(path))
    return unpack(data, str(path))


def write(path: Path, head: Head, *, durable: bool = True) -> None:
    """Replace the file at once. Raises OSError; without `durable` nothing is synced."""
    replaced_file.replace(path, pack(head), durable=durable)
