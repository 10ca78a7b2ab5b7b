"""Elementary functions: the kernels' bits are the twins', whatever surrounds a value; edge values; bad arguments."""

from __future__ import annotations

import array
import ctypes
import itertools
import math
import platform
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor
from tensor import _kernels, elementary, elementary_ref

F32, F64 = np.float32, np.float64
UNARY_F32 = ("exp", "log", "sin", "cos", "tanh", "erf", "sqrt")
UNARY = [(name, F32) for name in UNARY_F32] + [(name, F64) for name in ("exp", "log", "sqrt")]
NAN_BITS = {F32: 0x7FC00000, F64: 0x7FF8000000000000}


def words(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    different = np.flatnonzero(words(got).reshape(-1) != words(expected).reshape(-1))
    assert different.size == 0, (different[:3], got.reshape(-1)[different[:3]], expected.reshape(-1)[different[:3]])


def inputs(dtype: type, n: int = 20000, seed: int = 1) -> np.ndarray:
    """Any bit patterns, then values around 1, in the range of exp, and where range reduction is short."""
    rng = np.random.default_rng(seed)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, 88.72284, -103.97, 131072, -131073], dtype)
    subnormal = np.array([1, 2, 0x7FFFFF], word).view(dtype)
    return np.concatenate(
        [
            rng.integers(0, np.iinfo(word).max, n, dtype=word, endpoint=True).view(dtype),
            rng.uniform(-2, 2, n).astype(dtype),
            rng.uniform(-110, 110, n).astype(dtype),
            rng.uniform(-3e5, 3e5, n).astype(dtype),
            *(edges, subnormal, -subnormal),
        ]
    )


def twin(name: str, dtype: type) -> Callable[..., np.ndarray]:
    return getattr(elementary_ref, f"{name}_f{8 * np.dtype(dtype).itemsize}")


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_kernel_and_twin_give_the_same_bits(name, dtype) -> None:
    x = inputs(dtype)
    assert_same_bits(getattr(elementary, name)(x), twin(name, dtype)(x))


