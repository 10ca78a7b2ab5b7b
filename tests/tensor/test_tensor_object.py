"""The tensor object: attributes, numbers in and out, sizes, subclasses, how it prints."""

from __future__ import annotations

import gc
import math
import re
import struct
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import _kernels
from tensor.errors import TraceError

DTYPES = [d.name for d in _kernels.DTYPES]
INTEGERS = [d for d in DTYPES if "int" in d]
FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}


def bits(x: Any) -> bytes:
    """The elements' bytes in C order."""
    plain = _kernels.bitcast(x, "uint16") if x.dtype == "bfloat16" else x
    return memoryview(plain.contiguous()).tobytes()


def test_a_tensor_says_what_it_is() -> None:
    x = tn.zeros((2, 3), dtype=tn.int16)
    assert (x.shape, x.strides, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), (3, 1), 2, 6, 2, 12)
    assert x.dtype is tn.int16
    assert x.device is tn.Device.cpu
    assert x.memory_space is tn.MemorySpace.host
    assert x.data_address % 64 == 0
    assert (x.requires_grad, x.is_leaf, x.is_view, x.node, x.grad) == (False, True, False, None, None)
    assert x.T.strides == (1, 3)
    assert x[::-1].strides == (-3, 1)
    assert x.expand(4, 2, 3).strides == (0, 3, 1)
    assert x.T.is_contiguous() is False
    assert x.T.contiguous().strides == (2, 1)
    assert x.contiguous() is x


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_single_objects_that_know_their_names(dtype: str) -> None:
    d = getattr(tn, dtype)
    assert d is _kernels.Dtype(dtype)
    assert d == dtype
    assert d != "float8"
    assert hash(d) == hash(dtype)
    assert str(d) == d.name == dtype
    assert repr(d) == f"tensor.{dtype}"
    assert tn.zeros(2, dtype=dtype).dtype is d
    assert d.itemsize * 8 == {"bool": 8, "complex64": 64, "complex128": 128}.get(dtype) or d.itemsize * 8 == int(
        dtype.lstrip("bfloatuin") or 0
    )


def test_dtypes_come_by_other_names_too() -> None:
    assert _kernels.Dtype(np.float32) is tn.float32
    assert _kernels.Dtype(np.dtype("int8")) is tn.int8
    assert _kernels.Dtype(bool) is tn.bool
    assert _kernels.Dtype(float) is tn.float32
    for wrong in ("float8", 5, None, np.dtype(">U3"), object):
        with pytest.raises(tn.DtypeError, match=r"^dtype must be one of tensor's element types"):
            _kernels.Dtype(wrong)


