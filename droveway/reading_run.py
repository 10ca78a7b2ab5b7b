"""Opening a run to read it: errors name the folder, and what is wrong with its ledger is said before it is used."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from droveway.exits import quoted, reading
from droveway.output import Output
from droveway.outside_ids import OutsideIds

if TYPE_CHECKING:
    from coord.stl import RunReader
    from storage import Ledger, PublishedLedger


@contextlib.contextmanager
def reading_ledger(path: Path | str) -> Iterator[None]:
    """As `reading`; where the folder of a demo stands for its run, a hint says so."""
    try:
        with reading(path):
            yield
    except Exception as error:
        if type(error).__name__ == "NotALedgerError" and isinstance(path, Path) and (path / "run" / "ledger").is_dir():
            error.hint = f"its run is {quoted(path / 'run')}"  # type: ignore[attr-defined]
        raise


@contextlib.contextmanager
def opened_run(out: Output, path: Path | str) -> Iterator["RunReader"]:
    """The run at `path`, or published at a URL, read-only. A damaged or shortened ledger is opened too, with a note."""
    from coord.stl import open_run

    with reading_ledger(path), open_run(path) as reader:
        for problem in reader.ledger.problems:
            out.note(f"{path}: {str(problem).removeprefix(f'{path}: ')}: droveway verify says more")
        yield reader
        if reader.skipped:
            out.note(f"{path}: {reader.skipped} decisions left out: what they depend on is retired")


def ids_of(ledger: "Ledger | PublishedLedger") -> OutsideIds:
    """The id tables that a run's scenario holds, and none where it can't be read: damage is `verify`'s to tell."""
    from coord.errors import CoordError
    from coord.stl import scenario_map
    from storage import StorageError

    try:
        ids = scenario_map(ledger.at(0)).get("ids")
    except (CoordError, StorageError, LookupError, ValueError):
        return OutsideIds()
    tables = [ids.get(what) if isinstance(ids, dict) else None for what in ("agents", "zones")]
    agents, zones = (tuple(t) if isinstance(t, list) and all(type(n) is int for n in t) else () for t in tables)
    return OutsideIds(agents, zones)


def tick_ns_of(ledger: "Ledger | PublishedLedger") -> int:
    """Nanoseconds of a tick as the run's scenario says; 1 where there is none that can be read."""
    from coord.errors import CoordError
    from coord.stl import scenario_map
    from storage import StorageError

    try:
        found = scenario_map(ledger.at(0)).get("tick_ns")
    except (CoordError, StorageError, LookupError, ValueError):
        return 1
    return found if type(found) is int and found > 0 else 1
