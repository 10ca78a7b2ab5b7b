"""Errors of tensor.

TensorError
├── DtypeError        (TypeError)    an element type the function does not compute with
├── ShapeError        (ValueError)   shapes that do not fit together
├── ReadOnlyError     (TypeError)    an output that cannot be written
└── BudgetExceeded    (MemoryError)  a buffer that does not fit into the memory budget
"""

from __future__ import annotations


class TensorError(Exception):
    """Root of all errors that tensor raises on purpose."""


class DtypeError(TensorError, TypeError):
    """An argument has an element type, or is of a kind, that the function does not compute with."""


class ShapeError(TensorError, ValueError):
    """Shapes of arguments do not fit together."""


class ReadOnlyError(TensorError, TypeError):
    """An output buffer cannot be written."""


class BudgetExceeded(TensorError, MemoryError):  # noqa: N818 (the name that DESIGN.md promises)
    """A buffer does not fit into the memory budget; nothing was allocated.

    Attributes, in bytes: `requested`, `in_use`, `limit`, and `largest_live`, the largest buffer that is live.
    """

    def __init__(self, requested: int, in_use: int, limit: int, largest_live: int) -> None:
        self.requested = requested
        self.in_use = in_use
        self.limit = limit
        self.largest_live = largest_live
        super().__init__(
            f"{requested} bytes requested with {in_use} of {limit} in use (largest live buffer: {largest_live} bytes)"
        )
