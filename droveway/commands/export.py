"""`droveway export RUN|URL`."""

import sys
from pathlib import Path

import click

from droveway import exits
from droveway.exits import UsageProblem
from droveway.main import PATH, place
from droveway.main import command as declare
from droveway.output import Output, silence_stdout, writing_stdout
from droveway.progress import Progress
from droveway.whole_file import whole_file


@declare("export")
@click.argument("run", metavar="RUN|URL", type=place)
@click.option("--jsonl", metavar="F", type=PATH, help="JSON lines, one an event; - for stdout.")
@click.option("--mcap", metavar="F", type=PATH, help="An MCAP file, one channel a kind (extra robotics).")
def command(out: Output, run: Path | str, jsonl: Path | None, mcap: Path | None) -> int:
    """Write every event of a run, or of one that is published, as JSON lines or as an MCAP file.

    Each event is checked on the way. Events whose payload was removed are told as such.
    """
    target = jsonl if mcap is None else mcap
    if target is None or (jsonl is not None and mcap is not None):
        raise UsageProblem(None, "expected --jsonl F or --mcap F, one of them")
    from coord.stl import open_ledger
    from droveway.reading_run import reading_ledger, tick_ns_of
    from storage import StorageError
    from storage.replay.export_jsonl import write_jsonl

    with Progress("events", quiet=out.quiet) as progress, reading_ledger(run), open_ledger(run) as ledger:
        head = ledger.head()
        if jsonl == Path("-"):
            try:
                with writing_stdout():
                    write_jsonl(ledger, sys.stdout.buffer, progress.update)
                    sys.stdout.buffer.flush()
            except BrokenPipeError:
                silence_stdout()
            return exits.YES
        with whole_file(target) as beside:
            try:
                if jsonl is not None:
                    report = ledger.export(jsonl=beside, progress=progress.update)
                else:
                    report = ledger.export(mcap=beside, tick_ns=tick_ns_of(ledger), progress=progress.update)
            except StorageError as error:
                if isinstance(error.__cause__, OSError) and str(error).startswith(str(beside)):
                    raise error.__cause__ from error  # whole_file says it of the target
                raise
    record = {
        "run": run,
        "path": target,
        "format": "mcap" if jsonl is None else "jsonl",
        "events": report.events,
        "retired": report.retired,
        "bytes": report.size_bytes,
        "size": head.size,
        "root": head.root,
    }
    gone = f", {report.retired} of them without payload" if report.retired else ""
    out.result(record, f"{target}: {report.events} events{gone}, {report.size_bytes} bytes\nroot  {head.root.hex()}")
    return exits.YES
