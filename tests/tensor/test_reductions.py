"""Reductions and cumulative ones: one order of sums, whatever the strides; edge values; kernels equal to twins."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.primitives.twin_call import array_of
from tensor.twins import reductions_ref, scan_ref
from tensor.twins.fold_ref import compute

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = ("bool", *INTEGERS, *FLOATS, *COMPLEX)


def values(shape, dtype, seed=0, special=False):
    """A tensor of the dtype: any bit pattern of integers, normal floats, with edge values if asked for."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return tn.asarray(rng.random(shape) < 0.5)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return tn.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))
    x = rng.normal(size=shape)
    if dtype in COMPLEX:
        return tn.asarray((x + 1j * rng.normal(size=shape)).astype(dtype))
    x = x.astype(np.float32 if dtype == "bfloat16" else dtype)
    if special and x.size:
        flat = x.reshape(-1)
        places = rng.integers(0, len(flat), max(1, len(flat) // 40))
        flat[places] = rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40], len(places))
    return tn.astype(tn.asarray(x), dtype)


def layouts(x):
    """The same values contiguous, with gaps, backwards, and in Fortran order."""
    yield x
    if x.ndim == 0 or x.size == 0:
        return
    big = tn.zeros(tuple(2 * n for n in x.shape), dtype=x.dtype)
    steps = (slice(None, None, 2),) * x.ndim
    big[steps] = x
    yield big[steps]
    back = (slice(None, None, -1),) * x.ndim
    yield x[back].clone()[back]
    order = tuple(reversed(range(x.ndim)))
    yield x.permute(order).clone().permute(order)


def bits(x):
    return (str(x.dtype), x.shape, array_of(x.contiguous()).tobytes())


def of_array(array, dtype):
    """The bytes of a twin's result in the dtype of the kernel's."""
    return np.asarray(array).astype(dtype.name).tobytes() if dtype != "bfloat16" else np.asarray(array).tobytes()


def applicable(name, dtype, n):
    if name in {"max", "min", "argmax", "argmin"}:
        return dtype not in COMPLEX and n > 0
    if name in {"logsumexp", "var", "std", "norm", "square_sum"}:
        return dtype in FLOATS
    return name != "mean" or dtype in FLOATS + COMPLEX


SHAPES = [
    ((5,), (0,)),
    ((100,), (0,)),
    ((3, 17, 5), (1,)),
    ((3, 17, 5), (0, 2)),
    ((3, 17, 5), (0, 1, 2)),
    ((130, 70), (0,)),
    ((64, 33, 3), (0, 1)),
    ((2, 3, 4, 5), (0, 2)),
    ((0, 4), (0,)),
    ((0, 4), (1,)),
    ((), ()),
]
LONG = [((12289,), (0,)), ((4200, 6), (0,)), ((2, 4200, 3), (1,))]


@pytest.mark.parametrize("dtype", ALL)
def test_kernels_equal_twins_on_every_layout(dtype):
    for k, (shape, axes) in enumerate(SHAPES + (LONG if dtype in ("float32", "bfloat16", "complex64") else [])):
        x = values(shape, dtype, k, special=k % 2 == 0)
        n = int(np.prod([shape[a] for a in axes]))
        for name in _kernels.REDUCE:
            if not applicable(name, dtype, n):
                continue
            want = reductions_ref.reduce(name, array_of(x), axes, 1.0)
            for y in layouts(x):
                params = {"axis": axes, "keepdims": False, "correction": 1.0}
                from tensor.primitives.registry import row

                got = _kernels.apply(row(name, "reductions"), (y,), params)
                assert got.shape == np.shape(want)
                assert bits(got)[2] == of_array(want, got.dtype), (name, dtype, shape, axes, y.strides)


