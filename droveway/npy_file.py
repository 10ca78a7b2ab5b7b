"""Arrays from .npy files: the header is checked before anything is allocated, rows come block by block, never a pickle.

What does not fit is told with the one line of numpy that mends it.
"""

import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from droveway.exits import InputProblem, reading

BLOCK_BYTES: Final = 1 << 20
SIDE_MAX: Final = 2**40
LARGEST: Final = 1e16  # of a coordinate: what an index takes
HEADERS: Final = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class Wanted:
    """What a file must hold: an element type, and the shape as words and number of dimensions."""

    dtype: np.dtype[Any]
    shape: str
    dimensions: int
    what: str


VECTORS: Final = Wanted(np.dtype("<f4"), "n, d", 2, "vectors")
IDS: Final = Wanted(np.dtype("<u8"), "n", 1, "ids")


class NpyFile:
    """An open .npy file of one element type: `shape`, then `blocks()` or `read()`. A context manager.

    Raises InputProblem, with a mend where there is one, for another type, byte order, layout or number of dimensions,
    for a file shorter or longer than its header says, and for what is no .npy file or no regular file.
    """

    def __init__(self, path: Path, wanted: Wanted) -> None:
        from coord.sites.regular_file import open_regular

        self.path = path
        self.wanted = wanted
        with reading(path):
            self._stream: BinaryIO = open_regular(path)
        try:
            with reading(path):
                self.shape = self._checked_shape()
                self._start = self._stream.tell()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()

    def __len__(self) -> int:
        return self.shape[0]

    def read(self) -> NDArray[Any]:
        """The whole array. Raises InputProblem as `blocks` does."""
        out = np.empty(self.shape, self.wanted.dtype)
        for start, block in self.blocks():
            out[start : start + len(block)] = block
        return out

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, NDArray[Any]]]:
        """(first row, rows) in order, about 1 MiB each. Raises InputProblem for a vector that no index takes."""
        width = 1
        for side in self.shape[1:]:
            width *= side
        itemsize = self.wanted.dtype.itemsize
        rows = max(1, block_bytes // max(1, itemsize * width))
        self._stream.seek(self._start)
        for start in range(0, len(self), rows):
            count = min(rows, len(self) - start)
            with reading(self.path):
                block = np.fromfile(self._stream, self.wanted.dtype, count * width)
            if len(block) != count * width:  # cut while it was read
                raise InputProblem(self.path, f"expected {count * width} more numbers, got {len(block)}")
            block = block.reshape(count, *self.shape[1:])
            if self.wanted is VECTORS:
                self._check_values(start, block)
            yield start, block

    def _check_values(self, start: int, block: NDArray[Any]) -> None:
        good = np.abs(block) < LARGEST  # a NaN is not
        if not good.all():
            row, column = (int(at[0]) for at in np.nonzero(~good))
            value = float(block[row, column])
            raise InputProblem(
                self.path, f"row {start + row}, column {column}: expected a number below 1e16, got {value:g}"
            )

    def _checked_shape(self) -> tuple[int, ...]:
        shape, fortran, dtype = self._header()
        wanted = self.wanted
        expected = f"{wanted.dtype.name}[{wanted.shape}]"
        got = f"{dtype.name}[{', '.join(map(str, shape))}]"
        if dtype != wanted.dtype:
            order = " with the other byte order" if dtype == wanted.dtype.newbyteorder(">") else ""
            least = self._least(shape, dtype) if wanted is IDS and dtype.kind == "i" else 0
            if least < 0:  # made unsigned, it would be another id
                raise InputProblem(self.path, f"expected {expected}, got {got} with {least} in it")
            self._refuse(expected, got + order, _conversion(dtype, wanted))
        if len(shape) != wanted.dimensions:
            mend = {1: "x.reshape(1, -1)", 3: "x.reshape(-1, x.shape[-1])"} if wanted.dimensions == 2 else {}
            self._refuse(expected, got, mend.get(len(shape), "x.ravel()" if wanted.dimensions == 1 else ""))
        if fortran and wanted.dimensions > 1 and 1 not in shape:
            self._refuse(f"{expected} row by row", f"{got} column by column", "np.ascontiguousarray(x)")
        count = 1
        for side in shape:
            if not 0 <= side <= SIDE_MAX:
                raise InputProblem(self.path, f"expected sides from 0 to 2^40, got {got}")
            count *= side
        expected_bytes = count * wanted.dtype.itemsize
        present = self._stream.seek(0, 2) - self._data_start
        self._stream.seek(self._data_start)
        if present != expected_bytes:
            raise InputProblem(self.path, f"expected {expected_bytes} bytes behind the header ({got}), got {present}")
        return tuple(shape)

    def _least(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
        """The least of the integers in the file, 0 where it is too short for them or there are none."""
        try:
            return int(np.memmap(self.path, dtype, "r", self._data_start, tuple(shape)).min(initial=0))
        except (OSError, ValueError, OverflowError):
            return 0

    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        wanted = f"expected a .npy file of {self.wanted.dtype.name}[{self.wanted.shape}] {self.wanted.what}"
        start = self._stream.read(6)
        if start != b"\x93NUMPY":
            raise InputProblem(self.path, f"{wanted}, got {_kind(start)}")
        self._stream.seek(0)
        try:
            version = np.lib.format.read_magic(self._stream)
            read = HEADERS.get(version)
            if read is None:
                raise InputProblem(self.path, f"expected .npy version 1.0 or 2.0, got {version[0]}.{version[1]}")
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numpy repairs headers of Python 2 and warns: refused here
                shape, fortran, dtype = read(self._stream)
        except (OSError, InputProblem):
            raise
        except Exception as error:  # numpy's parser lets errors of the tokenizer through
            reason = str(error).partition(" on line ")[0].partition(" at 0x")[0][:120]
            raise InputProblem(self.path, f"{wanted}, got a damaged header: {reason}") from error
        self._data_start = self._stream.tell()
        return shape, fortran, dtype

    def _refuse(self, expected: str, got: str, mend: str) -> None:
        hint = ""
        if mend:
            new = self.path.with_name(f"{self.path.stem}.mended.npy")
            code = f"import numpy as np; x = np.load({str(self.path)!r}); np.save({str(new)!r}, {mend})"
            hint = python_line(code)
        raise InputProblem(self.path, f"expected {expected}, got {got}", hint)


def python_line(code: str) -> str:
    """A hint that can be pasted into a shell and runs the code.

    >>> print(python_line("print(1)"))
    python -c "print(1)"
    """
    plain = not set(code) & set('"$`\\!')  # a shell changes none of it in double quotes
    return f'python -c "{code}"' if plain else f"python -c {shlex.quote(code)}"


def _conversion(dtype: np.dtype[Any], wanted: Wanted) -> str:
    """The numpy expression that makes the wanted type of another, where that loses nothing by surprise."""
    if dtype.kind not in "fiu" or (wanted is IDS and dtype.kind == "f"):
        return ""
    return f"x.astype(np.{wanted.dtype.name})"


def _kind(start: bytes) -> str:
    """What a file is that is no .npy file, by its first bytes."""
    known = {
        b"JVI\0": "an index (.jvi)",
        b"JVIM": "an index (.jvim)",
        b"ply\n": "a scene (.ply)",
        b"ply\r": "a scene (.ply)",
        b"PK\x03\x04": "an archive (.npz or .sog?)",
        b"\x89PNG": "a picture (.png)",
    }
    if not start:
        return "an empty file"
    return known.get(start[:4], f"a file that starts with {start[:4].hex(' ')}")


def read_vectors(path: Path, dim: int | None = None, *, of: Path | None = None) -> NDArray[np.float32]:
    """float32[n, d] from a .npy file; with `dim`, d must be that of the index `of`."""
    with NpyFile(path, VECTORS) as file:
        check_dim(path, file.shape, dim, of)
        return file.read()


def check_dim(path: Path, shape: tuple[int, ...], dim: int | None, of: Path | None) -> None:
    """Raise InputProblem unless rows of that shape have the dimension of the index."""
    if dim is not None and shape[1] != dim:
        raise InputProblem(
            path,
            f"expected float32[n, {dim}] as the rows of {of} have {dim} numbers, got float32[{shape[0]}, {shape[1]}]",
        )


def read_ids(path: Path, *, once: bool = False) -> NDArray[np.uint64]:
    """uint64[n] from a .npy file; `once` refuses an id that is there twice."""
    with NpyFile(path, IDS) as file:
        ids = file.read()
    if once:
        order = np.argsort(ids, kind="stable")
        again = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        if len(again):
            second = int(order[again + 1].min())
            first = int(np.flatnonzero(ids == ids[second])[0])
            raise InputProblem(path, f"expected each id once, got {ids[second]} in rows {first} and {second}")
    return ids


def same_file(a: Path, b: Path) -> bool:
    """Whether two names lead to one file that is there."""
    try:
        return a.samefile(b)
    except OSError:
        return False
