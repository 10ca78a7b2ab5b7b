"""Counter-based random numbers: each is a function of the key and of its own index, never of order or threads.

A key is 64 bits. Draws from one key overlap each other (uniform, normal, integers and permutation read the same
words): split a key and use each child once. Any slice can be drawn alone: `uniform(key, n, offset=k)` equals elements k
to k+n of a longer draw. There is no global generator. docs/random-numbers.md says what a key promises, with examples.

Which words element i reads, with the generator of `random_ref.py` (word w of the counter with words c0 c1 c2 c3):

    uniform, normal, bernoulli   counter (lo, hi, 0, 0) of i div 4, word i mod 4 (normal: its pair of words)
    … in float64                 counter (lo, hi, 0, 0) of i div 2, words 2·(i mod 2) and the next one
    randint, permutation         counter (lo, hi, a, 0) of i div 2, words 2·(i mod 2) (low) and the next one (high),
                                 a = 0, 1, … the attempt
    split(key, i)                counter (lo, hi, 0, 1) of i, words 0 and 1
    fold_in(key, data)           counter (lo, hi, 0, 2) of data, words 0 and 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from operator import index
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, TraceError
from tensor.float_mode import plain_mode
from tensor.random_stream import Stream, active_capture

__all__ = ["Key", "Stream", "bernoulli", "bits", "fold_in", "normal", "permutation", "randint", "split", "uniform"]

# What is made of these draws lies in modules that load when one of their names is asked for.
_LATER = {
    "tensor.random_distributions": "categorical dropout exponential gumbel truncated_normal",
    "tensor.random_choices": "es_low_rank_correction gumbel_softmax masked_categorical perturbed_argmax",
}
_HOME_OF = {name: home for home, names in _LATER.items() for name in names.split()}
__all__ += list(_HOME_OF)

Tensor = Any
Shape = int | Sequence[int]
Dtype = Any
Device = Any

SPLIT, FOLD_IN = 1, 2  # the last word of a child's counter; draws have 0

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_DTYPES = {
    "uniform": _FLOATS,
    "normal": _FLOATS,
    "bits": ("uint32", "uint64"),
    "randint": _INTEGERS,
    "bernoulli": ("bool",),
}
_HAS_KERNELS = _kernels.isa() != "ref"


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tensor.random' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


class Key:
    """A stream of random numbers, named by 64 bits: an int 0 ≤ seed < 2^64. Raises TypeError or ValueError otherwise.

    A uint64 tensor stands for a batch of keys: draws have its shape in front of their own. Keys are trees (pytrees) of
    their seeds, so that captured functions, vmap and scan take them as they take tensors.

    >>> Key(0).uniform(4)
    tensor([0.399046, 0.88052 , 0.735713, 0.605482], dtype=float32)
    >>> Key(0).uniform(2, offset=2)
    tensor([0.735713, 0.605482], dtype=float32)
    >>> first, second = Key(0).split(2)
    >>> first
    Key(seed=1389609246023119845)
    """

    __slots__ = ("_seed", "_seeds")

    _seed: int | None
    _seeds: Tensor | None

    def __init__(self, seed: int | Tensor) -> None:
        if isinstance(seed, _kernels.Tensor):
            if seed.dtype.name != "uint64":
                raise DtypeError(f"Key: seeds must be uint64, got {seed.dtype.name}")
            self._seed, self._seeds = None, seed
        else:
            self._seed, self._seeds = as_u64(seed, "Key", "seed"), None

    @property
    def seed(self) -> int:
        """The 64 bits. ValueError for a batch of keys, TraceError while a transformation follows the key."""
        if self._seed is None:
            seeds = self.seeds
            if seeds.ndim:
                raise ValueError(f"Key.seed: a batch of keys of shape {seeds.shape} has many (hint: .seeds)")
            self._seed = int(seeds.item())
        return self._seed

    @property
    def seeds(self) -> Tensor:
        """The same as a uint64 tensor: of no dimensions for one key, of the shape of a batch."""
        if self._seeds is None:
            self._seeds = _kernels.full((), self._seed, "uint64")
        return self._seeds

    @property
    def shape(self) -> tuple[int, ...]:
        """() for one key, or the shape of the batch."""
        return () if self._seeds is None else self._seeds.shape

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        if self is other:
            return True
        if self.shape != other.shape:
            return False
        return self.seed == other.seed if self.shape == () else bool(self.seeds.tolist() == other.seeds.tolist())

    def __hash__(self) -> int:
        return hash((Key, self.seed))

    def __repr__(self) -> str:
        if self._seed is None and (not isinstance(self._seeds, _kernels.Tensor) or self._seeds.is_traced or self.shape):
            return f"Key({self._seeds!r})"
        return f"Key(seed={self.seed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Key, (self.seed if self.shape == () else self.seeds,)

    def split(self, n: int) -> list[Key]:
        """n child keys, split(self, 0) … split(self, n − 1)."""
        count = _count(n, "Key.split", "n")
        if self._seed is None and (self.shape != () or self.seeds.is_traced or str(self.seeds.device) != "cpu"):
            return [split(self, i) for i in range(count)]
        numbers = _kernels.arange(0, 1, count, "uint64", self.seeds.device)
        seeds = _children(self.seeds.expand((count,)), numbers, SPLIT)
        return [Key(seed) for seed in seeds.tolist()]

    def uniform(self, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None) -> Tensor:
        """See `tensor.random.uniform`."""
        return uniform(self, shape, offset=offset, dtype=dtype, device=device)

    def normal(self, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None) -> Tensor:
        """See `tensor.random.normal`."""
        return normal(self, shape, offset=offset, dtype=dtype, device=device)

    def bits(self, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None) -> Tensor:
        """See `tensor.random.bits`."""
        return bits(self, shape, offset=offset, dtype=dtype, device=device)

    def randint(
        self, low: int, high: int, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None
    ) -> Tensor:
        """See `tensor.random.randint`."""
        return randint(self, low, high, shape, offset=offset, dtype=dtype, device=device)

    def permutation(self, n: int, *, device: Device = None) -> Tensor:
        """See `tensor.random.permutation`."""
        return permutation(self, n, device=device)

    def bernoulli(
        self, p: float | Tensor, shape: Shape | None = None, *, offset: int = 0, device: Device = None
    ) -> Tensor:
        """See `tensor.random.bernoulli`."""
        return bernoulli(self, p, shape, offset=offset, device=device)


def key_of(seeds: Any) -> Key:
    """A key of such seeds, unchecked: trees are also put together of what isn't a tensor, such as shapes."""
    key = Key.__new__(Key)
    key._seed, key._seeds = None, seeds
    return key


