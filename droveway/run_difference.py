"""Where two runs part: what their scenarios say differently, the first event that differs, and the first decision."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from droveway.exits import InputProblem, quoted, reading
from droveway.outside_ids import NO_ZONE, OutsideIds
from droveway.problem_groups import group_text, grouped
from droveway.scenario_difference import DERIVED, scenario_differences

if TYPE_CHECKING:
    from coord.stl import RunReader
    from storage import Cursor, Event, Retired

SHOWN_MAX: Final = 10
RETIRED: Final = "retired"  # stands for the kind of an event whose payload is gone


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

    `common` and `common_root`: how many events from the first on are the same in both, and the root over them.
    `scenario` has every difference of the scenarios (one an array), `decision` the first row of a plan that differs,
    frames paired in their order, None where all decisions that both runs have are the same.
    """

    sizes: tuple[int, int]
    roots: tuple[bytes, bytes]
    common: int
    common_root: bytes
    first: Difference | None = None
    scenario: list[Difference] = field(default_factory=list)
    decision: Difference | None = None

    def __str__(self) -> str:
        if self.first is None:
            return f"equal: {self.sizes[0]} events, root {self.roots[0].hex()}"
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
    """Compare two runs. Raises InputProblem where one of them is damaged.

    Where they part is found from the roots of ever closer prefixes. Roots are not believed: both ledgers are checked
    against their own tree, as `verify` does.
    """
    sizes, roots = (left.size, right.size), (left.root, right.root)
    common = _common(left, right)
    require_whole(left, common)
    require_whole(right, common)
    assert common is not None, "a tree that is whole proves its prefixes"
    same = (sizes, roots, common.rank, common.root)
    if sizes[0] == sizes[1] and roots[0] == roots[1]:
        return Comparison(*same)
    found = _first_difference(common.rank, left, right)
    scenario = found if found[0].rank == 0 and found[0].kind == "coord.scenario" else []
    return Comparison(*same, found[0], scenario, _first_decision(common.rank, left, right))


def _common(left: "RunReader", right: "RunReader") -> "Cursor | None":
    """How far both hold the same, None where damage of a tree hides it."""
    from storage import IntegrityError, common_prefix

    try:
        return common_prefix(left.ledger, right.ledger)
    except IntegrityError:
        return None


def require_whole(reader: "RunReader", common: "Cursor | None") -> None:
    """InputProblem unless every stored byte of a ledger agrees with its root; it tells what both have in common."""
    from storage import PublishedLedger, verify_ledger, verify_published

    path = reader.ledger.path
    published = isinstance(reader.ledger, PublishedLedger)
    report = verify_published(str(path)) if published else verify_ledger(path)
    if not report.ok:
        text = group_text(grouped(report.problems)[0]).removeprefix(f"{path}: ")
        told = "" if common is None else f"; by their trees both have the first {common.rank} events"
        raise InputProblem(
            path, f"expected a whole ledger, got damage: {text}{told}", f"droveway verify {quoted(path)}"
        )


def _events(reader: "RunReader", start: int = 0, stop: int | None = None) -> Iterator[tuple[int, "Event | Retired"]]:
    with reading(reader.ledger.path):
        yield from reader.ledger.scan(start, stop, retired=True)


def _first_difference(rank: int, left: "RunReader", right: "RunReader") -> list[Difference]:
    """What differs in the events at the rank where two runs part: one difference, or, of a scenario, each."""
    from storage import Event

    sizes = (left.size, right.size)
    if rank == min(sizes):
        ((_, longer),) = _events(left if sizes[0] > sizes[1] else right, rank, rank + 1)
        kind, tick = (longer.kind, longer.tick) if isinstance(longer, Event) else (RETIRED, None)
        return [Difference(rank, kind, tick, None, "number of events", *sizes)]
    ((_, event),), ((_, other),) = (list(_events(reader, rank, rank + 1)) for reader in (left, right))
    if isinstance(event, Event) and isinstance(other, Event):
        return _event_differences(rank, event, other, left, right)
    whole = next((one for one in (event, other) if isinstance(one, Event)), None)
    kind, tick = (RETIRED, None) if whole is None else (whole.kind, whole.tick)
    return [Difference(rank, kind, tick, None, "id", event.id, other.id)]


def _event_differences(
    rank: int, event: "Event", other: "Event", left: "RunReader", right: "RunReader"
) -> list[Difference]:
    from coord import stl
    from coord.frames import kinds

    def found(name: str, expected: object, got: object, row: str | None = None) -> Difference:
        return Difference(rank, event.kind, event.tick, row, name, expected, got)

    for name in ("kind", "tick"):
        if getattr(event, name) != getattr(other, name):
            return [found(name, getattr(event, name), getattr(other, name))]
    if event.effect != other.effect:
        if event.kind == kinds.SCENARIO:
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
    from coord.errors import RunError
    from coord.frames import kinds

    if event.kind == kinds.INPUTS:
        states = []
        for reader in (left, right):
            with reading(reader.ledger.path), suppress(RunError):  # what the state depends on may be retired
                states.append(reader.state_at(event.tick).inputs)
        if len(states) < 2:
            return
        yield from _input_differences(states[0], states[1], _ids(left), _ids(right))
    elif event.kind == kinds.FRAME:
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
    from coord.frames.inputs import differences

    for table, identity, name, one, two in differences(ours, theirs):
        row = None if identity is None else f"{table[:-1]} {ids.outside(table[:-1], identity)}"
        yield name if row else f"{table} {name}", ids.value(name, one), their_ids.value(name, two), row


def _frame_differences(
    effect: bytes, other: bytes, place: tuple[int, int, int], ids: OutsideIds, their_ids: OutsideIds
) -> Iterator[Parted]:
    import numpy as np

    from coord.auditing.divergence import FRAME_DTYPE, compare_frames, compare_rows
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


def _frame_events(reader: "RunReader", start: int) -> Iterator[tuple[int, int, "Event"]]:
    """Number (the frame id, which counts them), rank and event of each frame that is not retired."""
    from coord.frames import kinds
    from storage import Event

    for rank, event in _events(reader, start):
        if isinstance(event, Event) and event.kind == kinds.FRAME and len(event.effect) >= 16:
            yield int.from_bytes(event.effect[8:16], "little"), rank, event


def _first_decision(start: int, left: "RunReader", right: "RunReader") -> Difference | None:
    """The first row that differs, frames paired in their order: digests of other inputs are no decision."""
    ids, their_ids = _ids(left), _ids(right)
    ours, theirs = _frame_events(left, start), _frame_events(right, start)
    one, two = next(ours, None), next(theirs, None)
    while one is not None and two is not None:
        if one[0] != two[0]:  # one of them is retired on one side
            one, two = (next(ours, None), two) if one[0] < two[0] else (one, next(theirs, None))
            continue
        _, rank, event = one
        effect = two[2].effect
        if event.effect[128:] != effect[128:]:
            for name, expected, got, row in _frame_differences(
                event.effect, effect, (rank, 0, event.tick), ids, their_ids
            ):
                return Difference(rank, event.kind, event.tick, row, name, expected, got)
        one, two = next(ours, None), next(theirs, None)
    return None
