"""The reference's names for a store of coordination records, thin over a ledger.

There the map of ids is primary and insertion ranks are a sidecar beside it; here the log by rank is primary and `ids`
is what can be made again from it. The names mean the same to a caller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType

from storage.catalog import Catalog
from storage.errors import StorageError
from storage.event import Event
from storage.ledger import Ledger, Sync
from storage.receipt import Receipt
from storage.tree import Head


class AppendOrder:
    """Records in append order, taken one at a time; an error ends the iteration and is asked for, not raised."""

    def __init__(self, events: Iterator[tuple[int, Event]]) -> None:
        self._events = events
        self._next: tuple[int, Event] | None = None
        self._error: StorageError | None = None
        self._step()

    def _step(self) -> None:
        self._next = None
        try:
            self._next = next(self._events, None)
        except StorageError as error:
            self._error = error

    def take(self) -> tuple[int, Event] | None:
        """The next rank and record, None at the end."""
        found = self._next
        if found is not None:
            self._step()
        return found

    @property
    def done(self) -> bool:
        """Whether nothing comes any more: the end, or an error."""
        return self._next is None

    @property
    def error(self) -> StorageError | None:
        """What ended the iteration early, once all before it was taken."""
        return self._error if self._next is None else None


class AppendStore:
    """Append records, look them up by id and by insertion rank, go through them in append order, flush.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, make_store_recovered(folder + "/run") as store:
    ...     receipt = store.append(Event(producer="pump", effect=b"on", kind="note.text", sequence=0, tick=3))
    ...     store.get_by_id(receipt.id).effect, store.kind_by_insertion_rank(0), store.flush().size
    (b'on', 'note.text', 1)
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def append(self, record: Event) -> Receipt:
        """Append a record; the same one again gives its first rank. Raises as `Ledger.append`."""
        return self.ledger.append(record)

    def append_and_derive(self, record: Event, catalog: Catalog) -> Receipt:
        """Append a record and bring a catalog of this ledger up to it.

        Raises as `append` (nothing was appended) and as `Catalog.catch_up` (the record is there; the catalog catches
        up the next time).
        """
        receipt = self.append(record)
        catalog.catch_up()
        return receipt

    def get_by_id(self, event_id: bytes) -> Event:
        """The record with an id of 32 bytes. Raises KeyError, IntegrityError, RetiredError."""
        return self.ledger.get(event_id)

    def get_by_insertion_rank(self, rank: int) -> Event:
        """The record at a rank. Raises IndexError, IntegrityError, RetiredError."""
        return self.ledger.at(rank)

    def kind_by_insertion_rank(self, rank: int) -> str:
        """The kind of the record at a rank. Raises as `get_by_insertion_rank`."""
        return self.ledger.at(rank).kind

    def iter_in_append_order(self, start: int = 0) -> AppendOrder:
        """An iteration from a rank to the end as it is now, for `iter_next`, `iter_done` and `iter_err`."""
        return AppendOrder(self.ledger.scan(start))

    def iter_next(self, order: AppendOrder) -> tuple[int, Event] | None:
        """The next rank and record, None where there is none."""
        return order.take()

    def iter_done(self, order: AppendOrder) -> bool:
        """Whether the iteration has come to its end, or to an error."""
        return order.done

    def iter_err(self, order: AppendOrder) -> StorageError | None:
        """The error that ended the iteration, or None."""
        return order.error

    def flush(self) -> Head:
        """Return after everything appended is on the disk; its head."""
        return self.ledger.flush()

    def flush_with_manifest(self) -> Head:
        """As `flush`, and HEAD names it: a later opening must find at least this much."""
        return self.ledger.flush(head_file=True)

    @property
    def manifest_status(self) -> str:
        """HEALTHY, DEGRADED (`ids` or tiles disagree with the log) or RECOVERY_DEGRADED (events are missing)."""
        return self.ledger.manifest_status

    def close(self) -> None:
        """Close the ledger. A second call does nothing."""
        self.ledger.close()

    def __enter__(self) -> AppendStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ledger.__exit__(kind, error, trace)


def make_store_recovered(path: str | os.PathLike[str], sync: Sync = "fsync") -> AppendStore:
    """Open the store of a RUN, or make it: what a crash left at the end of its log is dropped, everything else checked.

    Raises as `Ledger.open`.
    """
    return AppendStore(Ledger.open(path, sync=sync))


def rebuild_rank_sidecar(path: str | os.PathLike[str]) -> int:
    """Make the map from ids to ranks again from the log of a closed RUN; how many entries were put right.

    Raises as `repair_ledger`, and StorageError where more is wrong than what can be made again.
    """
    from storage.mending.repair_ledger import repair_ledger

    report = repair_ledger(path)
    if not report.ok:
        raise StorageError(f"{report.path}: more than the map of ids is damaged (hint: droveway repair)")
    return report.rebuilt.get("ids", 0)
