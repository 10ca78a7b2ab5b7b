"""How many of the true neighbours an index finds, on real vectors and on awkward ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tensor.random import Key
from vector import TurboIndex, exact_search, recall_at_k


def recall(x: np.ndarray, queries: np.ndarray, metric: str = "ip") -> float:
    index = TurboIndex(x.shape[1], metric=metric)
    index.add(x)
    return recall_at_k(index.search(queries, 10)[1], exact_search(x, queries, 10, metric=metric)[1], 10)


@pytest.mark.parametrize(("name", "floor"), [("glove100_10k_sample", 0.88), ("wl256_4k_sample", 0.92)])
def test_real_vectors_are_found_among_a_thousand_queries_held_out(data: Callable[[str], Path], name: str, floor: float):
    x = np.load(data(f"embeddings/{name}.npy"))
    held_out = np.zeros(len(x), np.bool_)
    held_out[np.argsort(Key(1).uniform(len(x)).numpy(), kind="stable")[:1000]] = True
    assert recall(x[~held_out], x[held_out]) >= floor


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_lengths_and_distances_are_found_too(data: Callable[[str], Path], metric: str):
    x = np.load(data("embeddings/glove100_10k_sample.npy"))[:4000]
    x = x * (0.5 + Key(2).uniform((4000, 1)).numpy())
    assert recall(x[:3800], x[3800:], metric) >= 0.85


@pytest.mark.parametrize("d", [72, 100, 136, 200, 1000])
def test_sparse_and_ordered_coordinates_keep_their_recall_at_awkward_dimensions(d: int):
    """Blocks of 8 coordinates would lose rows of few non-zeros; without a permutation, coordinates in falling order."""
    n, queries = 1500, 100
    noise = Key(d).normal((n + queries, d)).numpy()
    sparse = noise * (Key(d + 1).uniform((n + queries, d)).numpy() < 8 / d)
    sparse[:, 0] += np.where((sparse == 0).all(axis=1), np.float32(1), np.float32(0))
    falling = noise / np.arange(1, d + 1, dtype=np.float32)
    for x, floor in ((sparse, 0.9), (falling, 0.9), (noise, 0.86)):
        unit = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
        assert recall(unit[:n], unit[n:], "cosine") >= floor


def test_rows_with_one_coordinate_find_their_equals():
    x = np.eye(100, dtype=np.float32)[np.arange(1000) % 100]
    index = TurboIndex(100)
    index.add(x)
    assert (index.search(x[:100], 10)[1] % 100 == np.arange(100)[:, None]).all()
