"""Elementary functions on arrays, with the same bits on every machine and for every number of threads.

Each function takes any buffer or DLPack array of any shape and strides (`f(x)[i]` depends on `x[i]` only) and returns a
new C-contiguous numpy array, or writes into `out`. NaN comes out as the canonical quiet NaN. Errors: at most 1 ulp;
`docs/accuracy.md` has what was measured.

`out` must be writable, of the same type and shape. It may be the input itself or overlap it: the result is as if the input
had been copied first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensor import _kernels, memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    F32 = NDArray[np.float32]
    Float = NDArray[Any]  # float32 or float64 of any shape

__all__ = ["cos", "erf", "exp", "log", "pow", "sin", "sqrt", "tanh"]


def exp(x: Any, out: Any = None) -> Float:
    """e^x, elementwise; x: float32 or float64 of any shape.

    Raises TypeError for another type or a read-only `out`, ValueError for another shape of `out`.

    >>> import numpy as np
    >>> exp(np.array([0, 1, 89], np.float32))
    array([1.       , 2.7182817,       inf], dtype=float32)
    """
    return _unary("exp", x, out, both=True)


def log(x: Any, out: Any = None) -> Float:
    """Natural logarithm, elementwise; −inf at ±0, NaN below. x: float32 or float64 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> log(np.array([1, 10, 0], np.float32))
    array([0.       , 2.3025851,      -inf], dtype=float32)
    """
    return _unary("log", x, out, both=True)


def sqrt(x: Any, out: Any = None) -> Float:
    """Square root, correctly rounded; NaN below −0. x: float32 or float64 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> sqrt(np.array([4, -0.0], np.float32))
    array([ 2., -0.], dtype=float32)
    """
    return _unary("sqrt", x, out, both=True)


def sin(x: Any, out: Any = None) -> F32:
    """Sine of x radians, with full range reduction. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> sin(np.array([0.5, 1e10], np.float32))
    array([ 0.47942555, -0.48750603], dtype=float32)
    """
    return _unary("sin", x, out)


def cos(x: Any, out: Any = None) -> F32:
    """Cosine of x radians, with full range reduction. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> cos(np.array([0, 0.5], np.float32))
    array([1.       , 0.8775826], dtype=float32)
    """
    return _unary("cos", x, out)


def tanh(x: Any, out: Any = None) -> F32:
    """Hyperbolic tangent. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> tanh(np.array([0.5, 20], np.float32))
    array([0.46211717, 1.        ], dtype=float32)
    """
    return _unary("tanh", x, out)


def erf(x: Any, out: Any = None) -> F32:
    """Error function. x: float32 of any shape. Raises as `exp`.

    >>> import numpy as np
    >>> erf(np.array([0.5, -20], np.float32))
    array([ 0.5204999, -1.       ], dtype=float32)
    """
    return _unary("erf", x, out)


def pow(x: Any, y: Any, out: Any = None) -> F32:
    """x to the power y, elementwise, with the special cases of C99 annex F.9.4.4.

    x: float32 of any shape; y: float32 of the same shape or 0-d, or a Python number, which takes x's type
    (OverflowError if it does not fit). Raises as `exp`, and ValueError if the shapes differ.

    >>> import numpy as np
    >>> pow(np.array([2, -8, 0], np.float32), np.array([10, 1 / 3, 0], np.float32))
    array([1024.,   nan,    1.], dtype=float32)
    >>> pow(np.array([2, 3], np.float32), 2)
    array([4., 9.], dtype=float32)
    """
    import numpy as np

    from tensor import arrays

    function = "elementary.pow"
    a = arrays.array_of(x, function, "x", (np.float32,))
    b = _exponent(y) if isinstance(y, (int, float)) else arrays.array_of(y, function, "y", (np.float32,))
    if b.ndim != 0 and b.shape != a.shape:
        raise ValueError(
            f"{function}: y must have the shape of x or be one number, "
            f"got x {arrays.describe(a)} and y {arrays.describe(b)}"
        )

    def call(source: F32, power: F32, target: F32) -> None:
        if _kernels.isa() == "ref":
            from tensor import elementary_ref

            target[...] = elementary_ref.pow_f32(source, np.broadcast_to(power, source.shape))
        else:
            _kernels.pow_f32(source.reshape(-1), power.reshape(-1), target.reshape(-1))

    return _apply(function, call, (a, b), out)


def _exponent(y: float) -> F32:
    import numpy as np

    if isinstance(y, bool):
        raise TypeError("elementary.pow: y must be float32 or a number, got bool")
    try:
        with np.errstate(over="ignore"):
            value = np.float32(y)
    except OverflowError:
        value = np.float32(np.inf)
    if np.isinf(value) and y not in (float("inf"), float("-inf")):
        raise OverflowError(f"elementary.pow: y = {y} does not fit into float32")
    return np.asarray(value)


def _unary(name: str, x: Any, out: Any, *, both: bool = False) -> Float:
    import numpy as np

    from tensor import arrays

    a = arrays.array_of(x, f"elementary.{name}", "x", (np.float32, np.float64) if both else (np.float32,))
    kernel = f"{name}_f{8 * a.dtype.itemsize}"

    def call(source: Float, target: Float) -> None:
        if _kernels.isa() == "ref":
            from tensor import elementary_ref

            target[...] = getattr(elementary_ref, kernel)(source)
        else:
            getattr(_kernels, kernel)(source.reshape(-1), target.reshape(-1))

    return _apply(f"elementary.{name}", call, (a,), out)


def _apply(function: str, call: Callable[..., None], inputs: tuple[Float, ...], out: Any) -> Float:
    """Runs call(*inputs, target) on plain arrays, and brings the result to where `out` wants it."""
    from tensor import arrays

    sources = [arrays.contiguous(a, function) for a in inputs]
    first = sources[0]
    if out is None:
        result = memory.allocate(first.shape, first.dtype, function)
        call(*sources, result)
        return result
    target = arrays.writable_array_of(out, function, first)
    if arrays.is_plain(target) and all(_same_or_apart(s, target) for s in sources):
        call(*sources, target)
    else:
        result = memory.allocate(first.shape, first.dtype, f"{function} result before it is copied to out,")
        call(*sources, result)
        target[...] = result
    return target


def _same_or_apart(source: Float, target: Float) -> bool:
    """True if a kernel that reads and writes element by element may use both."""
    import numpy as np

    if source.shape == target.shape and source.ctypes.data == target.ctypes.data:
        return True
    return not np.may_share_memory(source, target)
