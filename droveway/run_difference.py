"""Where two runs part: what their scenarios say differently, the first event that differs, and the first decision."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from droveway.exits import InputProblem, quoted, reading
from droveway.outside_ids import NO_ZONE, OutsideIds
from droveway.problem_groups import group_text, grouped
from droveway.scenario_difference import DERIVED, scenario_differences

if TYPE_CHECKING:
    from coord.stl import RunReader
    from storage import Event

SHOWN_MAX: Final = 10


@dataclass(frozen=True)
class Difference:
    """One difference; `row` is "agent 7", "zone 3" or another record of the inputs, None outside a table."""

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
        sides = f"{self._shown(self.expected)} ≠ {self._shown(self.got)}"
        return f"rank {self.rank}: {self.kind}{at}{row}, {self.field}: {sides}"

    def _shown(self, value: object) -> str:
        if self.field == "zone" and value in (None, NO_ZONE):
            return "none"
        text = value.hex() if isinstance(value, bytes) else str(value)
        return text if len(text) <= 80 else text[:77] + "…"

    def to_dict(self) -> dict[str, object]:
        """The fields as they stand in JSON."""
        names = ("rank", "kind", "tick", "row", "field", "expected", "got")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side: `first` is None when they hold the same events.

    `scenario` has every difference of the scenarios (one an array), `decision` the first row of a plan that differs,
    frames paired in their order, None where all decisions that both runs have are the same.
    """

    sizes: tuple[int, int]
    root: bytes
    first: Difference | None = None
    scenario: list[Difference] = field(default_factory=list)
    decision: Difference | None = None

    def __str__(self) -> str:
        if self.first is None:
            return f"equal: {self.sizes[0]} events, root {self.root.hex()}"
        told = [self.first] if self.first not in self.scenario else self.scenario[:SHOWN_MAX]
        lines = [str(difference) for difference in told]
        hidden = len(self.scenario) - SHOWN_MAX
        if hidden > 0:
            lines.append(f"and {hidden} more of the scenario")
        if self.decision is None:
            lines.append("no decision that both have is another")
        elif self.decision != self.first:
            lines += ["the first other decision:", str(self.decision)]
        return "\n".join(lines)


def compare(left: "RunReader", right: "RunReader") -> Comparison:
    """Compare two runs event by event. Raises InputProblem where one of them is damaged.

    Equal heads are not believed: both ledgers are checked against their own tree, as `verify` does.
    """
    sizes, root = (left.size, right.size), left.root
    if (left.size, left.root) == (right.size, right.root):
        require_whole(left)
        require_whole(right)
        return Comparison(sizes, root)
    found = _first_difference(left, right)
    if found is None:
        require_whole(left)
        require_whole(right)
        raise AssertionError("the same events have the same root")
    scenario = found if found[0].rank == 0 and found[0].kind == "coord.scenario" else []
    return Comparison(sizes, root, found[0], scenario, _first_decision(left, right))


def require_whole(reader: "RunReader") -> None:
    """InputProblem unless every stored byte of a ledger agrees with its root."""
    from storage import verify_ledger

    path = reader.ledger.path
    report = verify_ledger(path)
    if not report.ok:
        text = group_text(grouped(report.problems)[0]).removeprefix(f"{path}: ")
        raise InputProblem(path, f"expected a whole ledger, got damage: {text}", f"droveway verify {quoted(path)}")


def _events(reader: "RunReader") -> Iterator[tuple[int, "Event"]]:
    with reading(reader.ledger.path):
        yield from reader.ledger.scan()


def _first_difference(left: "RunReader", right: "RunReader") -> list[Difference] | None:
    """The first event that differs: one difference, or, of a scenario, each."""
    for (rank, event), (_, other) in zip(_events(left), _events(right), strict=False):
        if event != other:
            return _event_differences(rank, event, other, left, right)
    sizes = (left.size, right.size)
    if sizes[0] == sizes[1]:
        return None
    longer = (left if sizes[0] > sizes[1] else right).ledger.at(min(sizes))
    return [Difference(min(sizes), longer.kind, longer.tick, None, "number of events", *sizes)]


