"""Real rows are found again: word vectors and text embeddings, with queries that are no rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from vector import IdMapIndex, TurboIndex, exact_search, recall_at_k

SAMPLES = {"words": "embeddings/glove100_10k_sample.npy", "texts": "embeddings/wl256_4k_sample.npy"}
QUERIES, K = 1000, 10
FloatArray = npt.NDArray[np.float32]


def split(file: Path) -> tuple[FloatArray, FloatArray]:
    """(rows, 1,000 held-out queries), every tenth or fourth row a query."""
    every = np.load(file)
    step = len(every) // QUERIES
    held = np.arange(QUERIES) * step
    return np.ascontiguousarray(np.delete(every, held, axis=0)), np.ascontiguousarray(every[held])


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_of_the_true_ten_best_at_least_88_in_100_are_found(
    sample: str, metric: str, data: Callable[[str], Path]
) -> None:
    rows, queries = split(data(SAMPLES[sample]))
    if metric != "cosine":  # lengths that matter: the rows as they come have length one
        rows = rows * np.linspace(0.9, 1.1, len(rows), dtype=np.float32)[:, None]
    index = TurboIndex(rows.shape[1], bits=4, metric=metric)
    index.add(rows)
    _, truth = exact_search(rows, queries, K, metric)
    _, found = index.search(queries, K)
    assert recall_at_k(found, truth, K) >= 0.88


def test_rows_of_any_length_are_found_by_cosine_as_those_of_length_one(data: Callable[[str], Path]) -> None:
    rows, queries = split(data(SAMPLES["words"]))
    lengths = np.exp2(np.arange(len(rows)) % 40 - 20).astype(np.float32)[:, None]
    plain, scaled = TurboIndex(100, metric="cosine"), TurboIndex(100, metric="cosine")
    plain.add(rows)
    scaled.add(rows * lengths)
    np.testing.assert_array_equal(plain.search(queries, K)[1], scaled.search(queries, K)[1])


def test_well_separated_rows_find_themselves_in_the_map_of_ids(data: Callable[[str], Path]) -> None:
    rows, _ = split(data(SAMPLES["texts"]))
    ids = np.arange(len(rows), dtype=np.uint64) * np.uint64(2**40) + np.uint64(7)
    index = IdMapIndex(256)
    index.add(rows, ids)
    _, found = index.search(rows[::10], 1)
    assert (found[:, 0] == ids[::10]).mean() >= 0.999
