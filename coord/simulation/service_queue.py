"""ServiceQueue: the zones that agents of a world go on with between plans.

Source: docs/formats/coord-scenario.md, section "One tick". Kept by agent id, so agents may come and go.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.records import NO_ZONE, ROW_DTYPE, Records

U32 = npt.NDArray[np.uint32]


class ServiceQueue:
    """What the rows of the last plan with queue_index 1 and up leave for later.

    >>> rows = np.zeros(2, ROW_DTYPE)
    >>> rows["agent"], rows["zone"], rows["queue_index"] = 7, [3, 4], [1, 2]
    >>> queue = ServiceQueue()
    >>> queue.fill(rows)
    >>> [queue.take(np.array([7, 9], np.uint32)).tolist() for _ in range(3)]
    [[3, 4294967295], [4, 4294967295], [4294967295, 4294967295]]
    """

    def __init__(self) -> None:
        self.fill(np.zeros(0, ROW_DTYPE))

    def fill(self, rows: Records) -> None:
        """Forget all, and keep these rows: ROW_DTYPE, ascending by agent and queue_index, none with queue_index 0."""
        self._agents, first, count = np.unique(rows["agent"], return_index=True, return_counts=True)
        self._next, self._end = first, first + count
        self._zones: U32 = np.append(rows["zone"], np.uint32(NO_ZONE))

    def take(self, agents: U32) -> U32:
        """The next zone of each of these agents (ids, each once), which leaves its queue; NO_ZONE where it is empty."""
        out = np.full(len(agents), NO_ZONE, np.uint32)
        if len(self._agents) == 0:
            return out
        at = np.minimum(np.searchsorted(self._agents, agents), len(self._agents) - 1)
        has = (self._agents[at] == agents) & (self._next[at] < self._end[at])
        at = at[has]
        out[has] = self._zones[self._next[at]]
        self._next[at] += 1
        return out


__all__ = ["ServiceQueue"]
