"""Errors of tensor.

TensorError
├── DtypeError        (TypeError)    an element type the function does not compute with
├── ShapeError        (ValueError)   shapes that do not fit together
│   └── AxisError     (IndexError)   an axis that the tensor does not have, or that is named twice
├── DeviceError       (ValueError)   a device that is not there, or tensors on different ones
├── ReadOnlyError     (TypeError)    an output that cannot be written
├── TraceError        (TypeError)    a value asked of a tensor that stands for many, or outlives its transformation
├── GradientError     (RuntimeError) a gradient that cannot be had: no graph, graph used up, not a scalar, wrong rule
├── EmptyReductionError (ValueError) checked mode met the mean of nothing
├── AnomalyError      (ArithmeticError)  checked mode met a NaN, or an infinite gradient
├── LinalgError       (ValueError)   a matrix that has no such decomposition or solution: .function .matrix .detail
├── OnnxError         (ValueError)   an ONNX model that is damaged, or asks for what the engine does not have
├── TensorFileError   (ValueError)   a file against its format: .path .offset .field .expected .found
└── BudgetExceeded    (MemoryError)  a buffer that does not fit into the memory budget
"""

from __future__ import annotations


class TensorError(Exception):
    """Root of all errors that tensor raises on purpose."""


class DtypeError(TensorError, TypeError):
    """An argument has an element type, or is of a kind, that the function does not compute with."""


class ShapeError(TensorError, ValueError):
    """Shapes of arguments do not fit together."""


class AxisError(ShapeError, IndexError):
    """An axis is out of range, or named twice."""


class DeviceError(TensorError, ValueError):
    """A device is unknown, has no kernels here, or the tensors of one operation lie on different ones."""


class ReadOnlyError(TensorError, TypeError):
    """An output buffer cannot be written."""


class TraceError(TensorError, TypeError):
    """A value was asked of a traced tensor, which has none, or a traced tensor outlives its transformation."""


class GradientError(TensorError, RuntimeError):
    """A gradient cannot be had: nothing requires it, its graph was used up, or a derivative rule is wrong."""


class EmptyReductionError(TensorError, ValueError):
    """Checked mode met the mean of nothing, which is NaN otherwise."""


class AnomalyError(TensorError, ArithmeticError):
    """Checked mode met a NaN in a result, or a NaN or infinity in a gradient."""


class LinalgError(TensorError, ValueError):
    """A matrix has no such decomposition, inverse or solution.

    `function` was asked, `matrix` is the index of the matrix in the batch (counted through all leading dimensions),
    `detail` the rest of the sentence.

    >>> str(LinalgError("inv", 3, "the matrix is singular: pivot 2 is 0"))
    'inv: matrix 3 of the batch: the matrix is singular: pivot 2 is 0'
    """

    def __init__(self, function: str, matrix: int | None, detail: str) -> None:
        self.function = function
        self.matrix = matrix
        self.detail = detail
        where = "" if matrix is None else f"matrix {matrix} of the batch: "
        super().__init__(f"{function}: {where}{detail}")

    def __reduce__(self) -> tuple[type[LinalgError], tuple[str, int | None, str]]:
        return type(self), (self.function, self.matrix, self.detail)


class TensorFileError(TensorError, ValueError):
    """A damaged or hostile file of tensors; nothing was allocated for its elements.

    >>> str(TensorFileError("a.safetensors", 8, "header", "'{'", "'['"))
    "a.safetensors: byte 8, header: expected '{', got '['"
    """

    def __init__(self, path: str, offset: int, field: str, expected: str, found: str) -> None:
        self.path = path
        self.offset = offset
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(f"{path}: byte {offset}, {field}: expected {expected}, got {found}")

    def __reduce__(self) -> tuple[type[TensorFileError], tuple[str, int, str, str, str]]:
        return type(self), (self.path, self.offset, self.field, self.expected, self.found)


class OnnxError(TensorError, ValueError):
    """An ONNX model is damaged, or asks for what the engine does not have; the text names the node."""


class BudgetExceeded(TensorError, MemoryError):
    """A buffer does not fit into the memory budget; nothing was allocated.

    Attributes, in bytes: `requested`, `in_use`, `limit`, and `largest_live`, the largest buffer that is counted (0 if
    there is none); `largest_live_name` and `requested_name` say what the buffers are.
    """

    def __init__(
        self,
        requested: int,
        in_use: int,
        limit: int,
        largest_live: int,
        requested_name: str = "a buffer",
        largest_live_name: str = "",
    ) -> None:
        self.requested = requested
        self.in_use = in_use
        self.limit = limit
        self.largest_live = largest_live
        self.requested_name = requested_name
        self.largest_live_name = largest_live_name
        largest = f"; the largest live buffer is {largest_live_name}, {largest_live} bytes" if largest_live_name else ""
        super().__init__(f"{requested_name}: {requested} bytes requested, {in_use} of {limit} in use{largest}")

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[object, ...]]:
        numbers = (self.requested, self.in_use, self.limit, self.largest_live)
        return type(self), (*numbers, self.requested_name, self.largest_live_name)
