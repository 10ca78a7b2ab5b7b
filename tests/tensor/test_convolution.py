"""Convolutions and their gradients: the bits of the equivalent product of matrices, and the meaning of direct sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import ShapeError, _kernels
from tensor.primitives.registry import row
from tensor.selftest_ref import values
from tensor.twins import contraction_ref, convolution_ref


def image(seed: int, shape: tuple[int, ...], kind: str):
    if kind in ("float32", "float64"):
        return tn.asarray(values(seed, int(np.prod(shape)), np.dtype(kind)).reshape(shape))
    small = np.random.default_rng(seed).integers(-99, 99, shape) / 16
    return tn.astype(tn.asarray(small.astype("f4")), kind)


def array(x):
    from tensor.primitives.twin_call import array_of

    return array_of(x)


def bits(x) -> tuple[tuple[int, ...], bytes]:
    a = np.ascontiguousarray(array(x) if isinstance(x, tn.Tensor) else x)
    return a.shape, a.tobytes()


def three(x, w, g, params):
    """The convolution and both gradients."""
    size, taps, output = tuple(x.shape[2:]), tuple(w.shape[2:]), tuple(g.shape[2:])
    apply = _kernels.apply
    return (
        apply(row("conv"), (x, w), {**params, "output": output}),
        apply(row("conv_transpose"), (g, w), {**params, "output": size}),
        apply(row("conv_weight_gradient"), (x, g), {**params, "kernel": taps}),
    )


def three_by_twin(x, w, g, params):
    through, p = contraction_ref.through_float32, params
    common = (p["stride"], p["padding"], p["dilation"], p["groups"])
    x, w, g = array(x), array(w), array(g)
    return (
        through(lambda x, w: convolution_ref.conv(x, w, g.shape[2:], *common), x, w),
        through(lambda g, w: convolution_ref.conv_transpose(g, w, x.shape[2:], *common), g, w),
        through(lambda x, g: convolution_ref.conv_weight_gradient(x, g, w.shape[2:], *common), x, g),
    )


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
@settings(max_examples=15, deadline=None)
@given(
    images=st.integers(1, 3),
    groups=st.integers(1, 3),
    inputs=st.sampled_from([1, 2, 30]),
    outputs=st.sampled_from([1, 2, 7, 15]),
    size=st.tuples(st.integers(5, 12), st.integers(5, 40)),
    taps=pairs,
    stride=pairs,
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    seed=st.integers(0, 1000),
)
def test_convolution_and_gradients_have_the_bits_of_the_twin(
    kind, images, groups, inputs, outputs, size, taps, stride, padding, dilation, seed
):
    if inputs == 30:
        size, outputs = (5, 6), 2
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    output = tuple((size[d] + 2 * padding[d] - dilation[d] * (taps[d] - 1) - 1) // stride[d] + 1 for d in (0, 1))
    x, w = image(seed, (images, groups * inputs, *size), kind), image(seed + 1, (groups * outputs, inputs, *taps), kind)
    g = image(seed + 2, (images, groups * outputs, *output), kind)
    for came, expected in zip(three(x, w, g, params), three_by_twin(x, w, g, params), strict=True):
        assert bits(came) == bits(expected)


def test_convolution_and_gradients_do_not_depend_on_threads_nor_on_the_images_beside(threads):
    x, w = image(1, (30, 8, 20, 21), "float32"), image(2, (20, 8, 3, 3), "float32")
    g = image(3, (30, 20, 20, 21), "float32")
    params = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    found = set()
    for count in (1, 2, 3, 7):
        threads(count)
        found.add(tuple(bits(y) for y in three(x, w, g, params)))
    assert len(found) == 1
    y, gx, _ = three(x, w, g, params)
    for i in (0, 13, 29):
        alone = three(x[i : i + 1], w, g[i : i + 1], params)
        assert (bits(alone[0]), bits(alone[1])) == (bits(y[i : i + 1]), bits(gx[i : i + 1]))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("stride", "taps", "dilation"), [((2, 2), (3, 3), (1, 1)), ((3, 2), (2, 4), (2, 2)), ((2, 3), (1, 1), (1, 1))]
)
def test_a_gradient_through_a_stride_leaves_out_the_taps_that_meet_nothing(kind, stride, taps, dilation):
    params = {"stride": stride, "padding": (1, 0), "dilation": dilation, "groups": 2}
    size = (11, 13)
    output = tuple(
        (size[d] + 2 * params["padding"][d] - dilation[d] * (taps[d] - 1) - 1) // stride[d] + 1 for d in (0, 1)
    )
    w, g = np.array(array(image(2, (400, 3, *taps), kind))), image(3, (2, 400, *output), kind)
    w[:, :, -1, -1] = np.inf  # 0 times this would be NaN
    found = _kernels.apply(row("conv_transpose"), (g, tn.asarray(w)), {**params, "output": size})
    common = (params["stride"], params["padding"], params["dilation"], params["groups"])
    expected = contraction_ref.through_float32(
        lambda g, w: convolution_ref.conv_transpose(g, w, size, *common), array(g), w
    )
    assert bits(found) == bits(expected)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [(9, 8), (8, 7), (17, 6), (2, 4), (1, 3)])
def test_rows_that_share_a_vector_have_the_bits_of_the_twin(kind, size):
    x, w, g = image(1, (2, 20, *size), kind), image(2, (17, 20, 3, 3), kind), image(3, (2, 17, *size), kind)
    params = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    for came, expected in zip(three(x, w, g, params), three_by_twin(x, w, g, params), strict=True):
        assert bits(came) == bits(expected)


def test_views_give_the_bits_of_their_copies():
    x, w, g = image(1, (2, 6, 12, 14), "float32"), image(2, (4, 3, 3, 5), "float32"), image(3, (2, 4, 5, 10), "float32")
    params = {"stride": (1, 1), "padding": (1, 0), "dilation": (1, 1), "groups": 1}
    views = x[:, ::2, 1::2, ::-1], w[::-1], g[:, :, ::-1]
    views = views[0], views[1], views[2][:, :, :6]
    g_shape = (2, 4, 6, 10)
    views = views[0], views[1], tn.broadcast_to(views[2][:, :, :1], g_shape)
    copies = tuple(tn.asarray(v, copy=True) for v in views)
    for came, expected in zip(three(*views, params), three(*copies, params), strict=True):
        assert bits(came) == bits(expected)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_bias_and_activation_have_the_bits_of_their_steps(kind, activation):
    x, w, bias = image(1, (3, 4, 9, 20), kind), image(2, (17, 4, 3, 3), kind), image(3, (17,), kind)
    steps = tn.conv2d(x, w, padding=1) + bias.reshape((17, 1, 1))
    steps = tn.relu(steps) if activation == "relu" else steps
    assert bits(tn.conv2d(x, w, bias, padding=1, activation=activation)) == bits(steps)


def test_gradients_of_conv2d_are_those_of_the_direct_sum():
    x, w, b = (image(i, s, "float64") for i, s in enumerate([(2, 3, 6, 7), (4, 3, 3, 2), (4,)]))

    def direct(x, w, b):
        total = 0
        for ty in range(3):
            for tx in range(2):
                total = total + tn.einsum("oi,nihw->nohw", w[:, :, ty, tx], x[:, :, ty : ty + 4, tx : tx + 6])
        return total + b.reshape((4, 1, 1))

    from tensor.autograd import grad

    def loss(f):
        return lambda *a: (f(*a) * f(*a)).sum()

    ours = grad(loss(tn.conv2d), argnums=(0, 1, 2))(x, w, b)
    theirs = grad(loss(direct), argnums=(0, 1, 2))(x, w, b)
    for a, e in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), e.numpy(), rtol=1e-9)


def test_conv1d_is_conv2d_of_one_row_and_needs_no_batch():
    x, w = image(1, (2, 3, 20), "float32"), image(2, (5, 3, 4), "float32")
    flat = tn.conv1d(x, w, stride=2, padding=1)
    wide = tn.conv2d(x.reshape((2, 3, 1, 20)), w.reshape((5, 3, 1, 4)), stride=(1, 2), padding=(0, 1))
    assert bits(flat) == bits(wide.reshape(flat.shape))
    assert bits(tn.conv1d(x[0], w, stride=2, padding=1)) == bits(flat[0])


def test_padding_may_be_same_or_uneven():
    x, w = image(1, (1, 1, 7, 8), "float32"), image(2, (1, 1, 2, 3), "float32")
    assert tn.conv2d(x, w, padding="same").shape == x.shape
    assert bits(tn.conv2d(x, w, padding="same")) == bits(tn.conv2d(x, w, padding=((0, 1), (1, 1))))
    assert bits(tn.conv2d(x, w, padding="valid")) == bits(tn.conv2d(x, w))


def test_conv_transpose_undoes_the_shape_of_conv():
    for stride, padding, more in ((1, 0, 0), (2, 1, 1), (3, 0, 2)):
        y = tn.conv2d(tn.ones((1, 2, 9, 9)), tn.ones((4, 2, 3, 3)), stride=stride, padding=padding)
        back = tn.conv_transpose2d(y, tn.ones((4, 2, 3, 3)), stride=stride, padding=padding, output_padding=more)
        assert back.shape[2] in (9, 9 + more)


X, W = tn.zeros((1, 2, 5, 5)), tn.zeros((4, 2, 3, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: tn.conv2d(X, tn.zeros((4, 3, 3, 3))),
            ShapeError,
            "conv: 2 channels and weights of shape (4, 3, 3, 3) do not fit 1 groups "
            "(weights are [outputs, inputs of a group, rows, columns])",
        ),
        (
            lambda: tn.conv2d(X, tn.zeros((4, 2, 6, 1))),
            ShapeError,
            "conv2d: a window of 6 (dilation 1) does not fit 5 elements padded by 0 and 0",
        ),
        (lambda: tn.conv2d(X, W, stride=0), ValueError, "conv2d: stride must be an int from 1 up, or 2 of them, got 0"),
        (
            lambda: tn.conv2d(X, W, padding=-1),
            ValueError,
            "conv2d: padding must be an int from 0 up, 2 of them or 2 pairs, got -1",
        ),
        (
            lambda: tn.conv2d(X, W, padding="same", stride=2),
            ValueError,
            "conv2d: padding 'same' needs stride 1, got (2, 2)",
        ),
        (
            lambda: tn.conv2d(tn.zeros((2, 2)), W),
            ShapeError,
            "conv2d: expected [n, channels, rows, columns] or one without n, got shape (2, 2)",
        ),
        (
            lambda: tn.conv2d(X, W, tn.zeros(3)),
            ShapeError,
            "conv_affine: bias must be one value for each channel, (4,), got (3,)",
        ),
        (lambda: tn.conv2d(X, W, groups=0), ShapeError, "conv: groups must be positive, got 0"),
        (
            lambda: tn.conv_transpose2d(X, W),
            ShapeError,
            "conv_transpose: 2 channels do not fit weights of shape (4, 2, 3, 3) "
            "(weights are [inputs, outputs of a group, rows, columns])",
        ),
    ],
)
def test_wrong_arguments_of_convolutions_are_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_a_hostile_stride_is_refused_before_anything_is_allocated():
    with pytest.raises(ValueError, match="below 2\\^31"):
        tn.conv2d(X, W, padding=((0, 0), (2**40, 2**40)), stride=(1, 2**41))
