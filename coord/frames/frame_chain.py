"""Many decision frames from one buffer: decoded at once, and held against each other (docs/formats/decision-frame.md).

Rows may lie between them: then `offsets` says where each frame begins. One thread checks millions a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coord import backend
from coord.auditing.divergence import FRAME_DTYPE
from coord.errors import FrameError
from coord.frames import frame_chain_ref
from coord.records import Records

Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.uint64]


class FrameFault(NamedTuple):
    """The first frame of a buffer that breaks a rule: which one, counted from 0, the field, expected and got."""

    at: int
    field: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"frame at index {self.at}: {self.field}: expected {self.expected}, got {self.got}"


def decode_frames(buffer: Buffer, offsets: npt.ArrayLike | None = None) -> Records:
    """The frames of a buffer as FRAME_DTYPE[n], each held against its own rules; not against the one before.

    buffer: frames of 128 bytes, back to back; the result is a view of it, read-only where the buffer is. offsets: where
    each frame begins, uint64[n], any order; the result is a copy.

    Raises FrameError naming the first bad frame and its field, and ValueError for a buffer that is not whole frames, or
    an offset outside.

    >>> from coord import DecisionFrame
    >>> frames = decode_frames(DecisionFrame(tick=4).encode() + DecisionFrame(frame_id=1, tick=9).encode())
    >>> frames["tick"].tolist()
    [4, 9]
    """
    data, places = _input("decode_frames", buffer, offsets)
    found = _first_fault(data, places, False, None, None)
    if found is not None:
        raise FrameError(str(found))
    if places is None:
        return data.view(FRAME_DTYPE)
    rows = np.lib.stride_tricks.as_strided(data, (max(0, len(data) - 127), 128), (1, 1), writeable=False)
    return np.ascontiguousarray(rows[places]).view(FRAME_DTYPE).reshape(-1)


def check_chain(
    buffer: Buffer,
    *,
    offsets: npt.ArrayLike | None = None,
    frame_id: int | None = None,
    prev_digest: bytes | None = None,
) -> FrameFault | None:
    """The first frame of a buffer that breaks a rule, by itself or as the next one of its chain; None without one.

    A chain: frame ids grow by 1, and each `prev_digest` is the first 16 bytes of BLAKE3 of the frame before.

    buffer, offsets: as `decode_frames`; with offsets the frames follow in their order. frame_id, prev_digest: what the
    first frame must hold, 16 bytes of digest; both or neither. Without them it is taken at its word, but frame 0 has no
    frame before it, so its `prev_digest` must be zeros.

    Raises ValueError for a buffer that is not whole frames, an offset outside, or a digest of another length.

    >>> from coord import DecisionFrame
    >>> first = DecisionFrame(tick=4)
    >>> second = DecisionFrame(frame_id=1, tick=9, prev_digest=first.digest())
    >>> check_chain(first.encode() + second.encode()) is None
    True
    >>> print(check_chain(second.encode() + first.encode()))
    frame at index 1: frame_id: expected 2, got 0
    """
    data, places = _input("check_chain", buffer, offsets)
    if (frame_id is None) != (prev_digest is None):
        raise ValueError("check_chain: expected frame_id and prev_digest, or neither of them")
    if prev_digest is not None and len(prev_digest) != 16:
        raise ValueError(f"check_chain: prev_digest must be 16 bytes, got {len(prev_digest)}")
    if frame_id is not None and not 0 <= frame_id < 1 << 64:
        raise ValueError(f"check_chain: frame_id must be from 0 to 2^64 - 1, got {frame_id}")
    return _first_fault(data, places, True, frame_id, prev_digest)


def _input(who: str, buffer: Buffer, offsets: npt.ArrayLike | None) -> tuple[npt.NDArray[np.uint8], Offsets | None]:
    data: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)
    if offsets is None:
        if len(data) % 128:
            raise ValueError(f"{who}: buffer must be whole frames of 128 bytes, got {len(data)} bytes")
        return data, None
    given = np.asarray(offsets)
    if given.ndim != 1 or (len(given) and given.dtype.kind not in "ui"):
        raise ValueError(f"{who}: offsets must be whole numbers [n], got {given.dtype}{list(given.shape)}")
    outside = (given < 0) | (given > len(data) - 128)
    if outside.any():
        worst = int(given[outside][0])
        raise ValueError(f"{who}: offsets must leave 128 bytes of the buffer's {len(data)}, got {worst}")
    return data, np.ascontiguousarray(given, np.uint64)


def _first_fault(
    data: npt.NDArray[np.uint8], places: Offsets | None, chained: bool, number: int | None, prev: bytes | None
) -> FrameFault | None:
    count = len(data) // 128 if places is None else len(places)
    if count and chained and number is None:
        at = 0 if places is None else int(places[0])
        if not data[at + 8 : at + 16].any():
            number, prev = 0, bytes(16)
    last = np.frombuffer(prev or bytes(16), np.uint8).copy()
    index, code = backend.check_frames(data, places, chained, number is not None, number or 0, last)
    if code == 0:
        return None
    # The kernel names the frame and the rule; what was expected and what came is read here, from that frame alone.
    frame = _bytes_of(data, places, index)
    told = frame_chain_ref.own_fault(frame)
    if told is None:
        before = _bytes_of(data, places, index - 1) if index else b""
        expected = int.from_bytes(before[8:16], "little") + 1 & 0xFFFFFFFFFFFFFFFF if index else number or 0
        told = frame_chain_ref.chain_fault(frame, expected, last.tobytes())
    assert told is not None, "the kernel and its twin read one frame differently"
    assert told[0] == code, "the kernel and its twin name different rules"
    return FrameFault(index, frame_chain_ref.FIELDS[code], told[1], told[2])


def _bytes_of(data: npt.NDArray[np.uint8], places: Offsets | None, index: int) -> bytes:
    at = 128 * index if places is None else int(places[index])
    return data[at : at + 128].tobytes()


__all__ = ["FRAME_DTYPE", "FrameFault", "check_chain", "decode_frames"]
