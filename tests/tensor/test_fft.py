"""tensor.fft: every length, every norm, several axes; close to exact sums, and the same bits however it is asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import AxisError, DtypeError, ShapeError, _kernels, fft
from tensor.twins.twiddles_ref import twiddles

EPSILON = {"complex64": 2.0**-23, "complex128": 2.0**-52}
NORMS = pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
TYPES = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 30, 34, 49, 64, 97, 121, 128, 243, 257, 1000]


def bits(x) -> str:
    return np.ascontiguousarray(x.numpy()).tobytes().hex()


def normal(seed: int, dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def apart(found, expected) -> float:
    """The distance in the 2-norm, relative to what is expected."""
    a, b = np.asarray(found, complex).ravel(), np.asarray(expected, complex).ravel()
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 100, 257, 1024, 3001])
def test_every_root_of_unity_is_the_exact_one_rounded_once(n):
    from mpmath import mp

    re, im = twiddles(n)
    with mp.workprec(200):
        for k in range(n):
            angle = 2 * mp.pi * k / n
            exact = (mp.cos(angle), -mp.sin(angle))
            for found, value in zip((re[k], im[k]), exact, strict=True):
                assert found == (0.0 if abs(value) < 1e-40 else float(value))


@TYPES
@pytest.mark.parametrize("n", LENGTHS)
def test_the_transform_is_close_to_the_exact_sum(dtype, n):
    from mpmath import mp

    x = normal(n, dtype, n)
    chosen = sorted({0, 1 % n, n // 2, n - 1})
    found = fft.fft(tn.asarray(x)).numpy()
    back = fft.ifft(tn.asarray(x)).numpy()
    scale = np.sqrt((np.abs(x.astype(complex)) ** 2).sum())  # what one element is, on average
    with mp.workprec(100):
        roots = [mp.expjpi(mp.mpf(-2 * k) / n) for k in range(n)]
        for k in chosen:
            exact = mp.fsum(mp.mpc(complex(v)) * roots[j * k % n] for j, v in enumerate(x))
            inverse = mp.fsum(mp.mpc(complex(v)) * roots[-j * k % n] for j, v in enumerate(x)) / n
            assert abs(complex(found[k]) - complex(exact)) <= 4 * EPSILON[dtype] * scale
            assert abs(complex(back[k]) - complex(inverse)) <= 4 * EPSILON[dtype] * scale / n


@TYPES
@NORMS
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 70), st.integers(0, 80), st.sampled_from([0, 1, -1]), st.integers(0, 99))
def test_one_axis_agrees_with_numpy(dtype, norm, length, n, axis, seed):
    x = normal(seed, dtype, length, length % 3 + 1) if axis in (0,) else normal(seed, dtype, 2, length)
    size = n or None
    t = tn.asarray(x)
    for ours, theirs in ((fft.fft, np.fft.fft), (fft.ifft, np.fft.ifft)):
        assert apart(ours(t, n=size, axis=axis, norm=norm).numpy(), theirs(x, size, axis, norm)) < 4 * EPSILON[dtype]
    real = tn.asarray(x.real.copy())
    for ours, theirs in ((fft.rfft, np.fft.rfft), (fft.ihfft, np.fft.ihfft)):
        found, expected = ours(real, n=size, axis=axis, norm=norm).numpy(), theirs(x.real, size, axis, norm)
        assert found.shape == expected.shape
        assert apart(found, expected) < 4 * EPSILON[dtype]
    if size or x.shape[axis] > 1:
        for ours, theirs in ((fft.irfft, np.fft.irfft), (fft.hfft, np.fft.hfft)):
            found, expected = ours(t, n=size, axis=axis, norm=norm).numpy(), theirs(x, size, axis, norm)
            assert found.shape == expected.shape
            assert found.dtype == x.real.dtype
            assert apart(found, expected) < 8 * EPSILON[dtype]


@TYPES
@NORMS
def test_several_axes_agree_with_numpy(dtype, norm):
    x = normal(3, dtype, 4, 5, 6)
    t, real = tn.asarray(x), tn.asarray(x.real.copy())
    for s, axes in ((None, None), (None, (0, 2)), ((3, 8), (2, 0)), ((7,), (-2,)), ((2, 9), None)):
        named = (-2, -1) if s is not None and axes is None else axes  # numpy deprecates sizes without axes
        for ours, theirs in ((fft.fftn, np.fft.fftn), (fft.ifftn, np.fft.ifftn), (fft.irfftn, np.fft.irfftn)):
            found, expected = ours(t, s=s, axes=axes, norm=norm).numpy(), theirs(x, s, named, norm)
            assert found.shape == expected.shape, ours.__name__
            assert apart(found, expected) < 8 * EPSILON[dtype], ours.__name__
        found, expected = fft.rfftn(real, s=s, axes=axes, norm=norm).numpy(), np.fft.rfftn(x.real, s, named, norm)
        assert found.shape == expected.shape
        assert apart(found, expected) < 8 * EPSILON[dtype]


@TYPES
@pytest.mark.parametrize("n", [5, 12, 17, 64])
def test_a_row_alone_has_the_bits_of_the_row_in_a_batch_whatever_the_strides(dtype, n):
    x = normal(4, dtype, 19, n)
    for call in (fft.fft, fft.ifft, fft.irfft, lambda t: fft.rfft(tn.real(t))):
        batch = call(tn.asarray(x))
        for row in (0, 7, 8, 18):
            assert bits(call(tn.asarray(x[row]))) == bits(batch[row])
        spread = np.zeros((38, 3 * n), dtype)
        spread[::-2, 2::3] = x
        assert bits(call(tn.asarray(spread)[::-2, 2::3])) == bits(batch)
    assert bits(fft.fft(tn.asarray(x.T.copy()), axis=0).permute((1, 0)).clone()) == bits(fft.fft(tn.asarray(x)))


@TYPES
def test_bits_do_not_depend_on_threads_or_the_hosts_float_mode(dtype, threads, hostile_mode):
    x = tn.asarray(normal(5, dtype, 100, 60) * 1e-38)
    found = set()
    for n in (1, 2, 3, 7):
        threads(n)
        found.add(bits(fft.fft(x)))
    with hostile_mode():
        hostile = fft.fft(x)
    assert {bits(hostile)} == found


def test_long_transforms_come_back():
    x = normal(6, "complex128", 1 << 17)
    assert apart(fft.ifft(fft.fft(tn.asarray(x))).numpy(), x) < 1e-15
    x = normal(6, "complex64", 10007)  # a prime
    assert apart(fft.ifft(fft.fft(tn.asarray(x))).numpy(), x) < 2e-7


@pytest.mark.parametrize("n", range(1, 9))
def test_frequencies_and_shifts_agree_with_numpy(n):
    for d in (1.0, 0.25, -3.0):
        assert np.array_equal(fft.fftfreq(n, d=d, dtype="float64").numpy(), np.fft.fftfreq(n, d))
        assert np.array_equal(fft.rfftfreq(n, d=d, dtype="float64").numpy(), np.fft.rfftfreq(n, d))
    assert fft.fftfreq(n).dtype == tn.float32
    x = np.arange(n * 3).reshape(n, 3)
    for axes in (None, 0, (0, 1), -1):
        assert np.array_equal(fft.fftshift(tn.asarray(x), axes=axes).numpy(), np.fft.fftshift(x, axes))
        assert np.array_equal(fft.ifftshift(tn.asarray(x), axes=axes).numpy(), np.fft.ifftshift(x, axes))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: fft.fft(tn.arange(3)),
            DtypeError,
            "fft: expected float32, float64 or complex numbers, got int64 (hint: astype)",
        ),
        (
            lambda: fft.rfft(tn.asarray([1j])),
            DtypeError,
            "rfft: expected float32 or float64, got complex64 (hint: astype)",
        ),
        (lambda: fft.fft(tn.ones(3), axis=1), AxisError, "fft: axis 1 is out of range for 1 dimensions"),
        (lambda: fft.fft(tn.ones(3), n=0), ShapeError, "fft: n must be at least 1, got 0"),
        (
            lambda: fft.fft(tn.ones(0)),
            ShapeError,
            "fft: the dimension must have at least 1 element, got shape (0,)",
        ),
        (
            lambda: fft.fft(tn.ones(3), norm="none"),
            ValueError,
            "fft: norm must be 'backward', 'ortho' or 'forward', got 'none'",
        ),
        (lambda: fft.irfft(tn.ones(1)), ShapeError, "irfft: n must be at least 1, got 0"),
        (lambda: fft.fftn(tn.ones(3), s=(1, 2)), AxisError, "fftn: 2 sizes for 1 dimensions"),
        (lambda: fft.fftfreq(0), ShapeError, "fftfreq: n must be at least 1, got 0"),
        (lambda: fft.fft([1.0]), TypeError, "fft: expected a Tensor, got list (hint: asarray)"),
    ],
)
def test_what_cannot_be_transformed_is_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


C = np.ones((2, 4), complex)


@pytest.mark.parametrize(
    ("op", "x", "y", "divide"),
    [
        (-1, C, C.copy(), 0),
        (3, C, C.copy(), 0),
        (0, C, C.copy(), 3),
        (0, C, np.ones((2, 5), complex), 0),
        (0, C, np.ones((3, 4), complex), 0),
        (0, C, np.ones((2, 4), np.complex64), 0),
        (0, C, np.ones((2, 4)), 0),
        (0, C, C, 0),
        (0, np.ones((), complex), np.ones((), complex), 0),
        (0, np.ones((2, 0), complex), np.ones((2, 0), complex), 0),
        (1, np.ones((2, 4)), np.ones((2, 4), complex), 0),
        (1, np.ones((2, 4), np.int64), np.ones((2, 3), complex), 0),
        (2, C, np.ones((2, 4)), 0),
        (2, np.ones((2, 3), complex), np.ones((2, 8)), 0),
    ],
)
def test_the_binding_refuses_arrays_that_do_not_fit_together(op, x, y, divide):
    with pytest.raises((ValueError, TypeError)):
        _kernels.fft(op, x, y, False, divide)
