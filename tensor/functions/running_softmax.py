"""Softmax in parts: what a stream or blocks of a row leave behind, merged in a fixed order, and `reduce` by name.

A part is (output, maximum, total): Σ exp(x − maximum)·v, the largest x, Σ exp(x − maximum), as flash attention keeps
them (Milakov and Gimelshein 2018). A part of nothing has maximum −inf and total 0.
"""

from __future__ import annotations

from typing import Any

from tensor.errors import ShapeError
from tensor.functions.axes import one_axis, rows_of, tensor_of
from tensor.functions.elementary import exp
from tensor.functions.elementwise import maximum as larger
from tensor.functions.elementwise import where

__all__ = ["online_softmax", "online_softmax_state", "reduce", "softmax_finalize", "softmax_merge"]

Tensor = Any
State = tuple[Tensor, Tensor]

_FLOATS = ("real floating",)
_HINT = "astype(x, float32)"
_NAMES = ("sum", "prod", "mean", "max", "min")


def reduce(x: Tensor, /, op: str = "sum", *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The reduction of that name over axes: sum, prod, mean, max or min, each in its fixed order.

    >>> import tensor as tn
    >>> tn.reduce(tn.asarray([[1.0, 5.0], [2.0, 3.0]]), "max", axis=0).tolist()
    [2.0, 5.0]
    """
    if op not in _NAMES:
        raise ValueError(f"reduce: op must be one of {', '.join(_NAMES)}, got {op!r}")
    from tensor.functions import statistics

    return getattr(statistics, op)(tensor_of("reduce", x), axis=axis, keepdims=keepdims)


def _from(highest: Tensor) -> Tensor:
    """What is subtracted before exp: the maximum, 0 for a part of nothing."""
    return where(highest == float("-inf"), 0.0, highest)


def online_softmax_state(x: Tensor, /, *, axis: int = -1, state: State | None = None) -> State:
    """(maximum, total) along an axis, kept as a dimension of 1, of all chunks so far: those of `state`, then x.

    >>> import tensor as tn
    >>> first = tn.online_softmax_state(tn.asarray([0.0, 1.0]))
    >>> [t.tolist() for t in tn.online_softmax_state(tn.asarray([1.0]), state=first)]
    [[1.0], [2.3678793907165527]]
    """
    at = one_axis("online_softmax", axis, rows_of("online_softmax", x, _FLOATS, _HINT).ndim)
    highest = x.max(axis=at, keepdims=True) if x.shape[at] else None
    if state is None:
        if highest is None:
            raise ShapeError("online_softmax: the first chunk has no elements")
        return highest, exp(x - _from(highest)).sum(axis=at, keepdims=True)
    before, total = state
    now = before if highest is None else larger(before, highest)
    return now, exp(before - _from(now)) * total + exp(x - _from(now)).sum(axis=at, keepdims=True)


def online_softmax(x: Tensor, /, *, axis: int = -1, state: State | None = None) -> Tensor:
    """The softmax of a chunk among all chunks so far; `state` is what `online_softmax_state` gave before x.

    Without a state it is `softmax`.

    >>> import tensor as tn
    >>> seen = tn.online_softmax_state(tn.asarray([0.0]))
    >>> tn.online_softmax(tn.asarray([0.0]), state=seen).tolist()
    [0.5]
    """
    from tensor.functions.normalization import softmax

    if state is None:
        return softmax(x, axis)
    highest, total = online_softmax_state(x, axis=axis, state=state)
    return exp(x - _from(highest)) / total


def _part(name: str, output: Tensor, highest: Tensor, total: Tensor) -> None:
    for x in (output, highest, total):
        tensor_of(name, x)
    if output.ndim < 1 or output.shape[:-1] != highest.shape or highest.shape != total.shape:
        raise ShapeError(
            f"{name}: expected output [..., d], maximum [...] and total [...], got shapes {output.shape}, "
            f"{highest.shape} and {total.shape}"
        )


def softmax_merge(
    output1: Tensor, maximum1: Tensor, total1: Tensor, output2: Tensor, maximum2: Tensor, total2: Tensor, /
) -> tuple[Tensor, Tensor, Tensor]:
    """Two parts of a softmax as one: output [..., d], maximum [...], total [...].

    Not associative in floats: parts are merged in the order of their blocks. ShapeError.

    >>> import tensor as tn
    >>> zero, one = tn.zeros(1), tn.ones(1)
    >>> [t.tolist() for t in tn.softmax_merge(tn.ones((1, 2)), zero, one, tn.zeros((1, 2)), zero, one)]
    [[[1.0, 1.0]], [0.0], [2.0]]
    """
    _part("softmax_merge", output1, maximum1, total1)
    _part("softmax_merge", output2, maximum2, total2)
    if output1.shape != output2.shape:
        raise ShapeError(f"softmax_merge: parts of shapes {output1.shape} and {output2.shape}")
    highest = larger(maximum1, maximum2)
    shift = _from(highest)
    first, second = exp(maximum1 - shift), exp(maximum2 - shift)
    wide = (*highest.shape, 1)
    output = first.reshape(wide) * output1 + second.reshape(wide) * output2
    return output, highest, first * total1 + second * total2


def softmax_finalize(output: Tensor, total: Tensor, /) -> Tensor:
    """output / total; zeros for a part of nothing, a row that is masked everywhere.

    >>> import tensor as tn
    >>> tn.softmax_finalize(tn.asarray([[2.0, 4.0], [0.0, 0.0]]), tn.asarray([2.0, 0.0])).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    _part("softmax_finalize", output, total, total)
    return output / where(total == 0, 1.0, total).reshape((*total.shape, 1))
