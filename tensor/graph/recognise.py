"""Softmax written out by hand, as one step: maximum, difference, exp, sum, quotient are what its row does, bit for bit.

That holds in float32 and float64. Other formulas stay as they are: the rows of log_softmax and of the norms round
differently, in the sign of a zero or by fused multiply-adds.
"""

from __future__ import annotations

from collections import Counter

from tensor.graph.graph import Graph, Step
from tensor.primitives.registry import row

__all__ = ["with_softmax"]


def with_softmax(graph: Graph) -> Graph:
    """The graph with e / sum(e), e = exp(x − max(x)) along one axis, as softmax, if nobody else reads its parts."""
    maker = {v: step for step in graph.steps for v in step.outputs}
    changed = any(step.changes for step in graph.steps)
    readers = Counter([v for step in graph.steps for v in step.inputs] + graph.outputs)
    steps = []
    for step in graph.steps:
        found = None if changed else _softmax(graph, step, maker, readers)
        if found is not None:
            x, axis = found
            step = Step(row("softmax", "softmax"), (x,), step.outputs, {"axis": axis})  # noqa: PLW2901
        steps.append(step)
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, graph.outputs)


def _softmax(graph: Graph, quotient: Step, maker: dict[int, Step], readers: Counter[int]) -> tuple[int, int] | None:
    if quotient.row != "div" or graph.specs[quotient.outputs[0]].dtype.name not in ("float32", "float64"):
        return None
    e, total = quotient.inputs
    exp, last = maker.get(e), _reduction(graph, maker.get(total), "sum")
    if exp is None or exp.row != "exp" or last != (e, last[1] if last else -1):
        return None
    difference = maker.get(exp.inputs[0])
    if difference is None or difference.row != "sub":
        return None
    x, shift = difference.inputs
    if _reduction(graph, maker.get(shift), "max") != (x, last[1]):
        return None
    if [readers[v] for v in (e, total, difference.outputs[0], shift)] != [2, 1, 1, 1]:
        return None
    return (x, last[1]) if graph.specs[x].shape == graph.specs[e].shape else None


def _reduction(graph: Graph, step: Step | None, name: str) -> tuple[int, int] | None:
    """What is reduced along which one axis, if the result keeps it."""
    if step is None or step.row != name or not step.params["keepdims"] or len(step.params["axis"]) != 1:
        return None
    return step.inputs[0], step.params["axis"][0]
