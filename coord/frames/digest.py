"""input_digest: 16 bytes that pin everything a plan was made from (coord records, rings, grid)."""

from __future__ import annotations

import struct

import numpy as np
from blake3 import blake3

from coord.ground.rings import Rings
from coord.records import Records

CONTEXT = "droveway coord inputs v1"


def sorted_by_id(records: Records) -> Records:
    """The records ascending by id; the same array where it is sorted already."""
    ids = records["id"]
    if len(ids) < 2 or bool((ids[1:] > ids[:-1]).all()):
        return records
    return records[np.argsort(ids, kind="stable")]


def input_digest(
    agents: Records, zones: Records, obstacles: Records, kernels: Records, rings: Rings, grid: bytes
) -> bytes:
    """First 16 bytes of BLAKE3 in derive-key mode, over six u32 counts, the four arrays ascending by id, the ring
    table, the ring points and the grid's bytes (`grid` is empty without one)."""
    tables = [sorted_by_id(records) for records in (agents, zones, obstacles, kernels)]
    hasher = blake3(derive_key_context=CONTEXT)
    hasher.update(struct.pack("<6I", *(len(t) for t in tables), len(rings), len(grid)))
    for table in tables:
        hasher.update(np.ascontiguousarray(table).view(np.uint8).data)
    hasher.update(np.ascontiguousarray(rings.table).tobytes())
    hasher.update(np.ascontiguousarray(rings.points).tobytes())
    hasher.update(grid)
    return hasher.digest(16)
