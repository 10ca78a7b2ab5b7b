"""Event v1: one canonical msgpack map, and its id. The layout stands in docs/formats/event.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from storage import canonical, hashing
from storage.errors import EventError, EventTooLargeError

EVENT_BYTES_MAX = 16 << 20
PRODUCER_BYTES_MAX = 64
PARENTS_MAX = 16

_KIND = re.compile(r"[a-z0-9._-]{1,64}")
_KEYS = list("aekpqst")
_KEYS_WITH_WALL = list("aekpqstw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One record of the ledger.

    producer: who made it, 1..64 bytes of UTF-8.  effect: what it says, bytes that storage never looks into.
    kind: what the effect is, `[a-z0-9._-]{1,64}`.  parents: ids of events it follows from, at most 16, strictly
    ascending.  sequence: grows with each event of a producer, u64.  schema: version of the effect, u32.
    tick: logical time, u64.  wall_ns: wall clock in nanoseconds, i64, advisory, or None.

    Raises TypeError and EventError naming the field.

    >>> note = Event(producer="fleet-1", effect=b"\\0\\xff\\x10", kind="note.text", sequence=0, tick=120)
    >>> note.id.hex()
    '3f4f12e98d9da74286ec67ffd023cfa934a1752e6779ef564af25d8ee1510716'
    >>> Event.decode(note.encode()) == note
    True
    """

    producer: str
    effect: bytes
    kind: str
    parents: tuple[bytes, ...] = ()
    sequence: int
    schema: int = 1
    tick: int
    wall_ns: int | None = None

    def __post_init__(self) -> None:
        _check_type("producer", self.producer, str)
        _check_type("effect", self.effect, bytes)
        _check_type("kind", self.kind, str)
        if not 1 <= len(self._producer_bytes()) <= PRODUCER_BYTES_MAX:
            raise EventError(f"Event: producer must be 1..{PRODUCER_BYTES_MAX} bytes of UTF-8, got {self.producer!r}")
        if _KIND.fullmatch(self.kind) is None:
            raise EventError(f"Event: kind must match [a-z0-9._-]{{1,64}}, got {self.kind!r}")
        if type(self.parents) is not tuple:
            _check_type("parents", self.parents, list)
            object.__setattr__(self, "parents", tuple(self.parents))
        if self.parents:
            _check_parents(self.parents)
        _check_range("sequence", self.sequence, 0, 64)
        _check_range("schema", self.schema, 0, 32)
        _check_range("tick", self.tick, 0, 64)
        if self.wall_ns is not None:
            _check_range("wall_ns", self.wall_ns, -(1 << 63), 63)

    def _producer_bytes(self) -> bytes:
        try:
            return self.producer.encode()
        except UnicodeEncodeError as error:
            raise EventError(f"Event: producer is not Unicode text: {error.reason}") from None

    def encode(self) -> bytes:
        """The event bytes. Raises EventTooLargeError above 16 MiB."""
        if len(self.effect) >= EVENT_BYTES_MAX:
            raise EventTooLargeError(_too_large(f"an effect of {len(self.effect)}"))
        producer, kind = self._producer_bytes(), self.kind.encode()
        parents = len(self.parents)
        parts = [
            b"\x87\xa1a" if self.wall_ns is None else b"\x88\xa1a",
            _string(producer),
            b"\xa1e",
            _bin_header(len(self.effect)),
            self.effect,
            b"\xa1k",
            _string(kind),
            b"\xa1p",
            bytes((0x90 | parents,)) if parents < 16 else b"\xdc\x00\x10",
            *(b"\xc4\x20" + parent for parent in self.parents),
            b"\xa1q" + _integer(self.sequence) + b"\xa1s" + _integer(self.schema) + b"\xa1t" + _integer(self.tick),
        ]
        if self.wall_ns is not None:
            parts.append(b"\xa1w" + _integer(self.wall_ns))
        data = b"".join(parts)
        if len(data) > EVENT_BYTES_MAX:
            raise EventTooLargeError(_too_large(f"{len(data)}"))
        return data

    @property
    def id(self) -> bytes:
        """32 bytes: BLAKE3 in derive-key mode, context `droveway ledger event v1`, of the event bytes."""
        return hashing.event_id(self.encode())

    @classmethod
    def decode(cls, data: bytes) -> Event:
        """The event of canonical bytes.

        Raises EventTooLargeError above 16 MiB, CanonicalError with the offset, EventError for a canonical value
        that is no event.
        """
        if type(data) is not bytes:
            raise TypeError(f"Event.decode: data must be bytes, got {type(data).__name__}")
        if len(data) > EVENT_BYTES_MAX:
            raise EventTooLargeError(_too_large(f"{len(data)}"))
        fields = _parse(data)
        if fields is None:
            fields = _fields(canonical.unpack(data, bytes_max=EVENT_BYTES_MAX))
        try:
            return cls(**fields)
        except TypeError as error:
            raise EventError(str(error)) from None


def _too_large(what: str) -> str:
    return f"Event: {what} bytes, the limit is {EVENT_BYTES_MAX}"


def _check_type(name: str, value: object, kind: type) -> None:
    if type(value) is not kind:
        raise TypeError(f"Event: {name} must be {kind.__name__}, got {type(value).__name__}")


def _check_range(name: str, value: int, low: int, bits: int) -> None:
    _check_type(name, value, int)
    if not low <= value < 1 << bits:
        raise EventError(f"Event: {name} must be in [{low}, 2**{bits}), got {value}")


