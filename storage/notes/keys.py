"""Ed25519 keys of logs and witnesses: signing, verifying, and the key file.

Written in docs/formats/key-file.md. `cryptography` is imported when a key is used.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path

from storage import regular_file, replaced_file
from storage.errors import KeyFileError, NoteError, SignatureError
from storage.notes import cosignature
from storage.notes.note import Note, Signature, canonical_base64, check_name, shown

ED25519 = 0x01
COSIGNATURE = 0x04  # Ed25519 with a time: a witness's
_TYPES = (ED25519, COSIGNATURE)
_PRIVATE = "PRIVATE+KEY+"
KEY_FILE_BYTES_MAX = 4096


def key_id(name: str, kind: int, public: bytes) -> bytes:
    """4 bytes: SHA256(name ‖ 0x0A ‖ type ‖ public key)[:4]."""
    import hashlib  # 1 MB that a ledger without keys never needs

    return hashlib.sha256(name.encode() + b"\n" + bytes((kind,)) + public).digest()[:4]


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key: name, type (1 for a log, 4 for a witness) and 32 bytes of Ed25519.

    >>> text = "droveway.example/ledger+ac2ad056+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
    >>> key = VerifierKey.parse(text)
    >>> key.name, key.type, key.id.hex(), str(key) == text
    ('droveway.example/ledger', 1, 'ac2ad056', True)
    """

    name: str
    type: int
    public: bytes

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """The key of `name+hex8+base64`. Raises NoteError, also where the id is not the key's."""
        name, kind, public = _parse_key(text, "verifier key")
        made = cls(name, kind, public)
        _check_id(text, made, "verifier key")
        return made

    @property
    def id(self) -> bytes:
        """4 bytes."""
        return key_id(self.name, self.type, self.public)

    def __str__(self) -> str:
        encoded = base64.b64encode(bytes((self.type,)) + self.public).decode()
        return f"{self.name}+{self.id.hex()}+{encoded}"

    def verifies(self, signature: Signature, text: str) -> bool:
        """Whether a signature of this key's name and id is one over `text`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        message, data = text.encode(), signature.data
        try:
            if self.type == COSIGNATURE:
                time_s, data = cosignature.unpack(data)
                message = cosignature.message(time_s, text)
            Ed25519PublicKey.from_public_bytes(self.public).verify(data, message)
        except (InvalidSignature, NoteError, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key: name, type and seed of 32 bytes, which is never shown.

    >>> signer = Signer("droveway.example/ledger", bytes(range(32)))
    >>> str(signer.verifier)
    'droveway.example/ledger+ac2ad056+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4'
    """

    name: str
    seed: bytes = field(repr=False)
    type: int = ED25519
    verifier: VerifierKey = field(init=False)

    def __post_init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        check_name(self.name)
        if self.type not in _TYPES or len(self.seed) != 32:
            raise ValueError(f"Signer: expected type 1 or 4 and a seed of 32 bytes, got {self.type}, {len(self.seed)}")
        public = Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()
        object.__setattr__(self, "verifier", VerifierKey(self.name, self.type, public))

    @classmethod
    def generate(cls, name: str | None = None, *, witness: bool = False) -> Signer:
        """A new key from the system's random numbers; without a name, one made of its public key.

        >>> Signer.generate("a.example", witness=True).type
        4
        """
        import hashlib

        seed, kind = os.urandom(32), COSIGNATURE if witness else ED25519
        if name is None:
            public = cls("unnamed", seed).verifier.public
            name = f"droveway/{'witness' if witness else 'log'}-{hashlib.sha256(public).hexdigest()[:16]}"
        return cls(name, seed, kind)

    def sign(self, text: str, *, time_s: int | None = None) -> Signature:
        """The signature over a text. A witness's key needs the time, in seconds since 1970; a log's takes none.

        >>> Signer("a.example", bytes(32)).sign("hi\\n").line()[:12]
        '— a.example '
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if (self.type == COSIGNATURE) != (time_s is not None):
            raise ValueError(f"Signer.sign: type {self.type} {'needs a' if time_s is None else 'takes no'} time_s")
        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        if time_s is None:
            return Signature(self.name, self.verifier.id, private.sign(text.encode()))
        data = cosignature.pack(time_s, private.sign(cosignature.message(time_s, text)))
        return Signature(self.name, self.verifier.id, data)

    def text(self) -> str:
        """The line of a key file, without its end: it is the secret."""
        encoded = base64.b64encode(bytes((self.type,)) + self.seed).decode()
        return f"{_PRIVATE}{self.name}+{self.verifier.id.hex()}+{encoded}"

    @classmethod
    def parse(cls, text: str) -> Signer:
        """The key of a key file's line. Raises NoteError; no error shows a part of the secret."""
        if not text.startswith(_PRIVATE):
            raise NoteError("key file: expected a line that begins with PRIVATE+KEY+")
        try:
            name, kind, seed = _parse_key(text.removeprefix(_PRIVATE), "key file")
        except NoteError as error:
            what = str(error).partition(", got ")[0]
            raise NoteError(what if what.startswith("key file") else f"key file: {what}") from None
        made = cls(name, seed, kind)
        _check_id(text.removeprefix(_PRIVATE), made.verifier, "key file")
        return made


