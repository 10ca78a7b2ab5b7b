"""Train a character transformer on a text: `python train_transformer.py tinyshakespeare.txt`.

4 layers, 128 wide, 4 heads, 128 characters, batch 16. The value and its gradients are a graph that is bound to 20 MB:
what would not fit is computed again on the way back instead of being kept.
"""

import sys
from pathlib import Path

import tensor as tn
from tensor.optim import AdamW
from tensor.random import Key

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, STEPS = 4, 128, 4, 128, 16, 20
GRAPH_BYTES = 20 << 20  # 88 MB without a bound

text = Path(sys.argv[1]).read_bytes()
symbols = sorted(set(text))
codes = tn.asarray(memoryview(text.translate(bytes(symbols.index(c) if c in symbols else 0 for c in range(256)))))
shapes: dict[str, tuple[int, ...]] = {"embed": (len(symbols), WIDTH), "place": (CONTEXT, WIDTH)}
for i in range(LAYERS):
    shapes |= {f"{i}.{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "out")}
    shapes |= {f"{i}.up": (WIDTH, 4 * WIDTH), f"{i}.down": (4 * WIDTH, WIDTH)}
shapes["head"] = (WIDTH, len(symbols))
keys = Key(1).split(len(shapes) + 1)
p = {n: tn.asarray(k.normal(s)) * s[0] ** -0.5 for k, (n, s) in zip(keys, shapes.items(), strict=False)}
for name in [*(f"{i}.{n}" for i in range(LAYERS) for n in ("first", "second")), "last"]:
    p[f"{name}_norm"], p[f"{name}_bias"] = tn.ones((WIDTH,)), tn.zeros((WIDTH,))
future = tn.triu(tn.ones((CONTEXT, CONTEXT), dtype=tn.bool), k=1)  # what a position may not look at


def attention(h: tn.Tensor, *weights: tn.Tensor) -> tn.Tensor:
    """h and what its positions say to each other: [batch, context, width]."""
    norm, bias, *three, out = weights
    a = tn.layer_norm(h, WIDTH, norm, bias)
    q, k, v = ((a @ w).reshape((BATCH, CONTEXT, HEADS, -1)).permute((0, 2, 1, 3)) for w in three)
    seen = tn.softmax(tn.where(future, -tn.inf, (q * (WIDTH // HEADS) ** -0.5) @ k.mT)) @ v
    return h + seen.permute((0, 2, 1, 3)).reshape((BATCH, CONTEXT, WIDTH)) @ out


def network(h: tn.Tensor, norm: tn.Tensor, bias: tn.Tensor, up: tn.Tensor, down: tn.Tensor) -> tn.Tensor:
    """h and two layers over each position."""
    return h + tn.gelu(tn.layer_norm(h, WIDTH, norm, bias) @ up) @ down


def loss_of(p: dict[str, tn.Tensor], x: tn.Tensor, y: tn.Tensor) -> tn.Tensor:
    """How badly x [batch, context] says the next characters y."""
    h = tn.take(p["embed"], x, axis=0) + p["place"]
    for i in range(LAYERS):
        h = attention(h, *(p[f"{i}.{n}"] for n in ("first_norm", "first_bias", "q", "k", "v", "out")))
        h = network(h, *(p[f"{i}.{n}"] for n in ("second_norm", "second_bias", "up", "down")))
    logits = tn.layer_norm(h, WIDTH, p["last_norm"], p["last_bias"]) @ p["head"]
    return tn.cross_entropy(logits.reshape((BATCH * CONTEXT, -1)), y.reshape((-1,)))


both = tn.capture(tn.value_and_grad(loss_of), max_bytes=GRAPH_BYTES)
optimizer, window = AdamW(p, lr=3e-3), tn.arange(CONTEXT + 1)
starts = tn.asarray(keys[-1].randint(0, len(text) - CONTEXT, (STEPS, BATCH)))
for step in range(STEPS):
    chosen = tn.astype(tn.take(codes, (starts[step][:, None] + window).reshape((-1,))), tn.int64)
    batch = chosen.reshape((BATCH, CONTEXT + 1))
    loss, gradients = both(p, batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
    for name, weights in p.items():
        weights.grad = gradients.pop(name)
    optimizer.step()
    optimizer.zero_grad()
digest = tn.digest(tn.concat([w.reshape((-1,)) for w in p.values()]))
print(f"loss {loss.item():.4f} after {STEPS} steps, weights {digest[:16]}")
