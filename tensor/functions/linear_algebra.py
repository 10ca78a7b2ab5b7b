"""Products of tensors: matrices, vectors, contractions over given axes.

Every sum of a product of matrices is a chain of fused multiply-adds in blocks of 256 along the contracted axis; a
batched product equals the loop of single ones, and a row of a product does not depend on the other rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.call import number
from tensor.functions.promotion import operands
from tensor.primitives import registry

__all__ = [
    "affine",
    "byte_matmul",
    "kron",
    "matmul",
    "matrix_transpose",
    "outer",
    "quantised_matmul",
    "tensordot",
    "vecdot",
]

Tensor = Any


def _row(name: str, inputs: tuple[Tensor, ...], params: dict[str, Any] | None = None) -> Tensor:
    found = registry.REGISTRY.get(name)
    return _kernels.apply(registry.row(name, "contraction") if found is None else found, inputs, params)


def _numbers(name: str, *values: Tensor) -> tuple[Tensor, ...]:
    for x in values:
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"{name}: expected Tensors, got {type(x).__name__} (hint: asarray)")
    tensors = values if len({x.dtype for x in values}) == 1 else operands(name, *values)
    number(name, tensors[0])
    return tensors


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices x1[..., m, k] and x2[..., k, n]; dimensions before the last two broadcast.

    A tensor of one dimension is a row on the left, a column on the right, and leaves no dimension behind. bytes
    (int8 or uint8) multiply like other whole numbers: they wrap. ShapeError, DtypeError, TypeError.

    >>> import tensor as tn
    >>> tn.matmul(tn.asarray([[1., 2.]]), tn.asarray([[3.], [4.]])).item()
    11.0
    """
    a, b = _numbers("matmul", x1, x2)
    if a.ndim > 1 and b.ndim > 1:
        return _row("matmul", (a, b))
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: both must have a dimension, got shapes {x1.shape} and {x2.shape}")
    left = a.reshape((1, *a.shape)) if a.ndim == 1 else a
    right = b.reshape((*b.shape, 1)) if b.ndim == 1 else b
    out = _row("matmul", (left, right))
    shape = out.shape
    if b.ndim == 1:
        shape = shape[:-1]
    if a.ndim == 1:
        shape = shape[:-1] if b.ndim == 1 else (*shape[:-2], shape[-1])
    return out.reshape(shape)


