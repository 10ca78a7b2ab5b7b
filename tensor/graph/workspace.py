"""How much memory kernels work in beside their inputs and results: asked of the kernels themselves.

A kernel that packs or sorts or factorises takes its memory first. It is called on tensors of the right shapes and
strides that lie in pages nobody has touched, told to stop when it has that memory, and a budget says how much it was.
"""

from __future__ import annotations

import mmap
from typing import Any

from tensor import _kernels
from tensor.graph.arena import tensor_over
from tensor.graph.body import Body, BodyRow
from tensor.graph.graph import Graph, Step
from tensor.graph.layout import c_strides, strides_of
from tensor.primitives.spec import Spec, item_bytes

__all__ = ["workspaces"]

# Rows whose kernels take memory of their own; tests/tensor/test_workspaces.py runs all rows and finds no other.
_ASKED = frozenset([
    "affine", "argsort", "average_pool", "average_pool_gradient", "byte_matmul", "cholesky", "conv", "conv_affine",
    "conv_max_pool", "conv_transpose", "conv_weight_gradient", "det", "eigh", "fft", "fused", "fused_product", "inv",
    "irfft", "lu", "matmul", "max_pool", "nonzero", "pool_gather", "pool_scatter", "qr", "quantised_matmul", "rfft",
    "scatter", "scatter_rows", "slogdet", "solve", "sort", "spmm_coo", "svd", "take", "top_k", "tri_solve",
    "unique_groups", "vecdot",
])  # fmt: skip
_PAGES = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
_KNOWN_MAX = 4096

_known: dict[Any, int] = {}


def workspaces(graph: Graph) -> list[int]:
    """The bytes that each step of a graph works in, its arguments being in C order."""
    if _kernels.isa() == "ref":
        return [0] * len(graph.steps)
    strides: dict[int, Any] | None = None
    found = []
    for step in graph.steps:
        if isinstance(step.primitive, BodyRow):
            bodies = [b for p in step.params.values() for b in (p if isinstance(p, tuple) else (p,))]
            found.append(max((b.plan.workspace_bytes_most for b in bodies if isinstance(b, Body)), default=0))
            continue
        chain = step.row == "fused" and not step.params["program"].end
        if chain or step.row not in _ASKED or str(graph.specs[step.outputs[0]].device) != "cpu":
            found.append(0)
            continue
        if strides is None:
            strides = strides_of(graph)
        found.append(_of_step(graph, step, strides))
    return found


def _of_step(graph: Graph, step: Step, strides: dict[int, Any]) -> int:
    values = [(graph.specs[v], strides.get(v) or c_strides(graph.specs[v].shape)) for v in step.inputs]
    key = (
        step.row,
        repr(step.params),
        tuple([(s.shape, s.dtype.name, how) for s, how in values]),
        tuple([graph.specs[v].shape for v in step.outputs]),
        _kernels.isa(),
    )
    if key not in _known:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        outs = [(graph.specs[v], c_strides(graph.specs[v].shape)) for v in step.outputs]
        _known[key] = _ask(step, values, outs)
    return _known[key]


def _ask(step: Step, values: list[tuple[Spec, Any]], outs: list[tuple[Spec, Any]]) -> int:
    kernel = step.primitive.kernel
    if kernel is None:
        return 0
    try:
        given = _untouched([*outs, *values])
    except (OSError, ValueError, OverflowError, MemoryError):
        return 0  # larger than any memory: the run is refused for what it needs already
    budget = _kernels.ComputeBudget(1 << 62)
    token = _kernels.active_budgets.set((budget,))
    before = _kernels.only_workspace(True)
    try:
        kernel(tuple(given[: len(outs)]), tuple(given[len(outs) :]), step.params)
    except Exception:  # what the kernel says to zeros after it took its memory, or to params that nothing can run
        pass
    finally:
        _kernels.only_workspace(before)
        _kernels.active_budgets.reset(token)
    return int(budget.peak_bytes)


def _untouched(values: list[tuple[Spec, Any]]) -> list[Any]:
    """Tensors of such shapes and strides, one behind the other in pages that hold nothing yet."""
    places, at = [], 0
    for spec, strides in values:
        reach = [(n - 1) * s for n, s in zip(spec.shape, strides, strict=True)] if 0 not in spec.shape else [0]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        size = item_bytes(spec.dtype)
        places.append((at // size - low, spec, strides))
        at += -(-(high - low + 1) * size // 64) * 64
    memory = mmap.mmap(-1, max(at, 64), flags=_PAGES)
    whole: dict[str, Any] = {}
    return [tensor_over(memory, whole, place, spec, strides) for place, spec, strides in places]
