"""Operators that run graphs, and those of optional values and sequences."""

from __future__ import annotations

from typing import Any

import tensor as tn
from tensor.onnx.node import Node, operator

__all__: list[str] = []

Tensor = Any

_STEPS_MAX = 2**31


@operator("If")
def _if(node: Node, condition: Tensor) -> tuple[Any, ...]:
    return node.run(node.require("then_branch" if condition.item() else "else_branch"))


@operator("Loop")
def _loop(node: Node, steps: Tensor = None, condition: Tensor = None, *carried: Any) -> tuple[Any, ...]:
    body = node.require("body")
    values, rows = list(carried), []
    going = True if condition is None else bool(condition.item())
    limit = _STEPS_MAX if steps is None else int(steps.item())
    step = 0
    while going and step < limit:
        found = node.run(body, tn.asarray(step, dtype=tn.int64), tn.asarray(True), *values)
        going = bool(found[0].item())
        values = list(found[1 : 1 + len(carried)])
        rows.append(found[1 + len(carried) :])
        step += 1
    if not rows and len(node.outputs) > len(carried):
        raise ValueError("a loop without a step has no outputs to stack")
    return (*values, *(tn.stack(column, axis=0) for column in zip(*rows, strict=True)))


@operator("Scan")
def _scan(node: Node, *inputs: Any) -> tuple[Any, ...]:
    body, count = node.require("body"), node.require("num_scan_inputs")
    if node.version < 9:
        return _scan_batches(node, body, count, inputs[1:])
    states = list(inputs[: len(inputs) - count])
    axes = node.get("scan_input_axes", [0] * count)
    backwards = node.get("scan_input_directions", [0] * count)
    lines = [
        tn.unstack(tn.flip(x, axis=a) if back else x, axis=a)
        for x, a, back in zip(inputs[len(inputs) - count :], axes, backwards, strict=True)
    ]
    rows = []
    for parts in zip(*lines, strict=True):
        found = node.run(body, *states, *parts)
        states = list(found[: len(states)])
        rows.append(found[len(states) :])
    if not rows:
        raise ValueError("a scan without a step has no outputs to stack")
    columns = list(zip(*rows, strict=True))
    out_axes = node.get("scan_output_axes", [0] * len(columns))
    turned = node.get("scan_output_directions", [0] * len(columns))
    outputs = [tn.stack(c[::-1] if back else c, axis=a) for c, a, back in zip(columns, out_axes, turned, strict=True)]
    return (*states, *outputs)


def _scan_batches(node: Node, body: Any, count: int, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Scan of operator set 8: a leading axis of batches, then the axis of steps."""
    results = []
    for i in range(inputs[0].shape[0]):
        states = [x[i] for x in inputs[: len(inputs) - count]]
        rows = []
        for parts in zip(*(tn.unstack(x[i], axis=0) for x in inputs[len(inputs) - count :]), strict=True):
            found = node.run(body, *states, *parts)
            states = list(found[: len(states)])
            rows.append(found[len(states) :])
        results.append((*states, *(tn.stack(c, axis=0) for c in zip(*rows, strict=True))))
    return tuple(tn.stack(c, axis=0) for c in zip(*results, strict=True))


@operator("OptionalHasElement")
def _has_element(node: Node, value: Any = None) -> Tensor:
    return tn.asarray(value is not None)


@operator("OptionalGetElement")
def _get_element(node: Node, value: Any = None) -> Any:
    if value is None:
        raise ValueError("the optional holds nothing")
    return value


@operator("Optional")
def _optional(node: Node, value: Any = None) -> Any:
    return value


@operator("SequenceConstruct")
def _construct(node: Node, *values: Any) -> list[Any]:
    return list(values)


@operator("SequenceEmpty")
def _empty(node: Node) -> list[Any]:
    return []


@operator("SequenceLength")
def _length(node: Node, values: list[Any]) -> Tensor:
    return tn.asarray(len(values), dtype=tn.int64)


@operator("SequenceAt")
def _at(node: Node, values: list[Any], place: Tensor) -> Any:
    return values[int(place.item())]


@operator("SequenceInsert")
def _insert(node: Node, values: list[Any], value: Any, place: Tensor = None) -> list[Any]:
    at = len(values) if place is None else int(place.item())
    if not -len(values) <= at <= len(values):
        raise IndexError(f"place {at} is not in a sequence of {len(values)}")
    at = at + len(values) if at < 0 else at
    return [*values[:at], value, *values[at:]]


@operator("SequenceErase")
def _erase(node: Node, values: list[Any], place: Tensor = None) -> list[Any]:
    at = len(values) - 1 if place is None else int(place.item())
    if not -len(values) <= at < len(values):
        raise IndexError(f"place {at} is not in a sequence of {len(values)}")
    at = at % len(values)
    return [*values[:at], *values[at + 1 :]]


@operator("ConcatFromSequence")
def _concat_sequence(node: Node, values: list[Any]) -> Tensor:
    join = tn.stack if node.get("new_axis", 0) else tn.concat
    return join(values, axis=node.require("axis"))


@operator("SplitToSequence")
def _split_sequence(node: Node, x: Tensor, split: Tensor = None) -> list[Any]:
    axis = node.get("axis", 0)
    n = x.shape[axis]
    each = 1 if split is None else int(split.item()) if split.ndim == 0 else None
    if each is not None and each < 1:
        raise ValueError(f"parts have at least one element, got {each}")
    sizes = split.tolist() if each is None else [min(each, n - i) for i in range(0, n, each)]
    parts = list(tn.split(x, sizes, axis=axis))
    if split is None and not node.get("keepdims", 1):
        parts = [tn.squeeze(p, axis) for p in parts]
    return parts


@operator("SequenceMap")
def _map(node: Node, values: list[Any], *others: Any) -> tuple[list[Any], ...]:
    body = node.require("body")
    rows = []
    for i, value in enumerate(values):
        rest = [o[i] if isinstance(o, list) else o for o in others]
        rows.append(node.run(body, value, *rest))
    return tuple(list(column) for column in zip(*rows, strict=True))
