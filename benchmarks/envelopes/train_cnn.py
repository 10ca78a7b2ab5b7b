"""Train a convolutional network on handwritten digits: `python train_cnn.py mnist_5k.csv.gz`.

1 → 16 → 32 channels of 3×3, each halved by a maximum, one layer to 10 classes; the value and its gradients are a graph.
"""

import gzip
import sys
from array import array

import tensor as tn
from tensor.optim import AdamW
from tensor.random import Key

BATCH, EPOCHS = 64, 1

pixels, classes = bytearray(), array("q")
with gzip.open(sys.argv[1]) as lines:
    for line in lines:  # 784 pixels, then the class
        values = bytes(map(int, line.split(b",")))
        pixels += values[:784]
        classes.append(values[784])
images, labels = tn.asarray(memoryview(pixels)).reshape((-1, 1, 28, 28)), tn.asarray(classes)

keys = Key(1).split(4)
shapes = {"k1": (16, 1, 3, 3), "k2": (32, 16, 3, 3), "w": (32 * 49, 10)}
reach = {"k1": 9, "k2": 144, "w": 32 * 49}  # how many inputs an output reads
p = {n: tn.asarray(k.normal(shapes[n])) * reach[n] ** -0.5 for k, n in zip(keys, shapes, strict=False)}
p |= {"c1": tn.zeros((16,)), "c2": tn.zeros((32,)), "b": tn.zeros((10,))}


def scores(p: dict[str, tn.Tensor], x: tn.Tensor) -> tn.Tensor:
    """[n, 10] of [n, 1, 28, 28] pixels."""
    x = tn.astype(x, tn.float32) / 255
    x = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k1"], p["c1"], padding=1)), 2)
    x = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k2"], p["c2"], padding=1)), 2)
    return x.reshape((-1, 32 * 49)) @ p["w"] + p["b"]


def loss_of(p: dict[str, tn.Tensor], x: tn.Tensor, y: tn.Tensor) -> tn.Tensor:
    """The loss of a batch."""
    return tn.cross_entropy(scores(p, x), y)


both = tn.capture(tn.value_and_grad(loss_of))
optimizer, count = AdamW(p), len(classes)
for key in keys[3].split(EPOCHS):
    order = tn.asarray(key.permutation(count))
    for start in range(0, count - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        loss, gradients = both(p, tn.take(images, chosen, axis=0), tn.take(labels, chosen, axis=0))
        for name, weights in p.items():
            weights.grad = gradients.pop(name)
        optimizer.step()
        optimizer.zero_grad()

right = 0
for start in range(0, count, 100):
    found = tn.argmax(scores(p, images[start : start + 100]), axis=1)
    right += int((found == labels[start : start + 100]).sum().item())
digest = tn.digest(tn.concat([w.reshape((-1,)) for w in p.values()]))
print(f"loss {loss.item():.4f}, {right:,} of {count:,} digits right, weights {digest[:16]}")
