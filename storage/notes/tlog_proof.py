"""Proof files of c2sp.org/tlog-proof: index, inclusion proof and checkpoint of one event as a text.

Written in docs/formats/tlog-proof.md. The verifier for strangers is verify.py, which shares no code with this.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from storage.errors import NoteError
from storage.notes.checkpoint import Checkpoint
from storage.notes.note import NOTE_BYTES_MAX, Note, canonical_base64, decimal, plain_text, shown
from storage.tree import HASH_BYTES, PROOF_HASHES_MAX

FIRST_LINE = "c2sp.org/tlog-proof@v1"
EXTRA_BYTES_MAX = 1 << 16
PROOF_BYTES_MAX = NOTE_BYTES_MAX + 2 * EXTRA_BYTES_MAX


@dataclass(frozen=True, slots=True)
class TlogProof:
    """One event of a log: its index, the hashes from leaf to root, the checkpoint's note, extra bytes nobody signed."""

    index: int
    hashes: tuple[bytes, ...]
    note: Note
    extra: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the file. Raises NoteError for what no proof file can hold.

        >>> from storage.notes.checkpoint import Checkpoint, signed
        >>> from storage.notes.keys import Signer
        >>> note = signed(Checkpoint("a.example", 1, bytes(32)), Signer("a.example", bytes(32)))
        >>> TlogProof(0, (), note).encode().decode().splitlines()[:4]
        ['c2sp.org/tlog-proof@v1', 'index 0', '', 'a.example']
        """
        lines = [FIRST_LINE]
        if self.extra:
            lines.append(f"extra {base64.b64encode(self.extra).decode()}")
        lines.append(f"index {self.index}")
        lines += [base64.b64encode(each).decode() for each in self.hashes]
        data = "".join(f"{line}\n" for line in [*lines, ""]).encode() + self.note.encode()
        if TlogProof.decode(data) != self:
            raise NoteError("tlog-proof: these parts make no proof file")
        return data

    @classmethod
    def decode(cls, data: bytes) -> TlogProof:
        """The parts of a proof file; nothing is verified. Raises NoteError: see docs/formats/tlog-proof.md."""
        text = plain_text(data, PROOF_BYTES_MAX, "tlog-proof")
        head, empty, note = text.partition("\n\n")
        lines = head.split("\n", PROOF_HASHES_MAX + 4)
        if lines[0] != FIRST_LINE:
            raise NoteError(f"tlog-proof: line 1: expected {FIRST_LINE!r}, got {shown(lines[0])}")
        if not empty:
            raise NoteError("tlog-proof: expected an empty line before the checkpoint")
        at, extra = 1, b""
        if len(lines) > at and lines[at].startswith("extra "):
            extra = canonical_base64(lines[at].removeprefix("extra "), "tlog-proof: line 2: extra")
            at += 1
        if len(extra) > EXTRA_BYTES_MAX:
            raise NoteError(f"tlog-proof: line 2: extra: at most {EXTRA_BYTES_MAX} bytes, got {len(extra)}")
        if len(lines) <= at or not lines[at].startswith("index "):
            raise NoteError(f"tlog-proof: line {at + 1}: expected 'index N', got {shown(''.join(lines[at : at + 1]))}")
        index = decimal(lines[at].removeprefix("index "), f"tlog-proof: line {at + 1}: index")
        if len(lines) - at - 1 > PROOF_HASHES_MAX:
            raise NoteError(f"tlog-proof: at most {PROOF_HASHES_MAX} hashes")
        hashes = tuple(
            canonical_base64(line, f"tlog-proof: line {number}: a hash", HASH_BYTES)
            for number, line in enumerate(lines[at + 1 :], at + 2)
        )
        signed = Note.decode(note.encode())
        if index >= Checkpoint.parse(signed.text).size:
            raise NoteError(f"tlog-proof: index {index} is not below the size of the checkpoint")
        return cls(index, hashes, signed, extra)
