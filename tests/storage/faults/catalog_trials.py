"""Damage in a catalog's file: `python catalog_trials.py KIND TRIALS SEED FOLDER`, KIND as in damage_trials.py.

A catalog derived from a ledger is closed, one of its files damaged, and it is opened again with the ledger, in a child:
it must give out what the ledger says, made again where that is needed. Prints one JSON object a trial.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from damage_trials import damaged
from forked import Outcome, forked
from judge import event_of

from storage import Catalog, Event, Ledger, StorageError

EVENTS = 300


def _entries(events: Iterator[tuple[int, Event]]) -> Iterable[tuple[bytes, bytes | None]]:
    for rank, event in events:
        yield b"key/%06d" % rank, event.effect


def _make(folder: Path, _: int) -> Outcome:
    with Ledger.open(folder / "run") as ledger:
        ledger.append_many([event_of("c", i) for i in range(EVENTS)])
        Catalog.open(folder / "catalog", ledger, _entries).close()
    return {}


def _trial(folder: Path, files: dict[str, bytes], kind: str, seed: int) -> Outcome:
    randomly = random.Random(seed)
    name = randomly.choice([name for name, content in files.items() if content])
    shutil.rmtree(folder / "catalog")
    (folder / "catalog").mkdir()
    for other, content in files.items():
        (folder / "catalog" / other).write_bytes(damaged(content, kind, randomly) if other == name else content)
    expected = [(b"key/%06d" % i, event_of("c", i).effect) for i in range(EVENTS)]
    outcome: Outcome = {"trial": seed, "file": name, "outcome": "right"}
    with Ledger.open(folder / "run", "r") as ledger:
        try:
            with Catalog.open(folder / "catalog", ledger, _entries) as catalog:
                found, each = list(catalog.scan()), catalog.get_many([key for key, _ in expected])
        except StorageError as error:
            return outcome | {"outcome": "refused", "wrong": f"{type(error).__name__}: {error}"}
    if found != expected or each != [value for _, value in expected]:
        outcome["wrong"] = "other entries than the ledger's"
    return outcome


def trials(kind: str, count: int, seed: int, folder: Path) -> None:
    list(forked(partial(_make, folder), [0]))
    files = {file.name: file.read_bytes() for file in (folder / "catalog").iterdir()}
    for outcome in forked(partial(_trial, folder, files, kind), range(seed, seed + count)):
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    trials(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
