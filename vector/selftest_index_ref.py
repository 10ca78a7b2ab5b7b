"""Twin of the self-test of indexes (vector/kernels/selftest_index.cpp)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.selftest_ref import fnv1a, splitmix64, values
from vector import encoder_ref, rotation_ref, score_ref
from vector.nibbles import BLOCK_ROWS, lanes_of

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

NOWHERE = 2**32 - 1
_NAMES = ("rotate", "encode_rows", "encode_queries", "scan", "id_table")


@dataclass(frozen=True)
class _Case:
    padded: int
    d: int
    n: int
    first: int
    nq: int
    k: int
    unit_norm: bool = False
    l2: bool = False
    wide: bool = False  # values over 32 orders of magnitude


_CASES = (
    _Case(64, 1, 37, 0, 3, 5),
    _Case(128, 100, 150, 5, 20, 10),
    _Case(192, 190, 70, 31, 7, 70, unit_norm=True, wide=True),
    _Case(256, 256, 129, 16, 4, 9, l2=True),
    _Case(1024, 1000, 33, 0, 5, 4, l2=True, wide=True),
    _Case(4160, 4100, 18, 2, 5, 3),
    _Case(64, 63, 700, 0, 5, 150),  # more than a heap holds
)


@dataclass
class _Source:
    """splitmix64, a few words at a time."""

    seed: int
    taken: int = 0
    parts: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _NAMES})

    def words(self, n: int) -> U64:
        self.taken += n
        return splitmix64((self.seed + (self.taken - n) * 0x9E3779B97F4A7C15) % 2**64, n)

    def vectors(self, n: int, d: int, wide: bool) -> F32:
        if wide:
            seed = (self.seed + self.taken * 0x9E3779B97F4A7C15) % 2**64
            self.taken += n * d
            return values(seed, n * d, np.dtype(np.float32)).reshape(n, d)
        mantissa = (self.words(n * d) >> np.uint64(40)).astype(np.int64) - (1 << 23)
        return (mantissa.astype(np.float32) * np.float32(2.0**-20)).reshape(n, d)

    def permutation(self, n: int) -> list[int]:
        entries = list(range(n))
        for i, word in zip(range(n - 1, 0, -1), self.words(n - 1).tolist(), strict=True):
            j = word % (i + 1)
            entries[i], entries[j] = entries[j], entries[i]
        return entries


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of each kernel of indexes, by name."""
    parts: dict[str, list[Any]] = {name: [] for name in _NAMES}
    for case in _CASES:
        for name, part in _run(case).items():
            parts[name] += part
    return {f"vector.{name}": fnv1a(iter(part)) for name, part in parts.items()}


def _run(c: _Case) -> dict[str, list[Any]]:
    source = _Source(0x696E646578 + c.padded + c.d)
    parts = source.parts
    order = np.array([source.permutation(c.padded) for _ in range(2)], np.uint32)
    signs = (source.words(2 * c.padded).astype(np.uint32) & np.uint32(0x80000000)).reshape(2, c.padded)
    x, q = source.vectors(c.n, c.d, c.wide), source.vectors(c.nq, c.d, c.wide)
    x[3], q[1], x[9] = 0, 0, x[11]

    padded = np.zeros((c.n, c.padded), np.float32)
    padded[:, : c.d] = x
    turned = rotation_ref.rotate(padded, order, signs)
    back = rotation_ref.unrotate(turned, order, signs)
    parts["rotate"].append(np.stack([turned.reshape(-1)[::17], back.reshape(-1)[::17]], axis=1))

    limits = np.arange(-7, 8).astype(np.float32) * np.float32(0.3125) / np.float32(16 if c.padded < 1024 else 64)
    rows, places = c.first + c.n, (c.first + c.n + 63) // 64 * 64
    ids = source.words(places) >> np.uint64(3)
    encoded = encoder_ref.encode(x, order, signs, limits, c.unit_norm)
    codes = np.zeros((places, c.padded), np.uint8)
    columns = {name: np.zeros(places, np.float32) for name in ("scales", "scales_high", "norms2")}
    for first in (0, c.first):
        codes[first : first + c.n] = encoded.codes
        for name, column in columns.items():
            column[first : first + c.n] = getattr(encoded, name)
    lanes = lanes_of(codes).reshape(places // BLOCK_ROWS, BLOCK_ROWS, c.padded // 64, 8, 4)
    parts["encode_rows"] += [lanes.transpose(0, 2, 3, 1, 4), *columns.values()]

    quantised, scales, norms2 = encoder_ref.quantise(q, order, signs)
    parts["encode_queries"] += [quantised, scales, norms2]

    allowed = source.words(places // 32).astype(np.uint32)
    mask = (allowed[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).astype(np.bool_).reshape(-1)[:rows]
    acc = score_ref.products(codes[:rows], quantised)
    key = score_ref.keys(acc, columns["scales"][:rows], columns["norms2"][:rows] if c.l2 else None, scales)
    for nq in (1, c.nq, 1, c.nq):  # for one shard, then for three
        for used in (np.ones(rows, np.bool_), mask):
            best = [score_ref.best(key[i, used], ids[:rows][used], c.k) for i in range(nq)]
            parts["scan"] += [np.stack([keys for keys, _ in best]), np.stack([found for _, found in best])]
    parts["id_table"] += _id_table(ids, rows)
    return parts


def _id_table(ids: U64, rows: int) -> list[Any]:
    slots = {int(ids[slot]): slot for slot in range(rows - 1)}
    for slot in range(0, rows, 3):
        slots.pop(int(ids[slot]), None)
    slots[int(ids[1])] = 0
    ids = ids.copy()
    ids[0] = ids[1]
    found = [slots.get(int(i), NOWHERE) for i in ids[:rows]]
    return [np.array([rows - 1, 0], np.uint64), np.array(found, np.uint32)]
