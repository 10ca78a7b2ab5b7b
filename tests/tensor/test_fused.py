"""The fusion machine: what it refuses, and that fused equals unfused to the bit."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensor import _kernels, build_info, reduction_ref
from tensor.float_mode import plain_mode
from tensor.primitives.fused import Program
from tensor.selftest_ref import awkward
from tensor.twins.fused_ref import run_program

Array = np.ndarray[Any, Any]

CODES = _kernels.ELEMENTWISE
ISAS = ["v3", "v4"] if build_info()["isa_best"] == "v4" else [str(build_info()["isa_best"])]
F32 = np.dtype(np.float32)

pytestmark = pytest.mark.skipif(build_info()["isa"] == "ref", reason="DROVEWAY_ISA=ref has no kernels to compare")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = _kernels.threads()
    yield
    _kernels.set_threads(before)


def run(program: Program, inputs: list[Array], isa: str = "") -> list[Array]:
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    outs = [np.full(shape[: len(shape) - program.axes], 1, dtype) for dtype in program.outs]
    program.compiled(isa).run(outs, inputs, program.axes)
    return outs


def unfused(program: Program, inputs: list[Array]) -> list[Array]:
    """Each step as an operation of its own, in full shape, by the kernels."""
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    held: dict[int, Array] = {8 + j: np.array(np.broadcast_to(x, shape)) for j, x in enumerate(inputs)}
    rows = _kernels.elementwise_rows()
    for name, target, operands, dtype in program.steps:
        arrays = [held[o] for o in operands]
        result = np.dtype(dtype) if dtype else np.dtype(bool) if rows[name][3] == "truth" else arrays[-1].dtype
        out = np.empty(shape, result)
        _kernels.elementwise(CODES[name], out, *arrays)
        held[target] = out
    return [held[64 + k] for k in range(len(program.outs))]


def same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


UNARY = ("neg", "abs", "square", "sqrt", "floor", "exp", "tanh", "relu", "sign", "reciprocal")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "mod")


def random_program(seed: int, dtype: str) -> Program:
    """A valid chain of up to 20 steps on up to 4 inputs, with comparisons, choices and casts among them."""
    rng = random.Random(seed)
    count = rng.randint(1, 4)
    floats, truths = [8 + j for j in range(count)], []
    steps: list[tuple[str, int, tuple[int, ...], str]] = []

    def temporary(of: list[int], other: list[int]) -> int:
        t = rng.randrange(8)
        for kind in (of, other):
            if t in kind:
                kind.remove(t)
        of.append(t)
        return t

    for _ in range(rng.randint(0, 19)):
        kind = rng.random()
        x, y = rng.choice(floats), rng.choice(floats)
        if kind < 0.35:
            steps.append((rng.choice(UNARY), temporary(floats, truths), (x,), ""))
        elif kind < 0.7:
            steps.append((rng.choice(BINARY), temporary(floats, truths), (x, y), ""))
        elif kind < 0.8:
            name = rng.choice(("lt", "eq", "isnan"))
            steps.append((name, temporary(truths, floats), (x,) if name == "isnan" else (x, y), ""))
        elif kind < 0.9 and truths:
            condition = rng.choice(truths)
            steps.append(("where", temporary(floats, truths), (condition, x, y), ""))
        else:
            steps.append(("cast", 7, (x,), "int16"))
            for known in (floats, truths):
                if 7 in known:
                    known.remove(7)
            steps.append(("cast", temporary(floats, truths), (7,), dtype))
    steps.append(("add", 64, (rng.choice(floats), rng.choice(floats)), ""))
    steps.append(("lt", 65, (rng.choice(floats), rng.choice(floats)), ""))
    return Program(tuple(steps), (dtype,) * count, (dtype, "bool"))


SHAPES = [(2500,), (3, 1000), (1,), (0,), (40, 3), (2, 3, 70)]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_equal_their_steps_run_alone(seed: int) -> None:
    dtype = ("float32", "float64", "float16")[seed % 3]
    program = random_program(seed, dtype)
    shape = SHAPES[seed % len(SHAPES)]
    rng = random.Random(seed)
    inputs = []
    for j in range(len(program.inputs)):
        own = rng.choice([shape, shape[-1:], (1,) * len(shape), (*shape[:-1], 1), shape])
        x = awkward(seed + j, int(np.prod(own)), np.dtype(np.float64 if dtype == "float64" else np.float32))
        with np.errstate(all="ignore"):
            inputs.append(x.astype(dtype).reshape(own))
    inputs[0] = np.array(np.broadcast_to(inputs[0], shape))
    with plain_mode(), np.errstate(all="ignore"):
        twins = run_program(program, tuple(inputs))
    expected = unfused(program, inputs)
    for isa in ISAS:
        got = run(program, inputs, isa)
        assert all(map(same_bits, got, expected)), isa
        assert all(map(same_bits, got, twins)), isa


CHAIN = (("mul", 0, (8, 9), ""), ("add", 0, (0, 8), ""), ("tanh", 0, (0,), ""), ("mul", 0, (0, 10), ""))


def test_strides_and_threads_change_no_bit() -> None:
    program = Program((*CHAIN, ("add", 64, (0, 9), "")), ("float32",) * 3, ("float32",))
    x, y = awkward(1, 210_000, F32).reshape(300, 700), awkward(2, 210_000, F32).reshape(300, 700)
    half = np.full((), 0.5, np.float32)
    expected = unfused(program, [x, y, half])[0]
    wide = np.zeros((600, 1400), np.float32)
    wide[::2, ::-2] = x
    for count in (1, 2, 3, 7):
        _kernels.set_threads(count)
        assert same_bits(run(program, [x, y, half])[0], expected), count
        assert same_bits(run(program, [wide[::2, ::-2], np.ascontiguousarray(y.T).T, half])[0], expected), count
        out = np.zeros((700, 300), np.float32).T
        program.compiled().run([out], [x, y, half])
        assert same_bits(np.ascontiguousarray(out), expected), count


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5,), 1),
        ((4096,), 1),
        ((4097,), 1),
        ((100_003,), 1),
        ((37, 100), 1),
        ((3, 5000), 1),
        ((7, 3, 11), 2),
        ((7, 3, 11), 1),
        ((7, 3), 0),
        ((1000, 1), 1),
        ((0,), 1),
        ((4, 0), 1),
        ((0, 4), 1),
        ((3, 9000), 2),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sum_at_the_end_is_the_sum_of_the_chain(shape: tuple[int, ...], axes: int, dtype: str) -> None:
    program = Program(CHAIN[:2], (dtype, dtype), (dtype,), "sum", axes)
    n = int(np.prod(shape))
    x, y = (awkward(k, n, np.dtype(dtype)).reshape(shape) for k in (3, 4))
    x, y = np.where(np.abs(x) < 1e30, x, x.dtype.type(1)), np.where(np.abs(y) < 1e30, y, y.dtype.type(-1))
    full = unfused(Program((*CHAIN[:1], ("add", 64, (0, 8), "")), (dtype, dtype), (dtype,)), [x, y])[0]
    kept = shape[: len(shape) - axes]
    lines = full.reshape(int(np.prod(kept)), int(np.prod(shape[len(kept) :])))
    with plain_mode():
        expected = np.array([reduction_ref.sum(line) for line in lines], dtype).reshape(kept)
    for isa in ISAS:
        for count in (1, 2, 3, 7):
            _kernels.set_threads(count)
            assert same_bits(run(program, [x, y], isa)[0], expected), (isa, count)
    strided = np.zeros((*shape, 2), dtype)
    strided[..., 1] = x
    assert same_bits(run(program, [strided[..., 1], y])[0], expected)


@pytest.mark.parametrize("end", ["maximum", "minimum"])
@pytest.mark.parametrize("shape", [(5,), (10_000,), (37, 100), (1, 1)])
def test_extremes_at_the_end_are_those_of_the_twin(end: str, shape: tuple[int, ...]) -> None:
    program = Program(CHAIN[:2], ("float32", "float32"), ("float32",), end, 1)
    x, y = (awkward(k, int(np.prod(shape)), F32).reshape(shape) for k in (5, 6))
    finite = np.where(np.isnan(x), np.float32(-0.0), np.clip(x, -1, 1))
    for a in (x, finite):
        with plain_mode(), np.errstate(all="ignore"):
            expected = run_program(program, (a, np.clip(y, -1, 1)))[0]
        for isa in ISAS:
            assert same_bits(run(program, [a, np.clip(y, -1, 1)], isa)[0], expected)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_power_is_that_of_its_type(dtype: str) -> None:
    program = Program((("pow", 0, (8, 9), ""), ("add", 64, (0, 8), "")), (dtype, dtype), (dtype,))
    x, y = np.array([1.5, 2.25, 3], dtype), np.array([2, 3, 4], dtype)
    out = np.empty(3, dtype)
    program.compiled().run((out,), (x, y))
    (twin,) = run_program(program, (x, y))
    assert twin.tobytes() == out.tobytes()
    assert np.allclose(twin, x**y + x)


def test_output_may_be_an_input_that_no_later_step_reads() -> None:
    program = Program((("mul", 0, (8, 9), ""), ("add", 64, (0, 8), "")), ("float32", "float32"), ("float32",))
    x, y = awkward(7, 3001, F32), awkward(8, 3001, F32)
    expected = run(program, [x, y])[0]
    program.compiled().run([x], [x, y])
    assert same_bits(x, expected)
    late = Program((("neg", 64, (8,), ""), ("add", 65, (8, 8), "")), ("float32",), ("float32", "float32"))
    with pytest.raises(ValueError, match=r"^fused: output 0 overlaps input 0$"):
        late.compiled().run([x, np.empty_like(x)], [x])
    with pytest.raises(ValueError, match=r"^fused: outputs 0 and 1 overlap$"):
        late.compiled().run([x, x], [y])
    with pytest.raises(ValueError, match=r"^fused: output 0 overlaps input 1$"):
        program.compiled().run([x[1:]], [y[1:], x[:-1]])


@pytest.mark.parametrize(
    ("steps", "inputs", "outs", "end", "text"),
    [
        ((), ("float32",), ("float32",), "", "fused: expected 1 to 256 steps, got 0"),
        ((("copy", 64, (8,), ""),) * 257, ("float32",), ("float32",), "", "fused: expected 1 to 256 steps, got 257"),
        ((("copy", 64, (8,), ""),), ("float32",) * 57, ("float32",), "", "fused: expected at most 56 inputs, got 57"),
        ((("copy", 64, (8,), ""),), ("float32",), (), "", "fused: expected 1 to 8 outputs, got 0"),
        ((("copi", 64, (8,), ""),), ("float32",), ("float32",), "", "fused: no elementwise operation is named 'copi'"),
        ((("add", 64, (8,), ""),), ("float32",), ("float32",), "", "fused: step 0: add takes 2 operands, got 1"),
        (
            (("neg", 64, (0,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: temporary 0 is read before it is written",
        ),
        (
            (("neg", 64, (9,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: operand 9 is neither a temporary nor an input",
        ),
        (
            (("neg", 64, (-1,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: operand -1 is neither a temporary nor an input",
        ),
        (
            (("neg", 64, (64,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: operand 64 is neither a temporary nor an input",
        ),
        (
            (("neg", 65, (8,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: target 65 is neither a temporary nor an output",
        ),
        (
            (("neg", 8, (8,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: target 8 is neither a temporary nor an output",
        ),
        (
            (("add", 64, (8, 9), ""),),
            ("float32", "float64"),
            ("float32",),
            "",
            "fused: step 0: add: inputs of float32 and float64",
        ),
        (
            (("where", 64, (8, 8, 8), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: where needs a boolean condition",
        ),
        ((("div", 64, (8, 8), ""),), ("int32",), ("int32",), "", "fused: step 0: div does not take int32"),
        (
            (("cast", 64, (8,), "float32"),),
            ("complex64",),
            ("float32",),
            "",
            "fused: step 0: cast has no kernel for complex64",
        ),
        (
            (("cast", 64, (8,), ""),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: a dtype belongs to a cast, and to nothing else",
        ),
        (
            (("neg", 64, (8,), "int8"),),
            ("float32",),
            ("float32",),
            "",
            "fused: step 0: a dtype belongs to a cast, and to nothing else",
        ),
        (
            (("neg", 64, (8,), ""),),
            ("float32",),
            ("float64",),
            "",
            "fused: step 0: output 0 is float64, the step gives float32",
        ),
        ((("neg", 64, (8,), ""),) * 2, ("float32",), ("float32",), "", "fused: step 1: output 0 is written twice"),
        ((("neg", 0, (8,), ""),), ("float32",), ("float32",), "", "fused: output 0 is never written"),
        (
            (("neg", 0, (8,), ""),),
            ("float16",),
            ("float16",),
            "sum",
            "fused: an end takes float32 or float64, got float16",
        ),
        (
            (("neg", 0, (8,), ""),),
            ("float32",),
            ("float64",),
            "sum",
            "fused: output 0 is float64, the end gives float32",
        ),
        (
            (("neg", 64, (8,), ""),),
            ("float32",),
            ("float32",),
            "sum",
            "fused: step 0: target 64 is neither a temporary nor an output",
        ),
        (
            (("neg", 0, (8,), ""),),
            ("float32",),
            ("float32",) * 2,
            "sum",
            "fused: a program with an end has one output, got 2",
        ),
        ((("neg", 0, (8,), ""),), ("float32",), ("float32",), "product", "fused: no end is named 'product'"),
        ((("neg", 64, (8,), ""),), ("float33",), ("float32",), "", "fused: no dtype is named 'float33'"),
    ],
)
def test_a_wrong_program_is_refused_before_it_runs(
    steps: Any, inputs: tuple[str, ...], outs: tuple[str, ...], end: str, text: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Program(steps, inputs, outs, end).compiled()


def test_wrong_shapes_and_dtypes_are_refused_before_the_first_block() -> None:
    program = Program((("add", 64, (8, 9), ""),), ("float32", "float32"), ("float32",)).compiled()
    x = np.zeros((2, 3), np.float32)
    out = np.ones((2, 3), np.float32)
    for outs, inputs, text in [
        ([out], [x], "fused: expected 1 outputs and 2 inputs"),
        ([out], [x, np.zeros((2, 4), np.float32)], "fused: the shapes of the inputs do not broadcast"),
        ([out[0]], [x, x], "fused: output 0 does not have the shape of the result"),
        ([out], [x, np.zeros((2, 3))], "fused: input 1 must be float32, got float64"),
        ([np.ones((2, 3))], [x, x], "fused: output 0 must be float32, got float64"),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            program.run(outs, inputs)
    with pytest.raises(ValueError, match=r"^fused: 1 dimensions cannot be reduced$"):
        program.run([out], [x, x], 1)
    with pytest.raises(TypeError, match=r"^fused: an output holds no elements that can be written$"):
        program.run([memoryview(bytes(24))], [x, x])
    top = Program((("add", 0, (8, 8), ""),), ("float32",), ("float32",), "maximum", 1).compiled()
    with pytest.raises(ValueError, match=r"^fused: nothing has no maximum or minimum$"):
        top.run([np.zeros(2, np.float32)], [np.zeros((2, 0), np.float32)], 1)
    assert (out == 1).all()


@pytest.mark.parametrize(
    ("a", "b", "others"),
    [
        ((30, 7), (7, 70), [(70,), (30, 1)]),
        ((300, 40), (40, 1100), [(1100,), (300, 1100)]),
        ((4, 1, 33, 9), (3, 9, 21), [(4, 3, 33, 21), (3, 1, 21)]),
        ((5, 64, 16), (16, 130), [(5, 64, 130), (5, 1, 1)]),
        ((1, 600), (600, 50), [(1, 50), ()]),
        ((80, 300), (300, 1), [(80, 1), (1,)]),
        ((3, 0), (0, 4), [(4,), (3, 4)]),
        ((0, 3), (3, 4), [(4,), (0, 4)]),
    ],
)
def test_a_product_and_its_chain_equal_the_two_alone_for_every_isa_and_thread_count(a, b, others) -> None:
    from tensor.primitives.fused_product import prepared

    for dtype in ("float32", "float64", "float16"):
        chain = (("add", 0, (8, 9), ""), ("tanh", 1, (0,), ""), ("mul", 64, (1, 10), ""), ("lt", 65, (8, 10), ""))
        program = Program(chain, (dtype,) * 3, (dtype, "bool"))
        arrays = [awkward(i, int(np.prod(s)), F32).reshape(s) for i, s in enumerate((a, b, *others))]
        with np.errstate(all="ignore"):
            arrays = [np.where(np.abs(x) > 100, 1.5, x).astype(dtype) for x in arrays]
        shape = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
        product = np.empty(shape, dtype)
        _kernels.product(arrays[0], arrays[1], product)
        expected = unfused(program, [product, *arrays[2:]])
        for count in (1, 2, 3, 7):
            _kernels.set_threads(count)
            kept, value, less = np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape, bool)
            prepared({"program": program, "keeps": True})((kept, value, less), tuple(arrays))
            assert all(map(same_bits, (kept, value, less), (product, *expected))), (dtype, count)
            value = np.full(shape, 7, dtype)
            short = Program((*chain[:2], ("mul", 64, (1, 10), "")), program.inputs, (dtype,))
            prepared({"program": short, "keeps": False})((value,), tuple(arrays))
            assert same_bits(value, expected[0]), (dtype, count)
        for isa in ISAS:
            value = np.full(shape, 7, dtype)
            short.compiled(isa).run_product(arrays[0], arrays[1], value, [value], arrays[2:])
            assert same_bits(value, expected[0]), (dtype, isa)


def test_what_cannot_follow_a_product_is_refused() -> None:
    chain = Program((("add", 64, (8, 9), ""),), ("float32",) * 2, ("float32",)).compiled()
    a, b, c = np.ones((4, 3), np.float32), np.ones((3, 5), np.float32), np.ones((4, 5), np.float32)
    out = np.empty((4, 5), np.float32)
    for call, text in (
        (lambda: chain.run_product(a, b, out, [out], []), "the product as its first input"),
        (lambda: chain.run_product(a, b, c, [out], [c]), "the product overlaps an input"),
        (lambda: chain.run_product(out[:, :3], b, out, [out], [c]), "the product overlaps a factor"),
        (lambda: chain.run_product(out[:, :3], b, c, [out], [a[:, :1]]), "an output overlaps a factor"),
        (lambda: chain.run_product(a, b[:2], out, [out], [c]), "shapes of a .* must agree"),
        (lambda: chain.run_product(a, b, out, [out], [c[:3]]), "do not broadcast"),
        (lambda: chain.run_product(a, b, out, [out[:3]], [c]), "does not have the shape of the result"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    late = Program((("add", 64, (8, 9), ""), ("mul", 65, (8, 9), "")), ("float32",) * 2, ("float32",) * 2).compiled()
    with pytest.raises(ValueError, match="output 0 overlaps input 0"):
        late.run_product(a, b, out, [out, c.copy()], [c])
    ends = Program((("add", 0, (8, 9), ""),), ("float32",) * 2, ("float32",), "sum", 1).compiled()
    with pytest.raises(ValueError, match="a program has no end"):
        ends.run_product(a, b, out, [out[:, 0].copy()], [c])