@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**62, 2), (2**61,), (2**63 - 1,), (0, 2**62, 2**62), (2**70,)])
def test_a_shape_with_more_bytes_than_addresses_is_refused_before_allocation(shape: tuple[int, ...]) -> None:
    with tn.budget(2**62) as b, pytest.raises(ValueError, match=r"^(empty|full)"):
        tn.zeros(shape, dtype=tn.float64)
    assert b.peak_bytes == 0


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(tn.ShapeError, match=r"^full: shape must not be negative, got -1$"):
        tn.zeros((2, -1))
    with pytest.raises(tn.ShapeError, match=r"^full: a tensor has at most 16 dimensions, got 17$"):
        tn.zeros((1,) * 17)
    with pytest.raises(TypeError, match=r"^full: shape must be an int or a sequence of ints, got 1.5$"):
        tn.zeros(1.5)
    with pytest.raises(MemoryError, match="bytes are not to be had"):
        tn.empty(2**46)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_at_the_ends_of_a_type_fit_and_one_further_does_not(dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert tn.asarray([low, high], dtype=dtype).tolist() == [low, high]
    for outside in (low - 1, high + 1, 2**200, -(2**200)):
        with pytest.raises(OverflowError, match=f"^{dtype} holds integers from {low} to {high}, got {outside}$"):
            tn.asarray(outside, dtype=dtype)
        with pytest.raises(OverflowError):
            tn.zeros(2, dtype=dtype) + outside


@settings(max_examples=300, deadline=None)
@given(st.floats() | st.floats(width=16) | st.floats(width=32) | st.integers(-(2**70), 2**70))
def test_a_number_is_rounded_once(value: float) -> None:
    for dtype in FLOATS:
        whole = isinstance(value, int) and dtype == "float32" and abs(value) < 2**63  # in one rounding
        with np.errstate(over="ignore"):
            want = np.array(value, np.int64 if whole else np.float64).astype(dtype)
        got = tn.asarray(value, dtype=dtype)
        if math.isnan(value):
            assert bits(got) in (b"\x00\x7e", b"\x00\x00\xc0\x7f", struct.pack("<Q", 0x7FF8 << 48))
        else:
            assert bits(got) == want.tobytes()
            assert got.item() == want.item()


@pytest.mark.parametrize(
    ("value", "pattern"),
    [(1 + 2**-8, 0x3F80), (1 + 3 * 2**-8, 0x3F82), (3.4e38, 0x7F80), (-0.0, 0x8000), (2.0**-133, 1), (2.0**-134, 0)],
)
def test_bfloat16_rounds_to_nearest_even(value: float, pattern: int) -> None:
    assert bits(tn.asarray(value, dtype=tn.bfloat16)) == struct.pack("<H", pattern)


@pytest.mark.parametrize("value", [65519.0, 65520.0, 1 + 2**-11 + 2**-40, 2.0**-24, 2.0**-25, 2.0**-26 * 3, math.inf])
def test_float16_rounds_in_one_step(value: float) -> None:
    with np.errstate(over="ignore"):
        want = np.float64(value).astype(np.float16)
    assert bits(tn.asarray(value, dtype=tn.float16)) == want.tobytes()


def test_numbers_in_lists_find_the_widest_kind() -> None:
    assert tn.asarray([True, False]).dtype == tn.bool
    assert tn.asarray([True, 2]).dtype == tn.int64
    assert tn.asarray([1, 2.5]).dtype == tn.float32
    assert tn.asarray([1.0, 2j]).dtype == tn.complex64
    assert tn.asarray([]).dtype == tn.float32
    assert tn.asarray([[], []]).shape == (2, 0)
    assert tn.asarray([tn.asarray(1), 2, np.float32(3)]).tolist() == [1, 2, 3]
    assert tn.asarray([tn.arange(2), [3, 4]]).tolist() == [[0, 1], [3, 4]]
    assert tn.asarray(((1, 2), [3, 4])).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1, 2], [3]], "asarray: lists of one level must have one length: expected 2 elements, got 1"),
        ([1, [2]], "asarray: lists of one level must have one length: expected 0 elements, got 1"),
        ([[1], 2], "asarray: lists of one level must have one depth: expected a list, got 2"),
        ([[], [1]], "asarray: lists of one level must have one length: expected 0 elements, got 1"),
    ],
)
def test_ragged_lists_are_refused(value: Any, text: str) -> None:
    with pytest.raises(tn.ShapeError) as caught:
        tn.asarray(value)
    assert str(caught.value) == text


def test_lists_that_hold_no_numbers_or_themselves_are_refused() -> None:
    with pytest.raises(tn.DtypeError, match=r"^asarray: an element must be a number, got str$"):
        tn.asarray(["a"])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(tn.ShapeError, match=r"^asarray: lists are nested more than 16 deep$"):
        tn.asarray(loop)


