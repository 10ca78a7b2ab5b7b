"""The twins of the kernels: SHA-256 through hashlib, BLAKE3 and CRC-32C written out in Python.

Slow, readable, and the definition of what the kernels return.
"""

from __future__ import annotations

import struct

CHUNK_BYTES = 1024  # of a BLAKE3 chunk: an input of at most one needs no tree
CONTEXT = b"droveway ledger event v1"

_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT, _KEYED, _CONTEXT_FLAG, _MATERIAL_FLAG = 1, 2, 4, 8, 16, 32, 64
_MASK = 0xFFFFFFFF


def sha256(data: bytes) -> bytes:
    """SHA-256. hashlib brings OpenSSL, 4 MB, which the kernels do without: it is imported where a twin needs it."""
    import hashlib

    return hashlib.sha256(data).digest()


def _rotate_right(x: int, n: int) -> int:
    return (x >> n | x << (32 - n)) & _MASK


def _compress(key: tuple[int, ...], block: bytes, counter: int, flags: int) -> tuple[int, ...]:
    """The BLAKE3 compression function (BLAKE3 paper, section 2.2), truncated to 8 words."""
    message = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    state = [*key, *_IV[:4], counter & _MASK, counter >> 32, len(block), flags]
    for _ in range(7):
        for pair, (a, b, c, d) in enumerate(_QUARTERS):
            for word, (r1, r2) in zip(message[2 * pair : 2 * pair + 2], ((16, 12), (8, 7)), strict=True):
                state[a] = (state[a] + state[b] + word) & _MASK
                state[d] = _rotate_right(state[d] ^ state[a], r1)
                state[c] = (state[c] + state[d]) & _MASK
                state[b] = _rotate_right(state[b] ^ state[c], r2)
        message = [message[i] for i in _PERMUTATION]
    return tuple(state[i] ^ state[i + 8] for i in range(8))


def _chunk(key: tuple[int, ...], data: bytes, flags: int, counter: int = 0, root: int = _ROOT) -> tuple[int, ...]:
    """The chaining value of a chunk (section 2.4)."""
    blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        first = _CHUNK_START if i == 0 else 0
        last = _CHUNK_END | root if i == len(blocks) - 1 else 0
        key = _compress(key, block, counter, flags | first | last)
    return key


def _tree(key: tuple[int, ...], values: list[tuple[int, ...]], flags: int, root: int = _ROOT) -> tuple[int, ...]:
    """The value over those of the chunks (section 2.1): the left half is the largest power of two below them all."""
    if len(values) == 1:
        return values[0]
    split = 1 << ((len(values) - 1).bit_length() - 1)
    halves = _tree(key, values[:split], flags, 0) + _tree(key, values[split:], flags, 0)
    return _compress(key, struct.pack("<16I", *halves), 0, flags | _PARENT | root)


def _blake3(key: tuple[int, ...], data: bytes, flags: int) -> bytes:
    if len(data) <= CHUNK_BYTES:
        return struct.pack("<8I", *_chunk(key, data, flags))
    starts = range(0, len(data), CHUNK_BYTES)
    chunks = [_chunk(key, data[at : at + CHUNK_BYTES], flags, i, 0) for i, at in enumerate(starts)]
    return struct.pack("<8I", *_tree(key, chunks, flags))


def blake3_derive(context: bytes, data: bytes) -> bytes:
    """BLAKE3 in derive-key mode; 32 bytes. The context has at most 1,024 bytes.

    >>> blake3_derive(CONTEXT, b"").hex()
    '830ce420684be140695355482e0424cb2a9072996bc6a081328d252e59c6dd0b'
    """
    assert len(context) <= CHUNK_BYTES
    return _blake3(_chunk(_IV, context, _CONTEXT_FLAG), data, _MATERIAL_FLAG)


def blake3_keyed_chunk(key: bytes, data: bytes) -> bytes:
    """BLAKE3 of at most 1,024 bytes under a key of 32 bytes; 32 bytes."""
    assert len(data) <= CHUNK_BYTES
    return _blake3(struct.unpack("<8I", key), data, _KEYED)


def event_id(data: bytes) -> bytes:
    """The 32-byte id of event bytes; above one chunk by the blake3 package, as the twin takes a second a megabyte."""
    if len(data) <= CHUNK_BYTES:
        return blake3_derive(CONTEXT, data)
    import blake3

    return blake3.blake3(data, derive_key_context=CONTEXT.decode()).digest()


def event_ids(events: list[bytes]) -> bytes:
    """32 bytes for each event: its BLAKE3 id."""
    return b"".join(map(event_id, events))


def leaf_hashes(records: bytes, width: int) -> bytes:
    """SHA256(0x00 ‖ record) for each `width` bytes of `records`, 32 bytes each.

    >>> leaf_hashes(b"L123456", 7).hex()
    '395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56'
    """
    return b"".join(sha256(b"\0" + records[i : i + width]) for i in range(0, len(records), width))


def node_hashes(pairs: bytes) -> bytes:
    """SHA256(0x01 ‖ left ‖ right) for each 64 bytes of `pairs`, 32 bytes each."""
    return b"".join(sha256(b"\1" + pairs[i : i + 64]) for i in range(0, len(pairs), 64))


def frontier_extend(size: int, frontier: bytes, leaves: bytes) -> bytes:
    """The frontier after appending leaf hashes (32 bytes each) to a tree of `size` leaves.

    A frontier is the hashes of the complete subtrees, largest first: one for each 1 bit of the size.
    """
    stack = [frontier[i : i + 32] for i in range(0, len(frontier), 32)]
    for i in range(0, len(leaves), 32):
        stack.append(leaves[i : i + 32])
        carry = size
        while carry & 1:
            right, left = stack.pop(), stack.pop()
            stack.append(node_hashes(left + right))
            carry >>= 1
        size += 1
    return b"".join(stack)


def frontier_root(frontier: bytes) -> bytes:
    """The root over a frontier: its hashes joined from the smallest subtree to the largest.

    >>> frontier_root(b"").hex()
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    if not frontier:
        return sha256(b"")
    root = frontier[-32:]
    for i in range(len(frontier) - 64, -1, -32):
        root = node_hashes(frontier[i : i + 32] + root)
    return root


def inclusion_root(index: int, size: int, leaf: bytes, proof: bytes) -> bytes | None:
    """The root that a proof, hashes of 32 bytes joined, leads to from a leaf hash (RFC 9162 section 2.1.3.2).

    None where it has too few or too many hashes. Raises ValueError unless index < size.
    """
    if not 0 <= index < size:
        raise ValueError("inclusion_root: index must be below size")
    if len(leaf) != 32 or len(proof) % 32:
        raise ValueError("inclusion_root: leaf and proof are hashes of 32 bytes")
    fn, sn, r = index, size - 1, leaf
    for at in range(0, len(proof), 32):
        p = proof[at : at + 32]
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            r = node_hashes(p + r)
            while fn != 0 and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hashes(r + p)
        fn, sn = fn >> 1, sn >> 1
    return r if sn == 0 else None


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli, reflected) of `data`.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = _MASK
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _MASK
