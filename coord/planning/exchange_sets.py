"""Which agents swap's first exchanges are among: those that travel farthest, in sets from small to large.

Greedy leaves a few agents with very long ways: of 100,000 uniform ones, 1 % have 45 % of the travel. Their best zones
are all held by agents that are content, so sets bring them together: the fewer agents, the farther their nearest zones
lie, and the longer the ways that one exchange mends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from coord.planning.problem import I32, NONE, U32

SET_MIN = 32
FINE_MAX = 4096  # up to so many agents the sets halve
WHOLE_MAX = 16_384  # so many agents are all swept at the end where no budget says otherwise


def is_whole(agents: int, work_budget: int) -> bool:
    """Whether every agent is swept at the end: always with a budget, without one up to WHOLE_MAX agents."""
    return work_budget != 0 or agents <= WHOLE_MAX


def exchange_sets(travel: U32, assigned: I32) -> Iterator[NDArray[np.intp]]:
    """The sets of agents that exchange zones among themselves, ascending: the coarsest, which is the smallest, first.

    Each holds the agents with the longest ways to their zones after greedy, of equals those with the lower ids: a half
    of those that have a zone, a quarter, …; of more than FINE_MAX agents an eighth, a twenty-fourth, ….

    >>> travel, assigned = np.arange(5000, dtype=np.uint32), np.arange(5000, dtype=np.int32)
    >>> [len(members) for members in exchange_sets(travel[:2000], assigned[:2000])]
    [62, 125, 250, 500, 1000]
    >>> [members[0].item() for members in exchange_sets(travel, assigned)]
    [4931, 4792, 4375]
    """
    served = np.flatnonzero(assigned != NONE)
    share, factor = (2, 2) if len(assigned) <= FINE_MAX else (8, 3)
    size = len(served) // share
    if size < SET_MIN:
        return
    ways = travel[served]
    least = np.partition(ways, len(ways) - size)[len(ways) - size]
    chosen = np.flatnonzero(ways >= least)
    order = chosen[np.argsort(~ways[chosen], kind="stable")]
    sizes = []
    while size >= SET_MIN:
        sizes.append(size)
        size //= factor
    for count in reversed(sizes):
        yield served[np.sort(order[:count])]
