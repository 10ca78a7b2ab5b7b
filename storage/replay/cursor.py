"""Cursors: how far a reader has come, and what it has read. The text form stands in docs/formats/cursor.md."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from storage import hashing, regular_file, replaced_file
from storage.errors import ForkError, IntegrityError, RollbackError, StorageError
from storage.reader import Reader, name_of
from storage.system_errors import mapped_os_error
from storage.tree import EMPTY_ROOT, HASH_BYTES, Head, frontier_root, verify_consistency

FILE_BYTES_MAX = 256
_TAG = "droveway-cursor/1"
_LINE = re.compile(rf"({re.escape(_TAG)} (0|[1-9][0-9]{{0,19}}) ([0-9a-f]{{64}})) ([0-9a-f]{{8}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The next rank to read, and the root of the events before it.

    >>> print(Cursor())
    droveway-cursor/1 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 9b55004d
    >>> Cursor.parse(str(Cursor())) == Cursor()
    True
    """

    rank: int = 0
    root: bytes = EMPTY_ROOT

    def __post_init__(self) -> None:
        if type(self.rank) is not int or not 0 <= self.rank < 1 << 64:
            raise ValueError(f"Cursor: rank must be a whole number in [0, 2**64), got {self.rank!r}")
        if type(self.root) is not bytes or len(self.root) != HASH_BYTES:
            raise ValueError(f"Cursor: root must be {HASH_BYTES} bytes, got {self.root!r}")
        if self.rank == 0 and self.root != EMPTY_ROOT:
            raise ValueError(f"Cursor: rank 0 has the root {EMPTY_ROOT.hex()}, got {self.root.hex()}")

    def __str__(self) -> str:
        text = f"{_TAG} {self.rank} {self.root.hex()}"
        return f"{text} {hashing.crc32c(text.encode()):08x}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor of its text form. Raises ValueError saying what is wrong."""
        found = _LINE.fullmatch(text)
        if found is None:
            raise ValueError(f"Cursor.parse: expected '{_TAG} RANK ROOT CHECKSUM', got {text[:160]!r}")
        line, rank, root, checksum = found.groups()
        expected = hashing.crc32c(line.encode())
        if int(checksum, 16) != expected:
            raise ValueError(f"Cursor.parse: the checksum must be {expected:08x}, got {checksum}")
        return cls(int(rank), bytes.fromhex(root))


def cursor_at(reader: Reader, rank: int) -> Cursor:
    """The cursor before the event at `rank` of a ledger; rank = size is its end.

    Raises IndexError outside [0, size], IntegrityError where the stored tree does not agree with the ledger's root.
    """
    head = reader.head()
    if not 0 <= rank <= head.size:
        raise IndexError(f"cursor_at: rank must be in [0, {head.size}], got {rank}")
    return Cursor(rank, root_before(reader, head, rank))


def root_before(reader: Reader, head: Head, rank: int) -> bytes:
    """The root of the first `rank` events, proven a prefix of `head`, in O(log n) reads. Raises IntegrityError."""
    if rank == 0:
        return EMPTY_ROOT
    if rank == head.size:
        return head.root
    root = _root_left_of(rank, head.size, reader.prove(rank, head.size))
    if not verify_consistency(rank, head.size, root, head.root, reader.consistency(rank, head.size)):
        raise IntegrityError(
            f"{name_of(reader)}: the tree's tiles don't prove the first {rank} of {head.size} events a part of the "
            f"root {head.root.hex()}",
            file="tree",
        )
    return root


def _root_left_of(rank: int, size: int, proof: list[bytes]) -> bytes:
    """From the inclusion proof of leaf `rank`: what joins from the left are the complete subtrees over the leaves
    before it, smallest first (the walk of RFC 9162 section 2.1.3.2)."""
    fn, sn = rank, size - 1
    left = []
    for hash_ in proof:
        if fn & 1 or fn == sn:
            left.append(hash_)
            while fn != 0 and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        fn, sn = fn >> 1, sn >> 1
    return frontier_root(b"".join(reversed(left)))


def require_before(reader: Reader, cursor: Cursor) -> None:
    """Raise unless everything before the cursor is in the ledger as it was.

    Raises RollbackError for a ledger that is shorter, ForkError for one with another history.
    """
    head = reader.head()
    if cursor.rank > head.size:
        raise RollbackError(
            f"{name_of(reader)}: the cursor has read {cursor.rank} events, the ledger has {head.size}",
            cursor.rank,
            head.size,
        )
    root = root_before(reader, head, cursor.rank)
    if root != cursor.root:
        raise ForkError(
            f"{name_of(reader)}: the root of the first {cursor.rank} events is {root.hex()}, the cursor has read "
            f"{cursor.root.hex()}"
        )


def common_prefix(left: Reader, right: Reader) -> Cursor:
    """How far two ledgers hold the same events: the cursor before the first that differs, or before the shorter's end.

    Roots of ever closer prefixes are compared, in O(log² n) reads of tiles; no event is read. Raises IntegrityError
    where a ledger's tiles don't agree with its root.

    >>> import tempfile
    >>> from storage import Event, Ledger
    >>> def note(sequence, effect=b""):
    ...     return Event(producer="pump", effect=effect, kind="note.text", sequence=sequence, tick=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.open(folder + "/a") as a, Ledger.open(folder + "/b") as b:
    ...         _ = a.append_many([note(i) for i in range(9)])
    ...         _ = b.append_many([*(note(i) for i in range(5)), note(5, b"other")])
    ...         common_prefix(a, b).rank
    5
    """
    heads = left.head(), right.head()
    low, high = Cursor(), min(head.size for head in heads)
    while low.rank < high:
        middle = (low.rank + high + 1) // 2
        root = root_before(left, heads[0], middle)
        if root == root_before(right, heads[1], middle):
            low = Cursor(middle, root)
        else:
            high = middle - 1
    return low


class ConsumerCursor:
    """A cursor kept in a file, replaced at once: what was saved last is found after a crash.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = ConsumerCursor(folder + "/dashboard.cursor")
    ...     kept.load() == Cursor(), kept.save(Cursor(1, bytes(32))), kept.load().rank
    (True, None, 1)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def load(self) -> Cursor:
        """The cursor last saved; the one before the first event where there is no file yet.

        Raises IntegrityError for a damaged file, StorageError for one that can't be read.
        """
        try:
            data = regular_file.read(self.path, FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return Cursor()
        except OSError as error:
            raise StorageError(f"{self.path}: can't be read: {error.strerror}") from error
        try:
            text = data.decode("ascii")
            if len(data) > FILE_BYTES_MAX or not text.endswith("\n"):
                raise ValueError(f"expected one line of at most {FILE_BYTES_MAX} bytes, got {text[:160]!r}")
            return Cursor.parse(text[:-1])
        except ValueError as error:
            raise IntegrityError(f"{self.path}: {error}", file=str(self.path)) from None

    def save(self, cursor: Cursor) -> None:
        """Replace the file. Raises StorageFullError, ReadOnlyError."""
        try:
            replaced_file.replace(self.path.absolute(), f"{cursor}\n".encode())
        except OSError as error:
            raise mapped_os_error(error, self.path) from error
