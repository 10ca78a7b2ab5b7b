"""Power cuts: `unshare --mount --propagation private python power_cut.py ENGINE SYNC CUTS SEED FOLDER`.

The disk is a file with an ext4 in it. A writer is stopped at some moment, the file is copied, and the copy mounted:
that replays the file system's journal, as after a power cut. What the system has not written back by then is not in the
file. At some cuts a part of the files is synced first, at random: the system may have written any of them.

Everything is mounted in a mount namespace of this process alone: whatever ends it, the mounts end with it, and with
them their loop devices. Prints one JSON object a cut. SYNC "os" is the planted control.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from forked import Outcome, forked
from judge import after_crash, event_of

from storage import Ledger
from storage.engine.files import Engine

IMAGE_BYTES = 32 << 20
CUTS_A_DISK = 20
PR_SET_PDEATHSIG = 1
KINDS = ("as it is", "some files synced")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """An ext4 image, mounted."""
    folder.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", image, folder)
    try:
        yield folder
    finally:
        _run("umount", folder)


def _write_for_ever(run: Path, engine: Engine, sync: Any, seed: int, confirmed: int) -> None:
    _end_with_parent()
    randomly = random.Random(seed)
    sequence = 0
    while True:
        with Ledger.open(run, sync=sync, engine=engine) as ledger:
            for _ in range(randomly.choice((2, 8, 30)) if sync == "fsync" else 1 << 30):
                batch = [event_of(f"w{seed}", sequence + i) for i in range(randomly.choice((1, 1, 2, 5, 20)))]
                sequence += len(batch)
                size = ledger.append_many(batch)[-1].rank + 1
                os.write(confirmed, b"%d\n" % size)
                time.sleep(randomly.uniform(0, 0.004))  # what is tried is the moments, not the amount


def _stopped(child: int) -> None:
    """Stop a process, and wait until each of its threads stands still."""
    os.kill(child, signal.SIGSTOP)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        states = []
        for task in Path(f"/proc/{child}/task").iterdir():
            with suppress(OSError):
                states.append((task / "stat").read_text().rsplit(")", 1)[1].split()[0])
        if set(states) <= {"T", "Z"}:
            return
        time.sleep(0.001)


def _sync_some(folder: Path, randomly: random.Random) -> None:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and randomly.random() < 0.4:
            with suppress(OSError):
                descriptor = os.open(file, os.O_RDONLY)
                os.fdatasync(descriptor)
                os.close(descriptor)


def _check(run: Path, confirmed: int, engine: Engine, ids: dict[int, bytes], _: int) -> Outcome:
    _end_with_parent()
    wrong, size, recovered = after_crash(run, ids, engine)
    if wrong is None and size < confirmed:
        wrong = f"confirmed ranks lost: {confirmed} were confirmed, the ledger has {size}"
    return {"size": size, "recovered": recovered, **({"wrong": wrong} if wrong else {})}


def cuts(engine: Engine, sync: str, count: int, seed: int, folder: Path) -> None:
    """Cut the power `count` times, with a new disk now and then."""
    while count > 0:
        now = min(count, CUTS_A_DISK)
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-m", "0", "-J", "size=4", "-E", "nodiscard", image)
        with mounted(image, folder / "disk") as disk:
            _cut(image, disk / "run", engine, sync, now, seed, folder)
        image.unlink()
        count, seed = count - now, seed + 1


def _cut(image: Path, run: Path, engine: Engine, sync: str, count: int, seed: int, folder: Path) -> None:
    randomly = random.Random(seed)
    read_from, write_to = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _write_for_ever(run, engine, sync, seed, write_to)
        finally:
            os._exit(1)
    os.close(write_to)
    os.set_blocking(read_from, False)
    confirmed = 0
    try:
        for cut in range(count):
            time.sleep(randomly.uniform(0, 0.06))
            _stopped(child)
            told = re.findall(rb"(\d+)\n", _everything(read_from))
            confirmed = int(told[-1]) if told else confirmed
            kind = KINDS[cut % 2]
            if cut % 2:
                _sync_some(run, randomly)
            copy = folder / "copy"
            _run("cp", "--sparse=always", image, copy)
            os.kill(child, signal.SIGCONT)
            with mounted(copy, folder / "copied") as disk:
                (outcome,) = forked(partial(_check, disk / "run", confirmed, engine, {}), [cut])
            outcome |= {"outcome": kind, "trial": cut, "seed": seed, "confirmed": confirmed}
            print(json.dumps(outcome), flush=True)
            if "wrong" in outcome and sync == "fsync":
                copy.rename(folder / f"wrong-{seed}-{cut}")
            else:
                copy.unlink()
    finally:
        os.close(read_from)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _everything(stream: int) -> bytes:
    data = b""
    with suppress(BlockingIOError):
        while piece := os.read(stream, 1 << 16):
            data += piece
    return data


if __name__ == "__main__":
    _end_with_parent()
    cuts(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))  # type: ignore[arg-type]
