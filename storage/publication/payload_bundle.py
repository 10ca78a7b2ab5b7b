"""The events of one tile in one object. Written in docs/formats/published.md."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final

from storage.errors import IntegrityError
from storage.layout import TILE_HASHES

MAGIC: Final = b"DWP1"
INLINE_BYTES_MAX: Final = 1 << 16  # longer events get an object of their own: a bundle has at most 16 MiB
BUNDLE_BYTES_MAX: Final = 4 + TILE_HASHES * (4 + INLINE_BYTES_MAX)
_BLOB, _RETIRED = 0, 0xFFFFFFFF


class Elsewhere(Enum):
    """Why an event's bytes are not in the bundle."""

    BLOB = "in an object of its own"
    RETIRED = "removed"
    DAMAGED = "damaged"


Payload = bytes | Elsewhere


def is_blob(length: int) -> bool:
    """Whether an event of so many bytes has an object of its own."""
    return length > INLINE_BYTES_MAX


def pack(payloads: Sequence[Payload]) -> bytes:
    """The bundle of the events of a tile.

    >>> pack([b"event", Elsewhere.RETIRED, Elsewhere.BLOB]).hex()
    '4457503100000005ffffffff000000006576656e74'
    """
    numbers = [
        len(payload) if isinstance(payload, bytes) else _RETIRED if payload is Elsewhere.RETIRED else _BLOB
        for payload in payloads
    ]
    inline = [payload for payload in payloads if isinstance(payload, bytes)]
    return b"".join((MAGIC, struct.pack(f">{len(numbers)}I", *numbers), *inline))


def bytes_max(lengths: Sequence[int]) -> int:
    """The most bytes that the bundle of events of these lengths can have.

    >>> bytes_max([5, 70_000])
    17
    """
    return 4 + 4 * len(lengths) + sum(length for length in lengths if not is_blob(length))


def unpack(data: bytes, lengths: Sequence[int | None], path: str, *, more: bool = False) -> list[Payload]:
    """The payloads of a tile whose leaves name these lengths, DAMAGED for one whose number is neither.

    A number that is wrong says nothing of the events after it: it is taken for the length in the leaf where the size
    of the whole then fits, else for nothing. Where a leaf is not known (None), the number is believed.
    more: the bundle holds a full tile, of which `lengths` are the first.

    Raises IntegrityError for another magic, and for a size that no reading of the numbers explains.
    """
    count = len(lengths)
    if data[:4] != MAGIC:
        raise IntegrityError(f"{path}: offset 0: magic must be {MAGIC!r}, got {data[:4]!r}", file=path)
    start = 4 + 4 * (TILE_HASHES if more else count)
    if len(data) < start:
        raise IntegrityError(f"{path}: expected at least {start} bytes, got {len(data)}", file=path)
    numbers = struct.unpack_from(f">{count}I", data, 4)
    kinds = [_kind(found, length) for found, length in zip(numbers, lengths, strict=True)]
    sizes = [found if kind is None else 0 for kind, found in zip(kinds, numbers, strict=True)]
    wrong = [i for i, kind in enumerate(kinds) if kind is Elsewhere.DAMAGED]
    rest = len(data) - start - sum(sizes)
    if len(wrong) == 1 and rest > 0 and (rest == lengths[wrong[0]] or more):
        sizes[wrong[0]], rest = lengths[wrong[0]] or 0, 0
    if rest and not (more and rest > 0):
        raise IntegrityError(f"{path}: expected {len(data) - rest} bytes, got {len(data)}", file=path)
    out: list[Payload] = []
    for kind, size in zip(kinds, sizes, strict=True):
        out.append(data[start : start + size] if kind is None else kind)
        start += size
    return out


def _kind(found: int, length: int | None) -> Elsewhere | None:
    """None where the bytes are in the bundle."""
    if found == _RETIRED:
        return Elsewhere.RETIRED
    if length is None:
        return None if 0 < found <= INLINE_BYTES_MAX else Elsewhere.DAMAGED
    if is_blob(length):
        return Elsewhere.BLOB if found == _BLOB else Elsewhere.DAMAGED
    return None if found == length else Elsewhere.DAMAGED
