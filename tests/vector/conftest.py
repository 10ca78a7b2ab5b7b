"""What tests of vector share: small indexes as files, and files forged with right hashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from numpy.typing import NDArray

from vector.index_file import plane_pieces, write_index
from vector.index_header import JVIM, IndexHeader


@dataclass
class Rows:
    """A header and sections to save, and the nibbles they were made from."""

    header: IndexHeader
    codes: NDArray[np.uint8]
    arrays: dict[int, NDArray[Any]]

    def sections(self) -> dict[int, Any]:
        planes = {0: plane_pieces(self.codes, 0), 1: plane_pieces(self.codes, 1)}
        return {**planes, **{number: [array] for number, array in self.arrays.items()}}

    def save(self, path: Path) -> str:
        return write_index(path, self.header, self.sections())


def make_rows(n: int, dim: int, magic: bytes = JVIM, metric: str = "l2", seed: int = 0) -> Rows:
    """Random codes, scales, norms and ids."""
    rng = np.random.default_rng([n, dim, seed])
    header = IndexHeader(magic, dim, n, 4, metric, seed)
    codes = rng.integers(0, 256, (header.blocks, header.padded_dim // 64, 32, 32), dtype=np.uint8)
    if n % 32:
        codes[-1, :, n % 32 :] = 0
    scales = rng.uniform(0.001, 100, n).astype(np.float32)
    arrays: dict[int, NDArray[Any]] = {2: scales, 3: scales * np.float32(1.5)}
    if metric == "l2":
        arrays[4] = rng.uniform(0, 1e6, n).astype(np.float32)
    if magic == JVIM:
        arrays[5] = rng.permutation(np.arange(n, dtype=np.uint64) * np.uint64(2**53 + 1))
    return Rows(header, codes, arrays)


def rehash(data: bytes | bytearray) -> bytes:
    """The file with hash table and root made right again, whatever else is wrong with it."""
    data = bytearray(data)
    offset = int.from_bytes(data[40:48], "little")
    body = data[256:offset]
    table = b"".join(blake3(bytes(body[at : at + 2**20])).digest() for at in range(0, len(body), 2**20))
    data[offset : offset + len(table)] = table
    data[224:256] = blake3(bytes(data[:224]) + bytes(32) + table).digest()
    return bytes(data)


@pytest.fixture(scope="session")
def rows() -> Callable[..., Rows]:
    """rows(n, dim, magic, metric, seed): content of an index."""
    return make_rows


@pytest.fixture(scope="session")
def forge() -> Callable[[bytes | bytearray], bytes]:
    """forge(data): a file with hash table and root made right again, whatever else is wrong with it."""
    return rehash


@pytest.fixture
def small(tmp_path: Path) -> bytes:
    """The bytes of a .jvim with 5 rows of 70 coordinates, metric l2."""
    make_rows(5, 70).save(tmp_path / "small.jvim")
    return (tmp_path / "small.jvim").read_bytes()
