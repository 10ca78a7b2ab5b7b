"""The host's floating-point mode (another library may flush subnormals or round up) reaches no answer of an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensor.random import Key
from vector import TurboIndex, codebook, rotate_f32


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_answers_and_files_are_the_same_in_a_hostile_mode(metric: str, hostile_mode, tmp_path: Path):
    x, q = Key(1).normal((700, 100)).numpy(), np.ldexp(Key(2).normal((9, 100)).numpy(), -100)

    def results() -> list[object]:
        codebook.boundaries.cache_clear()
        index = TurboIndex(100, metric=metric)
        index.add(x)
        index.remove(3)
        cid = index.save(tmp_path / "a.jvi")
        again = TurboIndex.load(tmp_path / "a.jvi")
        arrays = [*again.search(q, 20), again.reconstruct(5), rotate_f32(q)]
        return [cid, index.cid, *(array.tobytes() for array in arrays)]

    expected = results()
    with hostile_mode():
        found = results()
    assert found == expected
