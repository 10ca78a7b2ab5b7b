"""Check offline that one event is in a droveway ledger. One file, to be read and copied: it needs no droveway.

    python verify.py PROOF --event FILE --key VKEY [--witness VKEY ... --quorum K]

FILE holds the event's bytes, PROOF a tlog-proof with a signed checkpoint (formats: c2sp.org/tlog-proof, signed-note,
tlog-checkpoint, tlog-cosignature; the event is a canonical msgpack map). VKEY is the log's verifier key; with
--witness at least K (else all) of these witnesses must have cosigned. Needs Python 3.11 and the packages blake3 and
cryptography. Exit code: 0 verified, 1 not verified, 2 usage, 3 a file that can't be read or PROOF is no proof file.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

EVENT_BYTES_MAX, PROOF_BYTES_MAX = 16 << 20, 196_608
HASHES_MAX, SIGNATURES_MAX, EXTRA_BYTES_MAX, NOTE_BYTES_MAX = 63, 16, 65_536, 65_536
CONTEXT = "droveway ledger event v1"


class NotVerified(Exception):
    """The answer is no, and why."""


class Malformed(NotVerified, ValueError, argparse.ArgumentTypeError):
    """What is given is no proof file or no verifier key."""


Key = tuple[str, bytes, int, bytes]  # name, id, type, public key; type 1: a log's, type 4: a witness's, with a time
Signatures = list[tuple[str, bytes, bytes]]  # name, key id, signature


class Verified(NamedTuple):
    """What was proved: the event of this id and length lies at `rank` of the log `origin` of this size and root."""

    id: bytes
    length: int
    rank: int
    origin: str
    size: int
    root: bytes
    witnesses: list[str]


# The tree (RFC 9162, sections 2.1.3.2 and 2.1.4.2).


def inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows the leaf hash `leaf` at `index` of the tree (size, root)."""
    if not 0 <= index < size or len(proof) > HASHES_MAX or set(map(len, (leaf, root, *proof))) != {32}:
        return False
    sha256, fn, sn, r = hashlib.sha256, index, size - 1, leaf
    for p in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = sha256(b"\1" + p + r).digest()
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = sha256(b"\1" + r + p).digest()
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


