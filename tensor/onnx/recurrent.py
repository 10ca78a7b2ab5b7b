"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensor as tn
from tensor.onnx.node import OPERATORS, Node, operator

__all__: list[str] = []

Tensor = Any
Activation = Callable[[Tensor], Tensor]
# One step: gates of the input [batch, gates·hidden], states → states (the first is the output).
Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]

_ACTIVATIONS = frozenset(
    ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign", "Softplus")
)


def _activations(node: Node, defaults: list[str], direction: int) -> list[Activation]:
    """The functions of one direction."""
    n = len(defaults)
    names = node.get("activations", defaults * (direction + 1))
    alphas, betas = list(node.get("activation_alpha", [])), list(node.get("activation_beta", []))
    chosen: list[Activation] = []
    for name in names[direction * n : (direction + 1) * n]:
        key = next((k for d, k in OPERATORS if d == "" and k.lower() == name.lower()), None)
        if key is None or key not in _ACTIVATIONS:
            raise ValueError(f"the engine has no activation {name} here")
        attributes = {}
        if key in ("LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu") and alphas:
            attributes["alpha"] = alphas.pop(0)
        if key == "HardSigmoid" and betas:
            attributes["beta"] = betas.pop(0)
        inner = Node(key, "", node.version, node.name, (), (), attributes)
        chosen.append(partial(OPERATORS["", key], inner))
    return chosen


def _run(
    node: Node, x: Tensor, w: Tensor, b: Tensor, step: Step, states: tuple[Tensor, ...], lengths: Any, backwards: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """All outputs [steps, batch, hidden] of one direction, and the last states."""
    bound = node.get("clip")
    gates = tn.matmul(x, tn.matrix_transpose(w)) + b
    steps = x.shape[0]
    outputs: list[Tensor] = [None] * steps
    for t in reversed(range(steps)) if backwards else range(steps):
        row = gates[t] if bound is None else tn.clip(gates[t], -bound, bound)
        new = step(row, states)
        if lengths is not None:
            alive = tn.expand_dims(lengths > t, axis=1)
            new = tuple(tn.where(alive, a, s) for a, s in zip(new, states, strict=True))
            outputs[t] = tn.where(alive, new[0], tn.zeros((), dtype=x.dtype))
        else:
            outputs[t] = new[0]
        states = new
    return tn.stack(outputs, axis=0), states


def _directions(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    lengths: Tensor,
    initial: list[Tensor],
    make: Callable[[int, Tensor, Tensor], tuple[Tensor, Step]],
) -> tuple[Tensor, ...]:
    """Runs all directions; `make` gives the bias of the input's gates and the step of a direction."""
    batched = bool(node.get("layout", 0))
    if batched:
        x = x.permute((1, 0, 2))
        initial = [s if s is None else s.permute((1, 0, 2)) for s in initial]
    hidden, gates = r.shape[2], w.shape[1]
    kind = node.get("direction", "forward")
    outputs, lasts = [], []
    for d in range(w.shape[0]):
        states = tuple(tn.zeros((x.shape[1], hidden), dtype=x.dtype) if s is None else s[d] for s in initial)
        both = tn.zeros((2 * gates,), dtype=x.dtype) if b is None else b[d]
        bias, step = make(d, both[:gates], both[gates:])
        y, last = _run(node, x, w[d], bias, step, states, lengths, kind == "reverse" or d == 1)
        outputs.append(y)
        lasts.append(last)
    y = tn.stack(outputs, axis=1)
    ends = [tn.stack(column, axis=0) for column in zip(*lasts, strict=True)]
    if batched:
        return y.permute((2, 0, 1, 3)), *(e.permute((1, 0, 2)) for e in ends)
    return y, *ends


@operator("RNN")
def _rnn(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor = None, lengths: Tensor = None, h: Tensor = None
) -> tuple[Tensor, ...]:
    def make(d: int, bias: Tensor, more: Tensor) -> tuple[Tensor, Step]:
        (f,) = _activations(node, ["Tanh"], d)
        weight = tn.matrix_transpose(r[d])
        return bias + more, lambda row, states: (f(row + tn.matmul(states[0], weight)),)

    return _directions(node, x, w, r, b, lengths, [h], make)


@operator("GRU")
def _gru(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor = None, lengths: Tensor = None, h: Tensor = None
) -> tuple[Tensor, ...]:
    n = r.shape[2]
    before = bool(node.get("linear_before_reset", 0))

    def make(d: int, bias: Tensor, more: Tensor) -> tuple[Tensor, Step]:
        f, g = _activations(node, ["Sigmoid", "Tanh"], d)
        gates, last = tn.matrix_transpose(r[d][: 2 * n]), tn.matrix_transpose(r[d][2 * n :])

        def step(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (old,) = states
            both = f(row[:, : 2 * n] + tn.matmul(old, gates) + more[: 2 * n])
            update, reset = both[:, :n], both[:, n:]
            if before:
                new = g(row[:, 2 * n :] + reset * (tn.matmul(old, last) + more[2 * n :]))
            else:
                new = g(row[:, 2 * n :] + tn.matmul(reset * old, last) + more[2 * n :])
            return ((1 - update) * new + update * old,)

        return bias, step

    return _directions(node, x, w, r, b, lengths, [h], make)


@operator("LSTM")
def _lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor = None,
    lengths: Tensor = None,
    h: Tensor = None,
    c: Tensor = None,
    peep: Tensor = None,
) -> tuple[Tensor, ...]:
    n = r.shape[2]

    def make(d: int, bias: Tensor, more: Tensor) -> tuple[Tensor, Step]:
        f, g, out = _activations(node, ["Sigmoid", "Tanh", "Tanh"], d)
        weight = tn.matrix_transpose(r[d])
        p = tn.zeros((3 * n,), dtype=x.dtype) if peep is None else peep[d]

        def step(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            old, cell = states
            gates = row + tn.matmul(old, weight)
            enter = f(gates[:, :n] + p[:n] * cell)
            forget = f(gates[:, 2 * n : 3 * n] + p[2 * n :] * cell)
            forget = 1 - enter if node.get("input_forget", 0) else forget
            cell = forget * cell + enter * g(gates[:, 3 * n :])
            return f(gates[:, n : 2 * n] + p[n : 2 * n] * cell) * out(cell), cell

        return bias + more, step

    return _directions(node, x, w, r, b, lengths, [h, c], make)
