"""Changes in place: as if the source were copied, counted by versions, and never behind a gradient's back."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor as tn
from tensor import _kernels

OPERATORS = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.imod, operator.ifloordiv]


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(OPERATORS))
def test_overlapping_operands_give_what_copied_ones_give(data: st.DataObject, change: Any) -> None:
    n = data.draw(st.integers(1, 6))
    a = np.arange(1.0, 13.0, dtype=np.float32)
    x = tn.asarray(a.copy())
    start, step = data.draw(st.integers(0, 2)), data.draw(st.sampled_from([1, 2, -1]))
    key = slice(start, start + n * step, step) if step > 0 else slice(start + n, start, -1)
    other = slice(0, n, 1)
    target, source = x[key], x[other]
    if target.size != source.size:
        return
    expected = getattr(operator, change.__name__[1:])(source.clone().numpy() * 0 + target.numpy(), source.numpy())
    before = x.clone()
    result = change(target, source)
    assert result is target
    assert target.tolist() == getattr(operator, change.__name__[1:])(before[key], before[other]).tolist()
    assert target.shape == expected.shape


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(-8, 8, width=32)), st.sampled_from(OPERATORS[:4]))
def test_in_place_equals_out_of_place_to_the_bit(a: np.ndarray, change: Any) -> None:
    b = np.linspace(1, 2, 4, dtype=np.float32)
    x = tn.asarray(a.copy())
    for layout in (x, x.T.contiguous().T, x[::-1]):
        want = getattr(operator, change.__name__[1:])(layout, tn.asarray(b))
        got = change(layout, tn.asarray(b))
        assert np.array_equal(got.numpy(), want.numpy(), equal_nan=True)


def test_each_change_counts_once_in_the_version_of_the_storage() -> None:
    x = tn.zeros((2, 2))
    view = x[0]
    for k, change in enumerate(
        (
            lambda: x.__iadd__(1.0),
            lambda: view.__imul__(2.0),
            lambda: x.__setitem__(0, 5.0),
            view.zero_,
            lambda: x.copy_(tn.ones((2, 2))),
            lambda: x.__setitem__(tn.asarray([0]), 1.0),
        )
    ):
        change()
        assert x.version == view.version == k + 1


def test_backward_refuses_what_was_changed_after_it_was_saved_and_names_it() -> None:
    x = tn.asarray([1.0, 2.0]).requires_grad_()
    w = tn.asarray([3.0, 4.0])
    y = x * w
    w += 1.0
    with pytest.raises(tn.GradientError) as caught:
        _ = y.node.inputs
    assert str(caught.value) == (
        "backward of mul: input 1 (float32[2]) was changed in place after it was saved: version 0 then, 1 now "
        "(hint: x = x + y instead of x += y, or .clone() before)"
    )


def test_a_leaf_cannot_be_changed_while_operations_are_recorded() -> None:
    x = tn.zeros(2).requires_grad_()
    text = (
        "add: a leaf that requires a gradient cannot be changed in place while operations are recorded "
        "(hint: with tensor.no_grad():)"
    )
    with pytest.raises(tn.GradientError) as caught:
        x += 1.0
    assert str(caught.value) == text
    with pytest.raises(tn.GradientError):
        x[0] = 1.0
    with pytest.raises(tn.GradientError):
        x[tn.asarray([0])] = 1.0
    before = _kernels.set_grad_mode(False)
    try:
        x += 1.0
    finally:
        _kernels.set_grad_mode(before)
    assert x.tolist() == [1, 1]
    assert x.requires_grad


def test_a_tensor_with_history_gets_the_new_operation_in_front_of_the_old_one() -> None:
    x = tn.ones(3).requires_grad_()
    y = x * 2.0
    first = y.node
    y += 1.0
    assert y.node.primitive.name == "add"
    assert y.node.edges[0][0] is first
    y[1] = 7.0
    assert y.node.primitive.name == "index_update"
    assert y.tolist() == [3, 7, 3]
    assert y.requires_grad


def test_a_shared_view_gets_no_history_in_place() -> None:
    x = tn.ones(3).requires_grad_()
    y = x * 2.0
    view = y[1:]
    with pytest.raises(tn.GradientError, match=r"^mul: a view that shares its elements cannot get a new history"):
        view *= 2.0
    plain = tn.zeros(3)[1:]  # its base is gone: nobody else looks
    plain += x[1:]
    assert plain.requires_grad


def test_broadcast_views_and_wrong_shapes_cannot_be_changed() -> None:
    wide = tn.zeros(1).expand(3)
    with pytest.raises(tn.ReadOnlyError, match=r"^add: a broadcast view cannot be changed in place"):
        wide += 1.0
    with pytest.raises(tn.ReadOnlyError):
        wide[0:2] = 1.0
    x = tn.zeros(3)
    with pytest.raises(tn.ShapeError, match=r"^add: a tensor of shape \(3,\) cannot take a result of shapes"):
        x += tn.zeros((2, 3))
    i = tn.zeros(3, dtype=tn.int32)
    with pytest.raises(tn.DtypeError, match=r"^in place: int32 cannot take the float32"):
        i += 1.5
    with pytest.raises(tn.DtypeError, match=r"^in place: int32 cannot take the float32"):
        i += tn.zeros(3)
    i += tn.ones(3, dtype=tn.int8)
    assert i.tolist() == [1, 1, 1]


def test_a_change_of_the_same_tensor_by_itself_keeps_both_gradients_right() -> None:
    x = tn.asarray([2.0, 3.0]).requires_grad_()
    y = x + 0.0
    y *= y
    a, b = y.node.inputs
    assert a.tolist() == b.tolist() == [2, 3]
    assert y.tolist() == [4, 9]


def test_checked_mode_refuses_changes_of_shared_views() -> None:
    x = tn.zeros(4)
    view = x[1:]
    before = _kernels.set_checked_mode(True)
    try:
        with pytest.raises(
            tn.ReadOnlyError, match="checked mode: in place on a view whose elements another tensor shares"
        ):
            view += 1.0
        del x
        view += 1.0
    finally:
        _kernels.set_checked_mode(before)


def test_nodes_save_what_the_gradient_reads_and_specs_of_the_rest() -> None:
    x = tn.ones(3).requires_grad_()
    w = tn.ones(3)
    y = x + w
    assert all(isinstance(v, _kernels.Spec) for v in (*y.node.inputs, *y.node.outputs))
    z = x * w
    assert isinstance(z.node.inputs[0], _kernels.Spec)  # only w's gradient would read it
    assert z.node.edges[0] is x
    assert z.node.edges[1] is None
    assert z.node.needs == (True, False)
    assert z.node.sequence > y.node.sequence
    z.node.release()
    assert z.node.released
    with pytest.raises(tn.GradientError, match=r"^backward of mul: what it saved is gone"):
        _ = z.node.inputs


def test_nothing_is_recorded_when_nobody_wants_a_gradient() -> None:
    x = tn.ones(3)
    assert (x * x).node is None
    y = tn.ones(3).requires_grad_()
    before = _kernels.set_grad_mode(False)
    try:
        assert (y * y).node is None
        assert not y[0].requires_grad
    finally:
        _kernels.set_grad_mode(before)
    assert not y.detach().requires_grad
    assert (y > 0).node is None


@pytest.mark.parametrize("dtype", [d.name for d in _kernels.DTYPES])
def test_the_method_sum_is_the_function_sum(dtype: str) -> None:
    x = tn.arange(24, dtype=tn.int8).to(dtype).reshape(2, 3, 4)
    for view in (x, x.permute(2, 0, 1), x[:, ::-2], x[:0]):
        for axis in (None, 0, -1, (0, 2), ()):
            for keepdims in (False, True):
                got, want = view.sum(axis, keepdims=keepdims), tn.sum(view, axis=axis, keepdims=keepdims)
                assert got.dtype == want.dtype
                assert got.shape == want.shape
                assert got.tolist() == want.tolist()
    assert x.sum(dtype=tn.complex128).dtype == tn.complex128
    for wrong in (3, -4, (0, 0)):
        with pytest.raises((ValueError, IndexError)):
            x.sum(wrong)


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.__imul__(3.0),
        lambda y: y.__setitem__(0, 7.0),
        lambda y: y.__setitem__(..., y * 2),
        lambda y: y.__setitem__(tn.asarray([1]), 5.0),
    ],
)
@pytest.mark.parametrize("use", [lambda v: v.sum().backward(), lambda v: v[0].backward(), lambda v: v * 2])
def test_a_view_from_before_a_recorded_change_of_its_base_is_refused(change, use) -> None:
    x = tn.asarray([1.0, 2.0, 3.0]).requires_grad_()
    y = x * 1
    before = y[:2]
    change(y)
    with pytest.raises(
        tn.GradientError, match=r"the view float32\[\d?\] was made before its base was changed in place"
    ):
        use(before)
    again = y[:2]
    again.sum().backward()
    assert x.grad.tolist() == tn.autograd.grad(lambda x: changed(x, change))(x.detach()).tolist()


def changed(x: tn.Tensor, change) -> tn.Tensor:
    y = x * 1
    change(y)
    return y[:2].sum()


def test_a_view_of_what_changed_without_a_record_keeps_its_history() -> None:
    x = tn.asarray([1.0, 2.0, 3.0]).requires_grad_()
    y = x * 1
    view = y[:2]
    with tn.no_grad():
        y *= 3.0
    y.detach()[...] += 1.0
    view.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("parts", [lambda y: y[0], lambda y: tn.unstack(y)[0], lambda y: y[:1].reshape(())])
def test_a_number_looked_at_before_a_recorded_change_starts_no_backward(parts) -> None:
    x = tn.asarray([1.0, 2.0]).requires_grad_()
    y = x * 1
    first = parts(y)
    y *= 3.0
    with pytest.raises(
        tn.GradientError, match=r"^backward: the view float32\[\] was made before its base was changed in place"
    ):
        first.backward()
    assert x.grad is None
