"""The ledger against what else stores events: `python benchmarks/ledger.py [--events N] [--proof-events N] [--save]`.

The mix: 90 % events of 256 bytes, 10 % of 8,000. Ours does everything: canonical bytes, id, leaf, tree, ids, cursors,
head. The peers store rows that were encoded and hashed before, but for eventsourcing: both it and the ledger that it is
held against begin with an event's values (ledger_peers.py). Rates are medians of fresh stores
written in turns; the files lie in $TMPDIR, and reading is from the page cache. --events is for the memory of a process
that appends, --proof-events for the proofs; the defaults are the limits' own.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from harness import Report, prepare

prepare()

from ledger_peers import (  # noqa: E402
    BareRocks,
    EventSourcing,
    EventSourcingRecorder,
    Load,
    Ours,
    OursMade,
    Sqlite,
    Writer,
    pymerkle_tree,
    read_mcap,
    write_mcap,
)

from storage import Event, Ledger, event_batch, layout, verify  # noqa: E402
from storage.tree import HASH_BYTES  # noqa: E402

ROUNDS = 5
EVENTS = {("os", 1): 10_000, ("os", 64): 50_000, ("os", 1000): 100_000,
          ("fsync", 1): 500, ("fsync", 64): 10_000, ("fsync", 1000): 100_000}  # fmt: skip
Maker = Callable[[Load, Path, str], Writer]
PEERS: dict[str, Maker] = {"rocksdict, the same two rows": BareRocks}
MORE_PEERS: dict[str, Maker] = {
    **PEERS,
    "SQLite, synchronous=full": Sqlite,
    "eventsourcing on SQLite": EventSourcing,
    "eventsourcing's SQLite recorder alone": EventSourcingRecorder,
}
PROOFS = 300
MEMORY_LIMIT_MB = 32.0
SCAN = "select rank, value from log order by rank"


def say(text: str) -> None:
    """What is being done, on stderr."""
    sys.stderr.write(f"ledger: {text}\n")
    sys.stderr.flush()


def written(make: Maker, load: Load, n: int, batch: int, sync: str) -> float:
    """Seconds to append n events to a fresh store, `batch` in a commit."""
    folder = Path(tempfile.mkdtemp(prefix="droveway-bench-"))
    try:
        store = make(load, folder, sync)
        start = time.perf_counter()
        for at in range(0, n, batch):
            store.append(at, min(at + batch, n))
        seconds = time.perf_counter() - start
        store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return seconds


def appending(report: Report) -> None:
    """Appending in batches: what follows an event to the disk."""
    load = Load(max(EVENTS.values()))
    for (sync, batch), n in EVENTS.items():
        say(f"append, {batch} a commit, sync={sync}")
        peers = MORE_PEERS if (sync, batch) == ("fsync", 1000) else PEERS
        makers: dict[str, Maker] = {"ours": Ours, **peers}
        if EventSourcing in peers.values():
            makers["ours, events made"] = OursMade
        seconds: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(ROUNDS):
            for name, make in makers.items():
                seconds[name].append(written(make, load, n, batch, sync))
        middle = {name: statistics.median(runs) for name, runs in seconds.items()}
        case = f"append, {batch} a commit, sync={sync}"
        for name, make in peers.items():
            if make is EventSourcing:
                rates(report, f"{case}, from values", n, load, middle["ours, events made"], middle[name], name)
            else:
                rates(report, case, n, load, middle["ours"], middle[name], name)


def rates(report: Report, case: str, n: int, load: Load, ours: float, peer: float, name: str) -> None:
    """One result in events and one in megabytes a second."""
    megabytes = load.megabytes * n / len(load.events)
    report.add(case, n / ours, n / peer, name, "events/s", "higher")
    report.add(case, megabytes / ours, megabytes / peer, name, "MB/s", "higher")


def seconds_of(make: Callable[[], Iterable[object]]) -> float:
    """Processor seconds of this thread to walk through all that `make` gives; nothing is read but the page cache."""
    start = time.thread_time()
    for _ in make():
        pass
    return time.thread_time() - start


def replaying(report: Report) -> None:
    """Reading everything in order; ours checks id, leaf, canonical bytes and gives out events."""
    say("replay")
    n = 100_000
    load = Load(n)
    with tempfile.TemporaryDirectory(prefix="droveway-bench-") as name:
        folder = Path(name)
        for make in (Ours, Sqlite):
            store = make(load, folder, "os")
            for at in range(0, n, 1000):
                store.append(at, at + 1000)
            store.close()
        write_mcap(load, folder / "log.mcap")
        rows = sqlite3.connect(folder / "rows.db")
        with Ledger.open(folder / "run", "r") as ledger:
            walks: dict[str, Callable[[], Iterable[object]]] = {
                "ours": ledger.scan,
                "SQLite's ordered scan, unverified": lambda: rows.execute(SCAN),
                "the MCAP reader": lambda: read_mcap(folder / "log.mcap"),
                "the MCAP reader, in file order": lambda: read_mcap(folder / "log.mcap", sorted_by_time=False),
            }
            seconds: dict[str, list[float]] = {walk: [] for walk in walks}
            for _ in range(ROUNDS + 2):
                for walk, call in walks.items():
                    seconds[walk].append(seconds_of(call))
            for walk in list(walks)[1:]:
                middle = statistics.median(seconds["ours"]), statistics.median(seconds[walk])
                rates(report, "verified replay", n, load, *middle, walk)
        rows.close()


GROWTH = """
import sys
from ledger_peers import mix
from storage import Ledger
def kilobytes(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
with Ledger.open(sys.argv[1], sync="os") as ledger:
    ledger.append_many(mix(1000))
    before = kilobytes("VmRSS")
    for at in range(1000, int(sys.argv[2]), 1000):
        ledger.append_many(mix(1000, at))
    print((kilobytes("VmHWM") - before) / 1024)
"""


def growing(report: Report, n: int) -> None:
    """Growth of resident memory while appending, peak against what was resident after the first 1,000 events."""
    say(f"memory while appending {n:,} events")
    with tempfile.TemporaryDirectory(prefix="droveway-bench-") as folder:
        done = subprocess.run(
            [sys.executable, "-c", GROWTH, f"{folder}/run", str(n)],
            cwd=Path(__file__).parent, check=True, capture_output=True, text=True,
        )  # fmt: skip
    megabytes = float(done.stdout)
    report.add(f"memory growth, {n:,} events appended", megabytes, MEMORY_LIMIT_MB, "limit", "MB", "lower")


class Counting:
    """A store that counts what it reads of the tree."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.reads = 0

    def get(self, family: str, key: bytes) -> bytes | None:
        self.reads += family == "tree"
        found: bytes | None = self.store.get(family, key)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def small(n: int, start: int) -> list[Event]:
    """Events of some 40 bytes: a proof doesn't depend on what they hold."""
    return [Event(producer="p", effect=b"", kind="k", sequence=i, tick=0) for i in range(start, start + n)]


def proving(report: Report, n: int) -> None:
    """One inclusion proof from a large ledger, and its verification."""
    counting: list[Counting] = []

    def through(store: Any) -> Any:
        counting.append(Counting(store))
        return counting[0]

    with tempfile.TemporaryDirectory(prefix="droveway-bench-") as folder:
        gc.collect()
        gc.freeze()
        say(f"a ledger of {n:,} events")
        with Ledger.open(f"{folder}/run", sync="os") as ledger:
            for at in range(0, n, 10_000):
                ledger.append_many(small(min(10_000, n - at), at))
        with Ledger.open(f"{folder}/run", "r", through=through) as ledger:
            say("pymerkle's tree over the same leaves")
            peer = pymerkle_tree(Path(folder) / "peer.db", leaf_records(ledger), leaf_hashes(ledger))
            assert peer.get_root() == ledger.head().root
            say("proofs")
            ranks = random.Random(1).sample(range(n), PROOFS)
            compare_proofs(report, ledger, peer, ranks, counting[0])
            compare_verification(report, ledger, ranks)
            peer.close()


def leaf_hashes(ledger: Ledger) -> bytes:
    """All leaf hashes, from the tiles."""
    tiles = ledger._store.scan("tree", layout.tile_key(0, 0), layout.tile_key(1, 0))
    return b"".join(tile for _, tile in tiles)[: HASH_BYTES * ledger.head().size]


def leaf_records(ledger: Ledger) -> Iterator[bytes]:
    """The 41 bytes that each leaf hash is over."""
    for _, value in ledger._store.scan("log"):
        yield b"\1" + value[:32] + (len(value) - 32).to_bytes(8, "big")


def compare_proofs(report: Report, ledger: Ledger, peer: Any, ranks: list[int], counted: Counting) -> None:
    """Time and reads of the same proofs."""
    size = ledger.head().size
    ours, theirs, reads = [], [], []
    for _ in range(ROUNDS):
        for rank in ranks:
            before, start = counted.reads, time.perf_counter()
            proof = ledger.prove(rank)
            middle = time.perf_counter()
            other = peer.prove_inclusion(rank + 1)
            ours.append(middle - start)
            theirs.append(time.perf_counter() - middle)
            reads.append(counted.reads - before)
            assert [bytes(p) for p in other.path[1:]] == proof
    case = f"inclusion proof from {size:,} events"
    report.add(
        case, 1e6 * statistics.median(ours), 1e6 * statistics.median(theirs), "pymerkle on SQLite", "µs", "lower"
    )
    levels = (max(size - 1, 1).bit_length() + 7) // 8
    report.add(f"{case}, tiles read", max(reads), levels, "levels of the tree", "tiles", "lower")


def compare_verification(report: Report, ledger: Ledger, ranks: list[int]) -> None:
    """The independent verifier's walk up a proof against the hashes that it cannot do without."""
    head = ledger.head()
    made = [(rank, event_batch.prepare([ledger.at(rank)]).leaves, ledger.prove(rank)) for rank in ranks]

    def bare() -> None:
        sha256 = hashlib.sha256
        for _, leaf, proof in made:
            for other in proof:
                leaf = sha256(b"\1" + other + leaf).digest()  # noqa: PLW2901

    def ours() -> None:
        for rank, leaf, proof in made:
            assert verify.inclusion(rank, head.size, leaf, proof, head.root)

    samples: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(15):
        for name, call in (("ours", ours), ("bare", bare)):
            start = time.thread_time()
            call()
            samples[name].append(1e6 * (time.thread_time() - start) / len(made))
    middle = statistics.median(samples["ours"]), statistics.median(samples["bare"])
    report.add("proof verified, without its signature", *middle, "its SHA-256 hashes alone", "µs", "lower")


def main() -> None:
    """All cases."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--events", type=int, default=1_000_000, help="for the memory of a process that appends")
    options.add_argument("--proof-events", type=int, default=10_000_000, help="in the ledger that proofs come from")
    report = Report("ledger", options)
    appending(report)
    replaying(report)
    growing(report, report.asked.events)
    proving(report, report.asked.proof_events)
    report.finish()


if __name__ == "__main__":
    main()