def verified(note: Note, keys: tuple[VerifierKey, ...]) -> tuple[VerifierKey, ...]:
    """Those of the keys that signed the note, each once, in the order of `keys`.

    Signatures of other keys are ignored. Raises SignatureError where one of these keys' fails, or none of them signed.

    >>> signer = Signer("a.example", bytes(32))
    >>> note = Note("hi\\n", (signer.sign("hi\\n"),))
    >>> verified(note, (signer.verifier,)) == (signer.verifier,)
    True
    """
    known = {(key.name, key.id): key for key in keys}
    found = set()
    for signature in note.signatures:
        key = known.get((signature.name, signature.key_id))
        if key is None:
            continue
        if not key.verifies(signature, note.text):
            raise SignatureError(f"the signature of {key.name} ({key.id.hex()}) is not one over this text")
        found.add(key)
    if not found:
        names = ", ".join(f"{key.name} ({key.id.hex()})" for key in keys)
        got = ", ".join(f"{shown(one.name)[1:-1]} ({one.key_id.hex()})" for one in note.signatures)
        raise SignatureError(f"expected a signature of {names or 'a known key'}, got those of {got}")
    return tuple(key for key in keys if key in found)


def _parse_key(text: str, what: str) -> tuple[str, int, bytes]:
    name, _, rest = text.partition("+")
    identity, plus, encoded = rest.partition("+")
    if not plus or len(identity) != 8 or set(identity) - set("0123456789abcdef"):
        raise NoteError(f"{what}: expected NAME+8 hexadecimal digits+BASE64, got {shown(text)}")
    check_name(name)
    data = canonical_base64(encoded, what)
    if data[0] not in _TYPES:
        raise NoteError(f"{what}: expected a key of type 1 (Ed25519) or 4 (its cosignatures), got type {data[0]}")
    if len(data) != 33:
        raise NoteError(f"{what}: expected a type and 32 bytes, got {len(data)} bytes")
    return name, data[0], data[1:]


def _check_id(text: str, key: VerifierKey, what: str) -> None:
    named = text.split("+")[1]
    if key.id.hex() != named:
        raise NoteError(f"{what}: the id of the key of {key.name} is {key.id.hex()}, the text names {named}")


def write_key(path: str | os.PathLike[str], signer: Signer) -> None:
    """Write a new key file, mode 0600 whatever the umask, on the disk when this returns.

    Raises KeyFileError where the file exists, inside a RUN directory, which people copy and publish, and for a name so
    long that the file could not be read again.
    """
    place = Path(path)
    _refuse_inside_run(place)
    line = f"{signer.text()}\n".encode()
    if len(line) > KEY_FILE_BYTES_MAX:
        text = f"{place}: a key file has at most {KEY_FILE_BYTES_MAX} bytes, this one would have {len(line)}"
        raise KeyFileError(text, "choose a shorter name")
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise KeyFileError(f"{place}: exists already; a key is never written over", "choose another file") from None
    try:
        try:
            os.fchmod(descriptor, 0o600)
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        replaced_file.sync(place.parent)
    except BaseException:
        place.unlink(missing_ok=True)
        raise


def read_key(path: str | os.PathLike[str]) -> Signer:
    """The key of a file that only its owner can read. Raises KeyFileError, OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_key(folder + "/log.key", Signer("a.example", bytes(32)))
    ...     read_key(folder + "/log.key").name
    'a.example'
    """
    place = Path(path)
    _refuse_inside_run(place)
    with os.fdopen(regular_file.open_to_read(place), "rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        if mode & 0o077:
            text = f"{place}: expected a key that only its owner can read, got mode {mode:04o}"
            raise KeyFileError(text, f"chmod 600 {shlex.quote(str(place))}")
        data = stream.read(KEY_FILE_BYTES_MAX + 1)
    try:
        line = data.decode()
        if len(data) > KEY_FILE_BYTES_MAX or not line.endswith("\n") or line.count("\n") != 1:
            raise NoteError("key file: expected one line that ends in a newline")
        return Signer.parse(line[:-1])
    except UnicodeDecodeError:
        raise KeyFileError(f"{place}: key file: expected one line of UTF-8") from None
    except NoteError as error:
        raise KeyFileError(f"{place}: {error}") from None


def _refuse_inside_run(place: Path) -> None:
    for folder in place.resolve().parents:
        if (folder / "ledger").is_dir() and (folder / "HEAD").exists():
            raise KeyFileError(f"{place}: a key never lies inside a run ({folder})", "move it to a folder of its own")
