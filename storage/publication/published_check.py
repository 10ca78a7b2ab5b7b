"""Checking every object of a published ledger, and saying which are damaged and what they are needed for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage import ledger_visitor
from storage.errors import ForkError, IntegrityError, NoteError, RollbackError, SignatureError
from storage.event import Event
from storage.layout import TILE_HASHES
from storage.ledger_check import LedgerReport
from storage.ledger_visitor import Visitor
from storage.mending import retired_list
from storage.mending.retire import Retired
from storage.notes import checkpoint as checkpoints
from storage.notes.keys import VerifierKey, verified
from storage.publication import tiles
from storage.publication.object_store import ObjectStore
from storage.publication.places import open_store
from storage.publication.published import CHECKPOINT, PublishedLedger, read_checkpoint
from storage.tree import Head
from storage.wall_clock import WallClock

Progress = Callable[[int, int], None]


def verify_published(
    url: str,
    progress: Progress | None = None,
    keys: Sequence[VerifierKey] = (),
    expect: Head | None = None,
    *,
    now_ns: int | None = None,
    visitor: Visitor | None = None,
) -> LedgerReport:
    """Check a published ledger: the checkpoint, every tile, leaf and payload, each event (canonical bytes, id, leaf,
    sequence).

    progress: called with events done and in all.  keys: those of the log; one of them must have signed the checkpoint.
    Without keys nobody is known to have signed it.  expect: a head that the ledger must contain.
    now_ns, visitor: as of `verify_ledger`.

    Damage is reported, never raised; each problem names its object, and the ranks that can't be trusted. Raises
    ObjectStoreError where the place can't be reached, NotALedgerError where nothing is published there.

    >>> import tempfile
    >>> from storage import Event, Ledger
    >>> from storage.notes.keys import Signer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.open(folder + "/run") as ledger:
    ...         receipt = ledger.append(Event(producer="me", effect=b"", kind="note.text", sequence=0, tick=0))
    ...         published = ledger.publish(folder + "/web", Signer("a.example", bytes(32)))
    ...     report = verify_published(folder + "/web", keys=(Signer("a.example", bytes(32)).verifier,))
    >>> report.ok, report.size, report.root == receipt.root
    (True, 1, True)
    """
    store = open_store(url, writable=False)
    try:
        return _Check(store, url, progress, WallClock(now_ns), visitor).run(tuple(keys), expect)
    finally:
        store.close()


class _Check:
    """One pass over the tiles of leaves; those above are checked on the way to the root."""

    def __init__(
        self, store: ObjectStore, url: str, progress: Progress | None, clock: WallClock, visitor: Visitor | None
    ) -> None:
        self.store = store
        self.report = LedgerReport(url)
        self.progress = progress
        self.sequences: dict[str, int] = {}
        self.clock = clock
        self.visitor = visitor  # None from the first damaged rank on

    def run(self, keys: tuple[VerifierKey, ...], expect: Head | None) -> LedgerReport:
        note = read_checkpoint(self.store)
        try:
            checkpoint, signed = checkpoints.decode(note)
        except NoteError as error:
            self._tell(CHECKPOINT, "a signed checkpoint", error)
            return self.report
        head = checkpoint.head()
        self.report.size, self.report.root = head.size, head.root
        self.report.checkpoints = 1
        if keys:
            try:
                verified(signed, tuple(key for key in keys if key.name == checkpoint.origin))
                self.report.signed_size = head.size
            except SignatureError as error:
                self._tell(CHECKPOINT, f"a signature of {', '.join(sorted({key.name for key in keys}))}", error)
        try:
            ledger = PublishedLedger(self.store, note)
        except IntegrityError as error:
            self._tell(CHECKPOINT, "tiles that lead to its root", error)
            return self.report
        for index in range(-(-head.size // TILE_HASHES)):
            self._check_tile(ledger, index)
            if self.progress is not None:
                self.progress(min(head.size, (index + 1) * TILE_HASHES), head.size)
        self.report.warnings, self.report.warning_count = self.clock.warnings, self.clock.count
        for problem in ledger.problems:
            self._tell(problem.file or "tile", "the hashes that lead to the root", problem)
        self._check_retired_list()
        if expect is not None:
            self._check_expected(ledger, expect)
        return self.report

    def _tell(self, where: str, expected: str, error: Exception, rank: int | None = None, got: str = "damage") -> None:
        if rank is not None:
            self.visitor = None
        text = str(error).removeprefix(f"{self.store.url}: ")
        self.report.add(rank, where, expected, got, f"{self.store.url}: {text}")

    def _check_tile(self, ledger: PublishedLedger, index: int) -> None:
        first = index * TILE_HASHES
        width = ledger.tree.width(0, index)
        ledger.read_ahead(index, ledger.head().size)
        try:
            leaves = ledger.leaves(index)
        except IntegrityError as error:
            for rank in range(first, first + width):
                self._tell(error.file or "tile", "the hashes that lead to the root", error, rank)
            return
        path = tiles.entries_path(index, width)
        for i, record in enumerate(leaves):
            if record is None:
                text = f"rank {first + i} ({path}): the leaf is missing, or not the one in the tree"
                self._tell(path, "the leaf in the tree", IntegrityError(text), first + i)
        rank, stop = first, first + width
        while rank < stop:
            try:
                for at, found in ledger.scan(rank, stop, retired=True):
                    self._take(at, found)
                    rank = at + 1
            except IntegrityError as error:
                ranks = error.ranks or (rank,)
                for at in ranks:
                    self._tell(error.file or "payload", "the event of the leaf", error, at)
                rank = max(rank, *ranks) + 1

    def _take(self, rank: int, found: Event | Retired) -> None:
        if not isinstance(found, Event):
            self.report.add_retired(rank)
            self._show(rank, found)
            return
        before = self.sequences.get(found.producer)
        if before is not None and found.sequence <= before:
            expected = f"a sequence of producer {found.producer!r} above {before}"
            self.report.add(rank, f"rank {rank}", expected, str(found.sequence))
            self.visitor = None
        self.sequences[found.producer] = found.sequence
        self.clock.see(rank, found.producer, found.wall_ns)
        self._show(rank, found)

    def _show(self, rank: int, found: Event | Retired) -> None:
        if self.visitor is not None:
            ledger_visitor.show(self.visitor, rank, found)

    def _check_retired_list(self) -> None:
        """What is listed as retired must be gone; what is gone may not be listed yet."""
        try:
            found = self.store.get(retired_list.PATH, retired_list.BYTES_MAX)
            listed = [] if found is None else retired_list.unpack(found.data)
        except IntegrityError as error:
            self._tell(retired_list.PATH, "ranges of ranks", error)
            return
        if len(self.report.retired) == 0 and not listed:
            return
        for first, last in retired_list.without(listed, self.report.retired):
            ranks = f"{first}" if first == last else f"{first}..{last}"
            text = f"{retired_list.PATH} lists rank {ranks}, whose events are there, or which are none"
            self._tell(retired_list.PATH, "ranks without a payload", IntegrityError(text))

    def _check_expected(self, ledger: PublishedLedger, expect: Head) -> None:
        expected = f"size {expect.size}, root {expect.root.hex()}"
        got = f"size {self.report.size}, root {self.report.root.hex()}"
        try:
            ledger.require(expect)
        except (RollbackError, ForkError, IntegrityError) as error:
            self._tell("expected", expected, error, got=got)
