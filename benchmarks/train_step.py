"""Steps of training against PyTorch eager: `python benchmarks/train_step.py [MODEL …]`, models mlp, cnn, transformer.

A step is forward, backward and AdamW on one batch, with the same initial weights and data on both sides. Ours runs
twice: eager, as the examples do, and captured, where value and gradients come from a graph. One thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, ClassVar

from harness import Report, alternate, prepare

prepare()

import numpy as np  # noqa: E402

import tensor as tn  # noqa: E402
from tensor.optim import AdamW  # noqa: E402

F32 = np.float32
Weights = dict[str, Any]
LAYERS, WIDTH, HEADS, CONTEXT, SEQUENCES, SYMBOLS = 4, 128, 4, 128, 16, 65


def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray[Any, Any]]:
    """Normal weights of deviation 1/√inputs; vectors are 1 where the name ends in norm, else 0."""
    rng = np.random.default_rng(1)
    return {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])).astype(F32)
        if len(shape) > 1
        else np.full(shape, name.endswith("norm"), F32)
        for name, shape in shapes.items()
    }


class Mlp:
    """784-256-10, batch 64."""

    shapes: ClassVar = {"w1": (784, 256), "b1": (256,), "w2": (256, 10), "b2": (10,)}

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.batch = rng.random((64, 784), F32), rng.integers(0, 10, 64)

    def ours(self, p: Weights, x: Any, y: Any) -> Any:
        """The loss."""
        return tn.cross_entropy(tn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], y)

    def theirs(self, torch: Any, p: Weights, x: Any, y: Any) -> Any:
        """The loss, by PyTorch's fused layers."""
        f = torch.nn.functional
        hidden = f.relu(torch.addmm(p["b1"], x, p["w1"]))
        return f.cross_entropy(torch.addmm(p["b2"], hidden, p["w2"]), y)


class Cnn:
    """1 → 16 → 32 channels of 3×3, each halved by a maximum, one layer to 10 classes, batch 64 of 28×28."""

    shapes: ClassVar = {
        "k1": (16, 1, 3, 3),
        "c1": (16,),
        "k2": (32, 16, 3, 3),
        "c2": (32,),
        "w": (32 * 49, 10),
        "b": (10,),
    }

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.batch = rng.random((64, 1, 28, 28), F32), rng.integers(0, 10, 64)

    def ours(self, p: Weights, x: Any, y: Any) -> Any:
        """The loss."""
        x = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k1"], p["c1"], padding=1)), 2)
        x = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k2"], p["c2"], padding=1)), 2)
        return tn.cross_entropy(x.reshape((64, 32 * 49)) @ p["w"] + p["b"], y)

    def theirs(self, torch: Any, p: Weights, x: Any, y: Any) -> Any:
        """The loss."""
        f = torch.nn.functional
        x = f.max_pool2d(f.relu(f.conv2d(x, p["k1"], p["c1"], padding=1)), 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, p["k2"], p["c2"], padding=1)), 2)
        return f.cross_entropy(torch.addmm(p["b"], x.reshape(64, -1), p["w"]), y)


