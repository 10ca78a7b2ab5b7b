"""Checking every byte of a ledger that a reader can get, and saying where the damage lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from storage import event_batch, hashing, layout, ledger_visitor, opening, state
from storage import head as head_file
from storage.engine import engines
from storage.engine.store import Store
from storage.errors import ForkError, IntegrityError, NotALedgerError, RollbackError, StorageError
from storage.event import Event
from storage.mending.retire import Retired, is_retired
from storage.state import EMPTY
from storage.tree import EMPTY_ROOT, HASH_BYTES, Head
from storage.wall_clock import WallClock

if TYPE_CHECKING:
    from storage.ledger_visitor import Visitor
    from storage.notes import checkpoint_check
    from storage.notes.keys import VerifierKey

BATCH_BYTES = 1 << 20
PROBLEMS_MAX = 10_000
LOST_IN_A_ROW_MAX = 1 << 16  # above it a claimed size is no size: nobody waits for 2^60 missing events
CHECKPOINT_PREFIX, LOST_PREFIX = b"checkpoint/", b"lost-checkpoint/"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One damaged place: rank of the event or None, `where` (family/key, or file), what was expected and found."""

    rank: int | None
    where: str
    expected: str
    got: str
    text: str


@dataclass(slots=True)
class LedgerReport:
    """What verifying a ledger found.

    size: events that the stored head names.  root: the root recomputed from the stored events, 32 bytes.
    head_seen: what the HEAD file names.  problems: the first 10,000; problem_count: all of them.  retired: ranges of
    ranks whose payload was removed by `retire`, which is no problem; retired_count: all of those ranks.  dropped_bytes:
    of the write-ahead log's end, torn by a crash, which hold no event.  warnings: dropped bytes, and the first 100 odd
    wall times, which are no problem either; warning_count: all of them.
    """

    path: str
    size: int = 0
    root: bytes = EMPTY_ROOT
    head_seen: Head | None = None
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0
    checkpoints: int = 0  # kept in the ledger
    signed_size: int | None = None  # the largest size that one of the given keys signed
    retired: list[tuple[int, int]] = field(default_factory=list)  # first and last rank; the first 10,000 such ranges
    retired_count: int = 0
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    warning_count: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem_count == 0

    @property
    def damaged_ranks(self) -> list[int]:
        """The ranks that problems name, ascending."""
        return sorted({p.rank for p in self.problems if p.rank is not None})

    def add_retired(self, rank: int) -> None:
        """Count a rank whose payload was removed, and keep its range while there is room. Ranks come ascending."""
        self.retired_count += 1
        if self.retired and self.retired[-1][1] == rank - 1:
            self.retired[-1] = (self.retired[-1][0], rank)
        elif len(self.retired) < PROBLEMS_MAX:
            self.retired.append((rank, rank))

    def add(self, rank: int | None, where: str, expected: str, got: str, text: str | None = None) -> None:
        """Count a problem, and keep it while there is room."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            place = f"rank {rank}: " if rank is not None else ""
            self.problems.append(
                Problem(rank, where, expected, got, text or f"{place}{where}: expected {expected}, got {got}")
            )


def verify_ledger(
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    keys: Sequence[VerifierKey] = (),
    now_ns: int | None = None,
    visitor: Visitor | None = None,
) -> LedgerReport:
    """Check a RUN directory: every event (canonical bytes, id, leaf, sequence), every tile, the head, the format,
    the cursors, `ids` against the log, and HEAD. Opens read-only, so no byte changes, also beside a live writer.

    progress: called with events done and in all.  now_ns: what the time is; wall times more than a day ahead of it are
    warned of, as are in any case those that go back within a producer.
    keys: those of the log; each kept checkpoint must then be signed by one, and there must be one. Without keys
    checkpoints are held against the tree, their signatures are not checked.
    visitor: is shown the events on the way, up to the first rank that a problem names.

    Damage is reported, never raised. Raises NotALedgerError where the path holds no ledger, and StorageError where
    it can't be read at all (permissions).

    >>> import tempfile
    >>> from storage import Event, Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.open(folder + "/run") as ledger:
    ...         receipt = ledger.append(Event(producer="me", effect=b"", kind="note.text", sequence=0, tick=0))
    ...     report = verify_ledger(folder + "/run")
    >>> report.ok, report.size, report.root == receipt.root
    (True, 1, True)
    """
    run = Path(path)
    opening.require_run(run)
    report = LedgerReport(str(run))
    try:
        report.head_seen = head_file.read(layout.head_path(run))
    except IntegrityError as error:
        report.add(None, "HEAD", "48 bytes with their CRC", "damage", str(error))
    in_file = _checkpoint_in_file(run)
    if not opening.has_store(run):
        report.add(None, "ledger", "a store", "nothing", f"{run}: HEAD is there, the store is gone")
        return report
    store = _open(run, report)
    if store is not None:
        try:
            _Verifier(run, store, report, progress, WallClock(now_ns), visitor).run()
            if report.dropped_bytes:
                report.warnings.insert(0, _told(report))
                report.warning_count += 1
            _check_checkpoints(run, store, report, in_file, tuple(keys))
        finally:
            store.close()
    return report


def _open(run: Path, report: LedgerReport) -> Store | None:
    try:
        store = engines.open_store(layout.store_path(run), read_only=True)
        report.dropped_bytes = getattr(store, "dropped_bytes", 0)
        for where, text in store.faults():
            report.add(None, where, "files as the engine writes them", "others", text)
        return store
    except IntegrityError as error:
        report.add(None, error.file or "ledger", "a database that opens", "damage", str(error))
    try:
        return engines.open_store(layout.store_path(run), read_only=True, paranoid=False)
    except IntegrityError as error:
        if report.head_seen is not None and report.head_seen.size:
            size = report.head_seen.size
            text = str(opening.missing(run, size, error))
            report.add(None, "ledger", f"{size} events", "a database that does not open", text)
        return None


def _checkpoint_in_file(run: Path) -> checkpoint_check.Kept | checkpoint_check.Fault | None:
    if not (run / "checkpoint").exists():
        return None
    from storage.notes import checkpoint_check

    return checkpoint_check.read_file(run)


def _check_checkpoints(
    run: Path,
    store: Store,
    report: LedgerReport,
    in_file: checkpoint_check.Kept | checkpoint_check.Fault | None,
    keys: tuple[VerifierKey, ...],
) -> None:
    """Every kept checkpoint must be one of this tree, and with keys be signed by one of them."""
    try:
        if in_file is None and next(store.scan("meta", CHECKPOINT_PREFIX, b"checkpoint0"), None) is None:
            if keys:
                text = f"{run}: no checkpoint is kept: nothing is signed"
                report.add(None, "checkpoint", "a signed checkpoint", "none", text)
            return
    except IntegrityError as error:
        report.add(None, error.file or "meta", "bytes that can be read", "damage", str(error))
        return
    from storage.notes import checkpoint_check

    kept: list[checkpoint_check.Kept | checkpoint_check.Fault] = []
    try:
        kept += checkpoint_check.in_store(store)
    except IntegrityError as error:
        report.add(None, error.file or "meta", "bytes that can be read", "damage", str(error))
    report.checkpoints = len(kept)
    if in_file is not None:
        kept.append(in_file)
    for each in kept:
        found: checkpoint_check.Fault | int = each if isinstance(each, checkpoint_check.Fault) else -1
        if isinstance(each, checkpoint_check.Kept):
            found = checkpoint_check.check(each, store, Head(report.size, report.root), run, keys)
        if isinstance(found, checkpoint_check.Fault):
            report.add(None, found.where, found.expected, found.got, found.text)
        elif keys:
            report.signed_size = max(found, report.signed_size or 0)


def _told(report: LedgerReport) -> str:
    named = 0 if report.head_seen is None else report.head_seen.size
    return (
        f"the last {report.dropped_bytes} bytes of the write-ahead log are no commit: torn by a crash, or a last "
        f"commit damaged since; {report.size} events are there, HEAD names {named}"
    )


class _Verifier:
    """One pass over the log, in batches that never cross a tile."""

    def __init__(
        self,
        run: Path,
        store: Store,
        report: LedgerReport,
        progress: Progress | None,
        clock: WallClock,
        visitor: Visitor | None = None,
    ) -> None:
        self.path = run
        self.clock = clock
        self.visitor = visitor  # None from the first damaged rank on
        self.store = store
        self.report = report
        self.progress = progress
        self.head: Head | None = None
        self.tree = EMPTY
        self.cursors: dict[str, tuple[int, bytes]] = {}
        # The events whose entry in `ids` was found to be right: how many, and the sum over (id, rank) under a key that
        # nobody can know. Entries of the batches that passed as a whole are not looked up but summed, too.
        self.ids_found = 0
        self.ids_sum = event_batch.ZERO_SUM
        self.ids_key = os.urandom(32)
        self.passed: list[tuple[int, int]] = []  # ranges of ranks that passed as a whole, first and behind the last
        self.log_size = 0

    def run(self) -> None:
        self._check_head_record()
        self._find_log_end()
        self.report.size = self.head.size if self.head is not None else self.log_size
        self._check_log()
        self.report.warnings, self.report.warning_count = self.clock.warnings, self.clock.count
        self.report.root = self.tree.head().root
        self._check_roots()
        self._check_upper_tiles()
        self._check_tile_keys()
        self._check_ids()
        self._check_meta()

    def _find_log_end(self) -> None:
        """How far the log goes; where its end can't be read, as far as the head says: each rank is tried."""
        try:
            last = self.store.last_key("log")
        except IntegrityError as error:
            self.report.add(None, error.file or "log", "bytes that can be read", "damage", str(error))
            self.log_size = 0 if self.head is None else self.head.size
            return
        self.log_size = 0 if last is None or len(last) != 8 else int.from_bytes(last, "big") + 1

    def _guarded(self, where: str, read: Callable[[], bytes | None]) -> bytes | None:
        """What a read gives; None, and a problem, where the engine finds damage."""
        try:
            return read()
        except IntegrityError as error:
            self.report.add(None, error.file or where, "bytes that can be read", "damage", str(error))
            return None

    def _check_head_record(self) -> None:
        try:
            self.head = state.read_head(self.store, str(self.path))
            if self.head is None:
                self.head = Head(0, EMPTY_ROOT)
        except IntegrityError as error:
            self.report.add(None, error.file or "meta", "format and head", "damage", str(error))
        except NotALedgerError as error:
            self.report.add(None, "meta/format", layout.FORMAT.decode(), "another format", str(error))

    def _check_log(self) -> None:
        start = self._check_whole_tiles()
        batch: list[bytes | None] = []
        first, held = start, 0
        for rank, value in self._values(start):
            batch.append(value)
            held += len(value or b"")
            if held >= BATCH_BYTES or (rank + 1) % layout.TILE_HASHES == 0:
                self._check_batch(first, batch)
                first, held, batch = rank + 1, 0, []
        if batch:
            self._check_batch(first, batch)

    def _check_whole_tiles(self) -> int:
        """Check the log while ranks come one after the other; the rank it came to. The last tile is left."""
        rank, end = 0, None
        stop = max(self.report.size - 1, 0) // layout.TILE_HASHES * layout.TILE_HASHES
        pairs = self.store.scan("log")
        while rank < stop and end is None:
            to_tile_end = layout.TILE_HASHES - rank % layout.TILE_HASHES
            values, end = event_batch.take(pairs, rank, to_tile_end, BATCH_BYTES, state.VALUE_BYTES_MAX)
            if values:
                self._check_batch(rank, values)
            rank += len(values)
        if isinstance(end, BaseException) and not isinstance(end, IntegrityError):
            raise end
        return rank

    def _values(self, rank: int) -> Iterator[tuple[int, bytes | None]]:
        """Every rank from `rank` on, below the size, with its value, None where it is missing or unreadable (a problem
        by then).
        """
        size, unread = self.report.size, 0
        stop = min(size, max(self.log_size, rank + 1))
        while rank < stop:
            try:
                for key, value in self.store.scan("log", layout.log_key(rank) if rank else b""):
                    found = int.from_bytes(key, "big") if len(key) == 8 else None
                    if found is None or found >= size:
                        self.report.add(None, f"log/{key.hex()}", f"ranks below {size}", "another key")
                        continue
                    if found - rank > LOST_IN_A_ROW_MAX:
                        self._end_early(rank, f"ranks {rank}..{found - 1} are missing; what follows was not checked")
                        return
                    if rank < found:
                        self._look_back(rank)
                    while rank < found:
                        yield rank, self._lost(rank)
                        rank += 1
                    yield rank, self._of_a_size(rank, value)
                    rank, unread = rank + 1, 0
                break
            except IntegrityError:
                if unread == LOST_IN_A_ROW_MAX:
                    self._end_early(rank, f"rank {rank} and many before it can't be read; the rest was not checked")
                    return
                if unread == 0:
                    self._look_back(rank)
                yield rank, self._lost(rank)
                rank, unread = rank + 1, unread + 1
        if rank < size:
            text = f"ranks {rank}..{size - 1} are missing: the head names {size} events, the log ends after {rank}"
            self._end_early(rank, text)

    def _look_back(self, rank: int) -> None:
        """A scan stopped before `rank`, or left it out. Reading a rank alone takes another way through a page: it may
        not come to some before that the scan gave out.
        """
        while rank > 0:
            rank -= 1
            problems = self.report.problem_count
            self._lost(rank)
            if self.report.problem_count == problems:
                return

    def _of_a_size(self, rank: int, value: bytes) -> bytes | None:
        """The value; None, and a problem, for one that no event fills: nothing is copied or hashed then."""
        if len(value) <= state.VALUE_BYTES_MAX:
            return value
        where = f"log/{layout.log_key(rank).hex()}"
        self.report.add(rank, where, f"at most {state.VALUE_BYTES_MAX} bytes", f"{len(value)}")
        return None

    def _end_early(self, rank: int, text: str) -> None:
        where = f"log/{layout.log_key(rank).hex()}"
        self.report.add(rank, where, f"{self.report.size} events", f"{rank}", text)

    def _lost(self, rank: int) -> bytes | None:
        """Read one rank alone: its value after all, or None and a problem."""
        where = f"log/{layout.log_key(rank).hex()}"
        try:
            value = self.store.get("log", layout.log_key(rank))
        except IntegrityError as error:
            self.report.add(rank, error.file or where, "an event", "damage", f"rank {rank} can't be read: {error}")
            return None
        if value is None:
            self.report.add(rank, where, "an event", "nothing")
        return value

    def _check_batch(self, first: int, values: Sequence[bytes | None]) -> None:
        tile_key = layout.tile_key(0, first // layout.TILE_HASHES)
        tile = self._guarded("tree", lambda: self.store.get("tree", tile_key)) or b""
        at = first % layout.TILE_HASHES * HASH_BYTES
        if not self._pass(first, values, tile[at : at + HASH_BYTES * len(values)]):
            self._check_each(first, values, tile_key, tile)
        if self.progress is not None:
            self.progress(first + len(values), self.report.size)

    def _pass(self, first: int, values: Sequence[bytes | None], leaves: bytes) -> bool:
        """Whether nothing is odd with a batch; what is, and where, must be asked of each value then."""
        present = list(values)
        visitor = self.visitor
        shown: list[event_batch.Shown] = []
        if visitor is None:
            total = event_batch.audited(self.ids_key, self.ids_sum, first, present, leaves, self.cursors)
        else:
            total = event_batch.audited(
                self.ids_key, self.ids_sum, first, present, leaves, self.cursors, shown, visitor.prefix
            )
        if total is None:
            return False
        if visitor is not None:
            ledger_visitor.show_all(visitor, shown)
        self.clock.look(first, present)  # type: ignore[arg-type]  # all are there
        self.ids_sum = total
        if self.passed and self.passed[-1][1] == first:
            self.passed[-1] = (self.passed[-1][0], first + len(values))
        else:
            self.passed.append((first, first + len(values)))
        self._extend(leaves)
        return True

    def _check_each(self, first: int, values: Sequence[bytes | None], tile_key: bytes, tile: bytes) -> None:
        at = first % layout.TILE_HASHES * HASH_BYTES
        held = [tile[at + HASH_BYTES * i : at + HASH_BYTES * (i + 1)] for i in range(len(values))]
        present = [value[32:] if value is not None and len(value) > 32 else b"" for value in values]
        ids = hashing.event_ids(present)
        lengths = [len(data) for data in present]
        for i, value in enumerate(values):
            if value is not None and is_retired(value):
                ids[i], lengths[i] = value[1:33], int.from_bytes(value[33:], "big")
        computed = state.leaf_hashes(ids, lengths)
        ranks_of_ids = self._ranks_of(ids)
        leaves = []
        for i, value in enumerate(values):
            rank, leaf = first + i, computed[HASH_BYTES * i : HASH_BYTES * (i + 1)]
            problems = self.report.problem_count
            if value is None:
                self.visitor = None
                leaves.append(held[i] if len(held[i]) == HASH_BYTES else bytes(HASH_BYTES))
                continue
            found = self._check_value(rank, value, present[i], ids[i], held[i])
            if value == held[i]:  # the leaf hash that stands for a lost event
                self.visitor = None
                leaves.append(value)
                continue
            self._check_leaf(rank, tile_key, leaf, held[i])
            self._check_rank_of(rank, ids[i], ranks_of_ids[i])
            leaves.append(leaf)
            if found is None or self.report.problem_count != problems:
                self.visitor = None
            elif self.visitor is not None:
                ledger_visitor.show(self.visitor, rank, found)
        self._extend(b"".join(leaves))

    def _ranks_of(self, ids: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self.store.get_many("ids", ids)
        except IntegrityError as error:
            self.report.add(None, error.file or "ids", "bytes that can be read", "damage", str(error))
        out: list[bytes | None] = []
        for event_id in ids:
            try:
                out.append(self.store.get("ids", event_id))
            except IntegrityError:
                out.append(None)
        return out

    def _check_value(
        self, rank: int, value: bytes, data: bytes, event_id: bytes, held: bytes
    ) -> Event | Retired | None:
        """What a value holds; None, and a problem, where that can't be told."""
        where = f"log/{layout.log_key(rank).hex()}"
        if is_retired(value):
            try:
                retired = Retired.decode(value)
            except ValueError:
                self.report.add(rank, where, "a leaf of version 1", f"version {value[0]}")
                return None
            self.report.add_retired(rank)
            return retired
        if len(value) <= 32:
            lost = value == held
            text = f"rank {rank}: lost, and repaired without it: only its leaf hash is left" if lost else None
            self.report.add(rank, where, "an id and an event", f"{len(value)} bytes", text)
            return None
        if value[:32] != event_id:
            self.report.add(rank, where, f"id {event_id.hex()} of the event bytes", f"id {value[:32].hex()}")
        try:
            event = Event.decode(data)
        except StorageError as error:
            self.report.add(rank, where, "a canonical event", "other bytes", f"rank {rank}: {where}: {error}")
            return None
        before = self.cursors.get(event.producer)
        if before is not None and event.sequence <= before[0]:
            self.report.add(
                rank,
                where,
                f"a sequence of producer {event.producer!r} above {before[0]}",
                str(event.sequence),
            )
        self.cursors[event.producer] = (event.sequence, event_id)
        self.clock.see(rank, event.producer, event.wall_ns)
        return event

    def _check_leaf(self, rank: int, tile_key: bytes, leaf: bytes, held: bytes) -> None:
        if leaf != held:
            self.report.add(rank, f"tree/{tile_key.hex()}", f"leaf hash {leaf.hex()}", held.hex() or "nothing")

    def _check_rank_of(self, rank: int, event_id: bytes, found: bytes | None) -> None:
        if found == layout.log_key(rank):
            self.ids_found += 1
            self.ids_sum = event_batch.fingerprint(self.ids_key, event_id + found, self.ids_sum)
        else:
            got = "nothing" if found is None else found.hex()
            self.report.add(rank, f"ids/{event_id.hex()}", layout.log_key(rank).hex(), got)

    def _extend(self, leaves: bytes) -> None:
        seen = self.report.head_seen
        size = self.tree.size + len(leaves) // HASH_BYTES
        if seen is not None and self.tree.size < seen.size <= size:
            part = self.tree.extended(leaves[: (seen.size - self.tree.size) * HASH_BYTES])[0].head()
            if part.root != seen.root:
                self.report.add(None, "HEAD", f"root {part.root.hex()} at size {seen.size}", f"root {seen.root.hex()}")
        self.tree, tiles = self.tree.extended(leaves)
        for _, key, tile in tiles:
            if tile is not None and key[0] > 0 and len(tile) == layout.TILE_BYTES:
                self._check_tile(key, tile)

    def _check_tile(self, key: bytes, tile: bytes) -> None:
        stored = self._guarded("tree", lambda: self.store.get("tree", key))
        if stored != tile:
            got = "nothing" if stored is None else f"{len(stored)} other bytes"
            self.report.add(None, f"tree/{key.hex()}", f"{len(tile)} bytes of hashes of the tiles below", got)

    def _check_roots(self) -> None:
        size, root, seen = self.report.size, self.report.root, self.report.head_seen
        if self.head is not None and root != self.head.root:
            self.report.add(None, "meta/head", f"root {root.hex()} of the events", f"root {self.head.root.hex()}")
        if seen is None:
            if size and not layout.head_path(self.path).exists():
                self.report.add(None, "HEAD", "48 bytes", "no file", f"{self.path}: HEAD is missing")
            return
        if seen.size > size:
            error = RollbackError(f"HEAD names {seen.size} events, the ledger has {size}", seen.size, size)
            self.report.add(size, "HEAD", f"size at most {size}", str(seen.size), f"{self.path}: {error}")
        elif seen.size == 0 and seen.root != EMPTY_ROOT:
            fork = ForkError(f"HEAD names the root {seen.root.hex()} for no events")
            self.report.add(None, "HEAD", f"root {EMPTY_ROOT.hex()}", seen.root.hex(), f"{self.path}: {fork}")

    def _check_upper_tiles(self) -> None:
        size = self.tree.size
        for level, tile in enumerate(self.tree.tiles):
            key = layout.tile_key(level, size >> (8 * level) >> 8)
            if level == 0:
                stored = self._guarded("tree", lambda key=key: self.store.get("tree", key))  # type: ignore[misc]
                if stored is not None and len(stored) > len(tile):
                    self.report.add(None, f"tree/{key.hex()}", f"{len(tile)} bytes", f"{len(stored)}")
            elif tile:
                self._check_tile(key, tile)

    def _check_tile_keys(self) -> None:
        size, counts = self.tree.size, []
        while size:
            counts.append(-(-size // layout.TILE_HASHES))
            size //= layout.TILE_HASHES
        try:
            for key, _ in self.store.scan("tree"):
                index = int.from_bytes(key[1:], "big")
                if len(key) != 9 or key[0] >= len(counts) or index >= counts[key[0]]:
                    self.report.add(None, f"tree/{key.hex()}", f"tiles of {self.tree.size} events", "another key")
        except IntegrityError as error:
            self.report.add(None, error.file or "tree", "bytes that can be read", "damage", str(error))

    def _ids_agree(self) -> bool:
        """Whether `ids` holds the entries of the events and no other, by count and sum."""
        passed = sum(stop - start for start, stop in self.passed)
        try:
            found = event_batch.fingerprint_of_ids(self.ids_key, self.store.scan("ids"))
        except IntegrityError:
            return False
        return found == (self.ids_found + passed, self.ids_sum)

    def _look_up_passed(self) -> None:
        """The entry of each event of the batches that passed as a whole. Their ids are those of their bytes."""
        for start, stop in self.passed:
            pairs = self.store.scan("log", layout.log_key(start), layout.log_key(stop))
            rank, end = start, None
            while rank < stop and end is None:
                count = min(layout.TILE_HASHES, stop - rank)
                values, end = event_batch.take(pairs, rank, count, BATCH_BYTES, state.VALUE_BYTES_MAX)
                self._look_up(rank, values)
                rank += len(values)
            for alone in range(rank, stop):  # the scan ended early now, which it did not before
                value = self._lost(alone)
                self._look_up(alone, [] if value is None else [value])

    def _look_up(self, first: int, values: Sequence[bytes]) -> None:
        ids = [value[:32] for value in values]
        for rank, (event_id, found) in enumerate(zip(ids, self._ranks_of(ids), strict=True), first):
            self._check_rank_of(rank, event_id, found)

    def _check_ids(self) -> None:
        """Entries of `ids` that differ from the log's, then those that no event of the log has."""
        if self._ids_agree():
            return
        try:
            self._look_up_passed()
            count = sum(1 for _ in self.store.scan("ids"))
            if count == self.ids_found:
                return
            for key, value in self.store.scan("ids"):
                rank = int.from_bytes(value, "big")
                stored = self.store.get("log", value) if len(value) == 8 and rank < self.report.size else None
                if stored is None or state.stored_id(stored) != key:
                    self.report.add(None, f"ids/{key.hex()}", "the id of an event in the log", f"rank {value.hex()}")
        except IntegrityError as error:
            self.report.add(None, error.file or "ids", "bytes that can be read", "damage", str(error))

    def _check_meta(self) -> None:
        found: set[str] = set()
        try:
            for key, value in self.store.scan("meta"):
                name = key.decode(errors="backslashreplace")
                if key.startswith(layout.CURSOR_PREFIX):
                    self._check_cursor(name, value)
                    found.add(name)
                elif key not in (layout.FORMAT_KEY, layout.HEAD_KEY) and not key.startswith(
                    (CHECKPOINT_PREFIX, LOST_PREFIX)
                ):
                    self.report.add(
                        None, f"meta/{_printable(name)}", "format, head, cursors and checkpoints", "another key"
                    )
        except IntegrityError as error:
            self.report.add(None, error.file or "meta", "bytes that can be read", "damage", str(error))
            return
        for producer in self.cursors:
            if f"cursor/{producer}" not in found:
                self.report.add(None, f"meta/cursor/{_printable(producer)}", "a cursor", "nothing")

    def _check_cursor(self, name: str, value: bytes) -> None:
        producer = name.removeprefix("cursor/")
        cursor = self.cursors.get(producer)
        expected = b"" if cursor is None else layout.pack_cursor(*cursor)
        if value != expected and not self._is_of_a_retired_event(producer, value):
            self.report.add(None, f"meta/{_printable(name)}", expected.hex() or "no cursor", value[:64].hex())

    def _is_of_a_retired_event(self, producer: str, value: bytes) -> bool:
        """Whether a cursor may be the one that a retired event left: later than all that is known of its producer."""
        if not self.report.retired or len(value) != 40:
            return False
        key = self.store.get("ids", value[8:])
        stored = None if key is None or len(key) != 8 else self.store.get("log", key)
        if key is None or stored is None or not is_retired(stored) or stored[1:33] != value[8:]:
            return False
        sequence, last_id = self.cursors.get(producer, (-1, bytes(32)))
        last = self.store.get("ids", last_id)
        return int.from_bytes(value[:8], "big") > sequence and (last is None or key > last)


def _printable(name: str) -> str:
    """A stored name as it may go to a terminal: no line end, no escape sequence, not without end."""
    return name[:200] if name.isprintable() else name[:200].encode("unicode_escape").decode()
