"""tensor.io, safetensors: one canonical file a state, and every way of being hostile refused by name."""

from __future__ import annotations

import json
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor import DtypeError, TensorFileError
from tensor.io import SafetensorsFile, Stored, write_safetensors
from tensor.io.header import CODES

NAMED = {"w": np.array([[1], [-2]], np.float32), "n": np.array(7, np.int64)}


def file_of(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: str = "U8", shape: object = (2,), offsets: object = (0, 2), **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def refusal(path) -> str:
    with pytest.raises(TensorFileError) as caught:
        SafetensorsFile(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_the_worked_example_of_the_page_is_what_is_written(tmp_path, page_hex):
    write_safetensors(tmp_path / "a", NAMED, {"step": "3"})
    assert (tmp_path / "a").read_bytes() == page_hex("safetensors", "safetensors")


def test_the_worked_example_is_read(tmp_path, page_hex):
    (tmp_path / "a").write_bytes(page_hex("safetensors", "safetensors"))
    file = SafetensorsFile(tmp_path / "a")
    assert (file.metadata, list(file)) == ({"step": "3"}, ["n", "w"])
    assert file["n"] == Stored("int64", (), memoryview((7).to_bytes(8, "little")))
    assert np.frombuffer(file["w"].data, np.float32).tolist() == [1, -2]


NUMPY = sorted(set(CODES) - {"bfloat16"})
arrays = st.builds(
    lambda dtype, shape, seed: (
        np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    ),
    st.sampled_from(NUMPY),
    st.lists(st.integers(0, 4), max_size=4).map(tuple),
    st.integers(0, 99),
)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.text(max_size=6), arrays, max_size=6),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
def test_what_was_written_is_read_and_the_order_of_the_dict_leaves_no_trace(tmp_path_factory, tensors, metadata):
    folder = tmp_path_factory.mktemp("round")
    write_safetensors(folder / "a", tensors, metadata)
    backwards = dict(reversed(list(tensors.items())))
    write_safetensors(folder / "b", backwards, dict(reversed(list(metadata.items()))))
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    file = SafetensorsFile(folder / "a")
    assert file.metadata == metadata
    assert sorted(file) == sorted(tensors)
    for name, array in tensors.items():
        dtype, shape, data = file[name]
        assert (dtype, shape, bytes(data)) == (array.dtype.name, array.shape, array.tobytes())


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=6), arrays, max_size=6))
def test_every_tensor_is_aligned_to_its_elements_in_the_file(tmp_path_factory, tensors):
    path = tmp_path_factory.mktemp("aligned") / "a"
    write_safetensors(path, tensors)
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    assert start % 8 == 0
    for name, entry in SafetensorsFile(path).entries.items():
        assert (start + entry.begin) % min(8, tensors[name].itemsize) == 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 167), st.integers(0, 60))
def test_bytes_put_anywhere_are_read_or_refused_and_nothing_else(tmp_path_factory, noise, at, cut):
    good = file_of(
        {"__metadata__": {"a": "b"}, "w": entry("F32", [2, 1], [0, 8]), "n": entry("BOOL", [1], [8, 9])}, b"\1" * 9
    )
    path = tmp_path_factory.mktemp("noise") / "a"
    path.write_bytes(good[:at] + noise + good[at + cut :])
    said = f"{path}: byte "
    try:
        file = SafetensorsFile(path)
        assert sum(len(file[name].data) for name in file) < 300
    except TensorFileError as error:
        said = str(error)
    assert said.startswith(f"{path}: byte ")


