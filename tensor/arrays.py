"""The edge between Python arrays and the kernels: what every function on arrays checks before it computes.

Anything with the buffer protocol or DLPack is an array here. A view is passed on wherever the kernels can read it; only
a buffer that is misaligned to its elements is copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import _kernels, memory
from tensor.errors import DtypeError, ReadOnlyError, ShapeError

Array = NDArray[Any]

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
REFERENCE = _kernels.isa() == "ref"  # DROVEWAY_ISA=ref: the twins answer everywhere


def describe(x: Array) -> str:
    """Type and shape as errors print them: float32[n, m]."""
    return f"{x.dtype}[{', '.join(map(str, x.shape))}]"


def as_array(x: object, function: str, name: str) -> Array:
    """A numpy view of an array, a buffer or a DLPack object; DtypeError, naming the argument, for anything else."""
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray and hasattr(x, "mask"):
            raise DtypeError(f"{function}: {name} must not be a masked array (hint: {name}.filled(0))")
        return x if type(x) is np.ndarray else x.view(np.ndarray)  # a numpy.matrix would stay two-dimensional for ever
    if hasattr(x, "__dlpack__"):
        try:
            return np.from_dlpack(x)
        except RuntimeError as error:
            raise DtypeError(f"{function}: {name} has an element type that numpy does not know: {error}") from None
        except ValueError as error:  # no capsule, or one that was used before
            raise BufferError(f"{function}: {name} gave no DLPack capsule that can be used: {error}") from None
    if hasattr(x, "__array_interface__"):
        try:
            return np.asarray(x)
        except ValueError as error:
            raise BufferError(f"{function}: {name} has an __array_interface__ that cannot be used: {error}") from None
    try:
        return np.asarray(memoryview(x))  # type: ignore[arg-type]
    except TypeError:
        raise DtypeError(
            f"{function}: {name} must be an array (buffer or DLPack), got {type(x).__name__} "
            f"(hint: numpy.asarray({name}, dtype=numpy.float32))"
        ) from None


def as_floats(x: object, function: str, name: str, dtypes: Sequence[np.dtype[Any]] = FLOATS) -> Array:
    """An aligned array of one of the given float types; a copy only where the buffer is misaligned.

    Raises DtypeError, naming the argument, for another type or byte order.
    """
    array = as_array(x, function, name)
    if array.dtype not in dtypes or not array.dtype.isnative:
        wanted = " or ".join(map(str, dtypes))
        raise DtypeError(
            f"{function}: {name} must be {wanted}, got {describe(array)} (hint: {name}.astype(numpy.{dtypes[0]}))"
        )
    return readable(array)


def readable(array: Array) -> Array:
    """The array itself if a kernel can read it in place, else a copy: aligned, strides in whole elements."""
    if array.flags.aligned:
        for stride in array.strides:
            if stride % array.itemsize:
                break
        else:
            return array
    copy = memory.allocate(array.shape, array.dtype, "aligned copy")
    np.copyto(copy, array)
    return copy


def contiguous(array: Array, function: str) -> Array:
    """The array itself if it is C-contiguous, else such a copy, which counts in the memory budget."""
    if array.flags.c_contiguous:
        return array
    copy = memory.allocate(array.shape, array.dtype, f"{function} contiguous copy")
    np.copyto(copy, array)
    return copy


def checked_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any], function: str) -> Array:
    """The array that `out` names, after checking type, shape and that it can be written."""
    array = as_array(out, function, "out")
    if array.dtype != dtype or not array.dtype.isnative:
        raise DtypeError(f"{function}: out must be {dtype}, got {describe(array)}")
    if array.shape != shape:
        raise ShapeError(f"{function}: out must have shape {shape}, got {array.shape}")
    if not array.flags.writeable:
        raise ReadOnlyError(f"{function}: out is read-only")
    if 0 in array.strides and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
        raise ReadOnlyError(f"{function}: out is a broadcast view: several elements share one place in memory")
    return array


def writable_in_place(out: Array, *inputs: Array) -> bool:
    """Whether a kernel may write C-contiguous results straight into `out` while it reads the inputs."""
    flags = out.flags
    return bool(flags.c_contiguous and flags.aligned) and not any(_may_overlap(out, x) for x in inputs)


def _may_overlap(a: Array, b: Array) -> bool:
    if a is b:
        return True
    if a.base is None and b.base is None:  # two arrays that own their memory (asking numpy takes microseconds)
        return False
    return bool(np.may_share_memory(a, b))