def test_pow_kernel_and_twin_give_the_same_bits() -> None:
    x = inputs(F32)
    for y in (
        inputs(F32, seed=2),
        np.roll(np.trunc(np.nan_to_num(inputs(F32, seed=3))), 20000),
        np.random.default_rng(4).permutation(x),
    ):
        assert_same_bits(elementary.pow(x, y), elementary_ref.pow_f32(x, y))


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_a_value_has_the_same_bits_alone_and_anywhere_in_a_batch(name, dtype) -> None:
    function = getattr(elementary, name)
    x = inputs(dtype, 60)
    expected = function(x)
    assert_same_bits(np.array([function(x[i : i + 1])[0] for i in range(x.size)], dtype), expected)
    for start in range(1, 18):
        assert_same_bits(function(x[start:]), expected[start:])
        assert_same_bits(function(x[: x.size - start]), expected[: x.size - start])
    order = np.random.default_rng(5).permutation(x.size)
    assert_same_bits(function(x[order]), expected[order])


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_strides_and_alignment_never_change_bits(name, dtype) -> None:
    function = getattr(elementary, name)
    x = inputs(dtype, 300)[:1212]
    expected = function(x)
    assert_same_bits(function(x[::-1]), expected[::-1])
    assert_same_bits(function(x[::3]), expected[::3])
    square = x.reshape(12, 101)
    assert_same_bits(function(square.T), expected.reshape(12, 101).T)
    assert_same_bits(function(square[::-2, 5:70:7]), expected.reshape(12, 101)[::-2, 5:70:7])
    assert_same_bits(function(np.broadcast_to(x[:7], (3, 7))), np.broadcast_to(expected[:7], (3, 7)))
    raw = np.empty(x.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(dtype)
    misaligned[...] = x
    assert not misaligned.flags.aligned
    assert_same_bits(function(misaligned), expected)


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_threads_never_change_bits(name, dtype, threads) -> None:
    x = np.resize(inputs(dtype, 3000), 200_003)
    function = getattr(elementary, name)
    threads(1)
    expected = function(x)
    for n in (2, 3, 7):
        threads(n)
        assert_same_bits(function(x), expected)


@contextmanager
def hostile_mode() -> Iterator[None]:
    """Round up, flush subnormals and take them as zero: what another library may have set for the whole thread."""
    libm = ctypes.CDLL("libm.so.6")
    environment = ctypes.create_string_buffer(64)
    libm.fegetenv(environment)
    saved = environment.raw
    if platform.machine() == "x86_64":
        (control,) = struct.unpack_from("<I", environment, 28)  # MXCSR in glibc's fenv_t
        struct.pack_into("<I", environment, 28, control | 0x8040 | 0x4000)
    else:
        (control,) = struct.unpack_from("<I", environment, 0)  # FPCR
        struct.pack_into("<I", environment, 0, control | 1 << 24 | 1 << 22)
    libm.fesetenv(environment)
    try:
        yield
    finally:
        libm.fesetenv(ctypes.create_string_buffer(saved, 64))


def test_a_hostile_floating_point_mode_changes_no_bit_and_is_still_there_afterwards() -> None:
    x = {dtype: inputs(dtype, 500) for dtype in (F32, F64)}
    expected = [getattr(elementary, name)(x[dtype]) for name, dtype in UNARY]
    powers = elementary.pow(x[F32], x[F32][::-1].copy())
    tiny, half = np.array([1e-40, 1.0], F32), np.array([0.5, 2.0**-24], F32)
    with hostile_mode():
        got = [getattr(elementary, name)(x[dtype]) for name, dtype in UNARY]
        got_powers = elementary.pow(x[F32], x[F32][::-1].copy())
        product, total = (tiny * half)[0], (tiny + half)[1]
    assert product == 0, "the mode was not set or not restored by the kernels"
    assert total == np.nextafter(F32(1), F32(2))
    for g, e in zip(got, expected, strict=True):
        assert_same_bits(g, e)
    assert_same_bits(got_powers, powers)
    assert (tiny * half)[0] > 0


CODE = """
import numpy as np
import tensor
from tensor import elementary as e, random
x = np.random.default_rng(0).integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32)
d = np.random.default_rng(0).integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
k = random.Key(5)
parts = [f(x) for f in (e.exp, e.log, e.sin, e.cos, e.tanh, e.erf, e.sqrt)] + [f(d) for f in (e.exp, e.log, e.sqrt)]
parts += [e.pow(x, x[::-1]), e.pow(x, 3), k.uniform((7, 9)), k.normal(77, offset=3)]
parts += [k.randint(-5, 2**62, 500, offset=1), k.permutation(99), k.bernoulli(0.3, 99)]
parts.append(np.array([c.seed for c in k.split(5)] + [random.fold_in(k, 9).seed], np.uint64))
print(tensor.build_info()["isa"], *(tensor.digest(p)[:16] for p in parts))
"""


def test_twins_and_every_build_of_this_machine_agree_through_the_public_functions(python) -> None:
    levels = ["ref", *(["v3", "v4"] if platform.machine() == "x86_64" else ["neon"])]
    best = _kernels.isa_best()
    levels = levels[: levels.index(best) + 1]
    lines = {}
    for level in levels:
        done = python(CODE, DROVEWAY_ISA=level, DROVEWAY_THREADS="3")
        assert done.returncode == 0, done.stderr
        name, *digests = done.stdout.split()
        assert name == level
        lines[level] = digests
    assert len(lines["ref"]) == 18
    assert all(digests == lines["ref"] for digests in lines.values())


def test_exp_at_the_ends_of_its_range() -> None:
    x = np.array([88.7228, 88.73, -103.97, -104, 0, -0.0, np.inf, -np.inf], F32)
    got = elementary.exp(x)
    assert_same_bits(got, np.array([3.4026947e38, np.inf, 1.4e-45, 0, 1, 1, np.inf, 0], F32))
    assert f"{got[0]:.4e}" == "3.4027e+38"
    high, low = 709.782712893384, -745.1332191019411
    got = elementary.exp(np.array([high, np.nextafter(high, 800), low, np.nextafter(low, -800), -np.inf]))
    assert_same_bits(got[1:], np.array([np.inf, 5e-324, 0, 0]))
    assert f"{got[0]:.10e}" == "1.7976931349e+308"


def test_sine_and_cosine_reduce_the_largest_arguments() -> None:
    largest = np.finfo(F32).max
    x = np.array([1e10, largest, -largest, np.inf, -np.inf, 0.0, -0.0, 1e-45], F32)
    nan = float("nan")
    assert f"{elementary.sin(x)[0]:.8f}" == "-0.48750603"
    sine = [-0.48750603, -0.52187652, 0.52187652, nan, nan, 0.0, -0.0, 1e-45]
    assert_same_bits(elementary.sin(x), np.array(sine, F32))
    assert_same_bits(elementary.cos(x), np.array([0.87311965, 0.85302104, 0.85302104, nan, nan, 1, 1, 1], F32))


def test_signed_zeros_infinities_and_domains() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, -1, 1], F32)
    nan, inf = float("nan"), float("inf")
    expected = {
        "exp": [1, 1, inf, 0, 0.36787945, 2.7182817],
        "log": [-inf, -inf, inf, nan, nan, 0],
        "tanh": [0.0, -0.0, 1, -1, -0.7615942, 0.7615942],
        "erf": [0.0, -0.0, 1, -1, -0.8427008, 0.8427008],
        "sqrt": [0.0, -0.0, inf, nan, nan, 1],
    }
    for name, values in expected.items():
        assert_same_bits(getattr(elementary, name)(x), np.array(values, F32))
    for name in ("exp", "log", "sqrt"):
        got = getattr(elementary, name)(x.astype(F64))
        assert_same_bits(got[:4], np.array(expected[name][:4]))


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_every_nan_comes_out_as_the_canonical_one(name, dtype) -> None:
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    quiet = int(np.array(np.inf, dtype).view(word))
    nans = np.array([quiet + 1, quiet + 12345, (1 << (8 * word.itemsize - 1)) + quiet + 7, NAN_BITS[dtype]], word)
    got = getattr(elementary, name)(nans.view(dtype))
    assert set(words(got).tolist()) == {NAN_BITS[dtype]}


