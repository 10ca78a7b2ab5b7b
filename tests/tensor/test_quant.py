"""Whole numbers for floats: against numpy's rounding, the integer product, and training that feels them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import quant

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261206)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


CODES = RNG.integers(0, 256, (3, 4)).astype(np.uint8)


def weights_of(codes: Any, scale: Any, bias: Any) -> Any:
    numbers = np.stack([codes & 15, codes >> 4], -1).reshape(3, 2, 4)
    return (numbers * scale[:, :, None] + bias[:, :, None]).reshape(3, 8)


def stepped(x: Any, bits: int) -> Any:
    last = 2 ** (bits - 1) - 1
    step = np.abs(x).max() / last
    return np.clip(np.rint(x / step), -last, last) * step


CASES = {
    "quantize_int8": Case(
        lambda x: quant.quantize_int8(x, axis=1),
        [normal(3, 5)],
        lambda x: (np.rint(x / (s := np.abs(x).max(1, keepdims=True) / 127)), s),
        moving=(),
    ),
    "dequantize_int8": Case(
        quant.dequantize_int8,
        [RNG.integers(-128, 128, (2, 3)).astype(np.int8), normal(2, 1)],
        lambda codes, scale: codes * scale,
    ),
    "dequantize_int4": Case(quant.dequantize_int4, [CODES, normal(3, 2), normal(3, 2)], weights_of),
    "dequant_matmul": Case(
        quant.dequant_matmul,
        [normal(5, 8), CODES, normal(3, 2), normal(3, 2)],
        lambda x, *packed: x @ weights_of(*packed).T,
    ),
    "dequant_grouped_gemm": Case(
        lambda x, c, s, b: quant.dequant_grouped_gemm(x, c, s, b, [2, 3]),
        [normal(5, 8), np.stack([CODES, CODES[::-1]]), normal(2, 3, 2), normal(2, 3, 2)],
        lambda x, c, s, b: np.concatenate(
            [x[:2] @ weights_of(c[0], s[0], b[0]).T, x[2:] @ weights_of(c[1], s[1], b[1]).T]
        ),
    ),
    "fake_quantize": Case(lambda x: quant.fake_quantize(x, 4), [normal(4, 5)], lambda x: stepped(x, 4), moving=()),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_packed_weights_are_those_of_the_integer_product_and_half_a_step_away() -> None:
    weights = normal(6, 256).astype(np.float32)
    packed = quant.quantize_int4(tn.asarray(weights))
    back = quant.dequantize_int4(*packed).numpy()
    away = np.abs(back - weights).reshape(6, 4, 64)
    assert (away <= 0.5001 * packed.scale.numpy()[:, :, None]).all()
    x = normal(3, 256).astype(np.float32)
    codes, scale = quant.quantize_int8(tn.asarray(x), axis=1)
    whole = tn.quantised_matmul(codes, *packed, x_scale=scale.reshape((3,)))
    floats = quant.dequant_matmul(quant.dequantize_int8(codes, scale), *packed)
    np.testing.assert_allclose(whole.numpy(), floats.numpy(), rtol=1e-4, atol=1e-3)


def test_constant_groups_and_zeros_come_back_exactly() -> None:
    flat = tn.full((2, 64), 3.25)
    assert quant.dequantize_int4(*quant.quantize_int4(flat)).tolist() == flat.tolist()
    codes, scale = quant.quantize_int8(tn.zeros(4))
    assert (codes.tolist(), scale.item()) == ([0] * 4, 1.0)


def test_nothing_is_quantised_to_nothing() -> None:
    codes, scale = quant.quantize_int8(tn.zeros((0, 3)))
    assert (codes.shape, scale.item()) == ((0, 3), 1.0)
    assert quant.fake_quantize(tn.zeros(0)).shape == (0,)


def test_rounding_is_half_to_even_and_ends_are_symmetric() -> None:
    codes, _ = quant.quantize_int8(tn.asarray([0.5, 1.5, -2.5, 200.0, -200.0, float("nan")]), 1.0)
    assert codes.tolist() == [0, 2, -2, 127, -127, 0]


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_fake_quantised_values_are_whole_steps_and_gradients_pass_between_the_ends(bits: int) -> None:
    last = 2 ** (bits - 1) - 1
    x = tn.asarray(normal(1000).astype(np.float32) * last)
    came = quant.fake_quantize(x, bits, 1.0)
    assert came.tolist() == np.clip(np.rint(x.numpy()), -last, last).tolist()
    slope = tn.grad(lambda x: (quant.fake_quantize(x, bits, 1.0) * 3).sum())(x).numpy()
    assert (slope == np.where(np.abs(x.numpy()) <= last, 3, 0)).all()
    _, along = tn.jvp(lambda x: quant.fake_quantize(x, bits, 1.0), (x,), (tn.ones(1000),))
    assert (along.numpy() * 3 == slope).all()


def test_an_observer_knows_the_scale_of_all_that_it_saw() -> None:
    batches = [normal(7).astype(np.float32) for _ in range(5)]
    seen = quant.calibration_observer()
    for batch in batches:
        seen.observe(tn.asarray(batch))
    assert seen.scale() == float(np.abs(np.concatenate(batches)).max()) / 127
    assert (seen.low, seen.high) == (float(np.concatenate(batches).min()), float(np.concatenate(batches).max()))
    seen.observe(tn.zeros(0))
    assert seen.scale(4) == float(np.abs(np.concatenate(batches)).max()) / 7
    with pytest.raises(ValueError, match=r"^calibration_observer: x holds a NaN$"):
        seen.observe(tn.asarray([float("nan")]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: quant.quantize_int4(x, 64),
            tn.ShapeError,
            "quantize_int4: expected weights [n, k] and an even group of at most 256 that divides k, got shape (2, 6) "
            "and group 64",
        ),
        (
            lambda x: quant.quantize_int8(x, 0.0),
            ValueError,
            "quantize_int8: scale must be a finite number above 0, got 0.0",
        ),
        (lambda x: quant.fake_quantize(x, 1), ValueError, "fake_quantize: bits must be an int from 2 to 16, got 1"),
        (
            lambda x: quant.dequantize_int8(x, 1.0),
            tn.DtypeError,
            "dequantize_int8: codes must be int8, got float32",
        ),
        (
            lambda x: quant.dequantize_int4(x, x, x),
            tn.DtypeError,
            "dequantize_int4: codes must be uint8 [n, k / 2], got float32[2, 6]",
        ),
        (
            lambda x: quant.dequantize_int4(tn.zeros((2, 3), dtype=tn.uint8), x[:, :4], x[:, :4]),
            tn.ShapeError,
            "dequantize_int4: 4 groups do not divide 6 elements",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones((2, 6)))
    assert str(caught.value) == message
