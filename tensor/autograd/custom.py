"""Functions with a derivative of their own, and primitives that a user adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import Any

from tensor import _kernels
from tensor.autograd.backward import floating
from tensor.autograd.grad_mode import grad_enabled
from tensor.autograd.jvp import JvpTracer
from tensor.autograd.pytree import TreeDef, tree_flatten, tree_unflatten
from tensor.autograd.trace import Main, Record, Tracer, apply_traced
from tensor.autograd.vmap import BatchTracer, unwrap
from tensor.errors import GradientError, ShapeError
from tensor.primitives.primitive import FLOATS, KEEP_INPUTS, Primitive, Sample
from tensor.primitives.spec import Spec
from tensor.primitives.twin_call import array_of

__all__ = ["custom_jvp", "custom_primitive", "custom_vjp", "stop_gradient"]

Tensor = Any
Outs = tuple[Tensor, ...]


class Call(_kernels.PrimitiveBase):  # type: ignore[misc]
    """One call of a function that goes on the tape as a whole: a row made for the occasion.

    `evaluate` runs the function on the tensors; `vjp` is its derivative. Results are always a tuple.
    """

    sparse_gradients = False
    jvp = None

    def __init__(self, name: str) -> None:
        super().__init__(name, -1, KEEP_INPUTS)

    def evaluate(self, inputs: Outs) -> Outs:
        raise NotImplementedError

    def vjp(self, g: Any, node: Any) -> Sequence[Tensor | None]:
        raise NotImplementedError

    def batched(self, main: Main, inputs: Outs, dims: tuple[int | None, ...], size: int) -> Outs:
        """The call on whole batches: it runs under the tracers of a run of vmap, and so does its derivative."""
        return BatchedCall(self, dims, main, size).call(inputs)

    def call(self, inputs: Outs) -> Outs:
        """Runs it with recording off inside, and puts the call on the tape."""
        if any(isinstance(x, Tracer) for x in inputs):
            outs: Outs = apply_traced(self, inputs, None)
            return outs
        before = _kernels.set_grad_mode(False)
        try:
            outs = tuple([o.detach() for o in self.evaluate(inputs)])
        finally:
            _kernels.set_grad_mode(before)
        if before and any(x.requires_grad for x in inputs):
            _kernels.record(self, inputs, None, outs)
        return outs


class BatchedCall(Call):
    """A call on whole batches: what it wraps sees one element, forward and backward."""

    def __init__(self, inner: Call, dims: tuple[int | None, ...], main: Main, size: int) -> None:
        super().__init__(inner.name)
        self.inner = inner
        self.dims = dims
        self.main = main
        self.size = size

    def _wrap(self, inputs: Outs) -> Outs:
        return tuple(
            [x if d is None else BatchTracer.like(self.main, x, d) for x, d in zip(inputs, self.dims, strict=True)]
        )

    def evaluate(self, inputs: Outs) -> Outs:
        with self.main.running(carries=True):
            outs = self.inner.evaluate(self._wrap(inputs))
            return tuple([unwrap(o, self.main, self.size, 0) for o in outs])

    def vjp(self, g: Any, node: Any) -> Sequence[Tensor | None]:
        with self.main.running(carries=True):
            inputs = self._wrap(node.inputs)
            several = isinstance(g, tuple)
            wrapped = [BatchTracer.like(self.main, d, 0) for d in (g if several else (g,))]
            inner = Record(self.inner, inputs, (), node.params, node.needs)
            results = self.inner.vjp(tuple(wrapped) if several else wrapped[0], inner)
            back: list[Tensor | None] = []
            for r, d in zip(results, self.dims, strict=True):
                if r is None:
                    back.append(None)
                elif d is None:
                    back.append(unwrap(r, self.main, self.size, 0).sum(axis=(0,)))
                else:
                    back.append(unwrap(r, self.main, self.size, d))
        return back


class _CustomVjpCall(Call):
    """A call of a custom_vjp function: residuals from fwd go to bwd."""

    def __init__(self, rule: custom_vjp, treedef: TreeDef, static: dict[int, Any]) -> None:
        super().__init__(rule.name)
        self.rule = rule
        self.treedef = treedef
        self.static = static  # leaves that are no tensors, by position
        self.out_tree: TreeDef | None = None
        self.residuals: Any = None

    def _args(self, inputs: Iterable[Tensor]) -> tuple[Any, ...]:
        tensors = iter(inputs)
        leaves = [self.static[i] if i in self.static else next(tensors) for i in range(self.treedef.num_leaves)]
        args: tuple[Any, ...] = tree_unflatten(self.treedef, leaves)
        return args

    def _forward(self, inputs: Outs) -> tuple[Outs, Any]:
        assert self.rule.fwd is not None
        result = self.rule.fwd(*self._args(inputs))
        if not isinstance(result, tuple) or len(result) != 2:
            raise GradientError(f"custom_vjp {self.name}: fwd must return (result, residuals)")
        outs, self.out_tree = tree_flatten(result[0])
        return tuple(outs), result[1]

    def evaluate(self, inputs: Outs) -> Outs:
        outs, self.residuals = self._forward(inputs)
        return outs

    def vjp(self, g: Any, node: Any) -> Sequence[Tensor | None]:
        assert self.rule.bwd is not None and self.out_tree is not None
        inputs = node.inputs
        # A pass that is recorded itself needs residuals that remember the inputs, and one that is carried along with
        # tangents needs residuals with tangents: what evaluate kept is a level lower.
        again = grad_enabled() or any(_moves(x) for x in inputs)
        residuals = self._forward(inputs)[1] if again else self.residuals
        cotangent = tree_unflatten(self.out_tree, g if isinstance(g, tuple) else (g,))
        grads = self.rule.bwd(residuals, cotangent)
        if not isinstance(grads, tuple) or len(grads) != len(self.treedef.children):
            count = len(self.treedef.children)
            raise GradientError(
                f"custom_vjp {self.name}: bwd must return a tuple of {count}, one gradient for each argument of the "
                f"function, got {type(grads).__name__}{f' of {len(grads)}' if isinstance(grads, tuple) else ''}"
            )
        flat: list[Any] = []
        for part, child in zip(grads, self.treedef.children, strict=True):
            flat += [None] * child.num_leaves if part is None else tree_flatten(part)[0]
        if len(flat) != self.treedef.num_leaves:
            raise GradientError(f"custom_vjp {self.name}: the gradients of bwd must have the arguments' trees")
        results = [d for i, d in enumerate(flat) if i not in self.static]
        _require_like(f"custom_vjp {self.name}: bwd", results, inputs)
        return results


def _moves(x: Tensor) -> bool:
    """Whether x, or what lies below it, carries a tangent."""
    while isinstance(x, Tracer):
        if isinstance(x, JvpTracer):
            return True
        x = x.lower()[0]
    return False


def _require_like(who: str, gradients: Sequence[Any], inputs: Sequence[Tensor]) -> None:
    """TypeError, ShapeError for gradients that are no tensors, or not like their inputs."""
    for d, x in zip(gradients, inputs, strict=False):
        if d is None:
            continue
        if not isinstance(d, _kernels.Tensor):
            raise TypeError(f"{who} gave a {type(d).__name__} as the gradient of {Spec(x.shape, x.dtype)!r}")
        if d.shape != x.shape or d.dtype != x.dtype:
            raise ShapeError(f"{who} gave {Spec(d.shape, d.dtype)!r} as the gradient of {Spec(x.shape, x.dtype)!r}")


class custom_vjp:  # noqa: N801, a decorator
    """A function with a given derivative: `fwd(*args) → (result, residuals)`, `bwd(residuals, g) → gradients`.

    Arguments are trees; leaves that are no tensors are constants. bwd returns one gradient (a tree, or None) for each
    argument. Tensors that the function closes over get no gradient: pass them as arguments. Derivatives of bwd are
    taken through its code and fwd's. Forward mode transposes bwd.

    >>> import tensor as tn
    >>> @tn.autograd.custom_vjp
    ... def clipped(x):
    ...     return x * 1
    >>> clipped.defvjp(lambda x: (x * 1, None), lambda residuals, g: (tn.clip(g, -1.0, 1.0),))
    >>> tn.autograd.grad(lambda x: clipped(x) * 100)(tn.asarray(2.0)).item()
    1.0
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        update_wrapper(self, fn)
        self.fn = fn
        self.name = getattr(fn, "__name__", "function")
        self.fwd: Callable[..., tuple[Any, Any]] | None = None
        self.bwd: Callable[[Any, Any], tuple[Any, ...]] | None = None

    def defvjp(self, fwd: Callable[..., tuple[Any, Any]], bwd: Callable[[Any, Any], tuple[Any, ...]]) -> None:
        """Sets the derivative."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        if self.fwd is None:
            raise GradientError(f"custom_vjp {self.name}: no derivative (hint: {self.name}.defvjp(fwd, bwd))")
        leaves, treedef = tree_flatten(args)
        static = {i: x for i, x in enumerate(leaves) if not isinstance(x, _kernels.Tensor)}
        inputs = tuple([x for i, x in enumerate(leaves) if i not in static])
        if not any(x.requires_grad or isinstance(x, Tracer) for x in inputs):
            return self.fn(*args)
        call = _CustomVjpCall(self, treedef, static)
        outs = call.call(inputs)
        assert call.out_tree is not None
        return tree_unflatten(call.out_tree, outs)


class _CustomJvpCall(Call):
    """A call of a custom_jvp function: its rule forward, and the transpose of that backward."""

    def __init__(self, owner: custom_jvp, treedef: TreeDef, static: dict[int, Any]) -> None:
        super().__init__(owner.name)
        self.owner = owner
        self.treedef = treedef
        self.static = static
        self.out_tree: TreeDef | None = None

    def _args(self, inputs: Iterable[Tensor], static: dict[int, Any]) -> tuple[Any, ...]:
        tensors = iter(inputs)
        leaves = [static[i] if i in static else next(tensors) for i in range(self.treedef.num_leaves)]
        args: tuple[Any, ...] = tree_unflatten(self.treedef, leaves)
        return args

    def evaluate(self, inputs: Outs) -> Outs:
        outs, self.out_tree = tree_flatten(self.owner.fn(*self._args(inputs, self.static)))
        return tuple(outs)

    def along(self, inputs: Outs, tangents: Sequence[Tensor]) -> Outs:
        """The rule's tangents of the results; None stands for zeros."""
        assert self.owner.rule is not None
        still = dict.fromkeys(self.static)
        result = self.owner.rule(self._args(inputs, self.static), self._args(tangents, still))
        if not isinstance(result, tuple) or len(result) != 2:
            raise GradientError(f"custom_jvp {self.name}: the rule must return (result, tangent)")
        outs, moves = tree_flatten(result[0])[0], tree_flatten(result[1])[0]
        if [Spec(x.shape, x.dtype) for x in outs] != [Spec(t.shape, t.dtype) for t in moves]:
            raise ShapeError(f"custom_jvp {self.name}: the rule's tangent must be like its result")
        return tuple(moves)

    def jvp(self, tangents: Sequence[Tensor | None], node: Any) -> Outs:  # type: ignore[override]
        from tensor.primitives.rules import zeros_like_spec

        full = [zeros_like_spec(x) if t is None else t for x, t in zip(node.inputs, tangents, strict=True)]
        return self.along(node.inputs, full)

    def vjp(self, g: Any, node: Any) -> Sequence[Tensor | None]:
        from tensor.autograd.grad import vjp
        from tensor.primitives.rules import zeros_like_spec

        moving = [i for i, x in enumerate(node.inputs) if floating(x)]
        zeros = [zeros_like_spec(x) for x in node.inputs]

        def linear(*tangents: Tensor) -> Outs:
            full = list(zeros)
            for i, t in zip(moving, tangents, strict=True):
                full[i] = t
            return self.along(node.inputs, full)

        _, pull = vjp(linear, *[zeros[i] for i in moving])
        found = dict(zip(moving, pull(g if isinstance(g, tuple) else (g,)), strict=True))
        return [found.get(i) for i in range(len(node.inputs))]