def _event_differences(
    rank: int, event: "Event", other: "Event", left: "RunReader", right: "RunReader"
) -> list[Difference]:
    from coord import stl

    def found(name: str, expected: object, got: object, row: str | None = None) -> Difference:
        return Difference(rank, event.kind, event.tick, row, name, expected, got)

    for name in ("kind", "tick"):
        if getattr(event, name) != getattr(other, name):
            return [found(name, getattr(event, name), getattr(other, name))]
    if event.effect != other.effect:
        if event.kind == stl.SCENARIO:
            parted = scenario_differences(stl.scenario_map(event), stl.scenario_map(other))
            told = [found(*difference) for difference in parted]
            return (_first_state(rank, event, left, right) or told) if told[0].field in DERIVED else told
        for difference in _effect_differences(rank, event, other, left, right):
            return [found(*difference)]
    for name in ("producer", "sequence", "schema", "parents", "wall_ns"):
        if getattr(event, name) != getattr(other, name):
            return [found(name, getattr(event, name), getattr(other, name))]
    return [found("effect", event.effect, other.effect)]


def _first_state(rank: int, event: "Event", left: "RunReader", right: "RunReader") -> list[Difference]:
    """Where only digests of the scenarios differ: the agents and zones of the first tick, field by field."""
    from coord.errors import RunError

    states = []
    for reader in (left, right):
        with reading(reader.ledger.path):
            try:
                states.append(reader.state_at(event.tick).inputs)
            except RunError:  # a run without a plan
                return []
    parted = _input_differences(states[0], states[1], _ids(left), _ids(right))
    return [Difference(rank, event.kind, event.tick, row, name, one, two) for name, one, two, row in parted]


Parted = tuple[str, object, object, str | None]


def _effect_differences(
    rank: int, event: "Event", other: "Event", left: "RunReader", right: "RunReader"
) -> Iterator[Parted]:
    from coord import stl

    if event.kind == stl.INPUTS:
        states = []
        for reader in (left, right):
            with reading(reader.ledger.path):
                states.append(reader.state_at(event.tick).inputs)
        yield from _input_differences(states[0], states[1], _ids(left), _ids(right))
    elif event.kind == stl.FRAME:
        yield from _frame_differences(event.effect, other.effect, (rank, 0, event.tick), _ids(left), _ids(right))
    else:
        yield from _map_differences(event.effect, other.effect)


def _map_differences(effect: bytes, other: bytes) -> Iterator[Parted]:
    """Events of other kinds: key by key, where both are maps of canonical msgpack."""
    from storage import StorageError, canonical

    try:
        ours, theirs = canonical.unpack(effect), canonical.unpack(other)
    except StorageError:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            if ours.get(key) != theirs.get(key):
                yield key, ours.get(key), theirs.get(key), None


def _ids(reader: "RunReader") -> OutsideIds:
    from droveway.reading_run import ids_of

    return ids_of(reader.ledger)


def _input_differences(ours: Any, theirs: Any, ids: OutsideIds, their_ids: OutsideIds) -> Iterator[Parted]:
    from coord.inputs import differences

    for table, identity, name, one, two in differences(ours, theirs):
        row = None if identity is None else f"{table[:-1]} {ids.outside(table[:-1], identity)}"
        yield name if row else f"{table} {name}", ids.value(name, one), their_ids.value(name, two), row


def _frame_differences(
    effect: bytes, other: bytes, place: tuple[int, int, int], ids: OutsideIds, their_ids: OutsideIds
) -> Iterator[Parted]:
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
        row = None if found.agent is None else f"agent {ids.outside('agent', found.agent)}"
        yield found.field, ids.value(found.field, found.expected), their_ids.value(found.field, found.got), row


def _frame_events(reader: "RunReader") -> Iterator[tuple[int, "Event"]]:
    from coord import stl

    return ((rank, event) for rank, event in _events(reader) if event.kind == stl.FRAME)


def _first_decision(left: "RunReader", right: "RunReader") -> Difference | None:
    """The first row that differs, frames paired in their order: digests of other inputs are no decision."""
    ids, their_ids = _ids(left), _ids(right)
    for (rank, event), (_, other) in zip(_frame_events(left), _frame_events(right), strict=False):
        if event.effect[128:] == other.effect[128:]:
            continue
        for name, one, two, row in _frame_differences(
            event.effect, other.effect, (rank, 0, event.tick), ids, their_ids
        ):
            return Difference(rank, event.kind, event.tick, row, name, one, two)
    return None
