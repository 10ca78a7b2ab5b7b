"""Checking the checkpoints that a ledger keeps: their form, the tree at their sizes, and with keys their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storage.engine.store import Store
from storage.errors import IntegrityError, NoteError, SignatureError, StorageError
from storage.notes import checkpoint as checkpoints
from storage.notes import checkpoint_store
from storage.notes.keys import VerifierKey, verified
from storage.tree import Head


@dataclass(frozen=True, slots=True)
class Kept:
    """A note and where it is kept: `meta/checkpoint/<size in hexadecimal>`, or the file `checkpoint`."""

    where: str
    size: int | None  # that of the key; None for the file
    note: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a kept checkpoint."""

    where: str
    expected: str
    got: str
    text: str


def read_file(run: Path) -> Kept | Fault | None:
    """The checkpoint file, read before the store is opened (a live writer moves the store first); None without one."""
    try:
        note = checkpoint_store.read_file(checkpoint_store.file_path(run))
    except (NoteError, IntegrityError) as error:
        return Fault("checkpoint", "a checkpoint", "another file", str(error))
    return None if note is None else Kept("checkpoint", None, note)


def in_store(store: Store) -> list[Kept]:
    """The checkpoints under `checkpoint/<size>`, ascending. Raises IntegrityError where they can't be read."""
    return [Kept(f"meta/checkpoint/{size:016x}", size, note) for size, note in checkpoint_store.stored(store)]


def check(kept: Kept, store: Store, head: Head, run: Path, keys: Sequence[VerifierKey]) -> Fault | int:
    """What is wrong with a kept checkpoint of the tree that has come to `head`; its size where nothing is.

    With keys: one of them must be that of its origin and have signed it.
    """
    place = f"{run}: {kept.where}"
    try:
        checkpoint, note = checkpoints.decode(kept.note)
    except NoteError as error:
        return Fault(kept.where, "a checkpoint", "another value", f"{place}: {error}")
    if kept.size not in (None, checkpoint.size):
        text = f"{place}: the checkpoint of {kept.size} events names {checkpoint.size}"
        return Fault(kept.where, f"size {kept.size}", str(checkpoint.size), text)
    try:
        wrong: StorageError | None = checkpoint_store.fault(store, head, checkpoint, place)
    except IntegrityError as error:
        wrong = error
    if wrong is not None:
        named = f"size {checkpoint.size}, root {checkpoint.root.hex()}"
        return Fault(kept.where, f"a head of the ledger, which has {head.size} events", named, str(wrong))
    if keys:
        try:
            verified(note, tuple(key for key in keys if key.name == checkpoint.origin))
        except SignatureError as failed:
            names = ", ".join(sorted({key.name for key in keys}))
            return Fault(kept.where, f"a signature of {names}", "none that holds", f"{place}: {failed}")
    return checkpoint.size
