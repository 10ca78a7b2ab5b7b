"""What must hold of a ledger after a fault: no confirmed event lost, no byte changed, it opens, and it goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from storage import Event, Ledger, StorageError, verify_ledger
from storage.engine.files import Engine


def event_of(producer: str, sequence: int) -> Event:
    """The event that a producer of these tests has at a sequence number: its bytes follow from the two."""
    digest = hashlib.sha256(f"{producer} {sequence}".encode()).digest()
    size = (digest[0] + 256 * (digest[1] % 8)) if digest[2] < 32 else digest[0] % 120
    return Event(
        producer=producer,
        effect=(digest * (size // 32 + 1))[:size],
        kind="fault.test",
        sequence=sequence,
        tick=sequence,
    )


def after_crash(
    run: Path, confirmed: Mapping[int, bytes], engine: Engine, *, mark: str = "after", verify: bool = True
) -> tuple[str | None, int, int]:
    """Opens the ledger that a crash left, for writing: what is wrong or None, its size, events above HEAD.

    confirmed: the id of each confirmed rank. One event is appended, and read after the ledger was closed.
    """
    try:
        ledger = Ledger.open(run, engine=engine)
    except StorageError as error:
        return f"refused to open: {type(error).__name__}: {error}", 0, 0
    with ledger:
        size, recovered = ledger.head().size, ledger.recovered
        if ledger.manifest_status != "HEALTHY":
            return f"opened for writing as {ledger.manifest_status}: {ledger.problems}", size, recovered
        events = {}
        for rank, event in ledger.scan():
            if event.encode() != event_of(event.producer, event.sequence).encode():
                return f"rank {rank} holds other bytes than were appended", size, recovered
            events[rank] = event.id
        if len(events) != size:
            return f"the head says {size} events, a scan gives {len(events)}", size, recovered
        lost = [rank for rank, event_id in confirmed.items() if events.get(rank) != event_id]
        if lost:
            return f"confirmed ranks lost: {lost[:10]} of {len(lost)}; the ledger has {size} events", size, recovered
        if size and ledger.get(events[size - 1]).id != events[size - 1]:
            return "the last event is not found by its id", size, recovered
        receipt = ledger.append(event_of(mark, size))
        if (receipt.rank, receipt.size) != (size, size + 1):
            return f"the next append gave {receipt}", size, recovered
    if verify:
        report = verify_ledger(run)
        if not report.ok or (report.size, report.root) != (receipt.size, receipt.root):
            return f"verify: {[problem.text for problem in report.problems[:5]]}", size, recovered
    return None, size, recovered
