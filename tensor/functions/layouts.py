"""Fixed layouts: tiles, patches of images, pixels and channels, stacked columns, slices whose start is a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of

__all__ = [
    "dynamic_slice",
    "dynamic_update_slice",
    "patchify",
    "pixel_shuffle",
    "pixel_unshuffle",
    "rope_merge",
    "rope_split",
    "tile_view",
    "vec",
]

Tensor = Any


def _count(name: str, what: str, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"{name}: {what} must be an int from 1, got {n!r}")
    return n


def _divided(name: str, x: Tensor, least: int, by: Sequence[int]) -> tuple[int, ...]:
    """x's shape, whose last dimensions are multiples of `by`."""
    shape: tuple[int, ...] = tensor_of(name, x).shape
    if len(shape) < least:
        raise ShapeError(f"{name}: at least {least} dimensions are needed, got shape {shape}")
    last = shape[len(shape) - len(by) :]
    if any(n % b for n, b in zip(last, by, strict=True)):
        raise ShapeError(f"{name}: {' × '.join(map(str, last))} is not divisible by {' × '.join(map(str, by))}")
    return shape


def tile_view(x: Tensor, rows: int, columns: int, /) -> Tensor:
    """x[..., m, n] as tiles [..., m / rows, n / columns, rows, columns]: a view. ShapeError where they don't fit.

    >>> import tensor as tn
    >>> tn.tile_view(tn.arange(12).reshape((2, 6)), 2, 3)[0, 1].tolist()
    [[3, 4, 5], [9, 10, 11]]
    """
    tile = (_count("tile_view", "rows", rows), _count("tile_view", "columns", columns))
    *lead, m, n = _divided("tile_view", x, 2, tile)
    k = len(lead)
    apart = x.reshape((*lead, m // rows, rows, n // columns, columns))
    return apart.permute((*range(k), k, k + 2, k + 1, k + 3))


def vec(x: Tensor, /) -> Tensor:
    """The columns of x[..., m, n] one below the other: [..., m · n].

    >>> import tensor as tn
    >>> tn.vec(tn.asarray([[1, 2], [3, 4]])).tolist()
    [1, 3, 2, 4]
    """
    *lead, m, n = _divided("vec", x, 2, ())
    return x.mT.reshape((*lead, m * n))


def patchify(x: Tensor, size: int, /) -> Tensor:
    """Images x[..., channels, rows, columns] as their square patches, row by row: [..., patches, channels · size²].

    The elements of a patch are in the order channel, row, column. ShapeError where rows or columns don't divide.

    >>> import tensor as tn
    >>> tn.patchify(tn.arange(16).reshape((1, 4, 4)), 2)[1].tolist()
    [2, 3, 6, 7]
    """
    _count("patchify", "the size", size)
    *lead, channels, m, n = _divided("patchify", x, 3, (size, size))
    k = len(lead)
    apart = x.reshape((*lead, channels, m // size, size, n // size, size))
    turned = apart.permute((*range(k), k + 1, k + 3, k, k + 2, k + 4))
    return turned.reshape((*lead, (m // size) * (n // size), channels * size * size))


def pixel_shuffle(x: Tensor, factor: int, /) -> Tensor:
    """x[..., channels · factor², m, n] as larger images [..., channels, m · factor, n · factor] (Shi et al. 2016).

    >>> import tensor as tn
    >>> tn.pixel_shuffle(tn.asarray([1, 2, 3, 4]).reshape((4, 1, 1)), 2).tolist()
    [[[1, 2], [3, 4]]]
    """
    _count("pixel_shuffle", "the factor", factor)
    *lead, channels, m, n = _divided("pixel_shuffle", x, 3, (1, 1))
    if channels % factor**2:
        raise ShapeError(f"pixel_shuffle: {channels} channels are not divisible by {factor}²")
    k = len(lead)
    apart = x.reshape((*lead, channels // factor**2, factor, factor, m, n))
    turned = apart.permute((*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return turned.reshape((*lead, channels // factor**2, m * factor, n * factor))


def pixel_unshuffle(x: Tensor, factor: int, /) -> Tensor:
    """The inverse of `pixel_shuffle`: fewer pixels, factor² times the channels.

    >>> import tensor as tn
    >>> tn.pixel_unshuffle(tn.asarray([[[1, 2], [3, 4]]]), 2).tolist()
    [[[1]], [[2]], [[3]], [[4]]]
    """
    _count("pixel_unshuffle", "the factor", factor)
    *lead, channels, m, n = _divided("pixel_unshuffle", x, 3, (factor, factor))
    k = len(lead)
    apart = x.reshape((*lead, channels, m // factor, factor, n // factor, factor))
    turned = apart.permute((*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return turned.reshape((*lead, channels * factor**2, m // factor, n // factor))


def rope_split(x: Tensor, rotated: int, /) -> tuple[Tensor, Tensor]:
    """The first `rotated` elements of the last dimension, which a rotary embedding turns, and the others: views.

    >>> import tensor as tn
    >>> [t.tolist() for t in tn.rope_split(tn.arange(5), 2)]
    [[0, 1], [2, 3, 4]]
    """
    if tensor_of("rope_split", x).ndim == 0 or not 0 <= rotated <= x.shape[-1]:
        raise ShapeError(f"rope_split: {rotated} elements of the last dimension of shape {x.shape}")
    return x[..., :rotated], x[..., rotated:]


def rope_merge(rotated: Tensor, others: Tensor, /) -> Tensor:
    """The inverse of `rope_split`.

    >>> import tensor as tn
    >>> tn.rope_merge(tn.asarray([0, 1]), tn.asarray([2, 3, 4])).tolist()
    [0, 1, 2, 3, 4]
    """
    from tensor.functions.manipulation import concat

    return concat([tensor_of("rope_merge", rotated), tensor_of("rope_merge", others)], axis=-1)


# --- slices whose start is a value -----------------------------------------------------------------------------------


def _starts(name: str, x: Tensor, starts: Any) -> list[Any]:
    """One int or int64 tensor without dimensions for each dimension of x."""
    from tensor.functions.elementwise import minimum
    from tensor.functions.promotion import cast_to

    if isinstance(starts, _kernels.Tensor):
        if starts.ndim != 1:
            raise ShapeError(f"{name}: starts must be a vector, got shape {starts.shape}")
        starts = [starts[i] for i in range(starts.shape[0])]
    found = []
    for s in starts:
        if isinstance(s, _kernels.Tensor):
            if s.ndim != 0 or s.dtype.kind not in ("signed integer", "unsigned integer"):
                raise DtypeError(f"{name}: a start must be an integer without dimensions, got {s.dtype}{list(s.shape)}")
            found.append(cast_to(minimum(s, 2**63 - 1) if s.dtype.name == "uint64" else s, "int64"))
            continue
        if isinstance(s, bool) or not isinstance(s, int):
            raise DtypeError(f"{name}: a start must be an int, got {type(s).__name__}")
        found.append(s)
    if len(found) != x.ndim:
        raise ShapeError(f"{name}: {len(found)} starts for {x.ndim} dimensions")
    return found


def _places(x: Tensor, starts: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """The places of a block in x's elements in C order, as a vector; starts are moved so that the block lies in x."""
    from tensor.functions.creation import arange
    from tensor.functions.elementwise import clip

    total, step = None, math.prod(x.shape)
    for d, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        step = step // x.shape[d] if x.shape[d] else 0
        last = x.shape[d] - size
        at = clip(start, 0, last) if isinstance(start, _kernels.Tensor) else min(max(start, 0), last)
        index = (arange(size, device=x.device) + at) * step
        index = index.reshape((size, *(1,) * (x.ndim - 1 - d)))
        total = index if total is None else total + index
    assert total is not None
    return total.reshape((-1,))


def _fits(name: str, x: Tensor, sizes: Sequence[int]) -> tuple[int, ...]:
    found = tuple(sizes)
    if len(found) != x.ndim or any(not 0 <= k <= n for k, n in zip(found, x.shape, strict=False)):
        raise ShapeError(f"{name}: a block of shape {found} does not lie in shape {x.shape}")
    return found


def dynamic_slice(x: Tensor, starts: Any, sizes: Sequence[int], /) -> Tensor:
    """The block of x of these sizes that begins at starts, which may be values: ints, integer tensors, or a vector.

    A start is clamped so that the block lies in x. ShapeError for a block that is larger than x.

    >>> import tensor as tn
    >>> x = tn.arange(5)
    >>> tn.dynamic_slice(x, tn.asarray([1]), [3]).tolist(), tn.dynamic_slice(x, [4], [3]).tolist()
    ([1, 2, 3], [2, 3, 4])
    """
    block = _fits("dynamic_slice", tensor_of("dynamic_slice", x), sizes)
    at = _starts("dynamic_slice", x, starts)
    if not any(isinstance(s, _kernels.Tensor) for s in at):
        first = [min(max(s, 0), n - k) for s, n, k in zip(at, x.shape, block, strict=True)]
        return x[tuple(slice(s, s + k) for s, k in zip(first, block, strict=True))]
    from tensor.functions.index_moves import take

    return take(x.reshape((-1,)), _places(x, at, block), axis=0).reshape(block)


def dynamic_update_slice(x: Tensor, update: Tensor, starts: Any, /) -> Tensor:
    """A copy of x with the block at starts replaced by update; starts as in `dynamic_slice`.

    >>> import tensor as tn
    >>> tn.dynamic_update_slice(tn.zeros(4), tn.ones(2), [tn.asarray(9)]).tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    if tensor_of("dynamic_update_slice", update).dtype != tensor_of("dynamic_update_slice", x).dtype:
        raise DtypeError(f"dynamic_update_slice: the update must be {x.dtype} as x is, got {update.dtype}")
    block = _fits("dynamic_update_slice", x, update.shape)
    at = _starts("dynamic_update_slice", x, starts)
    if x.ndim == 0:
        return update
    from tensor.primitives.rules import call

    whole = call("put_rows", x.reshape((-1,)), _places(x, at, block), update.reshape((-1,)))
    return whole.reshape(x.shape)
