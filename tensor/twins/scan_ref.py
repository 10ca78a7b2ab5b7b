"""Twins of cumulative sums, products, maxima and minima (tensor/kernels/reduce/scan.cpp).

Runs of 256, 16 of them a block. Each run is a chain; its base is the chain of block totals before its block, then that
of the totals of its block's runs before it. The first run has no base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tensor.twins.elementwise_ref import canonical
from tensor.twins.fold_ref import compute, join_lines, narrow, to_lines
from tensor.twins.reductions_ref import _times, maximum_of, minimum_of

__all__ = ["scan", "scan_extreme"]

Array: TypeAlias = Any

RUN = 256
BLOCK = 4096


def scan(name: str, x: Array, axis: int) -> Array:
    """Cumulative "sum" or "prod" along the axis.

    >>> scan("sum", np.array([1, 2, 3], np.int8), 0)
    array([1, 3, 6])
    """
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c" and name == "sum":
            parts = np.ascontiguousarray(x).view(x.real.dtype).reshape((*x.shape, 2))
            return np.ascontiguousarray(scan(name, parts, axis)).view(x.dtype)[..., 0]
        lines, _ = to_lines(compute(x), (axis,))
        if lines.size:
            add = name == "sum"
            multiply = _times if x.dtype.kind == "c" else np.multiply
            lines = _scan_lines(lines, np.add if add else multiply, add)
            lines = canonical(lines) if lines.dtype.kind in "fc" else lines
        return narrow(join_lines(lines, x.shape, (axis,)), x)


def _scan_lines(lines: Array, join: Callable[[Array, Array], Array], add: bool) -> Array:
    n = lines.shape[1]
    count = -(-n // RUN)
    padded = np.zeros((len(lines), count * RUN), lines.dtype)  # what is behind the end reaches nothing before it
    padded[:, :n] = lines
    runs = padded.reshape(len(lines), count, RUN)
    chains = np.empty_like(runs)
    chains[:, :, 0] = runs[:, :, 0] + lines.dtype.type(0) if add else runs[:, :, 0]
    for i in range(1, RUN):
        chains[:, :, i] = join(chains[:, :, i - 1], runs[:, :, i])
    out = chains.copy()
    blocks = here = None
    for r in range(count):
        if r > 0 and r % (BLOCK // RUN) == 0:
            blocks, here = here if blocks is None else join(blocks, here), None
        base = here if blocks is None else blocks if here is None else join(blocks, here)
        if base is not None:
            out[:, r] = join(np.broadcast_to(base[:, None], out[:, r].shape), chains[:, r])
        total = chains[:, r, RUN - 1]
        here = total.copy() if here is None else join(here, total)
    return out.reshape(len(lines), count * RUN)[:, :n]


def scan_extreme(name: str, x: Array, axis: int) -> tuple[Array, Array]:
    """The largest ("max") or smallest ("min") value so far, and the first index that has it; a NaN stays."""
    x = np.asarray(x)
    join = maximum_of if name == "max" else minimum_of
    lines, _ = to_lines(compute(x), (axis,))
    values, indices = lines.copy(), np.zeros(lines.shape, np.int64)
    with np.errstate(all="ignore"):
        if lines.size:
            best, at = lines[:, 0].copy(), np.zeros(len(lines), np.int64)
            if best.dtype.kind == "f":
                best = canonical(best)
            values[:, 0] = best
            for i in range(1, lines.shape[1]):
                after = np.where(_nan(best), best, join(best, lines[:, i]))
                at = np.where(~_nan(best) & (after != best), i, at)
                best = canonical(after) if after.dtype.kind == "f" else after
                values[:, i], indices[:, i] = best, at
        found = join_lines(values, x.shape, (axis,))
        found = found.astype(x.dtype) if x.dtype.kind in "biu" else narrow(found, x)
        return found, join_lines(indices, x.shape, (axis,))


def _nan(x: Array) -> Array:
    return np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
