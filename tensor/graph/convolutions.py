"""Convolutions with what follows them: an activation, a maximum over windows, and their gradients on the small image.

Three rules, each with the bits of the steps it replaces:

- the gradient of a relu behind the gradient of a maximum moves before it, where the image is small: an element that a
  window chose is above 0 exactly where the window's maximum is;
- a convolution whose result only an activation reads takes it in;
- a convolution whose result only a maximum over windows reads takes that in.
"""

from __future__ import annotations

from tensor.graph.graph import Graph, Step
from tensor.primitives.convolution_pool import CONV_MAX_POOL, fits

__all__ = ["with_convolutions"]

_ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu", "gelu")


def with_convolutions(graph: Graph) -> Graph:
    """The graph after the three rules; itself where it has no convolution or a step overwrites memory."""
    names = {s.row for s in graph.steps}
    if not names & {"conv_affine", "max_pool"} or any(s.changes for s in graph.steps):
        return graph
    for rule in (_masked_before, _with_activation, _with_maximum):
        graph = Graph(graph.name, graph.specs, graph.inputs, graph.constants, rule(graph), graph.outputs)
    return graph


def _makers(graph: Graph) -> dict[int, Step]:
    return {v: step for step in graph.steps for v in step.outputs}


def _reads(graph: Graph) -> dict[int, int]:
    """How often each value is read, by steps and as a result."""
    found: dict[int, int] = {}
    for v in (*(v for s in graph.steps for v in s.inputs), *graph.outputs):
        found[v] = found.get(v, 0) + 1
    return found


def _masked_before(graph: Graph) -> list[Step]:
    """relu_gradient(pool_scatter(g, i), y) with (most, i) = max_pool(y) is pool_scatter(relu_gradient(g, most), i)."""
    makers, reads = _makers(graph), _reads(graph)
    steps: list[Step] = []
    for step in graph.steps:
        scatter = makers.get(step.inputs[0]) if step.row == "relu_gradient" else None
        pool = makers.get(scatter.inputs[1]) if scatter and scatter.row == "pool_scatter" else None
        if (
            scatter is None
            or pool is None
            or pool.row != "max_pool"
            or pool.inputs[0] != step.inputs[1]
            or graph.specs[step.inputs[0]].shape != graph.specs[step.inputs[1]].shape
            or reads[step.inputs[0]] != 1
        ):
            steps.append(step)
            continue
        g, index = scatter.inputs
        masked = graph.value(graph.specs[g])
        steps.append(Step(step.primitive, (g, pool.outputs[0]), (masked,)))
        steps.append(Step(scatter.primitive, (masked, index), step.outputs, scatter.params))
    read = {v for s in steps for v in s.inputs} | set(graph.outputs)
    return [s for s in steps if s.row != "pool_scatter" or s.outputs[0] in read]


def _with_activation(graph: Graph) -> list[Step]:
    makers, reads = _makers(graph), _reads(graph)
    taken: dict[int, Step] = {}  # result of a convolution → the step that replaces it and its reader
    gone: set[int] = set()
    for step in graph.steps:
        before = makers.get(step.inputs[0]) if step.row in _ACTIVATIONS else None
        if (
            before is None
            or before.row != "conv_affine"
            or before.params["activation"] != "none"
            or reads[before.outputs[0]] != 1
            or step.params
        ):
            continue
        params = {**before.params, "activation": step.row}
        taken[before.outputs[0]] = Step(before.primitive, before.inputs, step.outputs, params)
        gone.add(step.outputs[0])
    return _replaced(graph, taken, gone)


def _with_maximum(graph: Graph) -> list[Step]:
    makers, reads = _makers(graph), _reads(graph)
    taken: dict[int, Step] = {}
    gone: set[int] = set()
    for step in graph.steps:
        before = makers.get(step.inputs[0]) if step.row == "max_pool" else None
        if before is None or before.row != "conv_affine" or reads[before.outputs[0]] != 1:
            continue
        if not fits(graph.specs[before.outputs[0]], step.params):
            continue
        params = {**before.params, **{f"pool_{key}": value for key, value in step.params.items()}}
        taken[before.outputs[0]] = Step(CONV_MAX_POOL, before.inputs, step.outputs, params)
        gone.add(step.outputs[0])
    return _replaced(graph, taken, gone)


def _replaced(graph: Graph, taken: dict[int, Step], gone: set[int]) -> list[Step]:
    """Convolutions replaced by what took in their readers, which make the values in `gone` and are left out."""
    return [taken.get(s.outputs[0], s) for s in graph.steps if s.outputs[0] not in gone]
