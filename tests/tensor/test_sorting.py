"""Orders, distinct values, places: stable, NaN last, equal to the twins on every layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.primitives.twin_call import array_of
from tensor.twins import sort_ref

ORDERED = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


def values(shape, dtype, seed=0, few=False):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return tn.asarray(rng.random(shape) < 0.5)
    if "int" in dtype:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        return tn.asarray(x % 5 if few else x)
    x = rng.integers(-3, 3, shape).astype(np.float32) if few else rng.normal(size=shape).astype(np.float32)
    if x.size:
        flat = x.reshape(-1)
        places = rng.integers(0, len(flat), max(1, len(flat) // 9))
        flat[places] = rng.choice(np.float32([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]), len(places))
    return tn.astype(tn.asarray(x), dtype)


def layouts(x):
    yield x
    if x.size:
        order = tuple(reversed(range(x.ndim)))
        yield x.permute(order).clone().permute(order)
        back = (slice(None, None, -1),) * x.ndim
        yield x[back].clone()[back]


@pytest.mark.parametrize("dtype", ORDERED)
def test_orders_equal_the_twins_on_every_layout(dtype):
    for k, (shape, axis) in enumerate(
        [((5,), 0), ((3000,), 0), ((3, 60, 5), 1), ((60, 7), 0), ((2, 0, 3), 1), ((1,), 0)]
    ):
        x = values(shape, dtype, k, few=k % 2 == 1)
        for y in layouts(x):
            for descending in (False, True):
                want = sort_ref.argsort(array_of(x), axis, descending)
                assert np.array_equal(tn.argsort(y, axis=axis, descending=descending).numpy(), want)
                got = tn.sort(y, axis=axis, descending=descending)
                assert array_of(got).tobytes() == sort_ref.sort(array_of(x), axis, descending).tobytes()
                for count in {0, min(1, shape[axis]), shape[axis] // 3, shape[axis]}:
                    top, index = tn.top_k(y, count, axis=axis, largest=descending)
                    best, place = sort_ref.top_k(array_of(x), count, axis, descending)
                    assert array_of(top).tobytes() == best.tobytes()
                    assert np.array_equal(index.numpy(), place)


@pytest.mark.parametrize("dtype", ORDERED)
def test_places_in_a_sorted_vector_equal_the_twins(dtype):
    x = tn.sort(values((500,), dtype, 1, few=True))
    queries = values((40, 3), dtype, 2, few=True)
    for side in ("left", "right"):
        want = sort_ref.searchsorted(array_of(x), array_of(queries), side == "right")
        assert np.array_equal(tn.searchsorted(x, queries, side=side).numpy(), want)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), max_size=80))
def test_sorting_is_a_stable_permutation(numbers):
    x = tn.asarray(np.float32(numbers).reshape(-1))
    order = tn.argsort(x).numpy()
    assert sorted(order.tolist()) == list(range(len(numbers)))
    moved = np.float32(numbers).reshape(-1)[order]
    clean = moved[~np.isnan(moved)]
    assert (clean[:-1] <= clean[1:]).all()
    assert np.isnan(moved[len(clean) :]).all()
    for a, b, i, j in zip(moved[:-1], moved[1:], order[:-1], order[1:], strict=True):
        assert i < j or a < b or (np.isnan(b) and not np.isnan(a))


def test_nan_is_last_in_both_directions_and_equal_elements_keep_their_order():
    x = tn.asarray([2.0, float("nan"), 1.0, 2.0, -0.0, 0.0])
    assert tn.argsort(x).tolist() == [4, 5, 2, 0, 3, 1]
    assert tn.argsort(x, descending=True).tolist() == [0, 3, 2, 4, 5, 1]
    assert np.signbit(tn.sort(x).numpy()[0])


def test_elements_are_moved_not_made_again():
    x = np.array([0x7FC12345, 0x3F800000, 0x80000000], np.uint32)
    assert tn.sort(tn.asarray(x.view(np.float32))).numpy().view(np.uint32).tolist() == [
        0x80000000,
        0x3F800000,
        0x7FC12345,
    ]


def test_top_k_refuses_what_is_not_there():
    x = tn.zeros((2, 3))
    for k in (-1, 4):
        with pytest.raises(ShapeError, match=rf"^top_k: k must be from 0 to 3, the size along axis 1, got {k}$"):
            tn.top_k(x, k)
    assert tn.top_k(x, 0)[0].shape == (2, 0)
    assert tn.top_k(tn.full((4,), float("nan")), 2)[1].tolist() == [0, 1]
    with pytest.raises(AxisError, match=r"^sort: axis 2 is out of range for 2 dimensions$"):
        tn.sort(x, axis=2)
    with pytest.raises(DtypeError, match=r"^argsort: complex64 is not computed with"):
        tn.argsort(tn.asarray([1j]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-4, 4), max_size=50))
def test_distinct_values_are_numpys(numbers):
    array = np.array(numbers, np.int32)
    found = tn.unique_all(tn.asarray(array))
    want = np.unique(array, return_index=True, return_inverse=True, return_counts=True)
    for mine, theirs in zip(found, want, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_every_nan_is_distinct_and_the_zeros_are_one():
    nan = float("nan")
    found = tn.unique_all(tn.asarray([nan, 0.0, -0.0, nan]))
    assert found.counts.tolist() == [2, 1, 1]
    assert found.indices.tolist() == [1, 0, 3]
    assert found.inverse_indices.tolist() == [1, 0, 0, 2]


def test_complex_numbers_are_distinct_in_both_parts():
    x = tn.asarray([1 + 2j, 1 + 1j, 1 + 2j, 0 + 5j])
    found = tn.unique_all(x)
    assert found.values.tolist() == [5j, 1 + 1j, 1 + 2j]
    assert found.counts.tolist() == [1, 1, 2]
    assert found.inverse_indices.tolist() == [2, 1, 2, 0]


def test_searchsorted_takes_a_sorter_and_names_what_is_wrong():
    x = tn.asarray([3, 1, 2])
    assert tn.searchsorted(x, tn.asarray([2]), sorter=tn.argsort(x)).tolist() == [1]
    with pytest.raises(ValueError, match=r"^searchsorted: side must be 'left' or 'right', got 'middle'$"):
        tn.searchsorted(x, x, side="middle")
    with pytest.raises(ShapeError, match=r"^searchsorted: x1 must have one dimension, got shape \(1, 3\)$"):
        tn.searchsorted(x.reshape((1, 3)), x)


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_orders_do_not_depend_on_threads(threads, number):
    x = values((50, 3000), "float32", few=True)
    threads(number)
    assert np.array_equal(tn.argsort(x).numpy(), sort_ref.argsort(array_of(x), 1, False))


def test_gradients_go_back_where_the_elements_came_from():
    x = tn.asarray([3.0, 1.0, 2.0]).requires_grad_()
    (tn.sort(x) * tn.asarray([10.0, 20.0, 30.0])).sum().backward()
    assert x.grad.tolist() == [30, 10, 20]
    x.grad = None
    values_only, _ = tn.top_k(x, 2)
    (values_only * tn.asarray([1.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [1, 0, 2]
