"""`droveway keygen -o KEYFILE`."""

from pathlib import Path

import click

from droveway import exits
from droveway.exits import UsageProblem, writing
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output
from droveway.whole_file import require_place


@declare("keygen")
@click.option("-o", "--output", "file", metavar="KEYFILE", type=PATH, required=True, help="A new file.")
@click.option("--name", metavar="NAME", help="Of the log, such as example.org/fleet; without it one made of the key.")
@click.option("--witness", is_flag=True, help="A key for a witness: it cosigns checkpoints of logs.")
def command(out: Output, file: Path, name: str | None, witness: bool) -> int:
    """Make an Ed25519 key: the private one into KEYFILE, which only its owner can read, the verifier key on stdout.

    Who has KEYFILE can sign in your name. Keep it outside of runs, and give the verifier key to everyone.
    """
    from storage import KeyFileError, NoteError, Signer, write_key

    try:
        signer = Signer.generate(name, witness=witness)
    except NoteError as error:
        raise UsageProblem(None, f"--name: {error}") from None
    if file.parent != Path():
        require_place(file)
    try:
        with writing(file):
            write_key(file, signer)
    except KeyFileError as error:
        raise UsageProblem(None, str(error), error.hint) from None
    kind = "witness" if witness else "log"
    record = {"key": file, "name": signer.name, "kind": kind, "verifier": str(signer.verifier)}
    out.result(record, str(signer.verifier))
    return exits.YES
