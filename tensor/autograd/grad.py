"""Gradients of functions: grad, value_and_grad, vjp, hessian. Any order, over trees of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tensor import _kernels
from tensor.autograd.backward import floating, gradients, reaches_others
from tensor.autograd.grad_mode import enable_grad
from tensor.autograd.pytree import tree_flatten, tree_map, tree_unflatten
from tensor.autograd.trace import inside_gradient, leaf, underlying
from tensor.errors import DtypeError, GradientError, ShapeError
from tensor.primitives.rules import zeros_like_spec
from tensor.primitives.spec import Spec

__all__ = ["grad", "hessian", "value_and_grad", "vjp"]

Tensor = Any


def fresh_leaf(x: Tensor, name: str, what: str) -> Tensor:
    """A leaf with x's value; if x requires gradients itself, what is computed from the leaf reaches x too."""
    if not floating(x):
        got = repr(Spec(x.shape, x.dtype)) if isinstance(x, _kernels.Tensor) else type(x).__name__
        if isinstance(x, _kernels.Tensor) or type(x).__module__ == "builtins":
            hint = ""
        elif hasattr(x, "__array__"):
            hint = " (hint: tensor.asarray)"
        else:
            hint = " (hint: tensor.autograd.register_pytree_node makes a type a container)"
        raise DtypeError(f"{name}: {what} must hold tensors of floats or complex numbers, got {got}{hint}")
    return leaf(x)


def _cut(tree: Any, connected: bool) -> Any:
    """Results without the tape that only served the gradient."""
    if connected:
        return tree
    return tree_map(lambda x: x.detach() if isinstance(x, _kernels.Tensor) and x.requires_grad else x, tree)


def _positions(argnums: int | Sequence[int], count: int, name: str) -> tuple[int, ...]:
    asked = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in asked:
        if not isinstance(i, int):
            raise TypeError(f"{name}: argnums must be an int or a sequence of ints, got {argnums!r}")
        if not -count <= i < count:
            raise ValueError(f"{name}: argnums {i} is out of range for {count} positional arguments")
    positions = tuple(i % count for i in asked)
    if len(set(positions)) < len(positions):
        raise ValueError(f"{name}: argnums {argnums!r} names an argument twice")
    return positions


