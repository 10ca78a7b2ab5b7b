"""A witness of c2sp.org/tlog-witness: cosigns what extends all that it has seen of a log, and nothing else.

Written in docs/formats/checkpoint.md. What it has seen is one file a log, replaced under a lock before it answers: two
threads or two processes over one folder never cosign two histories. A lost folder is a lost memory: then retire the
key.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from storage import regular_file, tree
from storage.errors import IntegrityError, NoteError, SignatureError
from storage.notes.checkpoint import Checkpoint
from storage.notes.checkpoint_store import write_file
from storage.notes.keys import COSIGNATURE, ED25519, Signer, VerifierKey, verified
from storage.notes.note import NOTE_BYTES_MAX, Note, canonical_base64, decimal, plain_text, shown
from storage.tree import EMPTY_ROOT, HASH_BYTES, PROOF_HASHES_MAX, Head

BODY_BYTES_MAX = NOTE_BYTES_MAX + 4096  # a note, 63 lines of proof, the size
PLAIN = "text/plain; charset=utf-8"
SIZE = "text/x.tlog.size"


class Answer(NamedTuple):
    """What a witness answers: a status of HTTP, a body, its type."""

    status: int
    body: bytes
    content_type: str = PLAIN


class Request(NamedTuple):
    """A request to cosign: the size that the witness has seen, the proof from there, the note."""

    old: int
    proof: list[bytes]
    note: Note

    def encode(self) -> bytes:
        """The body of the request."""
        lines = [f"old {self.old}", *(base64.b64encode(each).decode() for each in self.proof), ""]
        return "".join(f"{line}\n" for line in lines).encode() + self.note.encode()

    @classmethod
    def decode(cls, body: bytes) -> Request:
        """The request in a body. Raises NoteError."""
        text = plain_text(body, BODY_BYTES_MAX, "add-checkpoint")
        head, empty, note = text.partition("\n\n")
        lines = head.split("\n", PROOF_HASHES_MAX + 2)
        if not empty or not lines[0].startswith("old "):
            raise NoteError(f"add-checkpoint: expected 'old N', a proof, an empty line, a note, got {shown(lines[0])}")
        if len(lines) - 1 > PROOF_HASHES_MAX:
            raise NoteError(f"add-checkpoint: at most {PROOF_HASHES_MAX} hashes")
        old = decimal(lines[0].removeprefix("old "), "add-checkpoint: old")
        proof = [canonical_base64(line, "add-checkpoint: a hash", HASH_BYTES) for line in lines[1:]]
        return cls(old, proof, Note.decode(note.encode()))


class Witness:
    """A witness over a folder of its own, for the logs whose keys it is given.

    >>> import tempfile
    >>> from storage.notes.checkpoint import signed
    >>> log, key = Signer("a.example", bytes(32)), Signer("w.example", bytes(32), COSIGNATURE)
    >>> note = signed(Checkpoint("a.example", 0, EMPTY_ROOT), log)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Witness(folder, key, [log.verifier]).add_checkpoint(Request(0, [], note).encode()).status
    200
    """

    def __init__(
        self,
        state: str | os.PathLike[str],
        signer: Signer,
        logs: Sequence[VerifierKey],
        now: Callable[[], float] = time.time,
    ) -> None:
        if signer.type != COSIGNATURE:
            raise ValueError("Witness: expected a key of type 4 (hint: droveway keygen --witness)")
        if any(log.type != ED25519 for log in logs):
            raise ValueError("Witness: expected keys of logs, of type 1")
        self._folder = Path(state).absolute()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._signer = signer
        self._now = now
        self._logs: dict[str, tuple[VerifierKey, ...]] = {}
        for log in logs:
            self._logs[log.name] = (*self._logs.get(log.name, ()), log)

    def seen(self, origin: str) -> Head | None:
        """What this witness last cosigned of a log. Raises IntegrityError where its memory is damaged."""
        path = self._path(origin)
        try:
            data = regular_file.read(path, NOTE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        try:
            note = Note.decode(data)
            checkpoint = Checkpoint.parse(note.text)
            verified(note, (self._signer.verifier,))
        except (NoteError, SignatureError) as error:
            raise IntegrityError(f"{path}: the memory of {origin} is damaged: {error}", file=str(path)) from error
        if checkpoint.origin != origin:
            raise IntegrityError(f"{path}: the memory of {origin} is one of {checkpoint.origin}", file=str(path))
        return checkpoint.head()

    def add_checkpoint(self, body: bytes) -> Answer:
        """Answer one request. Raises IntegrityError and OSError, and cosigns nothing, where its memory fails it."""
        try:
            request = Request.decode(body)
            checkpoint = Checkpoint.parse(request.note.text)
        except NoteError as error:
            return _refusal(400, str(error))
        keys = self._logs.get(checkpoint.origin)
        if keys is None:
            return _refusal(404, f"no log {shown(checkpoint.origin)} is known here")
        try:
            verified(request.note, keys)
        except SignatureError as error:
            return _refusal(403, str(error))
        if request.old > checkpoint.size:
            return _refusal(400, f"old is {request.old}, above the size {checkpoint.size} of the checkpoint")
        with self._locked(checkpoint.origin):
            seen = self.seen(checkpoint.origin)
            size = 0 if seen is None else seen.size
            if request.old != size:
                return Answer(409, f"{size}\n".encode(), SIZE)
            fault = _fault(seen, checkpoint, request.proof)
            if fault is not None:
                return _refusal(422, fault)
            signature = self._signer.sign(request.note.text, time_s=int(self._now()))
            if seen != checkpoint.head():
                write_file(self._path(checkpoint.origin), Note(request.note.text, (signature,)).encode())
        return Answer(200, f"{signature.line()}\n".encode())

    def _path(self, origin: str) -> Path:
        return self._folder / hashlib.sha256(origin.encode()).hexdigest()

    @contextlib.contextmanager
    def _locked(self, origin: str) -> Iterator[None]:
        """One request of a log at a time, in this process and in others: each opens the lock file anew."""
        path = self._path(origin).with_suffix(".lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _refusal(status: int, text: str) -> Answer:
    return Answer(status, f"{text}\n".encode())


def _fault(seen: Head | None, checkpoint: Checkpoint, proof: list[bytes]) -> str | None:
    """Why a checkpoint does not extend what was seen, or None."""
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        return "the root of no events is another"
    if seen is None or seen.size == 0:
        return "the proof from no events is empty" if proof else None
    if seen.size == checkpoint.size and seen.root != checkpoint.root:
        return f"another root at size {seen.size} was seen before"
    if not tree.verify_consistency(seen.size, checkpoint.size, seen.root, checkpoint.root, proof):
        return f"the proof does not lead from size {seen.size} to {checkpoint.size}"
    return None
