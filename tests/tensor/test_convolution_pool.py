"""Convolutions that take in what follows them: every bit is that of the steps, captured or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import ShapeError, _kernels
from tensor.primitives.registry import row
from tensor.selftest_ref import values
from tensor.twins import pooling_ref


def image(seed: int, shape: tuple[int, ...], kind: str = "float32"):
    return tn.asarray(values(seed, int(np.prod(shape)), np.dtype(kind)).reshape(shape))


def bits(x) -> tuple[tuple[int, ...], bytes]:
    a = np.ascontiguousarray(x.numpy())
    return a.shape, a.tobytes()


def pooled(x, w, b, activation, padding=1, stride=1):
    y = tn.conv2d(x, w, b, padding=padding, stride=stride)
    return tn.max_pool2d(getattr(tn, activation)(y) if activation != "none" else y, 2, return_indices=True)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@settings(max_examples=25, deadline=None)
@given(
    images=st.integers(1, 3),
    inputs=st.sampled_from([1, 3, 30]),
    outputs=st.sampled_from([1, 7, 16, 33]),
    size=st.tuples(st.integers(2, 21), st.integers(2, 64)),
    taps=st.integers(1, 3),
    stride=st.integers(1, 2),
    activation=st.sampled_from(["none", "relu", "tanh"]),
    seed=st.integers(0, 1000),
)
def test_the_maximum_of_a_convolution_has_the_bits_of_its_steps(
    kind, images, inputs, outputs, size, taps, stride, activation, seed
):
    x, w = image(seed, (images, inputs, *size), kind), image(seed + 1, (outputs, inputs, taps, taps), kind)
    bias = image(seed + 2, (outputs,), kind)
    y = tn.conv2d(x, w, bias, padding=1, stride=stride)
    if min(y.shape[2:]) < 2:
        return
    expected = pooled(x, w, bias, activation, stride=stride)
    params = {"stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "groups": 1, "output": y.shape[2:]}
    windows = {"pool_window": (2, 2), "pool_stride": (2, 2), "pool_padding": (0, 0), "pool_dilation": (1, 1)}
    params |= {**windows, "pool_output": tuple(n // 2 for n in y.shape[2:]), "activation": activation}
    most, index = _kernels.apply(row("conv_max_pool"), (x, w, bias), params)
    assert (bits(most), bits(tn.astype(index, tn.int64))) == (bits(expected[0]), bits(expected[1]))


def test_threads_change_nothing(threads):
    x, w, bias = image(1, (9, 8, 21, 40)), image(2, (20, 8, 3, 3)), image(3, (20,))
    f = tn.capture(lambda x, w, b: pooled(x, w, b, "relu"))
    found = set()
    for count in (1, 2, 3, 7):
        threads(count)
        found.add(tuple(bits(y) for y in f(x, w, bias)))
    assert found == {tuple(bits(y) for y in pooled(x, w, bias, "relu"))}
    assert [s.primitive.name for s in f.graph(x, w, bias).steps if "conv" in s.primitive.name] == ["conv_max_pool"]


def network(p, x):
    x = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k1"], p["c1"], padding=1)), 2)
    x = tn.max_pool2d(tn.relu(tn.conv2d(x, p["k2"], p["c2"], padding=1)), 2)
    return (x * x * 0.01).sum()


def weights(kind: str = "float32"):
    rng = np.random.default_rng(5)
    shapes = {"k1": (4, 1, 3, 3), "c1": (4,), "k2": (6, 4, 3, 3), "c2": (6,)}
    return {name: tn.asarray(rng.normal(size=shape).astype(kind)) for name, shape in shapes.items()}


@pytest.mark.parametrize("size", [(16, 16), (13, 18), (4, 150)])
def test_a_captured_network_and_its_gradients_have_the_bits_of_the_steps(size):
    p, x = weights(), image(7, (3, 1, *size))
    both = tn.value_and_grad(network)
    captured = tn.capture(both)
    loss, gradients = both(p, x)
    again, found = captured(p, x)
    assert bits(again) == bits(loss)
    for name, g in gradients.items():
        assert bits(found[name]) == bits(g), name


def test_a_captured_network_masks_gradients_where_images_are_small():
    p, x = weights(), image(7, (3, 1, 16, 16))
    graph = tn.capture(tn.value_and_grad(network)).graph(p, x)
    names = [s.primitive.name for s in graph.steps]
    assert names.count("conv_max_pool") == 2
    assert not {"relu", "max_pool", "conv_affine"} & set(names)
    masks = [s for s in graph.steps if s.primitive.name in ("relu_gradient", "fused")]
    assert {graph.specs[s.outputs[0]].shape for s in masks} <= {(3, 4, 8, 8), (3, 6, 4, 4), ()}


def test_what_someone_else_reads_is_not_taken_in():
    x, w, bias = image(1, (2, 3, 8, 8)), image(2, (4, 3, 3, 3)), image(3, (4,))

    def shown(x, w, b):
        y = tn.conv2d(x, w, b, padding=1)
        z = tn.relu(y)
        return y, z, tn.max_pool2d(z, 2)

    assert [bits(y) for y in tn.capture(shown)(x, w, bias)] == [bits(y) for y in shown(x, w, bias)]


def test_negative_zero_and_ties_are_those_of_the_steps():
    x = tn.asarray(np.array([[[[-0.0, -1.0, 0.0, -0.0], [-2.0, -0.0, np.nan, -3.0]]]], "f4"))
    w, bias = tn.ones((1, 1, 1, 1)), tn.asarray(np.array([-0.0], "f4"))
    f = tn.capture(lambda x, w, b: pooled(x, w, b, "relu", padding=0))
    assert [bits(y) for y in f(x, w, bias)] == [bits(y) for y in pooled(x, w, bias, "relu", padding=0)]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_gradient_may_go_to_places_outside_of_its_window(kind):
    rng = np.random.default_rng(3)
    g = rng.normal(size=(2, 3, 5, 21)).astype(kind)
    for high in (10 * 42, 4):  # everywhere, or many at one place
        index = rng.integers(0, high, g.shape).astype("i4")
        found = _kernels.apply(row("pool_scatter"), (tn.asarray(g), tn.asarray(index)), {"size": (10, 42)})
        assert bits(found)[1] == pooling_ref.pool_scatter(g, index, (10, 42)).tobytes()


def test_other_windows_are_refused():
    params = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "output": (6, 6)}
    pool = {"window": (3, 3), "stride": (3, 3), "padding": (0, 0), "dilation": (1, 1), "output": (2, 2)}
    params |= {**{f"pool_{k}": v for k, v in pool.items()}, "activation": "none"}
    with pytest.raises(ShapeError) as caught:
        _kernels.apply(row("conv_max_pool"), (tn.zeros((1, 1, 6, 6)), tn.zeros((1, 1, 1, 1)), tn.zeros(1)), params)
    assert str(caught.value).startswith("conv_max_pool: windows must be 2×2, rows at most 512 bytes, got ")
