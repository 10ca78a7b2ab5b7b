"""Kernels of the elementary and special functions against their twins, bit for bit, whatever surrounds a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensor import _kernels, build_info
from tensor.float_mode import plain_mode
from tensor.twins import complex_ref, special_ref
from tensor.twins.bfloat16_ref import bfloat16_bits, bfloat16_of_bits, is_bfloat16

Array = np.ndarray[Any, Any]

ROWS = _kernels.elementwise_rows()
ISAS = ["v3", "v4"] if build_info()["isa_best"] == "v4" else [str(build_info()["isa_best"])]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, -2.5, 8, 88.7, -104, 710, -746, 2.0**27, 1e30]
CASES = [(op, name) for op in sorted(special_ref.TWINS) for name in ("float16", "bfloat16", "float32", "float64")]
COMPLEX_CASES = [(op, name) for op in sorted(complex_ref.TWINS) for name in ("complex64", "complex128")]
NATIVE = [(op, name) for op, name in CASES if name in ("float32", "float64")]

pytestmark = pytest.mark.skipif(build_info()["isa"] == "ref", reason="DROVEWAY_ISA=ref has no kernels to compare")


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = _kernels.threads()
    yield
    _kernels.set_threads(before)


def floats(dtype: Any, n: int, seed: int) -> Array:
    """Any bit patterns, values around the ranges of the functions, edges, subnormal numbers."""
    rng = np.random.default_rng(seed)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    tiny = np.array([1, 2, 77], word).view(dtype)
    with np.errstate(over="ignore"):
        parts = [
            rng.integers(0, np.iinfo(word).max, n, dtype=word, endpoint=True).view(dtype),
            rng.uniform(-1.2, 1.2, n).astype(dtype),
            rng.uniform(-12, 12, n).astype(dtype),
            rng.uniform(-800, 800, n).astype(dtype),
            *(np.array(EDGES).astype(dtype), tiny, -tiny),
        ]
    return rng.permutation(np.concatenate(parts))


def values(name: str, n: int, seed: int) -> Array:
    if name == "bfloat16":
        return bfloat16_of_bits((floats(np.float32, n, seed).view(np.uint32) >> 16).astype(np.uint16))
    if name.startswith("complex"):
        part = np.float32 if name == "complex64" else np.float64
        return np.stack([floats(part, n, seed), floats(part, n, seed + 100)], axis=-1).reshape(-1).view(name)
    return floats(np.dtype(name), n, seed)


def inputs(op: str, name: str, n: int, seed: int = 1) -> list[Array]:
    arrays = [values(name, n, seed + k) for k in range(ROWS[op][1])]
    if op == "pow":  # whole exponents, and bases near 1, where results are in range
        with np.errstate(all="ignore"):
            arrays[1][::3] = arrays[1][::3] if is_bfloat16(arrays[1]) else np.trunc(arrays[1][::3].real / 7)
    return arrays


def plain(x: Array) -> Array:
    return np.asarray(bfloat16_bits(x)) if is_bfloat16(x) else x


def run(op: str, name: str, arrays: list[Array], isa: str = "", out: Array | None = None) -> Array:
    out = np.empty(arrays[0].shape, plain(arrays[0]).dtype) if out is None else out
    marked = "bfloat16" if name == "bfloat16" else ""
    _kernels.elementwise(ROWS[op][0], out, *(plain(a) for a in arrays), dtype=marked, isa=isa)
    return out


def twin(op: str, name: str, arrays: list[Array]) -> Array:
    table = complex_ref.TWINS if name.startswith("complex") else special_ref.TWINS
    with plain_mode():
        return plain(table[op](tuple(arrays), None))


def assert_same_bits(got: Array, expected: Array, *about: Any) -> None:
    assert got.dtype == expected.dtype, about
    assert got.shape == expected.shape, about
    word = np.dtype(f"u{min(got.itemsize, 4)}")
    a, b = (np.ascontiguousarray(x).reshape(-1).view(word) for x in (got, expected))
    at = np.flatnonzero(a != b) * word.itemsize // got.itemsize
    assert at.size == 0, (*about, at[:3], got.reshape(-1)[at[:3]], expected.reshape(-1)[at[:3]])


@pytest.mark.parametrize(("op", "name"), CASES + COMPLEX_CASES)
def test_kernels_of_every_build_equal_the_twin(op: str, name: str) -> None:
    arrays = inputs(op, name, 400)
    expected = twin(op, name, arrays)
    for isa in ISAS:
        assert_same_bits(run(op, name, arrays, isa), expected, op, name, isa)


@pytest.mark.parametrize(("op", "name"), NATIVE + COMPLEX_CASES)
def test_neighbours_strides_and_threads_change_no_bit(op: str, name: str) -> None:
    arrays = inputs(op, name, 60)
    expected = run(op, name, arrays)
    n = expected.size
    alone = [run(op, name, [a[i : i + 1] for a in arrays])[0] for i in range(0, n, 5)]
    assert_same_bits(np.array(alone), expected[::5], op, name, "alone")
    for start in (1, 7, 15):
        assert_same_bits(run(op, name, [a[start:] for a in arrays]), expected[start:], op, name, start)
    assert_same_bits(run(op, name, [a[::-3] for a in arrays]), expected[::-3], op, name, "backwards")
    order = np.random.default_rng(9).permutation(n)
    assert_same_bits(run(op, name, [a[order] for a in arrays]), expected[order], op, name, "shuffled")
    long = [np.resize(a, 70_001) for a in arrays]
    for threads in (1, 2, 3, 7):
        _kernels.set_threads(threads)
        assert_same_bits(run(op, name, long), np.resize(expected, 70_001), op, name, threads)


def test_every_function_of_the_table_has_kernel_and_twin_for_each_of_its_dtypes() -> None:
    for op, (code, arity, dtypes, _) in ROWS.items():
        if op not in special_ref.TWINS or op == "pow":
            continue
        for name in dtypes:
            arrays = inputs(op, name, 3)
            assert_same_bits(run(op, name, arrays), twin(op, name, arrays), op, name, code, arity)
