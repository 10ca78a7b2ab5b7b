"""AuditPlace: where an audit stands between two events, all that the findings of the next ones depend on but inputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AuditPlace:
    """What is known before the next event.

    Ranks are those of the ledger. Two audits that stand at equal places in front of a key of inputs find the same.
    """

    producer: str | None = None  # of the run
    sequence: int = 0  # the number that its next event must have
    frame_id: int = 0  # of the next frame
    prev_digest: bytes = bytes(16)
    tick_before: int | None = None  # of the frame before
    gap: bool = False  # events are missing, and no key has come since
    lost: bool = False  # events were missing at some time: the first inputs may be among them
    resume: bool = False  # events are missing, and no frame has come since
    hole: tuple[int, int] | None = None  # first and last retired rank since the frame before
    slack: int = 0  # retired events since the last one of the run's producer: they may be its
    unreplayable: tuple[int, int, int] | None = None  # first rank, last rank, frames among them
    any_ledger: bool = False  # no event of ours has come; with none the ledger is whole as it is
