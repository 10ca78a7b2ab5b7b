"""Elementwise kernels against their twins, bit for bit: every operation, dtype, layout, build and thread count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensor import _kernels, build_info
from tensor.float_mode import plain_mode
from tensor.selftest_ref import awkward
from tensor.twins.bfloat16_ref import BFLOAT16, bfloat16_bits, bfloat16_of_bits, is_bfloat16
from tensor.twins.elementwise_ref import TWINS, cast

Array = np.ndarray[Any, Any]

ROWS = _kernels.elementwise_rows()
NAMES = {name: row[0] for name, row in ROWS.items()}
OWN = sorted(set(TWINS) - {"pow"})
ISAS = ["v3", "v4"] if build_info()["isa_best"] == "v4" else [str(build_info()["isa_best"])]
SPECIAL_COMPLEX = {("sqrt", "complex")}  # with the special functions

pytestmark = pytest.mark.skipif(build_info()["isa"] == "ref", reason="DROVEWAY_ISA=ref has no kernels to compare")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = _kernels.threads()
    yield
    _kernels.set_threads(before)


def dtype_of(name: str) -> np.dtype[Any]:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def values(name: str, n: int, seed: int) -> Array:
    """Any bit pattern, one in eight at an edge of the arithmetic; booleans are 0 and 1."""
    rng = np.random.default_rng(seed)
    if name == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if name in ("float32", "float64"):
        return awkward(seed, n, np.dtype(name))
    if name in ("complex64", "complex128"):
        part = np.dtype(np.float32 if name == "complex64" else np.float64)
        return awkward(seed, 2 * n, part).view(name)
    if name in ("float16", "bfloat16"):
        bits = rng.integers(0, 1 << 16, n).astype(np.uint16)
        edges = [0, 0x8000, 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7E00, 0xFFC1, 0x3C00, 0x3F80, 1, 0x8001, 0x7BFF, 0x7F7F]
        at = rng.random(n) < 0.2
        bits[at] = rng.choice(edges, at.sum()).astype(np.uint16)
        return bits.view(np.float16) if name == "float16" else bfloat16_of_bits(bits)
    info = np.iinfo(name)
    x = rng.integers(info.min, info.max, n, dtype=name, endpoint=True)
    at = rng.random(n) < 0.3
    x[at] = rng.choice(np.array([0, 1, 2, 3, 7, info.min, info.max, info.max - 1], name), at.sum())
    if info.min < 0:
        at = rng.random(n) < 0.1
        x[at] = rng.choice(np.array([-1, -2, -7], name), at.sum())
    return x


def inputs(op: str, name: str, n: int, seed: int) -> list[Array]:
    arrays = [values(name, n, seed + k) for k in range(ROWS[op][1])]
    if op == "where":
        arrays[0] = values("bool", n, seed)
    if "shift" in op:
        at = np.random.default_rng(seed).random(n) < 0.7
        arrays[1][at] = (np.arange(n) % 70).astype(name)[at]
    return arrays


def plain(x: Array) -> Array:
    """What a binding reads: bfloat16 as its bits."""
    return np.asarray(bfloat16_bits(x)) if is_bfloat16(x) else x


def empty_like_result(op: str, name: str, shape: tuple[int, ...]) -> Array:
    kind = ROWS[op][3]
    dtype = np.dtype(np.uint16) if name == "bfloat16" else np.dtype(name)
    if kind == "truth":
        dtype = np.dtype(bool)
    elif kind == "real" and dtype.kind == "c":
        dtype = np.dtype(np.float32 if name == "complex64" else np.float64)
    elif kind == "pair":
        dtype = np.dtype(np.complex64 if name == "float32" else np.complex128)
    return np.full(shape, 1, dtype)


def run(op: str, name: str, arrays: list[Array], isa: str = "", out: Array | None = None) -> Array:
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    out = empty_like_result(op, name, shape) if out is None else out
    _kernels.elementwise(
        NAMES[op], out, *(plain(a) for a in arrays), dtype="bfloat16" if name == "bfloat16" else "", isa=isa
    )
    return out


def twin(op: str, arrays: list[Array]) -> Array:
    with plain_mode():
        return plain(TWINS[op](tuple(arrays), None))


def same_bits(a: Array, b: Array) -> bool:
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    )


CASES = [(op, name) for op in OWN for name in ROWS[op][2] if (op, name[:7]) not in SPECIAL_COMPLEX]
ARITHMETIC = [(op, name) for op, name in CASES if name in ("int16", "float16", "float32", "complex64")]


@pytest.mark.parametrize(("op", "name"), CASES)
def test_kernel_equals_twin_on_any_bit_pattern(op: str, name: str) -> None:
    arrays = inputs(op, name, 2003, 1)
    expected = twin(op, arrays)
    for isa in ISAS:
        assert same_bits(run(op, name, arrays, isa), expected), isa


# A buffer of 16-bit words is one or the other here; tensors test that pair.
CASTS = [(a, b) for a in ROWS["cast"][2] for b in ROWS["cast"][2] if {a, b} != {"uint16", "bfloat16"}]
MEANT = [(a, b) for a, b in CASTS if a[:7] != "complex" or b[:7] in ("complex", "bool")]


@pytest.mark.parametrize(("source", "target"), sorted(set(CASTS) - set(MEANT)))
def test_complex_to_real_has_no_kernel(source: str, target: str) -> None:
    marked = "bfloat16" if target == "bfloat16" else ""
    with pytest.raises(TypeError, match=rf"^cast: no kernel for {source}$"):
        _kernels.elementwise(NAMES["cast"], np.empty(1, plain_dtype(target)), values(source, 1, 1), dtype=marked)


@pytest.mark.parametrize(("source", "target"), MEANT)
def test_cast_equals_twin_on_any_bit_pattern(source: str, target: str) -> None:
    x = np.concatenate([values(source, 2003, 5), rounding_cases(source)])
    with plain_mode():
        expected = plain(cast(x, dtype_of(target)))
    for isa in ISAS:
        out = np.full(len(x), 1, plain_dtype(target))
        marked = "bfloat16" if "bfloat16" in (source, target) else ""
        _kernels.elementwise(NAMES["cast"], out, plain(x), dtype=marked, isa=isa)
        assert same_bits(out, expected), isa


def plain_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(np.uint16 if name == "bfloat16" else name)


def rounding_cases(name: str) -> Array:
    """Where one rounding and two differ, and the ends of ranges."""
    cases: dict[str, list[Any]] = {
        "float64": [1 + 2**-11 + 2**-40, 65519.99, 65520, 3.4e38, 2**54 + 2**30 + 1, 9.3e18, 1.9e19, 255.9, -128.9],
        "float32": [65519, 65520, 2.0**31, -(2.0**31), 2.0**63, 2.0**64, -0.5, 255.5, 1 + 2.0**-8, 1 + 3 * 2.0**-8],
        "int64": [2**54 + 2**30 + 1, 2**40 + 1, -(2**55 + 1), 2**63 - 1, (1 << 40) - 1, (257 << 33) + 1, 257 << 33],
        "uint64": [2**64 - 1, 2**63 + 2**39 + 1, (257 << 48) + 1, 257 << 48],
    }
    if name in ("bfloat16", "bool"):
        return values(name, 0, 0)
    return np.array(cases.get(name, []), name)


def layouts(x: Array) -> dict[str, Array]:
    """The same [24, 35] elements lying in other ways."""
    wide = np.zeros((2 * 24, 3 * 35), x.dtype)
    wide[::2, ::3] = x
    back = np.ascontiguousarray(x[::-1, ::-1])
    buffer = np.zeros(x.nbytes + 64, np.uint8)
    at = -buffer.ctypes.data % 64 + x.dtype.alignment
    shifted = buffer[at : at + x.nbytes].view(x.dtype).reshape(x.shape)
    shifted[...] = x
    return {
        "strided": wide[::2, ::3],
        "backwards": back[::-1, ::-1],
        "transposed": np.ascontiguousarray(x.T).T,
        "not on a vector's address": shifted,
    }


@pytest.mark.parametrize(("op", "name"), ARITHMETIC)
def test_strides_and_neighbours_change_no_bit(op: str, name: str) -> None:
    arrays = [a.reshape(24, 35) for a in inputs(op, name, 24 * 35, 3)]
    expected = run(op, name, arrays)
    forms = [layouts(plain(a)) for a in arrays]
    for kind in forms[0]:
        assert same_bits(run(op, name, [f[kind] for f in forms]), expected), kind
        out = layouts(np.zeros_like(expected))[kind]
        assert same_bits(np.array(run(op, name, arrays, out=out)), expected), f"out {kind}"
    for at in ((0, 0), (7, 33), (23, 34)):
        alone = run(op, name, [a[at[0] : at[0] + 1, at[1] : at[1] + 1] for a in arrays])
        assert same_bits(alone, expected[at[0] : at[0] + 1, at[1] : at[1] + 1]), f"alone {at}"


@pytest.mark.parametrize(
    "shapes",
    [
        ((24, 35), (35,)),
        ((24, 1), (24, 35)),
        ((24, 35), ()),
        ((), ()),
        ((5, 1, 7), (4, 1)),
        ((3,), (2, 1, 3)),
        ((300, 3), (3,)),
        ((300, 3), (300, 1)),
        ((2, 1, 5, 1, 3), (4, 1, 2, 3)),
        ((70, 2, 70), (2, 1)),
        ((0, 3), (3,)),
        ((0,), (1,)),
    ],
)
@pytest.mark.parametrize("name", ["int8", "float16", "float32", "float64", "complex128"])
def test_broadcast_equals_the_repeated_inputs(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [values(name, int(np.prod(s)), 4 + i).reshape(s) for i, s in enumerate(shapes)]
    shape = np.broadcast_shapes(*shapes)
    repeated = [np.array(np.broadcast_to(a, shape)) for a in arrays]
    for op in ("add", "mul", "eq"):
        assert same_bits(run(op, name, arrays), run(op, name, repeated))
    out = np.zeros((*shape[::-1],), plain_dtype(name)).T
    assert same_bits(np.array(run("sub", name, arrays, out=out)), run("sub", name, repeated))


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (2, 0, 1), (0, 2, 1), (1, 2, 0)])
@pytest.mark.parametrize("name", ["int8", "float16", "float32", "float64", "complex128"])
def test_transposed_operands_are_read_in_tiles_with_the_same_bits(name: str, axes: tuple[int, ...]) -> None:
    shape = (17, 33, 70)
    x, y = (np.asarray(plain(values(name, 17 * 33 * 70, k))).reshape(shape) for k in (20, 21))
    expected = run("mul", name, [x, y])
    lying = np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes))
    for count in (1, 3):
        _kernels.set_threads(count)
        assert same_bits(run("mul", name, [lying, y]), expected)
        assert same_bits(run("mul", name, [lying, y[:1]]), run("mul", name, [x, y[:1]]))
        assert same_bits(
            run("mul", name, [lying[::-1, ::2, ::-3], y[::-1, ::2, ::-3]]), expected[::-1, ::2, ::-3].copy()
        )
        out = np.zeros((70, 33, 17), expected.dtype).transpose(2, 1, 0)
        assert same_bits(np.array(run("mul", name, [lying, y], out=out)), expected)
        wide = np.zeros((17, 33, 140), expected.dtype)[:, :, ::2]
        assert same_bits(np.array(run("mul", name, [lying, y], out=wide)), expected)


@pytest.mark.parametrize("name", ["bool", "float16", "bfloat16", "float32", "float64", "complex128"])
def test_threads_change_no_bit(name: str) -> None:
    n = 100_003
    x, y, c = values(name, n, 6), values(name, n, 7), values("bool", n, 8)
    op = "logical_xor" if name == "bool" else "mul"
    expected = None
    for threads in (1, 2, 3, 7):
        _kernels.set_threads(threads)
        got = run(op, name, [x, y]).tobytes() + run("where", name, [c, x[::-1], y]).tobytes()
        assert got == (expected or got), threads
        expected = got


@pytest.mark.parametrize("name", ["int32", "float16", "float32", "complex64"])
def test_output_may_be_an_input(name: str) -> None:
    x, y = values(name, 1003, 9), values(name, 1003, 10)
    expected = run("sub", name, [x, y])
    first, second = np.array(plain(x)), np.array(plain(y))
    run("sub", name, [first, y], out=first)
    run("sub", name, [x, second], out=second)
    assert same_bits(first, expected)
    assert same_bits(second, expected)
    back = np.array(plain(x))[::-1]
    run("sub", name, [back, plain(y)[::-1]], out=back)
    assert same_bits(np.array(back), np.array(expected[::-1]))


def test_output_that_overlaps_an_input_elsewhere_is_refused() -> None:
    x = np.arange(10, dtype=np.float32)
    with pytest.raises(ValueError, match=r"^add: out overlaps an input$"):
        run("add", "float32", [x[:-1], x[:-1]], out=x[1:])


def test_wrong_shapes_dtypes_and_numbers_of_inputs_are_refused() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"^add: expected 2 inputs$"):
        _kernels.elementwise(NAMES["add"], x, x)
    with pytest.raises(TypeError, match=r"^add: the dtypes of out and inputs do not fit$"):
        _kernels.elementwise(NAMES["add"], np.zeros(3), x, x)
    with pytest.raises(TypeError, match=r"^bitwise_and: the dtypes of out and inputs do not fit$"):
        _kernels.elementwise(NAMES["bitwise_and"], x, x, x)
    with pytest.raises(ValueError, match=r"^add: the inputs do not broadcast to the shape of out$"):
        _kernels.elementwise(NAMES["add"], x, x, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=r"^elementwise: no operation has this code$"):
        _kernels.elementwise(1000, x, x, x)
    with pytest.raises(ValueError, match=r"^elementwise: this CPU has no kernels for isa 'v9'$"):
        _kernels.elementwise(NAMES["add"], x, x, x, isa="v9")


def test_another_float_environment_changes_no_bit() -> None:
    x, y = values("float32", 5003, 11), values("float32", 5003, 12)
    expected = run("mul", "float32", [x, y])
    saved = _kernels.float_mode_enter()
    try:
        _kernels.float_mode_leave(0xFFC0)  # flush-to-zero, denormals-are-zero, round towards zero, exceptions masked
        got = run("mul", "float32", [x, y])
    finally:
        _kernels.float_mode_leave(saved)
    assert same_bits(got, expected)
