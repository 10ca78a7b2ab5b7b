"""Twin of tensor/kernels/selftest_reduce.cpp: reductions, normalisation, sorting, indexing, optimizer steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.selftest_products_ref import _values
from tensor.twins import (
    indexing_ref,
    norm_ref,
    optimizer_steps_ref,
    reductions_ref,
    scan_ref,
    softmax_ref,
    sort_ref,
)

Array = NDArray[Any]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")
_REDUCE = (
    *("sum", "prod", "mean", "square_sum", "norm", "max", "min", "any", "all", "count_nonzero"),
    *("argmax", "argmin", "logsumexp", "var", "std"),
)
_CASES = (
    ((5,), (0,)),
    ((300,), (0,)),
    ((3, 17, 5), (1,)),
    ((3, 17, 5), (0, 2)),
    ((130, 70), (0,)),
    ((70, 130), (1,)),
    ((9000,), (0,)),
    ((4200, 5), (0,)),
)


def reduce_digests() -> dict[str, str]:
    """The digest of every kernel of this family, by name."""
    from tensor.selftest_ref import fnv1a

    kinds: dict[str, tuple[Callable[[str], Iterator[Any]], tuple[str, ...]]] = {
        "reduce": (_reduce, ("bool", "int8", "int32", "uint16", "uint64", *_FLOATS, *_COMPLEX)),
        "scan": (_scan, ("int8", "uint64", *_FLOATS, *_COMPLEX)),
        "softmax": (_softmax, _FLOATS),
        "norm": (_norm, _FLOATS),
        "sort": (_sort, ("bool", "int8", "int64", "uint32", "uint64", *_FLOATS)),
        "indexing": (_indexing, ("bool", "int8", "uint32", "int64", *_FLOATS, *_COMPLEX)),
        "steps": (_steps, ("float32", "float64")),
    }
    return {f"tensor.{name}_{dtype}": fnv1a(run(dtype)) for name, (run, dtypes) in kinds.items() for dtype in dtypes}


def _made(seed: int, dtype: str, shape: tuple[int, ...], gaps: bool = False) -> Array:
    """Elements in C order, or every second one of the last dimension, the first dimension backwards."""
    full = (*shape[:-1], shape[-1] * 2) if gaps else shape
    truth = dtype == "bool"
    x = (_values(seed, full, "uint8") & np.uint8(1)).astype(bool) if truth else _values(seed, full, dtype)
    return x[..., ::2][::-1] if gaps else x


def _reduce(dtype: str) -> Iterator[Array]:
    for shape, axes in _CASES:
        for gaps in (False, True):
            x = _made(sum(1 << a for a in axes), dtype, shape, gaps)
            for name in _REDUCE:
                if dtype in _COMPLEX and name in {"max", "min", "argmax", "argmin"}:
                    continue
                if dtype not in _FLOATS and name in {"square_sum", "norm", "logsumexp", "var", "std"}:
                    continue
                if dtype not in _FLOATS + _COMPLEX and name == "mean":
                    continue
                yield reductions_ref.reduce(name, x, axes, 1.0)


def _scan(dtype: str) -> Iterator[Array]:
    for shape, axis in (((300,), 0), ((4700,), 0), ((3, 17, 5), 1), ((600, 7), 0)):
        for gaps in (False, True):
            x = _made(axis + 3, dtype, shape, gaps)
            yield scan_ref.scan("sum", x, axis)
            yield scan_ref.scan("prod", x, axis)
            if dtype not in _COMPLEX and shape[0] < 1000:
                yield from scan_ref.scan_extreme("max", x, axis)
                yield from scan_ref.scan_extreme("min", x, axis)


def _softmax(dtype: str) -> Iterator[Array]:
    for shape, axis in (((5,), 0), ((3, 300), 1), ((3, 17, 5), 1), ((1, 4200), 1), ((40, 33), 0)):
        for gaps in (False, True):
            x, g = _made(axis + 9, dtype, shape, gaps), _made(axis + 11, dtype, shape, gaps)
            for logarithm in (False, True):
                y = softmax_ref.softmax(x, axis, logarithm)
                yield y
                yield softmax_ref.softmax_backward(g, y, axis, logarithm)
    for rows, classes in ((4, 10), (3, 4200), (1, 1)):
        for smoothing in (0.0, 0.125):
            x = _made(21, dtype, (rows, classes), True)
            targets = np.array([-100 if i == 1 else (7 * i + 3) % classes for i in range(rows)], np.int64)
            loss, lse = softmax_ref.cross_entropy(x, targets, -100, smoothing)
            yield loss
            yield lse
            g = _made(22, dtype, (rows,))
            yield softmax_ref.cross_entropy_backward(g, x, targets, lse, -100, smoothing)


def _norm(dtype: str) -> Iterator[Array]:
    for shape in ((3, 300), (1, 4200), (100, 33), (4200, 3)):
        for gaps in (False, True):
            x, g = _made(31, dtype, shape, gaps), _made(32, dtype, shape, gaps)
            weight, bias = _made(33, dtype, shape[1:]), _made(34, dtype, shape[1:])
            y, mean, rstd = norm_ref.layer_norm(x, weight, bias, 1, 1e-5)
            yield from (y, mean, rstd, *norm_ref.norm_backward(g, x, mean, rstd, weight, 1))
            y, rstd = norm_ref.rms_norm(x, weight, 1, 1e-5)
            dx, d_weight, _ = norm_ref.norm_backward(g, x, None, rstd, None, 1)
            yield from (y, rstd, dx, d_weight)


def _sort(dtype: str) -> Iterator[Array]:
    for shape, axis in (((5,), 0), ((3000,), 0), ((3, 60, 5), 1), ((60, 7), 0)):
        for gaps in (False, True):
            x = _made(axis + 41, dtype, shape, gaps)
            for descending in (False, True):
                for k in (shape[axis], shape[axis] // 3):
                    values, indices = sort_ref.top_k(x, k, axis, descending)
                    yield values
                    yield indices
                    if k == shape[axis] and not descending and len(shape) == 1:
                        yield sort_ref.searchsorted(values, x, False)
                        yield sort_ref.searchsorted(values, x, True)
                        yield from sort_ref.unique_groups(x, indices)


def _places(seed: int, shape: tuple[int, ...], n: int) -> Array:
    from tensor.selftest_ref import splitmix64

    return (splitmix64(seed, int(np.prod(shape))) % np.uint64(n)).astype(np.int64).reshape(shape)


def _indexing(dtype: str) -> Iterator[Array]:
    for gaps in (False, True):
        x = _made(51, dtype, (3, 40, 5), gaps)
        yield indexing_ref.take(x, _places(52, (60,), 40), 1)
        yield indexing_ref.gather(x, _places(53, (3, 9, 5), 40), 1)
        yield indexing_ref.nonzero(x)
    if dtype in ("bool", *_COMPLEX):
        return
    for width in (1, 5, 70):
        for number, combine in enumerate(("set", "sum", "prod", "mean", "max", "min")):
            out, updates = _made(61, dtype, (7, width)), _made(62, dtype, (300, width))
            yield indexing_ref.combine_rows(out, _places(63, (300,), 6), updates, combine, number % 2 == 1)


def _steps(dtype: str) -> Iterator[Array]:
    tensors = [[_made(seed, dtype, (n,)) for seed in (71, 72, 73, 74)] for n in (1, 17, 0, 17000, 33)]
    numbers = {"decay": 0.99, "beta1": 0.9, "beta2": 0.999, "step": 0.01, "root_scale": 3.5, "epsilon": 1e-8}
    done = [optimizer_steps_ref.adamw(*each, **numbers) for each in tensors]
    for i in range(3):
        yield from (each[i] for each in done)
    moved = [
        optimizer_steps_ref.sgd(p, g, m, rate=0.1, decay=0.01, mu=0.9, dampening=0.25, nesterov=True, first_step=False)
        for (p, m, _), (_, g, _, _) in zip(done, tensors, strict=True)
    ]
    yield from (p for p, _ in moved)
    yield from (m for _, m in moved if m is not None)