def test_subnormal_inputs_and_results_are_kept() -> None:
    tiny = np.array([1, 1000, 0x7FFFFF], np.uint32).view(F32)
    for name in ("sin", "tanh"):
        assert_same_bits(getattr(elementary, name)(tiny), tiny)
    assert_same_bits(elementary.erf(tiny), (tiny.astype(F64) * (2 / math.sqrt(math.pi))).astype(F32))
    assert_same_bits(elementary.log(tiny), np.log(tiny.astype(F64)).astype(F32))
    assert_same_bits(elementary.sqrt(tiny), np.sqrt(tiny))
    assert_same_bits(elementary.exp(np.array([-100], F32)), np.array([3.783506e-44], F32))
    assert_same_bits(elementary.pow(np.array([2], F32), -149), np.array([1e-45], F32))
    assert elementary.exp(np.array([-740.0]))[0] == 4.2e-322


def pow_c99(x: float, y: float) -> float:
    """C's pow in double, of which math.pow hides some cases behind exceptions."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        if x == 0:
            return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
        return math.nan


def test_pow_follows_c99_in_every_special_case() -> None:
    whole = [0.0, 1, 2, 3, 8388607, 16777215, 16777216, 1e30, math.inf]
    values = [sign * v for v in [*whole, 0.5, 2.5, 8388607.5, 1e-45, 1 + 2.0**-23, 1 - 2.0**-24] for sign in (1, -1)]
    values.append(math.nan)
    pairs = [(float(F32(x)), float(F32(y))) for x, y in itertools.product(values, values)]
    x, y = (np.array(column, F32) for column in zip(*pairs, strict=True))
    with np.errstate(over="ignore"):
        expected = np.array([pow_c99(a, b) for a, b in pairs]).astype(F32)
    expected = np.where(np.isnan(expected), elementary_ref.NAN32, expected)
    assert_same_bits(elementary.pow(x, y), expected)


def test_pow_of_the_documented_cases() -> None:
    x = np.array([-8, 0, np.nan, 1, -1, -1, 2, 0, -0.0], F32)
    y = np.array([1 / 3, 0, 0, np.nan, np.inf, -np.inf, 0.5, -1, -1], F32)
    nan, inf = float("nan"), float("inf")
    assert_same_bits(elementary.pow(x, y), np.array([nan, 1, 1, 1, 1, 1, 1.4142135, inf, -inf], F32))


def test_pow_takes_one_exponent_as_array_or_number() -> None:
    x = inputs(F32, 200)
    expected = elementary.pow(x, np.full_like(x, -2.5))
    for y in (-2.5, F32(-2.5), np.array(-2.5, F32)):
        assert_same_bits(elementary.pow(x, y), expected)
    assert_same_bits(elementary.pow(x, 2), elementary.pow(x, np.full_like(x, 2)))
    assert_same_bits(elementary.pow(F32(2), F32(3)), np.array(8, F32))
    assert elementary.pow(np.array([1.5], F32), math.inf)[0] == math.inf
    for y in (1e39, -(10**400)):
        with pytest.raises(OverflowError, match=r"^elementary\.pow: y = -?1.* does not fit into float32$"):
            elementary.pow(x, y)


class Foreign:
    """A DLPack array that is no buffer."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.x.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_any_buffer_or_dlpack_array_is_taken() -> None:
    x = np.array([[0.25, 1], [-3, 4]], F32)
    expected = elementary.exp(x)
    read_only = x.copy()
    read_only.flags.writeable = False
    for y in (read_only, memoryview(x), Foreign(x), memoryview(bytes(x.tobytes())).cast("f", (2, 2))):
        assert_same_bits(elementary.exp(y), expected)
    assert_same_bits(elementary.exp(array.array("f", [0.25, 1, -3, 4])), expected.reshape(-1))
    assert_same_bits(elementary.exp(array.array("d", [1.0])), np.array([math.e]))
    assert_same_bits(elementary.exp(F32(0)), np.array(1, F32))


