"""Products take in the elementwise chain that reads them: it runs on each block of rows while that is in the cache.

It pays where the product is larger than the second-level cache and its rows are long, and where it is so small that the
call costs more than the work; between the two, a pass of its own over what is in the cache anyway is as fast or faster.

A chain stays behind the last step that it reads from; where all of that was there before the product, it moves to the
product, else the product moves to the chain. A step that overwrites memory is never moved past.
"""

from __future__ import annotations

from tensor.graph.fusion import as_program
from tensor.graph.graph import Graph, Step
from tensor.primitives.fused import FUSED
from tensor.primitives.fused_product import FUSED_PRODUCT, place_of_product
from tensor.primitives.spec import Spec, total_bytes

__all__ = ["with_products"]

_TYPES = ("float32", "float64")  # narrower ones finish row by row
_SMALL, _LARGE = 1 << 14, 1 << 22  # bytes of a product that is joined: up to, and from
_COLUMNS = 1024  # of a large one, at least


def with_products(graph: Graph) -> Graph:
    """The graph with products and the chains behind them joined."""
    readers: dict[int, int] = {}
    for step in graph.steps:
        for v in dict.fromkeys(step.inputs):
            readers[v] = readers.get(v, 0) + 1
    for v in graph.outputs:
        readers[v] = readers.get(v, 0) + 1
    out: list[Step | None] = []
    at: dict[int, int] = {}  # value → where in `out` its step is
    barrier = -1
    for step in graph.steps:
        place, now, stays = _joined(graph, step, out, at, barrier, readers) or (-1, step, False)
        where = place if stays else len(out)
        if stays:
            out[place] = now
        else:
            if place >= 0:
                out[place] = None
            out.append(now)
        if now.changes:
            barrier = where
        for v in now.outputs:
            at[v] = where
    steps = [s for s in out if s is not None]
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, graph.outputs)


def _joined(
    graph: Graph, step: Step, out: list[Step | None], at: dict[int, int], barrier: int, readers: dict[int, int]
) -> tuple[int, Step, bool] | None:
    """Where the product is, the two as one step, and whether it stays there."""
    if step.primitive is not FUSED and (step.primitive.op < 0 or len(step.outputs) != 1):
        return None
    shape = graph.specs[step.outputs[0]].shape
    for where in sorted({at[v] for v in step.inputs if at.get(v, -1) > barrier}, reverse=True):
        product = out[where]
        assert product is not None
        v = product.outputs[0]
        if product.row != "matmul" or graph.specs[v].shape != shape:
            continue
        stays = all(at.get(u, -1) < where for u in step.inputs if u != v)
        if not stays and any(s is not None and v in s.inputs for s in out[where + 1 :]):
            continue
        merged = _merged(graph, product, step, readers[v] > 1)
        if merged is not None:
            return where, merged, stays
    return None


def _pays(product: Spec) -> bool:
    nbytes = total_bytes((product,))
    large = nbytes >= _LARGE and product.shape[-1] >= _COLUMNS
    return product.dtype.name in _TYPES and (nbytes <= _SMALL or large)


def _merged(graph: Graph, product: Step, step: Step, keeps: bool) -> Step | None:
    v = product.outputs[0]
    if not _pays(graph.specs[v]):
        return None
    found = as_program(graph, step)
    if found is None or found[0].end:
        return None
    program, inputs = found
    first = inputs.index(v)
    order = (v, *(u for u in inputs if u != v))
    program = program.with_inputs((first, *(j for j in range(len(inputs)) if j != first)))
    if not keeps and place_of_product(program) < 0:
        return None
    if not program.runs():
        return None
    outputs = (v, *step.outputs) if keeps else step.outputs
    return Step(FUSED_PRODUCT, (*product.inputs, *order[1:]), outputs, {"program": program, "keeps": keeps})
