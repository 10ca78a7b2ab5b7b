"""kill -9 at random moments of opening, appending and closing: `python kill_trials.py ENGINE TRIALS SEED FOLDER`.

One process imports everything and forks a writer for each trial. The writer tells what is confirmed through a pipe; it
is killed after a random time; another child opens what it left. A ledger is used for several kills, so recovery of what
was recovered is tried too. Prints one JSON object a trial.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from forked import Outcome, forked
from judge import after_crash, event_of

from storage import Ledger
from storage.engine.files import Engine

KILLS_A_LEDGER_MAX = 12
EVENTS_A_LEDGER_MAX = 2500
PAUSE_S_MAX = 0.02
ACK = struct.Struct("<Q32s")
OPENING, APPENDING, CLOSING = range(3)
PHASES = ("opening", "appending", "closing")
F_SETPIPE_SZ = 1031


def _append(ledger: Ledger, producer: str, start: int, randomly: random.Random, acks: int) -> int:
    """A few batches of one producer; each confirmed event is told. Returns the next sequence number."""
    for _ in range(randomly.choice((3, 30, 150))):
        batch = [event_of(producer, start + i) for i in range(randomly.choice((1, 1, 2, 5, 20)))]
        start += len(batch)
        for event, receipt in zip(batch, ledger.append_many(batch), strict=True):
            os.write(acks, ACK.pack(receipt.rank, event.id))
    return start


def _write_until_killed(run: Path, engine: Engine, seed: int, acks: int, phase: mmap.mmap) -> None:
    randomly = random.Random(seed)
    sync: Any = "os" if seed % 5 == 0 else "fsync"
    sequences = [0] * randomly.choice((1, 1, 2, 4))
    while True:
        phase[0] = OPENING
        ledger = Ledger.open(run, "rw", sync, engine=engine)
        phase[0] = APPENDING

        def produce(i: int, ledger: Ledger = ledger) -> None:
            own = random.Random(seed * 10 + i + sequences[i])
            sequences[i] = _append(ledger, f"k{seed}.{i}", sequences[i], own, acks)

        threads = [threading.Thread(target=produce, args=(i,)) for i in range(len(sequences))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        phase[0] = CLOSING
        ledger.close()


def _killed(run: Path, engine: Engine, seed: int, phase: mmap.mmap) -> tuple[dict[int, bytes], str]:
    """Run a writer, kill it: what it had confirmed, and what it was doing."""
    read_from, write_to = os.pipe()
    fcntl.fcntl(write_to, F_SETPIPE_SZ, 1 << 20)
    phase[0] = OPENING
    child = os.fork()
    if child == 0:
        try:
            _write_until_killed(run, engine, seed, write_to, phase)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(write_to)
    randomly = random.Random(seed)
    if randomly.random() < 0.7:  # else the time runs from the fork, and most of it is opening
        patience = time.monotonic() + 5
        while phase[0] == OPENING and time.monotonic() < patience:
            time.sleep(0.001)
    time.sleep(randomly.uniform(0, PAUSE_S_MAX))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read_from, "rb") as stream:
        data = stream.read()
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the writer of seed {seed} ended by itself with wait status {status}")
    whole = len(data) - len(data) % ACK.size
    return dict(ACK.iter_unpack(data[:whole])), PHASES[phase[0]]


def _check(run: Path, confirmed: dict[int, bytes], engine: Engine, trial: int) -> Outcome:
    wrong, size, recovered = after_crash(run, confirmed, engine, mark=f"after{trial}", verify=trial % 4 == 0)
    return {"size": size, "recovered": recovered, **({"wrong": wrong} if wrong else {})}


def trials(engine: Engine, count: int, seed: int, folder: Path) -> None:
    phase = mmap.mmap(-1, 1)
    run, confirmed, kills = folder / "run", dict[int, bytes](), 0
    for trial in range(seed, seed + count):
        new, doing = _killed(run, engine, trial, phase)
        confirmed |= new
        kills += 1
        (outcome,) = forked(partial(_check, run, confirmed, engine), [trial])
        outcome |= {"outcome": doing, "trial": trial, "kills": kills, "confirmed": len(confirmed)}
        print(json.dumps(outcome), flush=True)
        if "wrong" in outcome:
            shutil.copytree(run, folder / f"wrong-{trial}")
        else:
            confirmed[outcome["size"]] = event_of(f"after{trial}", outcome["size"]).id
        if kills >= KILLS_A_LEDGER_MAX or outcome.get("size", 0) >= EVENTS_A_LEDGER_MAX or "wrong" in outcome:
            shutil.rmtree(run)
            confirmed, kills = {}, 0


if __name__ == "__main__":
    trials(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
