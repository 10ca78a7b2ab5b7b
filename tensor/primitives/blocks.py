"""Batching rules that make one large problem of many: the elements of a batch lie side by side, and what names places
in one of them is moved by the size of those before it.

A batch of sparse matrices becomes one block-diagonal matrix. An index that is out of range in its element stays out of
range in the whole, so kernels refuse it as they refuse it in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensor.primitives.rules import BatchRule, Dims, apply, batch_size, expand_to, front
from tensor.primitives.spec import Spec

__all__ = [
    "each_of_leading",
    "flat",
    "in_front",
    "joined_starts",
    "leading_of",
    "more_groups",
    "own_batch",
    "places",
    "spread",
    "stacked_specs",
    "twin_of_each",
]

Tensor = Any


def spread(inputs: Sequence[Tensor], dims: Dims) -> tuple[int, list[Tensor]]:
    """The size of the batch, and every input with the batch in front; an input without one is repeated as a view."""
    n = batch_size(inputs, dims)
    return n, [expand_to(x, (n, *x.shape)) if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)]


def in_front(x: Tensor, dim: int | None, rank: int) -> Tensor:
    """x with its batch in front and ones behind it, so that each element has `rank` dimensions; else x itself."""
    if dim is None:
        return x
    x = front(x, dim)
    return x.reshape((x.shape[0], *(1,) * (rank - x.ndim + 1), *x.shape[1:])) if x.ndim <= rank else x


def flat(x: Tensor) -> Tensor:
    """x[n, k, …] as [n · k, …]."""
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))


def _numbers(x: Tensor, n: int, by: int) -> Tensor:
    """0, by, 2·by, … as an int64 column of x's device."""
    from tensor.functions.creation import arange

    return (arange(n, dtype="int64", device=x.device) * by).reshape((n, 1))


def places(index: Tensor, size: int) -> Tensor:
    """index[n, k] into elements of `size` places as indices into all of them, one after the other; int64[n · k].

    What is out of range in its element gets the number behind the last place.
    """
    from tensor.functions.elementwise import where

    n = index.shape[0]
    outside = (index < 0) | (index >= size)
    return flat(where(outside, n * size, index + _numbers(index, n, size)))


def joined_starts(starts: Tensor, count: int) -> Tensor:
    """starts[n, m + 1] of n matrices that store `count` elements each as those of one matrix of n · m rows.

    The last one is −1, which no kernel takes, where starts do not run from 0 to count.
    """
    from tensor.functions.creation import full
    from tensor.functions.elementwise import where
    from tensor.functions.manipulation import concat

    n, m = starts.shape[0], starts.shape[1] - 1
    wrong = (starts[:, 0] != 0) | (starts[:, m] != count)
    last = where(wrong.any(), -1, full((1,), n * count, dtype="int64", device=starts.device))
    return concat([flat(starts[:, :m] + _numbers(starts, n, count)), last])


