"""Order by depth: a stable sort of float32 keys, the same for any number of threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensor import arrays, memory
from vector import _kernels, checks, depth_ref
from vector.errors import VectorTypeError, VectorValueError

LENGTH_MAX = 2**32 - 1
REFERENCE = _kernels.isa() == "ref"


def depth_order(z: object) -> NDArray[np.uint32]:
    """uint32[n]: indices of float32[n] keys in ascending order; equal keys, −0 and +0 among them, keep their order.

    Infinite keys are ordered too. Raises VectorTypeError for another element type, VectorValueError for another number
    of dimensions and for NaN.

    >>> depth_order(np.array([2.0, -1.0, 2.0, 0.5], np.float32))
    array([1, 3, 0, 2], dtype=uint32)
    """
    keys = checks.array(z, "depth_order", "z")
    if keys.dtype != np.float32 or not keys.dtype.isnative:
        raise VectorTypeError(
            f"depth_order: z must be float32[n], got {arrays.describe(keys)} (hint: z.astype(numpy.float32))"
        )
    if keys.ndim != 1 or len(keys) > LENGTH_MAX:
        raise VectorValueError(f"depth_order: z must be float32[n] with n < 2**32, got {arrays.describe(keys)}")
    keys = arrays.contiguous(arrays.readable(keys), "depth_order")
    if REFERENCE:
        ordered = not np.isnan(keys).any()
        order = depth_ref.depth_order(keys)
    else:
        order = memory.allocate(keys.shape, np.uint32, "depth_order")
        ordered = _kernels.depth_order(keys, order)
    if not ordered:
        at = int(np.flatnonzero(np.isnan(keys))[0])
        raise VectorValueError(f"depth_order: z must hold no NaN, got one at z[{at}]")
    return order
