"""The compiled functions themselves, called with arguments that the Python functions never pass on."""

from __future__ import annotations

import numpy as np
import pytest

from tensor import _kernels, elementary, product, reduction

pytestmark = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels")

X = np.arange(12, dtype=np.float32)
M = X.reshape(3, 4)
ONE = np.empty(1, np.float32)


def misaligned(n: int) -> np.ndarray:
    return np.zeros(4 * n + 1, np.uint8)[1:].view(np.float32)


def read_only(*shape: int) -> np.ndarray:
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: _kernels.sum_f32(misaligned(4), ONE), TypeError, "x must be aligned to its elements"),
        (lambda: _kernels.sum_f32(X, misaligned(1)), TypeError, "out must be aligned to its elements"),
        (lambda: _kernels.sum_f32(X, np.empty(2, np.float32)), ValueError, "out must have one element"),
        (lambda: _kernels.dot_f32(X, X[1:], ONE), ValueError, "dot: x and y must have the same length"),
        (
            lambda: _kernels.sum_columns_f32(M, np.empty(3, np.float32)),
            ValueError,
            "sum_columns: out must have one value for each column of x",
        ),
        (
            lambda: _kernels.sum_columns_f32(M.T, np.empty(3, np.float32)),
            ValueError,
            "sum_columns: a row of x, and out, must be contiguous",
        ),
        (
            lambda: _kernels.matmul_f32(M, M, np.empty((3, 4), np.float32)),
            ValueError,
            "matmul: shapes of a [m, k], b [k, n] and out [m, n] must agree",
        ),
        (
            lambda: _kernels.matmul_f32(M, M.T, np.empty((4, 3), np.float32)),
            ValueError,
            "matmul: shapes of a [m, k], b [k, n] and out [m, n] must agree",
        ),
        (
            lambda: _kernels.matmul_f32(M, M.T, np.empty((3, 6), np.float32)[:, ::2]),
            ValueError,
            "matmul: a row of out must be contiguous",
        ),
        (
            lambda: _kernels.matmul_f32(misaligned(12).reshape(3, 4), M.T, np.empty((3, 3), np.float32)),
            TypeError,
            "a must be aligned to its elements",
        ),
    ],
)
def test_what_a_kernel_cannot_compute_is_refused_by_name(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "call",
    [
        lambda: _kernels.sum_f32(X.astype(np.float64), ONE),
        lambda: _kernels.sum_f32(X.astype(">f4"), ONE),
        lambda: _kernels.sum_f32(M, ONE),
        lambda: _kernels.sum_f32(X, read_only(1)),
        lambda: _kernels.sum_f32([1.0, 2.0], ONE),
        lambda: _kernels.matmul_f32(M, M.T, read_only(3, 3)),
        lambda: _kernels.matmul_f32(M, M.T.astype(np.float64), np.empty((3, 3), np.float32)),
    ],
)
def test_nothing_is_converted_on_the_way_into_a_kernel(call):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        call()


def test_kernels_take_buffers_without_numpy(python):
    code = """
import array, sys
from tensor import _kernels
x, out = array.array("d", [0.5, 0.25, 4.0]), array.array("d", [0.0])
_kernels.sum_f64(x, out)
_kernels.dot_f64(x, memoryview(x), out) if out[0] == 4.75 else None
print(out[0], "numpy" in sys.modules)
"""
    done = python(code)
    assert done.stdout == "16.3125 False\n", done.stderr


def test_random_strides_and_lengths_never_read_outside_the_array():
    rng = np.random.default_rng(5)
    store = np.full(5000, np.float32(np.nan))  # whatever lies outside a view would show as NaN
    for _ in range(300):
        n, stride = int(rng.integers(0, 200)), int(rng.integers(1, 12)) * int(rng.choice([-1, 1]))
        store[:] = np.nan
        first = 100 if stride > 0 else 100 + abs(stride) * n
        view = store[first:][: stride * n : stride] if stride > 0 else store[first : first + stride * n : stride]
        assert view.shape == (n,)
        view[:] = 1
        _kernels.sum_f32(view, ONE)
        assert ONE[0] == n
        _kernels.dot_f32(view, view[::-1], ONE)
        assert ONE[0] == n


class Exporter:
    """A DLPack object that gives whatever it was told to give."""

    def __init__(self, given):
        self.given = given

    def __dlpack__(self, **_):
        return self.given

    def __dlpack_device__(self):
        return (1, 0)


def test_a_capsule_used_twice_or_none_at_all_is_a_buffer_error_that_names_the_argument():
    used = Exporter(np.ones(3, np.float32).__dlpack__())
    assert reduction.sum(used) == 3
    for broken in (used, Exporter(None), Exporter(5)):
        with pytest.raises(BufferError, match=r"^sum: x gave no DLPack capsule that can be used: "):
            reduction.sum(broken)


def test_an_array_interface_that_leads_nowhere_is_a_buffer_error():
    broken = type("Broken", (), {"__array_interface__": 5})()
    with pytest.raises(BufferError, match=r"^sum: x has an __array_interface__ that cannot be used: "):
        reduction.sum(broken)


def test_a_subclass_of_ndarray_is_taken_as_the_array_it_is():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    matrix = x.view(np.matrix)
    assert reduction.sum(matrix) == 15
    assert elementary.exp(matrix).tobytes() == elementary.exp(x).tobytes()
    assert product.matmul(matrix, x.T).tobytes() == product.matmul(x, x.T).tobytes()


@pytest.mark.parametrize("axis", [1.0, True, "0"])
def test_an_axis_that_is_no_int_is_refused(axis):
    with pytest.raises(TypeError, match=rf"^sum: axis must be an int or None, got {type(axis).__name__}$"):
        reduction.sum(np.ones((2, 2), np.float32), axis=axis)
