"""Methods of Tensor that are written in Python: most are functions of tensor under the same name.

Nothing is loaded before a method is first used: until then a small descriptor stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tensor import _kernels

Tensor = Any

__all__ = ["METHODS", "REDUCTIONS", "install"]

# Functions of tensor that take the tensor first: x.NAME(…) is tensor.NAME(x, …).
_SAME = (
    "acos acosh asin asinh atan atanh ceil clip conj cos cosh digamma erf erfc exp exp2 expm1 floor gelu isfinite "
    "isinf isnan lgamma log log10 log1p log2 logical_not matmul pow reciprocal relu round rsqrt sigmoid sign sin sinh "
    "softplus silu sqrt square tan tanh trunc "
    "argsort chunk diff digest flip gather index_select log_softmax masked_fill moveaxis nonzero repeat roll softmax "
    "sort split take tile top_k tril triu unstack where"
)
# The same, with the axis allowed in the first place: x.sum(0).
_AXIS_FIRST = (
    "all any argmax argmin count_nonzero cumulative_prod cumulative_sum cumsum cumprod logsumexp max mean min norm "
    "prod std var"
)
METHODS = tuple(_SAME.split())
REDUCTIONS = tuple(_AXIS_FIRST.split())


class _Lazy:
    """Stands for a method until it is first asked for; then the method itself takes its place."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name = name
        self.make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        method = self.make()
        setattr(_kernels.Tensor, self.name, method)
        return method if instance is None else getattr(instance, self.name)


def _function(name: str) -> Callable[[], Any]:
    def make() -> Any:
        found = getattr(import_module("tensor"), name)

        def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
            return found(self, *args, **kwargs)

        method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", found.__doc__
        return method

    return make


def _reduction(name: str) -> Callable[[], Any]:
    def make() -> Any:
        found = getattr(import_module("tensor"), name)

        def method(self: Tensor, axis: Any = None, **kwargs: Any) -> Any:
            return found(self, **kwargs) if axis is None else found(self, axis=axis, **kwargs)

        method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", found.__doc__
        return method

    return make


def sum_method(x: Tensor, axis: Any, dtype: Any, keepdims: Any) -> Tensor:
    """What the method sum (kernels/array/sum.cpp) does in all but the usual case."""
    from tensor import sum as function

    return function(x, axis=axis, dtype=dtype, keepdims=keepdims)


def to(self: Tensor, *targets: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Tensor:
    """The tensor in another type, on another device, or both: x.to(tensor.float16), x.to("ref"), x.to(other).

    Itself where nothing changes, unless copy=True. Gradients pass through.
    """
    for target in targets:
        if isinstance(target, _kernels.Tensor):
            dtype, device = target.dtype, target.device
        elif isinstance(target, _kernels.Dtype) or target in {d.name for d in _kernels.DTYPES}:
            dtype = target
        else:
            device = target
    from tensor.functions.creation import converted

    result = converted(self, None if dtype is None else _kernels.Dtype(dtype), device)
    return result.clone() if copy and result is self else result


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device: itself if it is there already, else a copy. Gradients pass through."""
    if stream is not None:
        raise ValueError("to_device: stream must be None: there are no streams on 'cpu' and 'ref'")
    from tensor.device import resolve_device
    from tensor.primitives.registry import row

    wanted = resolve_device(device)
    if self.device == wanted:
        return self
    return _kernels.apply(row("to_device", "moves"), (self,), {"device": str(wanted)})


def astype(self: Tensor, dtype: Any, *, copy: bool = True) -> Tensor:
    """`tensor.astype(x, dtype)`."""
    from tensor.functions.dtypes import astype as function

    return function(self, dtype, copy=copy)


def view(self: Tensor, *shape: Any) -> Tensor:
    """`reshape` that refuses to copy: ValueError where strides allow no view."""
    return self.reshape(*shape, copy=False)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Every element becomes the value; returns the tensor."""
    return self.copy_(value)


def zero_(self: Tensor) -> Tensor:
    """Every element becomes zero; returns the tensor."""
    return self.copy_(0)


def zero_grad(self: Tensor) -> None:
    """Forgets the gradient: `.grad` becomes None."""
    self.grad = None


def formatted(self: Tensor, spec: str) -> str:
    """The text of the only element in this format, `f"{loss:.3f}"`; of any tensor without one.

    >>> import tensor as tn
    >>> f"{tn.asarray(2.5):.2f} {tn.asarray([1])}"
    '2.50 tensor([1], dtype=int64)'
    """
    if not spec:
        return str(self)
    if self.size != 1:
        raise TypeError(f"format: only a tensor of one element is one number, this one has shape {self.shape}")
    return format(self.item(), spec)


def install() -> None:
    """Puts all of them in place; called once, by `import tensor`."""
    makers = {name: _function(name) for name in METHODS} | {name: _reduction(name) for name in REDUCTIONS}
    for name, maker in makers.items():
        setattr(_kernels.Tensor, name, _Lazy(name, maker))
    for method in (to, to_device, astype, view, fill_, zero_, zero_grad):
        setattr(_kernels.Tensor, method.__name__, method)
    _kernels.Tensor.__format__ = formatted
