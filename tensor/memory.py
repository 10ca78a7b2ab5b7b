"""The memory budget: a limit in bytes on the buffers that tensor's functions allocate, checked before each allocation.

What counts: tensors, and the output and working arrays that functions of this package make (results, contiguous copies
of strided inputs, packing buffers), from their allocation until they are collected, in the size of their elements. What
does not: arrays that the caller made, Python objects, the interpreter, buffers of fixed size (the blocks of `digest`
and of `random`), and what numpy allocates inside the twins (`DROVEWAY_ISA=ref`).

The active budgets live in a context variable: a budget holds for the thread or asyncio task that entered it and for
tasks started inside it; a new thread starts without one. Budgets nest: an allocation counts in each active one.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor._kernels import ComputeBudget
from tensor.errors import BudgetExceeded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "BudgetExceeded",
    "ComputeBudget",
    "allocate",
    "allocate_in_pages",
    "allocate_pages",
    "bounded",
    "budget",
    "give_back",
    "reserve",
]

_PAGES_MIN = 1 << 16  # bytes: below, pages of its own would waste more than they give back


_active: ContextVar[tuple[ComputeBudget, ...]] = _kernels.active_budgets


@contextlib.contextmanager
def budget(max_bytes: int) -> Iterator[ComputeBudget]:
    """Bounds, in bytes, what tensor's functions allocate inside the block.

    Raises ValueError if max_bytes is negative, TypeError if it is not an int. Arrays that outlive the block stay
    counted in the budget object.

    >>> import numpy as np
    >>> import tensor
    >>> from tensor import elementary
    >>> with tensor.budget(max_bytes=8192) as b:
    ...     y = elementary.exp(np.zeros(1000, np.float32))
    ...     b.used_bytes
    4000
    >>> with tensor.budget(max_bytes=1000):
    ...     y = elementary.exp(np.zeros(1000, np.float32))
    Traceback (most recent call last):
        ...
    tensor.errors.BudgetExceeded: elementary.exp float32[1000]: 4000 bytes requested, 0 of 1000 in use
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int):
        raise TypeError(f"budget: max_bytes must be an int, got {type(max_bytes).__name__}")
    if max_bytes < 0:
        raise ValueError(f"budget: max_bytes must not be negative, got {max_bytes}")
    entered = ComputeBudget(max_bytes)
    token = _active.set((*_active.get(), entered))
    try:
        yield entered
    finally:
        _active.reset(token)


def _charge(nbytes: int, label: str) -> list[tuple[ComputeBudget, Any]]:
    """Charges every active budget, or none."""
    tickets: list[tuple[ComputeBudget, Any]] = []
    try:
        for b in _active.get():
            tickets.append((b, b.charge(nbytes, label)))
    except BudgetExceeded:
        _release(tickets)
        raise
    return tickets


def _release(tickets: list[tuple[ComputeBudget, Any]]) -> None:
    for b, ticket in tickets:
        b.release(ticket)


def bounded() -> bool:
    """Whether a budget is active here."""
    return bool(_active.get())


@contextlib.contextmanager
def reserve(nbytes: int, label: str) -> Iterator[None]:
    """Counts a working buffer of nbytes for the time of the block; raises BudgetExceeded before it is taken."""
    tickets = _charge(nbytes, label)
    try:
        yield
    finally:
        _release(tickets)


def allocate(shape: tuple[int, ...], dtype: DTypeLike, label: str) -> NDArray[Any]:
    """An array of the shape with undefined content, counted in the active budgets until it is collected.

    Raises BudgetExceeded before anything is allocated, ValueError if the size overflows, MemoryError.
    """
    import numpy as np

    kind: np.dtype[Any] = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes >= 2**63:
        raise ValueError(f"{label}: the array would take {nbytes} bytes")
    if not bounded():
        return np.empty(shape, kind)
    tickets = _charge(nbytes, f"{label} {kind.name}{list(shape)}")
    try:
        array = np.empty(shape, kind)
    except BaseException:
        _release(tickets)
        raise
    weakref.finalize(array, _release, tickets).atexit = False
    return array


def allocate_pages(nbytes: int, label: str) -> NDArray[np.uint8]:
    """uint8[nbytes] of zeros in memory pages of its own, counted as by `allocate`, for what is large and lives long.

    The system gives a page when it is first written, and takes all back when the array is collected: nothing stays
    behind in the allocator. Raises as `allocate`.

    >>> allocate_pages(100_000, "example").shape
    (100000,)
    """
    import mmap

    import numpy as np

    tickets = _charge(nbytes, label)
    try:
        pages = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a fork copies on write
        array = np.frombuffer(pages, np.uint8, nbytes)
    except BaseException as error:
        _release(tickets)
        if isinstance(error, (OSError, OverflowError)):
            raise MemoryError(f"{label}: {nbytes} bytes are not to be had") from None
        raise
    if tickets:
        weakref.finalize(array, _release, tickets).atexit = False
    return array


def allocate_in_pages(shape: tuple[int, ...], dtype: DTypeLike, label: str) -> NDArray[Any]:
    """As `allocate`, but an array of 64 kB or more lies in pages of its own, as those of `allocate_pages` do.

    >>> import numpy as np
    >>> allocate_in_pages((50_000, 3), np.float32, "example").shape
    (50000, 3)
    """
    import numpy as np

    kind: np.dtype[Any] = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if not _PAGES_MIN <= nbytes < 2**63:
        return allocate(shape, kind, label)
    return allocate_pages(nbytes, f"{label} {kind.name}{list(shape)}").view(kind).reshape(shape)


def give_back() -> None:
    """Hand back to the system what is kept of freed buffers: of tensors, at most 256 MB, and by the C library (glibc).

    What is kept of large tensors adds at most 4 MB to the most that tensors took together; a process that goes on with
    other work may want it back sooner than it goes by itself. It takes a fraction of a millisecond: for the end of work
    that took many buffers, not for its inner loops.

    >>> give_back()
    """
    import ctypes

    _kernels.trim_storage()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # no glibc; no handle of the process itself
        ctypes.CDLL(None).malloc_trim(0)
