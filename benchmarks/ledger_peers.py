"""What the ledger is measured against: the same events, or the same rows, in other stores.

Every writer has `append(first, last)` for the events of a `Load` and `close`; opening is not timed.
"""

from __future__ import annotations

import base64
import gc
import sqlite3
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from rocksdict import WriteBatch, WriteOptions

from storage import Event, Ledger, event_batch
from storage.engine.rocks import RocksStore


def mix(n: int, start: int = 0) -> list[Event]:
    """The event mix: 90 % with an effect of 256 bytes, 10 % of 8,000; counters, so nothing depends on a generator."""
    sizes = [8000 if i % 10 == 9 else 256 for i in range(start, start + n)]
    return [
        Event(producer="bench", effect=i.to_bytes(8, "big") * (size // 8), kind="bench.mix", sequence=i, tick=i)
        for i, size in enumerate(sizes, start)
    ]


class Load:
    """Events, and the rows that a ledger makes of them: what peers store was encoded and hashed before."""

    def __init__(self, n: int) -> None:
        self.events = mix(n)
        self.rows: list[bytes] = []
        self.ids: list[bytes] = []
        for at in range(0, n, 1000):
            prepared = event_batch.prepare(self.events[at : at + 1000])
            self.rows += prepared.rows
            self.ids += prepared.ids
        self.megabytes = sum(len(row) - 32 for row in self.rows) / 1e6
        gc.collect()
        gc.freeze()  # the collector looks at none of this, on neither side


class Writer(Protocol):
    """A store that takes events of a load."""

    def append(self, first: int, last: int) -> object:
        """Store the events [first, last) in one commit."""

    def close(self) -> None:
        """Close the store."""


class Ours:
    """A ledger."""

    def __init__(self, load: Load, folder: Path, sync: str) -> None:
        self.load = load
        self.ledger = Ledger.open(folder / "run", sync=sync)  # type: ignore[arg-type]

    def append(self, first: int, last: int) -> object:
        return self.ledger.append_many(self.load.events[first:last])

    def close(self) -> None:
        self.ledger.close()


class OursMade(Ours):
    """A ledger whose events are made from their values in the time that counts, as a command of eventsourcing does."""

    def append(self, first: int, last: int) -> object:
        return self.ledger.append_many(
            [
                Event(producer=e.producer, effect=e.effect, kind=e.kind, sequence=e.sequence, tick=e.tick)
                for e in self.load.events[first:last]
            ]
        )


class BareRocks:
    """A loop over the binding with the ledger's own options: two rows an event, prepared, and nothing else."""

    def __init__(self, load: Load, folder: Path, sync: str) -> None:
        self.load = load
        (folder / "db").mkdir()
        self.store = RocksStore.open(folder / "db", read_only=False)
        self.options = WriteOptions()
        self.options.sync = sync == "fsync"

    def append(self, first: int, last: int) -> object:
        log, ids = (self.store._handles[name] for name in ("log", "ids"))
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        for rank in range(first, last):
            key = rank.to_bytes(8, "big")
            put(key, self.load.rows[rank], log)
            put(self.load.ids[rank], key, ids)
        return self.store._database.write(batch, self.options)

    def close(self) -> None:
        self.store.close()


class Sqlite:
    """SQLite with a write-ahead log; `sync` "fsync" is synchronous=full."""

    def __init__(self, load: Load, folder: Path, sync: str) -> None:
        self.load = load
        self.database = sqlite3.connect(folder / "rows.db", isolation_level=None)
        self.database.execute("pragma journal_mode=wal")
        self.database.execute(f"pragma synchronous={'full' if sync == 'fsync' else 'off'}")
        self.database.execute("create table log(rank integer primary key, value blob)")
        self.database.execute("create table ids(id blob primary key, rank integer) without rowid")

    def append(self, first: int, last: int) -> object:
        run = self.database.executemany
        self.database.execute("begin")
        run("insert into log values(?, ?)", zip(range(first, last), self.load.rows[first:last], strict=True))
        run("insert into ids values(?, ?)", zip(self.load.ids[first:last], range(first, last), strict=True))
        return self.database.execute("commit")

    def close(self) -> None:
        self.database.close()


class EventSourcingRecorder:
    """The SQLite recorder of the package eventsourcing alone: no events, only rows that were made before."""

    def __init__(self, load: Load, folder: Path, sync: str) -> None:
        from eventsourcing.persistence import StoredEvent
        from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

        who = uuid.UUID(int=1)
        self.stored = [StoredEvent(who, rank, "bench:mix", row) for rank, row in enumerate(load.rows)]
        self.datastore = SQLiteDatastore(str(folder / "events.db"))
        self.recorder: Any = SQLiteApplicationRecorder(self.datastore)
        self.recorder.create_table()

    def append(self, first: int, last: int) -> object:
        return self.recorder.insert_events(self.stored[first:last])

    def close(self) -> None:
        self.datastore.close()


@cache
def fleet_classes() -> tuple[Any, Any]:
    """The application and the aggregate of `EventSourcing`, made once: the package knows a class by its name."""
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate, event
    from eventsourcing.persistence import Transcoder, Transcoding

    class Fleet(Aggregate):
        """What the events are of."""

        @event("Decided")
        def decide(self, producer: str, effect: bytes, kind: str, sequence: int, tick: int) -> None:
            self.sequence = sequence

    class BytesAsBase64(Transcoding):
        """How the effect's bytes become JSON, which the package leaves to its users."""

        type = bytes
        name = "bytes_base64"

        def encode(self, obj: bytes) -> str:
            return base64.b64encode(obj).decode("ascii")

        def decode(self, data: str) -> bytes:
            return base64.b64decode(data)

    class Fleets(Application):
        """Fleets on SQLite."""

        def register_transcodings(self, transcoder: Transcoder) -> None:
            super().register_transcodings(transcoder)
            transcoder.register(BytesAsBase64())

    return Fleets, Fleet


class EventSourcing:
    """An application of the package eventsourcing, used as its documents do: a command of an aggregate makes each event
    and applies it, `save` encodes and stores all of a commit in one transaction.

    The database is as the package opens it: a write-ahead log, and SQLite's own `synchronous`, which is full. An
    aggregate is new for each commit; its beginning is the thousandth event. Held against `OursMade`.
    """

    def __init__(self, load: Load, folder: Path, sync: str) -> None:
        application, self.fleet = fleet_classes()
        name = str(folder / "events.db")
        self.application = application({"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": name})
        self.load = load

    def append(self, first: int, last: int) -> object:
        fleet = self.fleet()
        for e in self.load.events[first : last - 1]:
            fleet.decide(e.producer, e.effect, e.kind, e.sequence, e.tick)
        return self.application.save(fleet)

    def close(self) -> None:
        self.application.close()


def write_mcap(load: Load, path: Path) -> None:
    """The events as messages of one channel, uncompressed as ours are, all else as the package has it by default:
    chunks of 1 MiB with an index, a CRC for each chunk.
    """
    from mcap.writer import CompressionType
    from mcap.writer import Writer as McapWriter

    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType.NONE)
        writer.start()
        channel = writer.register_channel("log", "application/msgpack", 0)
        for rank, row in enumerate(load.rows):
            writer.add_message(channel, rank, row[32:], rank, rank)
        writer.finish()


def read_mcap(path: Path, *, sorted_by_time: bool = True) -> Iterator[object]:
    """All messages, by the package's own reader of files with an index.

    Nothing is decoded (`iter_messages`, not `iter_decoded_messages`) and no CRC is compared: `validate_crcs` is off by
    default. Messages come in the order of their log time, which is the default and what we promise too; without
    `sorted_by_time` in that of the file, the same here, which spares the reader its heap.
    """
    from mcap.reader import make_reader

    with path.open("rb") as file:
        yield from make_reader(file).iter_messages(log_time_order=sorted_by_time)


def pymerkle_tree(path: Path, records: Iterator[bytes], hashes: bytes) -> Any:
    """pymerkle's tree over the same leaves in its persistent store, all subroots that it would ever cache in its cache.

    Filled past its own methods, which write each leaf in a transaction of its own.
    """
    from pymerkle import SqliteTree

    from storage import hashing

    tree: Any = SqliteTree(str(path))
    tree.con.execute("pragma synchronous=off")
    with tree.con:
        rows = ((record, hashes[32 * i : 32 * i + 32]) for i, record in enumerate(records))
        tree.con.executemany("insert into leaf(entry, hash) values(?, ?)", rows)
    level, width = hashes, 1
    while len(level) > 32:
        level = hashing.node_hashes(level[: len(level) // 64 * 64])
        width *= 2
        if width >= tree.threshold:
            for i in range(len(level) // 32):
                tree.cache[(i * width, width)] = level[32 * i : 32 * i + 32]
    return tree
