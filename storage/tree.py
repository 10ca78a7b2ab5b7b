"""The Merkle tree of RFC 6962 and RFC 9162: leaves, frontier, roots, proofs and their verification. Pure functions.

Written in docs/formats/tree.md. A *frontier* is the hashes of the complete subtrees of a tree, largest first, 32
bytes each: one for each 1 bit of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from storage import hash_ref, hashing

HASH_BYTES = 32
LEAF_BYTES = 41
LEAF_VERSION = 1
EMPTY_ROOT = hashing.EMPTY_ROOT  # SHA-256 of nothing
PROOF_HASHES_MAX = 63

# (level, index) → hash of the complete subtree over the leaves [index << level, (index + 1) << level)
HashAt = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Head:
    """What a ledger has come to: the number of events and the Merkle root over them, 32 bytes."""

    size: int
    root: bytes


def leaf(event_id: bytes, event_bytes: int) -> bytes:
    """The 41-byte leaf of an event: version 1, id, length of the event as u64 big-endian.

    >>> record = leaf(bytes(32), 300)
    >>> len(record), record[0], record[-8:].hex()
    (41, 1, '000000000000012c')
    """
    return bytes([LEAF_VERSION]) + event_id + event_bytes.to_bytes(8, "big")


def leaf_hash(record: bytes) -> bytes:
    """SHA256(0x00 ‖ record).

    >>> leaf_hash(b"").hex()
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'
    """
    return hashing.leaf_hash(record)


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA256(0x01 ‖ left ‖ right).

    >>> node_hash(b"N123", b"N456").hex()
    'aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb'
    """
    return hashing.node_hash(left, right)


def frontier_extend(size: int, frontier: bytes, leaves: bytes) -> bytes:
    """The frontier after appending leaf hashes (32 bytes each, joined) to a tree of `size` leaves.

    Raises ValueError for a frontier of another size, and for leaves that are not whole.

    >>> a, b = leaf_hash(b"a"), leaf_hash(b"b")
    >>> frontier_extend(1, a, b) == node_hash(a, b)
    True
    """
    if len(frontier) != HASH_BYTES * size.bit_count():
        raise ValueError(f"frontier_extend: {size} leaves need {size.bit_count()} hashes, got {len(frontier)} bytes")
    if len(leaves) % HASH_BYTES:
        raise ValueError(f"frontier_extend: leaves must be 32 bytes each, got {len(leaves)} bytes")
    return hashing.frontier_extend(size, frontier, leaves)


def frontier_root(frontier: bytes) -> bytes:
    """The root over a frontier; the hash of nothing for an empty one.

    >>> frontier_root(b"") == EMPTY_ROOT
    True
    """
    if len(frontier) % HASH_BYTES:
        raise ValueError(f"frontier_root: hashes have 32 bytes each, got {len(frontier)} bytes")
    return hashing.frontier_root(frontier)


def root_of_leaves(leaves: bytes) -> bytes:
    """The root over leaf hashes, 32 bytes each, joined.

    >>> a, b, c = leaf_hash(b"a"), leaf_hash(b"b"), leaf_hash(b"c")
    >>> root_of_leaves(a + b + c) == node_hash(node_hash(a, b), c)
    True
    """
    while len(leaves) % (2 * HASH_BYTES) == 0 and leaves:
        leaves = hashing.node_hashes(leaves)  # of an even number every two have their own node
    return frontier_root(frontier_extend(0, b"", leaves))


def frontier_at(size: int, hash_at: HashAt) -> bytes:
    """The frontier of the first `size` leaves of a larger tree.

    >>> leaves = [leaf_hash(b"a"), leaf_hash(b"b")]
    >>> frontier_at(1, lambda level, index: leaves[index]) == leaves[0]
    True
    """
    hashes, start = [], 0
    for level in range(size.bit_length() - 1, -1, -1):
        if size >> level & 1:
            hashes.append(hash_at(level, start >> level))
            start += 1 << level
    return b"".join(hashes)


