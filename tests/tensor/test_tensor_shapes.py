"""Creation and manipulation, compared with numpy; what is a view stays one."""

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
GIVEN = settings(max_examples=100, deadline=None)


def pair(shape: tuple[int, ...], order: Any = None) -> tuple[Any, np.ndarray]:
    a = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    if order is not None:
        a = a.transpose(order)
    return tn.asarray(a.copy() if order is None else a), a


def same(x: Any, a: np.ndarray) -> None:
    assert x.shape == a.shape
    assert x.tolist() == a.tolist()


@GIVEN
@given(st.data(), SHAPES)
def test_reshape_gives_numpys_elements_and_a_view_where_numpy_gives_one(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    x, a = pair(shape, data.draw(st.permutations(range(len(shape)))))
    a = a[data.draw(hnp.basic_indices(a.shape, allow_ellipsis=False))]
    if np.ndim(a) == 0:
        a = np.asarray(a).reshape(())
    x = tn.asarray(a)
    factors = [d for d in range(1, a.size + 1) if a.size % d == 0] or [1]
    first = data.draw(st.sampled_from(factors))
    target = data.draw(st.sampled_from([(first, -1), (-1, first), (1, first, -1, 1), (-1,)])) if a.size else (0, 5)
    y, b = x.reshape(target), a.reshape(target)
    same(y, b)
    if a.size:
        assert (y.data_address == x.data_address) == np.shares_memory(a, b)
        if np.shares_memory(a, b):
            same(x.reshape(target, copy=False), b)
        else:
            with pytest.raises(ValueError, match=r"^reshape: the strides allow no view"):
                x.reshape(target, copy=False)
    assert a.size == 0 or not np.shares_memory(x.reshape(target, copy=True).numpy(), a)


@GIVEN
@given(st.data(), SHAPES)
def test_orders_and_new_dimensions(data: st.DataObject, shape: tuple[int, ...]) -> None:
    x, a = pair(shape)
    order = data.draw(st.permutations(range(len(shape))))
    same(tn.permute_dims(x, order), a.transpose(order))
    same(tn.flip(x), np.flip(a))
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(tn.expand_dims(x, axis=axis), np.expand_dims(a, axis))
    same(tn.expand_dims(x, axis), np.expand_dims(a, axis))
    same(tn.squeeze(tn.expand_dims(x, axis=axis), axis), a)
    if shape:
        axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda k: k % len(shape)))
        same(tn.flip(x, axis=tuple(axes)), np.flip(a, tuple(axes)))
        k = data.draw(st.integers(-9, 9))
        one = data.draw(st.integers(-len(shape), len(shape) - 1))
        same(tn.roll(x, k, axis=one), np.roll(a, k, one))
        same(tn.roll(x, k), np.roll(a, k))
        to = data.draw(st.integers(-len(shape), len(shape) - 1))
        same(tn.moveaxis(x, one, to), np.moveaxis(a, one, to))
        same(tn.repeat(x, 3, axis=one), np.repeat(a, 3, one))
        counts = data.draw(hnp.arrays(np.int64, shape[one], elements=st.integers(0, 3)))
        same(tn.repeat(x, tn.asarray(counts), axis=one), np.repeat(a, counts, one))
        same(tn.concat([x, x], axis=one), np.concatenate([a, a], one))
        pieces = tn.unstack(x, axis=one)
        assert len(pieces) == shape[one]
        for piece, want in zip(pieces, np.moveaxis(a, one, 0), strict=True):
            same(piece, want)
    same(tn.stack([x, x], axis=axis), np.stack([a, a], axis))
    times = tuple(data.draw(st.lists(st.integers(0, 3), max_size=5)))
    same(tn.tile(x, times), np.tile(a, times))
    widths = [data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape]
    same(tn.pad(x, widths, value=7), np.pad(a, widths, constant_values=7) if shape else a)


@GIVEN
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_side=3))
def test_broadcasting(shapes: Any) -> None:
    (one, two), result = shapes.input_shapes, shapes.result_shape
    x, a = pair(one)
    assert tn.broadcast_shapes(one, two) == result
    same(tn.broadcast_to(x, result), np.broadcast_to(a, result))
    y, b = pair(two)
    for ours, theirs in zip(tn.broadcast_arrays(x, y), np.broadcast_arrays(a, b), strict=True):
        same(ours, theirs)


