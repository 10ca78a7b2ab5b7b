"""The twin of storage/kernels/selftest.cpp: the digests that every build must print."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from storage import event_batch_ref, hash_ref, xxh3_ref
from storage.event import Event

_MASK = (1 << 64) - 1
_FNV_OFFSET = 0xCBF29CE484222325
_WIDTHS = (1, 41, 54, 55, 62, 63, 64, 118, 119, 127, 200)
_SIZES = (0, 1, 63, 64, 65, 127, 128, 129, 256, 1000, 1023, 1024)
_TREE_SIZES = (
    1025, 0, 2048, 2049, 3, 3072, 4096, 5000, 64, 8192, 8193, 1024,
    7167, 9000, 1, 310, 16384, 311, 2047, 17408, 65, 20000, 4097, 6144,
)  # fmt: skip
_XXH3_SIZES = (960, 1023, 1024, 1025, 1088, 1089, 2000, 2047)
_EFFECTS = (0, 1, 255, 256, 300, 65535, 65536, 31)
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789._-abcdefghijklmnopqrstuvwxyz"


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


def _bytes(seed: int, size: int) -> bytes:
    generator = _split_mix(seed)
    return bytes(next(generator) >> 56 for _ in range(size))


def _trees() -> dict[str, int]:
    data = _bytes(0x7472656573, 20000 + len(_TREE_SIZES))
    ids = b"".join(hash_ref.blake3_derive(data[:24], data[i : i + n]) for i, n in enumerate(_TREE_SIZES))
    total = event_batch_ref.fingerprint(data[:32], bytes(32), data[32 : 32 + 40 * 300], 40)
    return {"storage.derive_trees": _fnv1a(ids), "storage.fingerprint": _fnv1a(total)}


def _events() -> dict[str, int]:
    generator = _split_mix(0x6576656E7473)
    data = bytes(next(generator) >> 56 for _ in range(70000))
    digest = _FNV_OFFSET
    for i in range(64):
        x, y = next(generator), next(generator)
        wall = y >> 1 >> (i % 63)
        event = Event(
            producer=_NAME[: 1 + i],
            effect=data[: _EFFECTS[i % 8]],
            kind=_NAME[: 64 - i],
            parents=tuple(bytes((p,)) + data[32 * p + 1 : 32 * p + 32] for p in range(i % 17)),
            sequence=x >> i,
            schema=(x & 0xFFFFFFFF) >> (i % 32),
            tick=y >> (63 - i),
            wall_ns=(-1 - wall if i % 2 else wall) if i % 3 else None,
        )
        written = event.encode()
        assert Event.decode(written) == event
        digest = _fnv1a(b"\0", _fnv1a(written, _fnv1a(written, digest)))  # written, read and written again, refused
    return {"storage.events": digest}


def digests() -> dict[str, str]:
    """Name of each kernel → 16 hex digits.

    >>> len(digests())
    16
    """
    generator = _split_mix(0x73746F72616765)
    data = bytes(next(generator) >> 56 for _ in range(2048))
    chunks = b"".join(hash_ref.blake3_derive(data[:24], data[i : i + n]) for i, n in enumerate(_SIZES))
    leaves = b"".join(hash_ref.leaf_hashes(data[: 7 * width], width) for width in _WIDTHS)
    nodes = hash_ref.node_hashes(data[: 9 * 64])
    size, frontier, grown, roots = 0, b"", _FNV_OFFSET, b""
    for n in range(1, 21):
        frontier = hash_ref.frontier_extend(size, frontier, data[size : size + 32 * n])
        size += n
        grown = _fnv1a(frontier, grown)
        roots += hash_ref.frontier_root(frontier)
    walked = _FNV_OFFSET
    for n in range(1, 21):
        for index, count in product(range(n), range(7)):
            root = hash_ref.inclusion_root(index, n, data[n : n + 32], data[32 * index : 32 * (index + count)])
            if root is not None:
                walked = _fnv1a(root + b"\1", walked)
    crc = b"".join(hash_ref.crc32c(data[i : i + i * i]).to_bytes(4, "little") for i in range(40))
    sha = {
        "storage.leaf_hashes": _fnv1a(leaves),
        "storage.node_hashes": _fnv1a(nodes),
        "storage.inclusion_root": walked,
        "storage.frontier_extend": grown,
        "storage.frontier_root": _fnv1a(roots),
    }
    out = {"storage.derive_chunks": _fnv1a(chunks), **_trees(), **_events(), **sha}
    out.update({f"{name}_portable": digest for name, digest in sha.items()})
    out["storage.crc32c"] = _fnv1a(crc)
    hashed = [data[i : 2 * i] for i in range(300)] + [data[:size] for size in _XXH3_SIZES]
    out["storage.xxh3"] = _fnv1a(b"".join(xxh3_ref.xxh3(some).to_bytes(8, "little") for some in hashed))
    return {name: f"{digest:016x}" for name, digest in out.items()}
