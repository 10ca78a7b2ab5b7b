"""Damaged and foreign .ply files: each is refused by name, before anything is allocated."""

from __future__ import annotations

import re
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st

from splat import SceneFileError, SplatError

REQUIRED = "x, y, z, f_dc_0, f_dc_1, f_dc_2, opacity, scale_0, scale_1, scale_2, rot_0, rot_1, rot_2, rot_3"
TYPES = (
    "char, uchar, short, ushort, int, uint, float, double, int8, uint8, int16, uint16, int32, uint32, float32, float64"
)


@pytest.fixture
def refusal(load, tmp_path):
    """refusal(data): the text of the SceneFileError without the path."""

    def read(data: bytes, name: str = "a.ply") -> str:
        with pytest.raises(SceneFileError) as caught:
            load(data, name)
        text = str(caught.value)
        assert text.startswith(f"{tmp_path / name}: ") and caught.value.path == str(tmp_path / name)
        return text.removeprefix(f"{tmp_path / name}: ")

    return read


@pytest.mark.parametrize("form", ["binary_little_endian", "binary_big_endian"])
def test_every_truncation_is_refused(make_ply, inria_columns, refusal, form: str) -> None:
    data = make_ply(inria_columns(2, 0), form)
    for size in range(len(data)):
        text = refusal(data[:size])
        assert re.match(r"magic at byte 0|header: expected the line end_header|body, up to 2 rows of element", text), (
            text
        )
    assert refusal(data[:-1]) == (
        f"body, up to 2 rows of element vertex at byte {len(data) - 112}: expected 112 bytes, found 111"
    )


def test_every_truncation_of_an_ascii_file_gives_other_numbers_at_most(make_ply, inria_columns, load) -> None:
    data = make_ply(inria_columns(2, 0), "ascii")
    body = data.index(b"end_header\n") + len(b"end_header\n")
    last = data.rstrip().rindex(b" ")
    for size in range(last + 1):
        with pytest.raises(SceneFileError):
            load(data[:size])
    assert body < last and len(load(data[:-1])) == 2


