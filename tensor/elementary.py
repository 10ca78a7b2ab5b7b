"""Elementary functions on arrays, with the same bits on every machine and for every number of threads.

Each function takes any buffer or DLPack array of any shape and strides (`f(x)[i]` depends on `x[i]` only) and returns a
new C-contiguous numpy array, or writes into `out`. NaN comes out as the canonical quiet NaN. Errors: at most 1 ulp;
`docs/accuracy.md` has what was measured.

`out` must be writable, of the same type and shape. It may be the input itself or overlap it: the result is as if the
input had been copied first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import _kernels, elementary_ref, memory
from tensor.arrays import FLOATS, REFERENCE, as_floats, checked_out, contiguous, describe
from tensor.errors import DtypeError, ShapeError
from tensor.float_mode import plain_mode

F32 = NDArray[np.float32]
Float = NDArray[Any]  # float32 or float64 of any shape
Kernel = Callable[..., None]  # kernel(*inputs, out), all flat, contiguous and aligned
FLOAT32 = (np.dtype(np.float32),)

__all__ = ["cos", "erf", "exp", "log", "pow", "sin", "sqrt", "tanh"]


def exp(x: Any, out: Any = None) -> Float:
    """e^x, elementwise; x: float32 or float64 of any shape.

    Raises DtypeError for another type, ShapeError and ReadOnlyError for an `out` that does not fit.

    >>> import numpy as np
    >>> exp(np.array([0, 1, 89], np.float32))
    array([1.       , 2.7182817,       inf], dtype=float32)
    """
    return _unary("exp", x, out, FLOATS)


def log(x: Any, out: Any = None) -> Float:
    """Natural logarithm, elementwise; −inf at ±0, NaN below. x: float32 or float64 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> log(np.array([1, 10, 0], np.float32))
    array([0.       , 2.3025851,      -inf], dtype=float32)
    """
    return _unary("log", x, out, FLOATS)


def sqrt(x: Any, out: Any = None) -> Float:
    """Square root, correctly rounded; NaN below −0. x: float32 or float64 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> sqrt(np.array([4, -0.0], np.float32))
    array([ 2., -0.], dtype=float32)
    """
    return _unary("sqrt", x, out, FLOATS)


def sin(x: Any, out: Any = None) -> F32:
    """Sine of x radians, with full range reduction. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> sin(np.array([0.5, 1e10], np.float32))
    array([ 0.47942555, -0.48750603], dtype=float32)
    """
    return _unary("sin", x, out, FLOAT32)


def cos(x: Any, out: Any = None) -> F32:
    """Cosine of x radians, with full range reduction. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> cos(np.array([0, 0.5], np.float32))
    array([1.        , 0.87758255], dtype=float32)
    """
    return _unary("cos", x, out, FLOAT32)


def tanh(x: Any, out: Any = None) -> F32:
    """Hyperbolic tangent. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> tanh(np.array([0.5, 20], np.float32))
    array([0.46211717, 1.        ], dtype=float32)
    """
    return _unary("tanh", x, out, FLOAT32)


def erf(x: Any, out: Any = None) -> F32:
    """Error function. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> erf(np.array([0.5, -20], np.float32))
    array([ 0.5204999, -1.       ], dtype=float32)
    """
    return _unary("erf", x, out, FLOAT32)


def pow(x: Any, y: Any, out: Any = None) -> F32:
    """x to the power y, elementwise, with the special cases of C99 annex F.9.4.4.

    x: float32 of any shape; y: float32 of the same shape or 0-d, or a Python number, which takes x's type
    (OverflowError if it does not fit). Raises as `exp`, and ShapeError if the shapes differ.

    >>> import numpy as np
    >>> pow(np.array([2, -8, 0], np.float32), np.array([3, 1 / 3, 0], np.float32))
    array([ 8., nan,  1.], dtype=float32)
    >>> pow(np.array([2, 3], np.float32), 2)
    array([4., 9.], dtype=float32)
    """
    function = "elementary.pow"
    a = as_floats(x, function, "x", FLOAT32)
    b = _exponent(y) if isinstance(y, (int, float)) else as_floats(y, function, "y", FLOAT32)
    if b.ndim != 0 and b.shape != a.shape:
        raise ShapeError(
            f"{function}: y must have the shape of x or be one number, got x = {describe(a)} and y = {describe(b)}"
        )
    return _apply(function, _POW, (a, b), out)


def _exponent(y: float) -> F32:
    if isinstance(y, bool):
        raise DtypeError("elementary.pow: y must be float32 or a number, got bool")
    with plain_mode(), np.errstate(over="ignore"):
        value = np.float32(np.inf) if 1e39 < abs(y) < math.inf else np.float32(y)
    if np.isinf(value) and abs(y) < math.inf:
        raise OverflowError(f"elementary.pow: y = {y} does not fit into float32")
    return np.asarray(value)


def _kernel(name: str) -> Kernel:
    """The kernel of that name, or under DROVEWAY_ISA=ref its twin with the kernel's arguments."""
    if not REFERENCE:
        kernel: Kernel = getattr(_kernels, name)
        return kernel
    twin = getattr(elementary_ref, name)

    def run(*arrays: Float) -> None:
        *inputs, out = arrays
        with plain_mode():
            out[...] = twin(*(np.broadcast_to(x, out.shape) for x in inputs))

    return run


_UNARY = {
    name: {dtype: _kernel(f"{name}_f{8 * dtype.itemsize}") for dtype in dtypes}
    for names, dtypes in ((("exp", "log", "sqrt"), FLOATS), (("sin", "cos", "tanh", "erf"), FLOAT32))
    for name in names
}
_POW = _kernel("pow_f32")


def _unary(name: str, x: Any, out: Any, dtypes: Sequence[np.dtype[Any]]) -> Float:
    function = f"elementary.{name}"
    a = as_floats(x, function, "x", dtypes)
    return _apply(function, _UNARY[name][a.dtype], (a,), out)


def _apply(function: str, kernel: Kernel, inputs: tuple[Float, ...], out: Any) -> Float:
    """Runs the kernel on flat contiguous arrays, and brings the result to where `out` wants it."""
    shape, dtype = inputs[0].shape, inputs[0].dtype
    target = None if out is None else checked_out(out, shape, dtype, function)
    flat = [contiguous(a, function).reshape(-1) for a in inputs]
    if target is not None and _is_direct(target, flat):
        kernel(*flat, target.reshape(-1))
        return target
    result = memory.allocate(shape, dtype, function)
    kernel(*flat, result.reshape(-1))
    if target is None:
        return result
    target[...] = result
    return target


def _is_direct(target: Float, sources: list[Float]) -> bool:
    """True if a kernel that reads and writes element by element may write there: each source is apart or the same."""
    if not (target.flags.c_contiguous and target.flags.aligned):
        return False
    return all(
        not np.may_share_memory(source, target)
        or (source.size == target.size and source.ctypes.data == target.ctypes.data)
        for source in sources
    )
