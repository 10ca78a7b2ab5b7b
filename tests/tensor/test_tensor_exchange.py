"""Memory shared with other libraries: buffers, numpy, DLPack both ways; what is hostile is refused."""

from __future__ import annotations

import array
import copy
import ctypes
import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor as tn
from tensor import _kernels

NUMPY = [d.name for d in _kernels.DTYPES if d.name != "bfloat16"]


def numbers(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", NUMPY)
def test_an_array_and_a_tensor_share_memory_both_ways(dtype: str) -> None:
    a = numbers(dtype)
    x = tn.asarray(a)
    assert x.dtype == dtype
    assert x.shape == (3, 4)
    assert x.data_address == a.__array_interface__["data"][0]
    assert x.tolist() == a.tolist()
    b = np.asarray(x)
    assert b.dtype == a.dtype
    assert np.shares_memory(a, b)
    c = x.numpy()
    assert np.shares_memory(a, c)
    c[0, 0] = 1
    assert x[0, 0].item() == 1


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(NUMPY), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
def test_any_strides_pass_through_buffers_and_dlpack(data: st.DataObject, dtype: str, shape: tuple[int, ...]) -> None:
    a = numbers(dtype, shape)[data.draw(hnp.basic_indices(shape))]
    a = np.asarray(a).transpose(data.draw(st.permutations(range(np.ndim(a)))))
    for x in (tn.asarray(a), tn.from_dlpack(a)):
        assert x.tolist() == a.tolist()
        assert np.asarray(x).tolist() == a.tolist()
        assert np.from_dlpack(x).tolist() == a.tolist()
        if a.size:
            assert np.shares_memory(np.from_dlpack(x), a)


def test_asarray_copies_when_asked_and_never_when_forbidden() -> None:
    a = numbers("float32")
    assert not np.shares_memory(np.asarray(tn.asarray(a, copy=True)), a)
    assert np.shares_memory(np.asarray(tn.asarray(a, copy=False)), a)
    with pytest.raises(ValueError, match=r"^asarray: float32 cannot become int8 without a copy$"):
        tn.asarray(a, dtype="int8", copy=False)
    with pytest.raises(ValueError, match="cannot become a tensor without a copy"):
        tn.asarray([1, 2], copy=False)
    x = tn.asarray(a)
    assert tn.asarray(x) is x
    assert tn.asarray(x, copy=True) is not x


def test_other_buffers_are_arrays_too() -> None:
    assert tn.asarray(b"\x01\x02").dtype == tn.uint8
    assert tn.asarray(bytearray(b"\x01\x02")).tolist() == [1, 2]
    assert tn.asarray(array.array("d", [1.5, 2.5])).dtype == tn.float64
    assert tn.asarray(memoryview(array.array("h", [1, -2, 3]))[::2]).tolist() == [1, 3]
    assert tn.asarray(range(3, 0, -1)).tolist() == [3, 2, 1]
    assert tn.asarray(np.float64(1.5)).dtype == tn.float64
    assert tn.asarray(np.int8(3)).dtype == tn.int8


def test_read_only_memory_stays_read_only() -> None:
    a = numbers("float32")
    a.flags.writeable = False
    x = tn.asarray(a)
    assert x.is_read_only
    for change in (lambda: x.__setitem__(0, 1.0), lambda: x.__iadd__(1.0), x.zero_):
        with pytest.raises(tn.ReadOnlyError, match=r"looks at read-only memory \(hint: .clone\(\)\)$"):
            change()
    assert not np.asarray(x).flags.writeable
    assert not np.from_dlpack(x).flags.writeable
    y = x.clone()
    y[0] = 1.0
    assert not y.is_read_only
    with pytest.raises(BufferError, match=r"^__dlpack__: read-only memory cannot be handed out by a protocol before"):
        x.__dlpack__()
    assert tn.asarray(b"ab").is_read_only


def test_a_misaligned_buffer_is_copied_and_a_big_endian_one_refused() -> None:
    raw = bytearray(33)
    a = np.frombuffer(raw, np.float64, 4, offset=1)
    a[:] = [1, 2, 3, 4]
    x = tn.asarray(a)
    assert x.tolist() == [1, 2, 3, 4]
    assert x.data_address % 64 == 0
    assert tn.asarray(a[::-2]).tolist() == [4, 2]
    fields = np.zeros(3, [("a", "u1"), ("b", "<f4")])
    fields["b"] = [1, 2, 3]
    assert tn.asarray(fields["b"]).tolist() == [1, 2, 3]
    with pytest.raises(tn.DtypeError, match=r"^asarray: tensor has no element type for numpy's dtype\('>f4'\)"):
        tn.asarray(np.arange(3, dtype=">f4"))


@pytest.mark.parametrize("value", ["abc", None, {1: 2}, object(), np.array(["a"]), np.array([object()]), {1, 2}])
def test_what_is_no_array_is_refused(value: Any) -> None:
    with pytest.raises(tn.DtypeError, match=r"^asarray: "):
        tn.asarray(value)


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(tn.DtypeError, match=r"^asarray: a masked array has no values where it is masked"):
        tn.asarray(np.ma.masked_array([1, 2], [True, False]))


def test_a_tensor_that_requires_gradients_does_not_leave() -> None:
    x = tn.ones(3).requires_grad_()
    with pytest.raises(tn.GradientError, match=r"\(hint: x.detach\(\).numpy\(\)\)$"):
        x.numpy()
    with pytest.raises(tn.GradientError):
        np.asarray(x)
    with pytest.raises(BufferError, match=r"\(hint: .detach\(\)\)$"):
        np.from_dlpack(x)
    with pytest.raises(BufferError, match=r"\(hint: .detach\(\)\)$"):
        memoryview(x)
    assert x.detach().numpy().tolist() == [1, 1, 1]


def test_array_takes_a_dtype_and_copy() -> None:
    x = tn.arange(3)
    assert x.__array__(np.float32).dtype == np.float32
    assert not np.shares_memory(x.__array__(copy=True), x.numpy())
    assert np.shares_memory(x.__array__(), x.numpy())
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(np.float32, copy=False)


@pytest.mark.oracle
def test_bfloat16_goes_to_ml_dtypes_and_comes_back() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = tn.asarray([1.0, -2.5, 3e38], dtype=tn.bfloat16)
    a = x.numpy()
    assert a.dtype == ml_dtypes.bfloat16
    assert tn.asarray(a).dtype == tn.bfloat16
    assert tn.asarray(a).tolist() == x.tolist()


def test_numpys_operators_leave_the_work_to_the_tensor() -> None:
    x = tn.asarray([1.0, 2.0])
    result = np.array([1.0, 2.0], np.float32) + x
    assert isinstance(result, tn.Tensor)
    assert result.tolist() == [2.0, 4.0]
    assert (np.float32(2) * x).tolist() == [2.0, 4.0]
    assert isinstance(x + np.array([1.0, 2.0], np.float32), tn.Tensor)


# --- DLPack made by hand


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", DlTensor),
]
capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype = ctypes.py_object
capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype = ctypes.c_char_p
capsule_name.argtypes = [ctypes.py_object]


