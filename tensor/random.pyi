# What type checkers know of random numbers: element types, and ranks where the shape tells them.
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from tensor import typed as t
from tensor._kernels import Dtype as Dtype
from tensor._kernels import Tensor as Tensor

_K = TypeVar("_K")
_R = TypeVar("_R")
_Shape = SupportsIndex | Sequence[int]
_Device = str | None
_Name = str | type[Any] | None  # of an element type that the checker does not follow

__all__: list[str]

SPLIT: int
FOLD_IN: int

class Key:
    def __init__(self, seed: SupportsIndex | Tensor[t.UInt64]) -> None: ...
    @property
    def seed(self) -> int: ...
    @property
    def seeds(self) -> Tensor[t.UInt64]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def split(self, n: int) -> list[Key]: ...
    @overload
    def uniform(
        self, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank1]: ...
    @overload
    def uniform(
        self, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank1]: ...
    @overload
    def uniform(
        self, shape: tuple[()], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank0]: ...
    @overload
    def uniform(
        self, shape: tuple[()], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank0]: ...
    @overload
    def uniform(
        self, shape: tuple[int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank2]: ...
    @overload
    def uniform(
        self, shape: tuple[int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank2]: ...
    @overload
    def uniform(
        self, shape: tuple[int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank3]: ...
    @overload
    def uniform(
        self, shape: tuple[int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank3]: ...
    @overload
    def uniform(
        self, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank4]: ...
    @overload
    def uniform(
        self, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank4]: ...
    @overload
    def uniform(
        self, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32]: ...
    @overload
    def uniform(
        self, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K]: ...
    @overload
    def uniform(self, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
    @overload
    def normal(
        self, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank1]: ...
    @overload
    def normal(
        self, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank1]: ...
    @overload
    def normal(
        self, shape: tuple[()], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank0]: ...
    @overload
    def normal(
        self, shape: tuple[()], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank0]: ...
    @overload
    def normal(
        self, shape: tuple[int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank2]: ...
    @overload
    def normal(
        self, shape: tuple[int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank2]: ...
    @overload
    def normal(
        self, shape: tuple[int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank3]: ...
    @overload
    def normal(
        self, shape: tuple[int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank3]: ...
    @overload
    def normal(
        self, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank4]: ...
    @overload
    def normal(
        self, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank4]: ...
    @overload
    def normal(
        self, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32]: ...
    @overload
    def normal(
        self, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K]: ...
    @overload
    def normal(self, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
    @overload
    def bits(
        self, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.UInt32, t.Rank1]: ...
    @overload
    def bits(
        self, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank1]: ...
    @overload
    def bits(
        self, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.UInt32]: ...
    @overload
    def bits(
        self, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K]: ...
    @overload
    def bits(self, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
    @overload
    def randint(
        self, low: int, high: int, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Int64, t.Rank1]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank1]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Int64]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None
    ) -> Tensor: ...
    def permutation(self, n: int, *, device: _Device = None) -> Tensor[t.Int64, t.Rank1]: ...
    def bernoulli(
        self, p: float | Tensor, shape: _Shape | None = None, *, offset: int = 0, device: _Device = None
    ) -> Tensor[t.Bool]: ...

class Stream:
    def __init__(self, seed: int, position: int = 0) -> None: ...
    @property
    def seed(self) -> int: ...
    @property
    def position(self) -> int: ...
    def take(self) -> Tensor[t.UInt64, t.Rank0]: ...
    def made_in(self, recorder: Any) -> bool: ...
    def key(self) -> Key: ...
    @overload
    def uniform(
        self, shape: SupportsIndex, *, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank1]: ...
    @overload
    def uniform(self, shape: SupportsIndex, *, dtype: Dtype[_K], device: _Device = None) -> Tensor[_K, t.Rank1]: ...
    @overload
    def uniform(self, shape: Sequence[int], *, dtype: None = None, device: _Device = None) -> Tensor[t.Float32]: ...
    @overload
    def uniform(self, shape: Sequence[int], *, dtype: Dtype[_K], device: _Device = None) -> Tensor[_K]: ...
    @overload
    def uniform(self, shape: _Shape, *, dtype: _Name = None, device: _Device = None) -> Tensor: ...
    @overload
    def normal(
        self, shape: SupportsIndex, *, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Float32, t.Rank1]: ...
    @overload
    def normal(self, shape: SupportsIndex, *, dtype: Dtype[_K], device: _Device = None) -> Tensor[_K, t.Rank1]: ...
    @overload
    def normal(self, shape: Sequence[int], *, dtype: None = None, device: _Device = None) -> Tensor[t.Float32]: ...
    @overload
    def normal(self, shape: Sequence[int], *, dtype: Dtype[_K], device: _Device = None) -> Tensor[_K]: ...
    @overload
    def normal(self, shape: _Shape, *, dtype: _Name = None, device: _Device = None) -> Tensor: ...
    @overload
    def randint(
        self, low: int, high: int, shape: SupportsIndex, *, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Int64, t.Rank1]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: SupportsIndex, *, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K, t.Rank1]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: Sequence[int], *, dtype: None = None, device: _Device = None
    ) -> Tensor[t.Int64]: ...
    @overload
    def randint(
        self, low: int, high: int, shape: Sequence[int], *, dtype: Dtype[_K], device: _Device = None
    ) -> Tensor[_K]: ...
    @overload
    def randint(self, low: int, high: int, shape: _Shape, *, dtype: _Name = None, device: _Device = None) -> Tensor: ...
    def permutation(self, n: int, *, device: _Device = None) -> Tensor[t.Int64, t.Rank1]: ...
    def bernoulli(
        self, p: float | Tensor, shape: _Shape | None = None, *, device: _Device = None
    ) -> Tensor[t.Bool]: ...

def split(key: Key, i: int | Tensor) -> Key: ...
def fold_in(key: Key, data: int | Tensor) -> Key: ...
@overload
def uniform(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank1]: ...
@overload
def uniform(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank1]: ...
@overload
def uniform(
    key: Key, shape: tuple[()], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank0]: ...
@overload
def uniform(
    key: Key, shape: tuple[()], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank0]: ...
@overload
def uniform(
    key: Key, shape: tuple[int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank2]: ...
@overload
def uniform(
    key: Key, shape: tuple[int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank2]: ...
@overload
def uniform(
    key: Key, shape: tuple[int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank3]: ...
@overload
def uniform(
    key: Key, shape: tuple[int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank3]: ...
@overload
def uniform(
    key: Key, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank4]: ...
@overload
def uniform(
    key: Key, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank4]: ...
@overload
def uniform(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32]: ...
@overload
def uniform(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K]: ...
@overload
def uniform(key: Key, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
@overload
def normal(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank1]: ...
@overload
def normal(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank1]: ...
@overload
def normal(
    key: Key, shape: tuple[()], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank0]: ...
@overload
def normal(
    key: Key, shape: tuple[()], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank0]: ...
@overload
def normal(
    key: Key, shape: tuple[int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank2]: ...
@overload
def normal(
    key: Key, shape: tuple[int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank2]: ...
@overload
def normal(
    key: Key, shape: tuple[int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank3]: ...
@overload
def normal(
    key: Key, shape: tuple[int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank3]: ...
@overload
def normal(
    key: Key, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank4]: ...
@overload
def normal(
    key: Key, shape: tuple[int, int, int, int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank4]: ...
@overload
def normal(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32]: ...
@overload
def normal(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K]: ...
@overload
def normal(key: Key, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
@overload
def bits(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.UInt32, t.Rank1]: ...
@overload
def bits(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank1]: ...
@overload
def bits(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.UInt32]: ...
@overload
def bits(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K]: ...
@overload
def bits(key: Key, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
@overload
def randint(
    key: Key, low: int, high: int, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Int64, t.Rank1]: ...
@overload
def randint(
    key: Key, low: int, high: int, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank1]: ...
@overload
def randint(
    key: Key, low: int, high: int, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Int64]: ...
@overload
def randint(
    key: Key, low: int, high: int, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K]: ...
@overload
def randint(
    key: Key, low: int, high: int, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None
) -> Tensor: ...
@overload
def exponential(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank1]: ...
@overload
def exponential(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank1]: ...
@overload
def exponential(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32]: ...
@overload
def exponential(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K]: ...
@overload
def exponential(key: Key, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
@overload
def gumbel(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32, t.Rank1]: ...
@overload
def gumbel(
    key: Key, shape: SupportsIndex, *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K, t.Rank1]: ...
@overload
def gumbel(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: None = None, device: _Device = None
) -> Tensor[t.Float32]: ...
@overload
def gumbel(
    key: Key, shape: Sequence[int], *, offset: int = 0, dtype: Dtype[_K], device: _Device = None
) -> Tensor[_K]: ...
@overload
def gumbel(key: Key, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None) -> Tensor: ...
@overload
def truncated_normal(
    key: Key,
    lower: float,
    upper: float,
    shape: SupportsIndex,
    *,
    offset: int = 0,
    dtype: None = None,
    device: _Device = None,
) -> Tensor[t.Float32, t.Rank1]: ...
@overload
def truncated_normal(
    key: Key,
    lower: float,
    upper: float,
    shape: SupportsIndex,
    *,
    offset: int = 0,
    dtype: Dtype[_K],
    device: _Device = None,
) -> Tensor[_K, t.Rank1]: ...
@overload
def truncated_normal(
    key: Key,
    lower: float,
    upper: float,
    shape: Sequence[int],
    *,
    offset: int = 0,
    dtype: None = None,
    device: _Device = None,
) -> Tensor[t.Float32]: ...
@overload
def truncated_normal(
    key: Key,
    lower: float,
    upper: float,
    shape: Sequence[int],
    *,
    offset: int = 0,
    dtype: Dtype[_K],
    device: _Device = None,
) -> Tensor[_K]: ...
@overload
def truncated_normal(
    key: Key, lower: float, upper: float, shape: _Shape, *, offset: int = 0, dtype: _Name = None, device: _Device = None
) -> Tensor: ...
def permutation(key: Key, n: int, *, device: _Device = None) -> Tensor[t.Int64, t.Rank1]: ...
def bernoulli(
    key: Key, p: float | Tensor, shape: _Shape | None = None, *, offset: int = 0, device: _Device = None
) -> Tensor[t.Bool]: ...
def categorical(key: Key, logits: Tensor, shape: _Shape = (), *, axis: int = -1) -> Tensor[t.Int64]: ...
def dropout(key: Key, x: Tensor[_K, _R], p: float) -> Tensor[_K, _R]: ...
def gumbel_softmax(
    key: Key, logits: Tensor[_K, _R], /, *, temperature: float = 1.0, axis: int = -1, hard: bool = False
) -> Tensor[_K, _R]: ...
def masked_categorical(key: Key | None, logits: Tensor, mask: Tensor, /, *, axis: int = -1) -> Tensor[t.Int64]: ...
def perturbed_argmax(
    key: Key, x: Tensor[_K, _R], /, *, sigma: float = 1.0, samples: int = 100, axis: int = -1
) -> Tensor[_K, _R]: ...
def es_low_rank_correction(
    key: Key,
    x: Tensor,
    members: Tensor,
    /,
    outputs: int,
    *,
    sigma: float,
    rank: int = 1,
    epoch: int = 0,
    antithetic: bool = True,
) -> Tensor: ...
def key_of(seeds: Any) -> Key: ...
def require_key(key: Any, name: str) -> None: ...
def as_u64(value: Any, function: str, name: str) -> int: ...
def sizes_of(shape: _Shape, function: str) -> tuple[int, ...]: ...
