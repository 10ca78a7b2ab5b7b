"""Finding a tick in a ledger without reading it: ticks grow with rank, so a search halves what is left.

A probe reads on from a rank to the next `coord.inputs` or `coord.frame` event; events of other parts of a run may
carry any tick. Where a damaged ledger's ticks do not grow a search still ends, at some rank: whoever needs to know that
it is the right one must check what lies around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coord.errors import InputsError
from coord.frames.inputs import KEY, Head
from coord.frames.kinds import FRAME, INPUTS

# Ranks and events of [start, stop): whatever is no event (retired, unreadable) has no `kind`.
Scan = Callable[[int, int], Iterator[tuple[int, object]]]

FRAME_HEAD_BYTES = 128


def first_at_or_after(scan: Scan, size: int, tick: int) -> int:
    """The rank of the first event of inputs or frame whose tick is at least `tick`; `size` where there is none.

    About log2(size) probes.

    >>> from coord.frames.kinds import StoredEvent
    >>> class At:
    ...     kind, effect = "coord.frame", b""
    ...     def __init__(self, tick): self.tick = tick
    >>> first_at_or_after(lambda start, stop: ((i, At(10 * i)) for i in range(start, stop)), 50, 95)
    10
    """
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        found = next(((rank, event) for rank, event in scan(middle, high) if kind_of(event) in (INPUTS, FRAME)), None)
        if found is None or found[1].tick >= tick:  # type: ignore[attr-defined]  # it has a kind, so it is an event
            high = middle
        else:
            low = found[0] + 1
    # Between the last one below `tick` and here only events of other kinds may lie.
    for rank, event in scan(low, size):
        if kind_of(event) in (INPUTS, FRAME):
            return rank
    return size


def last_frame_before(scan: Scan, rank: int) -> int | None:
    """The rank of the last readable frame below `rank`."""
    return _last(scan, rank, _is_frame)


def last_key_before(scan: Scan, rank: int) -> int | None:
    """The rank of the first part of the last key of inputs below `rank`: at most 64 planned ticks back in a whole
    ledger.
    """
    return _last(scan, rank, is_key_start)


def _last(scan: Scan, rank: int, wanted: Callable[[object], bool]) -> int | None:
    for at in range(rank - 1, -1, -1):
        for _, event in scan(at, at + 1):
            if wanted(event):
                return at
    return None


def kind_of(event: object) -> str | None:
    """The kind of an event; None for what is retired or can't be read."""
    return getattr(event, "kind", None)


def _is_frame(event: object) -> bool:
    return kind_of(event) == FRAME and len(event.effect) >= FRAME_HEAD_BYTES  # type: ignore[attr-defined]


def is_key_start(event: object) -> bool:
    """Whether an event is the first part of a key of inputs."""
    if kind_of(event) != INPUTS:
        return False
    try:
        head = Head.decode(event.effect)  # type: ignore[attr-defined]
    except InputsError:
        return False
    return head.kind == KEY and head.part == 0


__all__ = ["Scan", "first_at_or_after", "is_key_start", "kind_of", "last_frame_before", "last_key_before"]
