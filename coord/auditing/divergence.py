"""Divergence: one field of one decision that came out otherwise when it was made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coord.frames.inputs import record_differences
from coord.records import ROW_DTYPE

Records = npt.NDArray[np.void]
Place = tuple[int, int, int]  # rank, frame id, tick

FRAME_DTYPE = np.dtype(
    {
        "names": [
            "magic", "version", "flags", "frame_id", "tick", "config_hash", "input_digest", "rows_digest",
            "prev_digest", "agents", "zones", "assigned", "rejected", "conflicts", "stale_agents", "blocked_zones",
            "unsafe", "score_sum", "planner", "health", "reserved", "crc32c",
        ],
        "formats": [
            "V4", "<u2", "<u2", "<u8", "<u8", "<u8", "V16", "V16", "V16", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4",
            "<u4", "<u4", "<i8", "u1", "u1", "<u2", "<u4",
        ],
        "offsets": [0, 4, 6, 8, 16, 24, 32, 48, 64, 80, 84, 88, 92, 96, 100, 104, 108, 112, 120, 121, 122, 124],
        "itemsize": 128,
    }
)  # fmt: skip


class Divergence(NamedTuple):
    """Where a ledger and the decision made again differ.

    `field` is a field of the agent's row ("zone"), of the frame ("frame.score_sum", agent None), or of the inputs
    ("inputs.agents.x"; a zone's is "inputs.zones[7].x").
    """

    rank: int
    frame_id: int
    tick: int
    agent: int | None
    field: str
    expected: object
    got: object

    def __str__(self) -> str:
        who = "" if self.agent is None else f"agent {self.agent}: "
        place = f"frame {self.frame_id} (tick {self.tick}, rank {self.rank})"
        return f"{place}: {who}{self.field}: expected {self.expected}, got {self.got}"


def compare_rows(place: Place, expected: Records, got: Records) -> Iterator[Divergence]:
    """Differing fields of assignment rows, by agent; rows are paired by (agent, queue_index)."""
    rank, frame_id, tick = place
    keys_expected, keys_got = _keys(expected), _keys(got)
    if len(expected) == len(got) and bool((keys_expected == keys_got).all()):
        for _, agent, name, old, new in record_differences("rows", ROW_DTYPE, expected, got):
            yield Divergence(rank, frame_id, tick, agent, name, old, new)
        return
    for key in np.setdiff1d(keys_expected, keys_got):
        yield Divergence(rank, frame_id, tick, int(key >> np.uint64(32)), "row", "a row", "none")
    for key in np.setdiff1d(keys_got, keys_expected):
        yield Divergence(rank, frame_id, tick, int(key >> np.uint64(32)), "row", "none", "a row")
    if len(np.unique(keys_got)) != len(keys_got) or bool((keys_got[1:] < keys_got[:-1]).any()):
        yield Divergence(rank, frame_id, tick, None, "rows", "rows ascending by agent", "others")
        return
    both, first, second = np.intersect1d(keys_expected, keys_got, return_indices=True)
    if len(both):
        for _, agent, name, old, new in record_differences("rows", ROW_DTYPE, expected[first], got[second]):
            yield Divergence(rank, frame_id, tick, agent, name, old, new)


def _keys(rows: Records) -> npt.NDArray[np.uint64]:
    return rows["agent"].astype(np.uint64) << np.uint64(32) | rows["queue_index"].astype(np.uint64)


def compare_frames(place: Place, expected: np.void, got: np.void) -> Iterator[Divergence]:
    """Differing fields of two frames, in the order of their offsets."""
    rank, frame_id, tick = place
    for name in FRAME_DTYPE.names or ():
        a, b = expected[name].tobytes(), got[name].tobytes()
        if a != b:
            shown = (a.hex(), b.hex()) if len(a) in (4, 16) and FRAME_DTYPE[name].kind == "V" else (
                expected[name].item(), got[name].item())  # fmt: skip
            yield Divergence(rank, frame_id, tick, None, f"frame.{name}", *shown)