def consistency(m: int, n: int, root_m: bytes, root_n: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows the tree (m, root_m) a prefix of the tree (n, root_n); never for m = 0."""
    if not 0 < m <= n or len(proof) > HASHES_MAX or set(map(len, (root_m, root_n, *proof))) != {32}:
        return False
    if m == n or not proof:
        return m == n and not proof and root_m == root_n
    path = list(proof) if m & (m - 1) else [root_m, *proof]
    fn, sn = m - 1, n - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    a = b = path[0]
    for c in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            a, b = (hashlib.sha256(b"\1" + c + each).digest() for each in (a, b))
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            b = hashlib.sha256(b"\1" + b + c).digest()
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and a == root_m and b == root_n


# The event: a msgpack map of the keys a e k p q s t and perhaps w, every number and length in its shortest form.

_KINDS = (str, bytes, str, list, int, int, int, int)
_HEADS = {  # first byte: type, bytes of the number that follows, the least that needs so many (or first above those)
    0xD9: (str, 1, 32), 0xC4: (bytes, 1, 0), 0xC5: (bytes, 2, 1 << 8), 0xC6: (bytes, 4, 1 << 16),
    0xCC: (int, 1, 128), 0xCD: (int, 2, 1 << 8), 0xCE: (int, 4, 1 << 16), 0xCF: (int, 8, 1 << 32),
    0xD0: (int, 1, -32), 0xD1: (int, 2, -(1 << 7)), 0xD2: (int, 4, -(1 << 15)), 0xD3: (int, 8, -(1 << 31)),
}  # fmt: skip


def leaf_of(event: bytes) -> tuple[bytes, bytes]:
    """Id and leaf hash of event bytes. Raises NotVerified unless they are an event, canonically encoded."""
    from blake3 import blake3

    if len(event) > EVENT_BYTES_MAX:
        raise NotVerified(f"the event has more than {EVENT_BYTES_MAX} bytes")
    with suppress(IndexError, KeyError, ValueError):
        if _is_event(event):
            identity = blake3(event, derive_key_context=CONTEXT).digest()
            return identity, hashlib.sha256(b"\0\1" + identity + len(event).to_bytes(8, "big")).digest()
    raise NotVerified("the event bytes are no canonical event")


def _is_event(data: bytes) -> bool:
    at: int = 1
    fields: list[Any] = []
    for key, kind in zip("aekpqstw"[: data[0] & 15], _KINDS, strict=False):
        if data[at : at + 2] != b"\xa1" + key.encode():
            return False
        value, at = _item(data, at + 2)
        if type(value) is not kind:
            return False
        fields.append(value)
    producer, _, event_kind, parents, q, s, t, *w = fields
    texts = 1 <= len(producer.encode()) <= 64 and re.fullmatch("[a-z0-9._-]{1,64}", event_kind)
    numbers = min(q, s, t) >= 0 and s < 1 << 32 and all(wall < 1 << 63 for wall in w)
    ascending = all(a < b for a, b in pairwise(parents))
    return bool(data[0] == 0x87 + len(w) and at == len(data) and texts and numbers and ascending)


def _item(data: bytes, at: int) -> tuple[Any, int]:
    """A value and where it ends; arrays of 32-byte strings only. IndexError, KeyError, ValueError: there is none.

    A number that is cut off ends behind the data, which the caller sees.
    """
    head, at = data[at], at + 1
    if head < 0x80 or head >= 0xE0:
        return head - (256 if head >= 0xE0 else 0), at
    if head & 0xF0 == 0x90 or data[at - 1 : at + 2] == b"\xdc\0\x10":
        count, at = (16, at + 2) if head == 0xDC else (head & 15, at)
        starts = range(at, at + 34 * count, 34)
        if any(data[i : i + 2] != b"\xc4\x20" for i in starts) or at + 34 * count > len(data):
            raise ValueError
        return [data[i + 2 : i + 34] for i in starts], at + 34 * count
    kind, width, least = (str, 0, 0) if head & 0xE0 == 0xA0 else _HEADS[head]
    number = int.from_bytes(data[at : at + width], "big", signed=least < 0) if width else head & 31
    at += width
    if (number >= least if least < 0 else number < least) or (kind is not int and at + number > len(data)):
        raise ValueError
    if kind is int:
        return number, at
    return data[at : at + number].decode() if kind is str else data[at : at + number], at + number


# The texts.


def _base64(text: str, what: str, length: int | None = None) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if not data or base64.b64encode(data).decode() != text or len(data) != (length or len(data)):
        raise Malformed(f"{what}: expected canonical base64" + (f" of {length} bytes" if length else ""))
    return data


def _decimal(text: str, what: str) -> int:
    if re.fullmatch(r"0|[1-9][0-9]{0,19}", text) is None or int(text) >= 1 << 64:
        raise Malformed(f"{what}: expected a decimal below 2^64 without leading zeros")
    return int(text)


def parse_key(text: str) -> Key:
    """The verifier key of NAME+ID+BASE64. Raises Malformed, also where the id is not the key's."""
    parts = re.fullmatch(r"([^\s+]+)\+([0-9a-f]{8})\+(\S+)", text)
    data = _base64(parts[3], "verifier key", 33) if parts else b""
    key_id = hashlib.sha256(parts[1].encode() + b"\n" + data).digest()[:4] if parts else b""
    if parts is None or data[0] not in (1, 4) or key_id.hex() != parts[2]:
        raise Malformed("verifier key: expected NAME+ID+BASE64, of type 1 or 4, with the id of the key")
    return parts[1], key_id, data[0], data[1:]


def parse_proof(data: bytes) -> tuple[int, list[bytes], str]:
    """Index, hashes and note of a proof file. Raises Malformed."""
    if len(data) > PROOF_BYTES_MAX or re.search(rb"[\x00-\x09\x0b-\x1f]", data):
        raise Malformed(f"expected at most {PROOF_BYTES_MAX} bytes without control characters but newline")
    try:
        head, empty, note = data.decode().partition("\n\n")
    except UnicodeDecodeError:
        raise Malformed("expected UTF-8") from None
    lines = head.split("\n", HASHES_MAX + 4)
    if not empty or lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise Malformed("expected the line c2sp.org/tlog-proof@v1, the proof, an empty line and a checkpoint")
    if lines and lines[0].startswith("extra ") and len(_base64(lines.pop(0)[6:], "extra")) > EXTRA_BYTES_MAX:
        raise Malformed(f"extra: at most {EXTRA_BYTES_MAX} bytes")
    if not lines or not lines[0].startswith("index ") or len(lines) - 1 > HASHES_MAX:
        raise Malformed(f"expected 'index N' and at most {HASHES_MAX} hashes")
    return _decimal(lines[0][6:], "index"), [_base64(line, "a hash", 32) for line in lines[1:]], note


def parse_checkpoint(note: str) -> tuple[str, str, int, bytes, Signatures]:
    """Text, origin, size, root and signatures of a checkpoint's note. Raises Malformed."""
    at = note.rfind("\n\n")
    text, block = note[: at + 1], note[at + 2 :]
    if at < 0 or not block.endswith("\n") or block.count("\n") > SIGNATURES_MAX or len(note.encode()) > NOTE_BYTES_MAX:
        raise Malformed(f"expected a checkpoint with 1 to {SIGNATURES_MAX} signatures after its last empty line")
    signatures = []
    for line in block[:-1].split("\n"):
        parts = re.fullmatch(r"\u2014 ([^\s+]+) (\S+)", line)
        value = _base64(parts[2], "a signature") if parts else b""
        if parts is None or len(value) < 5:
            raise Malformed("expected signature lines '\u2014 NAME BASE64'")
        signatures.append((parts[1], value[:4], value[4:]))
    lines = text.split("\n")[:-1]
    if len(lines) < 3 or not all(lines):
        raise Malformed("expected a checkpoint of the lines origin, size and root, none of them empty")
    return text, lines[0], _decimal(lines[1], "size"), _base64(lines[2], "root", 32), signatures


def check(proof: bytes, event: bytes, log: Key, witnesses: Sequence[Key] = (), quorum: int | None = None) -> Verified:
    """What a proof file proves of an event's bytes. Raises NotVerified, and Malformed for no proof file or key."""
    others = set(witnesses)
    if log[2] != 1 or any(other[2] != 4 for other in others):
        raise Malformed("expected a log's key of type 1 and witnesses' keys of type 4")
    index, hashes, note = parse_proof(proof)
    text, origin, size, root, signatures = parse_checkpoint(note)
    identity, leaf = leaf_of(event)
    if not inclusion(index, size, leaf, hashes, root):
        raise NotVerified("the proof does not lead from the event to the root of the checkpoint")
    signed = {known for known in {log, *others} if _has_signed(known, text, signatures)}
    if log not in signed or origin != log[0]:
        raise NotVerified(f"the checkpoint is not one that {log[0]} ({log[1].hex()}) signed")
    present = {other[3]: other[0] for other in others & signed}  # by public key: a second name is no second witness
    needed = len({other[3] for other in others}) if quorum is None else quorum
    if len(present) < needed:
        raise NotVerified(f"{len(present)} witnesses cosigned, needed are {needed}")
    return Verified(identity, len(event), index, origin, size, root, sorted(present.values()))


def _has_signed(key: Key, text: str, signatures: Signatures) -> bool:
    """Whether there is a signature of the key. Raises NotVerified where one of its name and id fails."""
    found = [signature for name, key_id, signature in signatures if (name, key_id) == key[:2]]
    for signature in found:
        time, data = (b"", signature) if key[2] == 1 else (signature[:8], signature[8:])
        message = b"cosignature/v1\ntime %d\n" % int.from_bytes(time, "big") if time else b""
        if time >= b"\x80" or not _verifies(key[3], data, message + text.encode()):
            raise NotVerified(f"the signature of {key[0]} ({key[1].hex()}) fails")
    return bool(found)


def _verifies(public: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    with suppress(InvalidSignature, ValueError):
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("proof", metavar="PROOF", type=Path, help="the proof file")
    add("--event", metavar="FILE", type=Path, required=True, help="the bytes of the event")
    add("--key", metavar="VKEY", required=True, type=parse_key, help="the log's verifier key: the text, no file")
    add("--witness", metavar="VKEY", action="append", default=[], type=parse_key, help="of a witness; repeatable")
    add("--quorum", metavar="K", type=int, help="so many witnesses must have cosigned; default: all")
    given = parser.parse_args(arguments)
    if given.quorum is not None and not 1 <= given.quorum <= len(given.witness):
        parser.error("--quorum must be at least 1 and at most the number of --witness keys")
    try:
        with given.proof.open("rb") as proof, given.event.open("rb") as event:
            files = proof.read(PROOF_BYTES_MAX + 1), event.read(EVENT_BYTES_MAX + 1)
        found = check(*files, given.key, given.witness, given.quorum)
    except (OSError, Malformed) as error:
        print(f"error: {error if isinstance(error, OSError) else f'{given.proof}: {error}'}", file=sys.stderr)
        return 3
    except ModuleNotFoundError as error:
        parser.error(f"{error.msg}: pip install blake3 cryptography")
    except NotVerified as error:
        print(f"NOT VERIFIED: {error}")
        return 1
    print(f"verified: event {found.id.hex()} of {found.length} bytes is at rank {found.rank}")
    print(f"log {found.origin}: {found.size} events, root {found.root.hex()}")
    print(f"witnesses: {', '.join(found.witnesses) or 'none asked for'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
