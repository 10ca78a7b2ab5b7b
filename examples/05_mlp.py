"""Train a small network to tell two spirals apart: the same weights, to the bit, on every machine.

python examples/05_mlp.py [FOLDER]: writes spirals.png into FOLDER (default: a new temporary one).
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import tensor as tn
from tensor.optim import AdamW
from tensor.random import Key

POINTS, WIDTH, STEPS = 128, 32, 600  # points of a spiral; hidden units; steps of training
SIDE, SCALE, REACH = 360, 3, 1.3  # the picture: pixels, pixels a cell, from −REACH to REACH

turn = tn.linspace(0.15, 1, POINTS)
arm = tn.stack([tn.cos(turn * 3 * tn.pi), tn.sin(turn * 3 * tn.pi)], axis=1) * turn[:, None]
x = tn.concat([arm, -arm])
labels = tn.asarray([0] * POINTS + [1] * POINTS)


shapes = [(2, WIDTH), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH, 2), (2,)]
drawn = [key.uniform(shape) - 0.5 for key, shape in zip(Key(7).split(6), shapes, strict=True)]
parameters = [values.requires_grad_() for values in drawn]


def network(x: tn.Tensor) -> tn.Tensor:
    """Scores of the two spirals, [n, 2]."""
    w1, b1, w2, b2, w3, b3 = parameters
    return tn.tanh(tn.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3


optimizer = AdamW(parameters, lr=0.01)
for step in range(STEPS + 1):
    loss = tn.cross_entropy(network(x), labels)
    if step % 200 == 0:
        right = (tn.argmax(network(x), axis=1) == labels).sum().item()
        print(f"step {step}: loss {loss.item():.4f}, {right} of {2 * POINTS} points right")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

at = np.linspace(-REACH, REACH, SIDE // SCALE, dtype=np.float32)
grid = np.stack(np.meshgrid(at, -at), axis=-1).reshape(-1, 2)
with tn.autograd.no_grad():
    share = tn.softmax(network(tn.asarray(grid)), axis=1)[:, 0].numpy().reshape(len(at), -1, 1)
picture = share * np.float32([221, 122, 96]) + (1 - share) * np.float32([78, 138, 174])
picture = picture.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
for (px, py), label in zip(x.numpy(), labels.numpy(), strict=True):
    row, column = (int((v / REACH + 1) / 2 * SIDE) for v in (-py, px))
    picture[row - 2 : row + 2, column - 2 : column + 2] = 40 if label else 250
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
Image.fromarray(picture.astype(np.uint8)).save(folder / "spirals.png")
print(f"digest of the weights: {tn.digest(tn.concat([p.detach().reshape((-1,)) for p in parameters]))}")
print(f"picture: {folder / 'spirals.png'}")