def test_one_element_is_a_python_number() -> None:
    assert float(tn.asarray(1.5)) == 1.5
    assert int(tn.asarray(-1.5)) == -1
    assert complex(tn.asarray(1 + 2j)) == 1 + 2j
    assert bool(tn.asarray([0.0])) is False
    assert tn.asarray([[3]]).item() == 3
    assert [10, 20, 30][tn.asarray(1)] == 20
    with pytest.raises(OverflowError):
        int(tn.asarray(math.inf))
    with pytest.raises(ValueError, match="NaN"):
        int(tn.asarray(math.nan))
    for refused in (
        lambda: float(tn.asarray(1j)),
        lambda: int(tn.asarray(1j)),
        lambda: [1, 2][tn.asarray(1.0)],
        lambda: [1, 2][tn.asarray([1])],
        lambda: bool(tn.zeros(2)),
        lambda: tn.zeros((0,)).item(),
    ):
        with pytest.raises(TypeError):
            refused()


def test_subnormals_go_in_and_out_whatever_mode_the_host_has(hostile_mode: Any) -> None:
    with hostile_mode():
        x = tn.asarray([1e-40, 1 + 2.0**-24], dtype=tn.float32)
        back = x.tolist()
        half = tn.asarray(6e-8, dtype=tn.float16).item()
        steps = tn.arange(0.0, 1.0, 0.1)
        line = tn.linspace(0, 1, 7)
    assert back == [struct.unpack("<f", struct.pack("<f", 1e-40))[0], 1.0]
    assert half == 2.0**-24
    assert bits(steps) == bits(tn.arange(0.0, 1.0, 0.1))
    assert bits(line) == bits(tn.linspace(0, 1, 7))


def test_memory_comes_back_without_the_collector() -> None:
    gc.disable()
    try:
        with tn.budget(10_000_000) as b:
            x = tn.ones(1000).requires_grad_()
            for _ in range(3):
                y = (x * x + 1.0)[1:].reshape(27, 37)
                del y
            assert b.used_bytes == 4000
            del x
            assert b.used_bytes == 0
    finally:
        gc.enable()


def test_a_chain_of_a_hundred_thousand_operations_ends_without_recursion() -> None:
    x = tn.ones(1).requires_grad_()
    y = x
    for _ in range(100_000):
        y = y + 1.0
    last = y.node
    del y
    del last
    z = x
    for _ in range(100_000):
        z = z[0:]
    del z


def test_tensors_have_weak_references_and_an_identity_to_hash() -> None:
    x = tn.ones(1)
    there = weakref.ref(x)
    assert {x: 1}[x] == 1
    assert hash(x) != hash(tn.ones(1))
    del x
    assert there() is None


def test_a_subclass_holds_a_tensor_or_stands_for_one() -> None:
    class Weight(tn.Tensor):
        pass

    w = Weight(tn.ones(3))
    w.name = "w"
    assert isinstance(w, Weight)
    assert (w + 1.0).tolist() == [2, 2, 2]
    assert type(w + 1.0) is tn.Tensor
    assert Weight([1, 2]).tolist() == [1, 2]
    traced = Weight(_kernels.Spec((2, 3), "float32"), traced=True)
    assert traced.shape == (2, 3)
    assert traced.is_traced
    with pytest.raises(TypeError, match="traced"):
        traced.tolist()
    with pytest.raises(BufferError):
        memoryview(traced)
    with pytest.raises(TypeError, match=r"^Tensor: only a traced tensor can be made of a Spec$"):
        Weight(_kernels.Spec((2, 3), "float32"))
    assert tn.Tensor([1, 2]).tolist() == [1, 2]


def test_specs_compare_by_value() -> None:
    a, b = _kernels.Spec((2, 3), "float32"), _kernels.Spec([2, 3], tn.float32, "cpu")
    assert a == b
    assert hash(a) == hash(b)
    assert a != _kernels.Spec((2, 3), "float32", "ref")
    assert repr(a) == "float32[2, 3]"
    assert (a.shape, a.ndim, a.size, a.nbytes, a.device) == ((2, 3), 2, 6, 24, "cpu")


