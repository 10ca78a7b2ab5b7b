"""The peer finds no more of the true neighbours than we do; needs the bench extra."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vector import TurboIndex, exact_search, recall_at_k

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("sample", ["glove100_10k_sample", "wl256_4k_sample"])
def test_recall_is_at_most_one_point_below_turbovec(sample: str, data: Callable[[str], Path]) -> None:
    turbovec = pytest.importorskip("turbovec")
    every = np.load(data(f"embeddings/{sample}.npy"))
    rows, queries = np.ascontiguousarray(every[1000:]), np.ascontiguousarray(every[:1000])
    ours = TurboIndex(rows.shape[1])
    ours.add(rows)
    pad = ((0, 0), (0, -rows.shape[1] % 8))
    peer = turbovec.TurboQuantIndex(rows.shape[1] + pad[1][1], bit_width=4)
    peer.add(np.pad(rows, pad))
    _, truth = exact_search(rows, queries, 10)
    found = recall_at_k(ours.search(queries, 10)[1], truth, 10)
    theirs = recall_at_k(peer.search(np.pad(queries, pad), 10)[1].astype(np.uint64), truth, 10)
    assert found >= theirs - 0.01
