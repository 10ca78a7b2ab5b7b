"""Where two runs part: the first event that differs, and in it the tick, the agent and the field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coord.stl import RunReader
    from storage import Event


@dataclass(frozen=True)
class Difference:
    """The first difference; `row` is "agent 7", "zone 3" or another record of the inputs, None outside a table."""

    rank: int
    kind: str
    tick: int | None
    row: str | None
    field: str
    expected: object
    got: object

    def __str__(self) -> str:
        at = "" if self.tick is None else f", tick {self.tick}"
        row = "" if self.row is None else f", {self.row}"
        return f"rank {self.rank}: {self.kind}{at}{row}, {self.field}: {_shown(self.expected)} ≠ {_shown(self.got)}"


def first_difference(left: "RunReader", right: "RunReader") -> Difference | None:
    """Compare two runs event by event; None when they hold the same events.

    Equal roots over equal sizes say that without reading a single event.
    """
    if (left.size, left.root) == (right.size, right.root):
        return None
    ours, theirs = left.ledger.scan(), right.ledger.scan()
    for (rank, event), (_, other) in zip(ours, theirs, strict=False):
        if event != other:
            return _event_difference(rank, event, other, left, right)
    sizes = (left.size, right.size)
    longer = (left if sizes[0] > sizes[1] else right).ledger.at(min(sizes))
    return Difference(min(sizes), longer.kind, longer.tick, None, "number of events", *sizes)


def _event_difference(rank: int, event: "Event", other: "Event", left: "RunReader", right: "RunReader") -> Difference:
    def found(field: str, expected: object, got: object, row: str | None = None) -> Difference:
        return Difference(rank, event.kind, event.tick, row, field, expected, got)

    if event.kind != other.kind:
        return found("kind", event.kind, other.kind)
    if event.tick != other.tick:
        return found("tick", event.tick, other.tick)
    if event.effect != other.effect:
        for field, expected, got, row in _effect_differences(rank, event, other, left, right):
            return found(field, expected, got, row)
    for field in ("producer", "sequence", "schema", "parents", "wall_ns"):
        if getattr(event, field) != getattr(other, field):
            return found(field, getattr(event, field), getattr(other, field))
    return found("effect", event.effect, other.effect)


Parted = tuple[str, object, object, str | None]


def _effect_differences(
    rank: int, event: "Event", other: "Event", left: "RunReader", right: "RunReader"
) -> Iterator[Parted]:
    from coord import stl

    if event.kind == stl.SCENARIO:
        yield from _map_differences(stl.scenario_map(event), stl.scenario_map(other), "")
    elif event.kind == stl.INPUTS:
        yield from _input_differences(left.state_at(event.tick).inputs, right.state_at(event.tick).inputs)
    elif event.kind == stl.FRAME:
        yield from _frame_differences(event.effect, other.effect, (rank, 0, event.tick))


def _map_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str) -> Iterator[Parted]:
    # The digest of the text differs whenever anything does: named last.
    for key in sorted({*ours, *theirs}, key=lambda key: (key == "toml", key)):
        one, two = ours.get(key), theirs.get(key)
        if one == two:
            continue
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            yield from _map_differences(one, two, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", one, two, None


def _input_differences(ours: Any, theirs: Any) -> Iterator[Parted]:
    from coord.inputs import differences

    for table, identity, field, one, two in differences(ours, theirs):
        row = None if identity is None else f"{table[:-1]} {identity}"
        yield field if row else f"{table} {field}", one, two, row


def _frame_differences(effect: bytes, other: bytes, place: tuple[int, int, int]) -> Iterator[Parted]:
    import numpy as np

    from coord.divergence import FRAME_DTYPE, compare_frames, compare_rows
    from coord.records import ROW_DTYPE

    # The bytes as they are: a frame that its own checks would refuse is compared all the same.
    head = FRAME_DTYPE.itemsize
    if min(len(effect), len(other)) < head or (len(effect) - head) % 32 or (len(other) - head) % 32:
        return
    frames = [np.frombuffer(data[:head], FRAME_DTYPE)[0] for data in (effect, other)]
    rows = [np.frombuffer(data[head:], ROW_DTYPE) for data in (effect, other)]
    for found in (*compare_rows(place, *rows), *compare_frames(place, *frames)):
        yield found.field, found.expected, found.got, None if found.agent is None else f"agent {found.agent}"


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value[:16].hex() + ("…" if len(value) > 16 else "")
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "…"