def split(key: Key, i: int | Tensor) -> Key:
    """Child i of the key, 0 ≤ i < 2^64; children never repeat numbers that the key itself hands out.

    `key.split(n)` makes the first n children at once. A tensor of integers gives the batch of these children:
    `split(key, tn.arange(8))`; −1 stands for 2^64 − 1 there.

    >>> f"{split(Key(0), 0).seed:016x}"
    '1348e23f2dce73e5'
    """
    return _child(key, i, SPLIT, "split", "i")


def fold_in(key: Key, data: int | Tensor) -> Key:
    """The key's child for a number with a meaning (a tick, a rank, an id), 0 ≤ data < 2^64; apart from all of `split`.

    A tensor of integers gives the batch of these children.

    >>> fold_in(Key(7), 3) == fold_in(Key(7), 3) != split(Key(7), 3)
    True
    """
    return _child(key, data, FOLD_IN, "fold_in", "data")


def uniform(key: Key, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None) -> Tensor:
    """Numbers in [0, 1), multiples of 2^-24; elements offset, offset + 1, … of the stream, in C order.

    float32 unless `dtype` says otherwise: multiples of 2^-53 in float64, 2^-11 in float16, 2^-8 in bfloat16.

    >>> uniform(Key(0), (2, 2))
    tensor([[0.399046, 0.88052 ],
            [0.735713, 0.605482]], dtype=float32)
    """
    return _draw("uniform", "uniform", key, shape, offset, dtype or "float32", device)


def normal(key: Key, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None) -> Tensor:
    """Numbers from the standard normal distribution by Box and Muller, |z| ≤ 5.77; elements from offset on.

    float32 unless `dtype` says otherwise: float16 and bfloat16 are the float32 numbers, rounded; float64 has numbers of
    its own, |z| ≤ 8.58.

    >>> normal(Key(0), 2)
    tensor([ 0.991137, -0.924663], dtype=float32)
    """
    return _draw("normal", "normal", key, shape, offset, dtype or "float32", device)


def bits(key: Key, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None) -> Tensor:
    """The random words themselves, uint32 or (two of them, the first one low) uint64; elements from offset on.

    >>> [f"{word:08x}" for word in bits(Key(0), 2).tolist()]
    ['6627e8d5', 'e169c58d']
    """
    return _draw("bits", "bits", key, shape, offset, dtype or "uint32", device)