@pytest.mark.parametrize("dtype", ALL)
def test_cumulative_kernels_equal_twins_on_every_layout(dtype):
    for k, (shape, axis) in enumerate([((300,), 0), ((4700,), 0), ((3, 17, 5), 1), ((600, 7), 0), ((2, 0, 3), 1)]):
        x = values(shape, dtype, k, special=True)
        for y in layouts(x):
            for name, function in (("sum", tn.cumsum), ("prod", tn.cumprod)):
                got = function(y, axis)
                assert bits(got)[2] == of_array(scan_ref.scan(name, array_of(x), axis), got.dtype), (name, shape)
            if dtype in COMPLEX:
                continue
            for name, function in (("max", tn.cummax), ("min", tn.cummin)):
                got, index = function(y, axis)
                want, where = scan_ref.scan_extreme(name, array_of(x), axis)
                assert bits(got)[2] == of_array(want, got.dtype)
                assert np.array_equal(index.numpy(), where)


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_results_do_not_depend_on_threads(threads, number):
    x = values((700, 1100), "float32")
    expected = [_kernels.threads() and bits(f) for f in _digest_of(x)]
    threads(number)
    assert [bits(f) for f in _digest_of(x)] == expected


def _digest_of(x):
    yield x.sum()
    yield x.sum(0)
    yield x.permute(1, 0).sum(1)
    yield x.var(1)
    yield x.max(0)
    yield x.logsumexp(1)
    yield x.cumsum(1)
    yield tn.softmax(x)
    yield tn.softmax(x, 0)
    yield tn.layer_norm(x, 1100)
    yield tn.argsort(x, axis=0)
    yield tn.prod(x.reshape((-1,))[:300000])


@pytest.mark.parametrize(
    ("n", "word"),
    [
        (100, 0x40A5FF00),
        (1000, 0x40EF88FA),
        (4096, 0x410E5258),
        (5000, 0x4111831B),
        (12289, 0x411FE643),
        (100003, 0x4141715E),
    ],
)
def test_sums_of_the_harmonic_series_have_the_known_bits(n, word):
    x = tn.asarray(1 / np.arange(1, n + 1, dtype=np.float32))
    assert x.sum().numpy().view(np.uint32) == word
    columns = tn.concat([x.reshape((n, 1))] * 5, axis=1)
    assert (columns.sum(0).numpy().view(np.uint32) == word).all()


def test_a_sum_over_two_axes_is_the_sum_of_the_row_major_sequence():
    x = values((7, 9, 11), "float32")
    assert bits(x.sum((0, 2)))[2] == bits(x.permute(1, 0, 2).reshape((9, 77)).sum(1))[2]


def test_a_row_of_a_batch_equals_the_row_alone():
    x = values((37, 1000), "float32")
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "logsumexp", "norm", "cumsum"):
        whole = getattr(x, name)(1)
        for i in (0, 17, 36):
            assert bits(whole[i])[2] == bits(getattr(x[i], name)(0))[2], name


def test_the_running_sum_of_20_million_ones_arrives():
    assert tn.cumulative_sum(tn.ones((20_000_000,)))[-1].item() == 20_000_000


def test_two_passes_keep_the_variance_of_large_numbers():
    x = tn.asarray(np.arange(10, dtype=np.float32) + np.float32(1e6))
    assert x.std().item() == pytest.approx(2.8722813, abs=1e-6)


def test_sums_and_products_of_nothing():
    empty = tn.zeros((0,))
    assert empty.sum().item() == 0
    assert empty.prod().item() == 1
    assert tn.asarray([-0.0]).sum().numpy().view(np.uint32) == 0
    assert np.isnan(empty.mean().item())
    assert np.isnan(tn.var(tn.asarray([1.0]), correction=1).item())
    assert tn.any(empty).item() is False
    assert tn.all(empty).item() is True
    assert tn.logsumexp(empty).item() == -np.inf
    assert tn.zeros((0,), dtype="complex64").prod().item() == 1


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_the_extreme_of_nothing_is_an_error(name):
    with pytest.raises(ShapeError, match=rf"^{name}: not defined for nothing: shape \(0, 3\) over axes \(0,\)$"):
        getattr(tn, name)(tn.zeros((0, 3)), axis=0)
    assert getattr(tn, name)(tn.zeros((0, 3)), axis=1).shape == (0,)


