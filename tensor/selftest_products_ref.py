"""Twin of tensor/kernels/selftest_products.cpp: products of every type, convolutions and pooling, by the twins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor.twins import contraction_ref, convolution_ref, pooling_ref, quantised_ref
from tensor.twins.bfloat16_ref import narrow_bfloat16

Array = NDArray[Any]

# images, groups, inputs, outputs, size, taps, stride, before, dilation
_CONVOLUTIONS = (
    (2, 1, 3, 17, (9, 21), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 2, 2, 3, (8, 19), (2, 3), (2, 3), (1, 0), (1, 2)),
    (3, 1, 30, 2, (5, 4), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 5, 1, 1, (1, 40), (1, 5), (1, 2), (0, 2), (1, 1)),
)
# size, window, stride, before
_POOLS = (
    ((6, 38), (2, 2), (2, 2), (0, 0)),
    ((5, 40), (3, 2), (1, 3), (1, 1)),
    ((7, 300), (2, 3), (2, 1), (0, 1)),
)


def product_digests() -> dict[str, str]:
    """The digest of every kernel of products, convolutions and pooling that is hashed here, by name."""
    from tensor.selftest_ref import fnv1a

    kinds = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int16", "uint64")
    return {
        **{f"tensor.product_{kind}": fnv1a(_products(kind)) for kind in kinds},
        "tensor.product_bytes": fnv1a(_products("int8")),
        "tensor.product_quantised": fnv1a(_quantised()),
        "tensor.convolution_f32": fnv1a(_convolutions("float32")),
        "tensor.convolution_f64": fnv1a(_convolutions("float64")),
        "tensor.convolution_f16": fnv1a(_convolutions("float16")),
        "tensor.pooling_f32": fnv1a(_pools("float32")),
        "tensor.pooling_f64": fnv1a(_pools("float64")),
    }


def _values(seed: int, shape: tuple[int, ...], kind: str) -> Array:
    from tensor.selftest_ref import splitmix64, values

    n = int(np.prod(shape))
    if kind in ("float32", "float64"):
        return values(seed, n, np.dtype(kind)).reshape(shape)
    if kind.startswith("complex"):
        parts = values(seed, 2 * n, np.dtype("float32" if kind == "complex64" else "float64"))
        return parts.view(kind).reshape(shape)
    word = splitmix64(seed, n)
    if kind in ("float16", "bfloat16"):
        sixteenths = (word >> np.uint64(56)).astype(np.uint8).view(np.int8).astype(np.float32) / np.float32(16)
        return (narrow_bfloat16(sixteenths) if kind == "bfloat16" else sixteenths.astype(np.float16)).reshape(shape)
    size = np.dtype(kind).itemsize
    return (word >> np.uint64(64 - 8 * size)).astype(f"u{size}").view(kind).reshape(shape)


def _products(kind: str) -> Iterator[Array]:
    for batch, m, n, k in ((2, 3, 5, 7), (1, 17, 33, 300), (3, 1, 40, 20), (2, 70, 1, 9)):
        a, b = _values(k, (batch, m, k), kind), _values(k + 7, (n, k), kind).T
        yield contraction_ref.byte_matmul(a, b) if kind == "int8" else contraction_ref.matmul(a, b)


def _quantised() -> Iterator[Array]:
    for m, n, k, group in ((1, 3, 64, 64), (17, 40, 192, 64), (5, 33, 512, 256)):
        groups = k // group
        yield quantised_ref.quantised_product(
            _values(1, (m, k), "int8"),
            _values(3, (m,), "float32"),
            _values(2, (n, k // 2), "uint8"),
            _values(4, (n, groups), "float32"),
            _values(5, (n, groups), "float32"),
        )


def _convolutions(kind: str) -> Iterator[Array]:
    through = contraction_ref.through_float32
    for images, groups, inputs, outputs, size, taps, stride, before, dilation in _CONVOLUTIONS:
        rows, columns = ((size[d] + 2 * before[d] - dilation[d] * (taps[d] - 1) - 1) // stride[d] + 1 for d in (0, 1))
        x = _values(1, (images, groups * inputs, *size), kind)
        w = _values(2, (groups * outputs, inputs, *taps), kind)
        g = _values(3, (images, groups * outputs, rows, columns), kind)
        common = (stride, before, dilation, groups)
        yield through(lambda x, w, o=(rows, columns), c=common: convolution_ref.conv(x, w, o, *c), x, w)
        yield through(lambda g, w, o=size, c=common: convolution_ref.conv_transpose(g, w, o, *c), g, w)
        yield through(lambda x, g, t=taps, c=common: convolution_ref.conv_weight_gradient(x, g, t, *c), x, g)


def _pools(kind: str) -> Iterator[Array]:
    for size, window, stride, before in _POOLS:
        output = (
            (size[0] + 2 * before[0] - window[0]) // stride[0] + 1,
            (size[1] + 2 * before[1] - window[1]) // stride[1] + 1,
        )
        x, g = _values(1, (1, 3, *size), kind), _values(3, (1, 3, *output), kind)
        largest, index = pooling_ref.max_pool(x, output, window, stride, before, (1, 1))
        yield largest
        yield index
        yield pooling_ref.average_pool(x, output, window, stride, before, 0)
        yield pooling_ref.average_pool_gradient(g, size, window, stride, before, window[0] * window[1])
        yield pooling_ref.pool_scatter(g, index, size)
