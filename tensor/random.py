"""Counter-based random numbers: each is a function of the key and of its own index, never of order or threads.

A key is 64 bits. Draws from one key overlap each other (uniform, normal, integers and permutation read the same
words): split a key and use each child once. Any slice can be drawn alone: `uniform(key, n, offset=k)` equals elements k
to k+n of a longer draw. There is no global generator. The page docs/random-numbers.md has examples.

Which words element i reads, with the generator of `random_ref.py` (word w of the counter with words c0 c1 c2 c3):

    uniform, normal, bernoulli   counter (lo, hi, 0, 0) of i div 4, word i mod 4 (normal: its pair of words)
    randint, permutation         counter (lo, hi, a, 0) of i div 2, words 2·(i mod 2) (low) and the next one (high),
                                 a = 0, 1, … the attempt
    split(key, i)                counter (lo, hi, 0, 1) of i, words 0 and 1
    fold_in(key, data)           counter (lo, hi, 0, 2) of data, words 0 and 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor import _kernels, memory, random_ref
from tensor.arrays import REFERENCE
from tensor.float_mode import plain_mode

__all__ = ["Key", "bernoulli", "fold_in", "normal", "permutation", "randint", "split", "uniform"]

Shape = int | Sequence[int]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

CHUNK = 65536  # integers made at a time: bounds the working memory, never a result
_TAG_SPLIT, _TAG_FOLD = 1, 2


@dataclass(frozen=True)
class Key:
    """A stream of random numbers, named by 64 bits: an int 0 ≤ seed < 2^64. Raises TypeError or ValueError otherwise.

    >>> Key(0).uniform(4)
    array([0.39904642, 0.88052016, 0.73571277, 0.6054818 ], dtype=float32)
    >>> Key(0).uniform(2, offset=2)
    array([0.73571277, 0.6054818 ], dtype=float32)
    >>> first, second = Key(0).split(2)
    >>> first
    Key(seed=1389609246023119845)
    """

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _u64(self.seed, "Key", "seed"))

    def split(self, n: int) -> list[Key]:
        """n child keys, split(self, 0) … split(self, n − 1)."""
        count = _count(n, "Key.split", "n")
        words = _words(self, 0, 4 * count, 0, _TAG_SPLIT).reshape(-1, 4)[:, :2].astype(np.uint64)
        return [Key(int(low) | int(high) << 32) for low, high in words]

    def uniform(self, shape: Shape, *, offset: int = 0) -> F32:
        """See `tensor.random.uniform`."""
        return uniform(self, shape, offset=offset)

    def normal(self, shape: Shape, *, offset: int = 0) -> F32:
        """See `tensor.random.normal`."""
        return normal(self, shape, offset=offset)

    def randint(self, low: int, high: int, shape: Shape, *, offset: int = 0) -> I64:
        """See `tensor.random.randint`."""
        return randint(self, low, high, shape, offset=offset)

    def permutation(self, n: int) -> I64:
        """See `tensor.random.permutation`."""
        return permutation(self, n)

    def bernoulli(self, p: float, shape: Shape, *, offset: int = 0) -> NDArray[np.bool_]:
        """See `tensor.random.bernoulli`."""
        return bernoulli(self, p, shape, offset=offset)


def split(key: Key, i: int) -> Key:
    """Child i of the key, 0 ≤ i < 2^64; children never repeat numbers that the key itself hands out.

    >>> f"{split(Key(0), 0).seed:016x}"
    '1348e23f2dce73e5'
    """
    return _child(key, _u64(i, "split", "i"), _TAG_SPLIT)


def fold_in(key: Key, data: int) -> Key:
    """The key's child for a number with a meaning (a tick, a rank, an id), 0 ≤ data < 2^64; apart from all of `split`.

    >>> fold_in(Key(7), 3) == fold_in(Key(7), 3) != split(Key(7), 3)
    True
    """
    return _child(key, _u64(data, "fold_in", "data"), _TAG_FOLD)


def uniform(key: Key, shape: Shape, *, offset: int = 0) -> F32:
    """float32 in [0, 1), multiples of 2^-24; elements offset, offset + 1, … of the stream, in C order.

    >>> uniform(Key(0), (2, 2))
    array([[0.39904642, 0.88052016],
           [0.73571277, 0.6054818 ]], dtype=float32)
    """
    return _floats(key, shape, offset, "uniform")


def normal(key: Key, shape: Shape, *, offset: int = 0) -> F32:
    """float32 from the standard normal distribution by Box and Muller, |z| ≤ 5.77; elements from offset on.

    >>> normal(Key(0), 2)
    array([ 0.99113744, -0.92466277], dtype=float32)
    """
    return _floats(key, shape, offset, "normal")


def randint(key: Key, low: int, high: int, shape: Shape, *, offset: int = 0) -> I64:
    """int64 with low ≤ x < high, every value with exactly the same probability; elements from offset on.

    The method is Lemire's ("Fast random integer generation in an interval", 2019): of the 128-bit product of a 64-bit
    word u and m = high − low the upper half is the answer, unless the lower half is below 2^64 mod m; then attempt
    a + 1 reads the word anew. Raises ValueError unless −2^63 ≤ low < high ≤ 2^63.

    >>> randint(Key(0), 0, 6, 8)
    array([5, 3, 2, 0, 1, 1, 2, 2])
    """
    first, last = index(low), index(high)
    if not -(2**63) <= first < last <= 2**63:
        raise ValueError(f"randint: low and high must be -2**63 <= low < high <= 2**63, got {first} and {last}")
    out = memory.allocate(_shape(shape, "randint"), np.int64, "random.randint")
    flat, start, m = out.reshape(-1), _u64(offset, "randint", "offset"), last - first
    for begin in range(0, flat.size, CHUNK):
        part = flat[begin : begin + CHUNK]
        value, rest = _multiply_high(_words64(key, start + begin, part.size, 0), m)
        attempt = 0
        while (again := rest < np.uint64(2**64 % m)).any():
            attempt += 1
            new_value, new_rest = _multiply_high(_words64(key, start + begin, part.size, attempt), m)
            value, rest = np.where(again, new_value, value), np.where(again, new_rest, rest)
        part[...] = (value + np.uint64(first % 2**64)).view(np.int64)
    return out


def permutation(key: Key, n: int) -> I64:
    """int64[n], the numbers 0 … n−1 in random order: sorted by a random 64-bit word, equal words by number.

    Two of the n words are equal with probability below n²·2^-65; then the smaller number comes first.

    >>> permutation(Key(0), 5)
    array([3, 4, 2, 1, 0])
    """
    count = _count(n, "permutation", "n")
    out = memory.allocate((count,), np.int64, "random.permutation")
    with memory.reserve(16 * count, "random.permutation order and merge space"):
        out[...] = np.argsort(_words64(key, 0, count, 0), kind="stable")
    return out


def bernoulli(key: Key, p: float, shape: Shape, *, offset: int = 0) -> NDArray[np.bool_]:
    """bool, true where the uniform number of the same index is below p. Raises ValueError unless 0 ≤ p ≤ 1.

    >>> bernoulli(Key(0), 0.7, 4)
    array([ True, False, False,  True])
    """
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p must be from 0 to 1, got {p}")
    out = memory.allocate(_shape(shape, "bernoulli"), np.bool_, "random.bernoulli")
    flat, start = out.reshape(-1), _u64(offset, "bernoulli", "offset")
    with plain_mode():
        limit = math.ceil(float(p) * 2**24)
    for begin in range(0, flat.size, CHUNK):
        part = flat[begin : begin + CHUNK]
        part[...] = (_words(key, start + begin, part.size) >> np.uint32(8)) < np.uint32(limit)
    return out


def _child(key: Key, number: int, tag: int) -> Key:
    w0, w1, _, _ = random_ref.philox_block(key.seed, (number & random_ref.LOW, number >> 32, 0, tag))
    return Key(w0 | w1 << 32)


def _floats(key: Key, shape: Shape, offset: int, name: str) -> F32:
    out: F32 = memory.allocate(_shape(shape, name), np.float32, f"random.{name}")
    start = _u64(offset, name, "offset")
    counter, skip = start // 4, start % 4
    if REFERENCE:
        twin = getattr(random_ref, f"philox_{name}_f32")
        with plain_mode():
            out[...] = twin(key.seed, counter, skip, out.size).reshape(out.shape)
    else:
        getattr(_kernels, f"philox_{name}_f32")(key.seed, counter, skip, out.reshape(-1))
    return out


def _words(key: Key, position: int, n: int, c2: int = 0, c3: int = 0) -> NDArray[np.uint32]:
    """n words of the key's stream (c2, c3) from a position on."""
    counter, skip = position // 4 % 2**64, position % 4
    if REFERENCE:
        return random_ref.philox_words(key.seed, counter, c2, c3, skip, n)
    out: NDArray[np.uint32] = memory.allocate((n,), np.uint32, "random words")
    _kernels.philox_words(key.seed, counter, c2, c3, skip, out)
    return out


