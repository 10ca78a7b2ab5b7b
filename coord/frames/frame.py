"""DecisionFrame: 128 bytes that pin one tick's decision, and its rows (docs/formats/decision-frame.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

import numpy as np
from blake3 import blake3

from coord.backend import crc32c
from coord.errors import FrameError
from coord.records import NO_ZONE, ROW_DTYPE, Records

DECISION_FRAME_BYTES = 128
FLAG_CLOCK_AHEAD = 1
FLAG_SCORE_SATURATED = 2
FLAG_WORK_BOUND = 4
_MAGIC = b"JDF1"
_VERSION = 1
_FRAME = struct.Struct("<4sHHQQQ16s16s16sIIIIIIIIqBBHI")
QUEUE_INDEX_MAX = 7
STATUS_MAX = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFrame:
    """One tick's decision in 128 bytes; digests are 16 bytes of BLAKE3, `rejected` counts statuses from 2 up.

    >>> DecisionFrame.decode(DecisionFrame(frame_id=3, tick=60).encode()).tick
    60
    """

    frame_id: int = 0
    tick: int = 0
    config_hash: int = 0
    input_digest: bytes = bytes(16)
    rows_digest: bytes = bytes(16)
    prev_digest: bytes = bytes(16)
    agents: int = 0
    zones: int = 0
    assigned: int = 0
    rejected: int = 0
    conflicts: int = 0
    stale_agents: int = 0
    blocked_zones: int = 0
    unsafe: int = 0
    score_sum: int = 0
    planner: int = 0
    health: int = 0
    flags: int = 0

    def encode(self) -> bytes:
        """The frame's 128 bytes; FrameError where a field does not fit or the counts contradict each other."""
        for name in ("input_digest", "rows_digest", "prev_digest"):
            if len(getattr(self, name)) != 16:
                raise FrameError(f"decision frame: {name} must be 16 bytes, got {len(getattr(self, name))}")
        _check_counts(self)
        try:
            body = _FRAME.pack(
                _MAGIC, _VERSION, self.flags, self.frame_id, self.tick, self.config_hash, self.input_digest,
                self.rows_digest, self.prev_digest, self.agents, self.zones, self.assigned, self.rejected,
                self.conflicts, self.stale_agents, self.blocked_zones, self.unsafe, self.score_sum, self.planner,
                self.health, 0, 0,
            )  # fmt: skip
        except struct.error as error:
            raise FrameError(f"decision frame: a field does not fit its type ({error})") from None
        return body[:124] + crc32c(body[:124]).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The frame in exactly 128 bytes; FrameError for bad length, magic, version, CRC, reserved bits or counts."""
        if len(data) != DECISION_FRAME_BYTES:
            raise FrameError(f"decision frame must be 128 bytes long, got {len(data)}")
        (magic, version, flags, frame_id, tick, config_hash, input_digest, rows_digest, prev_digest, agents, zones,
         assigned, rejected, conflicts, stale_agents, blocked_zones, unsafe, score_sum, planner, health, reserved,
         crc) = _FRAME.unpack(data)  # fmt: skip
        if magic != _MAGIC:
            raise FrameError(f"decision frame must start with b'JDF1', got {magic!r}")
        if version != _VERSION:
            raise FrameError(f"decision frame: version must be 1, got {version}")
        if crc != (expected := crc32c(data[:124])):
            raise FrameError(f"decision frame {frame_id}: crc32c must be {expected:08x}, got {crc:08x}")
        if reserved != 0:
            raise FrameError(f"decision frame {frame_id}: reserved must be 0, got {reserved}")
        frame = cls(
            frame_id=frame_id, tick=tick, config_hash=config_hash, input_digest=input_digest, rows_digest=rows_digest,
            prev_digest=prev_digest, agents=agents, zones=zones, assigned=assigned, rejected=rejected,
            conflicts=conflicts, stale_agents=stale_agents, blocked_zones=blocked_zones, unsafe=unsafe,
            score_sum=score_sum, planner=planner, health=health, flags=flags,
        )  # fmt: skip
        _check_counts(frame)
        return frame

    def digest(self) -> bytes:
        """First 16 bytes of BLAKE3 of the encoded frame: the next frame's prev_digest."""
        return blake3(self.encode()).digest(16)


def _check_counts(frame: DecisionFrame) -> None:
    who = f"decision frame {frame.frame_id}"
    if frame.assigned + frame.rejected > frame.agents:
        raise FrameError(
            f"{who}: assigned + rejected must be at most agents, "
            f"got {frame.assigned} + {frame.rejected} > {frame.agents}"
        )
    if frame.flags & ~7:
        raise FrameError(f"{who}: flags must have no bit above 2, got {frame.flags:#x}")
    if frame.planner > 4:
        raise FrameError(f"{who}: planner must be from 0 to 4, got {frame.planner}")
    if frame.health > 4:
        raise FrameError(f"{who}: health must be from 0 to 4, got {frame.health}")