def range_hash(start: int, stop: int, hash_at: HashAt) -> bytes:
    """The hash over the leaves [start, stop), start being a multiple of the power of two >= stop - start."""
    hashes = []
    for level in range((stop - start).bit_length() - 1, -1, -1):
        if (stop - start) >> level & 1:
            hashes.append(hash_at(level, start >> level))
            start += 1 << level
    return frontier_root(b"".join(hashes))


def _split(n: int) -> int:
    """The largest power of two below n > 1."""
    return 1 << ((n - 1).bit_length() - 1)


def inclusion_proof(index: int, size: int, hash_at: HashAt) -> list[bytes]:
    """The hashes, leaf to root, that prove leaf `index` in the tree of `size` leaves (RFC 9162 section 2.1.3.1).

    Raises ValueError unless index < size.

    >>> leaves = [leaf_hash(b"a"), leaf_hash(b"b")]
    >>> inclusion_proof(0, 2, lambda level, index: leaves[index]) == [leaves[1]]
    True
    """
    if not 0 <= index < size:
        raise ValueError(f"inclusion_proof: index must be in [0, {size}), got {index}")
    proof, at, last, level = [], index, size - 1, 0
    while last:
        sibling = at ^ 1
        if sibling < last or (sibling == last and (last + 1) << level <= size):
            proof.append(hash_at(level, sibling))
        elif sibling == last:
            proof.append(range_hash(last << level, size, hash_at))
        at, last, level = at >> 1, last >> 1, level + 1
    return proof


def consistency_proof(m: int, n: int, hash_at: HashAt) -> list[bytes]:
    """The hashes that prove the tree of m leaves a prefix of the tree of n leaves (RFC 9162 section 2.1.4.1).

    Raises ValueError unless 0 < m <= n; the proof of m = n is empty.

    >>> leaves = [leaf_hash(b"a"), leaf_hash(b"b")]
    >>> consistency_proof(1, 2, lambda level, index: leaves[index]) == [leaves[1]]
    True
    """
    if not 0 < m <= n:
        raise ValueError(f"consistency_proof: sizes must satisfy 0 < m <= n, got {m} and {n}")
    proof, start, stop = [], 0, n
    while m != stop:
        middle = start + _split(stop - start)
        if m <= middle:
            proof.append(range_hash(middle, stop, hash_at))
            stop = middle
        else:
            proof.append(range_hash(start, middle, hash_at))
            start = middle
    if start:
        proof.append(range_hash(start, stop, hash_at))
    return proof[::-1]


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows the leaf hash `leaf` at `index` of the tree (size, root) (RFC 9162 section 2.1.3.2).

    >>> a, b = leaf_hash(b"a"), leaf_hash(b"b")
    >>> verify_inclusion(0, 2, a, [b], node_hash(a, b)), verify_inclusion(1, 2, a, [b], node_hash(a, b))
    (True, False)
    """
    if not 0 <= index < size or not _well_formed(proof, leaf, root):
        return False
    walk = hashing.inclusion_root if size < 1 << 64 else hash_ref.inclusion_root
    return walk(index, size, leaf, b"".join(proof)) == root


def verify_consistency(m: int, n: int, root_m: bytes, root_n: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows the tree (m, root_m) a prefix of (n, root_n) (RFC 9162 section 2.1.4.2).

    False for m = 0: callers treat the empty tree first (empty proof, root of the empty tree).

    >>> a, b = leaf_hash(b"a"), leaf_hash(b"b")
    >>> verify_consistency(1, 2, a, node_hash(a, b), [b]), verify_consistency(1, 2, b, node_hash(a, b), [b])
    (True, False)
    """
    if not 0 < m <= n or not _well_formed(proof, root_m, root_n):
        return False
    if m == n:
        return not proof and root_m == root_n
    if not proof:
        return False
    if m & (m - 1) == 0:
        proof = [root_m, *proof]
    fn, sn = m - 1, n - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    a = b = proof[0]
    for c in proof[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            a, b = node_hash(c, a), node_hash(c, b)
            while fn != 0 and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            b = node_hash(b, c)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and a == root_m and b == root_n


def _well_formed(proof: Sequence[bytes], *hashes: bytes) -> bool:
    return len(proof) <= PROOF_HASHES_MAX and all(len(h) == HASH_BYTES for h in (*proof, *hashes))
