"""Strides of a graph's values, and copies before the reshapes that no view can make.

A reshape is a view where strides allow it, else a copy that it makes itself. In a graph such a copy must be a step with
a buffer of its own, or it would be made from memory that holds nothing yet.
"""

from __future__ import annotations

import math
from typing import Any

from tensor.graph.graph import Graph, Step

__all__ = ["c_strides", "reshape_strides", "strides_of", "with_copies"]

Dims = tuple[int, ...]


def c_strides(shape: Dims) -> Dims:
    """Strides in elements of a tensor in C order.

    >>> c_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def reshape_strides(shape: Dims, strides: Dims, wanted: Dims) -> Dims | None:
    """Strides of the same elements in another shape of as many, or None where only a copy has it.

    >>> reshape_strides((4, 6), (6, 1), (2, 2, 6))
    (12, 6, 1)
    >>> reshape_strides((4, 6), (1, 4), (24,)) is None
    True
    """
    if math.prod(wanted) == 0:
        return c_strides(wanted)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    out: list[int] = []
    at = 0
    i = 0
    while i < len(wanted):
        if wanted[i] == 1:
            out.append(1)
            i += 1
            continue
        # the fewest dimensions on both sides with as many elements
        j, k = i + 1, at + 1
        new_size, old_size = wanted[i], old[at][0]
        while new_size != old_size:
            if new_size < old_size:
                new_size *= wanted[j]
                j += 1
            else:
                old_size *= old[k][0]
                k += 1
        for a in range(at, k - 1):
            if old[a][1] != old[a + 1][1] * old[a + 1][0]:
                return None
        step = old[k - 1][1]
        group = []
        for n in reversed(wanted[i:j]):
            group.append(step)
            step *= n
        out += reversed(group)
        i, at = j, k
    return tuple(out)


def _index(strides: Dims, index: Any) -> Dims:
    out: list[int] = []
    d = 0
    for entry in index:
        if entry is None:
            out.append(0)
            continue
        if not isinstance(entry, int):
            out.append(strides[d] * entry[2])
        d += 1
    return tuple(out)


def _expand(shape: Dims, strides: Dims, wanted: Dims) -> Dims:
    new = len(wanted) - len(shape)
    same = (s if n == w else 0 for n, s, w in zip(shape, strides, wanted[new:], strict=True))
    return (*(0 for _ in range(new)), *same)


def strides_of(graph: Graph) -> dict[int, Dims | None]:
    """Strides in elements of each value, inputs being in C order; None where they are not known before a run."""
    strides = _from_outside(graph)
    for step in graph.steps:
        if step.is_view:
            strides[step.outputs[0]] = _of_view(graph, step, strides.get(step.inputs[0]))
        else:
            for v in step.outputs:
                strides[v] = None if step.changes else c_strides(graph.specs[v].shape)
    return strides


def _from_outside(graph: Graph) -> dict[int, Dims | None]:
    strides: dict[int, Dims | None] = {v: c_strides(graph.specs[v].shape) for v in graph.inputs}
    for v, x in graph.constants.items():
        strides[v] = tuple(x.strides) if x is not None else c_strides(graph.specs[v].shape)
    return strides


def _of_view(graph: Graph, step: Step, have: Dims | None) -> Dims | None:
    """Strides of a view; None where they are not known, or where only a copy has its shape."""
    shape, wanted = graph.specs[step.inputs[0]].shape, graph.specs[step.outputs[0]].shape
    name, params = step.primitive.name, step.params
    if have is None:
        return None
    if name == "permute":
        return tuple(have[a] for a in params["axes"])
    if name == "expand":
        return _expand(shape, have, wanted)
    if name == "index":
        return _index(have, params["index"])
    return reshape_strides(shape, have, wanted) if name == "reshape" else have


def with_copies(graph: Graph) -> Graph:
    """The graph with a copy before each reshape that needs one, inputs being in C order.

    An input in another order may need one more, which the reshape then makes at each run.
    """
    from tensor.primitives.registry import row

    strides = _from_outside(graph)  # None: not known before it runs
    steps: list[Step] = []
    for step in graph.steps:
        made = step.outputs
        if not step.is_view:
            for v in made:
                strides[v] = None if step.changes else c_strides(graph.specs[v].shape)
            steps.append(step)
            continue
        source = step.inputs[0]
        have = strides.get(source)
        strides[made[0]] = _of_view(graph, step, have)
        if have is not None and strides[made[0]] is None:
            copied = graph.value(graph.specs[source])
            steps.append(Step(row("copy", "elementwise"), (source,), (copied,)))
            steps.append(Step(step.primitive, (copied,), made, step.params))
            strides[made[0]] = c_strides(graph.specs[made[0]].shape)
            continue
        steps.append(step)
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, graph.outputs)
