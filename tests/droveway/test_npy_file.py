"""Arrays from .npy files: what is taken, what is refused before anything is read, and the line that mends it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from droveway.exits import InputProblem, ending_of
from droveway.npy_file import IDS, VECTORS, NpyFile, read_ids, read_vectors

ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


def saved(folder: Path, array: object, name: str = "x.npy") -> Path:
    np.save(folder / name, array, allow_pickle=True)  # type: ignore[arg-type]
    return folder / name


def refused(path: Path, wanted: object = VECTORS) -> tuple[str, str]:
    with pytest.raises(InputProblem) as caught, NpyFile(path, wanted) as file:  # type: ignore[arg-type]
        file.read()
    ending = ending_of(caught.value)
    assert ending.code == 3
    return ending.message.removeprefix(f"{path}: "), ending.hint


def test_rows_come_back_whole_and_in_blocks_of_any_size(tmp_path: Path) -> None:
    path = saved(tmp_path, ROWS)
    assert (read_vectors(path) == ROWS).all()
    for size in (1, 16, 17, 40, 1 << 20):
        with NpyFile(path, VECTORS) as file:
            parts = list(file.blocks(size))
        assert [start for start, _ in parts] == [sum(len(p) for _, p in parts[:i]) for i in range(len(parts))]
        assert (np.concatenate([part for _, part in parts]) == ROWS).all()


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_both_versions_of_the_format_are_read(version: tuple[int, int], tmp_path: Path) -> None:
    with (tmp_path / "v.npy").open("wb") as stream:
        np.lib.format.write_array(stream, ROWS, version)
    assert (read_vectors(tmp_path / "v.npy") == ROWS).all()


def test_no_rows_are_rows_and_one_row_may_lie_in_either_order(tmp_path: Path) -> None:
    assert read_vectors(saved(tmp_path, ROWS[:0])).shape == (0, 4)
    assert (read_vectors(saved(tmp_path, np.asfortranarray(ROWS[:1]))) == ROWS[:1]).all()
    assert read_ids(saved(tmp_path, np.uint64([2**64 - 1, 0]))).tolist() == [2**64 - 1, 0]


@pytest.mark.parametrize("name", ["my q.npy", "$x's \"`q`.npy"])
@pytest.mark.parametrize(
    ("array", "got", "mended"),
    [
        (ROWS.astype(np.float64), "float64[6, 4]", ROWS),
        (ROWS.astype(np.int32), "int32[6, 4]", ROWS),
        (ROWS.astype(">f4"), "float32[6, 4] with the other byte order", ROWS),
        (ROWS[0], "float32[4]", ROWS[:1]),
        (ROWS.reshape(2, 3, 4), "float32[2, 3, 4]", ROWS),
        (np.asfortranarray(ROWS), "float32[6, 4] column by column", ROWS),
    ],
    ids=["float64", "int32", "big-endian", "one row", "three dimensions", "by columns"],
)
def test_what_does_not_fit_is_told_with_a_line_that_mends_it(
    array: np.ndarray, got: str, mended: np.ndarray, name: str, tmp_path: Path
) -> None:
    path = saved(tmp_path, array, name)
    message, hint = refused(path)
    by_row = " row by row" if "column" in got else ""
    assert message == f"expected float32[n, d]{by_row}, got {got}"
    assert hint.startswith("python -c ")
    command = hint.replace("python", shlex.quote(sys.executable), 1)
    subprocess.run(["sh", "-c", command], check=True)
    assert (read_vectors(tmp_path / name.replace(".npy", ".mended.npy")) == mended).all()


@pytest.mark.parametrize(
    ("array", "got", "mend"),
    [
        (np.int64([1, 2]), "int64[2]", True),
        (np.float64([1, 2]), "float64[2]", False),
        (np.uint64([[1, 2]]), "uint64[1, 2]", True),
        (np.bool_([1, 0]), "bool[2]", False),
    ],
)
def test_ids_of_another_type_are_refused(array: np.ndarray, got: str, mend: bool, tmp_path: Path) -> None:
    message, hint = refused(saved(tmp_path, array), IDS)
    assert message == f"expected uint64[n], got {got}"
    assert bool(hint) == mend


def test_negative_ids_are_named_and_not_mended_into_others(tmp_path: Path) -> None:
    path = saved(tmp_path, np.array([4, -3, -1]))
    with pytest.raises(InputProblem) as caught:
        read_ids(path)
    assert (str(caught.value), caught.value.hint) == (f"{path}: expected uint64[n], got int64[3] with -3 in it", "")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputProblem, match=r"expected uint64\[n\], got int64\[3\]$"):
        read_ids(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e16, -2e30])
def test_a_number_that_no_index_takes_is_named_by_row_and_column(value: float, tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[4, 2] = value
    path = saved(tmp_path, rows)
    assert refused(path)[0] == f"row 4, column 2: expected a number below 1e16, got {np.float32(value):g}"
    with NpyFile(path, VECTORS) as file, pytest.raises(InputProblem, match="row 4, column 2"):
        list(file.blocks(16))


def test_a_truncated_or_extended_file_and_a_wild_header_are_refused_before_reading(tmp_path: Path) -> None:
    path = saved(tmp_path, ROWS)
    data = path.read_bytes()
    for change, got in ((data[:-1], 95), (data + b"\0", 97)):
        path.write_bytes(change)
        assert refused(path)[0] == f"expected 96 bytes behind the header (float32[6, 4]), got {got}"
    for shape in (b"(-6, -4)", b"(0, 1152921504606846976)", b"(6, 99999999999999999999)"):
        path.write_bytes(_with_shape(data, shape))
        assert refused(path)[0] == f"expected sides from 0 to 2^40, got float32[{shape.decode()[1:-1]}]"
    path.write_bytes(_with_shape(data, b"(1099511627776, 1024)"))
    assert refused(path)[0] == (
        "expected 4503599627370496 bytes behind the header (float32[1099511627776, 1024]), got 96"
    )


def _with_shape(data: bytes, shape: bytes) -> bytes:
    end = data.index(b"\n")
    head = data[10:end].replace(b"(6, 4)", shape).rstrip()
    return data[:10] + head.ljust(end - 10) + data[end:]


def test_no_pickle_is_ever_loaded(tmp_path: Path) -> None:
    message, hint = refused(saved(tmp_path, np.array([print, 1], object)))
    assert message.startswith("expected float32[n, d], got object[2]") and hint == ""


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (b"", "an empty file"),
        (b"JVIM" + bytes(300), "an index (.jvim)"),
        (b"ply\nformat", "a scene (.ply)"),
        (b"PK\x03\x04" + bytes(20), "an archive (.npz or .sog?)"),
        (b"1.0 2.0\n", "a file that starts with 31 2e 30 20"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': ", "a damaged header"),
    ],
)
def test_what_is_no_npy_file_is_called_by_its_name(content: bytes, got: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert refused(path)[0].startswith(f"expected a .npy file of float32[n, d] vectors, got {got}")


def test_a_header_with_a_sum_in_it_is_told_without_an_address_in_memory(tmp_path: Path) -> None:
    content = saved(tmp_path, np.ones((6, 20), np.float32)).read_bytes().replace(b"(6, 20), ", b"(3+3,20),")
    path = tmp_path / "sum.npy"
    path.write_bytes(content)
    assert refused(path)[0].endswith(" vectors, got a damaged header: malformed node or string")


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.npy")[0] == "expected to read it, got: no such file or directory"
    assert refused(tmp_path)[0] == "expected to read it, got: is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe")[0] == "expected to read it, got: is not a regular file"
