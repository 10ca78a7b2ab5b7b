"""Pooling and its gradients: the bits of the twin, the meaning of numpy's, and what padding never does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import ShapeError, _kernels
from tensor.primitives.registry import row
from tensor.twins import contraction_ref, pooling_ref


def image(seed: int, shape: tuple[int, ...], kind: str, nan: bool = True):
    """Few values, so that windows have ties; both zeros; some NaN."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype("f8")
    x[x == 0] *= rng.choice([-1.0, 1.0], int((x == 0).sum()))
    if nan:
        x[rng.random(shape) < 0.03] = np.nan
    return tn.astype(tn.asarray(x.astype("f4")), kind) if kind.endswith("16") else tn.asarray(x.astype(kind))


def array(x):
    from tensor.primitives.twin_call import array_of

    return array_of(x)


def bits(x) -> tuple[tuple[int, ...], bytes]:
    a = np.ascontiguousarray(array(x) if isinstance(x, tn.Tensor) else x)
    return a.shape, a.tobytes()


through = contraction_ref.through_float32
KINDS = pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])


@KINDS
@settings(max_examples=20, deadline=None)
@given(
    size=st.tuples(st.integers(3, 9), st.integers(3, 40)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padded=st.booleans(),
    turned=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_pooling_and_its_gradients_have_the_bits_of_the_twin(kind, size, window, stride, padded, turned, seed):
    before = tuple(w // 2 if padded else 0 for w in window)
    output = tuple((size[d] + 2 * before[d] - window[d]) // stride[d] + 1 for d in (0, 1))
    x = image(seed, (2, 3, *size), kind)
    x = x[:, ::-1, ::-1, ::-1] if turned else x
    params = {"window": window, "stride": stride, "padding": before, "output": output}
    largest, index = _kernels.apply(row("max_pool"), (x,), {**params, "dilation": (1, 1)})
    values, places = through(lambda x: pooling_ref.max_pool(x, output, window, stride, before, (1, 1)), array(x))
    assert bits(largest) == bits(values)
    assert bits(index) == bits(places)
    g = image(seed + 1, (2, 3, *output), kind)
    scattered = _kernels.apply(row("pool_scatter"), (g, index), {"size": size})
    assert bits(scattered) == bits(through(lambda g: pooling_ref.pool_scatter(g, places, size), array(g)))
    assert bits(_kernels.apply(row("pool_gather"), (x, index))) == bits(
        through(lambda x: pooling_ref.pool_gather(x, places), array(x))
    )
    for divisor in (0, window[0] * window[1]):
        more = {**params, "divisor": divisor}
        mean = _kernels.apply(row("average_pool"), (x,), more)
        assert bits(mean) == bits(
            through(lambda x, d=divisor: pooling_ref.average_pool(x, output, window, stride, before, d), array(x))
        )
        del more["output"]
        back = _kernels.apply(row("average_pool_gradient"), (g,), {**more, "size": size})
        assert bits(back) == bits(
            through(
                lambda g, d=divisor: pooling_ref.average_pool_gradient(g, size, window, stride, before, d), array(g)
            )
        )


def test_pooling_does_not_depend_on_threads(threads):
    x = image(1, (9, 8, 40, 41), "float32")
    found = set()
    for count in (1, 2, 3, 7):
        threads(count)
        found.add((bits(tn.max_pool2d(x, 3, stride=2, padding=1)), bits(tn.avg_pool2d(x, 2))))
    assert len(found) == 1


def test_the_first_of_equal_elements_wins_and_nan_beats_all():
    x = tn.asarray([[[[1.0, 2.0, 2.0, 0.0], [2.0, 0.0, float("nan"), float("nan")]]]])
    values, places = tn.max_pool2d(x, 2, return_indices=True)
    assert places.tolist() == [[[[1, 6]]]]
    assert values.tolist()[0][0][0][0] == 2.0
    assert np.isnan(values.numpy()[0, 0, 0, 1])


def test_padding_never_wins():
    x = tn.full((1, 1, 3, 3), -5.0)
    assert set(tn.max_pool2d(x, 3, stride=1, padding=1).numpy().reshape(-1)) == {-5.0}
    assert set(tn.min_pool2d(-x, 3, stride=1, padding=1).numpy().reshape(-1)) == {5.0}


def test_adaptive_pooling_covers_the_image():
    x = image(1, (1, 2, 7, 5), "float64", nan=False)
    for output in ((1, 1), (3, 2), (7, 5), (10, 9)):
        mean, largest = tn.adaptive_avg_pool2d(x, output), tn.adaptive_max_pool2d(x, output)
        for oy, ox in np.ndindex(*output):
            rows = slice(oy * 7 // output[0], -(-(oy + 1) * 7 // output[0]))
            columns = slice(ox * 5 // output[1], -(-(ox + 1) * 5 // output[1]))
            part = x.numpy()[0, 1, rows, columns]
            assert largest.numpy()[0, 1, oy, ox] == part.max()
            np.testing.assert_allclose(mean.numpy()[0, 1, oy, ox], part.mean(), rtol=1e-12)


def test_one_dimension_is_two_with_one_row():
    x = image(1, (2, 3, 20), "float32", nan=False)
    wide = x.reshape((2, 3, 1, 20))
    assert bits(tn.max_pool1d(x, 3, stride=2)) == bits(tn.max_pool2d(wide, (1, 3), stride=(1, 2)).reshape((2, 3, 9)))
    assert bits(tn.avg_pool1d(x, 4)) == bits(tn.avg_pool2d(wide, (1, 4)).reshape((2, 3, 5)))
    assert bits(tn.min_pool1d(x, 4)) == bits(tn.min_pool2d(wide, (1, 4)).reshape((2, 3, 5)))
    assert tn.adaptive_avg_pool1d(x, 6).shape == tn.adaptive_max_pool1d(x, 6).shape == (2, 3, 6)


def test_ceil_mode_adds_the_window_that_begins_inside():
    x = tn.asarray(np.arange(25.0).reshape(1, 1, 5, 5))
    assert tn.max_pool2d(x, 2, ceil_mode=True).tolist() == [[[[6.0, 8.0, 9.0], [16.0, 18.0, 19.0], [21.0, 23.0, 24.0]]]]
    assert tn.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False).shape == (1, 1, 3, 3)


X = tn.zeros((1, 2, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: tn.max_pool2d(X, 6),
            ShapeError,
            "max_pool2d: a window of 6 (dilation 1) does not fit 5 elements padded by 0 and 0",
        ),
        (
            lambda: tn.max_pool2d(X, 3, padding=2),
            ShapeError,
            "max_pool2d: padding (2, 2) is more than half of a window that spans 3",
        ),
        (lambda: tn.avg_pool2d(X, 0), ValueError, "avg_pool2d: window must be an int from 1 up, or 2 of them, got 0"),
        (
            lambda: tn.avg_pool2d(X, 2, ceil_mode=True),
            ValueError,
            "avg_pool2d: ceil_mode counts no padding (hint: count_include_pad=False)",
        ),
        (
            lambda: tn.max_pool2d(tn.zeros((1, 2, 5, 5), dtype=tn.int32), 2),
            tn.DtypeError,
            "max_pool2d: int32 is not computed with (hint: float16, bfloat16, float32, float64)",
        ),
        (
            lambda: tn.adaptive_avg_pool2d(X[:, :, :0], 2),
            ShapeError,
            "adaptive_avg_pool2d: an image must have elements, got shape (1, 2, 0, 5)",
        ),
    ],
)
def test_wrong_arguments_of_pooling_are_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