def _words64(key: Key, element: int, n: int, attempt: int) -> U64:
    """Two words each, the first one low (every machine that runs this is little-endian)."""
    return _words(key, 2 * element, 2 * n, attempt).view(np.uint64)


def _multiply_high(u: U64, m: int) -> tuple[U64, U64]:
    """High and low halves of u·m for 1 ≤ m ≤ 2^64."""
    if m == 2**64:
        return u, np.zeros_like(u)
    low, shift = np.uint64(random_ref.LOW), np.uint64(32)
    m0, m1 = np.uint64(m & random_ref.LOW), np.uint64(m >> 32)
    u0, u1 = u & low, u >> shift
    p00, p01, p10 = u0 * m0, u0 * m1, u1 * m0
    middle = (p00 >> shift) + (p01 & low) + (p10 & low)
    high = u1 * m1 + (p01 >> shift) + (p10 >> shift) + (middle >> shift)
    return high, (middle << shift) | (p00 & low)


def _u64(value: Any, function: str, name: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{function}: {name} must be an int, got bool")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{function}: {name} must be an int, got {type(value).__name__}") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"{function}: {name} must be from 0 to 2**64 - 1, got {number}")
    return number


def _count(value: Any, function: str, name: str) -> int:
    number = _u64(value, function, name)
    if number >= 2**48:
        raise ValueError(f"{function}: {name} must be below 2**48, got {number}")
    return number


def _shape(shape: Shape, function: str) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return tuple(_count(n, function, "each length in shape") for n in sizes)