def _check_parents(parents: tuple[bytes, ...]) -> None:
    if len(parents) > PARENTS_MAX:
        raise EventError(f"Event: at most {PARENTS_MAX} parents, got {len(parents)}")
    for parent in parents:
        _check_type("each parent", parent, bytes)
        if len(parent) != 32:
            raise EventError(f"Event: each parent must have 32 bytes, got {len(parent)}")
    if any(a >= b for a, b in pairwise(parents)):
        raise EventError("Event: parents must be strictly ascending")


def _string(data: bytes) -> bytes:
    n = len(data)
    return (bytes((0xA0 | n,)) if n < 32 else bytes((0xD9, n))) + data


def _bin_header(n: int) -> bytes:
    if n < 1 << 8:
        return bytes((0xC4, n))
    return b"\xc5" + n.to_bytes(2, "big") if n < 1 << 16 else b"\xc6" + n.to_bytes(4, "big")


def _integer(value: int) -> bytes:
    if 0 <= value < 128:
        return bytes((value,))
    if value < 0:
        return canonical.pack(value)
    width = 1 if value < 1 << 8 else 2 if value < 1 << 16 else 4 if value < 1 << 32 else 8
    return bytes((0xCB + width.bit_length(),)) + value.to_bytes(width, "big")


def _fields(value: Any) -> dict[str, Any]:
    """The constructor's arguments from a decoded map, or EventError for another shape."""
    if type(value) is not dict:
        raise EventError(f"Event: expected a map, got {type(value).__name__}")
    if list(value) not in (_KEYS, _KEYS_WITH_WALL):
        raise EventError(f"Event: expected the keys a e k p q s t and perhaps w, got {' '.join(map(repr, value))}")
    return {
        "producer": value["a"], "effect": value["e"], "kind": value["k"], "parents": value["p"],
        "sequence": value["q"], "schema": value["s"], "tick": value["t"], "wall_ns": _wall(value),
    }  # fmt: skip


def _wall(value: dict[str, Any]) -> object:
    if "w" in value and value["w"] is None:
        raise EventError("Event: wall_ns must be int, got NoneType")
    return value.get("w")


def _parse(data: bytes) -> dict[str, Any] | None:
    """The fields of a well-formed event, read straight from the bytes; None where anything looks odd.

    Every header is checked to be the shortest, so whatever passes is canonical; whatever doesn't goes through
    the scan, which names the fault. Only the effect is copied.
    """
    try:
        if data[:3] not in (b"\x87\xa1a", b"\x88\xa1a"):
            return None
        producer, at = _parse_string(data, 3)
        effect, at = _parse_bin(data, _after(data, at, b"\xa1e"))
        kind, at = _parse_string(data, _after(data, at, b"\xa1k"))
        parents, at = _parse_parents(data, _after(data, at, b"\xa1p"))
        sequence, at = _parse_unsigned(data, _after(data, at, b"\xa1q"))
        schema, at = _parse_unsigned(data, _after(data, at, b"\xa1s"))
        tick, at = _parse_unsigned(data, _after(data, at, b"\xa1t"))
        wall_ns = None
        if data[0] == 0x88:
            wall_ns, at = _parse_unsigned(data, _after(data, at, b"\xa1w"))
    except (IndexError, UnicodeDecodeError, _OddError):
        return None
    if at != len(data):
        return None
    return {
        "producer": producer, "effect": effect, "kind": kind, "parents": parents,
        "sequence": sequence, "schema": schema, "tick": tick, "wall_ns": wall_ns,
    }  # fmt: skip


class _OddError(Exception):
    """Something the straight reading doesn't handle."""


def _after(data: bytes, at: int, key: bytes) -> int:
    if data[at : at + 2] != key:
        raise _OddError
    return at + 2


def _parse_parents(data: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    if not 0x90 <= data[at] <= 0x9F:
        raise _OddError
    stop = at + 1 + 34 * (data[at] & 0x0F)
    if stop > len(data):
        raise _OddError
    starts = range(at + 1, stop, 34)
    if any(data[start : start + 2] != b"\xc4\x20" for start in starts):
        raise _OddError
    return tuple(data[start + 2 : start + 34] for start in starts), stop


def _parse_string(data: bytes, at: int) -> tuple[str, int]:
    code = data[at]
    if 0xA0 <= code <= 0xBF:
        start, length = at + 1, code & 0x1F
    elif code == 0xD9 and data[at + 1] >= 32:
        start, length = at + 2, data[at + 1]
    else:
        raise _OddError
    if start + length > len(data):
        raise _OddError
    return data[start : start + length].decode(), start + length


def _parse_bin(data: bytes, at: int) -> tuple[bytes, int]:
    width = {0xC4: 1, 0xC5: 2, 0xC6: 4}.get(data[at])
    if width is None:
        raise _OddError
    start = at + 1 + width
    length = int.from_bytes(data[at + 1 : start], "big")
    if start + length > len(data) or length < (0, 0, 1 << 8, 0, 1 << 16)[width]:
        raise _OddError
    return data[start : start + length], start + length


def _parse_unsigned(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    if code < 0x80:
        return code, at + 1
    if not 0xCC <= code <= 0xCF:
        raise _OddError
    stop = at + 1 + (1 << (code - 0xCC))
    value = int.from_bytes(data[at + 1 : stop], "big")
    if stop > len(data) or value < (128, 1 << 8, 1 << 16, 1 << 32)[code - 0xCC]:
        raise _OddError
    return value, stop
