"""Cosignatures v1 of c2sp.org/tlog-cosignature: Ed25519 over a time and the text of a checkpoint. Pure functions.

Written in docs/formats/checkpoint.md. The time is what a witness says about itself: it never orders anything.
"""

from __future__ import annotations

from storage.errors import NoteError

TIME_MAX = 2**63 - 1
COSIGNATURE_BYTES = 8 + 64  # time, Ed25519 signature; with the key id 76 bytes in a line


def message(time_s: int, text: str) -> bytes:
    """The bytes that a cosigner signs: a header line, the time in seconds since 1970, the text of the note.

    Raises ValueError unless 0 <= time_s <= 2^63 - 1.

    >>> message(1700000000, "a.example\\n0\\n").split(b"\\n")[:3]
    [b'cosignature/v1', b'time 1700000000', b'a.example']
    """
    if not 0 <= time_s <= TIME_MAX:
        raise ValueError(f"cosignature: the time must be in [0, 2**63), got {time_s}")
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def pack(time_s: int, signature: bytes) -> bytes:
    """What follows the key id in a line: u64 big-endian time, 64 bytes."""
    return time_s.to_bytes(8, "big") + signature


def unpack(data: bytes) -> tuple[int, bytes]:
    """Time and Ed25519 signature. Raises NoteError for another length or a time above 2^63 - 1.

    >>> unpack(pack(5, bytes(64)))[0]
    5
    """
    if len(data) != COSIGNATURE_BYTES:
        raise NoteError(f"cosignature: expected {COSIGNATURE_BYTES} bytes after the key id, got {len(data)}")
    time_s = int.from_bytes(data[:8], "big")
    if time_s > TIME_MAX:
        raise NoteError(f"cosignature: the time must be at most 2**63 - 1, got {time_s}")
    return time_s, data[8:]
