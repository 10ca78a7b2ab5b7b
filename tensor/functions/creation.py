"""Functions that make tensors: of shapes, of numbers and lists, of other libraries' arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.float_mode import plain_mode
from tensor.functions.axes import tensor_of
from tensor.functions.dtypes import dtype_of, isdtype

Tensor = Any
Dtype = Any
Device = Any
Shape = Any  # int | Sequence[int]

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def asarray(
    obj: Any, /, *, dtype: Dtype | None = None, device: Device | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor of a number, nested lists of numbers, or an array of any library that has buffers or DLPack.

    Numbers become bool, int64, float32 or complex64 unless `dtype` says otherwise. An array keeps its type and, unless
    copy=True, shares its memory. Raises DtypeError for what is no array, ShapeError for ragged lists, OverflowError for
    numbers that do not fit, ValueError if copy=False cannot be had.

    >>> asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    return _kernels.asarray(obj, dtype, device, copy)


def converted(x: Tensor, dtype: Dtype | None, device: Device | None) -> Tensor:
    """A tensor in another type, on another device, or both; what `asarray` does with tensors."""
    if device is not None:
        x = x.to_device(device)
    if dtype is None or x.dtype == dtype:
        return x
    from tensor.functions.dtypes import astype

    return astype(x, dtype)


def stack_nested(values: Any) -> Tensor:
    """A tensor of lists whose elements are arrays."""
    from tensor.functions.manipulation import stack
    from tensor.functions.promotion import operands

    parts = [stack_nested(v) if isinstance(v, (list, tuple)) else asarray(v) for v in values]
    return stack(operands("asarray", *parts))


def from_dlpack(x: Any, /, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__`, or a copy of it if copy=True.

    Raises BufferError for memory that is not on the CPU, for types that tensor does not have, and for a capsule that
    was used before.

    >>> import numpy as np
    >>> from_dlpack(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    if isinstance(x, _kernels.Tensor):
        return _kernels.asarray(x, None, device, copy)
    made = _kernels.from_dlpack(x, copy)
    return made if device is None else made.to_device(device)


def empty(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """A tensor whose elements are not set; float32 unless `dtype` says otherwise. ShapeError for impossible sizes.

    >>> empty((2, 0)).shape
    (2, 0)
    """
    return _kernels.empty(shape, "float32" if dtype is None else dtype, device, "empty")


def full(shape: Shape, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """One number everywhere. OverflowError if it does not fit, DtypeError for a type that cannot hold its kind.

    >>> full((2,), 7).tolist()
    [7, 7]
    """
    if isinstance(fill_value, _kernels.Tensor):
        wanted = fill_value.dtype if dtype is None else dtype
        return _kernels.full(shape, fill_value.item(), wanted, device)
    return _kernels.full(shape, fill_value, dtype, device)


def zeros(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Zeros; float32 unless `dtype` says otherwise.

    >>> zeros((2, 2), dtype="int8").tolist()
    [[0, 0], [0, 0]]
    """
    return _kernels.full(shape, 0, "float32" if dtype is None else dtype, device)


