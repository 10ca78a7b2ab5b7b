"""Checkpoints of c2sp.org/tlog-checkpoint: a signed note that says what size and root a log has come to.

Written in docs/formats/checkpoint.md. No input or output: where a ledger keeps them is in checkpoint_store.py.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from storage.errors import NoteError, SignatureError
from storage.notes.keys import Signer, VerifierKey, verified
from storage.notes.note import Note, canonical_base64, decimal, plain_text, shown
from storage.tree import EMPTY_ROOT, HASH_BYTES, Head


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Origin, size and root (32 bytes) of a log, and extension lines, which mean nothing to us and are never written.

    >>> print(Checkpoint("a.example", 0, EMPTY_ROOT).text(), end="")
    a.example
    0
    47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def head(self) -> Head:
        """Size and root."""
        return Head(self.size, self.root)

    def text(self) -> str:
        """The text of the note: its lines, each ended by a newline. Raises NoteError for what no checkpoint can say."""
        lines = (self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions)
        text = "".join(f"{line}\n" for line in lines)
        if Checkpoint.parse(text) != self:
            raise NoteError(f"checkpoint: an origin and extensions are lines, got {shown(text)}")
        return text

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """The checkpoint in the text of a note. Raises NoteError.

        >>> Checkpoint.parse(Checkpoint("a.example", 0, EMPTY_ROOT).text()).size
        0
        """
        plain_text(text.encode(), len(text.encode()), "checkpoint")
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() != "":
            raise NoteError(f"checkpoint: expected the lines origin, size and root, got {shown(text)}")
        if not all(lines):
            raise NoteError(f"checkpoint: line {lines.index('') + 1} must not be empty")
        size = decimal(lines[1], "checkpoint: line 2: size")
        root = canonical_base64(lines[2], "checkpoint: line 3: root", HASH_BYTES)
        return cls(lines[0], size, root, tuple(lines[3:]))


def signed(checkpoint: Checkpoint, signer: Signer) -> Note:
    """The note of a checkpoint with one signature of the log, whose name is the origin.

    Nothing here knows what was signed before: `Ledger.checkpoint` does.

    >>> signer = Signer("a.example", bytes(32))
    >>> signed(Checkpoint("a.example", 0, EMPTY_ROOT), signer).signatures[0].name
    'a.example'
    """
    if signer.name != checkpoint.origin:
        raise ValueError(f"checkpoint: the origin is the key's name {signer.name!r}, got {checkpoint.origin!r}")
    text = checkpoint.text()
    return Note(text, (signer.sign(text),))


def decode(data: bytes) -> tuple[Checkpoint, Note]:
    """The checkpoint in a signed note, and the note; no signature is verified. Raises NoteError.

    >>> note = signed(Checkpoint("a.example", 0, EMPTY_ROOT), Signer("a.example", bytes(32)))
    >>> decode(note.encode())[0].origin
    'a.example'
    """
    note = Note.decode(data)
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise NoteError(f"checkpoint: the root of no events is {EMPTY_ROOT.hex()}, got {checkpoint.root.hex()}")
    return checkpoint, note


def opened(
    data: bytes, log: VerifierKey, witnesses: tuple[VerifierKey, ...] = (), quorum: int | None = None
) -> tuple[Checkpoint, tuple[VerifierKey, ...]]:
    """The checkpoint in a note that the log signed and at least `quorum` (all, when None) of the witnesses; and which.

    Raises NoteError, and SignatureError for a log that did not sign, another origin than the log's name, a signature of
    any of these keys that fails, and too few witnesses.

    >>> signer = Signer("a.example", bytes(32))
    >>> note = signed(Checkpoint("a.example", 0, EMPTY_ROOT), signer)
    >>> opened(note.encode(), signer.verifier)[0].size
    0
    """
    checkpoint, note = decode(data)
    found = verified(note, (log, *witnesses))
    if log not in found:
        raise SignatureError(f"expected a signature of the log {log.name} ({log.id.hex()}), got witnesses' only")
    if checkpoint.origin != log.name:
        raise SignatureError(f"expected a checkpoint of {log.name}, got one of {shown(checkpoint.origin)}")
    needed = len(witnesses) if quorum is None else quorum
    present = found[1:]
    if len(present) < needed:
        raise SignatureError(f"expected cosignatures of {needed} witnesses, got {len(present)} of {len(witnesses)}")
    return checkpoint, present
