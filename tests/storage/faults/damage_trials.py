"""Damage in a ledger's files, and what is read afterwards: `python damage_trials.py ENGINE KIND TRIALS SEED FOLDER`.

KIND: "flip" (one bit), "cut" (a file ends early), "swap" (two blocks of 512 B or 4 KiB change places). Over every file
of two ledgers, in turn: one closed, with several tables; one whose writer was killed, so that its end lies in the
write-ahead log, above HEAD. Each damaged copy is verified, opened to read (scanned, read at every rank, each id looked
up) and opened to write (read again, appended to), in children: a crash or a hang is an outcome. Prints one JSON object
a trial.

What must hold: a reader gives out the bytes that were appended, or refuses; what a reader refuses the verification
names; nothing below HEAD is missing unsaid; an opening to write ends healthy or with one of our errors.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from forked import Outcome, forked
from judge import event_of

from storage import Event, IntegrityError, Ledger, StorageError, verify_ledger
from storage import head as head_file
from storage.engine.files import Engine

EVENTS = 330  # more than one tile of the tree
BATCH_TRIALS = 40
SECONDS_A_TRIAL = 30
WORKERS = 6


@dataclass(frozen=True, slots=True)
class Subject:
    """An undamaged ledger: its files, the event bytes by rank, how many events HEAD names."""

    files: dict[str, bytes]
    events: list[bytes]
    ids: list[bytes]
    named: int
    open_end: bool  # its writer was killed


def _events() -> list[Event]:
    return [event_of(f"d{i % 3}", i) for i in range(EVENTS)]


def _make(run: Path, engine: Engine, *, killed: bool) -> Outcome:
    """Three sessions; every one leaves tables. A killed writer's last events are in the log alone."""
    events = _events()
    for start, stop in ((0, 120), (120, 240), (240, EVENTS)):
        ledger = Ledger.open(run, engine=engine)
        for at in range(start, stop, 15):
            ledger.append_many(events[at : min(at + 15, stop)])
        if killed and stop == EVENTS:
            os._exit(0)
        ledger.close()
    return {}


def subject(folder: Path, engine: Engine, *, killed: bool) -> Subject:
    run = folder / f"subject-{killed}"
    list(forked(lambda _: _make(run, engine, killed=killed), [0], seconds=60))
    files = {str(file.relative_to(run)): file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file()}
    head = head_file.read(run / "HEAD")
    assert head is not None
    shutil.rmtree(run)
    events = _events()
    return Subject(files, [event.encode() for event in events], [event.id for event in events], head.size, killed)


