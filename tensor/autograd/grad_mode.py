"""Whether operations are written on the tape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensor import _kernels

__all__ = ["enable_grad", "grad_enabled", "no_grad"]


def grad_enabled() -> bool:
    """Whether operations on tensors that require gradients are recorded in this thread."""
    return bool(_kernels.grad_mode())


@contextmanager
def no_grad() -> Iterator[None]:
    """A `with` block, or a decorator `@no_grad()`, in which nothing is recorded: results do not require gradients.

    >>> import tensor as tn
    >>> x = tn.ones((2,)).requires_grad_()
    >>> with tn.autograd.no_grad():
    ...     (x * x).requires_grad
    False
    """
    before = _kernels.set_grad_mode(False)
    try:
        yield
    finally:
        _kernels.set_grad_mode(before)


@contextmanager
def enable_grad() -> Iterator[None]:
    """A `with` block in which operations are recorded, also inside no_grad."""
    before = _kernels.set_grad_mode(True)
    try:
        yield
    finally:
        _kernels.set_grad_mode(before)
