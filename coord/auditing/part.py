"""Parts of an audit: where a ledger can be cut, and what one part of it says, found in another process.

Parts are cut in front of keys of inputs, where nothing of the inputs before is needed. What else an audit knows there
is its `AuditPlace`: a part is begun at the place that the frame in front of the cut implies. Whoever joins the parts
takes what was found only where the audit before the cut ended at that very place; otherwise the part is gone through
again from there. So the report is that of a serial audit, whatever the ledger holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from blake3 import blake3

from coord.auditing.auditor import Auditor
from coord.auditing.place import AuditPlace
from coord.auditing.report import Report
from coord.auditing.tick_seek import is_key_start, kind_of
from coord.frames.frame import DECISION_FRAME_BYTES
from coord.frames.kinds import CHANGE, FRAME
from coord.sites.scenario_schema import U64_MAX
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from coord.stl import Event, Ledger, PublishedLedger


@dataclass(frozen=True, slots=True)
class AuditPart:
    """Ranks [start, stop) of the ledger at `path`, whose head was `size` and `root`, and where they are begun."""

    path: str
    size: int
    root: bytes
    start: int
    stop: int
    begun: AuditPlace
    replan: bool


@dataclass(frozen=True, slots=True)
class PartFound:
    """What a part says, and where the audit of it ended."""

    report: Report
    ended: AuditPlace
    open_inputs: bool  # inputs without their frame


def place_after(frame: Event, producer: str | None) -> AuditPlace:
    """Where an audit stands behind a frame when all before it was in order."""
    stored = frame.effect[:DECISION_FRAME_BYTES]
    return AuditPlace(
        producer=producer,
        sequence=frame.sequence + 1,
        frame_id=(int.from_bytes(stored[8:16], "little") + 1) & U64_MAX,
        prev_digest=blake3(stored).digest(16),
        tick_before=frame.tick,
    )


def cuts(ledger: Ledger | PublishedLedger, start: int, stop: int, parts: int) -> Iterator[tuple[int, AuditPlace]]:
    """Up to `parts` ranks inside [start, stop) at which a part can begin: the first one, then about as far from each
    other.

    Each is the first one of a key of inputs behind a whole frame, or of the changes from outside in front of that key,
    found by reading on from where it should be.
    """
    from coord import stl

    size = stop - start
    targets = [start + 1, *(start + size * i // parts for i in range(1, parts))]
    last = start
    for target, limit in zip(targets, [*targets[1:], stop], strict=True):
        before: Event | None = None
        cut: int | None = None  # the first change behind that frame
        for rank, event in stl.read_events(ledger, limit, max(target - 1, last)):
            if before is not None and rank > last and is_key_start(event):
                last = rank if cut is None else cut
                yield last, place_after(before, before.producer)
                break
            if before is not None and kind_of(event) == CHANGE:
                cut = rank if cut is None else cut
                continue
            cut = None
            whole = kind_of(event) == FRAME and len(event.effect) >= DECISION_FRAME_BYTES  # type: ignore[union-attr]
            before = event if whole else None  # type: ignore[assignment]  # it has a kind, so it is an event


@plain_mode()
def audit_part(part: AuditPart) -> PartFound | None:
    """Go through the events of a part; None where the ledger can't be read, or is another by now."""
    from coord import stl

    report = Report()
    ledger = stl.try_open(part.path, replace(report, size=part.size, root=part.root))
    if ledger is None:
        return None
    with ledger:
        auditor = Auditor(report, part.replan, False, set())
        setup, scenario = stl.setup_of(ledger), next(stl.read_events(ledger, part.size), (0, None))[1]
        if isinstance(setup, str) or scenario is None or isinstance(scenario, str):
            return None
        auditor.begin_at(replace(part.begun), scenario, setup)
        at = part.start
        for rank, event in stl.read_events(ledger, part.stop, part.start):
            auditor.take(rank, event)
            at = rank + 1
        if at < part.stop:
            return None
    return PartFound(report, auditor.at, auditor.open_inputs)


def begin_process() -> None:
    """What a process of an audit does first: one thread, and the signals of a terminal are its parent's."""
    import signal

    from tensor import _kernels

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _kernels.set_threads(1)
