"""Opening a run to read it: errors name the folder, and what is wrong with its ledger is said before it is used."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from droveway.exits import reading
from droveway.output import Output

if TYPE_CHECKING:
    from coord.stl import RunReader


@contextlib.contextmanager
def opened_run(out: Output, path: Path) -> Iterator["RunReader"]:
    """The run at `path`, read-only. A damaged or shortened ledger is opened too, with a note on stderr."""
    from coord.stl import open_run

    with reading(path), open_run(path) as reader:
        for problem in reader.ledger.problems:
            out.note(f"{path}: {str(problem).removeprefix(f'{path}: ')}: droveway verify says more")
        yield reader
