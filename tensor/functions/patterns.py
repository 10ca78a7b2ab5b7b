"""Layouts by name: rearrange, pack and unpack with the patterns of einops (Rogozhnikov, ICLR 2022).

A pattern names the dimensions: "n (h w) c -> n h w c". Parentheses join dimensions, 1 is a dimension of size 1, … is
written "..." and stands for any number of dimensions. Nothing is summed or repeated: both sides have the same names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of

__all__ = ["pack", "rearrange", "unpack"]

Tensor = Any
Group = tuple[str, ...]  # the names that one dimension joins; () is a dimension of size 1

_TOKEN = re.compile(r"\s*(\.\.\.|\(|\)|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|\*|\S)")
_REST = "..."


@lru_cache(maxsize=1024)
def _side(what: str, text: str) -> tuple[Group, ...]:
    """The groups of one side of a pattern."""
    groups: list[Group] = []
    inside: list[str] | None = None
    seen: set[str] = set()
    for token in _TOKEN.findall(text):
        if token == "(":
            if inside is not None:
                raise ValueError(f"{what}: parentheses do not nest")
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"{what}: ')' without '('")
            groups.append(tuple(inside))
            inside = None
        elif token == "1":
            if inside is None:
                groups.append(())
        elif token == _REST or token.isidentifier():
            if token in seen:
                raise ValueError(f"{what}: {token!r} is there twice on one side")
            seen.add(token)
            if inside is None:
                groups.append((token,))
            else:
                inside.append(token)
        else:
            raise ValueError(f"{what}: {token!r} is no name, 1, '...' or parenthesis")
    if inside is not None:
        raise ValueError(f"{what}: '(' without ')'")
    return tuple(groups)


def _sides(pattern: str) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    what = f"rearrange {pattern!r}"
    if not isinstance(pattern, str):
        raise TypeError(f"rearrange: the pattern must be text, got {type(pattern).__name__}")
    parts = pattern.split("->")
    if len(parts) != 2:
        raise ValueError(f"{what}: one '->' between two sides is needed")
    left, right = (_side(what, part) for part in parts)
    if any(_REST in group and len(group) > 1 for group in left):
        raise ValueError(f"{what}: '...' cannot be inside parentheses on the left")
    a, b = ({name for group in side for name in group} for side in (left, right))
    if a != b:
        raise ValueError(f"{what}: {', '.join(sorted(a ^ b))} must be on both sides (hint: sum, expand and tile)")
    return left, right


def _opened(groups: Sequence[Group], rest: Sequence[str]) -> list[Group]:
    """'...' replaced by names of its dimensions: a group each, or all in the group that holds it."""
    found: list[Group] = []
    for group in groups:
        if group == (_REST,):
            found += [(name,) for name in rest]
        else:
            found.append(tuple(n for name in group for n in (rest if name == _REST else (name,))))
    return found


def _sizes(pattern: str, shape: Sequence[int], groups: Sequence[Group], given: dict[str, int]) -> dict[str, int]:
    """The size of every name: given ones, and at most one a dimension that follows from it."""
    what = f"rearrange {pattern!r}"
    sizes = dict(given)
    for n, group in zip(shape, groups, strict=True):
        unknown = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1:
            raise ValueError(f"{what}: the sizes of {' and '.join(unknown)} are needed (hint: {unknown[0]}=2)")
        if unknown:
            if known == 0 or n % known:
                raise ShapeError(f"{what}: a dimension of {n} is not divisible by {known}, shape {tuple(shape)}")
            sizes[unknown[0]] = n // known
        elif known != n:
            raise ShapeError(f"{what}: a dimension of {n} cannot be ({' '.join(group)}) of {known} elements")
    return sizes


def rearrange(x: Tensor, pattern: str, /, **sizes: int) -> Tensor:
    """x with its dimensions split, ordered and joined as the pattern says; `sizes` gives what does not follow.

    A view where strides can say it. ValueError for a pattern that is wrong, or that loses or repeats a dimension;
    ShapeError where x does not fit it.

    >>> import tensor as tn
    >>> x = tn.arange(12).reshape((2, 6))
    >>> tn.rearrange(x, "n (a b) -> b (n a)", b=3).shape
    (3, 4)
    >>> tn.rearrange(x, "n (a b) -> n a", b=3)
    Traceback (most recent call last):
        ...
    ValueError: rearrange 'n (a b) -> n a': b must be on both sides (hint: sum, expand and tile)
    """
    if not isinstance(pattern, str):
        raise TypeError(f"rearrange: the pattern must be a str, got {type(pattern).__name__}")
    left, right = _sides(pattern)
    shape = tensor_of("rearrange", x).shape
    rest: list[str] = []
    if (_REST,) in left:
        missing = len(shape) - len(left) + 1
        rest = [f"...{i}" for i in range(missing)]
        left = tuple(_opened(left, rest)) if missing >= 0 else left
    if len(left) != len(shape):
        raise ShapeError(f"rearrange {pattern!r}: the left side has {len(left)} dimensions, x {len(shape)}")
    right = tuple(_opened(right, rest))
    names = [name for group in left for name in group]
    for name, n in sizes.items():
        if name not in names:
            raise ValueError(f"rearrange {pattern!r}: no dimension is called {name}")
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ValueError(f"rearrange {pattern!r}: the size {name} must be an int from 0, got {n!r}")
    found = _sizes(pattern, shape, left, sizes)
    apart = x.reshape(tuple(found[name] for name in names))
    order = [name for group in right for name in group]
    turned = apart.permute(tuple(names.index(name) for name in order))
    return turned.reshape(tuple(math.prod(found[name] for name in group) for group in right))


def _packing(what: str, pattern: str) -> tuple[int, int]:
    """How many dimensions stand before and behind the one that packs."""
    if not isinstance(pattern, str):
        raise TypeError(f"{what}: the pattern must be text, got {type(pattern).__name__}")
    names = pattern.split()
    if names.count("*") != 1 or not all(n == "*" or n.isidentifier() for n in names) or len(set(names)) < len(names):
        raise ValueError(f"{what}: the pattern must be different names and one *, got {pattern!r}")
    at = names.index("*")
    return at, len(names) - at - 1


def pack(tensors: Sequence[Tensor], pattern: str, /) -> tuple[Tensor, list[tuple[int, ...]]]:
    """Tensors of one type side by side along the * of the pattern, and what each had there: what `unpack` needs.

    All dimensions of a tensor between the named ones become the one of *: none counts as one element.

    >>> import tensor as tn
    >>> packed, shapes = tn.pack([tn.zeros((2, 3)), tn.zeros((2, 4, 5, 3))], "n * c")
    >>> packed.shape, shapes
    ((2, 21, 3), [(), (4, 5)])
    """
    from tensor.functions.manipulation import concat

    before, behind = _packing("pack", pattern)
    flat, shapes = [], []
    for x in tensors:
        shape = tensor_of("pack", x).shape
        if len(shape) < before + behind:
            raise ShapeError(f"pack: a tensor of shape {shape} has fewer dimensions than {pattern!r} names")
        end = len(shape) - behind
        shapes.append(shape[before:end])
        flat.append(x.reshape((*shape[:before], math.prod(shape[before:end]), *shape[end:])))
    if not flat:
        raise ValueError("pack: no tensors")
    if any(x.dtype != flat[0].dtype for x in flat):
        raise DtypeError(f"pack: the tensors must have one type, got {', '.join(x.dtype.name for x in flat)}")
    for x, y in zip(flat, tensors, strict=True):
        if x.shape[:before] != flat[0].shape[:before] or x.shape[before + 1 :] != flat[0].shape[before + 1 :]:
            raise ShapeError(f"pack {pattern!r}: shapes {tensors[0].shape} and {y.shape} differ beside *")
    return concat(flat, axis=before), shapes


def unpack(x: Tensor, shapes: Sequence[Sequence[int]], pattern: str, /) -> list[Tensor]:
    """The tensors of `pack` as views: each gets its shape in the place of the *.

    >>> import tensor as tn
    >>> [t.shape for t in tn.unpack(tn.zeros((2, 21, 3)), [(), (4, 5)], "n * c")]
    [(2, 3), (2, 4, 5, 3)]
    """
    before, behind = _packing("unpack", pattern)
    shape = tensor_of("unpack", x).shape
    if len(shape) != before + 1 + behind:
        raise ShapeError(f"unpack: {pattern!r} has {before + 1 + behind} dimensions, x has shape {shape}")
    sizes = [math.prod(s) for s in shapes]
    if sum(sizes) != shape[before]:
        raise ShapeError(f"unpack: the shapes hold {sum(sizes)} elements, the dimension of * {shape[before]}")
    found, start = [], 0
    for inner, n in zip(shapes, sizes, strict=True):
        part = x[(*(slice(None),) * before, slice(start, start + n))]
        found.append(part.reshape((*shape[:before], *inner, *shape[before + 1 :])))
        start += n
    return found
