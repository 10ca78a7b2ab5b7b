"""x[…] and x[…] = v: numpy's rules, checked against numpy on drawn shapes, strides and indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor as tn
from tensor import _kernels

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
GIVEN = settings(max_examples=150, deadline=None)


def laid_out(shape: tuple[int, ...], layout: int) -> tuple[Any, np.ndarray]:
    """The same numbers as a tensor and an array, in C order, transposed, reversed, or every second of a larger one."""
    a = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float64).reshape(shape)
    x = tn.asarray(a.copy())
    if layout == 1:
        return x.permute(tuple(range(x.ndim))[::-1]), a.transpose()
    if layout == 2:
        key = (slice(None, None, -1),) * a.ndim
        return x[key], a[key]
    if layout == 3 and a.ndim:
        return x[::2], a[::2]
    return x, a


@GIVEN
@given(st.data(), SHAPES, st.integers(0, 3))
def test_ints_slices_new_axes_and_dots_give_numpys_view(
    data: st.DataObject, shape: tuple[int, ...], layout: int
) -> None:
    x, a = laid_out(shape, layout)
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True, max_dims=8))
    got, want = x[key], a[key]
    assert got.shape == np.shape(want)
    assert got.tolist() == np.asarray(want).tolist()
    if got.size:
        assert got.is_view
        assert x.data_address <= got.data_address + 8 * 4**4 * 8  # inside, or before, the same memory


@GIVEN
@given(st.data(), SHAPES.filter(len), st.integers(0, 3))
def test_values_are_written_where_numpy_writes_them(data: st.DataObject, shape: tuple[int, ...], layout: int) -> None:
    x, a = laid_out(shape, layout)
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True, max_dims=8))
    region = np.asarray(a[key]).shape
    shapes = [region, region[1:], (1, *region), tuple(1 for _ in region), ()] if region else [()]
    value_shape = data.draw(st.sampled_from(shapes))
    values = -np.arange(1.0, 1 + np.prod(value_shape)).reshape(value_shape)
    a = a.copy() if not a.flags.writeable else a
    x[key] = tn.asarray(values)
    a[key] = values
    assert x.tolist() == a.tolist()


def draw_mixed(data: st.DataObject, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """An index with at least one array: (as tensors, as arrays)."""
    ours: list[Any] = []
    theirs: list[Any] = []
    common = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    d = 0
    while d < len(shape):
        kind = data.draw(st.sampled_from(["int", "slice", "array", "array", "mask", "none"]))
        n = shape[d]
        if kind == "none":
            ours.append(None)
            theirs.append(None)
            continue
        if kind == "int" and n:
            i = data.draw(st.integers(-n, n - 1))
            ours.append(i)
            theirs.append(i)
        elif kind == "array" and n:
            size = data.draw(st.sampled_from([common, common[1:], tuple(1 for _ in common)]))
            i = data.draw(hnp.arrays(np.int64, size, elements=st.integers(-n, n - 1)))
            ours.append(tn.asarray(i))
            theirs.append(i)
        elif (
            kind == "mask"
            and common == ()
            and d + 1 < len(shape)
            and not any(isinstance(t, np.ndarray) for t in theirs)
        ):
            m = data.draw(hnp.arrays(np.bool_, shape[d : d + 2]))
            ours.append(tn.asarray(m))
            theirs.append(m)
            d += 1
        else:
            s = data.draw(st.slices(n))
            ours.append(s)
            theirs.append(s)
        d += 1
        if len(ours) > 6:
            break
    return tuple(ours), tuple(theirs)


@GIVEN
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4), st.integers(0, 3))
def test_integer_and_boolean_tensors_pick_what_numpy_picks(
    data: st.DataObject, shape: tuple[int, ...], layout: int
) -> None:
    x, a = laid_out(shape, layout)
    ours, theirs = draw_mixed(data, a.shape)
    try:
        want = a[theirs]
    except IndexError:
        with pytest.raises(IndexError):
            x[ours]
        return
    got = x[ours]
    assert got.shape == np.shape(want)
    assert got.tolist() == np.asarray(want).tolist()


@GIVEN
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4), st.integers(0, 3))
def test_values_are_put_where_numpy_puts_them(data: st.DataObject, shape: tuple[int, ...], layout: int) -> None:
    x, a = laid_out(shape, layout)
    ours, theirs = draw_mixed(data, a.shape)
    try:
        region = np.shape(a[theirs])
    except IndexError:
        with pytest.raises(IndexError):
            x[ours] = 0.0
        return
    values = -np.arange(1.0, 1 + np.prod(region)).reshape(region)
    x[ours] = tn.asarray(values)
    a[theirs] = values
    assert x.tolist() == a.tolist()


def test_views_by_index_run_no_kernel_and_share_the_storage() -> None:
    x = tn.zeros((3, 4))
    x[1:, ::2][0, 1] = 5
    assert x[1, 2].item() == 5
    assert x.version == 1


def test_a_slice_assigned_from_an_overlapping_one_is_as_if_copied() -> None:
    x = tn.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = tn.arange(6)
    y[:] = y[::-1]
    assert y.tolist() == [5, 4, 3, 2, 1, 0]
    z = tn.arange(5)
    z[tn.asarray([0, 1, 2])] = z[tn.asarray([2, 1, 0])]
    z[tn.asarray([1, 2, 3])] = z[2:]
    assert z.tolist() == [2, 0, 3, 4, 4]


def test_repeated_places_keep_the_last_value() -> None:
    x = tn.zeros(3, dtype=tn.int64)
    x[tn.asarray([1, 1, 1])] = tn.asarray([7, 8, 9])
    assert x.tolist() == [0, 9, 0]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (2, IndexError, "index: 2 is out of range for dimension 0 of 2 elements"),
        (-3, IndexError, "index: -3 is out of range for dimension 0 of 2 elements"),
        (2**70, IndexError, "cannot fit 'int' into an index-sized integer"),
        ((0, 0, 0), IndexError, "index: 3 indices for 2 dimensions"),
        ((..., 0, ...), IndexError, "index: only one … may stand in an index"),
        ("a", IndexError, "index: expected ints, slices, None, ... or tensors, got str"),
        (1.0, IndexError, "index: expected ints, slices, None, ... or tensors, got float"),
        ([2], IndexError, "index: 2 is out of range for dimension 0 of 2 elements"),
        ([-(2**62)], IndexError, f"index: -{2**62} is out of range for dimension 0 of 2 elements"),
        ([0.5], IndexError, "index: a tensor as index must hold integers or booleans, got float32"),
        ([True], IndexError, "index: a boolean index of shape (1,) does not fit dimensions of shape (2,)"),
        (([0, 1], [0, 1, 2]), IndexError, "index: shapes (2,) and (3,) do not broadcast"),
        ((None,) * 15 + (0, 0, 0), IndexError, "index: 3 indices for 2 dimensions"),
    ],
)
def test_an_index_that_does_not_fit_is_an_error_and_reads_nothing(key: Any, error: type, text: str) -> None:
    x = tn.zeros((2, 3))
    with pytest.raises(error) as caught:
        x[key]
    assert str(caught.value) == text
    with pytest.raises(error):
        x[key] = 1.0


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (0, 0)])
def test_a_boolean_index_with_no_elements_names_no_place(shape: tuple[int, ...]) -> None:
    x = tn.ones((2, 3))
    empty = tn.zeros(shape, dtype=tn.bool)
    assert x[empty].shape == (0, *(2, 3)[len(shape) :])
    x[empty] = 7
    assert x.tolist() == [[1] * 3] * 2
    with pytest.raises(
        IndexError, match=r"^index: a boolean index of shape \(0, 2\) does not fit dimensions of shape "
    ):
        x[tn.zeros((0, 2), dtype=tn.bool)]
    with pytest.raises(IndexError):
        x[tn.zeros((0, 0, 0), dtype=tn.bool)]


def test_more_dimensions_than_sixteen_are_refused() -> None:
    x = tn.zeros((1, 1))
    assert x[(None,) * 14].ndim == 16
    with pytest.raises(tn.ShapeError, match=r"^index: a tensor has at most 16 dimensions$"):
        x[(None,) * 15]


def test_values_that_do_not_fit_are_refused() -> None:
    x = tn.zeros((2, 3), dtype=tn.int8)
    with pytest.raises(tn.ShapeError, match=r"^x\[...\] = y: values of shape \(2,\) do not broadcast to \(3,\)$"):
        x[0] = tn.zeros(2, dtype=tn.int8)
    with pytest.raises(OverflowError, match=r"^int8 holds integers from -128 to 127, got 128$"):
        x[0] = 128
    with pytest.raises(tn.DtypeError, match=r"^x\[...\] = y: int8 cannot take float32 \(hint: y.to\(int8\)\)$"):
        x[0] = tn.zeros(3)
    with pytest.raises(tn.DtypeError, match=r"^int8 cannot hold 1.5 of type float$"):
        x[0] = 1.5
    with pytest.raises(TypeError, match="cannot be deleted"):
        del x[0]
    assert x.tolist() == [[0] * 3] * 2


def test_a_zero_dimensional_integer_tensor_is_an_index() -> None:
    x = tn.arange(5)
    assert x[tn.asarray(2)].ndim == 0
    assert x[tn.asarray(-1)].item() == 4
    assert x[: tn.asarray(3)].tolist() == [0, 1, 2]
    assert x[np.int32(1)].item() == 1


def test_iteration_length_and_membership() -> None:
    x = tn.asarray([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert len(x) == 2
    assert x[0].is_view
    with pytest.raises(TypeError, match="without dimensions has no length"):
        len(tn.asarray(1))
    with pytest.raises(TypeError, match="iteration over a tensor without dimensions"):
        iter(tn.asarray(1))


def test_the_view_of_a_rows_params_never_leaves_the_tensor() -> None:
    x = tn.zeros((2, 3))
    assert _kernels.index_view(x, (1, (2, 3, -1))).shape == (3,)
    for bad in [
        (2, 0),
        (0,),
        ((0, 3, 1), 0),
        ((1, 2, -2), 0),
        ((0, 2, 2**62), 0),
        ((-1, 1, 1), 0),
        (0, 0, 0),
        ((0, -1, 1), 0),
    ]:
        with pytest.raises(IndexError):
            _kernels.index_view(x, bad)