def test_shape_operations_are_views_that_run_no_kernel() -> None:
    x = tn.arange(24).reshape(2, 3, 4)
    views = [
        x.permute(2, 0, 1), x.mT, x[0].T, x.expand(5, 2, 3, 4), tn.flip(x), x.unsqueeze(1), x.unsqueeze(1).squeeze(),
        x.flatten(), x.flatten(1, 2), x.reshape(4, 6), x[:, 1:, ::-2], x[None], tn.moveaxis(x, 0, 2), x.transpose(0, 2),
        *tn.split(x, 2, axis=2), *tn.chunk(x, 3, axis=1), *tn.unstack(x), *tn.meshgrid(tn.arange(2), tn.arange(3)),
    ]  # fmt: skip
    with tn.budget(0) as nothing:
        for view in views:
            assert view.is_view
            assert view[...].is_view
    assert nothing.peak_bytes == 0
    x.zero_()
    assert all(not any(v.reshape((-1,)).tolist()) for v in views[:-2])


@GIVEN
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-7, 7).filter(bool))
def test_arange_counts_as_range_does(start: int, stop: int, step: int) -> None:
    assert tn.arange(start, stop, step).tolist() == list(range(start, stop, step))
    want = np.arange(start, stop, step / 4)
    got = tn.arange(start, stop, step / 4, dtype=tn.float64)
    assert got.tolist() == want.tolist()


def test_ranges_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OverflowError):
        tn.arange(0, 300, dtype=tn.int8)
    with pytest.raises(ValueError, match=r"^arange: step must not be 0$"):
        tn.arange(0, 1, 0)
    with pytest.raises(tn.DtypeError):
        tn.arange(0.0, 1.0, 0.5, dtype=tn.int32)
    with pytest.raises(ValueError, match=r"^linspace: num must not be negative, got -1$"):
        tn.linspace(0, 1, -1)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5, 50])
def test_linspace_meets_its_ends(num: int, endpoint: bool) -> None:
    got = tn.linspace(-1, 2, num, dtype=tn.float64, endpoint=endpoint)
    np.testing.assert_allclose(got.numpy(), np.linspace(-1, 2, num, endpoint=endpoint), rtol=1e-15, atol=1e-15)
    if num > 1 and endpoint:
        assert got[-1].item() == 2
    assert tn.linspace(0, 1 + 1j, num, endpoint=endpoint).dtype == tn.complex64
    assert tn.linspace(0, 10, num, dtype=tn.int32, endpoint=endpoint).tolist() == list(
        np.linspace(0, 10, num, endpoint=endpoint, dtype=np.int32)
    )


@pytest.mark.parametrize("k", [-5, -2, -1, 0, 1, 2, 5])
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (3, 3), (2, 5), (5, 2)])
def test_diagonals_and_triangles(rows: int, columns: int, k: int) -> None:
    same(tn.eye(rows, columns, k=k, dtype=tn.int32), np.eye(rows, columns, k=k, dtype=np.int32))
    x, a = pair((2, rows, columns))
    same(tn.tril(x, k=k), np.tril(a, k=k))
    same(tn.triu(x, k=k), np.triu(a, k=k))


def test_meshgrid_gives_numpys_grids() -> None:
    ours = [tn.arange(n) for n in (2, 3, 4)]
    theirs = [np.arange(n) for n in (2, 3, 4)]
    for indexing in ("xy", "ij"):
        for count in (1, 2, 3):
            for x, a in zip(
                tn.meshgrid(*ours[:count], indexing=indexing),
                np.meshgrid(*theirs[:count], indexing=indexing),
                strict=True,
            ):
                same(x, a)
    assert isinstance(tn.meshgrid(*ours), list)  # as the standard wants it
    with pytest.raises(ValueError, match="indexing must be 'xy' or 'ij', got 'xx'"):
        tn.meshgrid(ours[0], indexing="xx")


