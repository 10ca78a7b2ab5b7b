""".npy files: one array, read strictly and memory-mapped, written as numpy writes it (docs/formats/npy.md)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tensor.errors import DtypeError, TensorFileError
from tensor.io.mapped import map_file, replace
from tensor.io.stored import RANK_MAX, Stored, check_truths, nbytes_of, stored

__all__ = ["MAGIC", "read_npy", "write_npy"]

MAGIC = b"\x93NUMPY"
HEADER_MAX = 10_000
_DESCR = {
    **{"bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4"},
    **{"int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8"},
    **{"complex64": "<c8", "complex128": "<c16"},
}
_DTYPES = {descr: dtype for dtype, descr in _DESCR.items()}
_MEMBER = re.compile(
    r"""\s*(?:'descr'\s*:\s*'(?P<descr>[^'\\]*)'|'fortran_order'\s*:\s*(?P<order>True|False)|"""
    r"""'shape'\s*:\s*\((?P<shape>[0-9, ]*)\))\s*(?P<comma>,?)"""
)
_NUMBER = r" ?(?:0|[1-9][0-9]{0,18})"
_SHAPE = re.compile(rf"|{_NUMBER},|{_NUMBER}(?:,{_NUMBER})+,?")


def write_npy(path: str | os.PathLike[str], array: object) -> None:
    """Writes one Tensor or buffer in C order; the file is replaced at once, after it is on the disk.

    Raises DtypeError for elements that the format has no name for (bfloat16), OSError.
    """
    dtype, shape, data = stored(array, "save", "the array")
    if dtype not in _DESCR:
        raise DtypeError(f"save: the array is {dtype}, and .npy has no name for it (hint: safetensors)")
    text = f"{{'descr': '{_DESCR[dtype]}', 'fortran_order': False, 'shape': {shape!r}, }}"
    size = len(MAGIC) + 4 + len(text) + 1
    text += " " * (-size % 64) + "\n"
    replace(Path(path), [MAGIC + b"\1\0" + len(text).to_bytes(2, "little") + text.encode("ascii"), data])


def read_npy(path: str | os.PathLike[str]) -> tuple[Stored, bool]:
    """The array of a file, mapped, and whether its elements lie in Fortran order (first index fastest).

    Raises TensorFileError for whatever breaks a rule of the format, OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.npy")
    ...     write_npy(path, b"abc")
    ...     read_npy(path)[0].shape
    (3,)
    """
    name = os.fspath(path)
    file = map_file(name)
    text, start = _header(name, file)
    descr, fortran, shape = _members(name, text, start - len(text))
    dtype = _DTYPES.get(descr)
    at = start - len(text)
    if dtype is None:
        raise TensorFileError(name, at, "descr", f"one of {' '.join(_DTYPES)}", repr(descr))
    size = nbytes_of(dtype, shape)
    if size >= 2**63:
        raise TensorFileError(name, at, "shape", "fewer than 2^63 bytes", str(shape))
    if size != len(file) - start:
        expected = f"{size} bytes, {dtype}{list(shape)}"
        raise TensorFileError(name, start, "data", expected, f"{len(file) - start} bytes")
    if dtype == "bool":
        check_truths(name, start, "data", file[start:])
    return Stored(dtype, shape, file[start:]), fortran


def _header(path: str, file: memoryview) -> tuple[str, int]:
    """The text of the header and where the data begins."""
    if bytes(file[:6]) != MAGIC:
        raise TensorFileError(path, 0, "magic", repr(MAGIC)[1:], repr(bytes(file[:6]))[1:])
    version = bytes(file[6:8])
    if version not in (b"\1\0", b"\2\0", b"\3\0"):
        raise TensorFileError(
            path, 6, "version", "1.0, 2.0 or 3.0", ".".join(map(str, version)) or "the end of the file"
        )
    width = 2 if version == b"\1\0" else 4
    first = 8 + width
    if len(file) < first:
        raise TensorFileError(path, 8, "header length", f"{width} bytes", f"{len(file) - 8}")
    length = int.from_bytes(file[8:first], "little")
    if length > HEADER_MAX or length > len(file) - first:
        expected = f"at most {min(HEADER_MAX, len(file) - first)}"
        raise TensorFileError(path, 8, "header length", expected, str(length))
    raw = bytes(file[first : first + length])
    if not raw.isascii() or raw[-1:] != b"\n":
        raise TensorFileError(path, first, "header", "ASCII that ends with a newline", repr(raw[-24:])[1:])
    return raw.decode("ascii"), first + length


def _members(path: str, text: str, base: int) -> tuple[str, bool, tuple[int, ...]]:
    """descr, fortran_order and shape of the header's dictionary."""
    found: dict[str, str] = {}
    at = 1 if text[:1] == "{" else 0
    more = at == 1
    while more and (member := _MEMBER.match(text, at)):
        new = {key: word for key in ("descr", "order", "shape") if (word := member[key]) is not None}
        if found.keys() & new.keys():
            raise TensorFileError(path, base + at, "header", "each member once", repr(text[at : at + 24]))
        found |= new
        more = member["comma"] == ","
        at = member.end()
    if len(found) != 3 or text[at:].strip(" \n") != "}":
        expected = "a dictionary of descr, fortran_order and shape"
        raise TensorFileError(path, base + at, "header", expected, repr(text[at : at + 24]))
    numbers = _SHAPE.fullmatch(found["shape"])
    shape = tuple(int(word) for word in found["shape"].split(",") if word.strip()) if numbers else ()
    if numbers is None or len(shape) > RANK_MAX or any(n >= 2**63 for n in shape):
        expected = f"a tuple of at most {RANK_MAX} integers from 0 to 2^63 - 1"
        raise TensorFileError(path, base, "shape", expected, f"({found['shape'][:40]})")
    return found["descr"], found["order"] == "True", shape
