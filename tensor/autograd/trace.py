"""Tracers: tensors that stand for something more than their value while a transformation runs a function.

A tracer belongs to a Main, one run of a transformation. Mains nest, and each has a level; an operation goes to the
tracer with the highest level among its inputs, which treats all others as constants and runs rows one level down.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from tensor import _kernels
from tensor.errors import TraceError
from tensor.primitives.spec import Spec

Tensor = Any

__all__ = ["Main", "Record", "Tracer", "apply_traced", "bind", "levels_active"]


class _Levels(threading.local):
    depth = 0
    carrying = 0  # how many of the active transformations hold values that an outer tape follows
    grads = 0  # functional gradients whose function is running
    leaves: list[Any] | None = None  # those made while the function of a checkpoint runs


_levels = _Levels()


class Main:
    """One run of a transformation: its level, and whether it is still going on."""

    __slots__ = ("alive", "carries", "level", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level = _levels.depth + 1
        self.alive = False
        self.carries = False

    @contextmanager
    def running(self, carries: bool = False) -> Iterator[Main]:
        """The time in which tracers of this run may be used; may be entered again later, for a gradient's pass."""
        depth, alive = _levels.depth, self.alive
        _levels.depth = max(depth, self.level)
        _levels.carrying += carries
        self.alive = True
        try:
            yield self
        finally:
            _levels.depth = depth
            _levels.carrying -= carries
            self.alive = alive


@contextmanager
def inside_gradient() -> Iterator[None]:
    """While a functional gradient runs its function: gradients taken inside may be differentiated again."""
    _levels.grads += 1
    try:
        yield
    finally:
        _levels.grads -= 1


def levels_active() -> bool:
    """Whether an outer tape may follow what happens below the tracers of this thread."""
    return _levels.carrying > 0 or _levels.grads > 0


class Tracer(_kernels.Tensor):  # type: ignore[misc]
    """A tensor without elements of its own; the subclasses are BatchTracer and JvpTracer."""

    __slots__ = ("main",)

    what: ClassVar[str] = "a traced tensor"
    hint: ClassVar[str] = "tensor.where, cond and while_loop choose by value"
    main: Main

    @classmethod
    def process(cls, main: Main, primitive: Any, inputs: tuple[Tensor, ...], params: Any) -> Any:
        """The results of a row on inputs of which at least one is a tracer of this run."""
        raise NotImplementedError

    def lower(self) -> tuple[Any, ...]:
        """What it stands for, one level down: the arguments of `like` after the Main."""
        raise NotImplementedError

    @classmethod
    def like(cls, main: Main, *parts: Any) -> Tracer:
        """A tracer of this run over such parts."""
        raise NotImplementedError

    def _refuse(self, what: str) -> NoReturn:
        raise TraceError(
            f"{self.main.name}: {what} of {self.what} is not known, it stands for many values (hint: {self.hint})"
        )

    def __bool__(self) -> bool:  # noqa: PLE0304
        self._refuse("the truth")

    def __int__(self) -> int:
        self._refuse("the int value")

    def __float__(self) -> float:
        self._refuse("the float value")

    def __complex__(self) -> complex:
        self._refuse("the complex value")

    def __index__(self) -> int:  # noqa: PLE0305
        self._refuse("the index value")

    def item(self) -> Any:
        self._refuse("item()")

    def tolist(self) -> Any:
        self._refuse("tolist()")

    def numpy(self) -> Any:
        self._refuse("numpy()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("the numpy array")

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("the DLPack capsule")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {Spec(self.shape, self.dtype)!r} of {self.main.name}, level {self.main.level}>"


class Record:
    """What a derivative rule reads, where there is no node of a tape: one call of a row with all its tensors."""

    __slots__ = ("inputs", "needs", "outputs", "params", "primitive")

    def __init__(
        self,
        primitive: Any,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        params: Any,
        needs: tuple[bool, ...],
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs
        self.outputs = outputs
        self.params = params
        self.needs = needs


def bind(primitive: Any, inputs: tuple[Tensor, ...], params: Any = None) -> Any:
    """Runs a row, or a call with a derivative of its own (custom.py), on any inputs."""
    run = getattr(primitive, "call", None)
    return _kernels.apply(primitive, inputs, params) if run is None else run(inputs)


def process(primitive: Any, inputs: tuple[Tensor, ...], params: Any) -> Any:
    """Hands a call to the tracer with the highest level among its inputs."""
    top = None
    for x in inputs:
        if isinstance(x, Tracer) and (top is None or x.main.level > top.main.level):
            top = x
    if top is None:
        raise TraceError(f"{primitive.name}: an input is marked as traced, but belongs to no transformation")
    main = top.main
    if not main.alive:
        raise TraceError(
            f"{primitive.name}: an input comes from a {main.name} that has ended "
            f"(hint: return it from the function instead of keeping it)"
        )
    return type(top).process(main, primitive, inputs, params)


def apply_traced(primitive: Any, inputs: tuple[Tensor, ...], params: Any) -> Any:
    """What the dispatcher calls where an input is a tracer."""
    outs = process(primitive, inputs, params)
    if any(x.requires_grad for x in inputs):
        if _kernels.grad_mode():
            _kernels.record(primitive, inputs, params, outs if isinstance(outs, tuple) else (outs,))
        else:
            _kernels.capture_inputs(inputs)
    return outs


def detach_traced(x: Tracer) -> Tracer:
    """The same tracer without history; what `.detach()` of a tracer calls."""
    twin: Tracer = x.like(x.main, *x.lower())
    return twin


def leaf(x: Tensor) -> Tensor:
    """A leaf with x's value; if x requires gradients itself, it is recorded as an alias, so that they reach x too."""
    if x.requires_grad and _kernels.grad_mode():
        from tensor.primitives.registry import row

        return _kernels.apply(row("alias", "tape"), (x,))
    _kernels.capture_inputs((x,))  # a checkpoint around it wants to know of x
    made = x.detach().requires_grad_()
    if _levels.leaves is not None:
        _levels.leaves.append(made)
    return made


@contextmanager
def collected_leaves() -> Iterator[list[Any]]:
    """A list that `leaf` adds to meanwhile: what a gradient inside a checkpoint starts from."""
    made: list[Any] = []
    before = _levels.leaves
    _levels.leaves = made
    try:
        yield made
    finally:
        _levels.leaves = before


def underlying(tensors: Sequence[Any]) -> bool:
    """Whether a tape follows one of the tensors, or what lies below them if they are tracers."""
    for x in tensors:
        if not isinstance(x, _kernels.Tensor):
            continue
        if x.requires_grad or (isinstance(x, Tracer) and underlying(x.lower())):
            return True
    return False
