"""Shapes, order and repetition of tensors. Most results are views."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from tensor import _kernels
from tensor.errors import AxisError, DtypeError, ShapeError
from tensor.functions.axes import tensor_of

Tensor = Any
Axes = Any  # int | Sequence[int]

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "cat",
    "chunk",
    "concat",
    "expand_dims",
    "flatten",
    "flip",
    "moveaxis",
    "pad",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def _int(value: Any, what: str) -> int:
    """The value as an int; TypeError for floats and what else is none."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{what} must be an int, got {type(value).__name__}") from None


def _is_row(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _axis(axis: int, ndim: int, name: str) -> int:
    axis = _int(axis, f"{name}: axis")
    if not -ndim <= axis < ndim:
        raise AxisError(f"{name}: axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def _axes(axis: Axes, ndim: int, name: str) -> tuple[int, ...]:
    """The axes, counted from the front, each once; None stands for all."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(_axis(a, ndim, name) for a in ((axis,) if isinstance(axis, int) else axis))
    if len(set(given)) < len(given):
        raise AxisError(f"{name}: an axis is named twice in {axis}")
    return given


def _row(name: str, *inputs: Tensor, **params: Any) -> Tensor:
    from tensor.primitives.registry import row

    return _kernels.apply(row(name, "moves"), inputs, params)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The elements in C order in another shape; one length may be −1. A view where strides allow, unless copy=True.

    ShapeError if the numbers of elements differ, ValueError if copy=False cannot be had.

    >>> import tensor as tn
    >>> reshape(tn.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return tensor_of("reshape", x).reshape(shape, copy=copy)


def flatten(x: Tensor, /, *, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Neighbouring dimensions as one."""
    return tensor_of("flatten", x).flatten(start_axis, end_axis)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Dimensions in another order, as a view.

    >>> import tensor as tn
    >>> permute_dims(tn.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return tensor_of("permute_dims", x).permute(axes)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Dimensions at the source axes moved to the destination axes; the others keep their order. A view.

    >>> import tensor as tn
    >>> moveaxis(tn.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = tensor_of("moveaxis", x).ndim
    take, put = _axes(source, ndim, "moveaxis"), _axes(destination, ndim, "moveaxis")
    if len(take) != len(put):
        raise AxisError(f"moveaxis: {len(take)} source axes for {len(put)} destination axes")
    order = [d for d in range(ndim) if d not in take]
    for to, a in sorted(zip(put, take, strict=True)):
        order.insert(to, a)
    return x.permute(tuple(order))


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Without the named dimensions, which must have size 1. A view."""
    return tensor_of("squeeze", x).squeeze(axis)


def expand_dims(x: Tensor, /, axis: Axes = 0) -> Tensor:
    """With a new dimension of size 1 at the axis (or at each of several, counted in the result). A view.

    >>> import tensor as tn
    >>> expand_dims(tn.zeros((2, 3)), axis=-1).shape
    (2, 3, 1)
    """
    if isinstance(axis, int):
        return tensor_of("expand_dims", x).unsqueeze(axis)
    given = set(_axes(axis, tensor_of("expand_dims", x).ndim + len(axis), "expand_dims"))
    rest = iter(x.shape)
    return x.reshape(tuple(1 if d in given else next(rest) for d in range(x.ndim + len(given))))


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Elements in reverse order along the axes (all of them if none is named). A view.

    >>> import tensor as tn
    >>> flip(tn.arange(3)).tolist()
    [2, 1, 0]
    """
    reversed_axes = _axes(axis, tensor_of("flip", x).ndim, "flip")
    return x[tuple(slice(None, None, -1) if d in reversed_axes else slice(None) for d in range(x.ndim))]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all broadcast to. ShapeError if they do not.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    from tensor.primitives import rules

    return rules.broadcast_shapes("broadcast_shapes", shapes) if shapes else ()


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """x repeated along dimensions of size 1 to the shape. A view.

    >>> import tensor as tn
    >>> broadcast_to(tn.arange(2), (2, 2)).tolist()
    [[0, 1], [0, 1]]
    """
    return tensor_of("broadcast_to", x).expand(tuple(shape))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All tensors repeated to the shape that they broadcast to. Views."""
    shape = broadcast_shapes(*(tensor_of("broadcast_arrays", x).shape for x in arrays))
    return [x.expand(shape) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis, in their common type; flat ones if axis is None.

    >>> import tensor as tn
    >>> concat([tn.arange(2), tn.arange(3)]).tolist()
    [0, 1, 0, 1, 2]
    """
    parts = _common(arrays, "concat")
    if axis is None:
        parts, axis = tuple(x.reshape((-1,)) for x in parts), 0
    if parts[0].ndim == 0:
        raise ShapeError("concat: tensors without dimensions cannot be joined (hint: stack)")
    return _row("cat", *parts, axis=_axis(axis, parts[0].ndim, "concat"))


def cat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """`concat` by PyTorch's name."""
    return concat(arrays, axis=axis)


def _common(arrays: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    if not arrays:
        raise ShapeError(f"{name}: needs at least one tensor")
    for x in arrays:
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"{name}: expected a sequence of Tensors, got {type(x).__name__} in it (hint: asarray)")
    if all(x.dtype == arrays[0].dtype for x in arrays):
        return tuple(arrays)
    from tensor.functions.promotion import operands

    return operands(name, *arrays)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new axis, in their common type.

    >>> import tensor as tn
    >>> stack([tn.arange(2), tn.arange(2)], axis=1).tolist()
    [[0, 0], [1, 1]]
    """
    parts = _common(arrays, "stack")
    for x in parts:
        if x.shape != parts[0].shape:
            raise ShapeError(f"stack: shapes {parts[0].shape} and {x.shape} differ")
    at = _axis(axis, parts[0].ndim + 1, "stack")
    return _row("cat", *(x.unsqueeze(at) for x in parts), axis=at)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as views.

    >>> import tensor as tn
    >>> [v.tolist() for v in unstack(tn.asarray([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    before = (slice(None),) * _axis(axis, tensor_of("unstack", x).ndim, "unstack")
    return tuple(x[(*before, i)] for i in range(x.shape[len(before)]))


def split(x: Tensor, sizes: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces along an axis: of one size (the last may be shorter), or of the sizes listed.

    >>> import tensor as tn
    >>> [v.tolist() for v in split(tn.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    at = _axis(axis, tensor_of("split", x).ndim, "split")
    n = x.shape[at]
    if isinstance(sizes, int):
        if sizes <= 0:
            raise ValueError(f"split: the size of a piece must be positive, got {sizes}")
        sizes = [min(sizes, n - start) for start in range(0, n, sizes)] or [0]
    elif sum(sizes) != n or any(s < 0 for s in sizes):
        raise ShapeError(f"split: sizes {list(sizes)} do not add up to the {n} elements of axis {axis}")
    before, pieces, start = (slice(None),) * at, [], 0
    for size in sizes:
        pieces.append(x[(*before, slice(start, start + size))])
        start += size
    return tuple(pieces)


def chunk(x: Tensor, chunks: int, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """At most so many views of equal length along an axis; the last may be shorter."""
    if chunks <= 0:
        raise ValueError(f"chunk: the number of pieces must be positive, got {chunks}")
    n = x.shape[_axis(axis, tensor_of("chunk", x).ndim, "chunk")]
    return split(x, max(1, -(-n // chunks)), axis=axis)


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Elements moved on by `shift` places along the axes, those that fall off put in at the front.

    >>> import tensor as tn
    >>> roll(tn.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    tensor_of("roll", x)
    if axis is None:
        if _is_row(shift):
            raise ValueError("roll: several shifts need as many axes")
        return roll(x.reshape((-1,)), _int(shift, "roll: shift"), axis=0).reshape(x.shape)
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    if _is_row(shift):
        shifts = tuple(_int(s, "roll: shift") for s in shift)
    else:
        shifts = (_int(shift, "roll: shift"),) * len(given)
    if len(shifts) != len(given):
        raise ValueError(f"roll: {len(shifts)} shifts for {len(given)} axes")
    moved = x
    for s, a in zip(shifts, given, strict=True):
        at = _axis(a, x.ndim, "roll")
        n = x.shape[at]
        cut = -s % n if n else 0
        if cut:
            before = (slice(None),) * at
            moved = _row("cat", moved[(*before, slice(cut, None))], moved[(*before, slice(0, cut))], axis=at)
    return x.clone() if moved is x else moved


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The whole tensor repeated so often along each dimension.

    >>> import tensor as tn
    >>> tile(tn.arange(2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    tensor_of("tile", x)
    if not _is_row(repetitions):
        raise TypeError(f"tile: repetitions must be a sequence of ints, got {type(repetitions).__name__}")
    times = tuple(_int(t, "tile: repetitions") for t in repetitions)
    if any(t < 0 for t in times):
        raise ValueError(f"tile: repetitions must not be negative, got {times}")
    rank = max(len(times), x.ndim)
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    paired = x.reshape(tuple(v for n in shape for v in (1, n)))
    wide = paired.expand(tuple(v for t, n in zip(times, shape, strict=True) for v in (t, n)))
    return wide.clone().reshape(tuple(t * n for t, n in zip(times, shape, strict=True)))


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element (each slice along the axis) repeated so often: a number for all, or a tensor of one for each.

    >>> import tensor as tn
    >>> repeat(tn.arange(3), 2).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    tensor_of("repeat", x)
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    at = _axis(axis, x.ndim, "repeat")
    n = x.shape[at]
    if isinstance(repeats, _kernels.Tensor):
        if repeats.dtype.kind not in ("signed integer", "unsigned integer"):
            raise DtypeError(f"repeat: numbers of repetitions must be integers, got {repeats.dtype.name}")
        counts = repeats.reshape((-1,)).tolist()
    elif _is_row(repeats):
        counts = [_int(r, "repeat: a number of repetitions") for r in repeats]
    else:
        counts = [_int(repeats, "repeat: the number of repetitions")]
    if any(c < 0 for c in counts):
        raise ValueError("repeat: a number of repetitions is negative")
    before, after = x.shape[:at], x.shape[at + 1 :]
    if len(counts) == 1:
        wide = x.reshape((*before, n, 1, *after)).expand((*before, n, counts[0], *after))
        return wide.clone().reshape((*before, n * counts[0], *after))
    if len(counts) != n:
        raise ShapeError(f"repeat: {len(counts)} numbers of repetitions for {n} elements")
    from tensor.functions.creation import arange
    from tensor.functions.searching import searchsorted
    from tensor.functions.statistics import cumsum

    if sum(counts) >= 2**63:
        raise ShapeError(f"repeat: {sum(counts)} elements are more than there are addresses")
    places = arange(sum(counts), dtype="int64", device=x.device)  # refuses what is too much before anything is made
    ends = cumsum(_kernels.asarray(counts, "int64", x.device), axis=0)
    return x[(*(slice(None),) * at, searchsorted(ends, places, side="right"))]


def pad(x: Tensor, widths: Any, /, *, value: complex = 0) -> Tensor:
    """One value put before and behind the elements: widths is (before, behind), or such a pair for each dimension.

    TypeError for widths that are no ints, ShapeError for another number of pairs and for negative widths.

    >>> import tensor as tn
    >>> pad(tn.asarray([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    tensor_of("pad", x)
    if not _is_row(widths):
        raise TypeError(f"pad: widths must be (before, behind), or such a pair for each dimension, got {widths!r}")
    pairs = tuple(widths)
    if len(pairs) == 2 and not any(_is_row(w) for w in pairs):
        pairs = (pairs,) * x.ndim
    if len(pairs) != x.ndim:
        raise ShapeError(f"pad: {len(pairs)} pairs of widths for {x.ndim} dimensions")
    if not all(_is_row(w) and len(w) == 2 for w in pairs):
        raise ShapeError(f"pad: widths must be a pair of lengths for each of {x.ndim} dimensions, got {widths!r}")
    fill = _kernels.full((), value, x.dtype, x.device)
    return _row("pad", x, fill, widths=tuple((_int(a, "pad: a width"), _int(b, "pad: a width")) for a, b in pairs))
