"""Index vectors at 4 bits a number, search them, and draw how near the scores are to exact ones.

python examples/03_search.py [FOLDER]: writes rows.jvim and scores.png into FOLDER (default: a new temporary one).
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from tensor.random import Key
from vector import IdMapIndex, exact_search, recall_at_k
from vector.synthetic import mixture

SIDE, INK = 480, np.array([[205, 214, 228], [31, 78, 121]])

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
topics = Key(1).normal((50, 96)).numpy()
everything, _ = mixture(topics, 20_100, 1.2, seed=2)  # 20,000 rows, and 100 queries that are none of them
rows, queries = everything[:20_000], everything[20_000:]
ids = np.arange(1_000_000, 1_020_000, dtype=np.uint64)  # any numbers of 64 bits

index = IdMapIndex(96, metric="cosine")
index.add(rows, ids)
index.save(folder / "rows.jvim")
index = IdMapIndex.load(folder / "rows.jvim")  # every byte is checked
size = (folder / "rows.jvim").stat().st_size
print(f"{len(index)} rows of 96 numbers: {size / rows.nbytes:.0%} of the bytes, cid {index.cid[:16]}…")

scores, found = index.search(queries, 10)
truth = exact_search(rows, queries, 10, "cosine")[1] + ids[0]
print(f"of the 10 nearest, {recall_at_k(found, truth, 10):.0%} are those of an exact search")

best = found[0, 0]
_, among = index.search(queries[:1], 3, deny=found[0])
print(f"query 0: {found[0, :3].tolist()}; without its ten nearest: {among[0].tolist()}")
index.remove(np.array([best]))
assert best not in index.search(queries[:1], 10)[1]

# All scores of query 1, exact ones to the right, those of the index upwards; its ten nearest in red.
of_index, by_index = index.search(queries[1:2], len(index))
exact, by_exact = exact_search(rows, queries[1:2], len(rows), "cosine")
at_id = np.zeros((2, len(rows)))
at_id[0, by_exact[0]] = exact[0]
at_id[1, by_index[0] - ids[0]] = of_index[0]
keep = np.delete(np.arange(len(rows)), int(best - ids[0]))
column, row = np.clip((at_id[:, keep] + 0.5) / 1.3 * SIDE, 0, SIDE - 1).astype(int)
count = np.zeros((SIDE, SIDE))
np.add.at(count, (SIDE - 1 - row, column), 1)
shade = np.minimum(count / 4, 1)[..., None]
picture = np.where(count[..., None] > 0, INK[0] * (1 - shade) + INK[1] * shade, 255).astype(np.uint8)
for i in (by_exact[0, :10]).tolist():
    x, y = np.clip((at_id[:, i] + 0.5) / 1.3 * SIDE, 2, SIDE - 3).astype(int)
    picture[SIDE - 2 - y : SIDE + 1 - y, x - 1 : x + 2] = (200, 40, 40)
Image.fromarray(picture).save(folder / "scores.png")
print(f"picture: {folder / 'scores.png'}")
