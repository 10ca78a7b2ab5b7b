"""Where a ledger keeps its checkpoints: `checkpoint/<size>` in `meta`, and the last one in the file RUN/checkpoint.

Never two that contradict each other: what was signed is kept, and held against the tree before the next is signed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from storage import regular_file, replaced_file, state
from storage.engine.store import Store
from storage.errors import ForkError, IntegrityError, NoteError, RollbackError, StorageError
from storage.notes import checkpoint as checkpoints
from storage.notes.checkpoint import Checkpoint
from storage.notes.keys import Signer
from storage.notes.note import NOTE_BYTES_MAX, Note, Signature
from storage.tree import Head

PREFIX = b"checkpoint/"
LOST_PREFIX = b"lost-checkpoint/"  # of events that were given up: nothing more is signed in that name


def key(size: int) -> bytes:
    """Key of a checkpoint in `meta`."""
    return PREFIX + size.to_bytes(8, "big")


def file_path(run: Path) -> Path:
    """The checkpoint file of a RUN directory."""
    return run / "checkpoint"


def stored(store: Store) -> Iterator[tuple[int, bytes]]:
    """Size in the key and note of every stored checkpoint, ascending."""
    for name, value in store.scan("meta", PREFIX, PREFIX + b"\xff" * 9):
        if len(name) == len(PREFIX) + 8:
            yield int.from_bytes(name[len(PREFIX) :], "big"), value


def lost_key(size: int) -> bytes:
    """Key in `meta` of a checkpoint whose events were given up."""
    return LOST_PREFIX + size.to_bytes(8, "big")


def set_aside(store: Store, run: Path) -> None:
    """Keep the note of RUN/checkpoint as one whose events were given up, where it is a checkpoint."""
    with contextlib.suppress(NoteError, IntegrityError):
        data = read_file(file_path(run))
        if data is not None:
            store.write([("meta", lost_key(checkpoints.decode(data)[0].size), data)], sync=True)


def read_file(path: Path) -> bytes | None:
    """The note in a checkpoint file; None where there is none. Raises NoteError for a larger file, StorageError."""
    try:
        data = regular_file.read(path, NOTE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror}") from error
    if len(data) > NOTE_BYTES_MAX:
        raise NoteError(f"{path}: a checkpoint has at most {NOTE_BYTES_MAX} bytes")
    return data


def file_head(run: Path) -> Head | None:
    """What the checkpoint file names; None where there is none, or no checkpoint in it: verifying tells that.

    Read it before the store is opened: a live writer moves the store first, the file after it.
    """
    with contextlib.suppress(StorageError):
        data = read_file(file_path(run))
        if data is not None:
            return checkpoints.decode(data)[0].head()
    return None


def newest(store: Store, in_file: Head | None) -> Head | None:
    """The larger of two heads: that of the last stored checkpoint, and what the checkpoint file named."""
    found = in_file
    last = None
    for _, note in stored(store):
        last = note
    with contextlib.suppress(StorageError):
        if last is not None:
            head = checkpoints.decode(last)[0].head()
            found = head if found is None or head.size > found.size else found
    return found


def fault(store: Store, head: Head, checkpoint: Checkpoint, where: str) -> StorageError | None:
    """What is wrong with a checkpoint of a ledger that has come to `head`: RollbackError, ForkError, or None."""
    if checkpoint.size > head.size:
        return RollbackError(
            f"{where}: the checkpoint names {checkpoint.size} events, the ledger has {head.size}: "
            f"ranks {head.size}..{checkpoint.size - 1} are missing",
            checkpoint.size,
            head.size,
        )
    root = head.root if checkpoint.size == head.size else state.root_at(store, checkpoint.size)
    if root != checkpoint.root:
        return ForkError(
            f"{where}: the checkpoint of {checkpoint.size} events has the root {checkpoint.root.hex()}, the ledger "
            f"{root.hex()}"
        )
    return None


def require_consistent(store: Store, head: Head, origin: str, run: Path) -> None:
    """Raises ForkError or RollbackError unless the tree contains every checkpoint of `origin` that was ever kept here,
    also of events that were given up, and IntegrityError where one can't be read: signing on would then be a guess."""
    for _, note in store.scan("meta", LOST_PREFIX, LOST_PREFIX + b"\xff" * 9):
        lost, _ = checkpoints.decode(note)
        if lost.origin == origin:
            raise ForkError(
                f"{run}: {lost.size} events were signed as {origin!r}, and some were given up by a repair: "
                "sign with a key of another name"
            )
    kept = [(f"{run}: meta/checkpoint/{size}", data) for size, data in stored(store)]
    try:
        data = read_file(file_path(run))
        if data is not None:
            kept.append((str(file_path(run)), data))
    except NoteError as error:
        raise IntegrityError(str(error), file=str(file_path(run))) from error
    for where, data in kept:
        try:
            checkpoint, _ = checkpoints.decode(data)
        except NoteError as error:
            raise IntegrityError(f"{where}: {error}", file=where) from error
        if checkpoint.origin == origin:
            wrong = fault(store, head, checkpoint, where)
            if wrong is not None:
                raise wrong


def sign(store: Store, head: Head, signer: Signer, run: Path) -> bytes:
    """Sign `head`, which is on the disk, and keep the note; where one of this size is kept, it gets the signature.

    Raises ForkError where a kept checkpoint of this size has another root or origin. The caller has looked at the
    others by `require_consistent`.
    """
    checkpoint = Checkpoint(signer.name, head.size, head.root)
    note = checkpoints.signed(checkpoint, signer)
    before = store.get("meta", key(head.size))
    if before is not None:
        old = Note.decode(before)
        if old.text != note.text:
            origin = Checkpoint.parse(old.text).origin
            text = f"{run}: size {head.size} has a checkpoint of {origin!r} already, got a key of {signer.name!r}"
            raise ForkError(text)
        note = old.with_signatures(note.signatures)
    return keep(store, head.size, note, run)


def keep(store: Store, size: int, note: Note, run: Path) -> bytes:
    """Store a note under its size, and in the checkpoint file unless that names a larger one; on the disk on return."""
    data = note.encode()
    if store.get("meta", key(size)) != data:
        store.write([("meta", key(size), data)], sync=True)
    if size == max((kept for kept, _ in stored(store)), default=size):
        write_file(file_path(run), data)
    return data


def add_signatures(store: Store, size: int, more: tuple[Signature, ...], run: Path) -> bytes:
    """Add signatures to the stored checkpoint of a size. Raises KeyError where there is none."""
    data = store.get("meta", key(size))
    if data is None:
        raise KeyError(f"no checkpoint of {size} events is stored")
    return keep(store, size, Note.decode(data).with_signatures(more), run)


def write_file(path: Path, data: bytes) -> None:
    """Replace a checkpoint file at once. Raises StorageFullError, ReadOnlyError."""
    from storage.system_errors import mapped_os_error

    try:
        replaced_file.replace(path, data)
    except OSError as error:
        raise mapped_os_error(error, path) from error
