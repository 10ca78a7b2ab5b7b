"""What a row costs in memory, as the system sees the process."""

from __future__ import annotations

import pytest

CODE = """
import numpy as np
from vector import IdMapIndex, TurboIndex

dim, kind = {dim}, {kind!r}

def resident(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return int(line.split()[1]) * 1024

index = IdMapIndex(dim) if kind == "ids" else TurboIndex(dim)
x = np.random.default_rng(0).standard_normal((5000, dim), np.float32)
at = {{}}
for start in range(0, 150_000, 5000):
    if kind == "ids":
        index.add(x, np.arange(start, start + 5000).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    else:
        index.add(x)
    at[start + 5000] = resident("VmRSS")
index.search(x[:10], 10)
before = resident("VmHWM")
index.cid
print((at[150_000] - at[50_000]) / 100_000, (before - at[50_000]) / 100_000, (resident("VmHWM") - before))
"""


@pytest.mark.parametrize("dim", [100, 256])
@pytest.mark.parametrize("kind", ["ids", "slots"])
def test_a_row_takes_half_a_byte_a_coordinate_and_at_most_24_more(python, dim: int, kind: str):
    """With d rounded up to D = 64·ceil(d/64). Slots alone stay below d/2 + 24 for d = 100 too."""
    done = python(CODE.format(dim=dim, kind=kind), OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    now, peak, for_the_cid = map(float, done.stdout.split())
    limit = -(-dim // 64) * 32 + 24 if kind == "ids" else dim / 2 + 24
    assert now <= limit
    assert peak <= limit + 8  # an id table's successor stands beside it for a moment
    assert for_the_cid <= 4 << 20  # a file is hashed in pieces


def test_many_threads_and_a_large_k_take_no_workspace_of_their_product(python):
    """Each thread keeps the best k of its shard for each query; sixteen threads at k = 30,000 would take 117 MB."""
    code = (
        "import numpy as np, tensor; from vector import TurboIndex; index = TurboIndex(1); "
        "index.add(np.arange(140_000, dtype=np.float32)[:, None]); q = np.ones((4, 1), np.float32)\n"
        "with tensor.budget(max_bytes=70 << 20) as used: print(index.search(q, 30_000)[1].sum(), used.peak_bytes >> 20)"
    )
    answers = []
    for threads in ("1", "16"):
        done = python(code, DROVEWAY_THREADS=threads)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.split()[0])
    assert answers[0] == answers[1]
