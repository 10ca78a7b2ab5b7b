"""Keys on the command line: verifier keys as text, private keys as files."""

from pathlib import Path
from typing import TYPE_CHECKING

from droveway.exits import InputProblem, UsageProblem, reading

if TYPE_CHECKING:
    from storage import Signer, VerifierKey


def verifier_key(option: str, text: str, *, witness: bool = False) -> "VerifierKey":
    """The verifier key given with an option. UsageProblem where it is none, or one of the other kind."""
    from storage import NoteError, VerifierKey
    from storage.notes.keys import COSIGNATURE, ED25519

    try:
        key = VerifierKey.parse(text.strip())
    except NoteError as error:
        raise UsageProblem(None, f"{option}: {error}", "the line that droveway keygen printed") from None
    if key.type != (COSIGNATURE if witness else ED25519):
        wanted, got = ("a witness", "a log") if witness else ("a log", "a witness")
        raise UsageProblem(None, f"{option}: expected the key of {wanted}, got one of {got}")
    return key


def log_signer(path: Path) -> "Signer":
    """The log's private key in a file."""
    from storage import read_key
    from storage.notes.keys import ED25519

    with reading(path):
        signer = read_key(path)
    if signer.type != ED25519:
        raise InputProblem(path, "expected the key of a log, got one of a witness", "droveway keygen without --witness")
    return signer
