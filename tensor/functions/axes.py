"""How functions that reduce reach their rows: axes counted from the front, checks of the operand, the call."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import AxisError, DtypeError
from tensor.primitives import registry

__all__ = ["all_axes", "one_axis", "reduced", "rows_of", "run"]

Tensor = Any
Axis = Any  # int, tuple of ints or None

_Tensor = _kernels.Tensor
_rows = registry.REGISTRY


def tensor_of(name: str, x: Any) -> Tensor:
    """x, if it is a Tensor; TypeError otherwise."""
    if not isinstance(x, _Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__} (hint: asarray)")
    return x


def one_axis(name: str, axis: Any, ndim: int) -> int:
    """The axis counted from the front. AxisError where there is no such dimension, TypeError if it is no int.

    >>> one_axis("sort", -1, 3)
    2
    """
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"{name}: axis must be an int, got {type(axis).__name__}")
    at = axis.__index__()
    if not -ndim <= at < ndim:
        raise AxisError(f"{name}: axis {at} is out of range for {ndim} dimensions")
    return int(at % ndim)


def all_axes(name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, ascending, each once; None stands for all.

    >>> all_axes("sum", None, 2), all_axes("sum", (-1, 0), 3)
    ((0, 1), (0, 2))
    """
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, (tuple, list)):
        return (one_axis(name, axis, ndim),)
    axes = tuple(sorted(one_axis(name, a, ndim) for a in axis))
    if len(set(axes)) < len(axes):
        raise AxisError(f"{name}: an axis is named twice in {tuple(axis)}")
    return axes


def run(name: str, family: str, inputs: tuple[Tensor, ...], params: dict[str, Any] | None) -> Any:
    """Runs the row of that name."""
    found = _rows.get(name)
    return _kernels.apply(registry.row(name, family) if found is None else found, inputs, params)


def reduced(name: str, x: Tensor, axis: Axis, keepdims: bool, **more: Any) -> Tensor:
    """The reduction of that name over axes."""
    params = {"axis": all_axes(name, axis, tensor_of(name, x).ndim), "keepdims": bool(keepdims), **more}
    return run(name, "reductions", (x,), params)


def rows_of(name: str, x: Tensor, kinds: tuple[str, ...], hint: str) -> Tensor:
    """x, if its dtype is of one of these kinds; DtypeError otherwise."""
    if tensor_of(name, x).dtype.kind not in kinds:
        raise DtypeError(f"{name}: {x.dtype.name} is not computed with (hint: {hint})")
    return x