def randint(
    key: Key, low: int, high: int, shape: Shape, *, offset: int = 0, dtype: Dtype = None, device: Device = None
) -> Tensor:
    """Integers low ≤ x < high, every value with exactly the same probability; elements from offset on.

    int64, or the type of integers that `dtype` names: the numbers are the same in all types that hold them. The method
    is Lemire's ("Fast random integer generation in an interval", 2019): of the 128-bit product of a 64-bit word u and
    m = high − low the upper half is the answer, unless the lower half is below 2^64 mod m; then attempt a + 1 reads the
    word anew. Raises ValueError unless −2^63 ≤ low < high ≤ 2^63 (for other types: their range).

    >>> randint(Key(0), 0, 6, 8).tolist()
    [5, 3, 2, 0, 1, 1, 2, 2]
    """
    first, last = _integer(low, "randint", "low"), _integer(high, "randint", "high")
    name = _name(dtype or "int64")
    least, above = _range(name)
    if not least <= first < last <= above:
        ends = f"{_power(least)} <= low < high <= {_power(above)}"
        kind = "" if name == "int64" else f" for {name}"
        raise ValueError(f"randint: low and high must be {ends}{kind}, got {first} and {last}")
    return _draw("randint", "randint", key, shape, offset, name, device, low=first, high=last)


def permutation(key: Key, n: int, *, device: Device = None) -> Tensor:
    """int64[n], the numbers 0 … n−1 in random order: sorted by a random 64-bit word, equal words by number.

    Two of the n words are equal with probability below n²·2^-65; then the smaller number comes first.

    >>> permutation(Key(0), 5).tolist()
    [3, 4, 2, 1, 0]
    """
    count = _count(n, "permutation", "n")
    if count >= 2**32:
        raise ValueError(f"permutation: n must be below 2**32, got {count}")
    words = _draw("bits", "permutation", key, (count,), 0, "uint64", device)
    if _direct(words):
        order = _kernels.empty(words.shape, "int64", None, "random.permutation")
        _kernels.sort(words, words.ndim - 1, False, None, order)
        return order
    from tensor.primitives.sorting import ARGSORT

    return _kernels.apply(ARGSORT, (words,), {"axis": words.ndim - 1, "descending": False})


def bernoulli(
    key: Key, p: float | Tensor, shape: Shape | None = None, *, offset: int = 0, device: Device = None
) -> Tensor:
    """bool, true where the uniform number of the same index is below p. Raises ValueError unless 0 ≤ p ≤ 1.

    p is a number, or a tensor of floats that broadcasts to `shape` (its own shape if none is given).

    >>> bernoulli(Key(0), 0.7, 4).tolist()
    [True, False, False, True]
    """
    if isinstance(p, _kernels.Tensor):
        return _bernoulli_each(key, p, shape, offset, device)
    if isinstance(p, bool) or not hasattr(p, "__float__"):
        raise TypeError(f"bernoulli: p must be a number or a tensor, got {type(p).__name__}")
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p must be from 0 to 1, got {p}")
    with plain_mode():
        limit = math.ceil(float(p) * 2**24)
    size: Shape = () if shape is None else shape
    return _draw("bernoulli", "bernoulli", key, size, offset, "bool", device, limit=limit)


def _bernoulli_each(key: Key, p: Tensor, shape: Shape | None, offset: int, device: Device) -> Tensor:
    if p.dtype.name not in _FLOATS:
        raise DtypeError(f"bernoulli: p must hold floats, got {p.dtype.name}")
    if not p.is_traced and p.size:
        low, high = float(p.min().item()), float(p.max().item())
        if not (low >= 0 and high <= 1):
            raise ValueError(f"bernoulli: p must be from 0 to 1, got values from {low} to {high}")
    u = _draw("uniform", "bernoulli", key, p.shape if shape is None else shape, offset, "float32", device)
    below = u < p
    if below.shape != u.shape:
        raise ValueError(f"bernoulli: p of shape {p.shape} does not broadcast to {u.shape}")
    return below


# --- what all of them share ------------------------------------------------------------------------------------------


def _direct(x: Tensor) -> bool:
    """Whether kernels may be called on x at once: nothing follows it, no twin has to run. Rows are not even loaded."""
    return _HAS_KERNELS and not x.is_traced and x.device == "cpu"


