"""Twin of the self-test of elementwise loops (tensor/kernels/selftest_elementwise.cpp)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tensor import _kernels
from tensor.selftest_ref import awkward, fnv1a, splitmix64
from tensor.twins.bfloat16_ref import BFLOAT16, bfloat16_bits, bfloat16_of_bits, is_bfloat16
from tensor.twins.elementwise_ref import TWINS, cast

__all__ = ["elementwise_digests"]

Array = Any

_ELEMENTS = 301
_HALF_EDGES = np.array(
    [
        *(0x0000, 0x8000, 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7E00, 0xFFC1),
        *(0x3C00, 0x3F80, 0x0001, 0x8001, 0x7BFF, 0x7F7F, 0x4200, 0xC040),
    ],
    np.uint16,
)


def elementwise_digests() -> dict[str, str]:
    """The digest of the exact operations of each dtype, and of all casts."""
    names = _kernels.elementwise_rows()["copy"][2]
    digests = {f"tensor.elementwise_{name}": fnv1a(_operations(name)) for name in names}
    return digests | {"tensor.cast": fnv1a(_casts(names))}


def values(seed: int, name: str) -> Array:
    """301 values of a dtype, one in four at an edge of its arithmetic."""
    if name in ("float32", "float64"):
        return awkward(seed, _ELEMENTS, np.dtype(name))
    if name in ("complex64", "complex128"):
        part = np.dtype(np.float32 if name == "complex64" else np.float64)
        return awkward(seed, 2 * _ELEMENTS, part).view(name)
    word = splitmix64(seed, _ELEMENTS)
    if name == "bool":
        return word & np.uint64(1) == 1
    edge = word & np.uint64(3) == 0
    which = (word >> np.uint64(2)).astype(np.int64)
    if name in ("float16", "bfloat16"):
        bits = np.where(edge, _HALF_EDGES[which & 15], (word >> np.uint64(48)).astype(np.uint16))
        return bits.view(np.float16) if name == "float16" else bfloat16_of_bits(bits)
    info = np.iinfo(name)
    smallest = 2 ** (info.bits - 1) if info.min < 0 else 0
    edges = np.array([0, 1, 2, 3, 7, 2**64 - 1, smallest, (smallest - 1) % 2**64], np.uint64)
    plain = word >> np.uint64(64 - info.bits)
    return np.where(edge, edges[which & 7], plain).astype(f"u{info.bits // 8}").view(name)


def _bytes(x: Array) -> Array:
    return bfloat16_bits(x) if is_bfloat16(x) else x


def _operations(name: str) -> Iterator[Array]:
    truths = values(99, "bool")
    inputs = [values(seed, name) for seed in (1, 2, 3)]
    rows = _kernels.elementwise_rows()
    for operation, (code, arity, dtypes, _) in rows.items():
        if code >= rows["exp"][0] or operation == "cast" or name not in dtypes:
            continue  # special functions have their own tests
        if (operation, name[:7]) == ("sqrt", "complex"):
            continue
        arrays = tuple(inputs[:arity])
        yield _bytes(TWINS[operation]((truths, *arrays[1:]) if operation == "where" else arrays, None))


def _casts(names: tuple[str, ...]) -> Iterator[Array]:
    for source in names:
        x = values(4, source)
        for target in names:
            if source.startswith("complex") and not target.startswith("complex") and target != "bool":
                continue
            yield _bytes(cast(x, BFLOAT16 if target == "bfloat16" else np.dtype(target)))
