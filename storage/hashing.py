"""Hashes in batches: the kernels, or their twins when DROVEWAY_ISA=ref; long events through the blake3 package."""

from __future__ import annotations

import blake3

from storage import hash_ref

CONTEXT = hash_ref.CONTEXT.decode()
_CHUNK_BYTES = hash_ref.CHUNK_BYTES
_kernels = hash_ref


def event_id(data: bytes) -> bytes:
    """The 32-byte id of event bytes.

    >>> event_id(b"").hex()
    '830ce420684be140695355482e0424cb2a9072996bc6a081328d252e59c6dd0b'
    """
    return blake3.blake3(data, derive_key_context=CONTEXT).digest()


def event_ids(events: list[bytes]) -> list[bytes]:
    """The ids of a batch of event bytes, in one call of the kernel."""
    return [event_id(e) for e in events]


leaf_hashes = _kernels.leaf_hashes
node_hashes = _kernels.node_hashes
frontier_extend = _kernels.frontier_extend
frontier_root = _kernels.frontier_root
crc32c = _kernels.crc32c
