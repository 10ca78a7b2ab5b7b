"""What storage raises.

StorageError
├── CanonicalError        bytes that are not canonical msgpack: .offset          (also a ValueError)
├── EventError            fields or bytes that are no event v1                   (also a ValueError)
│   └── EventTooLargeError   above 16 MiB, refused before it is hashed
├── EquivocationError     a producer's sequence number used again for another event
├── IntegrityError        damage: .ranks that can't be trusted, .file where it lies
├── RetiredError          an event whose payload was removed by `retire`: .ranks
├── RollbackError         fewer events than were seen before: .size_seen, .size_now
├── ForkError             the same size with another root
├── NotALedgerError       the path holds no ledger
├── LockedError           another writer has it open: .pid
├── ReadOnlyError         append to a ledger, or open for writing a directory, that can't be written
├── StorageFullError      no space left, quota or file size limit
├── NoteError             bytes that are no note, checkpoint, proof or key        (also a ValueError)
├── SignatureError        a signature fails, or there is none of a known key
├── WitnessError          a witness refused or could not be asked: .status, .size
├── KeyFileError          a key file that others can read, that exists already, or holds no key: .hint
├── SyncError             the disk did not confirm what was written; never asked again until the next open
├── LimitError            the system gives no more open files or memory
├── ClosedError           use after close, or in a process forked after open
├── ObjectStoreError      a place of published objects can't be reached, or refuses
├── PublishConflict       something else is published there, or was meanwhile
└── MissingExtraError     a package of an extra is not installed: .hint says how to get it
"""

from __future__ import annotations

from collections.abc import Sequence


class StorageError(Exception):
    """Root of everything that storage raises about the state of the world (not about argument types).

    `hint` says what to do about it, where there is something to do.
    """

    hint: str = ""


class CanonicalError(StorageError, ValueError):
    """Bytes that are not canonical msgpack, or a value that has no such bytes.

    `offset` is the position of the first wrong byte; None when a Python value could not be encoded.
    """

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"canonical msgpack: byte {offset}: {message}")
        self.offset = offset


class EventError(StorageError, ValueError):
    """A field of an event outside its range, or bytes that decode to no event."""


class EventTooLargeError(EventError):
    """An event above `EVENT_BYTES_MAX`: refused before it is hashed."""


class EquivocationError(StorageError):
    """A producer used a sequence number at or below its cursor for an event that the ledger does not hold."""


class IntegrityError(StorageError):
    """Stored bytes that can't be what was written.

    `ranks` are the events that can't be trusted (empty when it isn't known which), `file` the file or the
    family/key where the damage lies, or None.
    """

    def __init__(self, message: str, ranks: Sequence[int] = (), file: str | None = None) -> None:
        super().__init__(message)
        self.ranks = ranks
        self.file = file


class RetiredError(StorageError):
    """Events whose payload was removed on purpose: `ranks`. Their leaves, and every proof, stay."""

    def __init__(self, message: str, ranks: Sequence[int]) -> None:
        super().__init__(message)
        self.ranks = ranks


class RollbackError(StorageError):
    """The ledger holds fewer events than HEAD, or the caller, has seen: `size_seen`, `size_now`."""

    def __init__(self, message: str, size_seen: int, size_now: int) -> None:
        super().__init__(message)
        self.size_seen = size_seen
        self.size_now = size_now


class ForkError(StorageError):
    """Two histories: the same size with different roots."""


class NotALedgerError(StorageError):
    """The path holds no ledger."""


class LockedError(StorageError):
    """Another writer holds the ledger; `pid` is its process, or None where the system does not say."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class ReadOnlyError(StorageError):
    """The ledger was opened with mode "r", or its directory can't be written."""


class StorageFullError(StorageError):
    """No space left on the device, a quota or a file size limit reached. Nothing confirmed is lost."""


class NoteError(StorageError, ValueError):
    """Bytes that are no signed note, checkpoint, proof file or key."""


class SignatureError(StorageError):
    """A signature of a known key fails, or no known key signed."""


class WitnessError(StorageError):
    """A witness refused a checkpoint (`status` of HTTP; `size` that it has seen, with 409), or could not be asked."""

    def __init__(self, message: str, status: int | None = None, size: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.size = size


class KeyFileError(StorageError):
    """A key file that others can read, that lies where it must not, that exists already, or holds no key."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class SyncError(StorageError):
    """A sync failed: what was written since the last one may not be on the disk. The next open finds out what is."""


class LimitError(StorageError):
    """The system gives no more open files or memory to this process. Nothing is said about the ledger."""


class ClosedError(StorageError):
    """The ledger was closed, or this process was forked after it was opened."""


class ObjectStoreError(StorageError):
    """A place of published objects can't be reached, or refuses. Nothing is said about what it holds."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class PublishConflict(StorageError):
    """Another log is published there, or another publication came first. Nothing that was there is changed."""


class MissingExtraError(StorageError):
    """A package of an extra is not installed; `hint` is the command that installs it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
