"""The twin of storage/kernels/selftest.cpp: the digests that every build must print."""

from __future__ import annotations

from collections.abc import Iterator

from storage import hash_ref

_MASK = (1 << 64) - 1
_FNV_OFFSET = 0xCBF29CE484222325
_WIDTHS = (1, 41, 54, 55, 62, 63, 64, 118, 119, 127, 200)
_SIZES = (0, 1, 63, 64, 65, 127, 128, 129, 256, 1000, 1023, 1024)


def _split_mix(state: int) -> Iterator[int]:
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        yield z ^ z >> 31


def _fnv1a(data: bytes, digest: int = _FNV_OFFSET) -> int:
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & _MASK
    return digest


def digests() -> dict[str, str]:
    """Name of each kernel → 16 hex digits.

    >>> len(digests())
    10
    """
    generator = _split_mix(0x73746F72616765)
    data = bytes(next(generator) >> 56 for _ in range(2048))
    chunks = b"".join(hash_ref.blake3_derive_chunk(data[:24], data[i : i + n]) for i, n in enumerate(_SIZES))
    leaves = b"".join(hash_ref.leaf_hashes(data[: 7 * width], width) for width in _WIDTHS)
    nodes = hash_ref.node_hashes(data[: 9 * 64])
    size, frontier, grown, roots = 0, b"", _FNV_OFFSET, b""
    for n in range(1, 21):
        frontier = hash_ref.frontier_extend(size, frontier, data[size : size + 32 * n])
        size += n
        grown = _fnv1a(frontier, grown)
        roots += hash_ref.frontier_root(frontier)
    crc = b"".join(hash_ref.crc32c(data[i : i + i * i]).to_bytes(4, "little") for i in range(40))
    sha = {
        "storage.leaf_hashes": _fnv1a(leaves),
        "storage.node_hashes": _fnv1a(nodes),
        "storage.frontier_extend": grown,
        "storage.frontier_root": _fnv1a(roots),
    }
    out = {"storage.derive_chunks": _fnv1a(chunks), **sha}
    out.update({f"{name}_portable": digest for name, digest in sha.items()})
    out["storage.crc32c"] = _fnv1a(crc)
    return {name: f"{digest:016x}" for name, digest in out.items()}
