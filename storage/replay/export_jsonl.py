"""Events as JSON lines: written, and read back with every id checked. Written in docs/formats/events-jsonl.md."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from storage import regular_file, tree
from storage.errors import ForkError, IntegrityError, RollbackError, StorageError
from storage.event import EVENT_BYTES_MAX, Event
from storage.mending.retire import Retired
from storage.tree import Head

if TYPE_CHECKING:
    from storage.reader import Reader

EXACT_MAX: Final = 1 << 53  # above it many readers of JSON lose digits
LINE_BYTES_MAX: Final = (EVENT_BYTES_MAX + 2) // 3 * 4 + 4096
_EVENT_KEYS = ("rank", "id", "producer", "kind", "sequence", "schema", "tick", "wall_ns", "parents", "effect")
_RETIRED_KEYS = ("rank", "id", "length", "retired")

Progress = Callable[[int, int], None]


def line(rank: int, event: Event | Retired) -> str:
    """The line of an event, without its end.

    >>> print(line(7, Retired(bytes(32), 265)))
    {"rank":7,"id":"0000000000000000000000000000000000000000000000000000000000000000","length":265,"retired":true}
    """
    record: dict[str, object] = {"rank": _number(rank), "id": event.id.hex()}
    if isinstance(event, Retired):
        record |= {"length": _number(event.length), "retired": True}
    else:
        record |= {
            "producer": event.producer,
            "kind": event.kind,
            "sequence": _number(event.sequence),
            "schema": event.schema,
            "tick": _number(event.tick),
            "wall_ns": None if event.wall_ns is None else _number(event.wall_ns),
            "parents": [parent.hex() for parent in event.parents],
            "effect": base64.b64encode(event.effect).decode(),
        }
    return json.dumps(record, separators=(",", ":"))


def write_jsonl(reader: Reader, stream: IO[bytes], progress: Progress | None = None) -> tuple[int, int]:
    """Write every event of a ledger; how many there were, and how many of them retired. Raises as scanning does."""
    size = reader.head().size
    retired = 0
    for rank, event in reader.scan(0, size, retired=True):
        stream.write(line(rank, event).encode() + b"\n")
        retired += isinstance(event, Retired)
        if progress is not None and (rank & 0xFF == 0xFF or rank + 1 == size):
            progress(rank + 1, size)
    return size, retired


def read_jsonl(path: str | os.PathLike[str], expect: Head | None = None) -> Iterator[tuple[int, Event | Retired]]:
    """Ranks and events of a file, each checked: the ranks follow each other, ids are those of the events.

    expect: size and root that the events must add up to; events that are missing at the end show only then.

    Raises IntegrityError naming the first bad rank and its line, RollbackError and ForkError where the events are fewer
    than, or others than, `expect`; StorageError where the file can't be read.

    >>> import tempfile
    >>> from storage import Ledger
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
    ...     receipt = ledger.append(Event(producer="a", effect=b"hello", kind="note.text", sequence=0, tick=0))
    ...     report = ledger.export(jsonl=folder + "/events.jsonl")
    ...     [(rank, event.effect) for rank, event in read_jsonl(folder + "/events.jsonl", ledger.head())]
    [(0, b'hello')]
    """
    name = os.fspath(path)
    frontier, size = b"", 0
    try:
        with os.fdopen(regular_file.open_to_read(Path(path)), "rb") as stream:
            while data := stream.readline(LINE_BYTES_MAX + 1):
                event = _read(data, size, name)
                if expect is not None:
                    record = tree.leaf(event.id, event.length if isinstance(event, Retired) else len(event.encode()))
                    frontier = tree.frontier_extend(size, frontier, tree.leaf_hash(record))
                yield size, event
                size += 1
    except OSError as error:
        raise StorageError(f"{name}: can't be read: {error.strerror}") from error
    if expect is not None:
        _require(expect, Head(size, tree.frontier_root(frontier)), name)


def _require(expect: Head, found: Head, name: str) -> None:
    if found.size < expect.size:
        text = f"{name}: expected {expect.size} events, got {found.size}: rank {found.size} is missing"
        raise RollbackError(text, expect.size, found.size)
    if found != expect:
        raise ForkError(
            f"{name}: expected {expect.size} events with the root {expect.root.hex()}, got {found.size} with "
            f"{found.root.hex()}"
        )


def _read(data: bytes, rank: int, name: str) -> Event | Retired:
    def bad(text: str) -> IntegrityError:
        return IntegrityError(f"{name}: line {rank + 1}, rank {rank}: {text}", (rank,), name)

    if len(data) > LINE_BYTES_MAX or not data.endswith(b"\n"):
        raise bad(f"expected a line of at most {LINE_BYTES_MAX} bytes that ends in a newline")
    try:
        fields = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
        if type(fields) is not dict:
            raise ValueError(f"expected an object, got {type(fields).__name__}")
        keys = _RETIRED_KEYS if "retired" in fields else _EVENT_KEYS
        if set(fields) != set(keys):
            raise ValueError(f"expected the keys {' '.join(keys)}, got {' '.join(map(ascii, fields))[:200]}")
        found = _integer("rank", fields["rank"])
        if found != rank:
            raise ValueError(f"expected rank {rank}, got {found}: an event was lost, doubled or moved")
        event_id = _hex("id", fields["id"])
        event = _retired(fields, event_id) if "retired" in fields else _event(fields)
    except (ValueError, TypeError, RecursionError) as error:
        text = "expected one JSON object" if isinstance(error, json.JSONDecodeError | RecursionError) else str(error)
        raise bad(text) from error
    if event.id != event_id:
        raise bad(f"the id is {event_id.hex()}, that of the event is {event.id.hex()}")
    return event


def _event(fields: dict[str, Any]) -> Event:
    if type(fields["parents"]) is not list:
        raise ValueError(f"parents must be an array, got {type(fields['parents']).__name__}")
    return Event(
        producer=fields["producer"],
        effect=_base64(fields["effect"]),
        kind=fields["kind"],
        parents=tuple(_hex("a parent", parent) for parent in fields["parents"]),
        sequence=_integer("sequence", fields["sequence"]),
        schema=_integer("schema", fields["schema"]),
        tick=_integer("tick", fields["tick"]),
        wall_ns=None if fields["wall_ns"] is None else _integer("wall_ns", fields["wall_ns"]),
    )


def _retired(fields: dict[str, Any], event_id: bytes) -> Retired:
    if fields["retired"] is not True:
        raise ValueError(f"retired must be true, got {ascii(fields['retired'])[:40]}")
    length = _integer("length", fields["length"])
    if not 0 < length < 1 << 64:
        raise ValueError(f"length must be in [1, 2**64), got {length}")
    return Retired(event_id, length)


def _number(value: int) -> int | str:
    return value if -EXACT_MAX <= value <= EXACT_MAX else str(value)


def _integer(name: str, value: object) -> int:
    """A number, or beyond 2^53 its text, in the one form that is written."""
    if type(value) is int and -EXACT_MAX <= value <= EXACT_MAX:
        return value
    if type(value) is str and len(value) <= 20 and value.isascii() and value.removeprefix("-").isdigit():
        number = int(value)
        if _number(number) == value:
            return number
    raise ValueError(f"{name} must be a whole number, beyond 2^53 as text, got {ascii(value)[:40]}")


def _hex(name: str, value: object) -> bytes:
    if type(value) is str and len(value) == 64 and not set(value) - set("0123456789abcdef"):
        return bytes.fromhex(value)
    raise ValueError(f"{name} must be 64 hexadecimal digits, got {ascii(value)[:80]}")


def _base64(value: object) -> bytes:
    if type(value) is not str:
        raise ValueError(f"effect must be text in base64, got {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("effect must be standard base64 with padding") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _refuse(text: str) -> None:
    raise ValueError(f"expected numbers, got {text}")
