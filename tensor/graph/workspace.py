"""What kernels work in beside their results, known before anything runs.

A kernel of products or convolutions says how much it packs from its operands' shapes and strides. It is asked on
operands of address space alone: the call ends where it would take its working memory, and no element is read.
"""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.graph.body import Body
from tensor.graph.graph import Graph, Step
from tensor.primitives.rules import broadcast_shapes
from tensor.primitives.spec import Spec, item_bytes, total_bytes

__all__ = ["workspaces"]

Tensor = Any

# Rows whose kernels take all their working memory at once, before they touch an element.
_ASKED = frozenset(
    (
        "matmul",
        "affine",
        "byte_matmul",
        "fused_product",
        "conv",
        "conv_affine",
        "conv_transpose",
        "conv_weight_gradient",
        "argsort",
        "sort",
        "top_k",
    )
)
_SUM_BLOCK = 4096  # elements of one partial result at the end of a fused chain


def workspaces(graph: Graph) -> list[int]:
    """The bytes that each step's kernel works in, for contiguous inputs of the graph."""
    if _kernels.isa() == "ref":
        return [0] * len(graph.steps)  # twins work in numpy's arrays
    asked = [step for step in graph.steps if step.primitive.name in _ASKED and step.primitive.kernel is not None]
    maker = {v: step for step in graph.steps if step.is_view for v in step.outputs}
    sizes = {id(step): _reach(graph, maker, (*step.inputs, *step.outputs)) for step in asked}
    space = _space(max(sizes.values(), default=0))
    token = _kernels.active_budgets.set(())  # nothing here is a tensor of anybody's
    try:
        return [
            _ask(graph, step, maker, space) if id(step) in sizes and space is not None else _known(graph, step)
            for step in graph.steps
        ]
    finally:
        _kernels.active_budgets.reset(token)


def _known(graph: Graph, step: Step) -> int:
    bodies = [x for x in (step.params or {}).values() if isinstance(x, Body)]
    if bodies:
        return max(max(body.plan.workspace_bytes, default=0) for body in bodies)
    if step.primitive.name != "fused":
        return 0
    program = step.params["program"]
    if not program.end:
        return 0
    specs = [graph.specs[v] for v in step.inputs]
    shape = broadcast_shapes("fused", [s.shape for s in specs])
    split = len(shape) - program.axes
    rows, columns = (Spec(part, "uint8").size for part in (shape[:split], shape[split:]))
    blocks = -(-columns // _SUM_BLOCK)
    return rows * (blocks + 1) * item_bytes(graph.specs[step.outputs[0]].dtype) if rows and blocks > 1 else 0


def _room(graph: Graph, v: int) -> int:
    return -(-total_bytes((graph.specs[v],)) // 64) * 64


def _reach(graph: Graph, maker: dict[int, Step], values: tuple[int, ...]) -> int:
    """The bytes of values and of what they look at."""
    total = 0
    for v in values:
        made = maker.get(v)
        total += _room(graph, v) if made is None else _reach(graph, maker, made.inputs)
    return total


def _space(nbytes: int) -> memoryview | None:
    """Address space that is never touched; None where there is none."""
    import mmap

    if nbytes == 0:
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        return memoryview(mmap.mmap(-1, nbytes, flags=flags))
    except OSError:
        return None


def _ask(graph: Graph, step: Step, maker: dict[int, Step], space: memoryview) -> int:
    at = 0

    def stand_in(v: int) -> Tensor:
        nonlocal at
        if v in graph.constants:
            return graph.constants[v].detach()
        made = maker.get(v)
        if made is not None:
            return made.primitive.view(tuple(stand_in(i) for i in made.inputs), made.params)
        spec = graph.specs[v]
        nbytes = total_bytes((spec,))
        first, at = at, at + _room(graph, v)
        return _kernels.over_bytes(space[first : first + nbytes], spec.dtype, spec.shape)

    try:
        ins, outs = tuple(stand_in(v) for v in step.inputs), tuple(stand_in(v) for v in step.outputs)
        return int(_kernels.workspace_of(step.primitive.kernel, outs, ins, step.params))
    except (RuntimeError, TypeError, ValueError):
        return 0  # no kernel for these types: the twin runs
