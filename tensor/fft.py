"""Discrete Fourier transforms: the array API's extension `fft`, for every length, with one result on every machine.

Computed in float64 and rounded once to the type of the input. docs/accuracy.md has the measured errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Literal

from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.primitives import rules
from tensor.primitives.spectral import FFT, IRFFT, RFFT

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Tensor = Any
Norm = Literal["backward", "ortho", "forward"]

_FORWARD = {"backward": 0, "forward": 1, "ortho": 2}
_INVERSE = {"backward": 1, "forward": 0, "ortho": 2}
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}


# --- one axis --------------------------------------------------------------------------------------------------------


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Σ x[j]·exp(−2πi·j·k/n) over j along the axis, which is cut or filled with zeros to n elements.

    norm: "forward" divides by n, "ortho" by √n. Complex result; a float32 input counts as complex64. Raises DtypeError
    for integers, AxisError, ShapeError for n < 1, ValueError for another norm.

    >>> import tensor as tn
    >>> tn.fft.fft(tn.asarray([1.0, 2, 3, 4])).tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return _along("fft", x, n, axis, lambda y: _complex(y, False, _divisor("fft", norm, _FORWARD)))


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `fft`: Σ x[j]·exp(+2πi·j·k/n), divided by n unless norm says otherwise.

    >>> import tensor as tn
    >>> tn.fft.ifft(tn.asarray([4.0, 0, 0, 0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _along("ifft", x, n, axis, lambda y: _complex(y, True, _divisor("ifft", norm, _INVERSE)))


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The first n div 2 + 1 numbers of `fft` of real numbers; the others are their conjugates.

    >>> import tensor as tn
    >>> tn.fft.rfft(tn.asarray([1.0, 2, 3, 4])).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    _real("rfft", x)
    divide = _divisor("rfft", norm, _FORWARD)
    return _along("rfft", x, n, axis, lambda y: rules.apply(RFFT, (y,), {"divide": divide}))


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2·(m − 1) for m along the axis unless n is given.

    The imaginary part of the first number, and for even n of the last, is taken for 0.

    >>> import tensor as tn
    >>> tn.fft.irfft(tn.asarray([10 + 0j, -2 + 2j, -2 + 0j])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return _to_real("irfft", x, n, axis, _divisor("irfft", norm, _INVERSE))


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform, which is real, of numbers whose second half are the conjugates of the first.

    >>> import tensor as tn
    >>> tn.fft.hfft(tn.asarray([1 + 0j, 2, 3])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    from tensor.functions.elementwise import conj

    divide = _divisor("hfft", norm, _FORWARD)
    return _to_real("hfft", conj(_as_complex("hfft", x)), n, axis, divide)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `hfft`: the first n div 2 + 1 numbers.

    >>> import tensor as tn
    >>> tn.fft.ihfft(tn.asarray([8.0, -2, 0, -2])).tolist()
    [(1-0j), (2-0j), (3-0j)]
    """
    from tensor.functions.elementwise import conj

    if norm not in _SWAPPED:
        raise ValueError(f"ihfft: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return conj(rfft(x, n=n, axis=axis, norm=_SWAPPED[norm]))  # type: ignore[arg-type]


# --- several axes ----------------------------------------------------------------------------------------------------


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """`fft` along each of the axes (all of them, or the last len(s), if none are named).

    >>> import tensor as tn
    >>> tn.fft.fftn(tn.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _several("fftn", _as_complex("fftn", x), s, axes, norm, fft)


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """`ifft` along each of the axes (all of them, or the last len(s), if none are named)."""
    return _several("ifftn", _as_complex("ifftn", x), s, axes, norm, ifft)


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """`rfft` along the last of the axes, then `fft` along the others.

    >>> import tensor as tn
    >>> tn.fft.rfftn(tn.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    sizes, order = _sizes_and_axes("rfftn", x, s, axes)
    y = rfft(x, n=sizes[-1], axis=order[-1], norm=norm)
    for n, axis in zip(sizes[:-1], order[:-1], strict=True):
        y = fft(y, n=n, axis=axis, norm=norm)
    return y


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfftn`: `ifft` along all of the axes but the last, then `irfft` along that one.

    >>> import tensor as tn
    >>> tn.fft.irfftn(tn.fft.rfftn(tn.ones((2, 4)))).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    y = _as_complex("irfftn", x)
    sizes, order = _sizes_and_axes("irfftn", y, s, axes)
    for n, axis in zip(sizes[:-1], order[:-1], strict=True):
        y = ifft(y, n=n, axis=axis, norm=norm)
    return irfft(y, n=sizes[-1] if s is not None else None, axis=order[-1], norm=norm)


# --- frequencies and shifts ------------------------------------------------------------------------------------------


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`'s numbers, in cycles a unit, for samples d units apart: 0, 1, … −1, divided by n·d.

    >>> import tensor as tn
    >>> tn.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    n = _length("fftfreq", n)
    return _frequencies("fftfreq", n, ((0, (n + 1) // 2), (-(n // 2), 0)), d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`'s numbers: 0, 1, … n div 2, divided by n·d.

    >>> import tensor as tn
    >>> tn.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    n = _length("rfftfreq", n)
    return _frequencies("rfftfreq", n, ((0, n // 2 + 1),), d, dtype, device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 moved to the middle of the axes (all of them if none are named).

    >>> import tensor as tn
    >>> tn.fft.fftshift(tn.arange(5)).tolist()
    [3, 4, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> import tensor as tn
    >>> tn.fft.ifftshift(tn.asarray([3, 4, 0, 1, 2])).tolist()
    [0, 1, 2, 3, 4]
    """
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))


# --- parts -----------------------------------------------------------------------------------------------------------


def _divisor(name: str, norm: str, table: dict[str, int]) -> int:
    if not isinstance(norm, str) or norm not in table:
        raise ValueError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return table[norm]


def _tensor(name: str, x: Any) -> None:
    if not isinstance(x, _kernels.Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__} (hint: asarray)")


def _real(name: str, x: Tensor) -> None:
    _tensor(name, x)
    if x.dtype.name not in _COMPLEX_OF:
        raise DtypeError(f"{name}: expected float32 or float64, got {x.dtype.name} (hint: astype)")


def _as_complex(name: str, x: Tensor) -> Tensor:
    """x, floats as complex numbers."""
    _tensor(name, x)
    if x.dtype.name in _COMPLEX_OF.values():
        return x
    if x.dtype.name not in _COMPLEX_OF:
        raise DtypeError(f"{name}: expected float32, float64 or complex numbers, got {x.dtype.name} (hint: astype)")
    from tensor.functions.promotion import cast_to

    return cast_to(x, _COMPLEX_OF[x.dtype.name])


def _complex(y: Tensor, inverse: bool, divide: int) -> Tensor:
    x = _as_complex("ifft" if inverse else "fft", y)
    return rules.apply(FFT, (x,), {"inverse": inverse, "divide": divide})


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise AxisError(f"{name}: axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def _along(name: str, x: Tensor, n: int | None, axis: int, run: Any) -> Tensor:
    """run on the last dimension, to which the axis is moved, cut or filled to n elements, and from there back."""
    _tensor(name, x)
    at = _axis(name, axis, x.ndim)
    y = _resized(name, x, at, n)
    if at == x.ndim - 1:
        return run(y)
    order = [d for d in range(x.ndim) if d != at]
    back = [*range(at), x.ndim - 1, *range(at, x.ndim - 1)]
    return run(y.permute((*order, at))).permute(tuple(back))


def _resized(name: str, x: Tensor, axis: int, n: int | None) -> Tensor:
    have = x.shape[axis]
    if n is None or _length(name, n) == have:
        return x
    if n < have:
        return x[(*(slice(None),) * axis, slice(0, n))]
    from tensor.functions.manipulation import pad

    return pad(x, tuple((0, n - have if d == axis else 0) for d in range(x.ndim)))


def _to_real(name: str, x: Tensor, n: int | None, axis: int, divide: int) -> Tensor:
    y = _as_complex(name, x)
    at = _axis(name, axis, y.ndim)
    count = _length(name, 2 * (y.shape[at] - 1) if n is None else n)
    return _along(name, y, count // 2 + 1, at, lambda z: rules.apply(IRFFT, (z,), {"n": count, "divide": divide}))


def _sizes_and_axes(
    name: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> tuple[list[int | None], list[int]]:
    _tensor(name, x)
    if axes is None:
        order = list(range(x.ndim - (x.ndim if s is None else len(s)), x.ndim))
        if any(a < 0 for a in order):
            raise AxisError(f"{name}: {len(s or ())} sizes for {x.ndim} dimensions")
    else:
        order = [_axis(name, a, x.ndim) for a in axes]
    if not order:
        raise AxisError(f"{name}: needs at least one axis")
    sizes: list[int | None] = [None] * len(order) if s is None else list(s)
    if len(sizes) != len(order):
        raise AxisError(f"{name}: {len(sizes)} sizes for {len(order)} axes")
    return sizes, order


def _several(name: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, norm: Norm, one: Any) -> Tensor:
    for n, axis in zip(*_sizes_and_axes(name, x, s, axes), strict=True):
        x = one(x, n=n, axis=axis, norm=norm)
    return x


def _length(name: str, n: Any) -> int:
    """n as an int from 1 up."""
    try:
        count = index(n)
    except TypeError:
        raise TypeError(f"{name}: n must be an int, got {type(n).__name__}") from None
    if count < 1:
        raise ShapeError(f"{name}: n must be at least 1, got {count}")
    return count


def _frequencies(name: str, n: int, ranges: Sequence[tuple[int, int]], d: float, dtype: Any, device: Any) -> Tensor:
    from tensor.float_mode import plain_mode
    from tensor.functions.creation import arange
    from tensor.functions.dtypes import dtype_of
    from tensor.functions.manipulation import concat
    from tensor.functions.promotion import cast_to

    wanted = dtype_of("float32" if dtype is None else dtype)
    if wanted.name not in ("float16", "bfloat16", "float32", "float64"):
        raise DtypeError(f"{name}: {wanted.name} cannot hold frequencies")
    with plain_mode():
        width = n * float(d)
    parts = [arange(start, stop, dtype="int64", device=device) for start, stop in ranges]
    return cast_to(cast_to(concat(parts, axis=0), "float64") / width, wanted)


def _shifted(name: str, x: Tensor, axes: int | Sequence[int] | None, by: Any) -> Tensor:
    from tensor.functions.manipulation import roll

    _tensor(name, x)
    given = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    order = [_axis(name, a, x.ndim) for a in given]
    if not order:
        return x.clone()
    return roll(x, tuple(by(x.shape[a]) for a in order), axis=tuple(order))
