"""Index and search 300,000 vectors of 100 coordinates: `python search_vectors.py`. Rows are made 4,000 at a time."""

import numpy as np

import tensor as tn
from tensor.random import Key
from vector import TurboIndex
from vector.synthetic import mixture

ROWS, BLOCK, DIM, BITS = 300_000, 4_000, 100, 4

index = TurboIndex(DIM, bits=BITS, metric="cosine", seed=0)
centres = np.asarray(Key(1).normal((200, DIM)))
for block in range(ROWS // BLOCK):
    rows, _ = mixture(centres, BLOCK, 0.5, seed=block)
    index.add(rows)
_, slots = index.search(rows[:200], 10)
itself = int((slots[:, 0] == np.arange(ROWS - BLOCK, ROWS - BLOCK + 200, dtype=np.uint64)).sum())
print(f"{itself} of 200 rows of the last block are found first, slots {tn.digest(slots)[:16]}")