def affine(x: Tensor, weight: Tensor, bias: Tensor, /, *, activation: str = "none") -> Tensor:
    """activation(x · weight + bias) in one pass, with the bits of the three steps.

    x: [..., m, k], weight: [..., k, n], bias: [n], floats of one type; activation: the name of an elementwise function
    of one argument (relu, gelu, silu, tanh, sigmoid, …) or "none". ShapeError, DtypeError, ValueError.

    >>> import tensor as tn
    >>> tn.affine(tn.asarray([[1., -2.]]), tn.asarray([[3.], [4.]]), tn.asarray([1.]), activation="relu").item()
    0.0
    """
    a, b, c = _numbers("affine", x, weight, bias)
    if activation != "none":
        found = registry.row(activation) if activation in _kernels.ELEMENTWISE else None
        if found is None or found.arity != 1 or found.partials is None:
            raise ValueError(f"affine: activation must be an elementwise function of one argument, got {activation!r}")
    return _row("affine", (a, b, c), {"activation": activation})


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions exchanged, a view.

    >>> import tensor as tn
    >>> tn.matrix_transpose(tn.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    if tensor_of("matrix_transpose", x).ndim < 2:
        raise ShapeError(f"matrix_transpose: expected at least two dimensions, got shape {x.shape}")
    return x.permute((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Σ conj(x1)·x2 along an axis, counted from the end; the other dimensions broadcast.

    >>> import tensor as tn
    >>> tn.vecdot(tn.asarray([1., 2.]), tn.asarray([3., 4.])).item()
    11.0
    """
    a, b = _numbers("vecdot", x1, x2)
    least = min(a.ndim, b.ndim)
    if axis >= 0 and a.ndim == b.ndim:
        axis -= least
    if not -least <= axis <= -1:
        raise AxisError(f"vecdot: axis {axis} is out of range for shapes {x1.shape} and {x2.shape}")
    return _row("vecdot", (_axis_last(a, axis), _axis_last(b, axis)))


def _axis_last(x: Tensor, axis: int) -> Tensor:
    if axis == -1:
        return x
    at = x.ndim + axis
    return x.permute((*(i for i in range(x.ndim) if i != at), at))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The contraction over the last `axes` dimensions of x1 and the first of x2, or over the pairs that are named.

    The sum runs over the contracted axes of x1 in the order given, the last one fastest.

    >>> import tensor as tn
    >>> tn.tensordot(tn.ones((2, 3, 4)), tn.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = _numbers("tensordot", x1, x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise AxisError(f"tensordot: axes = {axes} is out of range for shapes {x1.shape} and {x2.shape}")
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        left, right = (_axes_of(x, named) for x, named in zip((a, b), axes, strict=True))
    if len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(f"tensordot: axes {left} of {a.shape} and {right} of {b.shape} do not match")
    free_a = tuple(i for i in range(a.ndim) if i not in left)
    free_b = tuple(j for j in range(b.ndim) if j not in right)
    shape_a, shape_b = tuple(a.shape[i] for i in free_a), tuple(b.shape[j] for j in free_b)
    k = math.prod(a.shape[i] for i in left)
    rows = a.permute((*free_a, *left)).reshape((math.prod(shape_a), k))
    columns = b.permute((*right, *free_b)).reshape((k, math.prod(shape_b)))
    return _row("matmul", (rows, columns)).reshape((*shape_a, *shape_b))


def _axes_of(x: Tensor, axes: Sequence[int]) -> tuple[int, ...]:
    for axis in axes:
        if not -x.ndim <= axis < x.ndim:
            raise AxisError(f"tensordot: axis {axis} is out of range for {x.ndim} dimensions")
    found = tuple(axis % x.ndim for axis in axes)
    if len(set(found)) < len(found):
        raise AxisError(f"tensordot: an axis is named twice in {tuple(axes)}")
    return found


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Every product of an element of x1 [m] and one of x2 [n]: [m, n].

    >>> import tensor as tn
    >>> tn.outer(tn.asarray([1, 2]), tn.asarray([3, 4])).shape
    (2, 2)
    """
    a, b = _numbers("outer", x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: expected two vectors, got shapes {x1.shape} and {x2.shape}")
    return a.reshape((a.shape[0], 1)) * b


def kron(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The Kronecker product: each element of x1 times all of x2; missing dimensions in front count as 1.

    >>> import tensor as tn
    >>> tn.kron(tn.eye(2), tn.ones((1, 3))).shape
    (2, 6)
    """
    a, b = _numbers("kron", x1, x2)
    rank = max(a.ndim, b.ndim)
    left, right = ((1,) * (rank - x.ndim) + x.shape for x in (a, b))
    wide = a.reshape(tuple(n for size in left for n in (size, 1)))
    tall = b.reshape(tuple(n for size in right for n in (1, size)))
    return (wide * tall).reshape(tuple(m * n for m, n in zip(left, right, strict=True)))


def quantised_matmul(x: Tensor, codes: Tensor, scale: Tensor, bias: Tensor, /, *, x_scale: Tensor) -> Tensor:
    """Activations of bytes times weights of 4 bits in groups: x_scale · (x · (scale·code + bias)ᵀ), float32 [m, n].

    x: int8 [m, k], x_scale: float32 [m], codes: uint8 [n, k / 2] (two a byte, the lower four bits first), scale and
    bias: float32 [n, groups]. Whole numbers are summed exactly within a group of k / groups ≤ 256; the groups follow
    in order. ShapeError, DtypeError.

    >>> import tensor as tn
    >>> one = tn.ones((1, 1))
    >>> tn.quantised_matmul(
    ...     tn.asarray([[1, 2]], dtype=tn.int8), tn.asarray([[0x43]], dtype=tn.uint8), one, one, x_scale=tn.ones(1)
    ... ).item()
    14.0
    """
    for t in (x, codes, scale, bias, x_scale):
        if not isinstance(t, _kernels.Tensor):
            raise TypeError(f"quantised_matmul: expected Tensors, got {type(t).__name__} (hint: asarray)")
    return _row("quantised_matmul", (x, x_scale, codes, scale, bias))


def byte_matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices of bytes (int8, uint8), exact in int32; what leaves it (after 33,025 products) wraps.

    >>> import tensor as tn
    >>> a = tn.full((1, 300), 127, dtype=tn.int8)
    >>> byte_matmul(a, tn.matrix_transpose(a)).item()
    4838700
    """
    for x in (x1, x2):
        if not isinstance(x, _kernels.Tensor) or x.dtype.name not in ("int8", "uint8"):
            raise DtypeError("byte_matmul: expected Tensors of int8 or uint8")
    return _row("byte_matmul", (x1, x2))
