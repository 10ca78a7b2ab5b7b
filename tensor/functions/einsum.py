"""Einstein's sums: two operands at a time, by a path that depends on shapes only."""

from __future__ import annotations

import math
from typing import Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.functions.linear_algebra import _numbers, _row

__all__ = ["einsum"]

Tensor = Any
Labels = str  # one letter a dimension; those of an ellipsis are capital Greek


_ELLIPSIS = "".join(chr(c) for c in range(0x391, 0x391 + 17) if c != 0x3A2)


def einsum(equation: str, /, *tensors: Tensor) -> Tensor:
    """The sum of products that an equation names: "ij,jk->ik" is a product of matrices.

    Each letter is a dimension; letters that the result does not name are summed over. Without "->" the result has the
    letters that occur once, in alphabetical order. "..." stands for any dimensions, which broadcast. A letter twice in
    one operand takes its diagonal. Of several operands, the pair with the smallest result is contracted first, the
    earlier pair if there are two; each contraction is a product of matrices (matmul's order of sums).
    Raises ValueError for an equation that means nothing, ShapeError where sizes differ.

    >>> import tensor as tn
    >>> a = tn.asarray([[1., 2.], [3., 4.]])
    >>> tn.einsum("ii", a).item(), tn.einsum("ij,j->i", a, tn.asarray([1., 1.])).tolist()
    (5.0, [3.0, 7.0])
    """
    inputs, output = _parsed(equation, tensors)
    values = list(_numbers("einsum", *tensors))
    terms = [_without_repetition(x, labels) for x, labels in zip(values, inputs, strict=True)]
    _require_sizes(equation, terms)
    while len(terms) > 1:
        i, j = _next_pair(terms, output)
        needed = set(output).union(*(set(labels) for k, (_, labels) in enumerate(terms) if k not in (i, j)))
        joined = _contracted(terms[i], terms[j], needed)
        terms = [t for k, t in enumerate(terms) if k not in (i, j)]
        terms.append(joined)
    x, labels = _summed(terms[0], set(output))
    return x.permute(tuple(labels.index(c) for c in output)) if labels != output else x


def _parsed(equation: str, tensors: tuple[Tensor, ...]) -> tuple[list[Labels], Labels]:
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation must be a str, got {type(equation).__name__}")
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors) or not tensors:
        raise ValueError(f"einsum: {equation!r} names {len(parts)} operands, got {len(tensors)}")
    inputs, widest = [], 0
    for part, x in zip(parts, tensors, strict=True):
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"einsum: expected Tensors, got {type(x).__name__} (hint: asarray)")
        before, dots, after = part.partition("...")
        letters = before + after
        if not all(c.isascii() and c.isalpha() for c in letters):
            raise ValueError(f"einsum: operands are letters and one ellipsis, got {part!r} in {equation!r}")
        hidden = x.ndim - len(letters)
        if hidden < 0 or (hidden and not dots):
            raise ShapeError(f"einsum: {part!r} in {equation!r} does not name the dimensions of shape {x.shape}")
        widest = max(widest, hidden if dots else 0)
        inputs.append(before + _ELLIPSIS[len(_ELLIPSIS) - hidden :] + after)
    ellipsis = _ELLIPSIS[len(_ELLIPSIS) - widest :]
    everything = "".join(inputs)
    if not arrow:
        once = sorted(c for c in set(everything) if c.isascii() and everything.count(c) == 1)
        return inputs, ellipsis + "".join(once)
    before, dots, after = right.partition("...")
    if widest and not dots:
        raise ValueError(f"einsum: the result of {equation!r} must have an ellipsis as well")
    output = before + (ellipsis if dots else "") + after
    if len(set(output)) < len(output) or not set(output) <= set(everything):
        raise ValueError(f"einsum: the result of {equation!r} must name dimensions of the operands, each once")
    return inputs, output


def _without_repetition(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """Diagonals of repeated letters, as views where strides allow."""
    for c in sorted(set(labels)):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            n = x.shape[i]
            if x.shape[j] != n:
                raise ShapeError(f"einsum: {c!r} names dimensions of sizes {n} and {x.shape[j]}")
            others = tuple(k for k in range(x.ndim) if k not in (i, j))
            flat = x.permute((*others, i, j)).reshape((*(x.shape[k] for k in others), n * n))
            x = flat[..., :: n + 1] if n else flat
            labels = "".join(labels[k] for k in others) + c
    return x, labels


def _require_sizes(equation: str, terms: list[tuple[Tensor, Labels]]) -> None:
    sizes: dict[str, int] = {}
    for x, labels in terms:
        for c, n in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif n not in (1, known):
                name = "the ellipsis" if not c.isascii() else repr(c)
                raise ShapeError(f"einsum: {name} in {equation!r} names sizes {known} and {n}")
    for k, (x, labels) in enumerate(terms):
        shape = tuple(sizes[c] for c in labels)
        if shape != x.shape:
            from tensor.functions.manipulation import broadcast_to

            terms[k] = broadcast_to(x, shape), labels


def _next_pair(terms: list[tuple[Tensor, Labels]], output: Labels) -> tuple[int, int]:
    """The pair whose contraction has the fewest elements, the first such one."""
    best, found = math.inf, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            others = {c for k, (_, labels) in enumerate(terms) if k not in (i, j) for c in labels}
            sizes = {c: n for x, labels in (terms[i], terms[j]) for c, n in zip(labels, x.shape, strict=True)}
            size = math.prod(n for c, n in sizes.items() if c in others or c in output)
            if size < best:
                best, found = size, (i, j)
    return found


def _summed(term: tuple[Tensor, Labels], needed: set[str]) -> tuple[Tensor, Labels]:
    x, labels = term
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    if axes:
        x = x.sum(axis=axes, dtype=x.dtype)
    return x, "".join(c for c in labels if c in needed)


def _contracted(left: tuple[Tensor, Labels], right: tuple[Tensor, Labels], needed: set[str]) -> tuple[Tensor, Labels]:
    (x, lx), (y, ly) = _summed(left, needed | set(right[1])), _summed(right, needed | set(left[1]))
    batch = [c for c in lx if c in ly and c in needed]
    inner = [c for c in lx if c in ly and c not in needed]
    rows, columns = [c for c in lx if c not in ly], [c for c in ly if c not in lx]
    shape = {**dict(zip(lx, x.shape, strict=True)), **dict(zip(ly, y.shape, strict=True))}

    def sizes(labels: list[str]) -> tuple[int, ...]:
        return tuple(shape[c] for c in labels)

    a = x.permute(tuple(lx.index(c) for c in batch + rows + inner))
    b = y.permute(tuple(ly.index(c) for c in batch + inner + columns))
    m, k, n = (math.prod(sizes(part)) for part in (rows, inner, columns))
    a, b = a.reshape((*sizes(batch), m, k)), b.reshape((*sizes(batch), k, n))
    product = _row("matmul", (a, b)) if inner else a * b
    return product.reshape(sizes(batch + rows + columns)), "".join(batch + rows + columns)
