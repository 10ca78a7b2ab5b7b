"""Counter-based random numbers: known answers, slices, independence of threads, exact uniformity."""

from __future__ import annotations

import ast
import math
import pickle
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor
from tensor import _kernels, random, random_ref
from tensor.random import Key

MASK = 0xFFFFFFFF
# counter, key, output: specification of this package
KNOWN = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((1, 0, 0, 0), (0, 0), "f8e4cca4 5cb200db b1a574eb 097eff67"),
    ((MASK,) * 4, (MASK,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def all_ways(counter: tuple[int, ...], key: tuple[int, ...]) -> list[str]:
    """One block of Philox by the plain twin, the array twin and, where there is one, the kernel."""
    seed, position = key[0] | key[1] << 32, counter[0] | counter[1] << 32
    blocks = [
        np.array(random_ref.philox_block(seed, counter), np.uint32),  # type: ignore[arg-type]
        random_ref.philox_words(seed, position, counter[2], counter[3], 0, 4),
    ]
    if _kernels.isa() != "ref":
        blocks.append(np.zeros(4, np.uint32))
        _kernels.philox_words(seed, position, counter[2], counter[3], 0, blocks[-1])
    return [" ".join(f"{word:08x}" for word in block) for block in blocks]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_philox_gives_the_known_answers(counter, key, output) -> None:
    assert set(all_ways(counter, key)) == {output}


def test_philox_gives_the_answers_of_the_authors_test_file(data) -> None:
    lines = [line.split() for line in data("kat/random123_kat_vectors.txt").read_text().splitlines()]
    lines = [fields[2:] for fields in lines if fields[:2] == ["philox4x32", "10"]]
    assert len(lines) >= 3
    for fields in lines:
        numbers = [int(word, 16) for word in fields]
        assert set(all_ways(tuple(numbers[:4]), tuple(numbers[4:6]))) == {" ".join(fields[6:])}


def test_the_first_draws_of_key_0_are_the_documented_ones() -> None:
    assert [f"{u:.8f}" for u in Key(0).uniform(4).tolist()] == ["0.39904642", "0.88052016", "0.73571277", "0.60548180"]
    np.testing.assert_allclose(Key(0).normal(4).numpy(), [0.991137, -0.924663, -0.617609, -0.482068], atol=1e-6)
    assert random.split(Key(0), 0) == Key(0x2DCE73E5 | 0x1348E23F << 32)


def test_the_examples_of_the_page_hold() -> None:
    page = (Path(__file__).parents[2] / "docs" / "random-numbers.md").read_text(encoding="utf-8")
    examples = re.findall(r"^\| `(.*Key\(2026\).*)` \| (.*) \|$", page, re.M)
    assert len(examples) == 7
    names = {"Key": Key, "split": random.split, "fold_in": random.fold_in}
    for expression, value in examples:
        got = eval(expression, names)
        got = got if isinstance(got, int) else got.tolist()
        assert got == ast.literal_eval(value), expression


DRAWS = {
    "uniform": lambda n, offset: Key(3).uniform(n, offset=offset),
    "normal": lambda n, offset: Key(3).normal(n, offset=offset),
    "uniform float64": lambda n, offset: Key(3).uniform(n, offset=offset, dtype="float64"),
    "normal float64": lambda n, offset: Key(3).normal(n, offset=offset, dtype="float64"),
    "uniform float16": lambda n, offset: Key(3).uniform(n, offset=offset, dtype="float16"),
    "normal float16": lambda n, offset: Key(3).normal(n, offset=offset, dtype="float16"),
    "bits": lambda n, offset: Key(3).bits(n, offset=offset),
    "bits uint64": lambda n, offset: Key(3).bits(n, offset=offset, dtype="uint64"),
    "randint": lambda n, offset: Key(3).randint(-7, 2**63 - 9, n, offset=offset),
    "randint often rejected": lambda n, offset: Key(3).randint(-(2**63), 2**62, n, offset=offset),
    "randint int8": lambda n, offset: Key(3).randint(-128, 128, n, offset=offset, dtype="int8"),
    "bernoulli": lambda n, offset: Key(3).bernoulli(0.4, n, offset=offset),
    "bernoulli of a tensor": lambda n, offset: Key(3).bernoulli(tensor.asarray(0.4), n, offset=offset),
}


@pytest.mark.parametrize("name", DRAWS)
@given(st.integers(0, 500), st.integers(0, 200))
@settings(max_examples=60, deadline=None)
def test_any_slice_can_be_drawn_alone(name, offset, n) -> None:
    assert np.array_equal(DRAWS[name](n, offset), DRAWS[name](offset + n, 0)[offset:])


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("start", [2**32 + 3, 2**34 - 1, 2**40, 2**63 - 2, 2**64 - 70])
def test_a_slice_far_away_is_that_of_its_neighbours(name, start) -> None:
    whole = DRAWS[name](70, start).numpy()
    for first, n in ((0, 5), (1, 69), (3, 64), (61, 9)):
        assert np.array_equal(DRAWS[name](n, start + first), whole[first : first + n])
    assert not np.array_equal(whole, DRAWS[name](70, start % 2**32).numpy())


def test_a_slice_across_the_blocks_of_the_kernel_equals_the_whole() -> None:
    whole = Key(9).uniform(40_000)
    for start in (16383, 16384, 16385, 32767):
        assert np.array_equal(Key(9).uniform(70, offset=start), whole[start : start + 70])


def test_shape_only_folds_the_stream() -> None:
    assert np.array_equal(Key(1).normal((3, 4, 5)).reshape(-1), Key(1).normal(60))
    assert Key(1).uniform(()).shape == ()
    assert Key(1).uniform((0, 3)).shape == (0, 3)
    assert Key(1).randint(0, 9, (2, 2)).dtype == "int64"


@pytest.mark.parametrize("name", DRAWS)
def test_threads_never_change_a_draw(name, threads) -> None:
    threads(1)
    expected = DRAWS[name](300_001, 5).numpy()
    for n in (2, 3, 7):
        threads(n)
        assert np.array_equal(DRAWS[name](300_001, 5), expected)


def test_the_far_end_of_a_stream_can_be_drawn() -> None:
    last = 2**64 - 4
    expected = random_ref.philox_block(5, (MASK, MASK >> 2, 0, 0))
    assert [int(u * 2**24) for u in Key(5).uniform(4, offset=last).tolist()] == [word >> 8 for word in expected]


def test_children_are_those_of_split_and_differ_from_each_other_and_from_draws() -> None:
    key = Key(2**64 - 1)
    children = key.split(1000)
    assert children == [random.split(key, i) for i in range(1000)]
    folded = [random.fold_in(key, i) for i in range(1000)]
    handed_out = random_ref.philox_words(key.seed, 0, 0, 0, 0, 8000).reshape(-1, 2).astype(np.uint64)
    draws = {int(a) | int(b) << 32 for a, b in handed_out}
    seeds = [k.seed for k in children + folded]
    assert len(set(seeds)) == 2000
    assert not draws & set(seeds)
    assert random.split(key, 2**40) not in children


def test_uniform_covers_its_interval_evenly() -> None:
    u = Key(11).uniform(200_000).numpy().astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    assert np.array_equal(u * 2**24, np.floor(u * 2**24))
    counts = np.histogram(u, 100, (0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 160  # χ² with 99 degrees of freedom, p ≈ 1e-4


def test_normal_has_the_moments_and_tails_of_the_normal_distribution() -> None:
    z = Key(12).normal(400_000).numpy().astype(np.float64)
    assert abs(z.mean()) < 4 / math.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * math.sqrt(2 / z.size)
    assert abs((z**3).mean()) < 4 * math.sqrt(15 / z.size)
    assert abs((z**4).mean() - 3) < 4 * math.sqrt(96 / z.size)
    assert np.abs(z).max() <= 5.77
    pairs = z.reshape(-1, 2)
    assert abs((pairs[:, 0] * pairs[:, 1]).mean()) < 4 / math.sqrt(len(pairs))


def test_normal_at_its_extreme_words_is_finite() -> None:
    u1 = np.array([2.0**-24, 1.0], np.float32)
    from tensor import elementary_ref

    radius = np.sqrt(elementary_ref.log_f32(u1) * np.float32(-2))
    assert 5.76 < radius[0] <= 5.77
    assert radius[1] == 0
    sine, cosine = elementary_ref.sine_and_cosine_2pi_f32(np.arange(0, 1.0, 0.125, np.float32))
    half = np.float32(0.70710677)
    assert np.array_equal(sine, np.array([0, half, 1, half, 0, -half, -1, -half], np.float32))
    assert np.array_equal(cosine, np.array([1, half, 0, -half, -1, -half, 0, half], np.float32))


def slow_randint(seed: int, low: int, high: int, i: int) -> int:
    """The rule of the documentation in plain integers."""
    m = high - low
    for attempt in range(100):
        words = random_ref.philox_block(seed, (i // 2 & MASK, i // 2 >> 32, attempt, 0))
        u = words[2 * (i % 2)] | words[2 * (i % 2) + 1] << 32
        if u * m % 2**64 >= 2**64 % m:
            return low + (u * m >> 64)
    raise AssertionError


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 1),
        (0, 6),
        (-3, 4),
        (0, 2**32),
        (5, 2**32 + 6),
        (0, 2**63),
        (-1, 2**62 + 2**61),
        (-(2**63), 2**63),
        (-(2**63), 2),
    ],
)
def test_randint_follows_the_documented_rule(low, high) -> None:
    got = Key(77).randint(low, high, 300, offset=11)
    assert got.tolist() == [slow_randint(77, low, high, 11 + i) for i in range(300)]


def test_randint_rejects_often_where_the_range_asks_for_it_and_stays_uniform() -> None:
    m = 3 * 2**62  # a quarter of all words is rejected
    x = Key(8).randint(-(2**63), -(2**63) + m, 60_000).numpy()
    counts = Counter(((x.astype(object) + 2**63) // 2**62).tolist())
    assert set(counts) == {0, 1, 2}
    assert sum((n - 20_000) ** 2 / 20_000 for n in counts.values()) < 19  # χ² with 2 degrees of freedom, p ≈ 1e-4


def test_randint_reaches_both_ends_and_never_the_upper_bound() -> None:
    x = Key(4).randint(-2, 3, 5000)
    assert sorted(set(x.tolist())) == [-2, -1, 0, 1, 2]
    assert set(Key(4).randint(9, 10, 50).tolist()) == {9}


@given(st.integers(0, 300), st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_permutation_holds_each_number_once(n: int, seed: int) -> None:
    p = Key(seed).permutation(n)
    assert p.dtype == "int64"
    assert sorted(p.tolist()) == list(range(n))


def test_every_order_of_four_is_equally_likely() -> None:
    counts = Counter(tuple(key.permutation(4).tolist()) for key in Key(6).split(4800))
    assert len(counts) == 24
    assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 56  # χ² with 23 degrees of freedom, p ≈ 1e-4


def test_bernoulli_compares_the_uniform_number() -> None:
    u = Key(13).uniform(10_000).numpy()
    for p in (0.0, 2.0**-24, 0.3, 1 - 2.0**-24, 1.0):
        assert np.array_equal(Key(13).bernoulli(p, 10_000), u < p)
    assert Key(13).bernoulli(1.0, 100).numpy().all()
    assert not Key(13).bernoulli(0.0, 100).numpy().any()


def test_keys_are_values() -> None:
    assert Key(5) == Key(np.int64(5))
    assert {Key(5): 1}[Key(5)] == 1
    assert repr(Key(5)) == "Key(seed=5)"
    assert Key(5) != 5
    assert pickle.loads(pickle.dumps(Key(2**64 - 1))) == Key(2**64 - 1)
    with pytest.raises(AttributeError):
        Key(5).seed = 6  # type: ignore[misc]
    batch = random.split(Key(5), tensor.arange(3))
    assert batch.shape == (3,)
    assert batch.seeds.tolist() == [random.split(Key(5), i).seed for i in range(3)]
    assert batch == random.split(Key(5), tensor.arange(3)) != random.split(Key(5), tensor.arange(4))
    assert random.fold_in(Key(5), tensor.asarray([[7]], dtype=tensor.uint8)).seeds.tolist() == [
        [random.fold_in(Key(5), 7).seed]
    ]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Key(-1), ValueError, "Key: seed must be from 0 to 2**64 - 1, got -1"),
        (lambda: Key(2**64), ValueError, "Key: seed must be from 0 to 2**64 - 1, got 18446744073709551616"),
        (lambda: Key(1.0), TypeError, "Key: seed must be an int, got float"),
        (lambda: Key(True), TypeError, "Key: seed must be an int, got bool"),
        (lambda: Key(1).split(-1), ValueError, "Key.split: n must be from 0 to 2**64 - 1, got -1"),
        (lambda: random.split(Key(1), -1), ValueError, "split: i must be from 0 to 2**64 - 1, got -1"),
        (lambda: random.fold_in(Key(1), "3"), TypeError, "fold_in: data must be an int, got str"),
        (lambda: Key(1).uniform(-1), ValueError, "uniform: each length in shape must be from 0 to 2**64 - 1, got -1"),
        (lambda: Key(1).uniform(3, offset=-1), ValueError, "uniform: offset must be from 0 to 2**64 - 1, got -1"),
        (
            lambda: Key(1).randint(3, 3, 2),
            ValueError,
            "randint: low and high must be -2**63 <= low < high <= 2**63, got 3 and 3",
        ),
        (
            lambda: Key(1).randint(0, 2**63 + 1, 2),
            ValueError,
            "randint: low and high must be -2**63 <= low < high <= 2**63, got 0 and 9223372036854775809",
        ),
        (lambda: Key(1).bernoulli(1.5, 2), ValueError, "bernoulli: p must be from 0 to 1, got 1.5"),
        (lambda: Key(1).bernoulli(float("nan"), 2), ValueError, "bernoulli: p must be from 0 to 1, got nan"),
        (lambda: Key(1).permutation(2**50), ValueError, "permutation: n must be below 2**48, got 1125899906842624"),
        (lambda: Key(1).permutation(2**32), ValueError, "permutation: n must be below 2**32, got 4294967296"),
        (lambda: Key(1).permutation(True), TypeError, "permutation: n must be an int, got bool"),
        (lambda: Key(1).split(2**48), ValueError, "Key.split: n must be below 2**48, got 281474976710656"),
        (lambda: Key(1).split(2.0), TypeError, "Key.split: n must be an int, got float"),
        (lambda: random.split(Key(1), True), TypeError, "split: i must be an int, got bool"),
        (
            lambda: random.fold_in(Key(1), tensor.asarray([1.0])),
            tensor.DtypeError,
            "fold_in: data must hold integers, got float32",
        ),
        (lambda: Key(tensor.asarray([1])), tensor.DtypeError, "Key: seeds must be uint64, got int64"),
        (
            lambda: random.split(Key(1), tensor.arange(2)).seed,
            ValueError,
            "Key.seed: a batch of keys of shape (2,) has many (hint: .seeds)",
        ),
        (
            lambda: random.uniform(1, 3),
            TypeError,
            "uniform: key must be a Key, got int (hint: tensor.random.Key(seed))",
        ),
        (lambda: Key(1).uniform(True), TypeError, "uniform: each length in shape must be an int, got bool"),
        (lambda: Key(1).uniform(2.5), TypeError, "uniform: each length in shape must be an int, got float"),
        (lambda: Key(1).uniform("ab"), TypeError, "uniform: each length in shape must be an int, got str"),
        (lambda: Key(1).uniform((2, None)), TypeError, "uniform: each length in shape must be an int, got NoneType"),
        (lambda: Key(1).uniform(3, offset=0.5), TypeError, "uniform: offset must be an int, got float"),
        (
            lambda: Key(1).uniform(3, offset=2**64),
            ValueError,
            "uniform: offset must be from 0 to 2**64 - 1, got 18446744073709551616",
        ),
        (
            lambda: Key(1).uniform(3, dtype="int8"),
            tensor.DtypeError,
            "random_uniform: int8 is not drawn (hint: float16, bfloat16, float32, float64)",
        ),
        (lambda: Key(1).randint(True, 3, 2), TypeError, "randint: low must be an int, got bool"),
        (lambda: Key(1).randint(0, 3.0, 2), TypeError, "randint: high must be an int, got float"),
        (
            lambda: Key(1).randint(-1, 3, 2, dtype="uint8"),
            ValueError,
            "randint: low and high must be 0 <= low < high <= 2**8 for uint8, got -1 and 3",
        ),
        (
            lambda: Key(1).randint(-128, 129, 2, dtype=tensor.int8),
            ValueError,
            "randint: low and high must be -2**7 <= low < high <= 2**7 for int8, got -128 and 129",
        ),
        (
            lambda: Key(1).randint(0, 2, 2, dtype="float32"),
            tensor.DtypeError,
            "randint: dtype must be one of integers, got float32",
        ),
        (lambda: Key(1).bernoulli(True, 2), TypeError, "bernoulli: p must be a number or a tensor, got bool"),
        (lambda: Key(1).bernoulli("0.5", 2), TypeError, "bernoulli: p must be a number or a tensor, got str"),
        (lambda: Key(1).bernoulli(-0.1, 2), ValueError, "bernoulli: p must be from 0 to 1, got -0.1"),
        (
            lambda: Key(1).bernoulli(tensor.asarray([0.5, 1.25])),
            ValueError,
            "bernoulli: p must be from 0 to 1, got values from 0.5 to 1.25",
        ),
        (
            lambda: Key(1).bernoulli(tensor.asarray([0.5, math.nan])),
            ValueError,
            "bernoulli: p must be from 0 to 1, got values from nan to nan",
        ),
        (
            lambda: Key(1).bernoulli(tensor.asarray([1])),
            tensor.DtypeError,
            "bernoulli: p must hold floats, got int64",
        ),
        (
            lambda: Key(1).bernoulli(tensor.zeros(3), (2, 1)),
            ValueError,
            "bernoulli: p of shape (3,) does not broadcast to (2, 1)",
        ),
    ],
)
def test_a_wrong_argument_is_named(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_a_shape_with_more_bytes_than_addresses_is_refused() -> None:
    with pytest.raises(tensor.ShapeError, match="has more bytes than there are addresses"):
        Key(1).uniform((2**40, 2**40))


def test_draws_load_no_numpy(python) -> None:
    code = """
import sys
from tensor.random import *
key = Key(3)
a, b = key.split(2)
drawn = [key.uniform(3), a.normal((2, 2), dtype="float64"), b.randint(0, 9, 4), key.permutation(5)]
drawn += [key.bernoulli(0.5, 3)]
drawn += [split(a, 3).bits(2), fold_in(a, 3).uniform(()), dropout(a, drawn[0], 0.5), Stream(3).normal(3)]
drawn += [categorical(a, drawn[0]), exponential(a, 3), gumbel(a, 3), truncated_normal(a, -1, 1, 3)]
print("numpy" in sys.modules, len(drawn))
"""
    assert python(code).stdout == "False 13\n"


FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_of_every_type_is_its_upper_bits_and_below_1(dtype) -> None:
    bits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype]
    words = Key(21).bits(5000, dtype="uint64" if dtype == "float64" else "uint32").tolist()
    expected = [(word >> ((64 if dtype == "float64" else 32) - bits)) / 2**bits for word in words]
    got = Key(21).uniform(5000, dtype=dtype)
    assert got.dtype == dtype
    assert got.to("float64").tolist() == expected
    assert max(expected) < 1


def test_normal_of_short_types_is_that_of_float32_rounded_once() -> None:
    z = Key(22).normal(5000)
    for dtype in ("float16", "bfloat16"):
        assert Key(22).normal(5000, dtype=dtype).tolist() == z.to(dtype).tolist()


def test_normal_in_float64_is_box_and_muller_of_53_bits() -> None:
    words = Key(23).bits(1000, dtype="uint64").tolist()
    z = Key(23).normal(1000, dtype="float64").tolist()
    for i in range(0, 1000, 2):
        radius = math.sqrt(-2 * math.log(((words[i] >> 11) + 1) / 2**53))
        angle = 2 * math.pi * ((words[i + 1] >> 11) / 2**53)
        assert z[i] == pytest.approx(radius * math.cos(angle), abs=1e-14)
        assert z[i + 1] == pytest.approx(radius * math.sin(angle), abs=1e-14)


def test_integers_are_the_same_in_every_type_that_holds_them() -> None:
    expected = Key(24).randint(3, 120, 400, offset=7).tolist()
    for dtype in INTEGERS:
        got = Key(24).randint(3, 120, 400, offset=7, dtype=dtype)
        assert got.dtype == dtype
        assert got.tolist() == expected


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_reach_the_ends_of_their_type(dtype) -> None:
    info = tensor.iinfo(dtype)
    low, high = int(info.min), int(info.max) + 1
    got = Key(25).randint(low, high, 3000, dtype=dtype).tolist()
    assert got == [slow_randint(25, low, high, i) for i in range(3000)]
    if info.bits == 8:
        assert {low, high - 1} <= set(got)


def test_bits_are_the_words_of_the_generator() -> None:
    words = [word for i in range(5) for word in random_ref.philox_block(26, (i, 0, 0, 0))]
    assert Key(26).bits(18, offset=1).tolist() == words[1:19]
    assert (
        Key(26).bits(9, dtype="uint64").tolist()
        == [a | b << 32 for a, b in zip(words[::2], words[1::2], strict=True)][:9]
    )


def test_bernoulli_of_a_tensor_compares_each_element_exactly() -> None:
    u = Key(27).uniform(4)
    for dtype in ("float32", "float64"):
        p = u.to(dtype)
        assert Key(27).bernoulli(p).tolist() == [False] * 4
        above = tensor.nextafter(p, tensor.ones(4, dtype=dtype))
        assert Key(27).bernoulli(above).tolist() == [True] * 4
    p = tensor.asarray([[0.0], [1.0]])
    assert Key(27).bernoulli(p, (2, 3)).tolist() == [[False] * 3, [True] * 3]
    assert Key(27).bernoulli(0.5).shape == ()


def test_the_device_of_the_twins_gives_the_same_bits() -> None:
    for draw in (
        lambda **device: Key(28).uniform((2, 5), offset=3, **device),
        lambda **device: Key(28).normal(7, dtype="float64", **device),
        lambda **device: Key(28).randint(-5, 2**62, 30, **device),
        lambda **device: Key(28).permutation(20, **device),
        lambda **device: Key(28).bernoulli(0.3, 20, **device),
        lambda **device: Key(28).bits(5, **device),
    ):
        here, there = draw(), draw(device="ref")
        assert str(there.device) == "ref"
        assert tensor.digest(here) == tensor.digest(there)


def test_a_key_on_the_device_of_the_twins_stays_there() -> None:
    key = Key(tensor.asarray(28, dtype="uint64", device="ref"))
    for other in (key, key.split(2)[1], random.split(key, 3), random.fold_in(key, 4)):
        assert str(other.uniform(2).device) == "ref"
    assert key.split(2) == Key(28).split(2)


@pytest.mark.parametrize("shape", [(7,), (300,), (40, 50)])
def test_threads_never_change_the_draws_of_many_keys(shape, threads) -> None:
    many = 65536 // math.prod(shape) + 1  # from 65536 elements on threads share the work
    keys = random.split(Key(29), tensor.arange(many if _kernels.isa() != "ref" else 20))
    draws = [
        lambda: keys.uniform(shape, offset=3),
        lambda: keys.normal(shape, dtype="float64"),
        lambda: keys.randint(0, 3 * 2**61, shape),
        lambda: random.split(keys, 5).seeds,
    ]
    threads(1)
    expected = [tensor.digest(draw()) for draw in draws]
    assert tensor.digest(draws[0]()[17]) == tensor.digest(random.split(Key(29), 17).uniform(shape, offset=3))
    for n in (2, 3, 7):
        threads(n)
        assert [tensor.digest(draw()) for draw in draws] == expected


def test_draws_count_in_the_budget() -> None:
    with tensor.budget(max_bytes=4008) as b:  # 8 bytes for the seed of each key
        x = Key(1).uniform(1000)
        assert b.used_bytes == x.nbytes
        with pytest.raises(tensor.BudgetExceeded, match=r"^random[._]normal float32\[1\]: 4 bytes requested"):
            Key(1).normal(1)