def test_a_mask_or_a_type_that_numpy_lacks_is_refused_and_not_dropped() -> None:
    class Brain(Foreign):
        def __dlpack__(self, **kwargs: Any) -> Any:
            raise RuntimeError("Unsupported dtype in DLTensor.")

    with pytest.raises(
        tensor.DtypeError, match=r"^elementary\.exp: x must not be a masked array \(hint: x\.filled\(0\)\)$"
    ):
        elementary.exp(np.ma.masked_array(np.zeros(2, F32), [True, False]))
    text = r"^elementary\.exp: x has an element type that numpy does not know: Unsupported dtype in DLTensor\.$"
    with pytest.raises(tensor.DtypeError, match=text):
        elementary.exp(Brain(np.zeros(2, F32)))


@pytest.mark.parametrize(("name", "dtype"), UNARY)
def test_single_values_and_empty_arrays_keep_their_shape(name, dtype) -> None:
    function = getattr(elementary, name)
    for shape in ((), (0,), (0, 3), (3, 0, 2), (1, 1)):
        got = function(np.ones(shape, dtype))
        assert isinstance(got, np.ndarray)
        assert got.shape == shape
        assert got.dtype == dtype


@given(st.lists(st.integers(1, 4), max_size=4), st.integers(0, 2**32 - 1), st.integers(0, 15))
@settings(max_examples=60, deadline=None)
def test_any_layout_equals_its_contiguous_copy(shape: list[int], seed: int, flips: int) -> None:
    rng = np.random.default_rng(seed)
    wide = rng.standard_normal([2 * n for n in shape]).astype(F32)
    x = wide[tuple(slice(None, None, -2 if flips >> i & 1 else 2) for i in range(len(shape)))]
    x = x.transpose(rng.permutation(len(shape)))
    assert_same_bits(elementary.tanh(x), elementary.tanh(x.copy(order="C")))


def test_out_is_filled_and_returned() -> None:
    x = inputs(F32, 100)
    expected = elementary.exp(x)
    out = np.empty_like(x)
    assert elementary.exp(x, out=out) is out
    assert_same_bits(out, expected)
    wide = np.zeros((x.size, 3), F32)
    elementary.exp(x, out=wide[::-1, 1])
    assert_same_bits(np.ascontiguousarray(wide[::-1, 1]), expected)
    assert not wide[:, ::2].any()
    raw = np.zeros(x.nbytes + 1, np.uint8)
    elementary.exp(x, out=raw[1:].view(F32))
    assert_same_bits(raw[1:].view(F32).copy(), expected)
    buffer = array.array("f", bytes(x.nbytes))
    elementary.exp(x, out=buffer)
    assert_same_bits(np.asarray(memoryview(buffer)), expected)


@pytest.mark.parametrize("shift", [-17, -1, 0, 1, 16, 40])
@pytest.mark.parametrize("step", [1, -1])
def test_an_output_that_overlaps_the_input_is_as_if_the_input_were_copied(shift, step) -> None:
    memory = inputs(F32, 200)[:600]
    expected = elementary.sin(memory[100:500].copy())
    out = memory[100 + shift : 500 + shift][::step]
    elementary.sin(memory[100:500], out=out)
    assert_same_bits(np.ascontiguousarray(out), expected)


