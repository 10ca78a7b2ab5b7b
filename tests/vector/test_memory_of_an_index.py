"""An index holds codes, not rows: what it adds to a fresh process, byte by byte."""

import subprocess
from collections.abc import Callable

import pytest

GROWTH = """
import ctypes
import numpy as np
from vector import IdMapIndex, TurboIndex

dim, n, part = {dim}, 200_000, 1000
def resident():
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later isn't the index's
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["RssAnon"].split()[0]) * 1024
def add(index, first):
    x = generator.standard_normal((part, dim), np.float32)
    index.add(x, *([np.arange(first, first + part, dtype=np.uint64) * np.uint64(977)] if ids else []))
generator, ids = np.random.Generator(np.random.PCG64(1)), {ids}
warm, index = {make}, {make}
add(warm, 0)
warm.search(np.ones((2, dim), np.float32), 10)
before = resident()
for first in range(0, n, part):
    add(index, first)
index.search(np.ones((2, dim), np.float32), 10)
print((resident() - before) / n)
"""


@pytest.mark.parametrize(
    ("maker", "dim", "limit"),
    [
        ("TurboIndex", 64, 32 + 24),
        ("TurboIndex", 100, 50 + 24),
        ("TurboIndex", 256, 128 + 24),
        ("IdMapIndex", 64, 32 + 24),
        ("IdMapIndex", 100, 64 + 24),  # of 128 coordinates, to which rows are padded
        ("IdMapIndex", 256, 128 + 24),
    ],
)
def test_a_row_costs_half_a_byte_a_coordinate_and_24_more(
    maker: str, dim: int, limit: int, python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    make = f'{maker}({dim}, bits=4, metric="ip")'
    done = python(GROWTH.format(dim=dim, make=make, ids=maker == "IdMapIndex"))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= limit
