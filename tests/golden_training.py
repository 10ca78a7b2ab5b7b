"""Digests of training: three models, each trained in four ways that must not differ by a bit.

The models are an MLP, a CNN and a character transformer; weights and data come from `tensor.random`. A run is so many
steps of forward, backward and AdamW; its digest is that of every loss and of all weights afterwards. The ways: `eager`
(the tape), `captured` (value and gradients are a planned graph), `budgeted` (eager under `tensor.budget`) and
`checkpointed` (each layer computes its inside again in the backward pass).

`FULL` are the sizes of benchmarks/train_step.py and 100 steps; `REDUCED` are sizes and steps that the twins manage in
seconds: [training] of tests/golden.toml has both, the reduced ones from the twins, the full ones from the v3 build.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensor as tn
from tensor.random import Key, fold_in

Weights = dict[str, Any]
WAYS = ("eager", "captured", "budgeted", "checkpointed")
ROOM = 2**30  # of the budgeted way: enough, but counted
HEX_DIGITS = 16


def drawn(shapes: dict[str, tuple[int, ...]], key: Key) -> dict[str, np.ndarray[Any, Any]]:
    """Normal weights of deviation 1/√inputs; vectors are 1 where the name ends in norm, else 0."""
    found = {}
    for number, (name, shape) in enumerate(shapes.items()):
        if len(shape) == 1:
            found[name] = np.full(shape, name.endswith("norm"), np.float32)
            continue
        inputs = math.prod(shape[1:]) if len(shape) > 2 else shape[0]
        values = np.asarray(fold_in(key, number).normal(shape))
        found[name] = values * np.float32(1 / math.sqrt(inputs))
    return found


class Model:
    """What the three share: shapes of the weights, a batch, and a loss."""

    shapes: dict[str, tuple[int, ...]]
    batch: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

    def loss(self, p: Weights, x: Any, y: Any, layer: Callable[[Any], Any]) -> Any:
        """The loss on one batch; `layer` wraps the functions of layers."""
        raise NotImplementedError


class Mlp(Model):
    """inputs → hidden → 10."""

    def __init__(self, inputs: int = 784, hidden: int = 256, count: int = 64) -> None:
        self.shapes = {"w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, 10), "b2": (10,)}
        x, y = Key(21).split(2)
        self.batch = np.asarray(x.uniform((count, inputs))), np.asarray(y.randint(0, 10, count))

    def loss(self, p: Weights, x: Any, y: Any, layer: Callable[[Any], Any]) -> Any:
        """Of the MLP."""
        hidden = layer(lambda x, w, b: tn.relu(x @ w + b))
        return tn.cross_entropy(hidden(x, p["w1"], p["b1"]) @ p["w2"] + p["b2"], y)


class Cnn(Model):
    """1 → channels → 2·channels of 3×3, each halved by a maximum, and one layer to 10 classes."""

    def __init__(self, channels: int = 16, side: int = 28, count: int = 64) -> None:
        self.count, self.flat = count, 2 * channels * (side // 4) ** 2
        self.shapes = {
            "k1": (channels, 1, 3, 3),
            "c1": (channels,),
            "k2": (2 * channels, channels, 3, 3),
            "c2": (2 * channels,),
            "w": (self.flat, 10),
            "b": (10,),
        }
        x, y = Key(22).split(2)
        self.batch = np.asarray(x.uniform((count, 1, side, side))), np.asarray(y.randint(0, 10, count))

    def loss(self, p: Weights, x: Any, y: Any, layer: Callable[[Any], Any]) -> Any:
        """Of the CNN."""
        halved = layer(lambda x, k, c: tn.max_pool2d(tn.relu(tn.conv2d(x, k, c, padding=1)), 2))
        x = halved(halved(x, p["k1"], p["c1"]), p["k2"], p["c2"])
        return tn.cross_entropy(x.reshape((self.count, self.flat)) @ p["w"] + p["b"], y)


class Transformer(Model):
    """A character model: pre-norm blocks with causal attention, 65 symbols."""

    def __init__(self, layers: int = 4, width: int = 128, heads: int = 4, context: int = 128, count: int = 16) -> None:
        self.layers, self.width, self.heads, self.context, self.count = layers, width, heads, context, count
        self.shapes = {"embed": (65, width), "place": (context, width)}
        for i in range(layers):
            for name in ("first_norm", "first_bias", "second_norm", "second_bias"):
                self.shapes[f"{i}.{name}"] = (width,)
            for name in ("q", "k", "v", "out"):
                self.shapes[f"{i}.{name}"] = (width, width)
            self.shapes |= {f"{i}.up": (width, 4 * width), f"{i}.down": (4 * width, width)}
        self.shapes |= {"last_norm": (width,), "last_bias": (width,), "head": (width, 65)}
        codes = np.asarray(Key(23).randint(0, 65, (count, context + 1)))
        self.batch = codes[:, :-1].copy(), codes[:, 1:].copy()
        self.future = tn.triu(tn.ones((context, context), dtype=tn.bool), k=1)

    def block(self, h: Any, w: Weights) -> Any:
        """One layer."""
        count, context, heads, deep = self.count, self.context, self.heads, self.width // self.heads
        a = tn.layer_norm(h, self.width, w["first_norm"], w["first_bias"])
        q, k, v = ((a @ w[m]).reshape((count, context, heads, deep)).permute((0, 2, 1, 3)) for m in "qkv")
        scores = tn.where(self.future, -tn.inf, (q * deep**-0.5) @ k.mT)
        seen = (tn.softmax(scores) @ v).permute((0, 2, 1, 3)).reshape((count, context, self.width))
        h = h + seen @ w["out"]
        a = tn.layer_norm(h, self.width, w["second_norm"], w["second_bias"])
        return h + tn.gelu(a @ w["up"]) @ w["down"]

    def loss(self, p: Weights, x: Any, y: Any, layer: Callable[[Any], Any]) -> Any:
        """Of the transformer."""
        h = tn.take(p["embed"], x, axis=0) + p["place"]
        block = layer(self.block)
        for i in range(self.layers):
            h = block(h, {name.split(".")[1]: w for name, w in p.items() if name.startswith(f"{i}.")})
        logits = tn.layer_norm(h, self.width, p["last_norm"], p["last_bias"]) @ p["head"]
        rows = self.count * self.context
        return tn.cross_entropy(logits.reshape((rows, 65)), y.reshape((rows,)))


@dataclass(frozen=True)
class Run:
    """A model of some size, and for how many steps it is trained."""

    make: Callable[[], Model]
    steps: int


FULL = {"mlp": Run(Mlp, 100), "cnn": Run(Cnn, 100), "transformer": Run(Transformer, 100)}
REDUCED = {
    "mlp": Run(lambda: Mlp(49, 40, 17), 100),
    "cnn": Run(lambda: Cnn(4, 12, 5), 100),
    "transformer": Run(lambda: Transformer(2, 32, 4, 24, 3), 100),
}


def steps_of(model: Model, way: str) -> tuple[Weights, Callable[[], Any]]:
    """The weights, and a function that makes one step and gives its loss."""
    p = {name: tn.asarray(w) for name, w in drawn(model.shapes, Key(20)).items()}
    x, y = map(tn.asarray, model.batch)
    if way == "captured":
        both = tn.capture(tn.value_and_grad(lambda p, x, y: model.loss(p, x, y, lambda f: f)))
        optimizer = tn.optim.AdamW(p, lr=0.003)

        def captured_step() -> Any:
            loss, gradients = both(p, x, y)
            for name, w in p.items():
                w.grad = gradients[name]
            optimizer.step()
            return loss

        return p, captured_step

    for w in p.values():
        w.requires_grad_()
    optimizer = tn.optim.AdamW(p, lr=0.003)
    layer: Callable[[Any], Any] = tn.checkpoint if way == "checkpointed" else lambda f: f

    def step() -> Any:
        loss = model.loss(p, x, y, layer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return p, step


def train(run: Run, way: str = "eager") -> tuple[str, list[float]]:
    """The digest of a run, and its losses."""
    if way == "budgeted":
        with tn.budget(max_bytes=ROOM):
            return _train(run, way)
    return _train(run, way)


def _train(run: Run, way: str) -> tuple[str, list[float]]:
    weights, step = steps_of(run.make(), way)
    losses = [step().item() for _ in range(run.steps)]
    digest = hashlib.sha256(np.asarray(losses, np.float32).tobytes())
    for name, w in weights.items():
        digest.update(name.encode() + np.asarray(w.detach()).tobytes())
    return digest.hexdigest()[:HEX_DIGITS], losses


def digests(runs: dict[str, Run], way: str = "eager") -> dict[str, str]:
    """The digest of each run."""
    return {name: train(run, way)[0] for name, run in runs.items()}
