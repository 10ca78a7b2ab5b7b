"""Trees of gradients and parameters changed leaf by leaf, before a step or after it; nothing is changed in place.

A transform takes (updates, params) and gives new updates; `optax_style_chain` runs several.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from tensor.autograd.pytree import tree_map
from tensor.errors import ShapeError
from tensor.functions.elementwise import clip

__all__ = [
    "Transform",
    "add_decoupled_weight_decay",
    "centralize_grad",
    "clip_grad_value",
    "ema_update",
    "optax_style_chain",
    "polyak_avg",
]

Tree = Any
Transform: TypeAlias = Callable[[Tree, Tree], Tree]


def _both(name: str, fn: Callable[[Any, Any], Any], first: Tree, second: Tree) -> Tree:
    """fn on the leaves of two equal trees; ShapeError where leaves differ."""

    def leaf(a: Any, b: Any) -> Any:
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ShapeError(f"{name}: leaves {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)} do not go together")
        return fn(a, b)

    return tree_map(leaf, first, second)


def clip_grad_value(gradients: Tree, limit: float) -> Tree:
    """Every element between −limit and limit; NaN stays. ValueError unless the limit is a number from 0.

    >>> import tensor as tn
    >>> tn.updates.clip_grad_value({"w": tn.asarray([-3.0, 0.5])}, 1.0)["w"].tolist()
    [-1.0, 0.5]
    """
    if not limit >= 0:
        raise ValueError(f"clip_grad_value: limit must be a number from 0, got {limit!r}")
    return tree_map(lambda g: clip(g, -float(limit), float(limit)), gradients)


def centralize_grad(gradients: Tree) -> Tree:
    """Gradients of matrices and more dimensions less their mean over all dimensions but the first (Yong et al. 2020).

    The first dimension is that of the outputs, as in `conv2d` and in Linear weights; vectors stay as they are.

    >>> import tensor as tn
    >>> tn.updates.centralize_grad([tn.asarray([[1.0, 3.0], [0.0, 0.0]]), tn.asarray([5.0])])[0].tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    return tree_map(lambda g: g - g.mean(axis=tuple(range(1, g.ndim)), keepdims=True) if g.ndim > 1 else g, gradients)


def add_decoupled_weight_decay(updates: Tree, params: Tree, weight_decay: float) -> Tree:
    """updates + weight_decay · params, after the moments were taken (Loshchilov and Hutter 2019).

    >>> import tensor as tn
    >>> tn.updates.add_decoupled_weight_decay(tn.asarray([1.0]), tn.asarray([2.0]), 0.5).tolist()
    [2.0]
    """
    weight = _share("add_decoupled_weight_decay", "weight_decay", weight_decay, math.inf)
    return _both("add_decoupled_weight_decay", lambda u, p: u + p * weight, updates, params)


def ema_update(average: Tree, params: Tree, decay: float) -> Tree:
    """decay · average + (1 − decay) · params: an average that forgets.

    >>> import tensor as tn
    >>> tn.updates.ema_update(tn.asarray([1.0]), tn.asarray([3.0]), 0.5).tolist()
    [2.0]
    """
    kept = _share("ema_update", "decay", decay, 1.0)
    return _both("ema_update", lambda a, p: a * kept + p * (1.0 - kept), average, params)


def polyak_avg(average: Tree, params: Tree, step: int) -> Tree:
    """(step · average + params) / (step + 1): the mean of all params so far, `step` of them before (Polyak 1992).

    >>> import tensor as tn
    >>> tn.updates.polyak_avg(tn.asarray([1.0]), tn.asarray([4.0]), 2).tolist()
    [2.0]
    """
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"polyak_avg: step must be an int from 0, got {step!r}")
    return _both("polyak_avg", lambda a, p: (a * float(step) + p) / float(step + 1), average, params)


def optax_style_chain(*transforms: Transform) -> Transform:
    """Transforms one after another, each on the updates of the one before.

    >>> import tensor as tn
    >>> chain = tn.updates.optax_style_chain(
    ...     lambda g, p: tn.updates.clip_grad_value(g, 1.0),
    ...     lambda g, p: tn.updates.add_decoupled_weight_decay(g, p, 0.5))
    >>> chain(tn.asarray([9.0]), tn.asarray([2.0])).tolist()
    [2.0]
    """

    def chain(updates: Tree, params: Tree) -> Tree:
        for transform in transforms:
            updates = transform(updates, params)
        return updates

    return chain


def _share(name: str, what: str, value: float, most: float) -> float:
    if not 0 <= value <= most or value == math.inf:
        raise ValueError(f"{name}: {what} must be a number from 0{'' if most == math.inf else ' to 1'}, got {value!r}")
    return float(value)
