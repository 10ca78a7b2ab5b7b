"""`droveway prove RUN --rank N -o FILE`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from droveway import exits
from droveway.exits import UsageProblem, quoted
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.whole_file import require_another, require_place, whole_file

if TYPE_CHECKING:
    from storage import Ledger

RANK_MAX: Final = 2**64 - 2


@declare("prove")
@click.argument("run", metavar="RUN", type=PATH)
@click.option("--rank", metavar="N", type=WholeNumber(0, RANK_MAX), required=True, help="Of the event, from 0.")
@click.option("-o", "--output", "file", metavar="FILE", type=PATH, required=True, help="The proof, a text.")
@click.option(
    "--event", "event_file", metavar="FILE", type=PATH, help="Also write the event's bytes: a check needs them."
)
@click.option("--key", metavar="KEYFILE", type=PATH, help="Sign a new checkpoint; else the last one in RUN is used.")
def command(out: Output, run: Path, rank: int, file: Path, event_file: Path | None, key: Path | None) -> int:
    """Write the proof that the event at a rank is in RUN: its path to the root, and a signed checkpoint of that root.

    Whoever has the proof, the event's bytes and the log's verifier key can check it with `droveway check-proof`, or
    with the one file storage/verify.py, without RUN.
    """
    for place in (file, event_file):
        if place is not None:
            require_place(place)
            require_another(place, key)
    if event_file is not None and os.path.realpath(event_file) == os.path.realpath(file):
        raise UsageProblem(event_file, "--event: expected another file than that of the proof", "name two files")
    from droveway.keys_given import log_signer
    from droveway.reading_run import reading_ledger
    from storage import Ledger, TlogProof
    from storage.notes.checkpoint import decode

    with reading_ledger(run):
        if key is not None:
            signer = log_signer(key)
            with Ledger.open(run) as writable:
                _require_rank(run, rank, writable.head().size)
                writable.checkpoint(signer)
        with Ledger.open(run, mode="r") as ledger:
            _require_rank(run, rank, ledger.head().size)
            checkpoint, note = decode(_covering(run, ledger, rank))
            data = None if event_file is None else ledger.at(rank).encode()
            proof = TlogProof(rank, tuple(ledger.prove(rank, checkpoint.size)), note)
    with whole_file(file) as place:
        place.write_bytes(proof.encode())
    if event_file is not None and data is not None:
        with whole_file(event_file) as place:
            place.write_bytes(data)
    record = {
        "run": run, "rank": rank, "origin": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root,
        "hashes": len(proof.hashes), "signatures": len(note.signatures), "proof": file, "event": event_file,
    }  # fmt: skip
    rows = [
        ("rank", f"{rank} of {checkpoint.size} events"),
        ("log", checkpoint.origin),
        ("root", checkpoint.root.hex()),
        ("proof", f"{file}, {len(proof.hashes)} hashes"),
    ]
    if event_file is not None:
        rows.append(("event", str(event_file)))
    out.result(record, table(rows))
    return exits.YES


def _require_rank(run: Path, rank: int, size: int) -> None:
    if rank >= size:
        last = f"at most {size - 1}" if size else "a run with events"
        raise UsageProblem(run, f"--rank: expected {last}, got {rank}")


def _covering(run: Path, ledger: "Ledger", rank: int) -> bytes:
    """The newest kept checkpoint, which covers every rank below its size."""
    from storage.notes.checkpoint import decode

    kept = ledger.checkpoints()
    size = decode(kept[-1])[0].size if kept else 0
    if rank < size:
        return kept[-1]
    got = f"the newest checkpoint covers {size} events" if kept else "it holds no checkpoint"
    hint = f"droveway prove {quoted(run)} --rank {rank} -o FILE --key KEYFILE signs one (droveway keygen makes a key)"
    raise UsageProblem(run, f"expected a checkpoint that covers rank {rank}, got: {got}", hint)
