"""The ledger against RocksDB with events under their ids in one keyspace: `python benchmarks/ledger.py`.

The mix: 90 % events of 256 bytes, 10 % of 8,000. The peer stores the same events, hashed by the same function, through
the same binding with 4 MB memtables and no compression: event under its id, id under its rank, and a head; no tree, no
sequence check. A scan gives decoded events in order; ours checks each id and leaf as well, the peer checks nothing.
Rates are medians of fresh databases written in turns; the files lie in $TMPDIR, and reading is from the page cache.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import Report, prepare

prepare()

from rocksdict import DBCompressionType, Options, Rdict, WriteBatch, WriteOptions  # noqa: E402

from storage import Event, Ledger, hashing  # noqa: E402

EVENTS = {("os", 1): 20_000, ("os", 64): 100_000, ("fsync", 1): 500, ("fsync", 64): 10_000}
EVENTS_SCAN = 100_000
ROUNDS = 3


def mix(n: int) -> list[Event]:
    """The event mix; effects are counters, so that nothing here depends on a generator."""
    sizes = [8000 if i % 10 == 9 else 256 for i in range(n)]
    return [
        Event(producer="bench", effect=i.to_bytes(8, "big") * (size // 8), kind="bench.mix", sequence=i, tick=i)
        for i, size in enumerate(sizes)
    ]


class HashKeyed:
    """The peer: one keyspace, events under their ids."""

    def __init__(self, path: Path, sync: str) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(4 << 20)
        options.set_compression_type(DBCompressionType.none())
        self.database = Rdict(str(path), options)
        self.size = 0
        self.write_options = WriteOptions()
        self.write_options.sync = sync == "fsync"

    def append_many(self, events: list[Event]) -> None:
        """One batch, written as the ledger writes its own."""
        batch = WriteBatch(raw_mode=True)
        data = [event.encode() for event in events]
        for event_id, value in zip(hashing.event_ids(data), data, strict=True):
            batch.put(b"e" + event_id, value)
            batch.put(b"r" + self.size.to_bytes(8, "big"), event_id)
            self.size += 1
        batch.put(b"head", self.size.to_bytes(8, "big"))
        self.database.write(batch, self.write_options)

    def scan(self) -> Iterator[Event]:
        """Events in order of rank."""
        for key, event_id in self.database.items(from_key=b"r"):
            if key[:1] != b"r":
                break
            yield Event.decode(self.database[b"e" + event_id])

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def appended(store: Ledger | HashKeyed, events: list[Event], batch: int) -> float:
    """Seconds to append all events, `batch` in a commit."""
    start = time.perf_counter()
    for at in range(0, len(events), batch):
        store.append_many(events[at : at + batch])
    return time.perf_counter() - start


def scanned(store: Ledger | HashKeyed) -> float:
    """Seconds to read all events in order."""
    start = time.perf_counter()
    for _ in store.scan():
        pass
    return time.perf_counter() - start


def in_turns(run: Callable[[str, Path], float]) -> tuple[float, float]:
    """Median seconds of ours and of the peer."""
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(ROUNDS):
        for who, samples in seconds.items():
            folder = Path(tempfile.mkdtemp(prefix="droveway-bench-"))
            samples.append(run(who, folder))
            shutil.rmtree(folder)
    return statistics.median(seconds["ours"]), statistics.median(seconds["peer"])


def main() -> None:
    """All cases, in events and in megabytes a second."""
    report = Report("ledger")

    def opened(who: str, folder: Path, sync: str) -> Ledger | HashKeyed:
        return Ledger.open(folder / "run", sync=sync) if who == "ours" else HashKeyed(folder / "db", sync)  # type: ignore[arg-type]

    def add(case: str, events: list[Event], seconds: tuple[float, float]) -> None:
        megabytes = sum(len(event.encode()) for event in events) / 1e6
        for amount, unit in ((len(events), "events/s"), (megabytes, "MB/s")):
            report.add(case, *(amount / s for s in seconds), "RocksDB, hash-keyed", unit, "higher")

    for (sync, batch), n in EVENTS.items():
        events = mix(n)

        def write(who: str, folder: Path, sync: str = sync, events: list[Event] = events, batch: int = batch) -> float:
            store = opened(who, folder, sync)
            seconds = appended(store, events, batch)
            store.close()
            return seconds

        add(f"append, {batch} a commit, sync={sync}", events, in_turns(write))

    events = mix(EVENTS_SCAN)

    def read(who: str, folder: Path) -> float:
        store = opened(who, folder, "os")
        appended(store, events, 64)
        store.close()
        store = opened(who, folder, "os")
        seconds = scanned(store)
        store.close()
        return seconds

    add("scan in order", events, in_turns(read))
    report.finish()


if __name__ == "__main__":
    main()
