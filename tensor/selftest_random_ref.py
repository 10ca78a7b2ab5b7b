"""Twin of the self-test of draws for many keys and of children (tensor/kernels/selftest_random.cpp)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor import random_ref
from tensor.selftest_ref import fnv1a

_KEYS = np.array([0x299F31D0A4093822, 0, 2**64 - 1], np.uint64)
_NUMBERS = np.array([7, 2**32, 2**64 - 1], np.uint64)
_OFFSET = 2**34 + 5
_EACH = (301,)
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = (
    (-100, 100, "int8"),
    (3, 1003, "uint16"),
    (-7, 2**31 - 7, "int32"),
    (5, 3 * 2**62 + 5, "uint64"),
    (-(2**63), 2**63, "int64"),
)


def random_digests() -> dict[str, str]:
    """The digest of each kind of draw."""
    draws: dict[str, list[Any]] = {
        "bits": [
            random_ref.bits(_KEYS, _EACH, _OFFSET, "uint32"),
            random_ref.bits(_KEYS, (8300,), _OFFSET, "uint64"),
        ],
        "uniform": [random_ref.uniform(_KEYS, _EACH, _OFFSET, dtype) for dtype in _FLOATS],
        "normal": [random_ref.normal(_KEYS, _EACH, _OFFSET, dtype) for dtype in _FLOATS],
        "randint": [random_ref.randint(_KEYS, _EACH, _OFFSET, *what) for what in _INTEGERS],
        "bernoulli": [random_ref.bernoulli(_KEYS, _EACH, _OFFSET, 5033165)],
        "child": [random_ref.children(_KEYS, _NUMBERS, tag) for tag in (1, 2)],
    }
    return {f"tensor.random_{name}": fnv1a(iter(parts)) for name, parts in draws.items()}
