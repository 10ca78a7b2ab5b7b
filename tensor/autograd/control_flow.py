"""Control flow: scan, cond, switch, while_loop, fori_loop, map, associative_scan. Eager, differentiable, batched."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tensor import _kernels
from tensor.autograd.checkpoint import checkpoint
from tensor.autograd.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from tensor.autograd.vmap import BatchTracer
from tensor.errors import ShapeError
from tensor.primitives.spec import Spec
from tensor.random_stream import active_capture

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]

Tensor = Any

_ONE_STEP = 8  # turns: shorter scans are captured turn by turn, so that they fuse with what is around them


def _recorder(tree: Any) -> Any:
    """The capture that is going on and takes control flow on such values as one step, or None."""
    if active_capture() is None:
        return None
    from tensor.graph.captured_control import recorder_for

    return recorder_for([x for x in tree_leaves(tree) if isinstance(x, _kernels.Tensor)])


def _traced(x: Any) -> bool:
    return isinstance(x, _kernels.Tensor) and x.is_traced


def check_carry(name: str, before: Any, after: Any) -> None:
    old, old_tree = tree_flatten(before)
    new, new_tree = tree_flatten(after)
    if old_tree != new_tree:
        raise ShapeError(f"{name}: the carry must keep its tree, it was {old_tree} and became {new_tree}")
    for a, b in zip(old, new, strict=True):
        if isinstance(a, _kernels.Tensor) and (
            not isinstance(b, _kernels.Tensor) or a.shape != b.shape or a.dtype != b.dtype
        ):
            got = repr(Spec(b.shape, b.dtype)) if isinstance(b, _kernels.Tensor) else type(b).__name__
            raise ShapeError(
                f"{name}: the carry must keep its shapes and dtypes, {Spec(a.shape, a.dtype)!r} became {got}"
            )


def pair_of(result: Any) -> tuple[Any, Any]:
    """What a step of scan gave, if it is a pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"scan: the function must return (carry, y), got {type(result).__name__}")
    return result


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint_every: int | None = None,
) -> tuple[Any, Any]:
    """Carries a state along the first axis of xs: `carry, y = fn(carry, x)` for each x; gives (last carry, ys stacked).

    xs is a tree of tensors of one length, or None with `length` given (x is then None). For gradients the steps are
    grouped, `checkpoint_every` of them (√length if not given), and only the carries between groups are kept: memory for
    4,000 steps is that of about 126. `checkpoint_every=0` keeps everything.

    Raises ShapeError if the carry changes its tree, shapes or dtypes, or the lengths differ.

    >>> import tensor as tn
    >>> last, sums = tn.autograd.scan(lambda c, x: (c + x, c + x), tn.asarray(0.0), tn.asarray([1.0, 2.0, 3.0]))
    >>> last.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    leaves, treedef = tree_flatten(xs)
    sizes = {int(x.shape[0]) if x.ndim else -1 for x in leaves} | ({length} if length is not None else set())
    if len(sizes) != 1 or min(sizes) < 0:
        raise ShapeError(f"scan: xs must share the length of their first axis, got {sorted(sizes)}")
    n = sizes.pop()
    step = checkpoint_every if checkpoint_every is not None else max(1, math.isqrt(n))
    if step < 0:
        raise ValueError(f"scan: checkpoint_every must not be negative, got {step}")

    def steps(carry: Any, parts: Sequence[Tensor], count: int) -> tuple[Any, Any]:
        results = []
        for k in range(count):
            i = count - 1 - k if reverse else k
            after, y = pair_of(fn(carry, tree_unflatten(treedef, [p[i] for p in parts])))
            check_carry("scan", carry, after)
            carry = after
            results.append(y)
        return carry, _stack(results[::-1] if reverse else results)

    if n == 0:
        return init, None
    if n >= _ONE_STEP:
        recorder = _recorder((init, leaves))
        if recorder is not None:
            from tensor.graph.captured_control import captured_scan

            captured = captured_scan(recorder, fn, init, leaves, treedef, n, reverse)
            if captured is not None:
                return captured
    if step == 0 or step >= n:
        return steps(init, leaves, n)
    carry, pieces = init, []
    starts = list(range(0, n, step))
    for begin in reversed(starts) if reverse else starts:
        end = min(begin + step, n)
        segment = checkpoint(lambda c, parts, count=end - begin: steps(c, parts, count))
        carry, ys = segment(carry, [x[begin:end] for x in leaves])
        pieces.append(ys)
    return carry, _concat(pieces[::-1] if reverse else pieces)


def _stack(results: list[Any]) -> Any:
    from tensor.functions.manipulation import stack

    for leaf in tree_leaves(results):
        if not isinstance(leaf, _kernels.Tensor):
            raise TypeError(
                f"scan: the y of each turn must be a tree of tensors, got {type(leaf).__name__} (hint: tensor.asarray; "
                f"of what it starts from, too)"
            )
    return tree_map(lambda *ys: stack(list(ys), axis=0), results[0], *results[1:])


def _concat(pieces: list[Any]) -> Any:
    from tensor.functions.manipulation import concat

    return tree_map(lambda *ys: concat(list(ys), axis=0), pieces[0], *pieces[1:])


def _batched(x: Any) -> bool:
    while isinstance(x, _kernels.Tensor) and not isinstance(x, BatchTracer) and hasattr(x, "primal"):
        x = x.primal
    return isinstance(x, BatchTracer)


def _scalar(name: str, pred: Any) -> Any:
    if isinstance(pred, _kernels.Tensor) and pred.ndim != 0:
        raise ShapeError(f"{name}: the condition must be 0-d, got {Spec(pred.shape, pred.dtype)!r}")
    return pred


def _select(pred: Tensor, a: Any, b: Any) -> Any:
    from tensor.functions.elementwise import where

    return tree_map(lambda x, y: where(pred, x, y), a, b)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """true_fn(*operands) if pred else false_fn(*operands). Under vmap both run, and each element takes its own.

    >>> import tensor as tn
    >>> f = lambda x: tn.autograd.cond(x > 0, lambda v: v * 2, lambda v: v * 0, x)
    >>> tn.autograd.vmap(f)(tn.asarray([-1.0, 3.0])).tolist()
    [-0.0, 6.0]
    """
    _scalar("cond", pred)
    if _batched(pred):
        return _select(pred, true_fn(*operands), false_fn(*operands))
    recorder = _recorder((pred, operands)) if _traced(pred) else None
    if recorder is not None:
        from tensor.graph.captured_control import captured_cond

        return captured_cond(recorder, pred, true_fn, false_fn, operands)
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """branches[index](*operands), the index clamped to the branches there are.

    >>> from tensor.autograd import switch
    >>> switch(7, [lambda x: x + 1, lambda x: x * 10], 5)
    50
    """
    if not branches:
        raise ValueError("switch: there are no branches")
    _scalar("switch", index)
    if _batched(index):
        result = branches[-1](*operands)
        for i in reversed(range(len(branches) - 1)):
            result = _select(index <= i, branches[i](*operands), result)
        return result
    if _traced(index) and _recorder((index, operands)) is not None:

        def branch(i: int) -> Any:
            if i == len(branches) - 1:
                return branches[i](*operands)
            return cond(index <= i, branches[i], lambda *_: branch(i + 1), *operands)

        return branch(0)
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """The state after `while cond_fn(state): state = body_fn(state)`. Differentiable, as its steps are on the tape.

    Under vmap the loop runs until no element goes on; an element that has stopped keeps its state.

    >>> import tensor as tn
    >>> double = lambda x: tn.autograd.while_loop(lambda v: v < 100.0, lambda v: v * 2, x)
    >>> tn.autograd.vmap(double)(tn.asarray([1.0, 60.0, 500.0])).tolist()
    [128.0, 120.0, 500.0]
    """
    state = init
    while True:
        going = _scalar("while_loop", cond_fn(state))
        batched = _batched(going)
        recorder = _recorder(state) if _traced(going) and not batched else None
        if recorder is not None:
            from tensor.graph.captured_control import captured_while

            return captured_while(recorder, cond_fn, body_fn, state)
        if not (_any_element(going) if batched else bool(going)):
            return state
        after = body_fn(state)
        check_carry("while_loop", state, after)
        state = _select(going, after, state) if batched else after


def _any_element(x: Any) -> bool:
    """Whether the condition holds for any element of any batch around it."""
    while isinstance(x, _kernels.Tensor):
        if isinstance(x, BatchTracer):
            x = x.value
        elif hasattr(x, "primal"):
            x = x.primal
        else:
            break
    return any(bool(v) for v in _flat_list(x.tolist()))


def _flat_list(values: Any) -> list[Any]:
    return [v for part in values for v in _flat_list(part)] if isinstance(values, list) else [values]


def fori_loop(lower: int, upper: int, body_fn: Callable[[int, Any], Any], init: Any) -> Any:
    """The state after `for i in range(lower, upper): state = body_fn(i, state)`.

    >>> from tensor.autograd import fori_loop
    >>> fori_loop(1, 5, lambda i, product: product * i, 1)
    24
    """
    state = init
    for i in range(lower, upper):
        after = body_fn(i, state)
        check_carry("fori_loop", state, after)
        state = after
    return state


def map(fn: Callable[[Any], Any], xs: Any) -> Any:
    """fn on each element along the first axis, one after the other, the results stacked: vmap with the memory of one.

    >>> import tensor as tn
    >>> tn.autograd.map(lambda x: x * x, tn.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]
    """
    return scan(lambda carry, x: (None, fn(x)), None, xs)[1]


def associative_scan(fn: Callable[[Any, Any], Any], xs: Any, *, reverse: bool = False) -> Any:
    """All prefixes x0, fn(x0, x1), fn(fn(x0, x1), x2), … along the first axis, by a fixed tree of log2(n) rounds.

    fn combines two trees of batches, element by element; it must be associative. For floats, which aren't, the tree is
    part of the result's definition: in round r element i ≥ 2^r becomes fn(element i − 2^r, element i).

    >>> import tensor as tn
    >>> tn.autograd.associative_scan(lambda a, b: a + b, tn.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 3.0, 6.0, 10.0]
    """
    leaves = tree_leaves(xs)
    sizes = {int(x.shape[0]) if x.ndim else -1 for x in leaves}
    if len(sizes) != 1 or min(sizes) < 0:
        raise ShapeError(f"associative_scan: xs must share the length of their first axis, got {sorted(sizes)}")
    n = sizes.pop()
    state, distance = xs, 1
    while distance < n:
        state = _combine(fn, state, distance, n, reverse)
        distance *= 2
    return state


def _combine(fn: Callable[[Any, Any], Any], state: Any, distance: int, n: int, reverse: bool) -> Any:
    """One round: every element with the one `distance` before it (after it, in reverse)."""
    from tensor.functions.manipulation import concat

    head, tail = (tree_map(lambda x: x[:-distance], state), tree_map(lambda x: x[distance:], state))
    if reverse:
        moved = fn(tail, head)
        return tree_map(lambda new, old: concat([new, old[n - distance :]], axis=0), moved, state)
    moved = fn(head, tail)
    return tree_map(lambda new, old: concat([old[:distance], new], axis=0), moved, state)
