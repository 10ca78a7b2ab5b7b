"""take, gather, scatter, segments, masks: kernels equal to twins, the order of sums, hostile indices."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as tn
from tensor.errors import DtypeError, ShapeError
from tensor.primitives.rules import call
from tensor.primitives.twin_call import array_of
from tensor.twins import indexing_ref

ALL = (
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
COMBINE = ("set", "sum", "prod", "mean", "max", "min")


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return tn.asarray(rng.random(shape) < 0.5)
    if "int" in dtype:
        info = np.iinfo(dtype)
        return tn.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        return tn.asarray((x + 1j * rng.normal(size=shape)).astype(dtype))
    return tn.astype(tn.asarray(x.astype(np.float64 if dtype == "float64" else np.float32)), dtype)


def layouts(x):
    yield x
    order = tuple(reversed(range(x.ndim)))
    yield x.permute(order).clone().permute(order)
    back = (slice(None, None, -1),) * x.ndim
    yield x[back].clone()[back]


def same(x, array):
    return array_of(x.contiguous()).tobytes() == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", ALL)
def test_kernels_equal_twins_on_every_layout(dtype):
    rng = np.random.default_rng(7)
    for shape, axis in (((5,), 0), ((3, 6, 5), 1), ((30, 7), 0), ((2, 9, 3), 2)):
        x = values(shape, dtype, axis)
        n = shape[axis]
        for y in layouts(x):
            index = rng.integers(-n, n, (2, 7))
            assert same(tn.take(y, tn.asarray(index), axis=axis), indexing_ref.take(array_of(x), index, axis))
            index = rng.integers(-n, n, (*shape[:axis], 9, *shape[axis + 1 :]))
            along = tn.take_along_axis(y, tn.asarray(index), axis=axis)
            assert same(along, indexing_ref.gather(array_of(x), index, axis))
            assert np.array_equal(np.array([t.numpy() for t in tn.nonzero(y)]), indexing_ref.nonzero(array_of(x)))
            for combine in COMBINE:
                if combine != "set" and (dtype == "bool" or (dtype.startswith("complex") and combine != "sum")):
                    continue
                for include in (True, False):
                    params = {"axis": axis, "combine": combine, "include": include}
                    count = 90 if include else 3
                    rows = rng.integers(-n, n, count)
                    wide = (*shape[:axis], count, *shape[axis + 1 :])
                    updates = values(wide, dtype, count)
                    for update in layouts(updates) if y is x else (updates,):
                        got = call("scatter_rows", y, tn.asarray(rows), update, **params)
                        want = indexing_ref.index_put(array_of(x), rows, array_of(updates), axis, combine, include)
                        assert same(got, want), (combine, include, shape, count)
                    if y is not x:
                        continue
                    index = rng.integers(-n, n, wide)
                    got = call("scatter", y, tn.asarray(index), updates, **params)
                    want = indexing_ref.scatter(array_of(x), index, array_of(updates), axis, combine, include)
                    assert same(got, want), (combine, include, shape, count)


def test_a_segments_sum_is_the_sum_of_its_rows():
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 4, 20_000)
    x = values((20_000,), "float32")
    sums = tn.segment_reduce(x, tn.asarray(ids), 5)
    for segment in range(4):
        alone = tn.asarray(x.numpy()[ids == segment]).sum()
        assert same(sums[segment], array_of(alone))
    assert sums[4].item() == 0
    wide = tn.stack([x] * 3, axis=1)
    assert same(tn.segment_reduce(wide, tn.asarray(ids), 5)[:, 1], array_of(sums))


def test_updates_of_others_never_change_a_row():
    rng = np.random.default_rng(2)
    index, updates = rng.integers(0, 50, 5000), rng.normal(size=5000).astype(np.float32)
    whole = tn.scatter_add(tn.zeros(50), 0, tn.asarray(index), tn.asarray(updates))
    alone = tn.scatter_add(tn.zeros(50), 0, tn.asarray(index[index == 3]), tn.asarray(updates[index == 3]))
    assert same(whole[3], array_of(alone[3]))


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_scatter_does_not_depend_on_threads(threads, number):
    rng = np.random.default_rng(3)
    index, updates = rng.integers(0, 500, 20_000), values((20_000, 24), "float32")
    expected = array_of(tn.index_add(tn.zeros((500, 24)), 0, tn.asarray(index), updates)).tobytes()
    threads(number)
    assert array_of(tn.index_add(tn.zeros((500, 24)), 0, tn.asarray(index), updates)).tobytes() == expected


def test_empty_segments_hold_the_identity():
    x, ids = tn.asarray([[5.0], [7.0]]), tn.asarray([1, 1])
    inf = float("inf")
    for reduce, empty, full in (("sum", 0, 12), ("prod", 1, 35), ("max", -inf, 7), ("min", inf, 5), ("mean", None, 6)):
        out = tn.segment_reduce(x, ids, 2, reduce).numpy()[:, 0]
        assert out[1] == full
        assert np.isnan(out[0]) if empty is None else out[0] == empty
    assert tn.segment_reduce(tn.asarray([3], dtype="int8"), tn.asarray([0]), 2, "max").tolist() == [3, -128]
    assert tn.segment_reduce(tn.zeros((0, 2)), tn.zeros((0,), dtype="int64"), 0).shape == (0, 2)


HOSTILE = [4, -5, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("index", HOSTILE)
def test_an_index_out_of_range_is_an_error_never_a_read(index):
    x = tn.zeros((4, 4))
    where = tn.asarray([0, index])
    text = rf"index {index} \(number 1\) is not from -4 to 3$"
    with pytest.raises(IndexError, match="^take: " + text):
        tn.take(x, where, axis=0)
    with pytest.raises(IndexError, match="^gather: " + text):
        tn.gather(x, 1, tn.asarray([[0, index]]))
    with pytest.raises(IndexError, match="^scatter: " + text):
        tn.scatter(x, 1, tn.asarray([[0, index]]), tn.ones((1, 2)))
    with pytest.raises(IndexError, match="^scatter: " + text):
        tn.index_add(x, 0, where, tn.ones((2, 4)))
    if index >= 0:
        with pytest.raises(IndexError, match="^scatter: " + text):
            tn.segment_reduce(tn.ones((2,)), where, 4)
    else:
        with pytest.raises(IndexError, match=r"^segment_reduce: a segment id is negative$"):
            tn.segment_reduce(tn.ones((2,)), where, 4)


def test_nothing_is_taken_from_nothing():
    empty = tn.zeros((0, 3))
    assert tn.take(empty, tn.zeros((0,), dtype="int64"), axis=0).shape == (0, 3)
    with pytest.raises(IndexError, match=r"^take: index 0 \(number 0\) is not from 0 to -1$"):
        tn.take(empty, tn.asarray([0]), axis=0)
    assert tn.scatter(tn.ones(3), 0, tn.zeros((0,), dtype="int64"), tn.zeros(0)).tolist() == [1, 1, 1]


def test_wrong_shapes_and_types_are_named():
    x = tn.zeros((2, 3))
    with pytest.raises(DtypeError, match=r"^take: indices must be integers, got float32$"):
        tn.take(x, tn.asarray([0.0]), axis=0)
    with pytest.raises(ShapeError, match=r"^take: axis must be given for a tensor of 2 dimensions$"):
        tn.take(x, tn.asarray([0]))
    with pytest.raises(DtypeError, match=r"^scatter_add: updates must have x's type float32, got float64$"):
        tn.scatter_add(x, 0, tn.zeros((1, 3), dtype="int64"), tn.zeros((1, 3), dtype="float64"))
    with pytest.raises(
        ValueError, match=r"^scatter_reduce: reduce must be one of sum, prod, mean, max, min, got 'xor'$"
    ):
        tn.scatter_reduce(x, 0, tn.zeros((1, 3), dtype="int64"), tn.zeros((1, 3)), "xor")
    with pytest.raises(
        ShapeError, match=r"^segment_reduce: one id a row of x is needed, got shapes \(3,\) and \(2, 3\)$"
    ):
        tn.segment_reduce(x, tn.asarray([0, 1, 2]), 3)
    with pytest.raises(ShapeError, match=r"^masked_scatter: the mask has 6 true elements, source only 1$"):
        tn.masked_scatter(x, tn.ones((2, 3), dtype="bool"), tn.zeros(1))
    with pytest.raises(DtypeError, match=r"^masked_fill: mask must be bool, got int64$"):
        tn.masked_fill(x, tn.zeros((2, 3), dtype="int64"), 0.0)


def test_the_last_of_several_updates_wins_and_gets_the_gradient():
    updates = tn.asarray([1.0, 2.0, 3.0]).requires_grad_()
    x = tn.asarray([7.0, 8.0]).requires_grad_()
    out = tn.scatter(x, 0, tn.asarray([1, 1, 1]), updates)
    assert out.tolist() == [7, 3]
    (out * tn.asarray([10.0, 20.0])).sum().backward()
    assert updates.grad.tolist() == [0, 0, 20]
    assert x.grad.tolist() == [10, 0]


def test_masks_select_and_fill():
    x = tn.asarray([[1.0, 2.0], [3.0, 4.0]])
    mask = x > 1.5
    assert tn.masked_select(x, mask).tolist() == [2, 3, 4]
    assert tn.masked_scatter(x, mask, tn.asarray([7.0, 8.0, 9.0])).tolist() == [[1, 7], [8, 9]]
    assert tn.masked_fill(x, mask, 0.0).tolist() == [[1, 0], [0, 0]]