def damaged(data: bytes, kind: str, randomly: random.Random) -> bytes:
    """The bytes of a file with one fault in them."""
    changed = bytearray(data)
    if kind == "flip":
        bit = randomly.randrange(8 * len(data))
        changed[bit // 8] ^= 1 << bit % 8
    elif kind == "cut":
        del changed[randomly.randrange(len(data)) :]
    else:
        size = randomly.choice((512, 4096))
        blocks = max(2, -(-len(data) // size))
        a, b = (size * block for block in sorted(randomly.sample(range(blocks), 2)))
        first, second = data[a : a + size], data[b : b + size]
        changed = bytearray(data[:a] + second + data[a + size : b] + first + data[b + size :])
    return bytes(changed)


def _write(files: dict[str, bytes], run: Path) -> None:
    (run / "ledger").mkdir(parents=True)
    for name, content in files.items():
        (run / name).write_bytes(content)


class Wrong(Exception):
    """What must not be."""


def _must(holds: bool, text: str) -> None:
    if not holds:
        raise Wrong(text)


def _read(ledger: Ledger, known: Subject) -> set[int]:
    """Everything that a ledger gives out is what was appended. Returns the ranks that it refuses."""
    size = ledger.head().size
    _must(size <= EVENTS, f"the head says {size} events, {EVENTS} were appended")
    refused, rank = set(range(size, known.named)), 0
    while rank < size:
        try:
            for found, event in ledger.scan(rank):
                _must(found == rank, f"a scan gave rank {found} where {rank} was due")
                _must(event.encode() == known.events[rank], f"a scan gave other bytes at rank {rank}")
                rank += 1
            _must(rank == size, f"a scan ended at rank {rank} of {size} without a word")
        except IntegrityError as error:
            _must(rank in error.ranks, f"a scan stopped before rank {rank}, naming {list(error.ranks)[:5]}")
            refused.add(rank)
            rank += 1
    for rank in range(size):
        try:
            _must(ledger.at(rank).encode() == known.events[rank], f"at({rank}) gave other bytes")
        except IntegrityError as error:
            _must(rank in error.ranks, f"at({rank}) refused, naming {list(error.ranks)[:5]}")
            refused.add(rank)
        try:
            found_event = ledger.get(known.ids[rank])
            _must(found_event.encode() == known.events[rank], f"get of the id of rank {rank} gave other bytes")
        except IntegrityError:
            refused.add(rank)
        except KeyError:
            _must(rank in refused, f"get does not know the id of rank {rank}, which can be read")
    return refused


def _check_reading(run: Path, known: Subject) -> tuple[str, set[int]]:
    """What became of the damage, and the ranks that a reader refuses."""
    report = verify_ledger(run)
    named = set(report.damaged_ranks)
    for problem in report.problems:
        for first, last in re.findall(r"ranks (\d+)\.\.(\d+) are missing", problem.text):
            named.update(range(int(first), min(int(last) + 1, EVENTS)))
        for last, first in re.findall(r"HEAD names (\d+) events, the ledger has (\d+)", problem.text):
            named.update(range(int(first), min(int(last), EVENTS)))
    try:
        ledger = Ledger.open(run, "r")
    except StorageError as error:
        _must(not report.ok, f"verify finds nothing in what can't be opened: {type(error).__name__}: {error}")
        return "refused", set(range(EVENTS))
    with ledger:
        refused = _read(ledger, known)
        size, status = ledger.head().size, ledger.manifest_status
        if size < known.named:
            _must(not report.ok and status == "RECOVERY_DEGRADED", f"{known.named - size} events missing unsaid")
        if size < EVENTS and report.ok:  # above HEAD a damaged last commit can't be told from a torn one
            _must(known.open_end and size >= known.named, f"the ledger ends at {size} without a word")
            _must(ledger.dropped_bytes > 0 or _cut_clean(run, known), f"events from {size} on dropped, not told")
            _must(report.dropped_bytes == ledger.dropped_bytes, "verify tells of other dropped bytes than opening")
    if refused:
        _must(not report.ok, f"verify finds nothing, but ranks {sorted(refused)[:5]} can't be read")
        _must(refused <= named, f"verify does not name {sorted(refused - named)[:5]}, which can't be read")
    if report.ok:
        return "dropped and told" if size < EVENTS else "no effect", refused
    return "found", refused


def _cut_clean(run: Path, known: Subject) -> bool:
    """Whether a log ends early at the end of a record: nothing is left there that could be told."""
    return any(
        name.endswith(".log") and known.files[name].startswith((run / name).read_bytes()) for name in known.files
    )


def _check_writing(run: Path, known: Subject, refused: set[int]) -> None:
    try:
        ledger = Ledger.open(run)
    except StorageError:
        return
    appended, size = False, 0
    try:
        with ledger:
            _must(ledger.manifest_status in {"HEALTHY", "DEGRADED"}, f"opened for writing as {ledger.manifest_status}")
            size = ledger.head().size
            _must(size >= known.named, f"opened for writing with {size} events, HEAD named {known.named}")
            refused = refused | _read(ledger, known)
            receipt = ledger.append(event_of("later", 0))
            appended = True
            _must(receipt.rank == size, f"the next append got rank {receipt.rank} of {size}")
            _must(ledger.at(size).encode() == event_of("later", 0).encode(), "what was appended is not read back")
    except StorageError:  # a damaged table may show when the engine merges it, and when it closes
        pass
    try:
        ledger = Ledger.open(run, "r")
    except StorageError:
        return
    with ledger:
        again = {rank for rank in range(size) if not _same(ledger, rank, known)}
        _must(again <= refused, f"appending made ranks {sorted(again - refused)[:5]} unreadable")
        if appended:
            _must(ledger.head().size == size + 1, f"the event appended at {size} is gone")
            _must(ledger.at(size).encode() == event_of("later", 0).encode(), "what was appended is not read back")


def _same(ledger: Ledger, rank: int, known: Subject) -> bool:
    try:
        return ledger.at(rank).encode() == known.events[rank]
    except IntegrityError:
        return False


def _trial(subjects: list[Subject], kind: str, folder: Path, seed: int) -> Outcome:
    randomly = random.Random(seed)
    known = subjects[seed % len(subjects)]
    names = [name for name, content in known.files.items() if content]
    name = randomly.choice([*names, *(n for n in names if n.endswith((".sst", ".log", "data.mdb")))])
    files = {**known.files, name: damaged(known.files[name], kind, randomly)}
    run = folder / "damaged"
    shutil.rmtree(run, ignore_errors=True)
    _write(files, run)
    label = name.rpartition("/")[2]
    outcome: Outcome = {"trial": seed, "file": label, "killed": known.open_end}
    try:
        outcome["outcome"], refused = _check_reading(run, known)
        _check_writing(run, known, refused)
    except Wrong as wrong:
        outcome |= {"outcome": outcome.get("outcome", "wrong"), "wrong": str(wrong)}
    return outcome


def _work(subjects: list[Subject], kind: str, seeds: range, folder: Path) -> None:
    one: Callable[[int], Outcome] = partial(_trial, subjects, kind, folder)
    for at in range(0, len(seeds), BATCH_TRIALS):
        given = seeds[at : at + BATCH_TRIALS]
        for trial, outcome in zip(given, forked(one, given, seconds=SECONDS_A_TRIAL), strict=True):
            os.write(sys.stdout.fileno(), json.dumps({"trial": trial, **outcome}).encode() + b"\n")


def trials(engine: Engine, kind: str, count: int, seed: int, folder: Path) -> None:
    """Several at a time: where a table is damaged RocksDB waits a while before it gives up closing."""
    subjects = [subject(folder, engine, killed=killed) for killed in (False, True)]
    children = []
    for worker in range(WORKERS):
        own = folder / f"{kind}-{worker}"
        own.mkdir()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _work(subjects, kind, range(seed + worker, seed + count, WORKERS), own)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    if any(statuses):
        raise RuntimeError("a worker ended with an error")


if __name__ == "__main__":
    trials(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))  # type: ignore[arg-type]
