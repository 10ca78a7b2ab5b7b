"""Ten small searches whose answers stand in tests/golden.toml: one number each for everything from vector to answer.

The twins write the numbers; every build, thread count, batch size and way to the same rows must come to the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tensor
from tensor.random import Key
from vector import IdMapIndex, TurboIndex

F32 = NDArray[np.float32]
U64 = NDArray[np.uint64]
Index = TurboIndex | IdMapIndex


@dataclass(frozen=True)
class Search:
    """An index, built in some way, and what is asked of it."""

    build: Callable[[], Index]
    queries: F32
    k: int
    allow: U64 | None = None
    deny: U64 | None = None

    def answer(self, index: Index, batch: int) -> str:
        """The digest of ids and scores (as their bits), asked `batch` queries at a time."""
        parts = [
            index.search(self.queries[start : start + batch], self.k, allow=self.allow, deny=self.deny)
            for start in range(0, len(self.queries), batch)
        ]
        scores, ids = (np.concatenate(side) for side in zip(*parts, strict=True))
        return tensor.digest(np.stack([ids, scores.view(np.uint32).astype(np.uint64)]))


def _rows(seed: int, n: int, d: int) -> F32:
    return Key(seed).normal((n, d)).numpy()


def _ids(seed: int, n: int) -> U64:
    words = Key(seed).randint(0, 2**63, n).numpy().view(np.uint64)
    words[0] = 2**64 - 1
    return words


def _slots(d: int, x: F32, metric: str = "ip", seed: int = 0) -> TurboIndex:
    index = TurboIndex(d, metric=metric, seed=seed)
    index.add(x)
    return index


def _named(d: int, x: F32, ids: U64, metric: str = "ip") -> IdMapIndex:
    index = IdMapIndex(d, metric=metric)
    index.add(x, ids)
    return index


def _with_zeros() -> TurboIndex:
    x = _rows(20, 90, 7)
    x[::9] = 0
    return _slots(7, x, "cosine")


def _equal_rows() -> IdMapIndex:
    return _named(64, _rows(30, 5, 64)[np.arange(300) % 5], _ids(31, 300))


def _changed() -> IdMapIndex:
    """Rows that are added, replaced and removed."""
    x, ids = _rows(70, 500, 256), _ids(71, 500)
    index = _named(256, x[:300], ids[:300])
    index.upsert(x[250:], ids[250:])
    index.remove(ids[100:170])
    index.remove(int(ids[499]))
    index.upsert(x[:20] + x[20:40], ids[80:100])
    return index


def _all_sizes() -> TurboIndex:
    """Norms from about 1e-12 (a zero row) to 1e15."""
    size = np.ldexp(np.float32(1), np.arange(130) % 30 * 3 - 43)
    return _slots(192, _rows(100, 130, 192) * size[:, None], seed=2**64 - 1)


SEARCHES = {
    "one coordinate, l2": Search(lambda: _slots(1, _rows(10, 50, 1), "l2"), _rows(11, 6, 1), 7),
    "zero rows, cosine": Search(_with_zeros, np.vstack([_rows(21, 8, 7), np.zeros((1, 7), np.float32)]), 90),
    "equal rows": Search(_equal_rows, _rows(32, 10, 64), 100),
    "100 coordinates": Search(lambda: _slots(100, _rows(40, 1200, 100), seed=7), _rows(41, 200, 100), 10),
    "more than there are, l2": Search(lambda: _slots(100, _rows(50, 33, 100), "l2"), _rows(51, 5, 100), 2**62),
    "allowed and denied, cosine": Search(
        lambda: _named(128, _rows(60, 400, 128), _ids(61, 400), "cosine"),
        _rows(62, 12, 128),
        25,
        allow=_ids(61, 400)[np.arange(0, 600) % 250],
        deny=_ids(61, 400)[::3],
    ),
    "replaced and removed": Search(_changed, _rows(72, 17, 256), 12),
    "1000 coordinates, l2": Search(lambda: _slots(1000, _rows(80, 150, 1000), "l2"), _rows(81, 9, 1000), 5),
    "two blocks of sums": Search(lambda: _slots(4100, _rows(90, 40, 4100)), _rows(91, 5, 4100), 6),
    "norms of all sizes": Search(_all_sizes, _rows(101, 30, 192), 20),
}


def digests(batch: int = 1000, reload: bool = False) -> dict[str, str]:
    """The digest of each search, by name."""
    found = {}
    for name, search in SEARCHES.items():
        index = search.build()
        if reload:
            with tempfile.TemporaryDirectory() as folder:
                index.save(Path(folder) / "saved")
                index = type(index).load(Path(folder) / "saved")
        found[name] = search.answer(index, batch)
    return found
