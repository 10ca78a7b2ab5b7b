"""Train 784-256-10 on handwritten digits: `python train_mlp.py mnist_5k.csv.gz`."""

import gzip
import sys
from array import array

import tensor as tn
from tensor.optim import AdamW
from tensor.random import Key

BATCH, EPOCHS = 64, 2

pixels, classes = bytearray(), array("q")
with gzip.open(sys.argv[1]) as lines:
    for line in lines:  # 784 pixels, then the class
        values = bytes(map(int, line.split(b",")))
        pixels += values[:784]
        classes.append(values[784])
images, labels = tn.asarray(memoryview(pixels)).reshape((-1, 784)), tn.asarray(classes)  # the bytes where they lie

keys = Key(1).split(3)
w1 = tn.asarray(keys[0].normal((784, 256))) * 784**-0.5
w2 = tn.asarray(keys[1].normal((256, 10))) * 256**-0.5
p = {"w1": w1, "b1": tn.zeros((256,)), "w2": w2, "b2": tn.zeros((10,))}
for weights in p.values():
    weights.requires_grad_()


def scores(rows: tn.Tensor) -> tn.Tensor:
    """[n, 10] of [n, 784] pixels."""
    return tn.relu((tn.astype(rows, tn.float32) / 255) @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


optimizer, count = AdamW(p), len(classes)
for key in keys[2].split(EPOCHS):
    order = tn.asarray(key.permutation(count))
    for start in range(0, count - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        loss = tn.cross_entropy(scores(tn.take(images, chosen, axis=0)), tn.take(labels, chosen, axis=0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

right = 0
with tn.no_grad():
    for start in range(0, count, 500):
        found = tn.argmax(scores(images[start : start + 500]), axis=1)
        right += int((found == labels[start : start + 500]).sum().item())
digest = tn.digest(tn.concat([w.detach().reshape((-1,)) for w in p.values()]))
print(f"loss {loss.item():.4f}, {right:,} of {count:,} digits right, weights {digest[:16]}")
