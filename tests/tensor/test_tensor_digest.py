"""tensor.digest: the page of the format is the truth, layouts never matter."""

from __future__ import annotations

import array
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor

PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "tensor-digest.md").read_text(encoding="utf-8")
EXAMPLE = np.array([[1, 2, 3], [4, np.nan, -0.0]], np.float32)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_digest_of_the_worked_example_is_the_one_on_the_page() -> None:
    (message,), (digest,) = blocks("hex"), blocks("digest")
    assert tensor.digest(EXAMPLE) == digest.strip()
    assert blake3(bytes.fromhex(message), derive_key_context="droveway tensor v1").hexdigest() == digest.strip()
    assert len(bytes.fromhex(message)) == 52


@given(
    hnp.arrays(st.sampled_from([np.float32, np.int16, np.complex64]), hnp.array_shapes(max_dims=4), fill=st.nothing())
)
@settings(max_examples=60, deadline=None)
def test_digest_does_not_depend_on_layout_or_byte_order(x: np.ndarray) -> None:
    expected = tensor.digest(np.ascontiguousarray(x))
    assert tensor.digest(np.asfortranarray(x)) == expected
    assert tensor.digest(x.astype(x.dtype.newbyteorder(">"))) == expected
    assert tensor.digest(x[..., ::-1].copy()[..., ::-1]) == expected
    wide = np.zeros((*x.shape, 3), x.dtype)
    wide[..., 1] = x
    assert tensor.digest(wide[..., 1]) == expected


TENSOR_TYPES = [np.float16, np.float32, np.float64, np.complex64, np.complex128, np.bool_, np.int8, np.uint16, np.int64]


@given(st.sampled_from(TENSOR_TYPES).flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_side=0, max_dims=4))))
@settings(max_examples=100, deadline=None)
def test_digest_of_a_tensor_is_that_of_its_array_in_every_layout(x: np.ndarray) -> None:
    expected = tensor.digest(x)
    t = tensor.asarray(x)
    assert tensor.digest(t) == expected
    turned = tensor.permute_dims(t, tuple(reversed(range(t.ndim)))).clone().contiguous()
    assert tensor.digest(tensor.permute_dims(turned, tuple(reversed(range(t.ndim))))) == expected
    assert tensor.digest(tensor.flip(tensor.flip(t).contiguous())) == expected


@pytest.mark.parametrize("shape", [(70_000,), (3, 70_000), (70_000, 3), (2, 300, 400), (0, 5), ()])
def test_digest_of_a_large_tensor_is_that_of_its_array(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=np.int64), dtype=np.float32).reshape(shape)
    x[x % 7 == 3] = np.nan
    t = tensor.asarray(x)
    assert tensor.digest(t) == tensor.digest(x)
    assert tensor.digest(t.T if t.ndim == 2 else t) == tensor.digest(x.T if t.ndim == 2 else x)


def test_digest_of_bfloat16_takes_every_nan_as_one_value() -> None:
    words = np.array([0x3F80, 0x7FC0, 0xFFC1], np.uint16)
    canonical = np.array([0x3F80, 0x7FC0, 0x7FC0], np.uint16)
    odd, quiet = (tensor.bitcast(tensor.asarray(w), "bfloat16") for w in (words, canonical))
    assert tensor.digest(odd) == tensor.digest(quiet) != tensor.digest(tensor.asarray(canonical))


def test_digest_of_a_tensor_takes_no_memory_of_a_budget() -> None:
    x = tensor.ones((300, 500))
    with tensor.budget(max_bytes=0):
        assert len(tensor.digest(x.T)) == 64


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_digest_takes_every_nan_as_one_value(dtype) -> None:
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    quiet = np.array([1, np.nan], dtype)
    odd = quiet.copy()
    odd.view(word)[1] |= word.type(5 + (1 << (8 * word.itemsize - 1)))
    assert np.isnan(odd[1])
    assert odd.tobytes() != quiet.tobytes()
    assert tensor.digest(odd) == tensor.digest(quiet)
    before = odd.tobytes()
    tensor.digest(odd)
    assert odd.tobytes() == before


def test_digest_takes_nan_in_each_part_of_a_complex_number_alone() -> None:
    odd = np.array([complex(1, np.nan), complex(np.nan, 2)])
    odd.view(np.uint64)[1] |= np.uint64(1 << 63)
    assert tensor.digest(odd) == tensor.digest(np.array([complex(1, np.nan), complex(np.nan, 2)]))
    assert tensor.digest(odd) != tensor.digest(np.array([complex(np.nan, np.nan), complex(np.nan, 2)]))


def test_digest_tells_type_shape_order_and_sign_of_zero_apart() -> None:
    x = np.arange(6, dtype=np.int32)
    different = [
        x, x.astype(np.uint32), x.view(np.float32), x.reshape(2, 3), x.reshape(3, 2), x[::-1], x[:0], np.int32(0),
        x[:1], np.float32(0.0), np.float32(-0.0), np.zeros((0, 3), np.int32), np.zeros((3, 0), np.int32),
    ]  # fmt: skip
    assert len({tensor.digest(y) for y in different}) == len(different)


def test_digest_reads_buffers_and_dlpack_arrays() -> None:
    class Foreign:
        def __init__(self, x: np.ndarray) -> None:
            self.x = x

        def __dlpack__(self, **kwargs: object) -> object:
            return self.x.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    x = np.array([1.5, -2, 3], np.float64)
    expected = tensor.digest(x)
    assert tensor.digest(array.array("d", [1.5, -2, 3])) == expected
    assert tensor.digest(memoryview(x)) == expected
    assert tensor.digest(Foreign(x)) == expected


def test_digest_refuses_types_that_tensor_does_not_know() -> None:
    with pytest.raises(
        tensor.DtypeError,
        match=r"^digest: array must have a type of tensor \(float32, int64, bool, …\), got <U1\[1\]$",
    ):
        tensor.digest(np.array(["a"]))
    with pytest.raises(tensor.DtypeError):
        tensor.digest(np.zeros(2, np.dtype([("a", np.float32)])))
    with pytest.raises(tensor.DtypeError):
        tensor.digest([1.0, 2.0])


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x.reshape(-1)[::2], lambda x: x[::-1, ::-1]])
def test_digest_of_a_large_strided_array_takes_little_memory(view) -> None:
    x = np.zeros((1200, 1200), np.float64)
    x[3, 4] = 5
    expected = tensor.digest(np.ascontiguousarray(view(x)))
    tracemalloc.start()
    assert tensor.digest(view(x)) == expected
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000 < x.nbytes