def test_printing_shows_numbers_type_and_what_follows_it() -> None:
    assert repr(tn.asarray([[1, 2], [30, 4]])) == "tensor([[ 1,  2],\n        [30,  4]], dtype=int64)"
    assert repr(tn.asarray(1.5)) == "tensor(1.5, dtype=float32)"
    assert repr(tn.zeros((0, 3))) == "tensor([], shape=(0, 3), dtype=float32)"
    assert repr(tn.asarray([True])) == "tensor([True], dtype=bool)"
    assert repr(tn.asarray([1.0, math.nan, -math.inf])) == "tensor([  1.,  nan, -inf], dtype=float32)"
    assert repr(tn.asarray([[[1], [2]], [[3], [4]]])) == (
        "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]], dtype=int64)"
    )
    assert ",\n,\n" not in repr(tn.zeros((2, 2, 2, 2)))
    assert "..." in repr(tn.zeros((100, 100)))
    assert len(repr(tn.zeros((100, 100)))) < 1000
    assert repr(tn.ones(1).requires_grad_()).endswith("requires_grad=True)")


def test_to_changes_type_and_device_and_keeps_what_fits() -> None:
    x = tn.asarray([1.0, 2.0])
    assert x.to(tn.float32) is x
    assert x.to("float16").dtype == tn.float16
    assert x.to("ref").device == "ref"
    assert x.to(tn.asarray(1, dtype="int8")).dtype == tn.int8
    assert x.to(x, copy=True) is not x
    assert x.to_device("cpu") is x
    assert (x.to("ref") + x.to("ref")).tolist() == [2, 4]
    with pytest.raises(tn.DeviceError, match=r"^add: inputs must lie on one device, got cpu and ref"):
        x + x.to("ref")
    with pytest.raises(tn.DeviceError, match=r"^device must be 'cpu' or 'ref' \(the twins\), got 'gpu'$"):
        x.to("gpu")
    with pytest.raises(tn.DeviceError):
        tn.zeros(2, device="tpu")


def test_gradients_are_asked_for_on_floats_only() -> None:
    with pytest.raises(tn.DtypeError, match=r"^requires_grad_: only tensors of float and complex types have gradients"):
        tn.zeros(2, dtype=tn.int32).requires_grad_()
    x = tn.zeros(2).requires_grad_()
    with pytest.raises(tn.ShapeError, match=r"^grad: must have the tensor's shape \(2,\), got \(3,\)$"):
        x.grad = tn.zeros(3)
    with pytest.raises(tn.DtypeError, match=r"^grad: must be float32 as the tensor is, got float64$"):
        x.grad = tn.zeros(2, dtype=tn.float64)
    with pytest.raises(TypeError, match="grad: must be a Tensor or None, got int"):
        x.grad = 5
    x.grad = tn.ones(2)
    x.zero_grad()
    assert x.grad is None
    assert not x.requires_grad_(False).requires_grad


def test_one_element_takes_the_formats_of_numbers() -> None:
    assert f"{tn.asarray(2.5):.2f} {tn.asarray([[7]]):03d} {tn.asarray(True)}" == "2.50 007 tensor(True, dtype=bool)"
    with pytest.raises(
        TypeError, match=r"^format: only a tensor of one element is one number, this one has shape \(2,\)$"
    ):
        f"{tn.ones(2):.1f}"
    with pytest.raises(TraceError, match=r"item\(\) of a captured tensor"):
        tn.capture(lambda x: f"{x:.1f}")(tn.ones(1))


def test_names_of_other_libraries_are_answered_with_ours() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'tensor' has no attribute 'scan' \(hint: tensor.autograd.scan\)$"
    ):
        tn.scan  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'tensor' has no attribute 'no_such_name'$"):
        tn.no_such_name  # noqa: B018
    for ours, theirs in tn._SPELLINGS.items():
        for name in theirs.split():
            assert not hasattr(tn, name), name
            found: Any = tn
            for part in re.match(r"[\w.]+", ours.format(name)).group().split("."):  # type: ignore[union-attr]
                found = getattr(found, part)
