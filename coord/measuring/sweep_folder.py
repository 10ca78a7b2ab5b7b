"""The folder of a sweep: what it is of, a ledger a run, a result a case, and all results once every case is there.

    DIR/sweep.json     site, seeds, parameters, ticks: another sweep is refused here
    DIR/runs/NAME/     the run of each case
    DIR/cases/NAME.json  its result and the BLAKE3 of the result's bytes
    DIR/results.jsonl  a line a case in the order of the sweep: written whole, when all are there

A case that is there is taken as it is, when its digest is right and its run has the size and root that it names.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blake3 import blake3

from coord.errors import OutputError
from coord.measuring.sweep_case import Case, canonical
from coord.sites.regular_file import open_regular

JSON_BYTES_MAX = 2**24


class SweepFolder:
    """An open folder of a sweep; `opened` makes it or goes on with it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.runs = place / "runs"

    @classmethod
    @contextmanager
    def opened(cls, place: Path, header: bytes) -> Iterator[SweepFolder]:
        """The folder, kept for this process. OutputError where it holds something else, or another process writes."""
        try:
            place.mkdir(exist_ok=True)
            descriptor = os.open(place / "sweep.json", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise OutputError(f"{place}: expected a folder to write to, got: {text}") from error
        with os.fdopen(descriptor, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OutputError(f"{place}: another process writes this sweep") from error
            found = file.read(JSON_BYTES_MAX)
            if not found:
                others = sorted(file.name for file in place.iterdir() if file.name != "sweep.json")
                if others:
                    (place / "sweep.json").unlink()
                    raise OutputError(f"{place}: expected a new folder or one of this sweep, got one with {others[0]}")
                file.write(header)
                file.flush()
                os.fsync(file.fileno())
            elif found != header:
                raise OutputError(f"{place}: holds another sweep: {_difference(found, header)}")
            for name in ("runs", "cases"):
                (place / name).mkdir(exist_ok=True)
            try:
                yield cls(place)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # also for workers that were forked, and have the file, too

    def result(self, case: Case) -> bytes | None:
        """The canonical bytes of a finished case, or None where there are none that check."""
        try:
            with open_regular(self._file(case)) as file:
                found = json.loads(file.read(JSON_BYTES_MAX))
            data = canonical(found["result"])
            result = found["result"]
            whole = found["blake3"] == blake3(data).hexdigest()
            same = (result["parameters"], result["seed"]) == (dict(case.parameters), case.seed)
            return data if whole and same and self._has(case, result) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _has(self, case: Case, result: dict[str, Any]) -> bool:
        from coord.stl import head_of

        return head_of(self.runs / case.name) == (result["size"], result["root"])

    def clear(self, case: Case) -> None:
        """Remove what is left of a case that does not check."""
        run = self.runs / case.name
        if run.is_dir() and not run.is_symlink():
            shutil.rmtree(run, ignore_errors=True)
        else:
            run.unlink(missing_ok=True)
        self._file(case).unlink(missing_ok=True)

    def keep(self, case: Case, data: bytes) -> None:
        """Write the result of a case."""
        digest = blake3(data).hexdigest().encode()
        _write_whole(self._file(case), b'{"blake3":"' + digest + b'","result":' + data + b"}\n")

    def finish(self, results: Sequence[bytes]) -> None:
        """All cases are there: write results.jsonl."""
        _write_whole(self.place / "results.jsonl", b"".join(data + b"\n" for data in results))

    def _file(self, case: Case) -> Path:
        return self.place / "cases" / f"{case.name}.json"


def _difference(found: bytes, header: bytes) -> str:
    try:
        before, now = json.loads(found), json.loads(header)
        name = next(name for name in now if before.get(name) != now[name])
    except (ValueError, AttributeError, StopIteration, RecursionError):
        return "its sweep.json is damaged"
    return f"{name} {_brief(before.get(name))}, not {_brief(now[name])}"


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _write_whole(path: Path, data: bytes) -> None:
    """The file is there whole or not at all, also after a power cut."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