class custom_jvp:  # noqa: N801, a decorator
    """A function with a given derivative forward: `rule(primals, tangents) → (result, tangent)`.

    Arguments are trees; leaves that are no tensors are constants, with None among the tangents. The rule must be linear
    in the tangents: reverse mode transposes it. Derivatives of the rule are taken through its code.

    >>> import tensor as tn
    >>> @tn.autograd.custom_jvp
    ... def root(x):
    ...     return tn.sqrt(x)
    >>> root.defjvp(lambda primals, tangents: (root(*primals), tangents[0] / (2 * root(*primals))))
    >>> tn.autograd.grad(root)(tn.asarray(4.0)).item()
    0.25
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        update_wrapper(self, fn)
        self.fn = fn
        self.name = getattr(fn, "__name__", "function")
        self.rule: Callable[[Any, Any], tuple[Any, Any]] | None = None

    def defjvp(self, rule: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        """Sets the derivative."""
        self.rule = rule

    def __call__(self, *args: Any) -> Any:
        if self.rule is None:
            raise GradientError(f"custom_jvp {self.name}: no derivative (hint: {self.name}.defjvp(rule))")
        leaves, treedef = tree_flatten(args)
        static = {i: x for i, x in enumerate(leaves) if not isinstance(x, _kernels.Tensor)}
        inputs = tuple([x for i, x in enumerate(leaves) if i not in static])
        if not any(x.requires_grad or isinstance(x, Tracer) for x in inputs):
            return self.fn(*args)
        call = _CustomJvpCall(self, treedef, static)
        outs = call.call(inputs)
        assert call.out_tree is not None
        return tree_unflatten(call.out_tree, outs)


_still = custom_vjp(lambda x: x.reshape(x.shape))
_still.defvjp(lambda x: (x.reshape(x.shape), None), lambda residuals, g: (None,))


def stop_gradient(x: Tensor, /) -> Tensor:
    """x as a constant for derivatives of every kind: `detach` cuts the tape, this also a tangent of forward mode.

    >>> import tensor as tn
    >>> tn.autograd.grad(lambda x: x * tn.autograd.stop_gradient(x))(tn.asarray(3.0)).item()
    3.0
    """
    if not isinstance(x, _kernels.Tensor):
        raise TypeError(f"stop_gradient: expected a Tensor, got {type(x).__name__} (hint: asarray)")
    return _still(x) if isinstance(x, Tracer) else x.detach()


def custom_primitive(
    name: str,
    *,
    shape: Callable[..., Any],
    forward: Callable[..., Any],
    vjp: Callable[..., Sequence[Tensor | None]] | None = None,
    jvp: Callable[..., Any] | None = None,
    batch: Any = None,
    lowering: Callable[..., None] | None = None,
    linear: bool = False,
    dtypes: tuple[str, ...] = FLOATS,
    samples: Callable[..., Iterable[Sample]] = lambda rng: (),
) -> Callable[..., Any]:
    """A new operation with rules of its own, as the rows of the engine have them; returns the function that runs it.

    `shape(specs, params)` gives the result's Spec (tuple of Specs: several results), `forward(arrays, params)` computes
    on numpy arrays, which it must not change; `vjp(g, node)`, `jvp(tangents, node)`, `batch(inputs, dims, params)` are
    as `help(tensor.primitives)` describes them. `lowering(outs, inputs, params)` runs on device cpu instead of forward:
    it writes into the given tensors what forward defines, by a library of its own. The keyword arguments of the
    returned function are the params.

    >>> import tensor as tn
    >>> import numpy as np
    >>> cube = tn.autograd.custom_primitive(
    ...     "cube", shape=lambda specs, params: specs[0], forward=lambda arrays, params: arrays[0] ** 3,
    ...     vjp=lambda g, node: (g * node.inputs[0] * node.inputs[0] * 3,))
    >>> tn.autograd.grad(lambda x: cube(x).sum())(tn.asarray([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """

    def kernel(outs: Outs, inputs: Outs, params: Any) -> None:
        arrays = tuple([array_of(x).view() for x in inputs])
        for a in arrays:
            a.flags.writeable = False
        results = forward(arrays, params)
        for out, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
            view = array_of(out)
            if result.shape != view.shape:
                raise ShapeError(
                    f"{name}: forward gave the shape {result.shape} where the shape rule says {view.shape}"
                )
            view[...] = result

    def checked_vjp(g: Any, node: Any) -> Sequence[Tensor | None]:
        assert vjp is not None
        gradients = vjp(g, node)
        _require_like(f"backward of {name}: its rule", gradients, node.inputs)
        return gradients

    primitive = Primitive(
        name,
        category="custom",
        summary=f"{name}, added by a program.",
        shape=shape,
        dtypes=dtypes,
        samples=samples,
        kernel=kernel if lowering is None else lowering,
        twin=forward,
        keeps=KEEP_INPUTS | 0xFFFF << 16,
        vjp=None if vjp is None else checked_vjp,
        jvp=jvp,
        batch=batch,
        linear=linear,
    )

    def run(*inputs: Tensor, **params: Any) -> Any:
        return _kernels.apply(primitive, inputs, params or None)

    run.__name__ = run.__qualname__ = name
    run.primitive = primitive  # type: ignore[attr-defined]
    return run