def ones(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Ones; float32 unless `dtype` says otherwise.

    >>> ones(3).tolist()
    [1.0, 1.0, 1.0]
    """
    return _kernels.full(shape, 1, "float32" if dtype is None else dtype, device)


def empty_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """A tensor of x's shape whose elements are not set."""
    tensor_of("empty_like", x)
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def zeros_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Zeros of x's shape, and of its type and device unless others are named."""
    tensor_of("zeros_like", x)
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def ones_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Ones of x's shape, and of its type and device unless others are named."""
    tensor_of("ones_like", x)
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """One number everywhere, in x's shape, and in its type and device unless others are named."""
    tensor_of("full_like", x)
    return full(
        x.shape,
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
    )


def _real(what: str, value: Any) -> float:
    """The value as an int or float of Python; TypeError for what is none, ValueError for NaN and infinities."""
    if not isinstance(value, (int, float)):
        if not hasattr(value, "__index__") and not hasattr(value, "__float__"):
            raise TypeError(f"{what} must be a number, got {type(value).__name__}")
        try:
            value = index(value)
        except TypeError:
            value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value}")
    number: float = value
    return number


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Tensor:
    """start, start + step, … as long as they lie before stop; arange(n) counts from 0 to n − 1.

    Element i is start + i·step, computed in float64 (integers: exactly) and rounded once. int64 if all three are ints,
    else float32. ValueError if step is 0 or a number is not finite.

    >>> arange(5).tolist(), arange(1.0, 0.0, -0.25).tolist()
    ([0, 1, 2, 3, 4], [1.0, 0.75, 0.5, 0.25])
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = _real("arange: start", start), _real("arange: stop", stop), _real("arange: step", step)
    if step == 0:
        raise ValueError("arange: step must not be 0")
    whole = all(isinstance(v, int) for v in (start, stop, step))
    wanted = dtype_of(("int64" if whole else "float32") if dtype is None else dtype)
    with plain_mode():
        if whole:
            count = max(0, -((int(start) - int(stop)) // int(step)))
        else:
            steps = (stop - start) / step
            count = max(0, math.ceil(steps)) if math.isfinite(steps) else 2**63
    if count >= 2**63:
        raise ShapeError(f"arange: {start} to {stop} by {step} are more elements than there are addresses")
    if isdtype(wanted, "integral"):
        if not whole:
            if not all(float(v).is_integer() for v in (start, step)):
                raise DtypeError(f"arange: {wanted} cannot hold steps of {step} from {start}")
            start, step = int(start), int(step)
        if count:
            for value in (start, start + (count - 1) * step):
                _kernels.asarray(int(value), wanted)  # OverflowError if it does not fit
    return _kernels.arange(start, step, count, wanted, device)


@plain_mode()
def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    endpoint: bool = True,
) -> Tensor:
    """num numbers at equal distances from start to stop, which is the last one if endpoint is true.

    Computed in float64 and rounded once. float32 (complex64) unless `dtype` says otherwise. ValueError for num < 0.

    >>> linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if num < 0:
        raise ValueError(f"linspace: num must not be negative, got {num}")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wanted = dtype_of(("complex64" if is_complex else "float32") if dtype is None else dtype)
    parts = max(num - 1 if endpoint else num, 1)
    if isdtype(wanted, "complex floating"):
        first, by = complex(start), (complex(stop) - complex(start)) / parts
        values = [first + i * by for i in range(num)]
        if endpoint and num > 1:
            values[-1] = complex(stop)
        return asarray(values, dtype=wanted, device=device) if num else zeros(0, dtype=wanted, device=device)
    if is_complex:
        raise DtypeError(f"linspace: {wanted} cannot hold complex numbers")
    low, high = float(start.real), float(stop.real)
    distance = high - low
    if isdtype(wanted, "real floating") and math.isfinite(distance):
        x = _kernels.arange(low, distance / parts, num, wanted, device)
    else:
        points: list[float] = [low * (1 - i / parts) + high * (i / parts) for i in range(num)]
        if isdtype(wanted, "integral"):
            points = [math.floor(low + i * (distance / parts)) for i in range(num)]
        x = asarray(points, dtype=wanted, device=device) if num else zeros(0, dtype=wanted, device=device)
    if endpoint and num > 1:
        x[-1] = int(high) if isdtype(wanted, "integral") else high
    return x


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Tensor:
    """Ones on diagonal k of a matrix of zeros.

    >>> eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    columns = n_rows if n_cols is None else n_cols
    x = zeros((n_rows, columns), dtype=dtype, device=device)
    first_row, first_column = max(-k, 0), max(k, 0)
    length = min(n_rows - first_row, columns - first_column)
    if length > 0:
        diagonal = _kernels.strided_view(x, first_row * columns + first_column, (length,), (columns + 1,))
        _kernels.assign(diagonal, 1)
    return x


def _below(x: Tensor, k: int, name: str) -> Tensor:
    """Truth where column ≤ row + k, in the shape of x's last two dimensions."""
    if tensor_of(name, x).ndim < 2:
        raise ShapeError(f"{name}: x must have at least two dimensions, got shape {x.shape}")
    rows = arange(k, k + x.shape[-2], device=x.device)
    return rows.reshape((-1, 1)) >= arange(x.shape[-1], device=x.device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on diagonal k and below it, zeros above, for each matrix of the last two dimensions.

    >>> tril(ones((2, 3))).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    from tensor import where

    return where(_below(x, k, "tril"), x, zeros((), dtype=x.dtype, device=x.device))


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on diagonal k and above it, zeros below, for each matrix of the last two dimensions.

    >>> triu(ones((2, 3))).tolist()
    [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    from tensor import where

    return where(_below(x, k - 1, "triu"), zeros((), dtype=x.dtype, device=x.device), x)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid: array i varies along dimension i ("ij"; for "xy" the first two are exchanged). Views.

    >>> [g.tolist() for g in meshgrid(arange(2), arange(3), indexing="ij")]
    [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    for x in arrays:
        if tensor_of("meshgrid", x).ndim > 1:
            raise ShapeError(f"meshgrid: arrays must have one dimension, got shape {x.shape}")
        if x.dtype != arrays[0].dtype:
            raise DtypeError(f"meshgrid: arrays must have one type, got {arrays[0].dtype} and {x.dtype}")
    n = len(arrays)
    order: Sequence[int] = (1, 0, *range(2, n)) if indexing == "xy" and n > 1 else range(n)
    shape = [0] * n
    for i, d in enumerate(order):
        shape[d] = arrays[i].size
    grids = []
    for i, d in enumerate(order):
        own = [1] * n
        own[d] = arrays[i].size
        grids.append(arrays[i].reshape(tuple(own)).expand(tuple(shape)))
    return grids