def decision_frame_total_rows(frame: DecisionFrame) -> int:
    """Rows with queue_index 0: one an agent. Queued rows are not counted."""
    return frame.agents


def rows_digest(rows: Records) -> bytes:
    """First 16 bytes of BLAKE3 of all rows, which must lie sorted by (agent, queue_index)."""
    return blake3(np.ascontiguousarray(rows).tobytes()).digest(16)


def encode_frame_event(frame: DecisionFrame, rows: Records) -> bytes:
    """The effect bytes of a `coord.frame` event: the frame, then its rows.

    >>> rows = np.zeros(1, ROW_DTYPE)
    >>> frame = DecisionFrame(frame_id=3, tick=60, agents=1, assigned=1, rows_digest=rows_digest(rows))
    >>> data = encode_frame_event(frame, rows)
    >>> len(data), decode_frame_event(data)[0] == frame
    (160, True)
    """
    return frame.encode() + rows.tobytes()


def decode_frame_event(data: bytes) -> tuple[DecisionFrame, Records]:
    """Frame and rows of a `coord.frame` event; FrameError unless the rows are those that the frame pins.

    The rows must be whole, sorted, one with queue_index 0 for each agent, queues without gaps and of at most 8 rows,
    and their digest and counts those of the frame. Nothing is allocated before the claimed counts fit the length.
    """
    if len(data) < DECISION_FRAME_BYTES:
        raise FrameError(f"frame event must be at least 128 bytes long, got {len(data)}")
    frame = DecisionFrame.decode(bytes(data[:DECISION_FRAME_BYTES]))
    who = f"frame event {frame.frame_id}"
    size = len(data) - DECISION_FRAME_BYTES
    if size % ROW_DTYPE.itemsize:
        raise FrameError(f"{who}: rows must be a multiple of 32 bytes, got {size}")
    if size // ROW_DTYPE.itemsize < frame.agents:
        raise FrameError(f"{who}: {frame.agents} agents need as many rows, got {size // ROW_DTYPE.itemsize}")
    rows = np.frombuffer(data, ROW_DTYPE, offset=DECISION_FRAME_BYTES)
    check_rows(rows, who)
    if rows_digest(rows) != frame.rows_digest:
        raise FrameError(f"{who}: rows_digest must be {rows_digest(rows).hex()}, got {frame.rows_digest.hex()}")
    served = rows[rows["queue_index"] == 0]
    counts = {
        "agents": len(served),
        "assigned": int((served["status"] == 0).sum()),
        "rejected": int((served["status"] >= 2).sum()),
        "conflicts": int((served["status"] == 7).sum()),
        "stale_agents": int((served["status"] == 2).sum()),
        "unsafe": int((served["status"] == 6).sum()),
        "score_sum": int(served["score"][served["status"] == 0].sum(dtype=np.int64)),
    }
    for name, expected in counts.items():
        if getattr(frame, name) != expected:
            raise FrameError(f"{who}: {name} must be {expected} as the rows say, got {getattr(frame, name)}")
    return frame, rows


def check_rows(rows: Records, who: str) -> None:
    """FrameError naming agent and field unless the rows are well formed; see decode_frame_event."""
    if len(rows) == 0:
        return
    agent = rows["agent"].astype(np.int64)
    queue = rows["queue_index"].astype(np.int64)
    expected = np.zeros(len(rows), np.int64)
    same = agent[1:] == agent[:-1]
    expected[1:] = np.where(same, queue[:-1] + 1, 0)
    sorted_up = np.concatenate([[True], agent[1:] >= agent[:-1]])
    checks = (
        ("agent", ~sorted_up, "must ascend"),
        ("queue_index", (queue != expected) | (queue > QUEUE_INDEX_MAX), "must count up from 0 to at most 7"),
        ("status", (rows["status"] > STATUS_MAX) | (rows["status"] == 5), "must be 0 to 9 and not 5"),
        ("status", (queue > 0) & (rows["status"] != 0), "of a queued row must be 0"),
        ("zone", (rows["zone"] == NO_ZONE) != (rows["status"] != 0), "must be set exactly where status is 0"),
        ("score", (rows["status"] != 0) & (rows["score"] != 0), "must be 0 without a zone"),
        ("travel", (rows["status"] != 0) & (rows["travel"] != NO_ZONE), "must be 0xffffffff without a zone"),
        ("idle", (rows["status"] != 0) & (rows["idle"] != 0), "must be 0 without a zone"),
    )
    for field, bad, rule in checks:
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise FrameError(f"{who}: agent {int(agent[i])}: {field} {rule}, got {int(rows[field][i])}")
    zones = rows["zone"][rows["zone"] != NO_ZONE]
    unique, counts = np.unique(zones, return_counts=True)
    if (counts > 1).any():
        zone = int(unique[counts > 1][0])
        agents = agent[rows["zone"] == zone][:2].tolist()
        raise FrameError(f"{who}: agent {agents[1]}: zone {zone} is also agent {agents[0]}'s")
