"""The steps of control flow: a loop over slices, a loop while a condition holds, one of two branches.

Their bodies are graphs that are captured once, so that 4,000 turns of a loop take the memory of one. A body reads what
the function found outside as inputs behind its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensor import _kernels
from tensor.graph.body import Body, BodyRow
from tensor.graph.graph import Graph, Step
from tensor.primitives.spec import Spec, name_of, total_bytes

__all__ = ["BRANCH", "CONTROL", "SCAN", "WHILE", "copies", "with_bodies"]


def _like(specs: Any, graph: Graph, values: list[int]) -> bool:
    """Whether specs are those of the values."""
    given = [(s.shape, name_of(s.dtype), str(s.device)) for s in specs]
    return given == [(graph.specs[v].shape, name_of(graph.specs[v].dtype), str(graph.specs[v].device)) for v in values]


def _require(good: bool, name: str, what: str) -> None:
    if not good:
        raise ValueError(f"{name}: {what}")


def _room_of(specs: list[Spec]) -> list[int]:
    """Where each lies behind the others, and behind the last one where they end."""
    places = [0]
    for spec in specs:
        places.append(places[-1] + -(-total_bytes((spec,)) // 64) * 64)
    return places


def _flops(body: Body) -> int:
    total = 0
    for s in body.graph.steps:
        given = tuple([body.graph.specs[v] for v in s.inputs]), tuple([body.graph.specs[v] for v in s.outputs])
        total += 0 if s.is_view else int(s.primitive.cost(*given, s.params)[1])
    return total


def copies(specs: list[Spec]) -> Body:
    """A body that copies each input."""
    from tensor.primitives.registry import row

    graph = Graph("copies")
    graph.inputs = [graph.value(s) for s in specs]
    for v in graph.inputs:
        made = graph.value(graph.specs[v])
        graph.steps.append(Step(row("copy", "elementwise"), (v,), (made,)))
        graph.outputs.append(made)
    return Body(graph)


# --- a loop over slices ---------------------------------------------------------------------------------------------
# params: body, length, reverse, carry (how many values are carried), sliced (how many are taken slice by slice)


def _scan_specs(specs: tuple[Any, ...], params: Any) -> tuple[Spec, ...]:
    graph: Graph = params["body"].graph
    n, c, s = params["length"], params["carry"], params["sliced"]
    counted = all(type(k) is int and k >= 0 for k in (n, c, s)) and n > 0 and type(params["reverse"]) is bool
    _require(counted, "scan", "counts must not be negative")
    _require(len(specs) == len(graph.inputs) >= c + s and len(graph.outputs) >= c, "scan", "too few values")
    _require(_like(specs[:c], graph, graph.inputs[:c]), "scan", "the carry must be what the body reads")
    _require(_like([graph.specs[v] for v in graph.outputs[:c]], graph, graph.inputs[:c]), "scan", "the carry must stay")
    _require(all(len(x.shape) and x.shape[0] == n for x in specs[c : c + s]), "scan", f"expected {n} slices")
    slices = [Spec(x.shape[1:], x.dtype, x.device) for x in specs[c : c + s]]
    _require(_like(slices, graph, graph.inputs[c : c + s]), "scan", "slices must be what the body reads")
    _require(_like(specs[c + s :], graph, graph.inputs[c + s :]), "scan", "the body reads other values")
    made = [graph.specs[v] for v in graph.outputs]
    return (*made[:c], *(Spec((n, *x.shape), x.dtype, x.device) for x in made[c:]))


def _carried(params: Any) -> list[Spec]:
    graph: Graph = params["body"].graph
    return [graph.specs[v] for v in graph.inputs[: params["carry"]]]


def _scan_room(params: Any) -> int:
    return int(-(-params["body"].arena_bytes // 64) * 64 + 2 * _room_of(_carried(params))[-1])


def _slice(x: Any, i: int) -> Any:
    return _kernels.index_view(x, (i, *((0, n, 1) for n in x.shape[1:])))


def _scan_prepare(params: Any, prepared: Any, memory: Any) -> Any:
    n, c, s = params["length"], params["carry"], params["sliced"]
    run = prepared(params["body"])
    held = _two_places(_carried(params), -(-params["body"].arena_bytes // 64) * 64, memory)
    turns = list(range(n))[:: -1 if params["reverse"] else 1]

    def call(outs: Any, inputs: Any) -> None:
        state, rest = list(inputs[:c]), list(inputs[c + s :])
        for k, i in enumerate(turns):
            into = list(outs[:c]) if k == n - 1 else held[k % 2]
            slices = [_slice(x, i) for x in inputs[c : c + s]]
            run([*state, *slices, *rest], [*into, *(_slice(y, i) for y in outs[c:])])
            state = into

    return call


def _two_places(specs: list[Spec], base: int, memory: Any) -> list[list[Any]]:
    """Two sets of tensors for what is carried: a turn reads one and writes the other."""
    places = _room_of(specs)
    return [
        [memory(spec, base + which * places[-1] + at) for spec, at in zip(specs, places, strict=False)]
        for which in (0, 1)
    ]


SCAN = BodyRow(
    "scan",
    _scan_specs,
    _scan_room,
    lambda specs, outs, params: (total_bytes((*specs, *outs)), params["length"] * _flops(params["body"])),
    _scan_prepare,
    members=("body", "carry", "length", "reverse", "sliced"),
)


# --- a loop while a condition holds ----------------------------------------------------------------------------------
# params: condition, body, carry, split (inputs up to here are the carry and what the condition reads besides it)


def _while_specs(specs: tuple[Any, ...], params: Any) -> tuple[Spec, ...]:
    condition, body = params["condition"].graph, params["body"].graph
    c, split = params["carry"], params["split"]
    _require(all(type(k) is int and k >= 0 for k in (c, split)) and c <= split <= len(specs), "while_loop", "counts")
    _require(len(condition.outputs) == 1, "while_loop", "the condition gives one value")
    good = condition.specs[condition.outputs[0]]
    _require(good.shape == () and name_of(good.dtype) == "bool", "while_loop", "the condition must be a 0-d bool")
    _require(_like(specs[:split], condition, condition.inputs), "while_loop", "the condition reads other values")
    _require(_like([*specs[:c], *specs[split:]], body, body.inputs), "while_loop", "the body reads other values")
    _require(_like(specs[:c], body, body.outputs), "while_loop", "the carry must stay")
    return tuple([body.specs[v] for v in body.outputs])


def _while_room(params: Any) -> int:
    arena = max(params["condition"].arena_bytes, params["body"].arena_bytes)
    return int(64 + -(-arena // 64) * 64 + 2 * _room_of(_carried(params))[-1])


def _while_prepare(params: Any, prepared: Any, memory: Any) -> Any:
    c, split = params["carry"], params["split"]
    going = memory(Spec((), "bool"), 0)
    test, turn = prepared(params["condition"], 64), prepared(params["body"], 64)
    arena = max(params["condition"].arena_bytes, params["body"].arena_bytes)
    held = _two_places(_carried(params), 64 + -(-arena // 64) * 64, memory)
    copy = prepared(copies(_carried(params)), 64)

    def call(outs: Any, inputs: Any) -> None:
        state, first, second = list(inputs[:c]), list(inputs[c:split]), list(inputs[split:])
        for k in range(1 << 62):
            test([*state, *first], [going])
            if not bool(going):
                break
            turn([*state, *second], held[k % 2])
            state = held[k % 2]
        copy(state, outs)

    return call


WHILE = BodyRow(
    "while_loop",
    _while_specs,
    _while_room,
    lambda specs, outs, params: (total_bytes((*specs, *outs)), _flops(params["condition"]) + _flops(params["body"])),
    _while_prepare,
    members=("body", "carry", "condition", "split"),
)


# --- one of two branches ---------------------------------------------------------------------------------------------
# params: true, false, split (inputs up to here are the condition and what the true branch reads)


def _branch_specs(specs: tuple[Any, ...], params: Any) -> tuple[Spec, ...]:
    yes, no, split = params["true"].graph, params["false"].graph, params["split"]
    _require(type(split) is int and 1 <= split <= len(specs), "cond", "counts")
    _require(specs[0].shape == () and name_of(specs[0].dtype) == "bool", "cond", "the condition must be a 0-d bool")
    _require(_like(specs[1:split], yes, yes.inputs), "cond", "the true branch reads other values")
    _require(_like(specs[split:], no, no.inputs), "cond", "the false branch reads other values")
    made = [yes.specs[v] for v in yes.outputs]
    _require(_like(made, no, no.outputs), "cond", "both branches must give the same shapes and dtypes")
    return tuple(made)


def _branch_prepare(params: Any, prepared: Any, memory: Any) -> Any:
    yes, no, split = prepared(params["true"]), prepared(params["false"]), params["split"]

    def call(outs: Any, inputs: Any) -> None:
        if bool(inputs[0]):
            yes(inputs[1:split], outs)
        else:
            no(inputs[split:], outs)

    return call


BRANCH = BodyRow(
    "cond",
    _branch_specs,
    lambda params: int(max(params["true"].arena_bytes, params["false"].arena_bytes)),
    lambda specs, outs, params: (
        total_bytes((*specs, *outs)),
        max(_flops(params["true"]), _flops(params["false"])),
    ),
    _branch_prepare,
    members=("false", "split", "true"),
)

CONTROL = {row.name: row for row in (SCAN, WHILE, BRANCH)}


def with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with another graph in place of each body of its control flow."""
    if not any(s.primitive in CONTROL.values() for s in graph.steps):
        return graph
    steps = []
    for s in graph.steps:
        if s.primitive in CONTROL.values():
            params = {k: Body(change(v.graph)) if isinstance(v, Body) else v for k, v in s.params.items()}
            s = Step(s.primitive, s.inputs, s.outputs, params, s.again)  # noqa: PLW2901
        steps.append(s)
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, graph.outputs)
