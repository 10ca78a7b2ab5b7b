"""Counter-based random numbers: known answers, slices, independence of threads, exact uniformity."""

from __future__ import annotations

import ast
import math
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
    with pytest.raises(AttributeError):
        Key(5).seed = 6  # type: ignore[misc]


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
    ],
)
def test_a_wrong_argument_is_named(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_draws_count_in_the_budget() -> None:
    with tensor.budget(max_bytes=4008) as b:  # 8 bytes for the seed of each key
        x = Key(1).uniform(1000)
        assert b.used_bytes == x.nbytes
        with pytest.raises(tensor.BudgetExceeded, match=r"^random_normal float32\[1\]: 4 bytes requested"):
            Key(1).normal(1)