def test_extremes_propagate_nan_and_put_plus_zero_above_minus_zero():
    nan = float("nan")
    x = tn.asarray([1.0, nan, 3.0, -nan])
    assert x.max().numpy().view(np.uint32) == 0x7FC00000
    assert (x.argmax().item(), x.argmin().item()) == (1, 1)
    for order in ([0.0, -0.0], [-0.0, 0.0]):
        assert tn.asarray(order).max().numpy().view(np.uint32) == 0
        assert tn.asarray(order).min().numpy().view(np.uint32) == 0x80000000
        assert tn.asarray(order).argmax().item() == 0
    assert tn.asarray([2, 5, 5]).argmax().item() == 1


def test_small_integers_are_summed_in_64_bits_and_wrap_there():
    assert tn.sum(tn.full((300,), 127, dtype="int8")).item() == 38100
    assert (
        str(tn.sum(tn.ones((2,), dtype="uint8")).dtype) == "uint64"
        or tn.sum(tn.ones((2,), dtype="uint8")).dtype == "uint64"
    )
    assert tn.sum(tn.asarray([2**63 - 1, 1])).item() == -(2**63)
    assert tn.sum(tn.asarray([True, True])).item() == 2
    assert tn.sum(tn.asarray([1.9, 1.9]), dtype="int32").item() == 2
    assert tn.sum(tn.asarray([1.9, 1.9]), dtype="int32").dtype == "int32"


def test_logsumexp_and_softmax_do_not_overflow():
    inf = float("inf")
    assert tn.logsumexp(tn.asarray([-inf, -inf])).item() == -inf
    assert tn.logsumexp(tn.asarray([inf, 0.0])).item() == inf
    assert tn.softmax(tn.asarray([1e4, 0.0])).tolist() == [1, 0]
    assert np.isnan(tn.softmax(tn.asarray([-inf, -inf])).numpy()).all()


def test_wrong_axes_and_types_are_named():
    x = tn.zeros((2, 3))
    with pytest.raises(AxisError, match=r"^sum: axis 2 is out of range for 2 dimensions$"):
        x.sum(2)
    with pytest.raises(AxisError, match=r"^sum: an axis is named twice in \(0, -2\)$"):
        x.sum((0, -2))
    with pytest.raises(TypeError, match=r"^sum: axis must be an int, got float$"):
        x.sum(1.0)
    with pytest.raises(DtypeError, match=r"^mean: int64 is not computed with \(hint: astype\(x, float32\)\)$"):
        tn.mean(tn.asarray([1, 2]))
    with pytest.raises(DtypeError, match=r"^max: complex64 is not computed with"):
        tn.max(tn.asarray([1 + 1j]))
    with pytest.raises(TypeError, match=r"^sum: expected a Tensor, got list \(hint: asarray\)$"):
        tn.sum([1, 2])


def test_diff_takes_what_is_put_before_and_behind():
    x = tn.asarray([1, 4, 9])
    assert tn.diff(x, n=2).tolist() == [2]
    assert tn.diff(x, n=0).tolist() == [1, 4, 9]
    assert tn.diff(x, prepend=tn.asarray([0]), append=tn.asarray([10])).tolist() == [1, 3, 5, 1]
    with pytest.raises(ShapeError, match=r"^diff: n must be an int from 0, got -1$"):
        tn.diff(x, n=-1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_as_accurate_as_numpys(dtype):
    x = values((100_001,), dtype).numpy()
    exact = np.float64(np.sum(x.astype(np.longdouble)))
    error = abs(float(tn.sum(tn.asarray(x)).item()) - float(exact))
    assert error <= 64 * np.finfo(dtype).eps * np.sqrt(len(x))


def test_half_floats_are_computed_in_float32_and_rounded_once():
    for dtype in ("float16", "bfloat16"):
        x = values((1000,), dtype)
        wide = compute(array_of(x))
        assert x.sum().item() == tn.astype(tn.sum(tn.asarray(wide)), dtype).item()
