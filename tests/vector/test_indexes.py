"""TurboIndex and IdMapIndex: what they answer, in which order, and that nothing else shows in an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tensor.random import Key
from vector import IdMapIndex, TurboIndex

F32 = NDArray[np.float32]


def bits(answer) -> bytes:
    return b"".join(array.tobytes() for array in answer)


def rows(seed: int, n: int, d: int) -> F32:
    return Key(seed).normal((n, d))


def names(n: int) -> NDArray[np.uint64]:
    """Ids in no order."""
    return np.array([(i * 0x9E3779B97F4A7C15) % 2**64 for i in range(n)], np.uint64)


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
@pytest.mark.parametrize("d", [1, 7, 64, 100, 1000])
def test_well_separated_rows_find_themselves_also_after_reload_and_further_rows(d: int, metric: str, tmp_path: Path):
    x = rows(d, 60, max(d, 8))[:, :d] if d > 1 else np.arange(1, 61, dtype=np.float32)[:, None]
    x = x / np.sqrt((x * x).sum(axis=1, keepdims=True)) if d > 1 and metric == "ip" else x
    if d == 1 and metric != "l2":
        pytest.skip("one coordinate tells rows apart only by distance")
    if d == 7:
        x = x[:8]
    ids = names(len(x))
    index = IdMapIndex(d, metric=metric)
    index.add(x[: len(x) // 2], ids[: len(x) // 2])
    index.save(tmp_path / "a.jvim")
    index = IdMapIndex.load(tmp_path / "a.jvim")
    index.add(x[len(x) // 2 :], ids[len(x) // 2 :])
    found = index.search(x, 1)[1][:, 0]
    assert (found == ids).mean() >= (1.0 if d >= 64 else 0.75)


def test_equal_rows_come_by_ascending_id_for_every_batch_and_number_of_threads(threads: Callable[[int], None]):
    ids = names(5000)
    index = IdMapIndex(70)
    index.add(np.repeat(rows(1, 1, 70), 5000, axis=0), ids)
    queries = rows(2, 30, 70)
    for number in (1, 2, 3, 7):
        threads(number)
        for batch in (queries[:1], queries[:5], queries):
            assert (index.search(batch, 17)[1] == np.sort(ids)[:17]).all()


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_an_answer_depends_on_neither_batch_nor_threads(metric: str, threads: Callable[[int], None]):
    index = TurboIndex(100, metric=metric)
    index.add(rows(3, 9000, 100))
    queries = rows(4, 1000, 100)
    expected = index.search(queries, 20)
    for number in (1, 2, 3, 7):
        threads(number)
        assert bits(index.search(queries, 20)) == bits(expected)
        for batch in (1, 17):
            scores, ids = index.search(queries[5 : 5 + batch], 20)
            assert bits((scores, ids)) == bits((expected[0][5 : 5 + batch], expected[1][5 : 5 + batch]))
