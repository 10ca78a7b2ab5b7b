"""`droveway retire RUN`."""

from pathlib import Path

import click

from droveway import exits
from droveway.exits import UsageProblem
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output
from droveway.rank_ranges import parsed, shown


@declare("retire")
@click.argument("run", metavar="RUN", type=PATH)
@click.option(
    "--ranks",
    metavar="A..B[,C]",
    required=True,
    help="Which events, by rank: 7, or 3..5 (both ends included), or several with commas.",
)
def command(out: Output, run: Path, ranks: str) -> int:
    """Remove the payloads of events for good, from the ledger and from its files.

    What proves the run stays: root, ids, checkpoints and every proof. Decisions that depended on a removed event can't
    be made again afterwards: verify then says "not replayable" for their ranks and stays at exit 0.
    """
    wanted = parsed(ranks, "--ranks")
    from droveway.reading_run import reading_ledger
    from storage import Ledger
    from storage.opening import require_run

    with reading_ledger(run):
        require_run(run)
        with Ledger.open(run) as ledger:
            head = ledger.head()
            last = max(last for _, last in wanted)
            if last >= head.size:
                raise UsageProblem(run, f"--ranks: expected ranks below {head.size}, got {last}")
            first = next(ledger.scan(0, 1, retired=True))[1] if wanted[0][0] == 0 else None
            asked = sum(last - first + 1 for first, last in wanted)
            done = ledger.retire(rank for first, last in wanted for rank in range(first, last + 1))
    record = {"run": run, "ranks": [list(pair) for pair in wanted], "retired": len(done), "before": asked - len(done)}
    record |= {"size": head.size, "root": head.root}
    text = f"retired: ranks {shown(wanted)}, {len(done)} payloads removed"
    if asked > len(done):
        text += f", {asked - len(done)} were gone before"
    out.result(record, f"{text}\nroot  {head.root.hex()}")
    if getattr(first, "kind", "") == "coord.scenario":
        out.note("rank 0 is the scenario of a run: info, replay and explain can't read the run without it")
    return exits.YES
