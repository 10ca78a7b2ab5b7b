"""Replaying ledgers: `python benchmarks/replay.py [--save]`. Merge, following and catalogs, each beside the plain way.

Processor time of this thread, medians; files lie in $TMPDIR and are read from the page cache.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness import Report, alternate, prepare

prepare()

from storage import Catalog, Event, Ledger, merge  # noqa: E402
from storage.replay.log_tail import LogTail  # noqa: E402

EVENTS = 20_000
ROUNDS = 41


def made(producer: str, ticks: Iterable[int]) -> list[Event]:
    """Events of 256 bytes."""
    return [
        Event(producer=producer, effect=os.urandom(200), kind="bench.replay", sequence=i, tick=tick)
        for i, tick in enumerate(ticks)
    ]


def filled(path: Path, events: list[Event]) -> Ledger:
    """A ledger of these events, in commits of 1,000."""
    ledger = Ledger.open(path, sync="os")
    for at in range(0, len(events), 1000):
        ledger.append_many(events[at : at + 1000])
    return ledger


def count(items: Iterable[object]) -> int:
    """Go through all."""
    return sum(1 for _ in items)


def merging(report: Report, folder: Path) -> None:
    """A merge of two ledgers against a scan of both."""
    a, b = (filled(folder / name, made(name, range(EVENTS))) for name in "ab")
    back = filled(folder / "c", made("c", ((i * 7919) % EVENTS for i in range(EVENTS))))
    for case, pair in (("ticks ascend", (a, b)), ("ticks in no order in one", (a, back))):
        both = pair[0].scan, pair[1].scan
        ours, peer = alternate(lambda pair=pair: count(merge(pair)), lambda both=both: [count(s()) for s in both])
        per = 1e6 / (2 * EVENTS)
        report.add(f"merge of two ledgers, {case}", ours * per, peer * per, "a scan of both", "us/event", "lower")


def following(report: Report, folder: Path) -> None:
    """One event that arrives: read from the end of the log, against opening the ledger again."""
    events = made("f", range(EVENTS + 2 * ROUNDS + 1000))
    with filled(folder / "followed", events[:EVENTS]) as ledger:
        tail = LogTail(folder / "followed" / "ledger")
        with Ledger.open(folder / "followed", mode="r") as reader:
            tail.start(reader.head().size, reader.frontier())

        def opened(rank: int) -> None:
            with Ledger.open(folder / "followed", mode="r") as reader:
                assert count(reader.scan(rank)) == 1

        tails, opens, idle = [], [], []
        for event in events[EVENTS : EVENTS + ROUNDS]:
            rank = ledger.append(event).rank
            tails.append(_seconds(lambda: count(tail.poll())))
            idle.append(_seconds(lambda: count(tail.poll())))
            opens.append(_seconds(lambda rank=rank: opened(rank)))
        ours, peer = statistics.median(tails), statistics.median(opens)
        report.add("follow, an event alone", 1e3 * ours, 1e3 * peer, "opening the ledger again", "ms", "lower")
        poll = 1e3 * statistics.median(idle)
        report.add("follow, a poll where nothing came", poll, 1e3 * peer, "opening the ledger again", "ms", "lower")


def catalogs(report: Report, folder: Path) -> None:
    """A catalog of every event, against asking the ledger."""

    def by_rank(events: Iterator[tuple[int, Event]]) -> Iterator[tuple[bytes, bytes]]:
        for rank, event in events:
            yield rank.to_bytes(8, "big"), event.effect

    ranks = range(0, EVENTS, 7)
    keys = [rank.to_bytes(8, "big") for rank in ranks]
    with filled(folder / "derived", made("d", range(EVENTS))) as ledger:
        build = _seconds(lambda: Catalog.open(folder / "catalog", ledger, by_rank).close())
        again = statistics.median(
            _seconds(lambda: Catalog.open(folder / "catalog", ledger, by_rank).close()) for _ in range(ROUNDS)
        )
        report.add("catalog, opening one that was closed", 1e3 * again, 1e3 * build, "making it", "ms", "lower")
        with Catalog.open(folder / "catalog", ledger, by_rank) as catalog:
            ours, peer = alternate(lambda: catalog.get_many(keys), lambda: [ledger.at(rank) for rank in ranks])
            per = 1e6 / len(keys)
            report.add("catalog, values of many keys", ours * per, peer * per, "Ledger.at", "us/value", "lower")


def _seconds(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def main() -> None:
    """All cases."""
    report = Report("replay")
    with tempfile.TemporaryDirectory() as folder:
        merging(report, Path(folder))
        following(report, Path(folder))
        catalogs(report, Path(folder))
    report.finish()


if __name__ == "__main__":
    main()
