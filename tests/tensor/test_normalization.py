"""softmax, norms and cross entropy: kernels equal to twins, known values, rows alone as in a batch, bad targets."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as tn
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.rules import call
from tensor.primitives.twin_call import array_of
from tensor.twins import norm_ref, softmax_ref

FLOATS = ("float16", "bfloat16", "float32", "float64")


def values(shape, dtype, seed=0, special=False):
    x = np.random.default_rng(seed).normal(size=shape) * 3
    if special and x.size:
        x.reshape(-1)[:: max(1, x.size // 7)] = [np.nan, np.inf, -np.inf, -0.0, 1e4, -1e4, 0.0, 5.0][
            : len(x.reshape(-1)[:: max(1, x.size // 7)])
        ]
    return tn.astype(tn.asarray(x.astype(np.float64 if dtype == "float64" else np.float32)), dtype)


def layouts(x):
    yield x
    if x.size:
        order = tuple(reversed(range(x.ndim)))
        yield x.permute(order).clone().permute(order)
        back = (slice(None, None, -1),) * x.ndim
        yield x[back].clone()[back]


def same(x, array):
    return array_of(x.contiguous()).tobytes() == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_kernels_equal_twins_on_every_layout(dtype):
    shapes = [((5,), 0), ((5000,), 0), ((3, 17, 5), 1), ((130, 70), 0), ((7, 33), 1), ((2, 0, 3), 1)]
    for k, (shape, axis) in enumerate(shapes):
        x, g = values(shape, dtype, k, special=k % 2 == 1), values(shape, dtype, k + 50)
        for y, h in zip(layouts(x), layouts(g), strict=True):
            for name, logarithm in (("softmax", False), ("log_softmax", True)):
                out = call(name, y, axis=axis)
                assert same(out, softmax_ref.softmax(array_of(x), axis, logarithm)), (name, shape)
                back = call(f"{name}_backward", h, out, axis=axis)
                want = softmax_ref.softmax_backward(array_of(g), array_of(out.contiguous()), axis, logarithm)
                assert same(back, want), (name, shape)


@pytest.mark.parametrize("dtype", FLOATS)
def test_norm_kernels_equal_twins_on_every_layout(dtype):
    for shape, trailing in (((5,), 1), ((3, 300), 1), ((1, 4200), 1), ((3, 7, 5), 2), ((100, 33), 1), ((4200, 3), 1)):
        x, g = values(shape, dtype, 1), values(shape, dtype, 2)
        last = shape[len(shape) - trailing :]
        weight, bias = values(last, dtype, 3), values(last, dtype, 4)
        for y, h in zip(layouts(x), layouts(g), strict=True):
            params = {"trailing": trailing, "epsilon": 1e-5, "weight": True}
            outs = call("layer_norm", y, weight, bias, **params, bias=True)
            want = norm_ref.layer_norm(array_of(x), array_of(weight), array_of(bias), trailing, 1e-5)
            assert all(same(a, b) for a, b in zip(outs, want, strict=True)), shape
            back = call(
                "norm_backward", h, y, outs[1], outs[2], weight, trailing=trailing, layer=True, weight=True, bias=True
            )
            want = norm_ref.norm_backward(array_of(g), array_of(x), want[1], want[2], array_of(weight), trailing)
            assert all(same(a, b) for a, b in zip(back, want, strict=True)), shape
            outs = call("rms_norm", y, weight, **params)
            want = norm_ref.rms_norm(array_of(x), array_of(weight), trailing, 1e-5)
            assert all(same(a, b) for a, b in zip(outs, want, strict=True)), shape


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_cross_entropy_kernels_equal_twins(dtype, smoothing):
    for rows, classes in ((4, 10), (2, 4200), (0, 4), (5, 1)):
        x, g = values((rows, classes), dtype, 1), values((rows,), dtype, 2)
        targets = np.arange(rows) % classes
        targets[:1] = -100
        params = {"ignore_index": -100, "smoothing": smoothing}
        for y in layouts(x):
            loss, lse = call("cross_entropy", y, tn.asarray(targets), **params)
            want = softmax_ref.cross_entropy(array_of(x), targets, -100, smoothing)
            assert same(loss, want[0])
            assert same(lse, want[1])
            back = call("cross_entropy_backward", g, y, tn.asarray(targets), lse, **params)
            assert same(
                back, softmax_ref.cross_entropy_backward(array_of(g), array_of(x), targets, want[1], -100, smoothing)
            )


def test_a_row_of_a_batch_equals_the_row_alone():
    x = values((21, 517), "float32")
    weight, bias = values((517,), "float32", 3), values((517,), "float32", 4)
    for function in (
        tn.softmax,
        tn.log_softmax,
        lambda t: tn.layer_norm(t, 517, weight, bias),
        lambda t: tn.rms_norm(t, 517),
    ):
        whole = function(x)
        for i in (0, 20):
            assert same(whole[i], array_of(function(x[i].clone())))


def test_layer_norm_has_mean_0_and_variance_1():
    y = tn.layer_norm(values((4, 1000), "float64"), 1000, epsilon=0.0).numpy()
    np.testing.assert_allclose(y.mean(1), 0, atol=1e-14)
    np.testing.assert_allclose(y.var(1), 1, rtol=1e-13)


def test_norms_refuse_shapes_and_types_by_name():
    x = tn.zeros((2, 3))
    with pytest.raises(ShapeError, match=r"^layer_norm: \(2,\) are not the last dimensions of shape \(2, 3\)$"):
        tn.layer_norm(x, 2)
    with pytest.raises(
        ShapeError, match=r"^layer_norm: weight and bias must have the normalised shape \(3,\), got \(2,\)$"
    ):
        tn.layer_norm(x, 3, tn.ones(2))
    with pytest.raises(DtypeError, match=r"^rms_norm: weight and bias must have x's type float32, got float64$"):
        tn.rms_norm(x, 3, tn.ones(3, dtype="float64"))
    with pytest.raises(DtypeError, match=r"^softmax: int64 is not computed with \(hint: astype\(x, float32\)\)$"):
        tn.softmax(tn.asarray([1, 2]))


def test_cross_entropy_means_over_the_rows_that_count():
    x = values((3, 5), "float64")
    targets = tn.asarray([2, -100, 4])
    rows = tn.cross_entropy(x, targets, reduction="none").tolist()
    assert rows[1] == 0
    assert tn.cross_entropy(x, targets).item() == pytest.approx((rows[0] + rows[2]) / 2, rel=1e-15)
    assert tn.cross_entropy(x, targets, reduction="sum").item() == pytest.approx(rows[0] + rows[2], rel=1e-15)
    assert np.isnan(tn.cross_entropy(x, tn.asarray([-100] * 3)).item())
    assert tn.cross_entropy(x[0], tn.asarray(2)).item() == rows[0]
    images = tn.permute_dims(x.reshape((1, 3, 5)), (0, 2, 1))
    assert tn.cross_entropy(images, targets.reshape((1, 3)), reduction="none").tolist() == [rows]


def test_a_target_that_is_no_class_is_never_read():
    for wrong in (5, -1, 2**62, -(2**63)):
        with pytest.raises(IndexError, match=rf"^cross_entropy: target {wrong} of row 1 is no class from 0 to 4$"):
            tn.cross_entropy(tn.zeros((2, 5)), tn.asarray([0, wrong]))
    with pytest.raises(DtypeError, match=r"^cross_entropy: targets must be integers, got float32$"):
        tn.cross_entropy(tn.zeros((2, 5)), tn.zeros(2))


def test_gradients_of_ignored_rows_are_zero():
    x = values((3, 5), "float32").requires_grad_()
    tn.cross_entropy(x, tn.asarray([1, -100, 2]), label_smoothing=0.1).backward()
    assert not x.grad.numpy()[1].any()
    np.testing.assert_allclose(x.grad.numpy().sum(1), 0, atol=1e-7)
