"""tensor.io, .npy: what numpy writes is read, what is written numpy reads, and anything else is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor import DtypeError, TensorFileError
from tensor.io import read_npy, write_npy

DTYPES = ["bool", "float16", "float32", "float64", "complex64", "complex128"]
DTYPES += [f"{sign}int{8 * size}" for sign in ("", "u") for size in (1, 2, 4, 8)]
GOOD = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }"


def file_of(text: str, data: bytes = b"abcd", version: bytes = b"\1\0") -> bytes:
    width = 2 if version == b"\1\0" else 4
    return b"\x93NUMPY" + version + (len(text) + 1).to_bytes(width, "little") + text.encode() + b"\n" + data


def test_the_worked_example_of_the_page_is_written_and_read(tmp_path, page_hex):
    write_npy(tmp_path / "a.npy", np.array([[1, 2], [3, 258]], np.uint16))
    assert (tmp_path / "a.npy").read_bytes() == page_hex("npy", "npy")
    (dtype, shape, data), fortran = read_npy(tmp_path / "a.npy")
    assert (dtype, shape, fortran) == ("uint16", (2, 2), False)
    assert bytes(data) == b"\1\0\2\0\3\0\2\1"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=4).map(tuple), st.booleans())
def test_numpy_and_this_reader_agree_both_ways(tmp_path_factory, dtype, shape, fortran):
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    x = np.random.default_rng(1).integers(0, 2, shape).astype(dtype, order="F" if fortran else "C")
    write_npy(path, x)
    ours = path.read_bytes()
    assert np.array_equal(np.load(path), x)
    assert np.load(path).dtype == x.dtype
    np.save(path, np.ascontiguousarray(x).reshape(shape))
    assert path.read_bytes() == ours
    np.save(path, x)
    stored, order = read_npy(path)
    assert stored[:2] == (dtype, shape)
    assert bytes(stored.data) == x.tobytes("F" if order else "C")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_is_read(tmp_path, version):
    with (tmp_path / "a").open("wb") as file:
        np.lib.format.write_array(file, np.arange(3), version)
    assert read_npy(tmp_path / "a")[0].shape == (3,)


HOSTILE = {
    "nothing": (b"", "byte 0, magic: expected '\\x93NUMPY', got ''"),
    "another magic": (b"PK\3\4....", "byte 0, magic: expected '\\x93NUMPY', got 'PK\\x03\\x04..'"),
    "version 4": (file_of(GOOD, version=b"\4\0"), "byte 6, version: expected 1.0, 2.0 or 3.0, got 4.0"),
    "no version": (b"\x93NUMPY", "byte 6, version: expected 1.0, 2.0 or 3.0, got the end of the file"),
    "no length": (b"\x93NUMPY\1\0a", "byte 8, header length: expected 2 bytes, got 1"),
    "a length of 4 GB": (
        b"\x93NUMPY\2\0\xff\xff\xff\xff" + bytes(99),
        "byte 8, header length: expected at most 99, got 4294967295",
    ),
    "a length beyond the end": (
        b"\x93NUMPY\1\0\x20\0{}\n",
        "byte 8, header length: expected at most 3, got 32",
    ),
    "not ASCII": (file_of(GOOD + "ü"), "byte 10, header: expected ASCII that ends with a newline, got "),
    "code": (
        file_of("__import__('os').abort()"),
        "byte 10, header: expected a dictionary of descr, fortran_order and shape, got \"__import__('os').abort()\"",
    ),
    "nested": (file_of("{" * 9000), "byte 11, header: expected a dictionary of descr, fortran_order and shape, got "),
    "a member twice": (
        file_of("{'descr': '<u2', 'descr': '<u2', 'shape': (2,), }"),
        "byte 26, header: expected each member once, got \" 'descr': '<u2', 'shape'\"",
    ),
    "a member missing": (
        file_of("{'descr': '<u2', 'shape': (2,), }"),
        "byte 41, header: expected a dictionary of descr, fortran_order and shape, got ' }\\n'",
    ),
    "an unknown member": (
        file_of(GOOD.replace(", }", ", 'more': 1}")),
        "byte 65, header: expected a dictionary of descr, fortran_order and shape, got \" 'more': 1}\\n\"",
    ),
    "objects": (
        file_of(GOOD.replace("<u2", "|O")),
        "byte 10, descr: expected one of |b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8 <c8 <c16, got '|O'",
    ),
    "big-endian": (
        file_of(GOOD.replace("<u2", ">u2")),
        "byte 10, descr: expected one of |b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8 <c8 <c16, got '>u2'",
    ),
    "a negative shape": (
        file_of(GOOD.replace("2,)", "-2,)")),
        "byte 50, header: expected a dictionary of descr, fortran_order and shape, got \" 'shape': (-2,), }\\n\"",
    ),
    "a shape of one bare number": (
        file_of(GOOD.replace("2,)", "2)")),
        "byte 10, shape: expected a tuple of at most 16 integers from 0 to 2^63 - 1, got (2)",
    ),
    "a shape that overflows": (
        file_of(GOOD.replace("2,)", f"{2**40}, {2**40})")),
        "byte 10, shape: expected fewer than 2^63 bytes, got (1099511627776, 1099511627776)",
    ),
    "17 dimensions": (
        file_of(GOOD.replace("2,)", "1, " * 16 + "1)")),
        "byte 10, shape: expected a tuple of at most 16 integers from 0 to 2^63 - 1, got "
        "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)",
    ),
    "too short": (file_of(GOOD, b"abc"), "byte 68, data: expected 4 bytes, uint16[2], got 3 bytes"),
    "too long": (file_of(GOOD, b"abcde"), "byte 68, data: expected 4 bytes, uint16[2], got 5 bytes"),
    "a bool of 2": (
        file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", b"\1\2"),
        "byte 69, data: expected a bool byte 0 or 1, got 2",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_by_name(tmp_path, case):
    content, text = HOSTILE[case]
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TensorFileError) as caught:
        read_npy(tmp_path / "a")
    found = str(caught.value).removeprefix(f"{tmp_path / 'a'}: ")
    assert found == text or (text.endswith("got ") and found.startswith(text))


def test_what_npy_has_no_name_for_is_refused(tmp_path):
    class Bfloat16:
        dtype = "bfloat16"

        def view(self, _: str) -> np.ndarray:
            return np.zeros(2, np.uint16)

    with pytest.raises(DtypeError) as caught:
        write_npy(tmp_path / "a.npy", Bfloat16())
    assert str(caught.value) == "save: the array is bfloat16, and .npy has no name for it (hint: safetensors)"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder to write a file in: '.*/nowhere'"):
        write_npy(tmp_path / "nowhere" / "x.npy", np.ones(2))
