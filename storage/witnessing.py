"""Asking witnesses for cosignatures of a ledger's checkpoint, over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage
from typing import IO, TYPE_CHECKING, NoReturn

from storage.errors import NoteError, SignatureError, StorageError, WitnessError
from storage.notes.checkpoint import decode
from storage.notes.keys import Signer, VerifierKey, verified
from storage.notes.note import NOTE_BYTES_MAX, Note, Signature, decimal, plain_text, shown
from storage.witness import Request

if TYPE_CHECKING:
    from storage.ledger import Ledger

TIMEOUT_S = 10.0
ATTEMPTS = 3  # a witness that others ask meanwhile answers 409 more than once


@dataclass(frozen=True, slots=True)
class Cosigned:
    """A checkpoint with what witnesses added, and, by URL, why others did not."""

    note: bytes
    refusals: dict[str, StorageError] = field(default_factory=dict)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would come as a GET, somewhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> NoReturn:
        raise urllib.error.HTTPError(req.full_url, code, msg, headers, fp)


def ask(
    url: str, note: bytes, old_size: int, proof: list[bytes], *, timeout_s: float = TIMEOUT_S
) -> tuple[Signature, ...]:
    """The lines that the witness at `url` (its submission prefix) answers; none of them is verified here.

    Raises WitnessError: with `status` where it refused, and with `size`, what it has seen, where that is 409.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise WitnessError(f"{url}: expected the address of a witness, http:// or https://")
    body = Request(old_size, proof, Note.decode(note)).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/add-checkpoint", body, {"Content-Type": "text/plain"})
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout_s) as answer:
            data = answer.read(NOTE_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(url, error.code, error.read(200)) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise WitnessError(f"{url}: the witness can't be asked: {reason}") from error
    try:
        text = plain_text(data, NOTE_BYTES_MAX, "answer")
        if not text.endswith("\n"):
            raise NoteError(f"answer: expected lines, got {shown(text)}")
        return tuple(map(Signature.parse, text[:-1].split("\n", 16)))
    except NoteError as error:
        raise WitnessError(f"{url}: the witness answered no cosignature: {error}") from error


def _refused(url: str, status: int, body: bytes) -> WitnessError:
    text = body.decode(errors="replace")
    size = None
    if status == 409:
        try:
            size = decimal(text.removesuffix("\n"), "size")
        except NoteError:
            size = None
    what = f"it has seen {size} events" if size is not None else shown(text.strip())
    return WitnessError(f"{url}: the witness refused with {status}: {what}", status, size)


def cosign(ledger: Ledger, signer: Signer, witnesses: Mapping[str, VerifierKey]) -> Cosigned:
    """Sign the ledger's head and ask each witness (address → its key) to cosign it; what they add is kept.

    A witness that refuses, or can't be asked, ends nothing: it stands in `refusals`. Raises as `Ledger.checkpoint`.
    """
    note = ledger.checkpoint(signer)
    checkpoint, _ = decode(note)
    cosigned = Cosigned(note)
    for url, key in witnesses.items():
        try:
            signature = _cosignature(ledger, note, checkpoint.size, url, key)
        except (WitnessError, SignatureError) as error:
            cosigned.refusals[url] = error
        else:
            note = ledger.add_signatures(checkpoint.size, [signature])
    return Cosigned(note, cosigned.refusals)


def _cosignature(ledger: Ledger, note: bytes, size: int, url: str, key: VerifierKey) -> Signature:
    text = Note.decode(note).text
    old = _last_cosigned(ledger, key, size)
    for attempt in range(ATTEMPTS):
        try:
            lines = ask(url, note, old, ledger.consistency(old, size))
        except WitnessError as error:
            if error.size is None or error.size > size or attempt == ATTEMPTS - 1:
                raise
            old = error.size
            continue
        mine = tuple(line for line in lines if (line.name, line.key_id) == (key.name, key.id))
        verified(Note(text, mine), (key,))
        return mine[0]
    raise AssertionError("the last attempt returns or raises")


def _last_cosigned(ledger: Ledger, key: VerifierKey, size: int) -> int:
    """The largest kept size up to `size` with a line of the witness's, or 0: a guess, the witness knows better."""
    for data in reversed(ledger.checkpoints()):
        checkpoint, note = decode(data)
        if checkpoint.size <= size and any((s.name, s.key_id) == (key.name, key.id) for s in note.signatures):
            return checkpoint.size
    return 0
