"""Twin of the self-test of conflict-free motion (coord/kernels/selftest_steps.hpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from coord.moving import pibt_ref

_WIDTH, _HEIGHT = 39, 31
_CELLS = _WIDTH * _HEIGHT
_WORDS = (_CELLS + 63) // 64
_OFFSETS = (_WIDTH, 1, -_WIDTH, -1)
_WORD = 2**64 - 1


class Numbers(Protocol):
    """splitmix64 (selftest_ref.py)."""

    def next(self) -> int:
        """The next word."""

    def below(self, n: int) -> int:
        """A number below n."""


def steps(numbers: Callable[[int], Numbers], add: Callable[..., None]) -> None:
    """Give `add` the outputs of three rounds."""
    for round_ in range(3):
        _round(numbers(0x737465707300 + round_), round_, add)


def _shuffle(items: list[int], r: Numbers) -> None:
    for k in range(len(items), 1, -1):
        other = r.below(k)
        items[k - 1], items[other] = items[other], items[k - 1]


def _round(r: Numbers, round_: int, add: Callable[..., None]) -> None:
    is_open = np.zeros(_CELLS, np.bool_)
    for cell in range(_CELLS):
        wall = r.below(100) < 10 + 10 * round_
        x, y = cell % _WIDTH, cell // _WIDTH
        is_open[cell] = not wall and 0 < x < _WIDTH - 1 and 0 < y < _HEIGHT - 1
    exits = np.zeros(_CELLS, np.uint8)
    for cell in np.flatnonzero(is_open).tolist():
        exits[cell] = sum(int(is_open[cell + offset]) << d for d, offset in enumerate(_OFFSETS))
    places = np.flatnonzero(is_open).tolist()
    _shuffle(places, r)
    n = len(places) // 2
    now = np.array(places[:n], np.int32)
    _shuffle(places, r)
    goal = np.array(places[:n], np.int32)
    flags = np.zeros(_WORDS * 64, np.uint8)
    flags[:_CELLS] = is_open
    bits, length = np.zeros((n, _WORDS), np.uint64), np.zeros(n, np.int32)
    free = np.packbits(flags, bitorder="little").view("<u8")
    pibt_ref.grid_waves(free, _WIDTH, _CELLS, now, goal, bits, length)
    add("grid_waves", bits, length)
    going = np.flatnonzero(length >= 0)
    goal[length < 0] = -1
    cells = np.where(length < 0, 0, length.astype(np.int64) + 1)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(cells)])
    path = np.zeros(int(start[-1]), np.int32)
    pibt_ref.guide_paths(
        exits, _WIDTH, bits[going], (2, 4, 16), now[going], goal[going], length[going],
        np.arange(len(going), dtype=np.int32), 7, path, np.append(start[going], start[-1]),
    )  # fmt: skip
    add("guide_paths", path)
    order = list(range(n))
    for tick in range(10):
        _shuffle(order, r)
        swaps, to = np.zeros(n, np.uint8), np.full(n, -1, np.int32)
        for i in range(n):
            swaps[i] = r.below(8) != 0
            to[i] = now[i] if r.below(16) == 0 else -1
        salt = tick % 2 * r.next() & _WORD
        arguments: Any = (np.array(order), swaps, (path, start) if tick >= 5 else None, salt, to.tolist())
        step = pibt_ref.Step(exits, _WIDTH, bits, now, goal, np.arange(n, dtype=np.int32), *arguments)
        done = step.run()
        add("pibt_step", int(done), step.value() & _WORD if done else 0, np.array(step.to, np.int32))
        now = np.array(step.to, np.int32)
