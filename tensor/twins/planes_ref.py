"""Float64 arithmetic of the linear algebra twins, one code for real and complex: a complex array is two planes.

Twin of tensor/kernels/linalg_planes.hpp. Products are chains of fused multiply-adds, parts in the order written here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import reduction_ref
from tensor.fma_ref import fma_f64

F64 = NDArray[np.float64]


def fma(a: Any, b: Any, c: Any) -> F64:
    return np.asarray(fma_f64(np.float64(a), np.float64(b), np.float64(c)))


class Planes:
    """An array of numbers: `re`, and `im`, which is None where they are real. Slices are views."""

    def __init__(self, re: Any, im: Any = None) -> None:
        self.re = re
        self.im = im

    @classmethod
    def of(cls, x: NDArray[Any]) -> Planes:
        if x.dtype.kind == "c":
            return cls(x.real.astype(np.float64), x.imag.astype(np.float64))
        return cls(x.astype(np.float64))

    @classmethod
    def zeros(cls, shape: tuple[int, ...], like: Planes) -> Planes:
        return cls(np.zeros(shape), None if like.im is None else np.zeros(shape))

    def as_type(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """One rounding to dtype a part, NaN canonical."""
        out = np.empty(self.re.shape, dtype)
        part = out.view(out.real.dtype) if self.im is None else None
        with np.errstate(all="ignore"):
            if part is not None:
                out[...] = self.re
                out[np.isnan(out)] = np.nan
            else:
                out.real, out.imag = self.re, self.im
                out.real[np.isnan(out.real)] = np.nan
                out.imag[np.isnan(out.imag)] = np.nan
        return out

    def __getitem__(self, at: Any) -> Planes:
        return Planes(self.re[at], None if self.im is None else self.im[at])

    def __setitem__(self, at: Any, value: Planes) -> None:
        self.re[at] = value.re
        if self.im is not None:
            self.im[at] = value.im

    def conj(self) -> Planes:
        return self if self.im is None else Planes(self.re, -self.im)

    @property
    def adjoint(self) -> Planes:
        """The conjugate transpose of a matrix."""
        return Planes(self.re.T, None if self.im is None else -self.im.T)

    def copy(self) -> Planes:
        return Planes(self.re.copy(), None if self.im is None else self.im.copy())

    def scaled(self, factor: Any) -> Planes:
        """Every part times a real number."""
        return Planes(self.re * factor, None if self.im is None else self.im * factor)

    def divided(self, divisor: Any) -> Planes:
        """Every part divided by a real number."""
        return Planes(self.re / divisor, None if self.im is None else self.im / divisor)


def minus_product(c: Planes, a: Planes, b: Planes) -> Planes:
    """c − a·b, broadcast."""
    re = fma(-a.re, b.re, c.re)
    if c.im is None:
        return Planes(re)
    assert a.im is not None and b.im is not None
    return Planes(fma(a.im, b.im, re), fma(-a.im, b.re, fma(-a.re, b.im, c.im)))


def plus_product(c: Planes, a: Planes, b: Planes) -> Planes:
    """c + a·b, broadcast."""
    re = fma(a.re, b.re, c.re)
    if c.im is None:
        return Planes(re)
    assert a.im is not None and b.im is not None
    return Planes(fma(-a.im, b.im, re), fma(a.im, b.re, fma(a.re, b.im, c.im)))


def product(a: Planes, b: Planes) -> Planes:
    if a.im is None or b.im is None:
        return Planes(a.re * b.re)
    return Planes(fma(a.re, b.re, -(a.im * b.im)), fma(a.re, b.im, a.im * b.re))


def power_of_2(x: Any) -> float:
    """2^−e for the exponent e of |x|, so that |x|·2^−e is in [1, 2); 1 for 0, infinity and NaN; e at most ±1022."""
    exponent = (int(np.float64(x).view(np.uint64)) >> 52) & 2047
    if exponent == 2047 or x == 0:
        return 1.0
    return float(np.uint64(min(max(2046 - exponent, 1), 2045) << 52).view(np.float64))


def quotient(a: Planes, p: Planes) -> Planes:
    """a / p for one number p. Complex: a·conj(p)/|p|², with p scaled by a power of two."""
    if a.im is None or p.im is None:
        return Planes(a.re / p.re)
    scale = power_of_2(np.maximum(np.abs(p.re), np.abs(p.im)))
    pr, pi = p.re * scale, p.im * scale
    size = fma(pr, pr, pi * pi)
    re, im = fma(a.re, pr, a.im * pi), fma(a.im, pr, -(a.re * pi))
    return Planes(re / size * scale, im / size * scale)


def dot(x: Planes, y: Planes) -> tuple[float, float]:
    """The sum of x·conj(y) in the fixed order of tensor.reduction.dot: real and imaginary part."""
    re = float(reduction_ref.dot(x.re, y.re))
    if x.im is None or y.im is None:
        return re, 0.0
    im = float(reduction_ref.dot(x.im, y.re)) - float(reduction_ref.dot(x.re, y.im))
    return re + float(reduction_ref.dot(x.im, y.im)), im


def norm_squared(x: Planes) -> float:
    """The sum of |x|² in the fixed order."""
    re = float(reduction_ref.dot(x.re, x.re))
    return re if x.im is None else re + float(reduction_ref.dot(x.im, x.im))


def largest(x: Planes) -> float:
    """The largest |part|; NaN parts do not count, infinity does."""
    parts = [np.abs(x.re)] if x.im is None else [np.abs(x.re), np.abs(x.im)]
    return max((float(np.fmax.reduce(part, axis=None, initial=0.0)) for part in parts), default=0.0)
