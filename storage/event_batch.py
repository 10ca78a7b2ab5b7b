"""Events a batch at a time: encoding, ids, leaves, cursors, receipts, checking. The kernels, or their twins.

Each function does for a list of events what Event, Ledger and the checks of `state` do for one, and nothing else: what
is odd in any way is left to them, who name the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from storage import _kernels, event_batch_ref, hash_ref
from storage.event import Event
from storage.receipt import Receipt

Cursor = tuple[int, bytes]  # last sequence number, last id
Pair = tuple[bytes, bytes]
Shown = tuple[int, Event] | tuple[int, int, str, str, int]

_REFERENCE = _kernels.isa() == "ref"
_native: Any = _kernels
_CONTEXT = hash_ref.CONTEXT
ZERO_SUM = bytes(32)

if not _REFERENCE:
    _native.learn_types(Event, Receipt)


class Prepared(NamedTuple):
    """Events ready to be written. rows: values of `log`, id and event bytes.  ids: 32 bytes each.  leaves: the leaf
    hashes, 32 bytes each, joined.
    """

    rows: list[bytes]
    ids: list[bytes]
    leaves: bytes


def prepare(events: Sequence[Event]) -> Prepared:
    """Encode and hash events. Raises EventTooLargeError, and TypeError for what is no Event.

    >>> note = Event(producer="fleet-1", effect=b"\\0\\xff\\x10", kind="note.text", sequence=0, tick=120)
    >>> prepared = prepare([note])
    >>> prepared.rows[0] == note.id + note.encode(), prepared.ids == [note.id], prepared.leaves.hex()[:16]
    (True, True, '7b81b06d71e13814')
    """
    if _REFERENCE:
        return Prepared(*event_batch_ref.prepare(events))
    return Prepared(*_native.prepare(_CONTEXT, events))


def entries(first: int, ids: list[bytes], rows: list[bytes]) -> list[tuple[str, bytes, bytes]]:
    """What is put into `log` and `ids` for events that take the ranks from `first` on: (family, key, value).

    >>> key = bytes(7) + b"\\7"
    >>> entries(7, [b"id"], [b"row"]) == [("log", key, b"row"), ("ids", b"id", key)]
    True
    """
    make = event_batch_ref.entries if _REFERENCE else _native.entries
    made: list[tuple[str, bytes, bytes]] = make(first, ids, rows)
    return made


def receipts(first: int, ids: list[bytes], size: int, root: bytes) -> list[Receipt]:
    """Receipts of events that took the ranks from `first` on, in a commit that came to (size, root).

    >>> receipts(7, [b"id"], 8, b"root")
    [Receipt(rank=7, id=b'id', size=8, root=b'root')]
    """
    if _REFERENCE:
        return event_batch_ref.receipts(first, ids, size, root)
    made: list[Receipt] = _native.receipts(first, ids, size, root)
    return made


def advance(start: int, events: Sequence[Event], ids: list[bytes], cursors: dict[str, Any]) -> int:
    """Move cursors over the events from `start` on; the index of the first that was left, or how many there are.

    cursors: producer → (sequence, id), or None for a producer without events; altered. An event is left whose producer
    is no key of it, or whose sequence number is not above its cursor.

    >>> cursors = {"a": None}
    >>> made = [Event(producer="a", effect=b"", kind="k", sequence=q, tick=0) for q in (3, 5, 5)]
    >>> advance(0, made, [b"x", b"y", b"z"], cursors), cursors
    (2, {'a': (5, b'y')})
    """
    if _REFERENCE:
        return event_batch_ref.advance(start, events, ids, cursors)
    stopped: int = _native.advance(start, events, ids, cursors)
    return stopped


def take(
    iterator: Iterator[Pair], first: int, count: int, bytes_max: int, value_bytes_max: int
) -> tuple[list[bytes], Any]:
    """The next values of a scan of `log`, in order of rank from `first`: at most `count`, about `bytes_max` bytes.

    Returns (values, end). end: None where the count or the bytes were reached; () where the scan ended; the exception
    that it raised; or the pair that is not the next rank, or whose value has more than `value_bytes_max` bytes.

    >>> take(iter([(bytes(7) + b"\\x05", b"five"), (bytes(7) + b"\\x07", b"seven")]), 5, 10, 1000, 100)
    ([b'five'], (b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07', b'seven'))
    """
    if _REFERENCE:
        return event_batch_ref.take(iterator, first, count, bytes_max, value_bytes_max)
    taken: tuple[list[bytes], Any] = _native.take(iterator, first, count, bytes_max, value_bytes_max)
    return taken


def checked(first: int, values: list[bytes], leaves: bytes) -> list[tuple[int, Event]]:
    """Ranks and events of stored values, up to the first one that is odd: its id is not that of its bytes, the bytes
    are no canonical event, or the tree holds another leaf hash than its own, or none.

    leaves: the leaf hashes that the tree holds for the ranks from `first` on.

    >>> note = Event(producer="a", effect=b"", kind="k", sequence=0, tick=0)
    >>> rows, ids, leaves = prepare([note])
    >>> checked(5, [*rows, b"no event"], leaves + bytes(32)) == [(5, note)]
    True
    """
    if _REFERENCE:
        return event_batch_ref.checked(first, values, leaves)
    found: list[tuple[int, Event]] = _native.checked_events(_CONTEXT, first, values, leaves)
    return found


def audited(
    key: bytes,
    total: bytes,
    first: int,
    values: list[Any],
    leaves: bytes,
    cursors: dict[str, Cursor],
    shown: list[Shown] | None = None,
    prefix: str = "",
) -> bytes | None:
    """Check stored values as `checked` does, and that each sequence number is above its producer's cursor.

    Moves the cursors and returns `total` with (id, rank) of each event added (`fingerprint`); where anything is odd,
    None, and the cursors are as they were.

    shown: gets, in order of rank, (rank, event) for each event whose kind begins with `prefix`, and for all others
    (rank, count, producer, kind, sequence), one for as many in a row as have the same producer and kind and the next
    sequence number; nothing where anything is odd.

    >>> rows, ids, leaves = prepare([Event(producer="a", effect=b"", kind="k", sequence=0, tick=0)])
    >>> cursors, shown = {}, []
    >>> total = audited(bytes(32), ZERO_SUM, 5, rows, leaves, cursors, shown, "coord.")
    >>> total == fingerprint(bytes(32), ids[0] + bytes(7) + b"\\x05"), shown
    (True, [(5, 1, 'a', 'k', 0)])
    >>> cursors == {"a": (0, ids[0])}, audited(bytes(32), ZERO_SUM, 6, rows, leaves, cursors)
    (True, None)
    """
    if _REFERENCE:
        return event_batch_ref.audited(key, total, first, values, leaves, cursors, shown, prefix)
    added: bytes | None = _native.audited(_CONTEXT, key, total, first, values, leaves, cursors, shown, prefix)
    return added


def fingerprint(key: bytes, record: bytes, total: bytes = ZERO_SUM) -> bytes:
    """`total` with the BLAKE3 of `record`, an id and the key of its rank, under a secret key of 32 bytes added: 32
    bytes, four u64 modulo 2**64.

    Two collections of pairs have the same sum when they are the same in any order; nobody who doesn't know the key can
    make other ones that have.

    >>> a, b = (fingerprint(bytes(32), record) for record in (b"a" * 40, b"b" * 40))
    >>> fingerprint(bytes(32), b"b" * 40, a) == fingerprint(bytes(32), b"a" * 40, b) != a
    True
    """
    if _REFERENCE:
        return event_batch_ref.fingerprint(key, total, record, len(record))
    added: bytes = _native.fingerprint(key, total, record, len(record))
    return added


def fingerprint_of_ids(key: bytes, pairs: Iterator[Pair]) -> tuple[int, bytes] | None:
    """How many pairs of id and rank there are and their sum; None where a pair has other lengths.

    >>> count, total = fingerprint_of_ids(bytes(32), iter([(b"a" * 32, b"r" * 8)]))
    >>> count, total == fingerprint(bytes(32), b"a" * 32 + b"r" * 8)
    (1, True)
    """
    if _REFERENCE:
        return event_batch_ref.fingerprint_of_ids(key, pairs)
    found: tuple[int, bytes] | None = _native.fingerprint_of_ids(key, pairs)
    return found
