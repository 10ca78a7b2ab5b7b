"""`droveway publish RUN URL`."""

from pathlib import Path
from typing import Literal

import click

from droveway import exits
from droveway.exits import UsageProblem, quoted
from droveway.keys_given import log_signer
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.progress import Progress


@declare("publish")
@click.argument("run", metavar="RUN", type=PATH)
@click.argument("url", metavar="URL")
@click.option(
    "--key", metavar="KEYFILE", type=PATH, help="Sign what the ledger holds now; else its last checkpoint is used."
)
@click.option("--every", is_flag=True, help="Look at every object again, and write those that are missing.")
def command(out: Output, run: Path, url: str, key: Path | None, every: bool) -> int:
    """Publish a run where anybody can verify and replay it: to a folder that a web server serves, or an object store.

    URL is a path, file:///FOLDER, or s3://BUCKET/PREFIX and others that obstore knows, with credentials from the
    environment. Only what is new is written, the checkpoint last: a publication that was cut short is finished by the
    next one. Without --key the last signed checkpoint is published, and what it covers, also beside a live writer.
    """
    if not url:
        raise UsageProblem(None, "URL: expected a path or a URL, got nothing")
    from droveway.reading_run import reading_ledger
    from storage import Ledger, SignatureError, StorageError
    from storage.opening import require_run

    with reading_ledger(run):
        require_run(run)
    signer = None if key is None else log_signer(key)
    mode: Literal["r", "rw"] = "r" if signer is None else "rw"
    with Progress("events", quiet=out.quiet) as progress, reading_ledger(run), Ledger.open(run, mode=mode) as ledger:
        try:
            report = ledger.publish(url, signer, every=every, progress=progress.update)
        except SignatureError as error:
            hint = f"droveway keygen -o KEYFILE, then droveway publish {quoted(run)} {quoted(url)} --key KEYFILE"
            raise UsageProblem(None, str(error), hint) from error
        except StorageError as error:
            if str(error).startswith(url) and url:  # about the place, which the text names, not about the run
                error.droveway_path = None  # type: ignore[attr-defined]
            raise
    newer = report.ledger_size - report.size
    if newer > 0:
        out.note(f"{run}: {newer} events are newer than its last checkpoint; --key signs and publishes them, too")
    record = {
        "run": run,
        "url": url,
        "origin": report.origin,
        "size": report.size,
        "root": report.root,
        "size_before": report.size_before,
        "ledger_size": report.ledger_size,
        "objects_written": report.objects_written,
        "bytes_written": report.bytes_written,
        "objects_there": report.objects_there,
        "objects_deleted": report.objects_deleted,
        "ranks_retired": report.ranks_retired,
    }
    rows = [
        ("published", f"{url}"),
        ("log", report.origin),
        ("events", f"{report.size}, {max(0, report.size - report.size_before)} of them new"),
        ("written", f"{report.objects_written} objects, {report.bytes_written} bytes"),
        ("root", report.root.hex()),
    ]
    out.result(record, table(rows))
    return exits.YES
