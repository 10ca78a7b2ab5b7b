"""Checked mode: the first NaN is an error that says where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tensor import _kernels
from tensor.errors import AnomalyError
from tensor.primitives.spec import Spec, name_of

__all__ = ["checked"]

Tensor = Any


class _Context:
    __slots__ = ("names", "step")

    def __init__(self, step: int | None, names: Mapping[str, Tensor] | None) -> None:
        self.step = step
        self.names = {id(x): name for name, x in (names or {}).items()}

    def tensor(self, x: Tensor) -> str:
        name = self.names.get(id(x))
        what = repr(Spec(x.shape, x.dtype))
        return what if name is None else f"{name!r} {what}"

    @property
    def suffix(self) -> str:
        return "" if self.step is None else f" (step {self.step})"


_context: ContextVar[_Context | None] = ContextVar("tensor.checked", default=None)


@contextmanager
def checked(*, step: int | None = None, names: Mapping[str, Tensor] | None = None) -> Iterator[None]:
    """A block in which operations look at what they get and give; slower, for finding where a result went wrong.

    Raises AnomalyError for the first result that holds NaN and for the first gradient that holds NaN or inf; the text
    names the operation, the tensor (by its name, if `names` has it), the index, and the step if it is given.
    Also raised: ZeroDivisionError for // and % of ints by 0, ValueError for shifts by a negative number,
    EmptyReductionError for the mean of nothing, ReadOnlyError for changes in place of a storage that others look at.

    >>> import tensor as tn
    >>> with tn.checked(step=7):
    ...     tn.log(tn.asarray([1.0, -1.0]))
    Traceback (most recent call last):
        ...
    tensor.errors.AnomalyError: log: the result float32[2] is nan at (1,) (step 7)
    """
    token = _context.set(_Context(step, names))
    before = _kernels.set_checked_mode(True)
    try:
        yield
    finally:
        _kernels.set_checked_mode(before)
        _context.reset(token)


@contextmanager
def _unchecked() -> Iterator[_Context]:
    before = _kernels.set_checked_mode(False)
    grad = _kernels.set_grad_mode(False)
    try:
        yield _context.get() or _Context(None, None)
    finally:
        _kernels.set_grad_mode(grad)
        _kernels.set_checked_mode(before)


def first_true(flags: Tensor) -> tuple[int, ...] | None:
    """The index of the first True in row-major order, None if there is none."""
    values = flags.reshape((-1,)).tolist()
    if True not in values:
        return None
    at = values.index(True)
    index: list[int] = []
    for n in reversed(flags.shape):
        index.append(at % n)
        at //= n
    return tuple(reversed(index))


def first_bad(x: Tensor, *, infinite: bool = False) -> tuple[str, tuple[int, ...]] | None:
    """('nan', index) of the first NaN in row-major order, with `infinite` also ('inf', index); None if all is well."""
    if x.is_traced or not name_of(x.dtype).startswith(("float", "bfloat", "complex")) or x.size == 0:
        return None  # what a tracer stands for is looked at one level down
    from tensor.functions.comparison import isfinite, isnan, logical_not

    position = first_true(logical_not(isfinite(x)) if infinite else isnan(x))
    if position is None:
        return None
    kind = "nan" if not infinite or isnan(x[position]).item() else "inf"
    return kind, position


def before_call(primitive: Any, inputs: Sequence[Tensor], params: Any) -> None:
    """What the dispatcher calls in checked mode before it runs a row."""
    check = getattr(primitive, "check", None)
    if check is not None and not any(x.is_traced for x in inputs):
        with _unchecked():
            check(inputs, params)


def after_call(primitive: Any, inputs: Sequence[Tensor], outs: Any) -> None:
    """What the dispatcher calls in checked mode when a row has run: NaN in a result is an error."""
    if getattr(primitive, "view", None) is not None or getattr(primitive, "category", "") == "structural":
        return
    with _unchecked() as context:
        results = outs if isinstance(outs, tuple) else (outs,)
        for k, out in enumerate(results):
            found = first_bad(out)
            if found is None:
                continue
            which = "the result" if len(results) == 1 else f"result {k}"
            before = ""
            for i, x in enumerate(inputs):
                if first_bad(x) is not None:
                    before = f"; input {i}, {context.tensor(x)}, holds nan already"
                    break
            what = repr(Spec(out.shape, out.dtype))
            raise AnomalyError(f"{primitive.name}: {which} {what} is nan at {found[1]}{before}{context.suffix}")


def check_gradients(node: Any, results: Sequence[Tensor | None]) -> None:
    """NaN or inf in a gradient is an error that names the operation whose derivative made it."""
    with _unchecked() as context:
        for i, (g, x, edge) in enumerate(zip(results, node.inputs, node.edges, strict=True)):
            found = None if g is None else first_bad(g, infinite=True)
            if found is not None:
                named = context.tensor(x if edge is None or type(edge) is tuple else edge)
                raise AnomalyError(
                    f"backward of {node.primitive.name}: the gradient of input {i}, {named}, is {found[0]} "
                    f"at {found[1]}{context.suffix}"
                )
