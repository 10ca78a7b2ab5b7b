"""Wall times that can't all be right: a producer's clock that was set back, or stands far ahead.

An event's wall time is advisory and orders nothing, so what is odd with it is worth a warning and is no problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from operator import itemgetter

from storage.event import Event

WARNINGS_MAX = 100
AHEAD_NS_MAX = 24 * 3600 * 10**9
_FIRST_BYTE = itemgetter(32)  # of the event in a value of `log`
_WITH_WALL_TIME = 0x88  # a map of eight keys


class WallClock:
    """Looks at events in the order of their ranks.

    now_ns: what the time is, so that times more than a day ahead of it are told; None tells only what went back.

    >>> clock = WallClock(now_ns=0)
    >>> for rank, wall_ns in enumerate((5_000_000_000, 2_000_000_000, 200_000 * 10**9)):
    ...     clock.see(rank, "fleet-1", wall_ns)
    >>> for text in clock.warnings:
    ...     print(text)
    rank 1: the wall time of producer 'fleet-1' goes back by 0:00:03
    rank 2: the wall time of producer 'fleet-1' is 2 days, 7:33:20 ahead
    """

    def __init__(self, now_ns: int | None = None) -> None:
        self.now_ns = now_ns
        self.warnings: list[str] = []  # the first 100
        self.count = 0
        self._last_ns: dict[str, int] = {}

    def look(self, first: int, values: Sequence[bytes]) -> None:
        """Look at whole values of `log`, of the ranks from `first` on."""
        first_bytes = bytes(map(_FIRST_BYTE, values))
        at = first_bytes.find(_WITH_WALL_TIME)
        while at >= 0:
            event = Event.decode(values[at][32:])
            self.see(first + at, event.producer, event.wall_ns)
            at = first_bytes.find(_WITH_WALL_TIME, at + 1)

    def see(self, rank: int, producer: str, wall_ns: int | None) -> None:
        """Look at one event."""
        if wall_ns is None:
            return
        last = self._last_ns.get(producer, wall_ns)
        if wall_ns < last:
            self._warn(rank, producer, f"goes back by {_shown(last - wall_ns)}")
        if self.now_ns is not None and wall_ns - self.now_ns > AHEAD_NS_MAX:
            self._warn(rank, producer, f"is {_shown(wall_ns - self.now_ns)} ahead")
        self._last_ns[producer] = wall_ns

    def _warn(self, rank: int, producer: str, text: str) -> None:
        self.count += 1
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append(f"rank {rank}: the wall time of producer {producer!r} {text}")


def _shown(nanoseconds: int) -> timedelta:
    return timedelta(microseconds=nanoseconds // 1000)
