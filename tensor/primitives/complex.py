"""Rows of the parts of complex numbers; arithmetic on them is in elementwise.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensor.primitives.elementwise import numpy_oracle, one_input, part, twin_of
from tensor.primitives.primitive import COMPLEX, NUMBERS, Sample, keep
from tensor.primitives.rules import call, elementwise, unbroadcast
from tensor.primitives.spec import name_of

if TYPE_CHECKING:
    import numpy as np

Tensor = Any


def _pair(dtype: Any) -> str:
    return "complex64" if name_of(dtype) == "float32" else "complex128"


def _complex_samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.normal(size=(3, 5)) + 1j * rng.normal(size=(3, 5)))


elementwise(
    "conj",
    arity=1,
    dtypes=NUMBERS,
    summary="The imaginary part with the other sign; real numbers as they are.",
    category="complex",
    vjp=lambda g, node: (call("conj", g),),
    jvp=lambda tangents, node: call("conj", tangents[0]),
    twin=twin_of("conj"),
    samples=one_input,
    oracle=numpy_oracle("conj"),
)
elementwise(
    "real",
    arity=1,
    dtypes=COMPLEX,
    summary="The real part.",
    category="complex",
    result=part,
    vjp=lambda g, node: (call("make_complex", g, g * 0),),
    jvp=lambda tangents, node: call("real", tangents[0]),
    twin=twin_of("real"),
    samples=_complex_samples,
    oracle=numpy_oracle("real"),
)
elementwise(
    "imag",
    arity=1,
    dtypes=COMPLEX,
    summary="The imaginary part.",
    category="complex",
    result=part,
    vjp=lambda g, node: (call("make_complex", g * 0, g),),
    jvp=lambda tangents, node: call("imag", tangents[0]),
    twin=twin_of("imag"),
    samples=_complex_samples,
    oracle=numpy_oracle("imag"),
)


def _turning(node: Any) -> Tensor:
    """i·z / |z|²: how the angle of z turns."""
    z = node.inputs[0]
    re, im = call("real", z), call("imag", z)
    square = re * re + im * im
    return call("make_complex", -im / square, re / square)


elementwise(
    "angle",
    arity=1,
    dtypes=COMPLEX,
    summary="The angle in radians from −π to π.",
    category="complex",
    result=part,
    keeps=keep(inputs=(0,)),
    vjp=lambda g, node: (call("make_complex", g, g * 0) * _turning(node),),
    jvp=lambda tangents, node: call("real", tangents[0] * call("conj", _turning(node))),
    twin=twin_of("angle"),
    samples=_complex_samples,
    oracle=numpy_oracle("angle"),
)


def _make_complex_vjp(g: Tensor, node: Any) -> tuple[Tensor, Tensor]:
    re, im = node.inputs
    return unbroadcast(call("real", g), re.shape), unbroadcast(call("imag", g), im.shape)


def _pairs(rng: np.random.Generator) -> Iterable[Sample]:
    yield Sample(rng.normal(size=(3, 5)), rng.normal(size=5))


elementwise(
    "make_complex",
    arity=2,
    dtypes=("float32", "float64"),
    summary="The complex number of a real and an imaginary part.",
    category="complex",
    result=_pair,
    linear=True,
    vjp=_make_complex_vjp,
    twin=twin_of("make_complex"),
    samples=_pairs,
    oracle=lambda arrays, params: arrays[0] + 1j * arrays[1],
)