class Transformer:
    """4 layers, 128 wide, 4 heads, 128 characters, batch 16."""

    shapes: ClassVar[dict[str, tuple[int, ...]]] = {"embed": (SYMBOLS, WIDTH), "place": (CONTEXT, WIDTH)}
    for _i in range(LAYERS):
        shapes |= {
            f"{_i}.first_norm": (WIDTH,), f"{_i}.first_bias": (WIDTH,), f"{_i}.q": (WIDTH, WIDTH),
            f"{_i}.k": (WIDTH, WIDTH), f"{_i}.v": (WIDTH, WIDTH), f"{_i}.out": (WIDTH, WIDTH),
            f"{_i}.second_norm": (WIDTH,), f"{_i}.second_bias": (WIDTH,),
            f"{_i}.up": (WIDTH, 4 * WIDTH), f"{_i}.down": (4 * WIDTH, WIDTH),
        }  # fmt: skip
    shapes |= {"last_norm": (WIDTH,), "last_bias": (WIDTH,), "head": (WIDTH, SYMBOLS)}

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        codes = rng.integers(0, SYMBOLS, (SEQUENCES, CONTEXT + 1))
        self.batch = codes[:, :-1].copy(), codes[:, 1:].copy()
        self.future = tn.triu(tn.ones((CONTEXT, CONTEXT), dtype=tn.bool), k=1)

    def ours(self, p: Weights, x: Any, y: Any) -> Any:
        """The loss."""
        h = tn.take(p["embed"], x, axis=0) + p["place"]
        for i in range(LAYERS):
            a = tn.layer_norm(h, WIDTH, p[f"{i}.first_norm"], p[f"{i}.first_bias"])
            q, k, v = (
                (a @ p[f"{i}.{m}"]).reshape((SEQUENCES, CONTEXT, HEADS, WIDTH // HEADS)).permute((0, 2, 1, 3))
                for m in "qkv"
            )
            scores = tn.where(self.future, -tn.inf, (q * (WIDTH // HEADS) ** -0.5) @ k.mT)
            seen = (tn.softmax(scores) @ v).permute((0, 2, 1, 3)).reshape((SEQUENCES, CONTEXT, WIDTH))
            h = h + seen @ p[f"{i}.out"]
            a = tn.layer_norm(h, WIDTH, p[f"{i}.second_norm"], p[f"{i}.second_bias"])
            h = h + tn.gelu(a @ p[f"{i}.up"]) @ p[f"{i}.down"]
        logits = tn.layer_norm(h, WIDTH, p["last_norm"], p["last_bias"]) @ p["head"]
        return tn.cross_entropy(logits.reshape((SEQUENCES * CONTEXT, SYMBOLS)), y.reshape((SEQUENCES * CONTEXT,)))

    def theirs(self, torch: Any, p: Weights, x: Any, y: Any) -> Any:
        """The loss, with PyTorch's own attention."""
        f = torch.nn.functional
        h = p["embed"][x] + p["place"]
        for i in range(LAYERS):
            a = f.layer_norm(h, (WIDTH,), p[f"{i}.first_norm"], p[f"{i}.first_bias"])
            q, k, v = (
                (a @ p[f"{i}.{m}"]).reshape(SEQUENCES, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2) for m in "qkv"
            )
            seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + seen.permute(0, 2, 1, 3).reshape(SEQUENCES, CONTEXT, WIDTH) @ p[f"{i}.out"]
            a = f.layer_norm(h, (WIDTH,), p[f"{i}.second_norm"], p[f"{i}.second_bias"])
            h = h + f.gelu(a @ p[f"{i}.up"]) @ p[f"{i}.down"]
        logits = f.layer_norm(h, (WIDTH,), p["last_norm"], p["last_bias"]) @ p["head"]
        return f.cross_entropy(logits.reshape(-1, SYMBOLS), y.reshape(-1))


MODELS: dict[str, type[Any]] = {"mlp": Mlp, "cnn": Cnn, "transformer": Transformer}


def eager(model: Any) -> Callable[[], Any]:
    """A step of ours with the tape."""
    p = {name: tn.asarray(w).requires_grad_() for name, w in drawn(model.shapes).items()}
    x, y = map(tn.asarray, model.batch)
    optimizer = AdamW(p)

    def step() -> Any:
        loss = model.ours(p, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def captured(model: Any) -> Callable[[], Any]:
    """A step of ours whose value and gradients are a graph."""
    p = {name: tn.asarray(w) for name, w in drawn(model.shapes).items()}
    x, y = map(tn.asarray, model.batch)
    optimizer = AdamW(p)
    both = tn.capture(tn.value_and_grad(model.ours))

    def step() -> Any:
        loss, gradients = both(p, x, y)
        for name, w in p.items():
            w.grad = gradients[name]
        optimizer.step()
        return loss

    return step


def peer(model: Any) -> Callable[[], Any]:
    """A step of PyTorch, eager."""
    import torch

    torch.set_num_threads(1)
    p = {name: torch.tensor(w, requires_grad=True) for name, w in drawn(model.shapes).items()}
    x, y = map(torch.tensor, model.batch)
    optimizer = torch.optim.AdamW(p.values())

    def step() -> Any:
        loss = model.theirs(torch, p, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def main() -> None:
    """Measures the models that were asked for."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("models", nargs="*", choices=[*MODELS, []], help="default: all")
    report = Report("train_step", options)
    for name in report.asked.models or MODELS:
        model = MODELS[name]()
        first = [make(model)().item() for make in (eager, captured, peer)]
        if max(first) - min(first) > 1e-3:
            raise RuntimeError(f"{name}: the first losses differ: {first}")
        for kind, make in (("eager", eager), ("captured", captured)):
            ours, theirs = alternate(make(model), peer(model), 3.0)
            report.add(f"{name}, {kind}", ours * 1e3, theirs * 1e3, "torch eager", "ms a step", "lower")
    report.finish()


if __name__ == "__main__":
    main()
