"""Which element type two operands meet in: the array API's table, and rules where the standard leaves it open.

- Integers of both signs meet in the next signed type; uint64 with a signed one has none: DtypeError.
- Integers with floats, and floats with complex numbers: the float's or complex type wins, wide enough for both parts.
- bool with numbers: the number's type. float16 with bfloat16: float32.
- A Python number takes the tensor's type if that holds its kind; else the default type of its kind: int64, float32,
  complex64 (complex128 beside float64). A value that does not fit: OverflowError.
"""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError

__all__ = ["cast_to", "operands", "promote_types", "result_type"]

Tensor = Any
Scalar = (bool, int, float, complex)

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")
_KINDS = {
    "bool": 0,
    **dict.fromkeys((*_SIGNED, *_UNSIGNED), 1),
    **dict.fromkeys(_FLOATS, 2),
    **dict.fromkeys(_COMPLEX, 3),
}
_SCALAR_KIND = {bool: 0, int: 1, float: 2, complex: 3}
_DEFAULT = ("bool", "int64", "float32", "complex64")


def _name(dtype: Any) -> str:
    """The name of an element type, of tensor's or by any of its names; DtypeError for anything else."""
    name = getattr(dtype, "name", dtype)
    return name if isinstance(name, str) and name in _KINDS else str(_kernels.Dtype(dtype))


def _promote(a: str, b: str, what: str) -> str:
    if a == b:
        return a
    kind_a, kind_b = _KINDS[a], _KINDS[b]
    if kind_a > kind_b:
        a, b, kind_a, kind_b = b, a, kind_b, kind_a
    if kind_b == 1 and kind_a == 1:
        return _promote_integers(a, b, what)
    if kind_b == 2 and kind_a == 2:
        if {a, b} == {"float16", "bfloat16"}:
            return "float32"
        return "float64" if "float64" in (a, b) else "float32"
    if kind_b == 3:
        return "complex128" if "complex128" in (a, b) or a == "float64" else "complex64"
    return b


def _promote_integers(a: str, b: str, what: str) -> str:
    width_a, width_b = int(a.lstrip("uint")), int(b.lstrip("uint"))
    if a.startswith("u") == b.startswith("u"):
        return a if width_a > width_b else b
    unsigned, signed = (width_a, width_b) if a.startswith("u") else (width_b, width_a)
    width = signed if signed > unsigned else 2 * unsigned
    if width > 64:
        raise DtypeError(f"{what}: {a} and {b} have no common type (hint: cast one first)")
    return f"int{width}"


def promote_types(a: Any, b: Any, *, what: str = "promote_types") -> str:
    """The name of the element type that values of both types meet in; DtypeError if there is none.

    >>> promote_types("int8", "uint8"), promote_types("int64", "float32"), promote_types("float16", "bfloat16")
    ('int16', 'float32', 'float32')
    >>> promote_types("uint64", "int8")
    Traceback (most recent call last):
        ...
    tensor.errors.DtypeError: promote_types: uint64 and int8 have no common type (hint: cast one first)
    """
    return _promote(_name(a), _name(b), what)


def _with_scalar(dtype: str, scalar: type) -> str:
    """The type in which a tensor of a type meets a Python number."""
    kind = _SCALAR_KIND[scalar]
    if kind <= _KINDS[dtype]:
        return dtype
    if kind == 3 and dtype == "float64":
        return "complex128"
    return _DEFAULT[kind]


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The element type of an operation on tensors, dtypes and Python numbers together.

    DtypeError if they have no common type, ValueError if none of them says a type.

    >>> import tensor as tn
    >>> result_type(tn.int8, tn.uint8), result_type(tn.float16, 2.5)
    (tensor.int16, tensor.float16)
    """
    dtype: str | None = None
    scalars: list[type] = []
    for x in arrays_and_dtypes:
        if type(x) in _SCALAR_KIND:
            scalars.append(type(x))
            continue
        name = _name(getattr(x, "dtype", x))
        dtype = name if dtype is None else _promote(dtype, name, "result_type")
    if dtype is None:
        raise ValueError("result_type: expected at least one tensor or dtype")
    for scalar in scalars:
        dtype = _with_scalar(dtype, scalar)
    return _kernels.Dtype(dtype)


def cast_to(x: Tensor, dtype: Any) -> Tensor:
    """x in an element type, x itself if it has it already."""
    if x.dtype == dtype:
        return x
    from tensor.primitives.elementwise import CAST

    return _kernels.apply(CAST, (x,), {"dtype": _name(dtype)})


def operands(what: str, *values: Any) -> tuple[Tensor, ...]:
    """The values as tensors of one element type: tensors are cast, Python numbers become tensors without dimensions.

    TypeError if none is a tensor or one is neither tensor nor number; DtypeError without common type; OverflowError
    for a number that does not fit.
    """
    first = values[0]
    if isinstance(first, _kernels.Tensor) and all(
        isinstance(x, _kernels.Tensor) and x.dtype is first.dtype for x in values
    ):
        return values
    dtype: str | None = None
    device = None
    for x in values:
        if isinstance(x, _kernels.Tensor):
            name = x.dtype.name
            dtype = name if dtype is None else _promote(dtype, name, what)
            device = x.device if device is None else device
        elif type(x) not in _SCALAR_KIND:
            raise TypeError(f"{what}: expected a Tensor or a Python number, got {type(x).__name__} (hint: asarray)")
    if dtype is None:
        raise TypeError(f"{what}: expected at least one Tensor, got only Python numbers (hint: asarray)")
    for x in values:
        if type(x) in _SCALAR_KIND:
            dtype = _with_scalar(dtype, type(x))
    from tensor.functions.creation import asarray

    return tuple(
        cast_to(x, dtype) if isinstance(x, _kernels.Tensor) else asarray(x, dtype=dtype, device=device) for x in values
    )