def test_a_count_beyond_the_file_is_refused_before_anything_is_allocated(make_ply, inria_columns, refusal) -> None:
    data = make_ply(inria_columns(2, 3))
    tracemalloc.start()
    text = refusal(data.replace(b"element vertex 2", b"element vertex 2147483647"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert re.fullmatch(
        r"body, up to 2147483647 rows of element vertex at byte \d+: expected 506806140692 bytes, found 472", text
    )
    assert peak < 1 << 20
    assert refusal(data.replace(b"vertex 2", b"vertex 2147483648")) == (
        "element vertex at byte 36: expected at most 2147483647 rows, found 2147483648"
    )
    assert refusal(data.replace(b"vertex 2", b"vertex 99999999999999999999")).startswith("header at byte 36: expected")
    ascii_data = make_ply(inria_columns(2, 0), "ascii").replace(b"vertex 2", b"vertex 2147483647")
    assert "expected at least 60129542115 bytes, found" in refusal(ascii_data)


HEADERS = [
    (b"ply\n", b"PLY\n", "magic at byte 0: expected ply and the end of the line, found b'PLY\\nform'"),
    (b"ply\n", b"ply \n", "magic at byte 0: expected ply and the end of the line, found b'ply \\nfor'"),
    (b"format binary_little_endian 1.0\n", b"", "header: expected a line format, found none"),
    (b"little", b"middle", "header at byte 4: expected one line format with binary_little_endian, binary_big_endian, "
     "ascii and 1.0, found 'format binary_middle_endian 1.0'"),
    (b" 1.0", b" 2.0", "header at byte 4: expected one line format with binary_little_endian, binary_big_endian, ascii "
     "and 1.0, found 'format binary_little_endian 2.0'"),
    (b"element vertex", b"format ascii 1.0\nelement vertex",
     "header at byte 36: expected one line format, found 'format ascii 1.0'"),
    (b"element vertex 2", b"element vertex -2",
     "header at byte 36: expected element NAME COUNT, found 'element vertex -2'"),
    (b"element vertex 2", b"element vertex two",
     "header at byte 36: expected element NAME COUNT, found 'element vertex two'"),
    (b"element vertex 2", b"element vertex 2\nelement vertex 2",
     "header at byte 53: expected one element vertex, found another one"),
    (b"element vertex 2\n", b"", f"header at byte 36: expected property TYPE NAME after an element, with TYPE one of "
     f"{TYPES}, found 'property float x'"),
    (b"property float y", b"property float x",
     "element vertex at byte 70: expected one property x, found another one"),
    (b"property float y", b"property half y", f"header at byte 70: expected property TYPE NAME after an element, with "
     f"TYPE one of {TYPES}, found 'property half y'"),
    (b"property float y", b"property list uchar float y",
     "element vertex: expected properties that are numbers, found a list property"),
    (b"element vertex 2", b"element f 0\nproperty list uchar int i\nelement vertex 2",
     "element f: expected properties that are numbers, found a list property"),
    (b"property float y", b"what is it", "header at byte 70: expected comment, obj_info, format, element or property, "
     "found 'what is it'"),
    (b"property float y", b"z" * 5000, "header at byte 70: expected comment, obj_info, format, element or property, "
     f"found '{'z' * 60}…'"),
    (b"property float y", b"comment " + b"z" * 70000 + b"\nproperty float y",
     "header: expected the line end_header, found none in 65536 bytes"),
    (b"end_header\n", b"end_headers\n", "header: expected the line end_header, found the end of the file"),
    (b"vertex", b"points", "header: expected an element vertex, found points"),
    (b"property float opacity", b"property float alpha", f"element vertex: expected the properties of Gaussian splats "
     f"({REQUIRED}), found none named opacity"),
    (b"f_dc_", b"dc_", f"element vertex: expected the properties of Gaussian splats ({REQUIRED}), found none named "
     "f_dc_0, f_dc_1, f_dc_2: a point cloud or a mesh?"),
    (b"property float opacity", b"property uint opacity",
     "element vertex, opacity: expected type float or double, found an integer (uint32)"),
    (b"property float f_rest_3", b"property uint f_rest_3",
     "element vertex, f_rest_3: expected type float or double, found an integer (uint32)"),
    (b"f_rest_8", b"f_rest_9", "element vertex, f_rest: expected f_rest_0 to f_rest_8, found none named f_rest_8"),
    (b"f_rest_8", b"f_reste8", "element vertex, f_rest: expected 0, 9, 24 or 45 properties, found 8"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), HEADERS)
def test_a_damaged_header_is_refused_with_its_place(make_ply, inria_columns, refusal, old, new, text) -> None:
    data = make_ply(inria_columns(2, 1))
    assert old in data
    assert refusal(data.replace(old, new)) == text


@pytest.mark.parametrize("count", [1, 3, 8, 10, 23, 25, 44, 46, 72])
def test_a_number_of_coefficients_that_fits_no_degree_is_refused(make_ply, inria_columns, refusal, count: int) -> None:
    columns = inria_columns(2, 0) | {f"f_rest_{i}": np.zeros(2) for i in range(count)}
    assert refusal(make_ply(columns)) == (f"element vertex, f_rest: expected 0, 9, 24 or 45 properties, found {count}")


def test_bytes_after_the_last_row_are_ignored_with_a_warning(make_ply, inria_columns, load) -> None:
    scene = load(make_ply(inria_columns()) + b"1234567")
    assert scene.warnings == ("ignored 7 bytes after the last element",)


def test_words_that_are_no_numbers_are_refused(make_ply, inria_columns, refusal) -> None:
    data = make_ply(inria_columns(2, 0), "ascii")
    body = data.index(b"end_header\n") + len(b"end_header\n")
    assert refusal(data[:body] + b"one " + data[body:]) == (
        f"element vertex at byte {body}: expected numbers, found 'one'"
    )
    assert refusal(data[:body] + b"1_0 " + data[body:]).endswith("expected numbers, found '1_0'")
    assert refusal(data[:body] + b"1" * 1_000_000) == (
        f"element vertex at byte {body}: expected numbers, found a very long word"
    )
    short = data[: data.rstrip().rindex(b" ")] + b" " * 30
    assert refusal(short) == (
        f"element vertex at byte {len(short)}: expected 2 rows, found the end of the file after 1 rows"
    )


def test_more_numbers_than_the_header_tells_of_are_refused(make_ply, inria_columns, refusal, load) -> None:
    """A column that the header forgot would shift every number after it."""
    data = make_ply(inria_columns(3, 0), "ascii")
    body = data.index(b"end_header\n") + len(b"end_header\n")
    text = "element vertex: expected 3 rows of 14 numbers and the end of the file, found more"
    assert refusal(data[:body] + data[body:].replace(b"\n", b" 1\n")) == text
    assert refusal(data + b"7") == refusal(data + b" " * 1_000_000 + b"\n7\n") == text
    assert len(load(data + b"\r\n \t" * 300_000)) == 3
    faces = data.replace(b"end_header", b"element face 1\nproperty list uchar int i\nend_header")
    assert len(load(faces + b"3 0 1 2\n")) == 3


@pytest.mark.parametrize("word", ["256", "-1", "0.5", "nan", "inf", "1e300"])
def test_an_integer_of_an_ascii_file_must_be_one_that_its_type_holds(make_ply, inria_columns, refusal, word) -> None:
    data = make_ply(inria_columns(3, 0) | {"red": np.arange(3)}, "ascii", types={"red": "uchar"})
    lines = data.split(b"\n")
    lines[-3] = lines[-3].rsplit(b" ", 1)[0] + b" " + word.encode()
    assert refusal(b"\n".join(lines)) == (
        f"element vertex, red of row 1: expected a whole number from 0 to 255, found {float(word):g}"
    )


FOREIGN = [
    (b"", "a.ply", "magic at byte 0: expected ply and the end of the line, found an empty file"),
    (b"NGSP\x02\0\0\0", "a.spz", "SPZ, which this version does not read"),
    (b"\x1f\x8b\x08\0", "a.spz", "gzip, as of SPZ, which this version does not read"),
    (b"glTF\x02\0\0\0", "a.glb", "glTF, which this version does not read"),
    (b"\0\x01", "a.ksplat", ".ksplat, which this version does not read"),
    (b"hello, world", "notes.txt", "bytes b'hello, w' and the name 'notes.txt'"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "name", "found"), FOREIGN)
def test_other_files_are_named_for_what_they_are(refusal, data: bytes, name: str, found: str) -> None:
    text = refusal(data, name)
    assert (
        text == found if name == "a.ply" else text.startswith("format: expected ") and text.endswith(f"found {found}")
    )


def test_the_content_counts_more_than_the_name(make_ply, inria_columns, load) -> None:
    assert len(load(make_ply(inria_columns(3)), "a.splat")) == 3
    assert len(load(make_ply(inria_columns(3)), "noname")) == 3


def test_what_is_no_regular_file_is_refused_by_the_system_error(load, tmp_path) -> None:
    from splat import Scene

    with pytest.raises(FileNotFoundError):
        Scene.load(tmp_path / "none.ply")
    with pytest.raises(OSError, match="is not a regular file"):
        Scene.load("/dev/null")


@given(st.data())
@options(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_change_of_the_header_leads_to_another_error_than_ours(make_ply, inria_columns, load, data) -> None:
    whole = make_ply(inria_columns(2, 1), data.draw(st.sampled_from(["binary_little_endian", "ascii"])))
    end = whole.index(b"end_header\n") + 11
    head = bytearray(whole[:end])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(head) - 1))
        match data.draw(st.sampled_from(["byte", "cut", "line"])):
            case "byte":
                head[at] = data.draw(st.integers(0, 255))
            case "cut":
                del head[at : at + data.draw(st.integers(1, 20))]
            case _:
                lines = bytes(head).split(b"\n")
                lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.sampled_from(lines)))
                head = bytearray(b"\n".join(lines))
    with suppress(SplatError):
        load(bytes(head) + whole[end:])
