"""Twin of the fusion machine (tensor/kernels/array/fused.cpp): the steps of a program, each by its own twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensor import reduction_ref
from tensor.twins import elementwise_ref
from tensor.twins.bfloat16_ref import BFLOAT16

if TYPE_CHECKING:
    from tensor.primitives.fused import Program

__all__ = ["run_program"]

Array: TypeAlias = Any  # an array of numpy


def _twin(name: str) -> Any:
    """The twin of an operation: that of its row, which tells floats from integers."""
    from tensor.primitives.registry import row

    return row(name).twin


def run_program(program: Program, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """The outputs of a program, in full shape; with an end, what it makes of the last `program.axes` dimensions."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
    held: dict[int, Array] = {8 + j: np.asarray(x) for j, x in enumerate(inputs)}
    value: Array = None
    for name, target, operands, dtype in program.steps:
        arrays = tuple(held[o] for o in operands)
        if name == "cast":
            value = elementwise_ref.cast(arrays[0], BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype))
        else:
            value = np.asarray(_twin(name)(arrays, None))
        held[target] = value
    if not program.end:
        return tuple(np.array(np.broadcast_to(held[64 + k], shape)) for k in range(len(program.outs)))
    kept = shape[: len(shape) - program.axes]
    rows = np.broadcast_to(value, shape).reshape(int(np.prod(kept, dtype=np.int64)), -1)
    reduced = np.array([_END[program.end](line) for line in rows], value.dtype)
    return (reduced.reshape(kept),)


def _fold(name: str) -> Any:
    def fold(line: Array) -> Any:
        value = _twin(name)((line[:1], line[:1]), None)
        for i in range(1, len(line)):
            value = _twin(name)((value, line[i : i + 1]), None)
        return value[0]

    return fold


_END = {"sum": reduction_ref.sum, "maximum": _fold("maximum"), "minimum": _fold("minimum")}
