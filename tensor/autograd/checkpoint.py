"""Checkpoints: a function's intermediate results are not kept; the gradient's pass computes them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tensor import _kernels
from tensor.autograd.backward import gradients, key_of
from tensor.autograd.custom import Call, Outs
from tensor.autograd.grad_mode import enable_grad
from tensor.autograd.jvp import JvpTracer
from tensor.autograd.pytree import tree_flatten, tree_unflatten
from tensor.autograd.trace import Main, Tracer, collected_leaves, leaf, process
from tensor.autograd.vmap import BatchTracer, unwrap
from tensor.random_stream import DrawLog

__all__ = ["checkpoint"]

Tensor = Any


class _Escaped(Exception):
    """A tracer came in through a closure: the call cannot be kept apart from its level."""


class CheckpointCall(Call):
    """A call whose derivative runs the function again, recorded this time.

    The tensors that the function closes over are found while it runs: the dispatcher notes every input that requires
    gradients although recording is off. They become inputs of the node after the arguments. The function gets aliases
    of the arguments, so that one which it closes over as well is told apart.
    """

    def __init__(self, fn: Callable[[Outs], Outs]) -> None:
        super().__init__("checkpoint")
        self.fn = fn
        self.count = 0

    def evaluate(self, inputs: Outs) -> Outs:
        return self.fn(inputs)

    def call(self, inputs: Outs) -> Outs:
        self.count = len(inputs)
        traced = any(isinstance(x, Tracer) for x in inputs)
        args = tuple([x.detach().requires_grad_() if x.requires_grad else x for x in inputs])
        noted: list[Tensor] = []
        start = _kernels.tape_sequence()
        before = _kernels.grad_mode()
        outer = _kernels.capture(noted)
        try:
            with collected_leaves() as made:
                if traced:  # the call one level down turns recording off
                    outs: Outs = process(self, args, None)
                else:
                    _kernels.set_grad_mode(False)
                    outs = self.evaluate(args)
        finally:
            _kernels.capture(outer)
            _kernels.set_grad_mode(before)
        if not traced:
            if any(isinstance(o, Tracer) for o in outs):
                raise _Escaped
            outs = tuple([o.detach() for o in outs])
        known = {id(x) for x in (*args, *made)}
        closed = []
        for x in noted:
            key = key_of(x)
            inside = x.node is not None and x.node.sequence >= start  # on the way of a gradient that fn takes
            if key not in known and not inside:
                known.add(key)
                closed.append(x)
        if outer is not None:
            outer.extend(closed)
            outer.extend(x for x in inputs if x.requires_grad)
        everything = (*inputs, *closed)
        if before and any(x.requires_grad for x in everything):
            _kernels.record(self, everything, None, outs)
        return outs

    def vjp(self, g: Any, node: Any) -> Sequence[Tensor | None]:
        everything, needs = node.inputs, node.needs
        inputs, closed = everything[: self.count], everything[self.count :]
        start = _kernels.tape_sequence()
        leaves = [leaf(x) if need else x for x, need in zip(inputs, needs, strict=False)]
        with enable_grad():
            outs = self.evaluate(tuple(leaves))
        wanted = [x for x, need in zip(leaves, needs, strict=False) if need]
        seeds = g if isinstance(g, tuple) else (g,)
        found = iter(gradients(outs, seeds, [*wanted, *closed], start=start)[0])
        return [next(found) if need else None for need in needs[: self.count]] + list(found)

    def batched(self, main: Main, inputs: Outs, dims: tuple[int | None, ...], size: int) -> Outs:
        def whole(values: Outs) -> Outs:
            with main.running(carries=True):
                one = [x if d is None else BatchTracer.like(main, x, d) for x, d in zip(values, dims, strict=True)]
                return tuple([unwrap(o, main, size, 0) for o in self.fn(tuple(one))])

        return CheckpointCall(whole).call(inputs)


def checkpoint(fn: Callable[..., Any]) -> Callable[..., Any]:
    """fn with less memory and more work: the gradient's pass runs fn again instead of keeping what it computed.

    Arguments and results are trees; tensors that fn closes over get their gradients too. fn must compute the same both
    times; random numbers are functions of keys, so they are the same, and a random.Stream gives the second run the keys
    of the first. Values have the bits of the plain function; gradients are added up call by call, so that of a tensor
    which several calls read may differ from the plain one in the last bit.

    >>> import tensor as tn
    >>> f = tn.autograd.checkpoint(lambda x: (x * x * x).sum())
    >>> tn.autograd.grad(f)(tn.asarray([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """

    @wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree_flatten(args)
        at = [i for i, x in enumerate(leaves) if isinstance(x, _kernels.Tensor)]
        inputs = tuple([leaves[i] for i in at])
        if not _kernels.grad_mode() or any(isinstance(x, JvpTracer) for x in inputs):
            return fn(*args, **kwargs)
        trees: list[Any] = []
        keys = DrawLog()
        fixed = [None if isinstance(x, _kernels.Tensor) else x for x in leaves]

        def flat(tensors: Outs) -> Outs:
            full = list(fixed)
            for i, x in zip(at, tensors, strict=True):
                full[i] = x
            with keys.running():
                outs, out_tree = tree_flatten(fn(*tree_unflatten(treedef, full), **kwargs))
            trees[:] = [out_tree]
            if not all(isinstance(o, _kernels.Tensor) for o in outs):
                raise _Escaped
            return tuple(outs)

        try:
            outs = CheckpointCall(flat).call(inputs)
        except _Escaped:
            with keys.running():
                return fn(*args, **kwargs)
        return tree_unflatten(trees[0], outs)

    return wrapped
