"""The header of docs/formats/tensor-abi.md, read by C: in a program of its own, and in this process."""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels


@pytest.fixture(scope="module")
def compiled(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The reader as a program and as a library, against the header that the page prints."""
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    assert compiler is not None, "no C compiler"
    folder = tmp_path_factory.mktemp("abi")
    page = (repository / "docs" / "formats" / "tensor-abi.md").read_text()
    found = re.search(r"```c\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (folder / "droveway_tensor.h").write_text(found[1])
    source = repository / "tests" / "tensor" / "tensor_abi.c"
    command = [compiler, "-std=c11", "-Wall", "-Wno-pedantic", "-O1", f"-I{folder}", str(source), "-o"]
    program, library = folder / "reader", folder / "reader.so"
    subprocess.run([*command, str(program)], check=True)
    subprocess.run([*command, str(library), "-shared", "-fPIC"], check=True)
    return program, library


@pytest.fixture(scope="module")
def printed(compiled: tuple[Path, Path]) -> Callable[[bytes], tuple[int, str]]:
    """printed(header): what C finds behind a header of this process."""
    function = ctypes.CDLL(str(compiled[1])).droveway_print
    function.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]

    def run(header: bytes) -> tuple[int, str]:
        out = ctypes.create_string_buffer(1 << 14)
        return function(header, len(header), out, len(out)), out.value.decode()

    return run


def test_a_c_program_reads_the_example_of_the_page(
    compiled: tuple[Path, Path], page_hex: Callable[[str, str], bytes], tmp_path: Path
) -> None:
    file = tmp_path / "tensor.bin"
    file.write_bytes(page_hex("tensor-abi", "header") + page_hex("tensor-abi", "storage"))
    done = subprocess.run([compiled[0], file], check=True, capture_output=True, text=True)
    assert done.stdout == "5 6 2 3 \n"


def test_the_example_is_what_a_tensor_says_of_itself(page_hex: Callable[[str, str], bytes]) -> None:
    x = tn.asarray([[1, 2, 3], [4, 5, 6]], dtype=tn.int16)
    header = bytearray(x[::-1, 1:].abi_header())
    (base,) = struct.unpack_from("<Q", header, 16)
    assert base == x.data_address
    struct.pack_into("<Q", header, 16, 4096)
    assert bytes(header) == page_hex("tensor-abi", "header")


@pytest.mark.parametrize("dtype", [d.name for d in _kernels.DTYPES])
@pytest.mark.parametrize("layout", ["whole", "transposed", "reversed", "repeated", "scalar", "empty"])
def test_c_finds_the_elements_of_every_type_and_layout(
    printed: Callable[[bytes], tuple[int, str]], dtype: str, layout: str
) -> None:
    x = tn.arange(12, dtype=tn.int8).reshape(3, 4).to(dtype)
    x = {
        "whole": lambda: x,
        "transposed": lambda: x.T,
        "reversed": lambda: x[::-2, 1:],
        "repeated": lambda: x[1].expand(2, 4),
        "scalar": lambda: x[2, 1],
        "empty": lambda: x[:, 4:],
    }[layout]()
    status, text = printed(x.abi_header())
    assert status == 0
    flat = x.reshape((-1,))
    if dtype in ("float16", "bfloat16"):
        flat = _kernels.bitcast(flat, "uint16")
    values: list[Any] = flat.tolist()
    if dtype.startswith("complex"):
        values = [part for v in values for part in (v.real, v.imag)]
    assert [float(word) for word in text.split()] == [float(v) for v in values]


def test_flags_and_counts_say_what_the_tensor_is() -> None:
    def fields(x: Any) -> tuple[int, int, int, int]:
        device, space, flags = x.abi_header()[8:11]
        return device, space, flags, struct.unpack_from("<I", x.abi_header(), 12)[0]

    x = tn.zeros(3)
    assert fields(x) == (0, 0, 1, 0)
    x += 1.0
    assert fields(x[1:]) == (0, 0, 3, 1)
    assert fields(tn.asarray(np.zeros(3))) == (0, 0, 0, 0)
    assert fields(tn.asarray(b"abc")) == (0, 0, 4, 0)
    assert fields(tn.zeros(3, device="ref"))[0] == 1


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, b"X", "not a tensor of version 1"),
        (4, b"\2", "not a tensor of version 1"),
        (6, b"\x0f", "a field is out of range"),
        (7, b"\x11", "a field is out of range"),
        (8, b"\2", "a field is out of range"),
        (9, b"\6", "a field is out of range"),
        (10, b"\x08", "a field is out of range"),
        (11, b"\1", "a field is out of range"),
        (7, b"\3", "the header is too short"),
        (24, b"\xff" * 8, "an element is outside the storage"),
        (24, b"\7", "an element is outside the storage"),
        (32, b"\x0b", "an element is outside the storage"),
        (40, b"\xff" * 8, "a length is negative"),
        (40, b"\xff" * 7 + b"\x7f", "an element is outside the storage"),
    ],
)
def test_the_reader_rejects_what_the_page_says(
    printed: Callable[[bytes], tuple[int, str]],
    page_hex: Callable[[str, str], bytes],
    place: int,
    value: bytes,
    reason: str,
) -> None:
    header = bytearray(page_hex("tensor-abi", "header"))
    header[place : place + len(value)] = value
    assert printed(bytes(header)) == (1, reason)


def test_an_array_with_negative_strides_lies_inside_its_storage(printed: Callable[[bytes], tuple[int, str]]) -> None:
    a = np.arange(6.0).reshape(2, 3)[::-1, ::-2]
    for x in (tn.asarray(a), tn.from_dlpack(a)):
        status, text = printed(x.abi_header())
        assert status == 0
        assert [float(word) for word in text.split()] == a.reshape(-1).tolist()


def test_a_traced_tensor_has_no_memory() -> None:
    class Stand(tn.Tensor):
        pass

    with pytest.raises(TypeError, match="traced"):
        Stand(_kernels.Spec((2,), "float32"), traced=True).abi_header()
