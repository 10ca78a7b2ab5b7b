"""What the ledger needs of a key-value engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

Entry = tuple[str, bytes, bytes]  # family, key, value


class Store(Protocol):
    """Four families of sorted byte keys, written in atomic batches.

    Every method raises StorageError's family only: IntegrityError where the engine finds its own bytes damaged,
    StorageFullError, ReadOnlyError, ClosedError.
    """

    def get(self, family: str, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of several keys, each as `get`."""

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, ascending, from `start` up to but not including `stop`."""

    def last_key(self, family: str) -> bytes | None:
        """The greatest key of a family, or None where it is empty."""

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Put all entries or none; with `sync`, return after they are on the disk."""

    def sync(self) -> None:
        """Return after everything written is on the disk."""

    def compact(self) -> None:
        """Rewrite the files, so that nothing that was overwritten or deleted is left in them."""

    def close(self) -> None:
        """Release the engine; a second call does nothing."""

    def abandon(self) -> None:
        """Forget the engine without touching it: for a child process after fork."""
