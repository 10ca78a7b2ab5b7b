"""Twin of coord/kernels/frames.cpp: the rules of a decision frame and of a chain of them, a frame at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from coord.frames.crc_ref import crc32c

FRAME_BYTES = 128
FIELDS = (
    "", "magic", "version", "crc32c", "reserved", "assigned + rejected", "flags", "planner", "health", "frame_id",
    "prev_digest",
)  # fmt: skip
FRAME_ID, PREV_DIGEST = 9, 10


def own_fault(frame: bytes) -> tuple[int, str, str] | None:
    """The first rule that a frame of 128 bytes breaks by itself: index in FIELDS, what was expected, what came."""

    def number(start: int, stop: int) -> int:
        return int.from_bytes(frame[start:stop], "little")

    agents, assigned, rejected = number(80, 84), number(88, 92), number(92, 96)
    checks = (
        (frame[:4] == b"JDF1", "b'JDF1'", repr(frame[:4])),
        (number(4, 6) == 1, "1", str(number(4, 6))),
        (number(124, 128) == (crc := crc32c(frame[:124])), f"{crc:08x}", f"{number(124, 128):08x}"),
        (number(122, 124) == 0, "0", str(number(122, 124))),
        (assigned + rejected <= agents, f"at most {agents} agents", f"{assigned} + {rejected}"),
        (number(6, 8) & ~7 == 0, "no bit above 2", f"{number(6, 8):#x}"),
        (frame[120] <= 4, "0 to 4", str(frame[120])),
        (frame[121] <= 4, "0 to 4", str(frame[121])),
    )
    for index, (good, expected, got) in enumerate(checks, 1):
        if not good:
            return index, expected, got
    return None


def chain_fault(frame: bytes, number: int, prev: bytes) -> tuple[int, str, str] | None:
    """As `own_fault`, for a frame that is good by itself: its number, then the digest of the frame before."""
    own = int.from_bytes(frame[8:16], "little")
    if own != number:
        return FRAME_ID, str(number), str(own)
    if frame[64:80] != prev:
        return PREV_DIGEST, prev.hex(), frame[64:80].hex()
    return None


def digest(frame: bytes) -> bytes:
    """The first 16 bytes of BLAKE3 of a frame."""
    return blake3(frame).digest(16)


def check_frames(
    data: NDArray[np.uint8],
    offsets: Sequence[int] | NDArray[np.uint64] | None,
    chained: bool,
    known: bool,
    number: int,
    prev: NDArray[np.uint8],
) -> tuple[int, int]:
    """(index of the first frame that breaks a rule, index in FIELDS), or (number of frames, 0).

    chained: frame ids grow by 1 and each frame names the one before; the first has to be `number` behind `prev` where
    that is known. `prev` becomes the digest of the last good frame.
    """
    places = range(0, len(data), FRAME_BYTES) if offsets is None else [int(at) for at in offsets]
    for index, at in enumerate(places):
        frame = data[at : at + FRAME_BYTES].tobytes()
        found = own_fault(frame)
        if found is None and chained:
            found = chain_fault(frame, number, prev.tobytes()) if known else None
            number, known = (int.from_bytes(frame[8:16], "little") + 1) & 0xFFFFFFFFFFFFFFFF, True
            if found is None:
                prev[:] = np.frombuffer(digest(frame), np.uint8)
        if found is not None:
            return index, found[0]
    return len(places), 0