class Made:
    """Six float32 in memory, and a capsule over them with any fields changed."""

    def __init__(self, **changes: Any) -> None:
        self.values = (ctypes.c_float * 6)(*range(6))
        self.shape = (ctypes.c_int64 * 2)(*changes.pop("shape", (2, 3)))
        strides = changes.pop("strides", None)
        self.strides = None if strides is None else (ctypes.c_int64 * 2)(*strides)
        self.deleted = 0

        def delete(_: Any) -> None:
            self.deleted += 1

        self.managed = Versioned(major=changes.pop("major", 1), minor=0, flags=changes.pop("flags", 0))
        self.managed.deleter = DELETER(delete)
        t = self.managed.tensor
        t.data = ctypes.addressof(self.values)
        t.device = Device(changes.pop("device", 1), 0)
        t.ndim = changes.pop("ndim", 2)
        t.dtype = DataType(*changes.pop("dtype", (2, 32, 1)))
        t.shape = self.shape
        t.strides = self.strides
        t.byte_offset = changes.pop("byte_offset", 0)
        if changes.pop("null", False):
            t.data = None
        assert not changes
        self.capsule = capsule_new(ctypes.addressof(self.managed), b"dltensor_versioned", None)

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def test_null_strides_and_a_byte_offset_give_the_right_tensor() -> None:
    assert tn.from_dlpack(Made()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tn.from_dlpack(Made(shape=(1, 2), byte_offset=16)).tolist() == [[4, 5]]
    assert tn.from_dlpack(Made(shape=(2, 2), strides=(-3, -1), byte_offset=20)).tolist() == [[5, 4], [2, 1]]
    made = Made(byte_offset=1, shape=(1, 2))  # misaligned: copied, and given back at once
    assert tn.from_dlpack(made).shape == (1, 2)
    assert made.deleted == 1


def test_the_memory_is_given_back_when_the_last_view_dies() -> None:
    made = Made()
    x = tn.from_dlpack(made)
    view = x[0, 1:]
    del x
    assert made.deleted == 0
    assert view.tolist() == [1, 2]
    del view
    assert made.deleted == 1


def test_a_capsule_is_taken_once() -> None:
    made = Made()
    x = tn.from_dlpack(made)
    assert capsule_name(made.capsule) == b"used_dltensor_versioned"
    with pytest.raises(BufferError, match=r"^from_dlpack: the capsule was used before: each can be taken once$"):
        tn.from_dlpack(made)
    del x
    assert made.deleted == 1


def test_a_read_only_import_cannot_be_written() -> None:
    x = tn.from_dlpack(Made(flags=1))
    assert x.is_read_only
    with pytest.raises(tn.ReadOnlyError):
        x += 1.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"device": 2}, "from_dlpack: the memory must lie on the CPU (device type 1), got device type 2"),
        ({"dtype": (2, 32, 4)}, "from_dlpack: elements must have one lane, got 4"),
        ({"dtype": (2, 128, 1)}, "from_dlpack: no element type of tensor has code 2 and 128 bits"),
        ({"dtype": (3, 64, 1)}, "from_dlpack: no element type of tensor has code 3 and 64 bits"),
        ({"major": 2}, "from_dlpack: DLPack of major version 1 is understood, got 2"),
        ({"ndim": 17}, "from_dlpack: from 0 to 16 dimensions, got 17"),
        ({"ndim": -1}, "from_dlpack: from 0 to 16 dimensions, got -1"),
        ({"shape": (2, -3)}, "from_dlpack: lengths must not be negative, got -3"),
        ({"shape": (2**40, 2**40)}, "from_dlpack: the shape has more bytes than there are addresses"),
        ({"strides": (2**62, 1)}, "from_dlpack: the shape has more bytes than there are addresses"),
        ({"null": True}, "from_dlpack: the data pointer is NULL"),
    ],
)
def test_a_capsule_that_lies_is_refused_and_ends_its_own_content(changes: dict[str, Any], text: str) -> None:
    made = Made(**changes)
    with pytest.raises(BufferError) as caught:
        tn.from_dlpack(made)
    assert str(caught.value) == text
    assert capsule_name(made.capsule) == b"dltensor_versioned"
    assert made.deleted == 0


