"""`droveway repair RUN`."""

from pathlib import Path
from typing import Any

import click

from droveway import exits
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output
from droveway.rank_ranges import shown


@declare("repair")
@click.argument("run", metavar="RUN", type=PATH)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on without what can't be found: lower HEAD, and let a leaf hash stand for an event.",
)
@click.option(
    "--from",
    "sources",
    metavar="RUN",
    multiple=True,
    help="Another copy of the same history, or a URL where it is published, asked for events that are damaged or "
    "missing; may be given again.",
)
def command(out: Output, run: Path, accept_loss: bool, sources: tuple[str, ...]) -> int:
    """Put a damaged run right, and say exactly what is lost.

    What follows from the events is rebuilt byte for byte. A damaged event comes back from its own bytes, from another
    copy, or else as the leaf that keeps all proofs valid. The run as it was stays beside it, as RUN.damaged-N. Exit 0
    when the run is whole again, 1 when something is lost or could not be put right, 3 where RUN is no ledger.
    """
    from droveway.reading_run import reading_ledger
    from storage import StorageError, repair_ledger

    with reading_ledger(run):
        try:
            report = repair_ledger(run, accept_loss=accept_loss, sources=sources)
        except StorageError as error:
            if any(source and str(error).startswith(source) for source in sources):
                error.droveway_path = None  # type: ignore[attr-defined]  # about another copy, which the text names
            raise
    out.result(record(run, report), "\n".join(lines(report)))
    if report.ranks_lost and not report.evidence and not accept_loss:
        out.note("nothing was changed for what is lost: --from names another copy, --accept-loss goes on without it")
    return exits.YES if report.ok else exits.NO


def record(run: Path, report: Any) -> dict[str, object]:
    """The report as JSON."""
    return {
        "run": run,
        "ok": report.ok,
        "changed": report.changed,
        "size_before": report.size_before,
        "root_before": report.root_before,
        "head_seen": None if report.head_seen is None else report.head_seen.size,
        "size": report.size,
        "root": report.root,
        "ranks_lost": report.ranks_lost,
        "ranks_restored": report.ranks_restored,
        "ranks_without_payload": report.ranks_without_payload,
        "rebuilt": report.rebuilt,
        "bytes_dropped": report.bytes_dropped,
        "salvaged": report.salvaged,
        "evidence": report.evidence,
        "notes": report.notes,
        "problems": report.problems,
    }


def lines(report: Any) -> list[str]:
    """The report as people read it."""
    told = [*report.notes, *report.problems]
    if report.salvaged and report.evidence:
        told.append("salvaged: the files of the database were read one by one, without its engine")
    told += [f"restored: ranks {shown(ranks)} from {name}" for name, ranks in report.ranks_restored.items()]
    if report.ranks_without_payload:
        told.append(f"payload lost: ranks {shown(report.ranks_without_payload)}; their leaves and all proofs stay")
    if report.ranks_lost:
        told.append(f"LOST: ranks {shown(report.ranks_lost)}")
    if report.rebuilt:
        told.append("rebuilt: " + ", ".join(f"{count} of {name}" for name, count in report.rebuilt.items()))
    if report.bytes_dropped:
        told.append(f"dropped: {report.bytes_dropped} bytes that are no part of the ledger")
    if report.evidence is not None:
        told.append(f"as it was: {report.evidence}")
    if report.ok:
        answer = "whole again" if report.changed else "nothing to repair"
    else:
        answer = "REPAIRED IN PART" if report.evidence else "NOT REPAIRED"
    return [*told, f"{answer}: {report.size} events", f"root  {report.root.hex()}"]