def value_and_grad(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that gives fn's value and its gradient with respect to the arguments at `argnums`.

    fn must return a 0-d tensor of floats; with `has_aux` a pair of it and anything else, which is passed on. The
    gradient has the shape of the argument's tree; of complex arguments it is ∂/∂Re + i·∂/∂Im. For several argnums it is
    a tuple. Raises GradientError for another result, DtypeError for arguments that are not floats.

    >>> import tensor as tn
    >>> value, g = tn.autograd.value_and_grad(lambda x: (x * x).sum())(tn.asarray([1.0, 2.0]))
    >>> value.item(), g.tolist()
    (5.0, [2.0, 4.0])
    """
    name = "grad"

    @wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        positions = _positions(argnums, len(args), name)
        start = _kernels.tape_sequence()
        new_args = list(args)
        leaves, trees = [], []
        originals: list[Tensor] = []
        for i in positions:
            flat, treedef = tree_flatten(args[i])
            fresh = [fresh_leaf(x, name, f"argument {i}") for x in flat]
            new_args[i] = tree_unflatten(treedef, fresh)
            originals += flat
            leaves += fresh
            trees.append(treedef)
        with inside_gradient(), enable_grad():
            result = fn(*new_args, **kwargs)
        value, aux = _with_aux(result, name) if has_aux else (result, None)
        _require_scalar(value, name)
        found, foreign = _pull(value, leaves, start)
        values = [zeros_like_spec(x) if g is None else g for g, x in zip(found, originals, strict=True)]
        pieces, at = [], 0
        for treedef in trees:
            pieces.append(tree_unflatten(treedef, values[at : at + treedef.num_leaves]))
            at += treedef.num_leaves
        connected = foreign or underlying(originals)
        grads = pieces[0] if isinstance(argnums, int) else tuple(pieces)
        return _cut((value, aux) if has_aux else value, connected), grads

    return wrapped


def _pull(value: Tensor, leaves: list[Tensor], start: int) -> tuple[list[Tensor | None], bool]:
    return gradients([value], [_kernels.full((), 1, value.dtype, value.device)], leaves, start=start)


def _with_aux(result: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(f"{name}: with has_aux the function must return (result, aux), got {type(result).__name__}")
    return result


def _require_scalar(value: Any, name: str) -> None:
    if not floating(value) or value.ndim != 0 or value.dtype.name.startswith("complex"):
        got = repr(Spec(value.shape, value.dtype)) if isinstance(value, _kernels.Tensor) else type(value).__name__
        raise GradientError(
            f"{name}: the function must return one 0-d tensor of floats, got {got} "
            f"(hint: .sum(), has_aux=True for further results, or vjp)"
        )


def grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of fn, as `value_and_grad` gives it, without the value; (gradient, aux) with `has_aux`.

    >>> import tensor as tn
    >>> cube = lambda x: x * x * x
    >>> d = tn.autograd.grad
    >>> x = tn.asarray(2.0)
    >>> d(cube)(x).item(), d(d(cube))(x).item(), d(d(d(cube)))(x).item()
    (12.0, 12.0, 6.0)
    """
    both = value_and_grad(fn, argnums, has_aux=has_aux)

    @wraps(fn)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """fn(*primals) and the function that pulls a cotangent of its result back to the primals.

    The cotangent has the tree, shapes and dtypes of the result; the pullback gives a tuple, a tree for each primal, and
    may be called more than once. With `has_aux` fn returns (result, aux) and aux comes third.

    >>> import tensor as tn
    >>> y, pull = tn.autograd.vjp(lambda x: x * 3, tn.asarray([1.0, 2.0]))
    >>> pull(tn.asarray([1.0, 10.0]))[0].tolist()
    [3.0, 30.0]
    """
    start = _kernels.tape_sequence()
    flat, treedef = tree_flatten(primals)
    leaves = [fresh_leaf(x, "vjp", "the primals") for x in flat]
    with inside_gradient(), enable_grad():
        result = fn(*tree_unflatten(treedef, leaves))
    value, aux = _with_aux(result, "vjp") if has_aux else (result, None)
    outs, out_tree = tree_flatten(value)
    for o in outs:
        if not isinstance(o, _kernels.Tensor):
            raise GradientError(f"vjp: the function must return tensors, got {type(o).__name__}")

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds, tree = tree_flatten(cotangent)
        if tree != out_tree:
            raise ValueError(f"vjp: the cotangent must have the tree {out_tree}, got {tree}")
        for s, o in zip(seeds, outs, strict=True):
            if s.shape != o.shape or s.dtype != o.dtype:
                raise ShapeError(
                    f"vjp: the cotangent must be {Spec(o.shape, o.dtype)!r}, got {Spec(s.shape, s.dtype)!r}"
                )
        found, _ = gradients(outs, seeds, leaves, start=start, keep=True)
        values = [zeros_like_spec(x) if g is None else g for g, x in zip(found, flat, strict=True)]
        back: tuple[Any, ...] = tree_unflatten(treedef, values)
        return back

    public = _cut((value, aux), underlying(flat) or reaches_others(outs, leaves, start))
    return (public[0], pullback, public[1]) if has_aux else (public[0], pullback)


def hessian(fn: Callable[..., Any], argnum: int = 0) -> Callable[..., Tensor]:
    """The matrix of second derivatives of a scalar function of one tensor: shape (*x.shape, *x.shape).

    Forward over reverse: the tangents of the gradient along each unit vector, all in one batch.

    >>> import tensor as tn
    >>> tn.autograd.hessian(lambda x: x[0] * x[0] * x[1])(tn.asarray([3.0, 5.0])).tolist()
    [[10.0, 6.0], [6.0, 0.0]]
    """
    from tensor.autograd.jvp import jvp
    from tensor.autograd.vmap import vmap
    from tensor.functions.creation import eye

    @wraps(fn)
    def second(*args: Any, **kwargs: Any) -> Tensor:
        x = args[argnum]
        if not floating(x):
            raise DtypeError(f"hessian: argument {argnum} must be one tensor of floats, got {type(x).__name__}")

        def value(v: Tensor) -> Tensor:
            found = fn(*args[:argnum], v, *args[argnum + 1 :], **kwargs)
            _require_scalar(found, "hessian")
            return found

        def slope(v: Tensor) -> Tensor:
            return grad(value)(v)

        n = x.size
        units = eye(n, dtype=x.dtype, device=x.device).reshape((n, *x.shape))
        columns = vmap(lambda t: jvp(slope, (x,), (t,))[1])(units)
        return columns.reshape((*x.shape, *x.shape))

    return second