def test_what_is_no_capsule_is_refused() -> None:
    class Wrong:
        def __dlpack__(self, **_: Any) -> Any:
            return 5

    with pytest.raises(BufferError, match=r"^from_dlpack: __dlpack__ gave no capsule but int$"):
        tn.from_dlpack(Wrong())
    with pytest.raises(TypeError, match=r"^from_dlpack: needs an object with __dlpack__, got int$"):
        tn.from_dlpack(5)


def test_export_checks_its_arguments() -> None:
    x = tn.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    assert capsule_name(x.__dlpack__()) == b"dltensor"
    assert capsule_name(x.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert capsule_name(x.__dlpack__(max_version=(0, 8))) == b"dltensor"
    with pytest.raises(BufferError, match=r"^__dlpack__: stream must be None for a tensor on the CPU$"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"^__dlpack__: the tensor lies on the CPU, device \(1, 0\), not \(2, 0\)$"):
        x.__dlpack__(dl_device=(2, 0))
    shared = np.from_dlpack(x)
    shared[0] = 7
    assert x[0].item() == 7


def test_unused_capsules_and_used_ones_give_their_tensor_back() -> None:
    x = tn.ones(3)
    before = sys.getrefcount(x)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert sys.getrefcount(x) == before + 1
    del capsule
    assert sys.getrefcount(x) == before
    a = np.from_dlpack(x)
    del a
    gc.collect()
    assert sys.getrefcount(x) == before


def test_an_export_keeps_the_memory_after_the_tensor_is_gone() -> None:
    x = tn.ones(1000)
    there = weakref.ref(x)
    view = memoryview(x)
    a = np.from_dlpack(x)
    del x
    assert there() is not None
    assert view[999] == 1.0
    view.release()
    del a
    assert there() is None


@pytest.mark.parametrize("dtype", [d.name for d in _kernels.DTYPES])
def test_pickle_and_deepcopy_keep_bits_type_and_the_wish_for_gradients(dtype: str) -> None:
    x = tn.asarray(numbers("int8")).to(dtype)[:, ::2]
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert made.dtype == x.dtype
        assert made.tolist() == x.tolist()
        assert made.data_address != x.data_address
    y = tn.ones(2).requires_grad_()
    assert pickle.loads(pickle.dumps(y)).requires_grad
    assert copy.deepcopy(y).requires_grad
    assert copy.deepcopy(y).node is None
    with pytest.raises(tn.GradientError):
        pickle.dumps(y * 2)
    assert pickle.loads(pickle.dumps(tn.zeros((0, 3)))).shape == (0, 3)
    assert pickle.loads(pickle.dumps(tn.float16)) is tn.float16


def test_the_array_namespace_is_tensor() -> None:
    x = tn.ones(2)
    assert x.__array_namespace__() is tn
    assert x.__array_namespace__(api_version="2024.12") is tn
    with pytest.raises(ValueError, match=r"^__array_namespace__: versions up to 2024.12 are known, got '2050.01'$"):
        x.__array_namespace__(api_version="2050.01")
