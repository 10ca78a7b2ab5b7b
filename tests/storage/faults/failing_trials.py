"""The system refuses the n-th call, for every n: `python failing_trials.py ENGINE STEP SEED FOLDER`.

Runs under io_shim.c. A ledger is made, appended to and closed, twice, while the n-th write, sync, change of a name or
making of a file fails with ENOSPC or EIO, once or from then on. Every error must be one of ours; what was confirmed
must be there when the ledger is opened again, in the same process and in another. STEP: every how many calls one fails.
Prints one JSON object a trial.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

from forked import Outcome, forked
from judge import after_crash, event_of

from storage import Ledger, StorageError
from storage.engine.files import Engine

GROUPS = {"write": 1, "sync": 2, "name": 4, "open": 8}  # io_shim.c's
ERRORS = (errno.ENOSPC, errno.EIO)
OFF = 0
# RocksDB flushes when it closes, and crashes where it can make no new log for that. RocksStore.close looks first
# whether files can be made; what is left is the moment between. Nothing is lost by it.
CRASHED_AT_CLOSE = "the engine crashed in closing, nothing lost"


class _Session:
    """What a writer was told: the names of the errors, and in a file beside the run the confirmed ids by rank."""

    def __init__(self, told: Path) -> None:
        self.told = told
        self.errors: list[str] = []

    def run(self, run: Path, engine: Engine, name: str) -> None:
        try:
            ledger = Ledger.open(run, engine=engine)
        except StorageError as error:
            self.errors.append(f"open: {type(error).__name__}: {error}")
            return
        try:
            for sequence in range(0, 15, 3):
                self._append(ledger, name, sequence)
            list(ledger.scan())
        except StorageError as error:
            self.errors.append(f"scan: {type(error).__name__}")
        finally:
            try:
                ledger.close()
            except StorageError as error:
                self.errors.append(f"close: {type(error).__name__}")

    def _append(self, ledger: Ledger, name: str, sequence: int) -> None:
        events = [event_of(name, sequence + i) for i in range(3)]
        try:
            receipts = ledger.append_many(events)
        except StorageError as error:
            self.errors.append(f"append: {type(error).__name__}")
            return
        with self.told.open("a") as stream:
            for receipt, event in zip(receipts, events, strict=True):
                stream.write(f"{receipt.rank} {event.id.hex()}\n")


def _trial(run: Path, engine: Engine, given: tuple[str, int, int, int]) -> Outcome:
    group, number, error, forever = given
    library = ctypes.CDLL(None)
    library.shim_watch(os.fsencode(run.parent), None)
    library.shim_fail(GROUPS[group], ctypes.c_long(number), error, forever)
    session = _Session(run.parent.parent / "told")
    session.run(run, engine, "a")
    session.run(run, engine, "b")
    reached = library.shim_matched() >= number
    library.shim_fail(OFF, ctypes.c_long(0), 0, 0)
    errors = session.errors[:]
    session.errors.clear()
    session.run(run, engine, "c")
    outcome: Outcome = {"outcome": "error" if errors else "no effect", "errors": errors[:4], "reached": reached}
    if session.errors:
        outcome["wrong"] = f"after the fault, in the same process: {session.errors}"
    return outcome


def _again(run: Path, engine: Engine, confirmed: dict[int, bytes], _: int) -> Outcome:
    wrong, size, _recovered = after_crash(run, confirmed, engine)
    return {"size": size, **({"wrong": wrong} if wrong else {})}


def trials(engine: Engine, step: int, seed: int, folder: Path) -> None:
    for error in ERRORS:
        for forever in (0, 1):
            for group in GROUPS:
                number = 1 + seed % step
                while _one(folder, engine, (group, number, error, forever)):
                    number += step


def _one(folder: Path, engine: Engine, given: tuple[str, int, int, int]) -> bool:
    """Try one call; whether there are so many."""
    run = folder / "w" / "run"
    run.parent.mkdir()
    group, number, error, forever = given
    told = folder / "told"
    told.write_text("")
    (outcome,) = forked(partial(_trial, run, engine), [given])
    confirmed = {int(rank): bytes.fromhex(event_id) for rank, event_id in map(str.split, told.read_text().splitlines())}
    reached = outcome.pop("reached", True)
    if outcome["outcome"] == "crashed" and engine == "rocksdb" and group == "open":
        outcome = {"outcome": CRASHED_AT_CLOSE}
    if "wrong" not in outcome:
        (second,) = forked(partial(_again, run, engine, confirmed), [0])
        outcome |= {"wrong": second["wrong"]} if "wrong" in second else {}
    what = f"{group} {number}: {errno.errorcode[error]}{' for ever' if forever else ''}"
    if reached:
        print(json.dumps({**outcome, "trial": what, "confirmed": len(confirmed)}), flush=True)
    if "wrong" in outcome and run.exists():
        shutil.copytree(run, folder / f"wrong-{what.replace(' ', '-')}", dirs_exist_ok=True)
    shutil.rmtree(run.parent)
    return bool(reached)


if __name__ == "__main__":
    trials(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))  # type: ignore[arg-type]