HOSTILE = {
    "an empty file": (b"", "byte 0, header length: expected 8 bytes, got a file of 0"),
    "seven bytes": (bytes(7), "byte 0, header length: expected 8 bytes, got a file of 7"),
    "N = 2^63": (
        file_of(b"{}", length=2**63),
        "byte 0, header length: expected at most 100000000, got 9223372036854775808",
    ),
    "N beyond the end": (
        file_of(b"{}", length=3),
        "byte 0, header length: expected at most the 2 bytes that follow, got 3",
    ),
    "N = 0": (file_of(b""), "byte 8, header: expected '{', got the end of the header"),
    "not JSON": (file_of(b"hello"), "byte 8, header: expected '{', got 'hello'"),
    "a list": (file_of(b"[1]"), "byte 8, header: expected '{', got '[1]'"),
    "space before": (file_of(b" {}"), "byte 8, header: expected '{', got ' {}'"),
    "truncated JSON": (file_of(b'{"a":'), "byte 13, tensor 'a': expected '{', got the end of the header"),
    "a tab after": (file_of(b"{}\t"), "byte 10, header: expected nothing but spaces after the last '}', got '\\t'"),
    "two objects": (file_of(b"{}{}"), "byte 10, header: expected nothing but spaces after the last '}', got '{}'"),
    "not UTF-8": (file_of(b'{"\xff":1}'), "byte 9, header: expected a string in UTF-8, got '\"\\xff\":1}'"),
    "half a surrogate": (
        file_of(b'{"\\ud800":1}'),
        "byte 9, header: expected a string with the escapes of JSON, got '\"\\\\ud800\":1}'",
    ),
    "duplicate name": (
        file_of(b'{"a":' + json.dumps(entry()).encode() + b',"a":' + json.dumps(entry()).encode() + b"}", b"ab"),
        "byte 71, tensor 'a': expected one tensor of this name, got a second one",
    ),
    "duplicate member": (
        file_of(b'{"a":{"dtype":"U8","dtype":"U8"}}'),
        "byte 35, tensor 'a': expected dtype, shape and data_offsets, each once, got a second 'dtype'",
    ),
    "unknown member": (
        file_of({"a": entry(more=1)}, b"ab"),
        "byte 75, tensor 'a': expected dtype, shape and data_offsets, each once, got 'more'",
    ),
    "missing member": (
        file_of({"a": {"dtype": "U8", "shape": [2]}}, b"ab"),
        "byte 13, tensor 'a': expected dtype, shape and data_offsets, each once, got no 'data_offsets'",
    ),
    "unknown dtype": (
        file_of({"a": entry("F8_E4M3")}, b"ab"),
        "byte 23, tensor 'a' dtype: expected one of BOOL I8 U8 I16 U16 F16 BF16 I32 U32 F32 I64 U64 F64 C64, "
        "got 'F8_E4M3'",
    ),
    "dtype a number": (
        file_of({"a": entry(3)}, b"ab"),
        "byte 24, tensor 'a' dtype: expected a string, got '3, \"shape\": [2], \"data_o'",
    ),
    "negative shape": (
        file_of({"a": entry(shape=[-2])}, b"ab"),
        "byte 40, tensor 'a' shape: expected an integer from 0 to 2^63 - 1, got '-2], \"data_offsets\": [0,'",
    ),
    "shape of floats": (
        file_of({"a": entry(shape=[2.0])}, b"ab"),
        "byte 40, tensor 'a' shape: expected an integer from 0 to 2^63 - 1, got '2.0], \"data_offsets\": [0'",
    ),
    "shape of truths": (
        file_of({"a": entry(shape=[True])}, b"ab"),
        "byte 40, tensor 'a' shape: expected an integer from 0 to 2^63 - 1, got 'true], \"data_offsets\": ['",
    ),
    "shape of 5,000 digits": (
        file_of(b'{"a":{"dtype":"U8","shape":[' + b"9" * 5000 + b"]}}"),
        "byte 36, tensor 'a' shape: expected an integer from 0 to 2^63 - 1, got '999999999999999999999999'",
    ),
    "17 dimensions": (
        file_of({"a": entry(shape=[1] * 17)}, b"ab"),
        "byte 87, tensor 'a' shape: expected at most 16 integers, got ' 1], \"data_offsets\": [0,'",
    ),
    "a shape that overflows": (
        file_of({"a": entry("F64", [2**40, 2**40])}, b"ab"),
        "byte 13, tensor 'a' shape: expected fewer than 2^63 bytes, got [1099511627776, 1099511627776]",
    ),
    "begin > end": (
        file_of({"a": entry(offsets=[2, 0])}, b"ab"),
        "byte 13, tensor 'a' data_offsets: expected begin <= end <= 2, the bytes of the data, got [2, 0)",
    ),
    "end beyond the data": (
        file_of({"a": entry(offsets=[0, 2])}, b"a"),
        "byte 13, tensor 'a' data_offsets: expected begin <= end <= 1, the bytes of the data, got [0, 2)",
    ),
    "one offset": (
        file_of({"a": entry(offsets=[0])}, b"ab"),
        "byte 59, tensor 'a' data_offsets: expected two integers, got ' [0]}}'",
    ),
    "wrong size": (
        file_of({"a": entry("F32", [2], [0, 2])}, b"ab"),
        "byte 13, tensor 'a' data_offsets: expected 8 bytes, float32[2], got [0, 2)",
    ),
    "overlap": (
        file_of({"a": entry(), "b": entry(offsets=[1, 3])}, b"abc"),
        "byte 73, tensor 'b' data_offsets: expected data that goes on at its byte 2, got an overlap at byte 1",
    ),
    "hole": (
        file_of({"a": entry(), "b": entry(offsets=[3, 5])}, b"abcde"),
        "byte 73, tensor 'b' data_offsets: expected data that goes on at its byte 2, got a hole before byte 3",
    ),
    "bytes after the last": (
        file_of({"a": entry()}, b"abc"),
        "byte 70, data: expected the end of the file after 2 bytes of data, got 3 bytes",
    ),
    "non-string metadata": (
        file_of({"__metadata__": {"a": 1}}),
        "byte 31, __metadata__ 'a': expected a string, got '1}}'",
    ),
    "metadata a list": (file_of({"__metadata__": []}), "byte 25, __metadata__: expected '{', got '[]}'"),
    "metadata twice": (
        file_of(b'{"__metadata__":{},"__metadata__":{}}'),
        "byte 42, header: expected one '__metadata__', got a second one",
    ),
    "a key of the metadata twice": (
        file_of(b'{"__metadata__":{"a":"b","a":"b"}}'),
        "byte 37, __metadata__ 'a': expected one value, got a second one",
    ),
    "nested a million deep": (
        file_of(b'{"a":' + b"[" * 1_000_000),
        "byte 13, tensor 'a': expected '{', got '[[[[[[[[[[[[[[[[[[[[[[[['",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_by_name_and_costs_no_more_memory_than_its_size(tmp_path, case):
    content, text = HOSTILE[case]
    (tmp_path / "a").write_bytes(content)
    refusal(tmp_path / "a")  # whatever is imported and cached on the way
    tracemalloc.start()
    try:
        assert refusal(tmp_path / "a") == text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= len(content) + 65536  # of which the error itself takes some kilobytes


def test_a_bool_byte_of_another_value_is_refused_when_the_tensor_is_read(tmp_path):
    truths = bytearray(b"\0\1" * 50_000)
    truths[70_001] = 2
    (tmp_path / "a").write_bytes(file_of({"t": entry("BOOL", [100_000], [0, 100_000])}, bytes(truths)))
    file = SafetensorsFile(tmp_path / "a")
    with pytest.raises(TensorFileError) as caught:
        file["t"]
    start = (tmp_path / "a").stat().st_size - 100_000
    assert str(caught.value) == (
        f"{tmp_path / 'a'}: byte {start + 70_001}, tensor 't': expected a bool byte 0 or 1, got 2"
    )


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "byte 0, file: expected a regular file, got a pipe"
    assert refusal(tmp_path) == "byte 0, file: expected a regular file, got a folder"
    with pytest.raises(FileNotFoundError):
        SafetensorsFile(tmp_path / "missing")


def test_another_writers_order_and_spaces_are_read(tmp_path):
    text = b'{ "b" :\n{"shape":[ 1 , 2 ],"data_offsets":[4,6],\t"dtype":"U8"},'
    text += b'"a":{"data_offsets":[0,4],"dtype":"F32","shape":[]}}  '
    (tmp_path / "a").write_bytes(file_of(text, b"\0\0\x80\x3fxy"))
    file = SafetensorsFile(tmp_path / "a")
    assert list(file) == ["a", "b"]
    assert file["b"][:2] == ("uint8", (1, 2))
    assert bytes(file["b"].data) == b"xy"


def test_a_change_to_a_mapped_tensor_stays_in_the_process(tmp_path):
    write_safetensors(tmp_path / "a", NAMED)
    before = (tmp_path / "a").read_bytes()
    mapped = np.frombuffer(SafetensorsFile(tmp_path / "a")["w"].data, np.float32)
    mapped[0] = 5
    assert (tmp_path / "a").read_bytes() == before


def test_opening_a_large_file_reads_none_of_its_elements(tmp_path):
    header = json.dumps({"a": entry("F32", [2**28], [0, 2**30])}).encode()
    with (tmp_path / "a").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2**30)  # a hole of the file system
    tracemalloc.start()
    try:
        assert SafetensorsFile(tmp_path / "a")["a"].shape == (2**28,)
        assert tracemalloc.get_traced_memory()[1] < 1 << 17
    finally:
        tracemalloc.stop()


def test_strided_arrays_are_written_in_c_order(tmp_path):
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for name, view in {"flipped": x[::-1, :, ::2], "transposed": x.T, "complex": (x * 1j).astype("c8").T}.items():
        write_safetensors(tmp_path / "a", {name: view})
        assert bytes(SafetensorsFile(tmp_path / "a")[name].data) == view.tobytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    write_safetensors(tmp_path / "a", NAMED)
    before = (tmp_path / "a").read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write_safetensors(tmp_path / "a", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == before


def test_a_link_left_at_the_temporary_name_is_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.tmp").symlink_to(tmp_path / "precious")
    write_safetensors(tmp_path / "a", NAMED)
    assert (tmp_path / "precious").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "precious"]


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "text"),
    [
        (
            {"z": np.zeros(2, complex)},
            {},
            DtypeError,
            "save: 'z' is complex128, and safetensors has no code for it (hint: the real and the imaginary part as "
            "two tensors, or .npy)",
        ),
        (
            {"x": np.zeros(2, ">f4")},
            {},
            DtypeError,
            "save: 'x' must have elements of a type of tensor in this machine's byte order, got the buffer format '>f'",
        ),
        (
            {"x": np.array(["a"])},
            {},
            DtypeError,
            "save: 'x' must have elements of a type of tensor in this machine's byte order, got the buffer format '1w'",
        ),
        ({"x": 3}, {}, DtypeError, "save: 'x' must be an array (a Tensor, or a buffer), got int"),
        ({3: b"a"}, {}, TypeError, "save: a name must be text, got 3"),
        ({"\ud800": b"a"}, {}, ValueError, "save: a name must be text, got '\\ud800'"),
        ({"__metadata__": b"a"}, {}, ValueError, "save: '__metadata__' is no name for a tensor"),
        ({}, {"a": 1}, TypeError, "save: a value of the metadata must be text, got 1"),
    ],
)
def test_what_cannot_be_stored_is_named(tmp_path, tensors, metadata, error, text):
    with pytest.raises(error) as caught:
        write_safetensors(tmp_path / "a", tensors, metadata)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.oracle
def test_the_safetensors_package_reads_what_is_written_and_the_other_way_round(tmp_path):
    peer = pytest.importorskip("safetensors.numpy")
    tensors = {
        f"{dtype}.{rank}": np.random.default_rng(rank).integers(0, 2, (3,) * rank).astype(dtype)
        for dtype in sorted(set(NUMPY) - {"complex64"})
        for rank in range(4)
    }
    write_safetensors(tmp_path / "ours", tensors, {"a": "b", "c": "ü\n"})
    theirs = peer.load_file(tmp_path / "ours")
    assert sorted(theirs) == sorted(tensors)
    for name, array in tensors.items():
        assert theirs[name].dtype == array.dtype
        assert np.array_equal(theirs[name], array)
    peer.save_file(tensors, tmp_path / "theirs", {"a": "b"})
    ours = SafetensorsFile(tmp_path / "theirs")
    assert ours.metadata == {"a": "b"}
    assert {name: bytes(ours[name].data) for name in ours} == {name: a.tobytes() for name, a in tensors.items()}
