"""Element types: casts, and what is known about them. The promotion of two types is in promotion.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError

Tensor = Any
Dtype = Any

__all__ = ["astype", "can_cast", "dtype_of", "finfo", "iinfo", "isdtype"]


def dtype_of(dtype: Any) -> Dtype:
    """The element type of that name, or the type itself. DtypeError for anything else.

    >>> dtype_of("int8")
    tensor.int8
    """
    return _kernels.Dtype(dtype)


def astype(x: Tensor, dtype: Dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x in another element type, rounded once; floats beyond an integer type's range saturate, NaN becomes 0.

    A tensor of the type already is copied unless copy=False. Complex to real: DtypeError (hint: real).

    >>> import tensor as tn
    >>> tn.astype(tn.asarray([1.5, -300.0]), tn.int8).tolist()
    [1, -128]
    """
    wanted = dtype_of(dtype)
    if device is not None and x.device != str(device):
        x, copy = x.to_device(device), False
    if x.dtype == wanted:
        return x.clone() if copy else x
    if x.dtype.kind == "complex floating" and wanted.kind != "complex floating":
        raise DtypeError(f"astype: {x.dtype} has two parts, {wanted} one (hint: tensor.real(x))")
    from tensor.functions.promotion import cast_to

    return cast_to(x, wanted)


def can_cast(from_: Any, to: Dtype, /) -> bool:
    """Whether promotion brings values of one type to the other; from_ is a type or a tensor.

    >>> can_cast("int8", "int16"), can_cast("int16", "int8")
    (True, False)
    """
    from tensor.functions.promotion import promote_types

    source, target = dtype_of(getattr(from_, "dtype", from_)), dtype_of(to)
    try:
        return bool(promote_types(source, target) == target)
    except DtypeError:
        return False


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float16", "bfloat16", "float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def isdtype(dtype: Dtype, kind: Any) -> bool:
    """Whether a type is of a kind: a type, one of the standard's words, or a tuple of them.

    Words: bool, signed integer, unsigned integer, integral, real floating, complex floating, numeric.

    >>> isdtype("float16", "real floating"), isdtype("int8", ("bool", "unsigned integer"))
    (True, False)
    """
    own = dtype_of(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return own.name in _KINDS[kind]
    if isinstance(kind, str) and kind not in {d.name for d in _kernels.DTYPES}:
        raise ValueError(f"isdtype: kind must be a dtype or one of {', '.join(_KINDS)}, got {kind!r}")
    return bool(own == dtype_of(kind))


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a float type; of a complex type, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


@dataclass(frozen=True)
class IntInfo:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: Dtype


_FLOATS = {"float16": (16, 10, 15), "bfloat16": (16, 7, 127), "float32": (32, 23, 127), "float64": (64, 52, 1023)}
_PARTS = {"complex64": "float32", "complex128": "float64"}


def _type(x: Any) -> Dtype:
    return x.dtype if isinstance(x, _kernels.Tensor) else dtype_of(x)


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a float or complex type, or of a tensor's. DtypeError for others.

    >>> finfo("bfloat16").eps, finfo("float32").bits
    (0.0078125, 32)
    """
    dtype = _type(type)
    name = _PARTS.get(dtype.name, dtype.name)
    if name not in _FLOATS:
        raise DtypeError(f"finfo: dtype must be a float or complex type, got {dtype}")
    bits, mantissa, exponent = _FLOATS[name]
    largest = (2.0 - 2.0**-mantissa) * 2.0**exponent
    return FloatInfo(bits, 2.0**-mantissa, largest, -largest, 2.0 ** (1 - exponent), dtype_of(name))


def iinfo(type: Any, /) -> IntInfo:
    """Limits of an integer type, or of a tensor's. DtypeError for others.

    >>> iinfo("uint8").max, iinfo("int16").min
    (255, -32768)
    """
    dtype = _type(type)
    if dtype.name not in _KINDS["integral"]:
        raise DtypeError(f"iinfo: dtype must be an integer type, got {dtype}")
    bits = 8 * dtype.itemsize
    signed = dtype.name.startswith("i")
    top = bits - 1 if signed else bits
    return IntInfo(bits, 2**top - 1, -(2**top) if signed else 0, dtype)
