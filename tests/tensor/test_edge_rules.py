"""The tables of rules for types, rounding and edges, row by row: eager, on the twins' device and captured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.errors import DtypeError, EmptyReductionError, ReadOnlyError, ShapeError

NAN, INF = math.nan, math.inf
I8, I32, I64, U8 = tn.int8, tn.int32, tn.int64, tn.uint8
F16, BF16, F32, F64 = tn.float16, tn.bfloat16, tn.float32, tn.float64
MIN64 = -(2**63)


def bits(x: tn.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    plain = tn.bitcast(x, tn.uint16) if x.dtype == BF16 else x
    return x.dtype.name, x.shape, plain.contiguous().numpy().tobytes()


def spelled(values: Any) -> str:
    """The values as text: tells 0.0 from -0.0 and 1 from True, and nan equals nan."""
    return repr(values)


# What runs, on which values of which type, and what comes out.
ROWS: list[tuple[str, Callable[..., Any], list[tuple[Any, Any]], Any]] = [
    ("cast", lambda x: tn.astype(x, F16), [([65519.0, 65520.0], F32)], [65504.0, INF]),
    ("cast once", lambda x: tn.astype(x, F16), [([1 + 2**-11 + 2**-40], F64)], [1 + 2**-10]),
    ("cast bf16", lambda x: tn.astype(x, BF16), [([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38], F64)], [1.0, 1.015625, INF]),
    (
        "cast i32",
        lambda x: tn.astype(x, I32),
        [([NAN, INF, 1e20, -1e20, -INF, -1.9], F32)],
        [0, 2**31 - 1, 2**31 - 1, -(2**31), -(2**31), -1],
    ),
    ("cast u8", lambda x: tn.astype(x, U8), [([-1.0, 256.0, 300.0, NAN], F32)], [0, 255, 255, 0]),
    ("cast to floats", lambda x: tn.astype(x, F32), [([2**24 + 1, 2**24 + 3], I64)], [2.0**24, 2.0**24 + 4]),
    ("round", tn.round, [([-0.5, 0.5, 1.5, 2.5], F32)], [-0.0, 0.0, 2.0, 2.0]),
    ("add wraps", lambda x: x + 1, [([127], I8)], [-128]),
    ("abs", tn.abs, [([-128, -5], I8)], [-128, 5]),
    ("neg", tn.negative, [([MIN64], I64)], [MIN64]),
    ("// overflow", tn.floor_divide, [([MIN64, -128], I64), ([-1, -1], I64)], [MIN64, 128]),
    ("// overflow i8", tn.floor_divide, [([-128], I8), ([-1], I8)], [-128]),
    ("% overflow", tn.remainder, [([MIN64], I64), ([-1], I64)], [0]),
    ("// 0", tn.floor_divide, [([5, -5, 0], I32), ([0, 0, 0], I32)], [0, 0, 0]),
    ("% 0", tn.remainder, [([5, -5, 0], I32), ([0, 0, 0], I32)], [0, 0, 0]),
    ("// floors", tn.floor_divide, [([-7], I64), ([2], I64)], [-4]),
    ("% has the divisor's sign", tn.remainder, [([-7, 7], I64), ([2, -2], I64)], [1, -1]),
    ("// of floats", tn.floor_divide, [([1.0, INF], F64), ([0.1, 1.0], F64)], [9.0, NAN]),
    ("% of floats", tn.remainder, [([-7.0, 7.0, -0.0], F32), ([INF, -2.0, 3.0], F32)], [INF, -1.0, 0.0]),
    ("0 ** 0", tn.pow, [([0, 0], I64), ([0, 1], I64)], [1, 0]),
    ("root of a negative", tn.pow, [([-8.0, 0.0], F64), ([1 / 3, 0.0], F64)], [NAN, 1.0]),
    ("<<", tn.bitwise_left_shift, [([1, 1, 1, -1], I8), ([7, 8, -1, 100], I8)], [-128, 0, 0, 0]),
    (">>", tn.bitwise_right_shift, [([-128, -1, 127, -2], I8), ([8, 100, 8, -1], I8)], [-1, -1, 0, -1]),
    (">> unsigned", tn.bitwise_right_shift, [([255, 255], U8), ([7, 8], U8)], [1, 0]),
    ("maximum of zeros", tn.maximum, [([-0.0, 0.0], F32), ([0.0, -0.0], F32)], [0.0, 0.0]),
    ("minimum of zeros", tn.minimum, [([-0.0, 0.0], F32), ([0.0, -0.0], F32)], [-0.0, -0.0]),
    ("maximum of nan", tn.maximum, [([NAN, 1.0], F32), ([1.0, NAN], F32)], [NAN, NAN]),
    ("max", tn.max, [([1.0, NAN, 3.0, NAN], F32)], NAN),
    ("min", tn.min, [([1.0, NAN, -3.0], F32)], NAN),
    ("argmax of nan", tn.argmax, [([1.0, NAN, 3.0, NAN], F32)], 1),
    ("argmax of ties", tn.argmax, [([1, 3, 3], I64)], 1),
    ("sort", tn.sort, [([NAN, 1.0, -INF, NAN, INF], F32)], [-INF, 1.0, INF, NAN, NAN]),
    ("argsort", tn.argsort, [([NAN, 1.0, 0.0, NAN, 1.0, -0.0], F32)], [2, 5, 1, 4, 0, 3]),
    ("sign", tn.sign, [([NAN, -0.0, 0.0, -2.0], F32)], [NAN, 0.0, 0.0, -1.0]),
    ("clip", lambda x: tn.clip(x, 2.0, -2.0), [([0.0, 5.0], F32)], [-2.0, -2.0]),
    ("relu", tn.relu, [([NAN, -0.0, -1.0, 2.0], F32)], [NAN, -0.0, 0.0, 2.0]),
    ("sum of nothing", tn.sum, [([], F32)], 0.0),
    ("sum of -0", tn.sum, [([-0.0], F32)], 0.0),
    ("prod of nothing", tn.prod, [([], F32)], 1.0),
    ("mean of nothing", tn.mean, [([], F32)], NAN),
    ("var of one", lambda x: tn.var(x, correction=1), [([2.0], F32)], NAN),
    ("softmax", tn.softmax, [([1e4, 0.0], F32)], [1.0, 0.0]),
    ("softmax of -inf", tn.softmax, [([-INF, -INF], F32)], [NAN, NAN]),
    ("logaddexp", tn.logaddexp, [([-INF], F32), ([-INF], F32)], [-INF]),
    ("subnormals", lambda x: x * 0.5, [([1e-40], F32)], [float(np.float32(1e-40) * np.float32(0.5))]),
    ("broadcast", lambda x, y: x + y, [([], F32), ([1.0], F32)], []),
]


@pytest.mark.parametrize(("call", "inputs", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_each_row_of_the_rules(call: Callable[..., Any], inputs: list[tuple[Any, Any]], expected: Any) -> None:
    args = [tn.asarray(values, dtype=dtype) for values, dtype in inputs]
    result = call(*args)
    assert spelled(result.tolist()) == spelled(expected)
    twin = call(*(tn.asarray(x, copy=True, device="ref") for x in args))
    captured = tn.capture(call)(*args)
    assert bits(result) == bits(tn.asarray(twin, device="cpu")) == bits(captured)


def test_exp_near_its_ends() -> None:
    ends = tn.exp(tn.asarray([88.7228, 88.73, -103.97, -104.0])).tolist()
    assert ends == [pytest.approx(3.4027e38, rel=1e-4), INF, 2.0**-149, 0.0]


def test_sine_of_a_large_number_and_deviation_far_from_zero() -> None:
    assert tn.sin(tn.asarray(1e10)).item() == pytest.approx(-0.48750603, abs=1e-8)
    assert tn.std(tn.arange(10, dtype=F32) + 1e6).item() == pytest.approx(2.8722813, abs=1e-7)


@pytest.mark.slow
def test_a_cumulative_sum_of_many_ones_does_not_stick() -> None:
    assert tn.cumsum(tn.ones(20_000_000), axis=0)[-1].item() == 20_000_000


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int8", "uint8", "int16"),
        ("uint32", "int32", "int64"),
        ("int64", "float32", "float32"),
        ("int8", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("uint8", "int64", "int64"),
        ("float32", "complex64", "complex64"),
        ("float64", "complex64", "complex128"),
        ("int64", "complex64", "complex64"),
        ("bool", "bool", None),
        ("uint64", "int8", None),
        ("uint64", "int64", None),
        ("bool", "int8", "int8"),
    ],
)
def test_types_that_meet(a: str, b: str, result: str | None) -> None:
    x, y = (tn.ones((2,), dtype=getattr(tn, d)) for d in (a, b))
    for first, second in ((x, y), (y, x), (x[0], y), (x, y[0])):
        if result is None:
            with pytest.raises(DtypeError):
                first + second
        else:
            assert (first + second).dtype.name == result


@pytest.mark.parametrize(
    ("dtype", "wide"), [("int8", "int64"), ("uint8", "uint64"), ("int32", "int64"), ("uint64", "uint64")]
)
def test_sums_and_products_of_small_integers_are_wide(dtype: str, wide: str) -> None:
    x = tn.full((3,), 100, dtype=getattr(tn, dtype))
    assert (tn.sum(x).dtype.name, tn.sum(x).item()) == (wide, 300)
    assert (tn.prod(x).dtype.name, tn.prod(x).item()) == (wide, 1_000_000)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tn.asarray([1], dtype=I32) + 2**40, OverflowError, "int32"),
        (lambda: tn.asarray([1], dtype=U8) + (-1), OverflowError, "uint8"),
        (lambda: tn.pow(tn.asarray(2), tn.asarray(-1)), ValueError, "pow: integers to a negative power"),
        (lambda: tn.asarray(2) ** -1, ValueError, "negative power"),
        (lambda: tn.max(tn.zeros((0,))), ValueError, "max: not defined for nothing"),
        (lambda: tn.argmax(tn.zeros((0,))), ValueError, "argmax: not defined for nothing"),
        (lambda: tn.zeros((0,)) + tn.zeros((3,)), ShapeError, "add: shapes (0,) and (3,) do not broadcast"),
        (lambda: tn.asarray(True) + tn.asarray(True), DtypeError, "bool"),
        (lambda: int(tn.asarray(INF)), OverflowError, "infinity"),
        (lambda: int(tn.asarray(NAN)), ValueError, "NaN"),
        (lambda: [0][tn.asarray(0.0)], TypeError, "float"),
        (lambda: float(tn.asarray(1j)), TypeError, "complex"),
    ],
)
def test_what_has_no_value_is_an_error(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_what_checked_mode_refuses() -> None:
    one, zero = tn.asarray([1]), tn.asarray([0])
    with tn.checked():
        for call, error in (
            (lambda: one // zero, ZeroDivisionError),
            (lambda: one % zero, ZeroDivisionError),
            (lambda: one << -1, ValueError),
            (lambda: one >> tn.asarray([-1]), ValueError),
            (lambda: tn.mean(tn.zeros((0,))), EmptyReductionError),
        ):
            with pytest.raises(error):
                call()


def test_changes_in_place_act_as_if_the_source_were_copied() -> None:
    for device in ("cpu", "ref"):
        x = tn.asarray([1.0, 2.0, 3.0, 4.0], device=device)
        x[1:] += x[:-1]
        assert x.tolist() == [1, 3, 5, 7]
        x[...] = x[::-1]
        assert x.tolist() == [7, 5, 3, 1]
    wide = tn.ones((1,)).expand((3,))
    with pytest.raises(ReadOnlyError):
        wide += 1.0


def test_products_over_nothing_are_zeros() -> None:
    assert (tn.zeros((2, 0)) @ tn.zeros((0, 3))).tolist() == [[0.0] * 3] * 2
    assert tn.asarray(3.0).shape == () and isinstance(tn.ones(2)[0], tn.Tensor)
    assert tn.ones((4,))[::-1].strides == (-1,)


def test_a_correction_is_a_number() -> None:
    for device in ("cpu", "ref"):
        x = tn.asarray([1.0, 2.0], device=device)
        for name in ("var", "std"):
            with pytest.raises(ValueError, match=f"^{name}: correction must be a number, got nan$"):
                getattr(tn, name)(x, correction=float("nan"))
        assert tn.var(x, correction=float("inf")).item() == float("inf")
