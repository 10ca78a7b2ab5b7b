"""What the ledger needs of a key-value engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

Entry = tuple[str, bytes, bytes | None]  # family, key, value; None deletes the key

KEY_BYTES_MAX = 511  # what LMDB takes; the longest key of a ledger has 71


class Store(Protocol):
    """Families of byte keys, in the order of their bytes, written in atomic batches.

    Keys have 1 to KEY_BYTES_MAX bytes, values 0 to 16 MiB + 32. Any thread may read while another writes; writes come
    from one thread at a time. Every method raises StorageError's family only:

    - IntegrityError where the engine finds its own bytes damaged;
    - StorageFullError, ReadOnlyError, LimitError (open files, memory) where the system refuses;
    - ClosedError after `close` and `abandon`, also from a scan that was begun before.
    """

    def get(self, family: str, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of several keys, in their order, each as `get`."""

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, ascending, from `start` up to but not including `stop`; writes meanwhile may show or not.

        Damage ends the scan with IntegrityError after everything before it was given out, never with a silent end.
        """

    def last_key(self, family: str) -> bytes | None:
        """The greatest key of a family, or None where it is empty."""

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Put and delete all entries or none, in this order: of two with the same key the later counts.

        Atomic also under a kill and a power cut. With `sync` it is on the disk on return, and all written before it.
        After an error it is not known whether the entries are there: nothing may be written until the store was opened
        again.
        """

    def sync(self) -> None:
        """Return after everything written is on the disk. After an error, as `write`."""

    def flush(self) -> None:
        """Move what is held in memory for speed into the engine's sorted files, and sync."""

    def compact(self) -> None:
        """Rewrite `log` so that overwritten and deleted values are in none of the store's files any more.

        Readers that opened the store before keep the files they opened.
        """

    def faults(self) -> list[tuple[str, str]]:
        """What is wrong in the engine's files beyond what reading keys shows: pairs of place and text.

        Meant for verification; it may take as long as reading everything.
        """

    def close(self) -> None:
        """Release the engine; a second call does nothing. Everything written is kept, synced or not."""

    def abandon(self) -> None:
        """Forget the engine without touching it: for a child process after fork."""
