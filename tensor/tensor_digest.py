"""The digest of an array: one name for its type, shape and values, equal on every machine and for every layout.

The byte format is `docs/formats/tensor-digest.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from tensor import _kernels
from tensor.errors import DtypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["digest"]

CONTEXT = "droveway tensor v1"
DTYPES = frozenset(
    [
        *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    ]
)
CHUNK = 65536  # elements hashed at a time: bounds the memory, never the digest


def digest(array: object) -> str:
    """BLAKE3 of an array's type name, shape and values in C order, as 64 hex digits; NaN counts as one value.

    array: any buffer or DLPack array of any strides and byte order, of a type that tensor knows. The working memory
    does not grow with the array. Raises DtypeError for another type.

    >>> import numpy as np
    >>> digest(np.float32([1, 2])) == digest(np.float32([2, 1])[::-1])
    True
    >>> digest(np.float32([1, 2]))[:16]
    'cdbbf96fda6ed4f2'
    """
    if isinstance(array, _kernels.Tensor) and not array.is_traced and not array.requires_grad:
        return _of_tensor(array)
    from tensor.arrays import as_array, describe

    x = as_array(array, "digest", "array")
    if x.dtype.name not in DTYPES:
        raise DtypeError(f"digest: array must have a type of tensor (float32, int64, bool, …), got {describe(x)}")
    hasher = _begun(x.dtype.name, x.shape)
    for chunk in _chunks(x):
        hasher.update(_canonical(chunk).data.cast("B"))
    return hasher.hexdigest()


def _begun(kind: str, shape: tuple[int, ...]) -> blake3:
    hasher = blake3(derive_key_context=CONTEXT)
    hasher.update(kind.encode("ascii") + b"\0" + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
    return hasher


def _of_tensor(x: Any) -> str:
    """The same of a Tensor, without numpy."""
    hasher = _begun(x.dtype.name, x.shape)
    block = memoryview(bytearray(min(x.size, CHUNK) * x.itemsize))
    for piece in _pieces(x):
        hasher.update(block[: _kernels.canonical_bytes(piece, block)])
    return hasher.hexdigest()


def _pieces(x: Any) -> Iterator[Any]:
    """Views of at most CHUNK elements each, in C order."""
    if x.size <= CHUNK:
        if x.size:
            yield x
        return
    rows = x.shape[0]
    at_once = CHUNK // (x.size // rows)  # rows
    if at_once == 0:
        for i in range(rows):
            yield from _pieces(x[i])
    else:
        for i in range(0, rows, at_once):
            yield x[i : i + at_once]


def _chunks(x: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The elements in C order, as contiguous little-endian pieces."""
    import numpy as np

    if x.size == 0:
        return
    little = x.dtype.newbyteorder("<")
    if x.flags.c_contiguous and x.dtype == little:
        flat = x.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            yield flat[start : start + CHUNK]
        return
    pieces = np.nditer(
        x, ["external_loop", "buffered"], ["readonly"], little, order="C", casting="equiv", buffersize=CHUNK
    )
    with pieces:
        for piece in pieces:
            yield np.ascontiguousarray(piece)


def _canonical(chunk: NDArray[Any]) -> NDArray[Any]:
    """The chunk as unsigned words, every NaN replaced by the canonical one; complex parts each by themselves."""
    import numpy as np

    kind = chunk.dtype.name
    if kind == "bool":
        return chunk.view(np.uint8)
    if kind == "bfloat16":
        words = chunk.view(np.uint16)
        nan = (words & np.uint16(0x7FFF)) > np.uint16(0x7F80)
        return np.where(nan, np.uint16(0x7FC0), words) if nan.any() else words
    if kind in ("complex64", "complex128"):
        chunk = chunk.view(np.float32 if kind == "complex64" else np.float64)
    if chunk.dtype.kind != "f":
        return chunk
    nan = np.isnan(chunk)
    words = chunk.view(f"u{chunk.dtype.itemsize}")
    if not nan.any():
        return words
    quiet = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}[chunk.dtype.itemsize]
    return np.where(nan, words.dtype.type(quiet), words)