def more_groups(*kinds: str, result: str = "image") -> BatchRule:
    """For rows of convolutions, whose inputs are an "image" [n, channels, …] or "weights" [outputs, …], one a channel.

    A batch of nothing but images is more images. Else the elements' channels are groups of one convolution: each output
    is the same sum in the same order.
    """

    def rule(primitive: Any, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
        n = batch_size(inputs, dims)
        if n == 0:
            return _none_of(primitive, inputs, dims, params)
        if result == "image" and all((d is not None) == (kind == "image") for d, kind in zip(dims, kinds, strict=True)):
            moved = tuple(x if d is None else flat(front(x, d)) for x, d in zip(inputs, dims, strict=True))
            return _each(apply(primitive, moved, params), lambda r: r.reshape((n, r.shape[0] // n, *r.shape[1:])), 0)
        _, whole = spread(inputs, dims)
        beside = [
            x.permute((1, 0, *range(2, x.ndim))).reshape((x.shape[1], n * x.shape[2], *x.shape[3:]))
            if kind == "image"
            else flat(x)
            for x, kind in zip(whole, kinds, strict=True)
        ]
        found = apply(primitive, tuple(beside), {**params, "groups": n * params["groups"]})
        if result == "image":
            return _each(found, lambda r: r.reshape((r.shape[0], n, r.shape[1] // n, *r.shape[2:])), 1)
        return _each(found, lambda r: r.reshape((n, r.shape[0] // n, *r.shape[1:])), 0)

    return BatchRule(rule)


def _each(result: Any, fn: Callable[[Tensor], Tensor], dim: int) -> tuple[Any, Any]:
    """fn on the result or on each of several, with where their batch is."""
    return (tuple(map(fn, result)), (dim,) * len(result)) if isinstance(result, tuple) else (fn(result), dim)


def _none_of(primitive: Any, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
    """The results for a batch of no elements."""
    from tensor.functions.creation import zeros

    one = [
        Spec(x.shape if d is None else (*x.shape[:d], *x.shape[d + 1 :]), x.dtype, x.device)
        for x, d in zip(inputs, dims, strict=True)
    ]
    outs = tuple(zeros((0, *s.shape), dtype=s.dtype, device=s.device) for s in primitive.specs_of(one, params))
    return (outs, (0,) * len(outs)) if len(outs) > 1 else (outs[0], 0)


def own_batch(primitive: Any, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
    """The rule of rows whose inputs may all have the same leading dimensions, counted in params["leading"]."""
    _, moved = spread(inputs, dims)
    result = apply(primitive, tuple(moved), {**(params or {}), "leading": leading_of(params) + 1})
    return result, (0,) * len(result) if isinstance(result, tuple) else 0


def leading_of(params: Any) -> int:
    """How many leading dimensions the inputs share."""
    return int((params or {}).get("leading", 0))


def stacked_specs(
    rule: Callable[[Sequence[Any], Any], Any],
) -> Callable[[Sequence[Any], Any], Any]:
    """The shape rule for one element made that of params["leading"] dimensions of them."""

    def stacked(specs: Sequence[Any], params: Any) -> Any:
        leading = leading_of(params)
        if leading == 0:
            return rule(specs, params)
        first = tuple(specs[0].shape[:leading])
        outs = rule([Spec(s.shape[leading:], s.dtype, s.device) for s in specs], params)
        more = [Spec((*first, *s.shape), s.dtype, s.device) for s in (outs if isinstance(outs, tuple) else (outs,))]
        return tuple(more) if isinstance(outs, tuple) else more[0]

    return stacked


def each_of_leading(
    kernel: Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Any], None],
) -> Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Any], None]:
    """The kernel for one element run on each, straight into its place of the results."""
    from itertools import product

    def each(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Any) -> None:
        for at in product(*map(range, inputs[0].shape[: leading_of(params)])):
            kernel(tuple(x[at] for x in outs), tuple(x[at] for x in inputs), params)

    return each


def twin_of_each(
    twin: Callable[[tuple[Any, ...], Any], Any], rule: Callable[[Sequence[Any], Any], Any]
) -> Callable[[tuple[Any, ...], Any], Any]:
    """The twin for one element run on each, the results stacked; `rule` gives the shapes where there is none."""

    def each(arrays: tuple[Any, ...], params: Any) -> Any:
        leading = leading_of(params)
        if leading == 0:
            return twin(arrays, params)
        import numpy as np

        first = arrays[0].shape[:leading]
        found = [twin(tuple(a[at] for a in arrays), params) for at in np.ndindex(*first)]
        if not found:
            outs = rule([Spec(a.shape[leading:], a.dtype.name, "ref") for a in arrays], params)
            outs = outs if isinstance(outs, tuple) else (outs,)
            empty = tuple(np.empty((*first, *s.shape), s.dtype.name) for s in outs)
            return empty if len(empty) > 1 else empty[0]
        if not isinstance(found[0], tuple):
            return np.stack(found).reshape((*first, *found[0].shape))
        return tuple(np.stack(many).reshape((*first, *np.shape(many[0]))) for many in zip(*found, strict=True))

    return each
