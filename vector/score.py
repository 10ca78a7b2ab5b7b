"""Search: all allowed rows are scored by exact integers, and the best k of each query come back in the total order.

docs/search.md is the definition in words, `score_ref.py` in code.

key   = acc · scale, exact in float64, acc = Σ q_i · level_i in integers
        l2: fma(2·s_q, acc · scale, −‖v‖²), rounded once
order = key descending, then id ascending
score = key · s_q, for cosine divided by ‖q‖, for l2 key − ‖q‖² = −distance², rounded to float32 at the end
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import memory
from tensor.float_mode import plain_mode
from vector import _kernels, score_ref
from vector.encoder import Queries
from vector.nibbles import BLOCK_ROWS, codes_of_lanes, rows_of_blocks
from vector.row_store import Snapshot

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

REFERENCE = _kernels.isa() == "ref"
WORKSPACE_BYTES = 1 << 23  # of one scan, about: more queries take several
SHARDS_BYTES = 1 << 26  # of one scan for all its threads: a large k takes fewer shards
QUERIES_MAX = 4096
_NO_FACTOR, _NO_BITS = np.zeros(0), np.zeros(0, np.uint32)


def search(
    snapshot: Snapshot, padded: int, queries: Queries, metric: str, k: int, allowed: U32 | None
) -> tuple[F32, U64]:
    """float32[nq, k] scores, uint64[nq, k] ids. At least k rows are allowed (`allowed`: one bit a slot, None: all)."""
    nq = len(queries.values)
    scores: F32 = memory.allocate((nq, k), np.float32, "search scores")
    ids: U64 = memory.allocate((nq, k), np.uint64, "search ids")
    if k == 0:
        return scores, ids
    step = _queries_at_once(nq, k, padded)
    for start in range(0, nq, step):
        part = slice(start, start + step)
        chosen = Queries(queries.values[part], queries.scales[part], queries.norms2[part]) if step < nq else queries
        keys: F64 = memory.allocate((len(chosen.values), k), np.float64, "search keys")
        (_scan_by_twin if REFERENCE else _scan)(snapshot, padded, chosen, metric, allowed, keys, ids[part])
        with plain_mode():
            scores[part] = _scores(keys, chosen, metric)
    return scores, ids


def allowed_bits(allow: I64 | None, deny: I64 | None, rows: int) -> tuple[U32, int]:
    """uint32[…], one bit a slot, readable to a multiple of 64 slots, and how many are set.

    Set are the slots in `allow` (None: all) that are not in `deny`. Both may repeat slots, all of them below `rows`.

    >>> bits, count = allowed_bits(np.array([0, 33, 33]), np.array([1]), 40)
    >>> [hex(word) for word in bits], count
    (['0x1', '0x2'], 2)
    """
    bits = np.zeros((rows + 63) // 64 * 2, np.uint32)
    if allow is None:
        bits[: rows // 32] = 0xFFFFFFFF
        bits[rows // 32 : rows // 32 + 1] = (1 << rows % 32) - 1
    else:
        np.bitwise_or.at(bits, allow >> 5, _bit(allow))
    if deny is not None:
        np.bitwise_and.at(bits, deny >> 5, ~_bit(deny))
    return bits, int(np.bitwise_count(bits).sum())


def _bit(slots: I64) -> U32:
    return np.uint32(1) << (slots & 31).astype(np.uint32)


def _queries_at_once(nq: int, k: int, padded: int) -> int:
    """How many queries one scan takes: as many as fit the workspace, in whole groups."""
    step = min(nq, QUERIES_MAX)
    if REFERENCE:
        return max(1, min(step, 64))
    while step > 4 and _kernels.scan_workspace(step, k, padded, 1) > WORKSPACE_BYTES:
        step = max(4, step // 2)
    return max(1, step)


def _scan(
    snapshot: Snapshot, padded: int, queries: Queries, metric: str, allowed: U32 | None, keys: F64, ids: U64
) -> None:
    factor = 2.0 * queries.scales if metric == "l2" else _NO_FACTOR  # exact
    bits = _NO_BITS if allowed is None else allowed
    nq, k = keys.shape
    shards = _kernels.scan_shards(nq, snapshot.rows)
    while shards > 1 and _kernels.scan_workspace(nq, k, padded, shards) > SHARDS_BYTES:
        shards = (shards + 1) // 2
    arguments = (snapshot.segments, padded, queries.values, factor, shards, bits, keys, ids)
    if not memory.bounded():
        _kernels.scan(*arguments)
        return
    with memory.reserve(_kernels.scan_workspace(nq, k, padded, shards), "search workspace"):
        _kernels.scan(*arguments)


def _scan_by_twin(
    snapshot: Snapshot, padded: int, queries: Queries, metric: str, allowed: U32 | None, keys: F64, ids: U64
) -> None:
    """Segment after segment, each one's best joined with those before."""
    parts: list[list[tuple[F64, U64]]] = [[] for _ in keys]
    for codes, scales, norms2, own_ids, first, rows in snapshot.segments:
        blocks = codes.reshape(-1, padded // 64, 8, BLOCK_ROWS, 4)
        for start in range(0, rows, 64 * BLOCK_ROWS):
            stop = min(start + 64 * BLOCK_ROWS, rows)
            piece = rows_of_blocks(blocks[start // BLOCK_ROWS : -(-stop // BLOCK_ROWS)])[: stop - start]
            slots = np.arange(first + start, first + stop)
            used = np.ones(len(slots), np.bool_)
            if allowed is not None:
                used = (allowed[slots >> 5] >> (slots & 31).astype(np.uint32) & np.uint32(1)) == 1
            names = own_ids[start:stop] if len(own_ids) else slots.astype(np.uint64)
            with plain_mode():
                acc = score_ref.products(codes_of_lanes(piece), queries.values)
                squares = norms2[start:stop] if metric == "l2" else None
                key = score_ref.keys(acc, scales[start:stop], squares, queries.scales)
                for q, found in enumerate(parts):
                    found.append(score_ref.best(key[q, used], names[used], keys.shape[1]))
    for q, found in enumerate(parts):
        joined = np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
        keys[q], ids[q] = score_ref.best(*joined, keys.shape[1])


def _scores(keys: F64, queries: Queries, metric: str) -> F32:
    if metric == "l2":
        return (keys - queries.norms2[:, None]).astype(np.float32)
    products = keys * queries.scales[:, None]
    if metric == "cosine":
        norms = np.sqrt(queries.norms2)
        products = products / np.where(norms == 0, 1.0, norms)[:, None]
    return products.astype(np.float32)