def test_likes_and_fulls() -> None:
    x = tn.zeros((2, 3), dtype=tn.int16)
    for made in (tn.empty_like(x), tn.zeros_like(x), tn.ones_like(x), tn.full_like(x, 7)):
        assert made.shape == (2, 3)
        assert made.dtype == tn.int16
    assert tn.full((), 1.5).dtype == tn.float32
    assert tn.full(3, tn.asarray(2)).tolist() == [2, 2, 2]
    assert tn.full((2,), True).dtype == tn.bool
    with pytest.raises(tn.DtypeError, match=r"^int8 cannot hold 1.5 of type float$"):
        tn.full(2, 1.5, dtype=tn.int8)
    with pytest.raises(OverflowError):
        tn.full(2, 300, dtype=tn.int8)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.reshape(5), tn.ShapeError, "reshape: a tensor of shape (2, 3) has no shape (5,)"),
        (lambda x: x.reshape(-1, -1), tn.ShapeError, "reshape: a tensor of shape (2, 3) has no shape (-1, -1)"),
        (lambda x: x.reshape(0, -1), tn.ShapeError, "reshape: a tensor of shape (2, 3) has no shape (0, -1)"),
        (
            lambda x: x.reshape(2**62, 2**62),
            tn.ShapeError,
            f"reshape: a tensor of shape (2, 3) has no shape ({2**62}, {2**62})",
        ),
        (lambda x: x.reshape("a"), TypeError, "reshape: expected ints, got 'a'"),
        (lambda x: x.permute(0), tn.AxisError, "permute: 1 axes named for 2 dimensions"),
        (lambda x: x.permute(0, 0), tn.AxisError, "permute: axis 0 is named twice"),
        (lambda x: x.permute(0, 2), tn.AxisError, "permute: axis 2 is out of range for 2 dimensions"),
        (lambda x: x.expand(2, 4), tn.ShapeError, "expand: a tensor of shape (2, 3) does not broadcast to (2, 4)"),
        (lambda x: x.squeeze(0), tn.ShapeError, "squeeze: dimension 0 has 2 elements, not 1"),
        (lambda x: x[0].T, tn.ShapeError, "T: needs two dimensions, the tensor has 1 (hint: .mT or permute)"),
        (lambda x: tn.concat([]), tn.ShapeError, "concat: needs at least one tensor"),
        (lambda x: tn.concat([x, x.T]), tn.ShapeError, "cat: shapes (2, 3) and (3, 2) differ besides axis 0"),
        (lambda x: tn.stack([x, x.T]), tn.ShapeError, "stack: shapes (2, 3) and (3, 2) differ"),
        (lambda x: tn.flip(x, axis=2), tn.AxisError, "flip: axis 2 is out of range for 2 dimensions"),
        (lambda x: tn.pad(x, [(1, 1)]), tn.ShapeError, "pad: 1 pairs of widths for 2 dimensions"),
        (lambda x: tn.split(x, [1, 2]), tn.ShapeError, "split: sizes [1, 2] do not add up to the 2 elements of axis 0"),
        (
            lambda x: _kernels.strided_view(x, 0, (7,), (1,)),
            ValueError,
            "strided_view: the view would leave the storage",
        ),
        (
            lambda x: _kernels.strided_view(x, 0, (2,), (2**62,)),
            ValueError,
            "strided_view: the view would leave the storage",
        ),
        (
            lambda x: _kernels.strided_view(x, -1, (1,), (1,)),
            ValueError,
            "strided_view: the view would leave the storage",
        ),
    ],
)
def test_what_does_not_fit_is_said(call: Any, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.zeros((2, 3)))
    assert str(caught.value) == text


def test_mixed_types_join_in_their_common_type() -> None:
    assert tn.concat([tn.zeros(1, dtype=tn.int8), tn.zeros(1, dtype=tn.int32)]).dtype == tn.int32
    assert tn.stack([tn.zeros(1), tn.zeros(1, dtype=tn.float64)]).dtype == tn.float64


def test_kinds_limits_and_casts() -> None:
    assert tn.isdtype(tn.int8, "signed integer")
    assert not tn.isdtype(tn.bool, "numeric")
    assert tn.finfo(tn.float64).eps == np.finfo(np.float64).eps
    assert tn.finfo(tn.float32).smallest_normal == float(np.finfo(np.float32).smallest_normal)
    assert tn.finfo(tn.complex64).dtype == tn.float32
    assert tn.iinfo(tn.uint64).max == 2**64 - 1
    assert tn.can_cast(tn.float32, tn.complex128)
    assert not tn.can_cast(tn.uint64, tn.int64)
    with pytest.raises(tn.DtypeError):
        tn.iinfo(tn.float32)
    with pytest.raises(tn.DtypeError):
        tn.finfo(tn.int8)
    with pytest.raises(ValueError, match="isdtype: kind must be"):
        tn.isdtype(tn.int8, "integer")
    assert tn.astype(tn.ones(2), tn.float32) is not None
    x = tn.ones(2)
    assert tn.astype(x, tn.float32, copy=False) is x
    assert tn.astype(x, tn.float32) is not x
    with pytest.raises(tn.DtypeError, match=r"has two parts, float32 one \(hint: tensor.real\(x\)\)$"):
        tn.astype(tn.ones(2, dtype=tn.complex64), tn.float32)
