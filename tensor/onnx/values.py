"""Tensors and types out of ONNX messages. Their counts are not trusted: bytes must match the shape to the element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensor as tn
from tensor.errors import OnnxError

__all__ = ["DTYPES", "attribute_value", "dtype_of", "number_of", "tensor_of"]

Tensor = Any

# TensorProto.DataType of the element types that the engine has.
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
}
_NUMBERS = {name: number for number, name in DTYPES.items()}
_FIELDS = {
    "float32": "float_data",
    "float64": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
    "complex64": "float_data",
    "complex128": "double_data",
}
_BITS = ("float16", "bfloat16")


def dtype_of(number: int, where: str) -> Any:
    """The engine's element type of a TensorProto.DataType; OnnxError for those it does not have."""
    if number not in DTYPES:
        raise OnnxError(f"{where}: the engine has no element type for ONNX's data type {number}")
    return getattr(tn, DTYPES[number])


def number_of(dtype: Any) -> int:
    """TensorProto.DataType of an element type."""
    return _NUMBERS[dtype.name]


def tensor_of(message: Any, where: str) -> Tensor:
    """The Tensor of a TensorProto; OnnxError where it holds more or fewer elements than its shape says.

    Data in other files is refused: a model names any path it likes.
    """
    if message.data_location == 1:
        raise OnnxError(f"{where}: its data lies in another file, which is not read")
    dtype = dtype_of(message.data_type, where)
    shape = tuple(int(n) for n in message.dims)
    if len(shape) > 16 or any(n < 0 for n in shape):
        raise OnnxError(f"{where}: expected up to 16 dimensions from 0 up, got {shape[:17]}")
    count = math.prod(shape)
    if message.HasField("raw_data"):
        content = message.raw_data
        if len(content) != count * dtype.itemsize:
            expected = count * dtype.itemsize
            raise OnnxError(f"{where}: expected {expected} bytes for shape {shape}, got {len(content)}")
        return _from_bytes(content, dtype, shape)
    numbers = getattr(message, _FIELDS.get(dtype.name, "int32_data"))
    expected = count * (2 if dtype.name.startswith("complex") else 1)
    if len(numbers) != expected:
        raise OnnxError(f"{where}: expected {expected} numbers for shape {shape}, got {len(numbers)}")
    return _from_numbers(numbers, dtype, shape)


def _from_bytes(content: bytes, dtype: Any, shape: Sequence[int]) -> Tensor:
    stored: Any = {"bfloat16": tn.uint16, "bool": tn.uint8}.get(dtype.name, dtype)
    x = tn.empty(tuple(shape), dtype=stored)
    if x.size:
        memoryview(x).cast("B").cast("B", (len(content),))[:] = content
    if dtype.name == "bool":
        return x != 0
    return tn.bitcast(x, dtype.name) if stored is not dtype else x


def _from_numbers(numbers: Sequence[Any], dtype: Any, shape: Sequence[int]) -> Tensor:
    values = list(numbers)
    if dtype.name in _BITS:
        return tn.bitcast(tn.asarray([v & 0xFFFF for v in values], dtype=tn.uint16), dtype.name).reshape(shape)
    if dtype.name.startswith("complex"):
        values = [complex(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
    if dtype.name == "bool":
        values = [bool(v) for v in values]
    if not values:
        return tn.empty(tuple(shape), dtype=dtype)
    return tn.asarray(values, dtype=dtype).reshape(tuple(shape))


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise OnnxError(f"{where}: a text attribute is not UTF-8") from None


def attribute_value(message: Any, graph: Any, where: str) -> Any:
    """The value of an AttributeProto; `graph` makes what runs of a GraphProto."""
    kind = message.type
    if kind == 1:
        return float(message.f)
    if kind == 2:
        return int(message.i)
    if kind == 3:
        return _text(message.s, where)
    if kind == 4:
        return tensor_of(message.t, f"{where}, attribute {message.name}")
    if kind == 5:
        return graph(message.g)
    if kind == 6:
        return [float(v) for v in message.floats]
    if kind == 7:
        return [int(v) for v in message.ints]
    if kind == 8:
        return [_text(v, where) for v in message.strings]
    if kind == 9:
        return [tensor_of(t, f"{where}, attribute {message.name}") for t in message.tensors]
    if kind == 10:
        return [graph(g) for g in message.graphs]
    if kind == 13:
        return message.tp
    raise OnnxError(f"{where}: attribute {message.name} is of a kind ({kind}) that the engine does not read")
