"""Batches: a function written for one element runs on all at once, each operation by its row's batching rule."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar

from tensor import _kernels
from tensor.autograd.pytree import TreeDef, tree_flatten, tree_unflatten
from tensor.autograd.trace import Main, Tracer, bind, underlying
from tensor.errors import ShapeError, TraceError
from tensor.primitives.rules import batch_size, expand_to, front, loop_batch
from tensor.primitives.spec import Spec

__all__ = ["axis_index", "axis_size", "vmap"]

Tensor = Any


class BatchTracer(Tracer):
    """One element of a batch: `value` holds all of them along dimension `dim`, or one for all if dim is None."""

    __slots__ = ("dim", "value")

    what: ClassVar[str] = "a batched tensor"
    value: Tensor
    dim: int | None

    @classmethod
    def like(cls, main: Main, value: Tensor, dim: int | None) -> BatchTracer:
        shape = value.shape if dim is None else (*value.shape[:dim], *value.shape[dim + 1 :])
        t: BatchTracer = cls(Spec(shape, value.dtype, value.device), traced=True)
        t.main, t.value, t.dim = main, value, dim
        return t

    def lower(self) -> tuple[Tensor, int | None]:
        return (self.value, self.dim)

    @classmethod
    def process(cls, main: Main, primitive: Any, inputs: tuple[Tensor, ...], params: Any) -> Any:
        values, dims = [], []
        for x in inputs:
            own = isinstance(x, BatchTracer) and x.main is main
            values.append(x.value if own else x)
            dims.append(x.dim if own else None)
        if all(d is None for d in dims):
            outs = bind(primitive, tuple(values), params)
            out_dims: Any = (None,) * len(outs) if isinstance(outs, tuple) else None
        elif hasattr(primitive, "batched"):  # a call with a derivative of its own: custom.py
            outs = primitive.batched(main, tuple(values), tuple(dims), batch_size(values, dims))
            out_dims = (0,) * len(outs)
        elif primitive.batch is not None:
            outs, out_dims = primitive.batch(tuple(values), tuple(dims), params)
        else:
            outs, out_dims = loop_batch(primitive, tuple(values), tuple(dims), params)
        if isinstance(outs, tuple):
            return tuple([cls.like(main, o, d) for o, d in zip(outs, out_dims, strict=True)])
        return cls.like(main, outs, out_dims)


def unwrap(x: Tensor, main: Main, size: int, out_axis: int) -> Tensor:
    """The whole batch of a result, along out_axis; a result that is the same for all is repeated."""
    value, dim = (x.value, x.dim) if isinstance(x, BatchTracer) and x.main is main else (x, None)
    value = expand_to(value, (size, *value.shape)) if dim is None else front(value, dim)
    if not -value.ndim <= out_axis < value.ndim:
        raise ShapeError(f"vmap: out_axes {out_axis} is out of range for a result of {value.ndim} dimensions")
    at = out_axis % value.ndim
    return value if at == 0 else value.permute((*range(1, at + 1), 0, *range(at + 1, value.ndim)))


def axes_of(axes: Any, treedef: TreeDef, name: str) -> list[int | None]:
    """One axis a leaf: axes is a tree whose leaves stand for whole subtrees."""
    if axes is None or isinstance(axes, int):
        return [axes] * treedef.num_leaves
    if isinstance(axes, dict):
        parts = [axes[k] for k in sorted(axes)] if tuple(sorted(axes)) == treedef.keys else None
    else:
        parts = list(axes) if isinstance(axes, list | tuple) else None
    if parts is None or len(parts) != len(treedef.children):
        raise ValueError(f"vmap: {name} {axes!r} does not fit the tree {treedef}")
    return [a for part, child in zip(parts, treedef.children, strict=True) for a in axes_of(part, child, name)]


class _Axes(threading.local):
    """The named batches that this thread is inside of: (name, run of vmap, size, device), the innermost last."""

    def __init__(self) -> None:
        self.named: list[tuple[str, Main, int, str]] = []


_axes = _Axes()


def _axis(name: str) -> tuple[Main, int, str]:
    for known, *found in reversed(_axes.named):
        if known == name:
            return tuple(found)  # type: ignore[return-value]
    inside = ", ".join(known for known, *_ in _axes.named) or "none"
    raise TraceError(f"vmap: no axis is named {name!r} here, there is {inside} (hint: vmap(fn, axis_name={name!r}))")


def axis_size(name: str) -> int:
    """How many elements the named batch has that the function runs in. TraceError outside of one.

    >>> import tensor as tn
    >>> tn.vmap(lambda x: x / axis_size("rows"), axis_name="rows")(tn.asarray([2.0, 4.0])).tolist()
    [1.0, 2.0]
    """
    return _axis(name)[1]


def axis_index(name: str) -> Tensor:
    """Which element of the named batch the function runs for: an int64 tensor without dimensions.

    >>> import tensor as tn
    >>> tn.vmap(lambda x: x * 10 + axis_index("rows"), axis_name="rows")(tn.asarray([5, 6])).tolist()
    [50, 61]
    """
    main, size, device = _axis(name)
    return BatchTracer.like(main, _kernels.arange(0, 1, size, "int64", device), 0)


def vmap(
    fn: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, axis_name: str | None = None
) -> Callable[..., Any]:
    """fn for one element, turned into a function of batches.

    `in_axes` says along which axis each argument holds its elements: an int for all, or a sequence of ints, None (not
    batched) or trees of them. `out_axes` is where the batch goes in the results. Inside, `axis_index(axis_name)` says
    which element it is, and `axis_size(axis_name)` of how many. Keyword arguments are passed on. The result equals a
    loop over the elements, stacked, bit for bit.

    Raises ShapeError if the batches differ in size, TraceError where fn needs a value (Python's `if`, `float`).

    >>> import tensor as tn
    >>> tn.autograd.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(tn.asarray([[1.0, 2.0], [3.0, 4.0]]),
    ...     tn.asarray([10.0, 1.0])).tolist()
    [12.0, 34.0]
    """

    @wraps(fn)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, treedef = tree_flatten(args)
        if isinstance(in_axes, Sequence) and len(in_axes) != len(args):
            raise ValueError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} arguments")
        axes = axes_of(tuple(in_axes) if isinstance(in_axes, list) else in_axes, treedef, "in_axes")
        size = _common_size(flat, axes)
        main = Main("vmap")
        with main.running(carries=underlying([x for x in flat if isinstance(x, _kernels.Tensor)])):
            wrapped = [
                x if a is None else BatchTracer.like(main, x, a % x.ndim) for x, a in zip(flat, axes, strict=True)
            ]
            if axis_name is not None:
                device = next(str(x.device) for x, a in zip(flat, axes, strict=True) if a is not None)
                _axes.named.append((axis_name, main, size, device))
            try:
                result = fn(*tree_unflatten(treedef, wrapped), **kwargs)
            finally:
                if axis_name is not None:
                    _axes.named.pop()
            outs, out_tree = tree_flatten(result)
            for o in outs:
                if not isinstance(o, _kernels.Tensor):
                    raise TraceError(f"vmap: the function must return tensors, got {type(o).__name__}")
            ends = axes_of(out_axes, out_tree, "out_axes")
            if None in ends:
                raise ValueError("vmap: out_axes must be ints")
            return tree_unflatten(
                out_tree, [unwrap(o, main, size, int(e or 0)) for o, e in zip(outs, ends, strict=True)]
            )

    return mapped


def _common_size(flat: list[Any], axes: list[int | None]) -> int:
    size: int | None = None
    for x, a in zip(flat, axes, strict=True):
        if a is None:
            continue
        if not isinstance(x, _kernels.Tensor):
            raise TraceError(f"vmap: an argument along an axis must hold tensors, got {type(x).__name__}")
        if not -x.ndim <= a < x.ndim:
            raise ShapeError(f"vmap: axis {a} is out of range for {Spec(x.shape, x.dtype)!r}")
        n = int(x.shape[a])
        if size is not None and n != size:
            raise ShapeError(f"vmap: the batches differ in size: {size} and {n}")
        size = n
    if size is None:
        raise ValueError("vmap: no argument is batched, in_axes is None everywhere")
    return size
