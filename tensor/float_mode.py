"""The floating-point mode that every result is computed in: round to nearest even, subnormals kept.

Kernels set it themselves. Code in numpy or plain Python runs in the mode of the calling thread, which other libraries
change (flush-to-zero, another rounding); `plain_mode` makes it the kernels' mode for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensor import _kernels


@contextmanager
def plain_mode() -> Iterator[None]:
    """A `with` block, or a decorator `@plain_mode()`, in the kernels' mode; the host's comes back afterwards.

    >>> with plain_mode():
    ...     1e-310 / 2
    5e-311
    """
    saved = _kernels.float_mode_enter()
    try:
        yield
    finally:
        _kernels.float_mode_leave(saved)
