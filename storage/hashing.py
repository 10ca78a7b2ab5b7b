"""Hashes in batches: the kernels, or their twins with DROVEWAY_ISA=ref."""

from __future__ import annotations

from collections.abc import Callable

from storage import _kernels, hash_ref, xxh3_ref

_REFERENCE = _kernels.isa() == "ref"

EMPTY_ROOT = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
EMPTY_LEAF_HASH = bytes.fromhex("6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d")

leaf_hashes: Callable[[bytes, int], bytes] = hash_ref.leaf_hashes if _REFERENCE else _kernels.leaf_hashes
node_hashes: Callable[[bytes], bytes] = hash_ref.node_hashes if _REFERENCE else _kernels.node_hashes
crc32c: Callable[[bytes], int] = hash_ref.crc32c if _REFERENCE else _kernels.crc32c
xxh3: Callable[[bytes], int] = xxh3_ref.xxh3 if _REFERENCE else _kernels.xxh3
frontier_extend: Callable[[int, bytes, bytes], bytes] = (
    hash_ref.frontier_extend if _REFERENCE else _kernels.frontier_extend
)
inclusion_root: Callable[[int, int, bytes, bytes], bytes | None] = (
    hash_ref.inclusion_root if _REFERENCE else _kernels.inclusion_root
)


def frontier_root(frontier: bytes) -> bytes:
    """The root over a frontier, 32 bytes a hash; the hash of nothing for an empty one."""
    if not frontier:
        return EMPTY_ROOT
    root: bytes = hash_ref.frontier_root(frontier) if _REFERENCE else _kernels.frontier_root(frontier)
    return root


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA256(0x01 ‖ left ‖ right); the kernel where both are hashes."""
    pair = left + right
    return node_hashes(pair) if len(pair) == 64 else hash_ref.sha256(b"\1" + pair)


def leaf_hash(record: bytes) -> bytes:
    """SHA256(0x00 ‖ record)."""
    return leaf_hashes(record, len(record)) if record else EMPTY_LEAF_HASH


def event_id(data: bytes) -> bytes:
    """The 32-byte id of event bytes.

    >>> event_id(b"").hex()
    '830ce420684be140695355482e0424cb2a9072996bc6a081328d252e59c6dd0b'
    """
    return hash_ref.event_id(data) if _REFERENCE else _kernels.event_ids(hash_ref.CONTEXT, [data])


def event_ids(events: list[bytes]) -> list[bytes]:
    """The ids of a batch of event bytes, in one call of the kernel."""
    ids = hash_ref.event_ids(events) if _REFERENCE else _kernels.event_ids(hash_ref.CONTEXT, events)
    return [ids[at : at + 32] for at in range(0, len(ids), 32)]
