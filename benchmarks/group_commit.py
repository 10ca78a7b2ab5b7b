"""Many producers, each waiting for its own durable acknowledgement: `python benchmarks/group_commit.py`.

A disk's own sync is so quick on some machines that the interpreter decides the figures, so they are taken over a store
whose sync takes 5 ms more, and over the bare disk beside. An event has 256 bytes; the files lie in $TMPDIR. Rates and
99th percentiles are medians of rounds in which every case has its turn, each in a new ledger. One CPU, as elsewhere.

- 64 producers against one; the time to an acknowledgement against three syncs, measured in the same round.
- The log synced by us against the binding's synced write, which holds the interpreter's lock meanwhile.
- One producer that commits in its own thread against one that hands each event to the committer's.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import Report, prepare

prepare()

from rocksdict import WriteBatch, WriteOptions  # noqa: E402

from storage import Event, Ledger  # noqa: E402
from storage.engine.store import Entry, Store  # noqa: E402

ROUNDS = 5
PRODUCERS = 64
APPENDS = 150  # of each producer, where many are
APPENDS_ALONE = 200
APPENDS_QUICK = 20_000
SLOW_SECONDS = 0.005


class SlowSync:
    """A store whose sync takes some time more; it remembers how long synced writes took."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self.took: list[float] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Write, and sleep where it was synced."""
        start = time.perf_counter()
        self._store.write(entries, sync=sync)
        if sync and self._seconds:
            time.sleep(self._seconds)
        self.took.append(time.perf_counter() - start)


class BindingSync(SlowSync):
    """The same over RocksDB's own sync, through the binding."""

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Write as `RocksStore.write` did before it synced the log itself."""
        store = self._store
        options = WriteOptions()
        options.sync = sync
        start = time.perf_counter()
        batch = WriteBatch(raw_mode=True)
        for family, key, value in entries:
            batch.put(key, value, store._handles[family])  # type: ignore[attr-defined]
        store._database.write(batch, options)  # type: ignore[attr-defined]
        if sync and self._seconds:
            time.sleep(self._seconds)
        self.took.append(time.perf_counter() - start)


class Run:
    """One case in one round: appends a second, the 99th percentile of their seconds, the median write's seconds."""

    def __init__(
        self, producers: int, appends: int, seconds: float, kind: type[SlowSync] = SlowSync, sync: str = "fsync"
    ) -> None:
        folder = Path(tempfile.mkdtemp(prefix="droveway-bench-"))
        stores: list[SlowSync] = []

        def through(store: Store) -> Store:
            stores.append(kind(store, seconds))
            return stores[-1]  # type: ignore[return-value]

        times: list[float] = []
        start = threading.Barrier(producers + 1)
        with Ledger.open(folder / "run", sync=sync, through=through) as ledger:  # type: ignore[arg-type]
            threads = [
                threading.Thread(target=self._produce, args=(ledger, f"p{n}", appends, start, times))
                for n in range(producers)
            ]
            for thread in threads:
                thread.start()
            start.wait()
            begun = time.perf_counter()
            for thread in threads:
                thread.join()
            self.rate = producers * appends / (time.perf_counter() - begun)
        self.p99 = statistics.quantiles(times, n=100)[98]
        self.write = statistics.median(stores[0].took)
        shutil.rmtree(folder)

    def _produce(self, ledger: Ledger, name: str, appends: int, start: threading.Barrier, times: list[float]) -> None:
        events = made(name, appends)
        start.wait()
        for event in events:
            begun = time.perf_counter()
            self.append(ledger, event)
            times.append(time.perf_counter() - begun)

    def append(self, ledger: Ledger, event: Event) -> None:
        """Append and wait."""
        ledger.append(event)


class HandedOver(Run):
    """Each event goes to the committer's thread."""

    def append(self, ledger: Ledger, event: Event) -> None:
        """Submit and wait."""
        ledger.submit((event,)).result()


def made(name: str, count: int) -> list[Event]:
    """Events of one producer."""
    return [
        Event(producer=name, effect=i.to_bytes(8, "big") * 32, kind="bench.ack", sequence=i, tick=i)
        for i in range(count)
    ]


CASES: dict[str, Callable[[], Run]] = {
    "one, slow": lambda: Run(1, APPENDS_ALONE, SLOW_SECONDS),
    "many, slow": lambda: Run(PRODUCERS, APPENDS, SLOW_SECONDS),
    "one, bare": lambda: Run(1, APPENDS_ALONE, 0),
    "many, bare": lambda: Run(PRODUCERS, APPENDS, 0),
    "many, binding": lambda: Run(PRODUCERS, APPENDS, 0, BindingSync),
    "one, own thread": lambda: Run(1, APPENDS_QUICK, 0, sync="os"),
    "one, handed over": lambda: HandedOver(1, APPENDS_QUICK, 0, sync="os"),
}


def main() -> None:
    """All cases."""
    report = Report("group_commit")
    runs: dict[str, list[Run]] = {case: [] for case in CASES}
    for _ in range(ROUNDS):
        for case, run in CASES.items():
            runs[case].append(run())

    def median(case: str, field: str) -> float:
        return statistics.median(float(getattr(run, field)) for run in runs[case])

    def add(case: str, field: str, ours: str, peer: str, peer_name: str, unit: str) -> None:
        report.add(case, median(ours, field), median(peer, field), peer_name, unit, "higher")

    for disk, name in (("slow", "sync + 5 ms"), ("bare", "the bare disk")):
        add(f"{PRODUCERS} producers, {name}", "rate", f"many, {disk}", f"one, {disk}", "one producer", "acks/s")
        three = 3e3 * median(f"one, {disk}", "write")
        ours = 1e3 * median(f"many, {disk}", "p99")
        report.add(f"{PRODUCERS} producers, {name}: p99 of the ack", ours, three, "three syncs", "ms", "lower")
    add(f"{PRODUCERS} producers, the bare disk", "rate", "many, bare", "many, binding", "the binding's sync", "acks/s")
    add("one producer, no sync", "rate", "one, own thread", "one, handed over", "a thread of its own", "acks/s")
    report.finish()


if __name__ == "__main__":
    main()
