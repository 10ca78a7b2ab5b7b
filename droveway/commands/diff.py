"""`droveway diff RUN RUN`."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from droveway import exits
from droveway.main import WholeNumber, place
from droveway.main import command as declare
from droveway.output import Output

if TYPE_CHECKING:
    from coord.auditing.difference import Drift

ROWS_MAX = 10_000


@declare("diff")
@click.argument("left", metavar="RUN|URL", type=place)
@click.argument("right", metavar="RUN|URL", type=place)
@click.option(
    "--rows", metavar="N", type=WholeNumber(0, ROWS_MAX), default=10, help="Rows of the table of drift; 0: none."
)
def command(out: Output, left: Path | str, right: Path | str, rows: int) -> int:
    """Find the first event in which two runs differ: its rank, kind and tick, the agent and the field.

    Of scenarios all differences are told, and after them the first other decision. Exit 0 when the runs hold the same
    events and both ledgers are whole, 1 when they differ, 3 when one is damaged. Of retired events only the ids are
    compared. Reads only.

    Then, over the ticks that both planned: how far the same agents stand from themselves, how many have another zone,
    the objectives (score_sum) and the services so far, of the first run and by how much the second differs.
    """
    from coord.auditing.difference import drift
    from coord.errors import CoordError
    from droveway.drift_text import drift_text
    from droveway.reading_run import opened_run
    from droveway.run_difference import compare

    with ExitStack() as stack:
        readers = [stack.enter_context(opened_run(out, path)) for path in (left, right)]
        found = compare(*readers)
        drifted, told = None, ""
        if found.first is not None:
            try:
                drifted = drift(*readers, rows=rows)
                told = drift_text(drifted)
            except CoordError as error:  # a decision that is none, in a ledger that is whole
                told = f"the fleets can't be followed: {error}"
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
        "drift": None if drifted is None else drift_record(drifted),
    }
    out.result(record, f"{found}\n\n{told}")
    return exits.NO


def drift_record(found: "Drift") -> dict[str, Any]:
    """Plain values, the rows as objects."""
    plain = {name: getattr(found, name) for name in found.__dataclass_fields__}
    first = None if found.first is None else found.first._asdict()
    return plain | {"first": first, "rows": [row._asdict() for row in found.rows]}
