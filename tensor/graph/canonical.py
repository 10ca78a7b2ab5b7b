"""One form for graphs that do the same: steps nobody needs are left out, equal steps are made once."""

from __future__ import annotations

from typing import Any

from tensor.graph.graph import Graph, Step
from tensor.primitives.spec import total_bytes

__all__ = ["canonical", "needed", "renumbered"]

_SHARED_BYTES = 1 << 16  # results up to here are shared


def canonical(graph: Graph) -> Graph:
    """The graph without needless steps and values, numbered in the order of use. Results and effects stay the same."""
    return renumbered(needed(_shared(graph)))


def _key(step: Step) -> tuple[Any, tuple[int, ...], str]:
    """Equal for steps that do the same. By text: 0.0 and -0.0, 1 and True are equal values and other params."""
    return step.primitive, step.inputs, repr(sorted(step.params.items())) if step.params else ""


def _shared(graph: Graph) -> Graph:
    """Equal steps on equal values give one value; a step that overwrites memory ends what was known before it.

    A large result that is computed twice stays so: that is what `checkpoint` wants, to hold it for a shorter time.
    """
    same: dict[int, int] = {}
    known: dict[Any, tuple[int, ...]] = {}
    steps = []
    for old in graph.steps:
        inputs = tuple(same.get(v, v) for v in old.inputs)
        step = Step(old.primitive, inputs, old.outputs, old.params)
        if step.changes:
            known.clear()
            steps.append(step)
            continue
        if step.row == "alias":
            same[step.outputs[0]] = inputs[0]
            continue
        key = _key(step) if total_bytes(tuple(graph.specs[v] for v in step.outputs)) <= _SHARED_BYTES else None
        before = known.get(key) if key is not None else None
        if before is not None:
            same.update(zip(step.outputs, before, strict=True))
            continue
        if key is not None:
            known[key] = step.outputs
        steps.append(step)
    outputs = [same.get(v, v) for v in graph.outputs]
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, outputs)


def needed(graph: Graph) -> Graph:
    """The graph without steps and constants that neither a result nor an effect needs."""
    wanted = set(graph.outputs)
    kept = []
    for step in reversed(graph.steps):
        if step.changes or any(v in wanted for v in step.outputs):
            wanted.update(step.inputs)
            kept.append(step)
    constants = {v: t for v, t in graph.constants.items() if v in wanted}
    return Graph(graph.name, graph.specs, graph.inputs, constants, kept[::-1], graph.outputs)


def renumbered(graph: Graph) -> Graph:
    """The graph with its values numbered in the order of use, and without values that nothing uses."""
    number: dict[int, int] = {}
    out = Graph(graph.name)

    def of(v: int) -> int:
        if v not in number:
            number[v] = out.value(graph.specs[v])
        return number[v]

    out.inputs = [of(v) for v in graph.inputs]
    for step in graph.steps:
        inputs = tuple(of(v) for v in step.inputs)
        out.steps.append(Step(step.primitive, inputs, tuple(of(v) for v in step.outputs), step.params, step.again))
    out.outputs = [of(v) for v in graph.outputs]
    out.constants = {number[v]: graph.constants[v] for v in sorted(graph.constants, key=lambda v: number[v])}
    return out
