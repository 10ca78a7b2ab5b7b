"""Forward mode: tangents carried along with the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tensor import _kernels
from tensor.autograd.backward import floating, gradients, no_derivative
from tensor.autograd.grad_mode import enable_grad
from tensor.autograd.pytree import tree_flatten, tree_unflatten
from tensor.autograd.trace import Main, Record, Tracer, bind, leaf, underlying
from tensor.errors import DtypeError, GradientError, ShapeError
from tensor.primitives.rules import zeros_like_spec
from tensor.primitives.spec import Spec

__all__ = ["jvp"]

Tensor = Any


class JvpTracer(Tracer):
    """A value and its tangent; tangent None is zero."""

    __slots__ = ("primal", "tangent")

    what: ClassVar[str] = "a tensor with a tangent"
    primal: Tensor
    tangent: Tensor | None

    @classmethod
    def like(cls, main: Main, primal: Tensor, tangent: Tensor | None) -> JvpTracer:
        t: JvpTracer = cls(Spec(primal.shape, primal.dtype, primal.device), traced=True)
        t.main, t.primal, t.tangent = main, primal, tangent
        return t

    def lower(self) -> tuple[Tensor, ...]:
        return (self.primal, self.tangent)

    # The value is known, so that Python may branch on it.
    def __bool__(self) -> bool:
        return bool(self.primal)

    def __int__(self) -> int:
        return int(self.primal)

    def __float__(self) -> float:
        return float(self.primal)

    def __complex__(self) -> complex:
        return complex(self.primal)

    def __index__(self) -> int:
        return self.primal.__index__()  # type: ignore[no-any-return]

    def item(self) -> Any:
        return self.primal.item()

    def tolist(self) -> Any:
        return self.primal.tolist()

    @classmethod
    def process(cls, main: Main, primitive: Any, inputs: tuple[Tensor, ...], params: Any) -> Any:
        ours = [isinstance(x, JvpTracer) and x.main is main for x in inputs]
        primals = tuple([x.primal if own else x for x, own in zip(inputs, ours, strict=True)])
        tangents = tuple([x.tangent if own else None for x, own in zip(inputs, ours, strict=True)])
        outs = bind(primitive, primals, params)
        several = isinstance(outs, tuple)
        results = outs if several else (outs,)
        needs = tuple([t is not None for t in tangents])
        if not any(needs) or not any(floating(o) for o in results):
            moved: Sequence[Tensor | None] = (None,) * len(results)
        elif primitive.vjp is None and primitive.jvp is None:
            raise GradientError(no_derivative(primitive))
        else:
            node = Record(primitive, primals, results, params, needs)
            if primitive.jvp is not None:
                moved = primitive.jvp(tangents, node)
                moved = moved if several else (moved,)
            else:
                moved = transposed_jvp(primitive, tangents, node)
        wrapped = tuple([cls.like(main, o, t) for o, t in zip(results, moved, strict=True)])
        return wrapped if several else wrapped[0]


def transposed_jvp(primitive: Any, tangents: Sequence[Tensor | None], node: Record) -> list[Tensor | None]:
    """Tangents of the results where a row has only a vjp: that is linear in g, so its own vjp is the jvp.

    The trick is Jamie Townsend's ("A new trick for calculating Jacobian vector products", 2017).
    """
    start = _kernels.tape_sequence()
    followed = _kernels.grad_mode()
    with enable_grad():
        cotangents = [leaf(zeros_like_spec(o)) if floating(o) else zeros_like_spec(o) for o in node.outputs]
        g = cotangents[0] if len(cotangents) == 1 else tuple(cotangents)
        pulled = primitive.vjp(g, node)
    pairs = [
        (r, t) for r, t in zip(pulled, tangents, strict=True) if r is not None and t is not None and r.requires_grad
    ]
    leaves = [c for c in cotangents if floating(c)]
    before = _kernels.set_grad_mode(followed)
    try:
        found, _ = gradients([r for r, _ in pairs], [t for _, t in pairs], leaves, start=start)
    finally:
        _kernels.set_grad_mode(before)
    by_leaf = iter(found)
    return [next(by_leaf) if floating(c) else None for c in cotangents]


def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """fn(*primals) and its directional derivative along the tangents: trees like the result.

    Primals and tangents are sequences of trees, one for each argument of fn, with equal shapes and dtypes; None instead
    of a tangent's tensor means that it does not move. Raises DtypeError for primals that are not of floats, ShapeError
    for tangents of other shapes or dtypes.

    >>> import tensor as tn
    >>> value, along = tn.autograd.jvp(lambda x: x * x, (tn.asarray([1.0, 3.0]),), (tn.asarray([1.0, 10.0]),))
    >>> value.tolist(), along.tolist()
    ([1.0, 9.0], [2.0, 60.0])
    """
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(f"jvp: {what} must be a tuple, one tree for each argument, got {type(given).__name__}")
    if len(primals) != len(tangents):
        raise ValueError(f"jvp: {len(primals)} primals and {len(tangents)} tangents")
    flat, treedef = tree_flatten(tuple(primals))
    moves, tangent_tree = tree_flatten(tuple(tangents))
    if tangent_tree != treedef:
        raise ValueError(f"jvp: the tangents must have the tree {treedef}, got {tangent_tree}")
    for x, t in zip(flat, moves, strict=True):
        if not floating(x):
            got = repr(Spec(x.shape, x.dtype)) if isinstance(x, _kernels.Tensor) else type(x).__name__
            raise DtypeError(f"jvp: the primals must hold tensors of floats or complex numbers, got {got}")
        if not isinstance(t, _kernels.Tensor) or t.shape != x.shape or t.dtype != x.dtype:
            got = repr(Spec(t.shape, t.dtype)) if isinstance(t, _kernels.Tensor) else type(t).__name__
            raise ShapeError(f"jvp: the tangent of {Spec(x.shape, x.dtype)!r} must be like it, got {got}")
    main = Main("jvp")
    with main.running(carries=underlying((*flat, *moves))):
        tracers = [JvpTracer.like(main, x, t) for x, t in zip(flat, moves, strict=True)]
        result = fn(*tree_unflatten(treedef, tracers))
    outs, out_tree = tree_flatten(result)
    values, along = [], []
    for o in outs:
        if not isinstance(o, _kernels.Tensor):
            raise GradientError(f"jvp: the function must return tensors, got {type(o).__name__}")
        if isinstance(o, JvpTracer) and o.main is main:
            values.append(o.primal)
            along.append(zeros_like_spec(o.primal) if o.tangent is None else o.tangent)
        else:
            values.append(o)
            along.append(zeros_like_spec(o))
    return tree_unflatten(out_tree, values), tree_unflatten(out_tree, along)