def _draw(
    kind: str, name: str, key: Key, shape: Shape, offset: int, dtype: Dtype, device: Device, **more: int
) -> Tensor:
    """A draw of that kind for the public function `name`; `more` are the further params of its row."""
    sizes, start = sizes_of(shape, name), as_u64(offset, name, "offset")
    seeds, wanted = _seeds(key, name, device), _name(dtype)
    capture = active_capture()
    if capture is not None and not _followed(seeds):
        raise TraceError(
            f"{name}: the key is the same at each run of {capture.name.removeprefix('capture of ')}, so each would "
            f"repeat these numbers (hint: pass the key as an argument, or draw from a tensor.random.Stream)"
        )
    if wanted in _DTYPES[kind] and _direct(seeds):
        out = _kernels.empty((*seeds.shape, *sizes), wanted, None, f"random.{name}")
        low, high = more.get("low", 0), more.get("high", 0)
        _kernels.random_draw(kind, seeds, start, low % 2**64, more.get("limit", (high - low) % 2**64), out)
        return out
    from tensor.primitives.registry import row

    params = {"shape": sizes, "offset": start, "dtype": wanted, **more}
    return _kernels.apply(row(f"random_{kind}", "random"), (seeds,), params)


def require_key(key: Any, name: str) -> None:
    """TypeError that names the function unless it is a Key."""
    if not isinstance(key, Key):
        raise TypeError(f"{name}: key must be a Key, got {type(key).__name__} (hint: tensor.random.Key(seed))")


def _seeds(key: Key, name: str, device: Device) -> Tensor:
    require_key(key, name)
    return key.seeds if device is None else key.seeds.to_device(device)


def _followed(x: Tensor) -> bool:
    """Whether x comes from the arguments of a function that is captured, through whatever else traces it."""
    if not x.is_traced:
        return False
    below = [part for part in x.lower() if isinstance(part, _kernels.Tensor)]
    return not below or any(_followed(part) for part in below)


def _child(key: Key, number: int | Tensor, tag: int, function: str, name: str) -> Key:
    seeds = _seeds(key, function, None)
    if not isinstance(number, _kernels.Tensor):
        which = _kernels.full((), as_u64(number, function, name), "uint64", seeds.device)
    elif number.dtype.name in _INTEGERS:
        which = number.to("uint64")
    else:
        raise DtypeError(f"{function}: {name} must hold integers, got {number.dtype.name}")
    return Key(_children(seeds, which, tag))


def _children(seeds: Tensor, numbers: Tensor, tag: int) -> Tensor:
    if seeds.shape == numbers.shape and _direct(seeds) and _direct(numbers):
        out = _kernels.empty(seeds.shape, "uint64", None, "random.split" if tag == SPLIT else "random.fold_in")
        _kernels.random_children(seeds, numbers, tag, out)
        return out
    from tensor.primitives.registry import row

    return _kernels.apply(row("random_child", "random"), (seeds, numbers), {"tag": tag})


def _name(dtype: Dtype) -> str:
    return dtype if isinstance(dtype, str) else _kernels.Dtype(dtype).name


def _range(name: str) -> tuple[int, int]:
    """The least number of a type of integers, and one above the largest."""
    if not name.startswith(("int", "uint")):
        raise DtypeError(f"randint: dtype must be one of integers, got {name}")
    width = int(name.lstrip("uint"))
    return (0, 2**width) if name[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1))


def _power(value: int) -> str:
    size = abs(value).bit_length() - 1
    return str(value) if value == 0 else f"{'-' if value < 0 else ''}2**{size}"


def _integer(value: Any, function: str, name: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{function}: {name} must be an int, got bool")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{function}: {name} must be an int, got {type(value).__name__}") from None


def as_u64(value: Any, function: str, name: str) -> int:
    """The value as an int from 0 to 2^64 − 1; TypeError or ValueError that name the function and the argument."""
    if type(value) is int and 0 <= value < 2**64:  # nearly always; a small draw takes no longer than this
        return value
    number = _integer(value, function, name)
    if not 0 <= number < 2**64:
        raise ValueError(f"{function}: {name} must be from 0 to 2**64 - 1, got {number}")
    return number


def _count(value: Any, function: str, name: str) -> int:
    number = as_u64(value, function, name)
    if number >= 2**48:
        raise ValueError(f"{function}: {name} must be below 2**48, got {number}")
    return number


def sizes_of(shape: Shape, function: str) -> tuple[int, ...]:
    """The shape as a tuple of ints below 2^48; TypeError or ValueError that name the function."""
    sizes = (shape,) if hasattr(shape, "__index__") or not hasattr(shape, "__iter__") else tuple(shape)
    return tuple([_count(n, function, "each length in shape") for n in sizes])
