"""Crash states of a recorded run, each opened: `python recorded_trials.py ENGINE SYNC TRIALS SEED FOLDER`.

Runs under io_shim.c. A child writes a ledger, with small tables so that there are several, and tells what is confirmed
in the same record; the states that a crash at any moment may leave are made and opened, in children. Prints one JSON
object a state. SYNC "os" is the planted control: it confirms without having synced, and must lose events.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import struct
import sys
from functools import partial
from pathlib import Path
from typing import Any

from crash_states import (
    ACK,
    KINDS,
    MKDIR,
    RENAME,
    TRUNCATE,
    UNLINK,
    WRITE,
    Call,
    Disk,
    read_record,
    write_state,
)
from forked import Outcome, forked
from judge import after_crash, event_of

from storage import Ledger
from storage.engine.files import Engine

CONFIRMED = struct.Struct("<Q32s")
ACK_DESCRIPTOR = 1000
CHANGES = (WRITE, TRUNCATE, RENAME, UNLINK, MKDIR)
STATES_A_RECORD = 250
SESSIONS = 3


def _confirm(ledger: Ledger, producer: str, start: int, count: int) -> None:
    events = [event_of(producer, start + i) for i in range(count)]
    receipts = ledger.append_many(events)
    told = b"".join(CONFIRMED.pack(r.rank, e.id) for e, r in zip(events, receipts, strict=True))
    os.write(ACK_DESCRIPTOR, told)


def _write(run: Path, engine: Engine, sync: Any, seed: int, session: int) -> None:
    """One session of a writer. Most end with close, some as a killed process does, and the next one finds that."""
    randomly = random.Random(seed * SESSIONS + session)
    if engine == "rocksdb" and seed % 2:
        import storage.engine.rocks

        storage.engine.rocks.WRITE_BUFFER_BYTES = dict.fromkeys(storage.engine.rocks.WRITE_BUFFER_BYTES, 64 << 10)
        storage.engine.rocks.WAL_BYTES_MAX = 128 << 10
    ledger = Ledger.open(run, "rw", sync, engine=engine)
    sequence = 0
    for _ in range(randomly.randrange(8, 80)):
        count = randomly.choice((1, 1, 3, 12, 40))
        _confirm(ledger, f"r{seed}.{session}", sequence, count)
        sequence += count
    if randomly.random() < 0.6:
        ledger.close()


def recorded(folder: Path, engine: Engine, sync: str, seed: int) -> list[Call]:
    """The record of a few sessions of a writer, each in a child."""
    library = ctypes.CDLL(None)
    work, record = folder / "w", folder / "record"
    work.mkdir(parents=True)

    def write(session: int) -> Outcome:
        library.shim_watch(os.fsencode(work), os.fsencode(record))
        _write(work / "run", engine, sync, seed, session)
        return {}

    for session in range(SESSIONS):
        (outcome,) = forked(write, [session], seconds=60)
        if "wrong" in outcome:
            raise RuntimeError(outcome["wrong"])
    return read_record(record)


def _check(run: Path, confirmed: dict[int, bytes], engine: Engine, _: int) -> Outcome:
    wrong, size, recovered = after_crash(run, confirmed, engine)
    return {"size": size, "recovered": recovered, **({"wrong": wrong} if wrong else {})}


def trials(engine: Engine, sync: str, count: int, seed: int, folder: Path) -> None:
    while count > 0:
        now = min(count, STATES_A_RECORD)
        place = folder / f"record-{seed}"
        calls = recorded(place, engine, sync, seed)
        _open_states(calls, place, engine, now, seed)
        shutil.rmtree(place)
        count, seed = count - now, seed + 1


def _open_states(calls: list[Call], place: Path, engine: Engine, count: int, seed: int) -> None:
    randomly = random.Random(seed)
    changes = [i + 1 for i, call in enumerate(calls) if call.kind in CHANGES]
    moments = sorted(randomly.choice(changes) if i % 4 else randomly.randrange(len(calls) + 1) for i in range(count))
    disk, confirmed, at = Disk(str(place / "w")), dict[int, bytes](), 0
    for trial, moment in enumerate(moments):
        for call in calls[at:moment]:
            disk.apply(call)
            if call.kind == ACK:
                confirmed |= dict(CONFIRMED.iter_unpack(call.data))
        at = moment
        kind = KINDS[trial % len(KINDS)]
        state = list(disk.state(kind, random.Random(seed * 1_000_003 + trial)))
        folder = place / "state"
        folder.mkdir()
        write_state(state, folder)
        (outcome,) = forked(partial(_check, folder / "run", confirmed, engine), [trial])
        outcome |= {"outcome": kind, "trial": trial, "seed": seed, "moment": moment, "confirmed": len(confirmed)}
        print(json.dumps(outcome), flush=True)
        shutil.rmtree(folder)
        if "wrong" in outcome:
            kept = place.parent / f"wrong-{seed}-{trial}"
            kept.mkdir()
            write_state(state, kept)


if __name__ == "__main__":
    trials(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
