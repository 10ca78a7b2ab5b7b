"""Signed notes of c2sp.org/signed-note: a text, an empty line, one line a signature. No keys, no input or output.

Written in docs/formats/signed-note.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from storage.errors import NoteError

SIGNATURES_MAX = 16
NOTE_BYTES_MAX = 1 << 16  # holds 16 signatures of the longest kind in use, ML-DSA-44
DASH = "\u2014 "
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class Signature:
    """One line: the key's name, its id (4 bytes), and what the key made of the text (1 byte or more)."""

    name: str
    key_id: bytes
    data: bytes

    def line(self) -> str:
        """The line without its end.

        >>> Signature("a.example", b"\\0\\0\\0\\1", b"\\xff").line()
        '— a.example AAAAAf8='
        """
        return f"{DASH}{self.name} {base64.b64encode(self.key_id + self.data).decode()}"

    @classmethod
    def parse(cls, line: str) -> Signature:
        """The signature of a line without its end. Raises NoteError."""
        name, space, encoded = line.removeprefix(DASH).partition(" ")
        if not line.startswith(DASH) or not space:
            raise NoteError(f"note: expected a line '— NAME BASE64', got {shown(line)}")
        check_name(name)
        data = canonical_base64(encoded, "note: a signature")
        if len(data) < 5:
            raise NoteError(f"note: a signature has an id of 4 bytes and more, got {len(data)} bytes")
        return cls(name, data[:4], data[4:])


@dataclass(frozen=True, slots=True)
class Note:
    """A text that ends in a newline, and 1..16 signatures, none of them verified."""

    text: str
    signatures: tuple[Signature, ...]

    def encode(self) -> bytes:
        """The bytes of the note. Raises NoteError for a text or signatures that no note can have.

        >>> Note("hi\\n", (Signature("a.example", bytes(4), b"\\xff"),)).encode().decode().splitlines()
        ['hi', '', '— a.example AAAAAP8=']
        """
        data = "".join([self.text, "\n", *(f"{signature.line()}\n" for signature in self.signatures)]).encode()
        if Note.decode(data) != self:
            raise NoteError(f"note: the text must end in a newline, got {shown(self.text[-40:])}")
        return data

    @classmethod
    def decode(cls, data: bytes) -> Note:
        """The note of bytes. Raises NoteError for what docs/formats/signed-note.md lists.

        >>> Note.decode("hi\\n\\n— a.example AAAAAP8=\\n".encode()).text
        'hi\\n'
        """
        whole = plain_text(data, NOTE_BYTES_MAX, "note")
        at = whole.rfind("\n\n")
        if at < 0:
            raise NoteError("note: expected a text, an empty line and signatures, got no empty line")
        text, block = whole[: at + 1], whole[at + 2 :]
        if not block.endswith("\n"):
            raise NoteError("note: expected signature lines that end in a newline after the last empty line")
        count = block.count("\n")
        if count > SIGNATURES_MAX:
            raise NoteError(f"note: at most {SIGNATURES_MAX} signatures, got {count}")
        return cls(text, tuple(map(Signature.parse, block[:-1].split("\n"))))

    def with_signatures(self, more: tuple[Signature, ...]) -> Note:
        """The note with those of the further signatures that it does not have yet, after its own.

        A further one replaces an own one of the same name and id.
        """
        named = {(signature.name, signature.key_id): signature for signature in (*self.signatures, *more)}
        return Note(self.text, tuple(named.values()))


def plain_text(data: bytes, bytes_max: int, what: str) -> str:
    """Bytes as text. Raises NoteError for too many, for what is no UTF-8, and for control characters but newline."""
    if len(data) > bytes_max:
        raise NoteError(f"{what}: at most {bytes_max} bytes, got {len(data)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NoteError(f"{what}: byte {error.start}: expected UTF-8, got {data[error.start]:#04x}") from None
    found = _CONTROL.search(data)
    if found is not None:
        at, byte = found.start(), found[0][0]
        raise NoteError(f"{what}: byte {at}: expected no control character but newline, got {byte:#04x}")
    return text


def check_name(name: str) -> None:
    """Raises NoteError unless a key can have this name: not empty, no Unicode space, no '+', no control character.

    >>> check_name("droveway.example/ledger")
    """
    if not name:
        raise NoteError("note: the name of a key must not be empty")
    if any(c.isspace() or c == "+" or c < " " for c in name):
        raise NoteError(f"note: the name of a key has no spaces and no '+', got {shown(name)}")


def canonical_base64(text: str, what: str, length: int | None = None) -> bytes:
    """The bytes of standard base64 in the one form that encoding gives. Raises NoteError, also for another length.

    >>> canonical_base64("AAE=", "x")
    b'\\x00\\x01'
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or base64.b64encode(data).decode() != text:
        raise NoteError(f"{what}: expected padded base64, got {shown(text)}")
    if length is not None and len(data) != length:
        raise NoteError(f"{what}: expected {length} bytes, got {len(data)}")
    return data


def decimal(text: str, what: str) -> int:
    """A whole number below 2^64 in its one decimal form. Raises NoteError.

    >>> decimal("10", "size")
    10
    """
    good = text.isascii() and text.isdigit() and len(text) <= 20 and (text == "0" or text[0] != "0")
    if not good or int(text) >= 1 << 64:
        raise NoteError(f"{what}: expected a decimal below 2^64 without leading zeros, got {shown(text)}")
    return int(text)


def shown(text: str) -> str:
    """Text from a stranger as an error may show it: quoted, escaped, not long."""
    return ascii(text if len(text) <= 40 else text[:40] + "…")
