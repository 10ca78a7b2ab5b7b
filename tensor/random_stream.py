"""Streams: sources of keys that advance by one at each draw, also at each run of a function that was captured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import ref

from tensor.errors import GradientError, TraceError
from tensor.locks import lock_of

if TYPE_CHECKING:
    from tensor.random import Key

__all__ = ["DrawLog", "Stream", "active_capture", "capturing"]

Tensor = Any
Shape = Any  # int | Sequence[int]


class _Active(threading.local):
    capture: Any = None  # the capture whose function runs in this thread
    log: DrawLog | None = None  # of the innermost function that may run a second time


_active = _Active()


def active_capture() -> Any:
    """The recorder of the innermost capture that is going on in this thread, None if there is none."""
    return _active.capture


@contextmanager
def capturing(recorder: Any) -> Iterator[None]:
    """While a function is captured: streams ask recorder.source(stream) for the seed of each key."""
    before = _active.capture
    _active.capture = recorder
    try:
        yield
    finally:
        _active.capture = before


class DrawLog:
    """The keys that a function takes from streams when it runs first; in later runs it gets the same ones again."""

    __slots__ = ("_at", "_keys", "_outer", "_ran")

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._at = 0
        self._ran = False
        self._outer: DrawLog | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """One run of the function."""
        self._outer, self._at = _active.log, 0
        _active.log = self
        try:
            yield
        finally:
            _active.log, self._outer = self._outer, None
            self._ran = True

    def key(self, stream: Stream) -> Key:
        """The next key."""
        if not self._ran:
            key = _next_key(stream, self._outer)
            self._keys.append(key)
            return key
        if self._at >= len(self._keys):
            raise GradientError(
                f"checkpoint: its function took {len(self._keys)} keys from streams the first time, and more now "
                f"(hint: it must do the same both times)"
            )
        self._at += 1
        return self._keys[self._at - 1]


def _next_key(stream: Stream, log: DrawLog | None) -> Key:
    from tensor.random import Key

    if log is not None:
        return log.key(stream)
    recorder = _active.capture
    if recorder is None:
        return Key(stream.take())
    if stream.made_in(recorder):
        raise TraceError(
            f"Stream: it is made anew at each run of {recorder.name.removeprefix('capture of ')}, so each would repeat "
            f"its numbers (hint: make it outside)"
        )
    return Key(recorder.source(stream))


class Stream:
    """Keys one after the other: key number i is split(Key(seed), i). It is the one thing here that has a state.

    seed, position: ints from 0 to 2^64 − 1; the position is the number of the next key, so that Stream(s.seed,
    s.position) goes on where s stands. Each draw takes one key. A function that closes over a stream and is captured
    takes new keys at each run, as many as the function itself would. Threads that share a stream never get the same
    key, but which one gets which is open.

    >>> stream = Stream(7)
    >>> stream.uniform(2).tolist() == stream.uniform(2).tolist()
    False
    >>> stream.position, stream.key() == Stream(7, 2).key()
    (2, True)
    """

    __slots__ = ("__weakref__", "_capture", "_key", "_lock", "_position")

    def __init__(self, seed: int, position: int = 0) -> None:
        from tensor.random import Key, as_u64

        self._key = Key(as_u64(seed, "Stream", "seed"))
        self._position = as_u64(position, "Stream", "position")
        self._lock = lock_of(self)
        self._capture = None if _active.capture is None else ref(_active.capture)  # during which it was made

    @property
    def seed(self) -> int:
        """The seed of the key whose children this gives."""
        return self._key.seed

    @property
    def position(self) -> int:
        """The number of the next key."""
        return self._position

    def __repr__(self) -> str:
        return f"Stream(seed={self.seed}, position={self._position})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Stream, (self.seed, self._position)

    def take(self) -> Tensor:
        """The seed of the next key, a uint64 tensor of no dimensions; the stream is one further."""
        from tensor.random import split

        with self._lock:
            number = self._position
            self._position = (number + 1) % 2**64
        return split(self._key, number).seeds

    def made_in(self, recorder: Any) -> bool:
        """Whether the function that is captured by this recorder made it."""
        return self._capture is not None and self._capture() is recorder

    def key(self) -> Key:
        """The next key; for one draw, or to be split."""
        return _next_key(self, _active.log)

    def uniform(self, shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
        """See `tensor.random.uniform`."""
        return self.key().uniform(shape, dtype=dtype, device=device)

    def normal(self, shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
        """See `tensor.random.normal`."""
        return self.key().normal(shape, dtype=dtype, device=device)

    def randint(self, low: int, high: int, shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
        """See `tensor.random.randint`."""
        return self.key().randint(low, high, shape, dtype=dtype, device=device)

    def permutation(self, n: int, *, device: Any = None) -> Tensor:
        """See `tensor.random.permutation`."""
        return self.key().permutation(n, device=device)

    def bernoulli(self, p: Any, shape: Shape | None = None, *, device: Any = None) -> Tensor:
        """See `tensor.random.bernoulli`."""
        return self.key().bernoulli(p, shape, device=device)


def fed(streams: list[Stream]) -> list[Tensor]:
    """The seeds that a run of a captured function reads from its streams.

    Raises TraceError inside another capture: the seeds would be the same at each of its runs.
    """
    if streams and _active.capture is not None:
        raise TraceError(
            f"{_active.capture.name}: a captured function that draws from a Stream is called inside it "
            f"(hint: capture the outermost function)"
        )
    return [stream.take() for stream in streams]
