"""`droveway diff RUN RUN`."""

from contextlib import ExitStack
from pathlib import Path

import click

from droveway import exits
from droveway.main import command as declare
from droveway.main import place
from droveway.output import Output


@declare("diff")
@click.argument("left", metavar="RUN|URL", type=place)
@click.argument("right", metavar="RUN|URL", type=place)
def command(out: Output, left: Path | str, right: Path | str) -> int:
    """Find the first event in which two runs differ: its rank, kind and tick, the agent and the field.

    Of scenarios all differences are told, and after them the first other decision. Exit 0 when the runs hold the same
    events and both ledgers are whole, 1 when they differ, 3 when one is damaged. Of retired events only the ids are
    compared. Reads only.
    """
    from droveway.reading_run import opened_run
    from droveway.run_difference import compare

    with ExitStack() as stack:
        readers = [stack.enter_context(opened_run(out, path)) for path in (left, right)]
        found = compare(*readers)
    if found.first is None:
        out.result({"equal": True, "size": found.sizes[0], "root": found.roots[0]}, str(found))
        return exits.YES
    record = {
        "equal": False,
        **found.first.to_dict(),
        "sizes": found.sizes,
        "roots": found.roots,
        "common": {"size": found.common, "root": found.common_root},
        "scenario": [one.to_dict() for one in found.scenario],
        "decision": None if found.decision is None else found.decision.to_dict(),
    }
    out.result(record, str(found))
    return exits.NO
