"""`droveway diff RUN RUN`."""

from contextlib import ExitStack
from pathlib import Path

import click

from droveway import exits
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output


@declare("diff")
@click.argument("left", metavar="RUN", type=PATH)
@click.argument("right", metavar="RUN", type=PATH)
def command(out: Output, left: Path, right: Path) -> int:
    """Find the first event in which two runs differ: its rank, kind and tick, the agent and the field.

    Exit 0 when the runs hold the same events, 1 when they differ. Reads only.
    """
    from droveway.reading_run import opened_run
    from droveway.run_difference import first_difference

    with ExitStack() as stack:
        readers = [stack.enter_context(opened_run(out, path)) for path in (left, right)]
        found = first_difference(*readers)
        sizes = [reader.size for reader in readers]
        root = readers[0].root
    if found is None:
        out.result({"equal": True, "size": sizes[0], "root": root}, f"equal: {sizes[0]} events, root {root.hex()}")
        return exits.YES
    record = {
        "equal": False,
        "rank": found.rank,
        "kind": found.kind,
        "tick": found.tick,
        "row": found.row,
        "field": found.field,
        "expected": found.expected,
        "got": found.got,
        "sizes": sizes,
    }
    out.result(record, str(found))
    return exits.NO
