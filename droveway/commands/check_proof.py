"""`droveway check-proof FILE --event FILE --key VKEY`."""

from pathlib import Path

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, reading
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table


@declare("check-proof")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("--event", "event_file", metavar="FILE", type=PATH, required=True, help="The event's bytes.")
@click.option("--key", metavar="VKEY", required=True, help="Verifier key of the log, as keygen printed it.")
@click.option("--witness", "witnesses", metavar="VKEY", multiple=True, help="Verifier key of a witness. Repeatable.")
@click.option("--quorum", metavar="K", type=WholeNumber(1, 16), help="So many of them must have cosigned; else all.")
def command(out: Output, file: Path, event_file: Path, key: str, witnesses: tuple[str, ...], quorum: int | None) -> int:
    """Check offline that the event is in the log whose key this is: 0 yes, 1 no, 3 where FILE is no proof.

    The event's bytes, its place in the tree, the root in the checkpoint, the log's signature and those of K witnesses.
    The same check without droveway: storage/verify.py, one file.
    """
    from droveway.keys_given import verifier_key
    from storage import verify

    log = verifier_key("--key", key)
    others = [verifier_key("--witness", text, witness=True) for text in witnesses]
    if quorum is not None and quorum > len(others):
        raise UsageProblem(None, f"--quorum: expected at most the {len(others)} witnesses that are named, got {quorum}")
    with reading(file), file.open("rb") as stream:
        proof = stream.read(verify.PROOF_BYTES_MAX + 1)
    with reading(event_file), event_file.open("rb") as stream:
        event = stream.read(verify.EVENT_BYTES_MAX + 1)
    keys = [verify.parse_key(str(each)) for each in (log, *others)]
    record: dict[str, object] = {"verified": False, "proof": file, "reason": None}
    record |= dict.fromkeys(("id", "bytes", "rank", "origin", "size", "root", "witnesses"))
    try:
        found = verify.check(proof, event, keys[0], keys[1:], quorum)
    except verify.Malformed as error:
        raise InputProblem(file, f"expected a proof file: {error}", "droveway prove writes one") from None
    except verify.NotVerified as error:
        record["reason"] = str(error)
        out.result(record, f"NOT VERIFIED: {error}")
        return exits.NO
    record |= {"verified": True, "id": found.id, "bytes": found.length, "rank": found.rank, "origin": found.origin}
    record |= {"size": found.size, "root": found.root, "witnesses": found.witnesses}
    rows = [
        ("verified", f"rank {found.rank} of {found.size} events"),
        ("log", found.origin),
        ("event", f"{found.length} bytes, id {found.id.hex()}"),
        ("root", found.root.hex()),
        ("witnesses", ", ".join(found.witnesses) or "none asked for"),
    ]
    out.result(record, table(rows))
    return exits.YES
