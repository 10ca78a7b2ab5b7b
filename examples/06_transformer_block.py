"""Train one transformer block to predict the next character of a text: the same loss, to the bit, on every machine.

python examples/06_transformer_block.py [FOLDER]: writes loss.png into FOLDER (default: a new temporary one).
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import tensor as tn
from tensor.optim import AdamW
from tensor.random import Key

TEXT = Path(tn.__file__).with_name("errors.py").read_text()  # this library's own words
WIDTH, HEADS, CONTEXT, BATCH, STEPS = 64, 4, 48, 16, 150

symbols = sorted(set(TEXT))
codes = np.array([symbols.index(c) for c in TEXT])
shapes = {
    "embed": (len(symbols), WIDTH), "place": (CONTEXT, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH),
    "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH), "head": (WIDTH, len(symbols)),
}  # fmt: skip
keys = Key(1).split(len(shapes) + 1)
p = {name: (key.normal(shapes[name]) * 0.1).requires_grad_() for key, name in zip(keys, shapes, strict=False)}
future = tn.triu(tn.ones((CONTEXT, CONTEXT), dtype=tn.bool), k=1)  # what a position may not look at


def block(x: tn.Tensor) -> tn.Tensor:
    """Attention and a two-layer network, each added to what came in: [batch, context, width]."""
    three = (tn.layer_norm(x, WIDTH) @ p["qkv"]).reshape((BATCH, CONTEXT, 3, HEADS, -1))
    q, k, v = tn.unstack(three.permute((2, 0, 3, 1, 4)))
    seen = tn.softmax(tn.where(future, -tn.inf, q @ k.mT * (WIDTH // HEADS) ** -0.5)) @ v
    x = x + seen.permute((0, 2, 1, 3)).reshape((BATCH, CONTEXT, WIDTH)) @ p["out"]
    return x + tn.gelu(tn.layer_norm(x, WIDTH) @ p["up"]) @ p["down"]


optimizer, losses = AdamW(p, lr=0.003), []
starts = keys[-1].randint(0, len(codes) - CONTEXT, (STEPS, BATCH)).numpy()
for step in range(STEPS):
    window = codes[starts[step][:, None] + np.arange(CONTEXT + 1)]
    x = tn.take(p["embed"], tn.asarray(window[:, :-1]), axis=0) + p["place"]
    logits = (block(x) @ p["head"]).reshape((-1, len(symbols)))
    loss = tn.cross_entropy(logits, tn.asarray(window[:, 1:].reshape(-1)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 50 == 0:
        print(f"step {step}: loss {losses[-1]:.4f}")

picture = np.where(np.arange(200)[::-1, None] < np.repeat(losses, 4) / losses[0] * 190, 90, 255).astype(np.uint8)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
Image.fromarray(picture).save(folder / "loss.png")
print(f"digest of the weights: {tn.digest(tn.concat([w.detach().reshape((-1,)) for w in p.values()]))}")
print(f"picture: {folder / 'loss.png'}")
