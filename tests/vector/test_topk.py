"""The total order, and merging in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vector import VectorValueError
from vector.topk import merge_top_k, top_k

SCORED = st.lists(st.integers(-3, 3), max_size=60)


@settings(max_examples=100, deadline=None)
@given(values=SCORED, k=st.integers(0, 70), shards=st.integers(1, 9), seed=st.integers(0, 99))
def test_shards_merged_in_any_order_are_the_whole(values: list[int], k: int, shards: int, seed: int):
    keys = np.array(values, np.float64)
    ids = np.random.default_rng(seed).permutation(len(values)).astype(np.uint64)
    expected = sorted(zip(keys.tolist(), ids.tolist(), strict=True), key=lambda row: (-row[0], row[1]))[:k]
    parts = [top_k(keys[s::shards], ids[s::shards], k) for s in range(shards)]
    for order in (parts, parts[::-1], [merge_top_k(parts[:2], k), *parts[2:]]):
        merged = merge_top_k(order, k)
        assert list(zip(merged[0].tolist(), merged[1].tolist(), strict=True)) == expected


def test_nothing_merges_to_nothing():
    assert [len(side) for side in merge_top_k([], 3)] == [0, 0]


def test_what_has_no_order_is_refused():
    ids = np.arange(2, dtype=np.uint64)
    with pytest.raises(VectorValueError, match=r"^top_k: keys must hold no NaN, got one at keys\[1\]$"):
        top_k(np.array([1, np.nan]), ids, 1)
    with pytest.raises(
        VectorValueError, match=r"^top_k: keys and ids must be as long as each other, got \(1,\) and \(2,\)$"
    ):
        top_k(np.array([1.0]), ids, 1)
