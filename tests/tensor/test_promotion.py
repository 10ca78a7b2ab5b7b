"""Which element type two operands meet in: the array API's table, and our rules where it leaves them open."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensor as tn

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
ALL = ("bool", *SIGNED, *UNSIGNED, *FLOATS, "complex64", "complex128")


def t(value: Any, dtype: str) -> Any:
    return tn.asarray(value, dtype=getattr(tn, dtype))


@pytest.mark.parametrize(("a", "b"), list(itertools.product((*SIGNED, *UNSIGNED), repeat=2)))
def test_integers_meet_as_in_numpy_but_for_uint64_with_signed(a: str, b: str) -> None:
    if "uint64" in (a, b) and (a in SIGNED or b in SIGNED):
        with pytest.raises(tn.DtypeError) as error:
            tn.promote_types(a, b)
        assert str(error.value) == f"promote_types: {a} and {b} have no common type (hint: cast one first)"
    else:
        assert tn.promote_types(a, b) == np.promote_types(a, b).name


@pytest.mark.parametrize(("a", "b"), list(itertools.product(ALL, repeat=2)))
def test_promotion_is_symmetric_and_keeps_equal_types(a: str, b: str) -> None:
    if {a, b} <= {"uint64", *SIGNED} and a != b and "uint64" in (a, b):
        with pytest.raises(tn.DtypeError):
            tn.promote_types(a, b)
        return
    assert tn.promote_types(a, b) == tn.promote_types(b, a)
    assert tn.promote_types(a, a) == a


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        *(("int64", f, f) for f in FLOATS),
        *(("bool", x, x) for x in ALL),
        ("float16", "bfloat16", "float32"),
        ("float16", "float32", "float32"),
        ("bfloat16", "float64", "float64"),
        ("float32", "complex64", "complex64"),
        ("float64", "complex64", "complex128"),
        ("float32", "complex128", "complex128"),
        ("int64", "complex64", "complex64"),
        ("float16", "complex64", "complex64"),
    ],
)
def test_the_wider_kind_wins(a: str, b: str, result: str) -> None:
    assert tn.promote_types(a, b) == result
    assert (t(1, a) == t(1, b)).dtype == tn.bool
    assert tn.where(tn.asarray(True), t(1, a), t(1, b)).dtype == getattr(tn, result)


@pytest.mark.parametrize(
    ("dtype", "scalar", "result"),
    [
        *((x, 1, x) for x in ALL[1:]),
        *((x, True, x) for x in ALL),
        *((x, 1.5, x) for x in (*FLOATS, "complex64", "complex128")),
        *((x, 1.5, "float32") for x in (*SIGNED, *UNSIGNED)),
        ("float32", 1j, "complex64"),
        ("float16", 1j, "complex64"),
        ("float64", 1j, "complex128"),
        ("int64", 1j, "complex64"),
        ("bool", 2, "int64"),
    ],
)
def test_a_python_number_takes_the_tensors_type_if_that_holds_its_kind(dtype: str, scalar: Any, result: str) -> None:
    assert tn.result_type(t(1, dtype), scalar) == getattr(tn, result)
    assert (t(1, dtype) == scalar).dtype == tn.bool
    for x, y in ((t(1, dtype), scalar), (scalar, t(1, dtype))):
        assert tn.where(tn.asarray(True), x, y).dtype == getattr(tn, result)


@pytest.mark.parametrize(("dtype", "scalar"), [("int32", 2**40), ("uint8", -1), ("int8", 128), ("uint64", 2**64)])
def test_a_python_number_that_does_not_fit_is_an_error(dtype: str, scalar: int) -> None:
    x = t([1], dtype)
    for f in (tn.add, tn.maximum, tn.equal):
        with pytest.raises(OverflowError):
            f(x, scalar)
    with pytest.raises(OverflowError):
        x + scalar


def test_tensors_without_dimensions_promote_like_any() -> None:
    assert (t([1], "int8") + t(1, "int16")).dtype == tn.int16
    assert (t([1], "float16") * t(2, "float32")).dtype == tn.float32


def test_operators_promote_as_functions_do() -> None:
    for a, b in (("int8", "uint8"), ("int64", "float16"), ("float64", "complex64"), ("uint32", "int32")):
        x, y = t([3], a), t([2], b)
        for operator, function in ((x + y, tn.add(x, y)), (x - y, tn.subtract(x, y)), (x * y, tn.multiply(x, y))):
            assert operator.dtype == function.dtype == getattr(tn, tn.promote_types(a, b))


def test_integers_divide_to_float32() -> None:
    x = tn.divide(t([1], "int64"), t([4], "int64"))
    assert (x.dtype, x.tolist()) == (tn.float32, [0.25])


def test_what_is_no_operand_is_named() -> None:
    for call, error, text in [
        (lambda: tn.add(1, 2), TypeError, "add: expected at least one Tensor, got only Python numbers (hint: asarray)"),
        (lambda: tn.add(t(1, "int8"), "x"), TypeError,
         "add: expected a Tensor or a Python number, got str (hint: asarray)"),
        (lambda: tn.floor(3), TypeError, "floor: expected a Tensor, got int (hint: asarray)"),
        (lambda: tn.result_type(1, 2.0), ValueError, "result_type: expected at least one tensor or dtype"),
        (lambda: tn.where(t(1, "int8"), 1, t(1, "int8")), tn.DtypeError,
         "where: condition must be a boolean Tensor, got int8 (hint: condition != 0)"),
        (lambda: tn.clip(t(1j, "complex64"), 0, 1), tn.DtypeError, "clip: complex64 has no order (hint: tensor.real)"),
        (lambda: tn.add(t(True, "bool"), t(True, "bool")), tn.DtypeError,
         "add: arithmetic on booleans has no meaning (hint: astype(x, int64), or logical_ functions)"),
    ]:  # fmt: skip
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value) == text
