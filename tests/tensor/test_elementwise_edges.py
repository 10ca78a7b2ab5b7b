"""Edges of elementwise arithmetic: the chosen rules, and values that other libraries get wrong."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

import tensor as tn

INF, NAN = math.inf, math.nan
INT_MIN = {n: -(2 ** (n - 1)) for n in (8, 16, 32, 64)}
SIGNED = ("int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def t(values: Any, dtype: str = "float32") -> Any:
    return tn.asarray(values, dtype=getattr(tn, dtype))


def bits(x: Any) -> list[int]:
    """The bit patterns of a tensor's elements."""
    width = x.dtype.itemsize
    kind = f"uint{8 * width}"
    return [int(v) for v in np.asarray(memoryview(tn.bitcast(x.contiguous(), kind))).reshape(-1)]


def same(a: Any, b: Any) -> bool:
    """Equal numbers, with the sign of zero, and NaN equal to NaN."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", float(b))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("name", SIGNED)
def test_signed_overflow_wraps_and_traps_nowhere(name: str) -> None:
    low = INT_MIN[int(name[3:])]
    x = t([low, low, low, -low - 1], name)
    assert (x + t([-1, 0, -2, 1], name)).tolist() == [-low - 1, low, -low - 2, low]
    assert (-x).tolist() == [low, low, low, low + 1]
    assert tn.abs(x).tolist() == [low, low, low, -low - 1]
    minus_one = t([-1], name)
    assert (x[:1] // minus_one).tolist() == [low]
    assert (x[:1] % minus_one).tolist() == [0]
    assert (x[:1] * minus_one).tolist() == [low]


@pytest.mark.parametrize("name", [*SIGNED, "uint8", "uint16", "uint32", "uint64"])
def test_integers_divided_by_zero_are_zero(name: str) -> None:
    x, zero = t([0, 1, 5, 100], name), t([0], name)
    assert (x // zero).tolist() == [0, 0, 0, 0]
    assert (x % zero).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("x", "y", "quotient", "remainder"),
    [
        (-7, 2, -4, 1),
        (7, -2, -4, -1),
        (-7, -2, 3, -1),
        (7, 2, 3, 1),
        (1.0, 0.1, 9.0, 0.09999999999999995),
        (INF, 1.0, NAN, NAN),
        (-7.0, INF, -1.0, INF),
        (7.0, INF, 0.0, 7.0),
        (7.0, -INF, -1.0, -INF),
        (7.0, 0.0, INF, NAN),
        (-7.0, 0.0, -INF, NAN),
        (0.0, 0.0, NAN, NAN),
        (-0.0, 3.0, -0.0, 0.0),
        (0.0, -3.0, -0.0, -0.0),
        (6.0, -3.0, -2.0, -0.0),
        (NAN, 1.0, NAN, NAN),
        (1e300, 3.0, 3.333333333333333e299, 1.0),
        (5e-324, 1.0, 0.0, 5e-324),
        (-5e-324, 1.0, -1.0, 1.0),
    ],
)
def test_floor_division_and_remainder_have_the_divisors_sign(x: Any, y: Any, quotient: Any, remainder: Any) -> None:
    name = "int64" if isinstance(x, int) else "float64"
    a, b = t([x], name), t([y], name)
    if x != 1e300:
        assert same((a // b).tolist(), [quotient])
    expected = math.fmod(x, y) if x == 1e300 else remainder
    assert same((a % b).tolist(), [expected])


def test_remainder_is_exact_for_any_quotient() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=300).astype(np.float32) * np.exp2(rng.integers(-140, 120, 300)).astype(np.float32)
    y = rng.normal(size=300).astype(np.float32) * np.exp2(rng.integers(-140, 120, 300)).astype(np.float32)
    got = np.asarray(tn.remainder(tn.asarray(np.abs(x)), tn.asarray(np.abs(y))))
    expected = [math.fmod(abs(float(a)), abs(float(b))) for a, b in zip(x, y, strict=True)]
    assert got.tolist() == expected


@pytest.mark.parametrize("name", FLOATS)
def test_zeros_are_ordered_and_nan_wins(name: str) -> None:
    plus, minus, nan = t([0.0], name), t([-0.0], name), t([NAN], name)
    for a, b in ((plus, minus), (minus, plus)):
        assert same(tn.maximum(a, b).tolist(), [0.0])
        assert same(tn.minimum(a, b).tolist(), [-0.0])
    one = t([1.0], name)
    for f in (tn.maximum, tn.minimum):
        assert same(f(nan, one).tolist() + f(one, nan).tolist(), [NAN, NAN])


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("float16", 0x7E00), ("bfloat16", 0x7FC0), ("float32", 0x7FC00000), ("float64", 0x7FF8000000000000)],
)
def test_every_operation_makes_the_one_nan(name: str, pattern: int) -> None:
    inf, zero, nan = t([INF], name), t([0.0], name), t([-NAN], name)
    made = [
        *(inf - inf, inf * zero, zero / zero, inf % t([1.0], name), tn.sqrt(t([-1.0], name)), -nan, nan + 1.0),
        *(tn.abs(nan), tn.sign(nan), tn.floor(nan), tn.round(nan), tn.relu(nan), tn.clip(nan, 0.0, 1.0)),
        *(tn.square(nan), tn.reciprocal(nan)),
    ]
    assert [bits(x) for x in made] == [[pattern]] * len(made)


def test_moves_keep_the_pattern_of_a_nan() -> None:
    x = tn.bitcast(tn.asarray([0x7FC01234, 0x7F800001, 0xFFC00000], dtype=tn.uint32), "float32")
    kept = bits(x)
    assert bits(tn.positive(x)) == kept
    assert bits(tn.where(tn.asarray(True), x, 0.0)) == kept
    assert bits(tn.astype(x, tn.float32)) == kept


def test_subnormals_are_kept() -> None:
    assert (t([1e-40]) * 0.5).tolist() != [0.0]
    assert bits(t([1e-40]) * 0.5) == [bits(t([1e-40]))[0] // 2]


@pytest.mark.parametrize(
    ("source", "value", "target", "result"),
    [
        ("float32", 65519.0, "float16", 65504.0),
        ("float32", 65520.0, "float16", INF),
        ("float32", 1 + 2.0**-8, "bfloat16", 1.0),
        ("float32", 1 + 3 * 2.0**-8, "bfloat16", 1.015625),
        ("float32", 3.4e38, "bfloat16", INF),
        ("float64", 1 + 2.0**-11 + 2.0**-40, "float16", 1 + 2.0**-10),
        ("float64", 1 + 2.0**-8 + 2.0**-40, "bfloat16", 1 + 2.0**-7),
        ("float32", NAN, "int32", 0),
        ("float32", INF, "int32", 2**31 - 1),
        ("float32", -INF, "int32", -(2**31)),
        ("float32", 1e20, "int32", 2**31 - 1),
        ("float32", -1e20, "int32", -(2**31)),
        ("float32", -1.0, "uint8", 0),
        ("float32", 256.0, "uint8", 255),
        ("float32", 300.0, "uint8", 255),
        ("float32", NAN, "uint8", 0),
        ("float64", 1e300, "uint64", 2**64 - 1),
        ("float64", -1e300, "int64", -(2**63)),
        ("float64", -2.9, "int8", -2),
        ("int64", 2**54 + 2**30 + 1, "float32", float(2**54 + 2**31)),
        ("int64", (257 << 33) + 1, "bfloat16", float(258 << 33)),
        ("uint64", 2**64 - 1, "float32", 2.0**64),
        ("int32", -1, "uint8", 255),
        ("int64", 2**32 + 5, "int16", 5),
        ("float32", -0.0, "bool", False),
        ("float32", NAN, "bool", True),
        ("bool", True, "float16", 1.0),
        ("float32", -0.5, "complex128", -0.5 + 0j),
    ],
)
def test_casts_round_once_and_saturate(source: str, value: Any, target: str, result: Any) -> None:
    got = tn.astype(t([value], source), getattr(tn, target)).tolist()
    assert same(got, [result])


def test_complex_has_no_meaning_as_a_real_number() -> None:
    with pytest.raises(tn.DtypeError, match=r"complex64"):
        tn.astype(t([1j], "complex64"), tn.float32)


def test_shifts_by_the_width_or_more_move_every_bit_out() -> None:
    assert tn.bitwise_left_shift(t([1, 1, 1, -1], "int8"), t([7, 8, 100, -1], "int8")).tolist() == [-128, 0, 0, 0]
    assert tn.bitwise_right_shift(t([-1, -128, 64, -1], "int8"), t([8, 7, 100, -3], "int8")).tolist() == [-1, -1, 0, -1]
    assert tn.bitwise_right_shift(t([255, 255], "uint8"), t([8, 255], "uint8")).tolist() == [0, 0]
    assert tn.bitwise_left_shift(t([1], "uint64"), t([63], "uint64")).tolist() == [2**63]


def test_powers_at_the_edges() -> None:
    assert tn.pow(t([0, 0, 2, -2], "int32"), t([0, 3, 31, 3], "int32")).tolist() == [1, 0, -(2**31), -8]
    assert same(tn.pow(t([-8.0, 0.0, NAN, 1.0]), t([1 / 3, 0.0, 0.0, NAN])).tolist(), [NAN, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"^pow: integers to a negative power are no integers"):
        tn.pow(t([2], "int64"), t([-1], "int64"))


def test_signs_clips_and_rounding_at_the_edges() -> None:
    assert same(tn.sign(t([NAN, -0.0, 0.0, -INF, 5e-45])).tolist(), [NAN, 0.0, 0.0, -1.0, 1.0])
    assert tn.clip(t([1.0, 5.0]), 3.0, 2.0).tolist() == [2.0, 2.0]
    assert same(tn.relu(t([NAN, -0.0, -3.0, 2.0])).tolist(), [NAN, -0.0, 0.0, 2.0])
    assert same(tn.round(t([-0.5, 0.5, 1.5, 2.5, -2.5, 8388609.0])).tolist(), [-0.0, 0.0, 2.0, 2.0, -2.0, 8388609.0])
    assert same(tn.ceil(t([-0.5])).tolist() + tn.trunc(t([-0.5])).tolist(), [-0.0, -0.0])
    assert tn.popcount(t([-1, 0, 7, -128], "int8")).tolist() == [8, 0, 3, 1]


def test_complex_products_and_quotients_round_each_operation() -> None:
    x, y = t([3 + 4j], "complex64"), t([1 - 2j], "complex64")
    assert (x * y).tolist() == [11 - 2j]
    assert (x / y).tolist() == [-1 + 2j]
    assert tn.abs(x).tolist() == [5.0]
    big = t([1e200 + 1e200j], "complex128")
    assert (big / big).tolist() == [1 + 0j]
    assert same([v.imag for v in (x / t([0j], "complex64")).tolist()], [INF])


@pytest.mark.parametrize(("a", "b", "shape"), [((0,), (1,), (0,)), ((2, 1, 3), (4, 1), (2, 4, 3)), ((), (3,), (3,))])
def test_shapes_broadcast(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert tn.add(tn.ones(a), tn.ones(b)).shape == shape


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(tn.ShapeError, match=r"\(0,\) and \(3,\)"):
        tn.add(tn.ones((0,)), tn.ones((3,)))


def test_arithmetic_on_booleans_raises() -> None:
    x = t([True], "bool")
    for f in (tn.add, tn.subtract, tn.multiply, tn.floor_divide):
        with pytest.raises(tn.DtypeError):
            f(x, x)
    with pytest.raises(tn.DtypeError):
        tn.negative(x)