def test_pow_may_write_over_either_argument() -> None:
    x, y = np.abs(inputs(F32, 50)), inputs(F32, 50, seed=9)
    expected = elementary.pow(x, y)
    for reuse in (0, 1):
        pair = [x.copy(), y.copy()]
        elementary.pow(*pair, out=pair[reuse])
        assert_same_bits(pair[reuse], expected)


X = np.zeros((3, 4), F32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: elementary.sin(np.zeros((2, 3))),
            TypeError,
            "elementary.sin: x must be float32, got float64[2, 3] (hint: x.astype(numpy.float32))",
        ),
        (
            lambda: elementary.exp(np.arange(3)),
            TypeError,
            "elementary.exp: x must be float32 or float64, got int64[3] (hint: x.astype(numpy.float32))",
        ),
        (
            lambda: elementary.exp(X.astype(">f4")),
            TypeError,
            "elementary.exp: x must be float32 or float64, got >f4[3, 4] (hint: x.astype(numpy.float32))",
        ),
        (
            lambda: elementary.log([1.0, 2.0]),
            TypeError,
            "elementary.log: x must be an array (buffer or DLPack), got list "
            "(hint: numpy.asarray(x, dtype=numpy.float32))",
        ),
        (
            lambda: elementary.exp(X, out=np.zeros((3, 4))),
            TypeError,
            "elementary.exp: out must be float32, got float64[3, 4]",
        ),
        (
            lambda: elementary.exp(X, out=np.zeros((4, 3), F32)),
            ValueError,
            "elementary.exp: out must have shape (3, 4), got (4, 3)",
        ),
        (
            lambda: elementary.exp(X, out=memoryview(bytes(48)).cast("f", (3, 4))),
            TypeError,
            "elementary.exp: out is read-only",
        ),
        (
            lambda: elementary.pow(X, X.T),
            ValueError,
            "elementary.pow: y must have the shape of x or be one number, got x = float32[3, 4] and y = float32[4, 3]",
        ),
        (lambda: elementary.pow(X, True), TypeError, "elementary.pow: y must be float32 or a number, got bool"),
        (
            lambda: elementary.pow(X, np.float64(2) + np.zeros(1)),
            TypeError,
            "elementary.pow: y must be float32, got float64[1] (hint: y.astype(numpy.float32))",
        ),
    ],
)
def test_a_wrong_argument_is_named_with_its_mend(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, tensor.TensorError)


def test_a_broadcast_output_is_refused_and_untouched() -> None:
    row = np.full(4, 7, F32)
    out = np.lib.stride_tricks.as_strided(row, (3, 4), (0, 4))
    with pytest.raises(TypeError, match=r"^elementary\.exp: out is a broadcast view"):
        elementary.exp(X, out=out)
    assert (row == 7).all()


@pytest.mark.skipif(_kernels.isa() == "ref", reason="no kernels to hand wrong arguments to")
def test_the_kernels_refuse_what_would_read_or_write_beyond_an_array() -> None:
    with pytest.raises(ValueError, match="x and out must have the same length"):
        _kernels.exp_f32(np.zeros(4, F32), np.zeros(3, F32))
    with pytest.raises(ValueError, match="out must be as long as x"):
        _kernels.pow_f32(np.zeros(4, F32), np.zeros(3, F32), np.zeros(4, F32))
    for bad in (np.zeros(8, F32)[::2], np.zeros((2, 2), F32), np.zeros(4, F64), np.zeros(4, np.int32)):
        with pytest.raises(TypeError):
            _kernels.exp_f32(bad, np.zeros(4, F32))
    raw = np.zeros(17, np.uint8)[1:].view(F32)
    with pytest.raises(TypeError, match="x must be aligned"):
        _kernels.exp_f32(raw, np.zeros(4, F32))


def test_no_element_next_to_the_output_is_touched() -> None:
    for n in [*range(34), 16383, 16384, 16385]:
        memory = np.full(n + 32, 7, F32)
        elementary.exp(np.zeros(n, F32), out=memory[16 : 16 + n])
        assert (memory[:16] == 7).all()
        assert (memory[16 + n :] == 7).all()
        assert (memory[16 : 16 + n] == 1).all()
