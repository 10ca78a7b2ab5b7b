"""An array as files hold it: type, shape, bytes in C order. No arithmetic happens here, and numpy is not needed."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tensor.errors import DtypeError, TensorFileError

__all__ = ["ITEMSIZE", "Stored", "check_truths", "nbytes_of", "stored", "tensor_of"]

ITEMSIZE = {
    **{"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2},
    **{"int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16},
}
RANK_MAX = 16
PIECE = 1 << 16  # bytes looked at in one go

# What buffers call their elements (the struct module's letters, and Z for complex), by kind; the size tells the rest.
_KINDS = {**dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint"), **dict.fromkeys("efd", "float")}


class Stored(NamedTuple):
    """`dtype` by name, `shape`, and `data`: the bytes of the elements, little-endian, C order."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def nbytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """The size of an array in bytes; it may be any integer, so compare before allocating.

    >>> nbytes_of("float32", (2, 3))
    24
    """
    return math.prod(shape) * ITEMSIZE[dtype]


def stored(array: object, function: str, name: str) -> Stored:
    """The bytes of a Tensor, or of anything with the buffer protocol; a copy only where it is not contiguous.

    Raises DtypeError, naming the argument, for what is no array or has elements of another type.

    >>> stored(memoryview(b"ab"), "save", "x").dtype
    'uint8'
    """
    from tensor import _kernels

    dtype = getattr(array, "dtype", None)
    named = str(getattr(dtype, "name", dtype))
    if isinstance(array, _kernels.Tensor):
        array = array.detach()
    if named == "bfloat16":  # a type that buffers can't name
        array = _kernels.bitcast(array, "uint16") if isinstance(array, _kernels.Tensor) else array.view("uint16")  # type: ignore[attr-defined]
    try:
        view = memoryview(array)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError) as error:
        raise DtypeError(
            f"{function}: {name} must be an array (a Tensor, or a buffer), got {type(array).__name__}"
            + (f": {error}" if isinstance(error, (ValueError, BufferError)) else "")
        ) from None
    kind = named if named == "bfloat16" else _dtype_of(view, function, name)
    data = view.cast("B") if view.c_contiguous and view.ndim and view.nbytes else memoryview(view.tobytes())
    return Stored(kind, view.shape or (), data)


def _dtype_of(view: memoryview, function: str, name: str) -> str:
    letter = view.format.lstrip("<>=!@")
    foreign = view.itemsize > 1 and view.format[0] in (">!" if sys.byteorder == "little" else "<")
    found = None
    if letter == "?":
        found = "bool"
    elif letter in ("Zf", "Zd"):
        found = f"complex{8 * view.itemsize}"
    elif letter in _KINDS:
        found = f"{_KINDS[letter]}{8 * view.itemsize}"
    if found not in ITEMSIZE or foreign:
        raise DtypeError(
            f"{function}: {name} must have elements of a type of tensor in this machine's byte order, got the buffer "
            f"format {view.format!r}"
        )
    return found


def pieces(data: memoryview) -> Iterator[memoryview]:
    """The bytes in pieces of at most 64 KiB."""
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def check_truths(path: str, offset: int, field: str, data: memoryview) -> None:
    """Raises TensorFileError if a byte of a bool array is neither 0 nor 1."""
    for index, piece in enumerate(pieces(data)):
        wrong = bytes(piece).translate(None, b"\0\1")
        if wrong:
            at = bytes(piece).index(wrong[:1])
            raise TensorFileError(path, offset + index * PIECE + at, field, "a bool byte 0 or 1", str(wrong[0]))


def tensor_of(array: Stored, fortran: bool = False) -> Any:
    """A Tensor over these bytes, which it keeps; a copy where they are not aligned to their elements.

    `fortran`: the bytes have the first index fastest.

    >>> tensor_of(Stored("uint8", (2,), memoryview(b"ab"))).tolist()
    [97, 98]
    """
    from tensor import _kernels

    dtype, shape, data = array
    made = _kernels.over_bytes(data, dtype, shape[::-1] if fortran else shape)
    return made.permute(tuple(reversed(range(len(shape))))) if fortran else made
