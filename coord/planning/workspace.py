"""Memory that a caller owns and lends to plan calls: scratch of the kernels, and the lists of candidates.

A plan call takes its scratch and its candidates from it and keeps nothing of it; what it allocates itself are the rows
it returns and columns of its inputs. Every plan comes out the same with and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from coord import backend
from coord.errors import TooLargeError
from coord.planning.exchange_sets import FINE_MAX
from coord.planning.problem import I32

_ALIGNMENT = 64


class Workspace:
    """Room for plans of up to so many agents, zones, candidates an agent and obstacles; `bytes` is what it holds.

    One plan at a time: a second one, in another thread or within the first, raises ValueError. Raises TooLargeError
    for numbers beyond what a plan takes, MemoryError where there is no such memory.

    >>> room = Workspace(agents=100, zones=200)
    >>> room.fits(100, 200, 24, 0), room.fits(101, 200, 24, 0)
    (True, False)
    """

    def __init__(self, *, agents: int, zones: int, k: int = 24, obstacles: int = 0) -> None:
        limits = {"agents": 2**31 - 2, "zones": 2**31 - 2, "k": 256, "obstacles": 2**31 - 2}
        asked = {"agents": agents, "zones": zones, "k": k, "obstacles": obstacles}
        for name, value in asked.items():
            if not 0 <= value <= limits[name]:
                raise TooLargeError(f"Workspace: {name} must be from 0 to {limits[name]}, got {value}")
        self._room = asked
        scratch = backend.scratch_bytes(agents, zones, obstacles)
        whole = np.empty(scratch + _ALIGNMENT, np.uint8)
        first = -whole.ctypes.data % _ALIGNMENT
        self._scratch = whole[first : first + scratch]
        # zones and scores of every agent's candidates; zones, and scores twice, of those of the exchange sets
        sets = agents if agents <= FINE_MAX else agents // 4 + FINE_MAX
        self._lists = np.empty((2 * agents + 3 * sets) * min(k, zones), np.int32)
        self._taken = 0
        self._lent = False

    @property
    def bytes(self) -> int:
        """What this workspace holds."""
        return self._scratch.nbytes + self._lists.nbytes

    def fits(self, agents: int, zones: int, k: int, obstacles: int) -> bool:
        """Whether a plan of so many agents, zones, candidates an agent and obstacles finds room."""
        return all(n <= room for n, room in zip((agents, zones, k, obstacles), self._room.values(), strict=True))

    def take(self, rows: int, columns: int) -> I32:
        """An array [rows, columns] that is good until the plan is made; memory of its own where no room is left."""
        size = rows * columns
        if self._taken + size > len(self._lists):
            return np.empty((rows, columns), np.int32)
        found = self._lists[self._taken : self._taken + size].reshape(rows, columns)
        self._taken += size
        return found

    @contextmanager
    def lent(self, agents: int, zones: int, k: int, obstacles: int) -> Iterator[None]:
        """Within, the kernels of this thread and `backend.candidates` work in this memory. Raises TooLargeError."""
        if not self.fits(agents, zones, k, obstacles):
            has = ", ".join(f"{value} {name}" for name, value in self._room.items())
            raise TooLargeError(
                f"Workspace: room for {has}, got {agents} agents, {zones} zones, {k} k, {obstacles} obstacles"
            )
        if self._lent:
            raise ValueError("Workspace: lent to another plan (hint: one for each thread)")
        self._lent, self._taken = True, 0
        try:
            with backend.lending(self._scratch, self.take):
                yield
        finally:
            self._lent = False
