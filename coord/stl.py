"""Runs in the ledger: the only file of coord that imports storage, and only when a function is called.

What a run's ledger holds: `docs/formats/coord-scenario.md` and `coord-inputs.md`. `coordination_stl` is the narrow door
for callers that only keep decisions: append, look up, decode, merge a replay, flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from coord.auditing.report import Problem, Report
from coord.errors import CoordError, FrameError, OutputError, RunError
from coord.frames.decisions import DecisionLedger
from coord.frames.frame import DecisionFrame, decode_frame_event, encode_frame_event
from coord.frames.kinds import CHANGE, FRAME, INPUTS, SCENARIO, SCHEMA, StoredEvent
from coord.frames.run_reader import FrameView as FrameView  # noqa: PLC0414 - it has always been found here
from coord.frames.run_reader import RunReader as RunReader  # noqa: PLC0414
from coord.simulation.chronicle import Entry
from coord.simulation.events import FleetEvent
from coord.simulation.setup import Setup

if TYPE_CHECKING:
    from coord.fields.field_map import CellBox, FieldMap
    from coord.frames.zone_catalog import ZoneCatalog
    from storage import Event as Event  # noqa: PLC0414 - for audit and simulate, which don't import storage
    from storage import Ledger as Ledger  # noqa: PLC0414
    from storage import PublishedLedger as PublishedLedger  # noqa: PLC0414
    from storage import Reader as Reader  # noqa: PLC0414
    from storage import Receipt
    from storage.ledger_visitor import Visitor

Records = npt.NDArray[np.void]
Sync = Literal["fsync", "os"]

UNREAD_IN_A_ROW_MAX = 1 << 16


def scenario_event(setup: Setup) -> Event:
    """The event at rank 0."""
    from storage import Event, canonical

    effect = canonical.pack(setup.to_map())
    return Event(producer=setup.producer, effect=effect, kind=SCENARIO, sequence=0, schema=SCHEMA, tick=0)


def entry_events(entry: Entry, producer: str, sequence: int) -> list[Event]:
    """The events of one planned tick: inputs parts, then the frame, whose parents they are."""
    from storage import Event

    events = [
        Event(producer=producer, effect=part, kind=INPUTS, sequence=sequence + i, schema=SCHEMA, tick=entry.tick)
        for i, part in enumerate(entry.parts)
    ]
    parents = tuple(sorted(event.id for event in events))
    frame = Event(
        producer=producer, effect=entry.frame_effect(), kind=FRAME, parents=parents,
        sequence=sequence + len(events), schema=SCHEMA, tick=entry.tick,
    )  # fmt: skip
    return [*events, frame]


def change_events(happened: Sequence[FleetEvent], producer: str, sequence: int) -> list[Event]:
    """The `coord.event` events of one tick, in the order in which they were applied."""
    from storage import Event, canonical

    return [
        Event(
            producer=producer, effect=canonical.pack(change.to_map()), kind=CHANGE, sequence=sequence + i,
            schema=SCHEMA, tick=change.tick,
        )
        for i, change in enumerate(happened)
    ]  # fmt: skip


def fleet_event(event: Event) -> FleetEvent:
    """What a `coord.event` event says. Raises RunError when it is none."""
    from storage import StorageError, canonical

    try:
        value = canonical.unpack(event.effect)
        if not isinstance(value, dict):
            raise ValueError(f"expected a map, got {type(value).__name__}")
        return FleetEvent.from_map(value, event.tick)
    except (StorageError, ValueError) as error:
        raise RunError(f"{CHANGE}: {error}") from error


def scenario_map(event: Event) -> Mapping[str, Any]:
    """The map in a scenario event. Raises RunError when it is none."""
    from storage import StorageError, canonical

    if event.kind != SCENARIO:
        raise RunError(f"rank 0: expected an event of kind {SCENARIO}, got {event.kind}")
    try:
        value = canonical.unpack(event.effect)
    except StorageError as error:
        raise RunError(f"rank 0: {SCENARIO}: {error}") from error
    if not isinstance(value, dict):
        raise RunError(f"rank 0: {SCENARIO}: expected a map, got {type(value).__name__}")
    return value


class RunWriter:
    """Writes one run: the scenario, then each tick at which something happened or was planned as one atomic batch."""

    def __init__(self, ledger: Ledger, setup: Setup) -> None:
        self._ledger = ledger
        self._producer = setup.producer
        self._sequence = 1
        ledger.append(scenario_event(setup))

    def write(self, entry: Entry | None, happened: Sequence[FleetEvent] = ()) -> None:
        """Append what happened at one tick, and the inputs and frame of its plan where there is one, all or nothing."""
        events = change_events(happened, self._producer, self._sequence)
        if entry is not None:
            events += entry_events(entry, self._producer, self._sequence + len(events))
        self._ledger.append_many(events)
        self._sequence += len(events)

    def head(self) -> tuple[int, bytes]:
        """Size and root."""
        head = self._ledger.head()
        return head.size, head.root


def check_output(path: Path) -> None:
    """OutputError unless the path does not exist or is an empty folder."""
    try:
        if path.is_dir():
            if any(path.iterdir()):
                raise OutputError(f"{path}: expected no folder, or an empty one")
        elif path.exists() or path.is_symlink():
            raise OutputError(f"{path}: expected a folder that does not exist yet, got a file")
    except OSError as error:
        raise error if isinstance(error, OutputError) else OutputError(f"{path}: {error.strerror}") from error


def create_ledger(path: Path, sync: Sync) -> Ledger:
    """A new ledger in the folder of a run. OutputError where another process has filled it in the meantime."""
    from storage import Ledger

    ledger = Ledger.open(path, mode="rw", sync=sync)
    if ledger.head().size:
        ledger.close()
        raise OutputError(f"{path}: another run was written there in the meantime (hint: choose another -o)")
    return ledger


def remove_run(path: Path, was_there: bool) -> None:
    """Remove a run without a frame that this process wrote, and its folder unless that was there before."""
    with suppress(OSError):
        for file in (path / "ledger").iterdir():
            file.unlink()
        (path / "ledger").rmdir()
        for name in ("HEAD", "HEAD.tmp"):
            (path / name).unlink(missing_ok=True)
        if not was_there:
            path.rmdir()


def head_of(place: Path) -> tuple[int, str] | None:
    """Size and root (hexadecimal) that the HEAD of a run says; None without one. The ledger itself is not opened: a
    process that has opened one can't be forked into others that do."""
    from storage import StorageError
    from storage.head import read

    try:
        found = read(place / "HEAD")
    except StorageError:
        return None
    return None if found is None or not (place / "ledger").is_dir() else (found.size, found.root.hex())


def is_published(place: str | Path) -> bool:
    """Whether a place is where a ledger is published (a URL, or a folder with a checkpoint), and no RUN."""
    from storage.publication.published import is_published

    return is_published(str(place))


def open_ledger(place: str | Path) -> Ledger | PublishedLedger:
    """The ledger of a run, or one that is published at a URL, read-only: nothing there changes."""
    from storage import Ledger, open_published

    return open_published(str(place)) if is_published(place) else Ledger.open(place, mode="r")


def open_run(path: str | Path) -> RunReader:
    """Open the folder of a run read-only, or a run that is published at a URL.

    >>> import tempfile
    >>> from coord import Scenario, simulate
    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = simulate(site, 3, ledger=folder + "/run")
    ...     with open_run(folder + "/run") as reader:
    ...         print(reader.scenario.name, [view.frame.tick for view in reader.frames()])
    two [0, 1, 2]
    """
    return RunReader(open_ledger(path), owned=True)


def open_zone_catalog(run: str | Path, catalog: str | Path, cell_m: float = 1.0) -> ZoneCatalog:
    """The zones of a run by cells of `cell_m` metres, and its frames by number and tick.

    catalog: a folder of the caller's, never in RUN; made where it is missing, brought up to the ledger otherwise.
    Raises what `Ledger.open` and `Catalog.open` raise, and RunError, InputsError, FrameError for a ledger of no run.

    >>> import tempfile
    >>> from coord import Scenario, simulate
    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = simulate(site, 3, ledger=folder + "/run")
    ...     with open_zone_catalog(folder + "/run", folder + "/zones", 10.0) as zones:
    ...         print(len(zones.zones()), [frame.tick for _, frame in zones.frames(1)], zones.decisions(0, 2).frames)
    3 [1, 2] 2
    """
    from coord.frames.run_entries import TickWalk, from_start
    from coord.frames.zone_catalog import ZoneCatalog, zone_entries
    from storage import Catalog

    ledger = open_ledger(run)

    def entries(events: Iterator[tuple[int, StoredEvent]], start: int) -> Iterator[tuple[bytes, bytes | None]]:
        return zone_entries(TickWalk(ledger, start), events, cell_m)

    try:
        opened = Catalog.open(catalog, ledger, from_start(entries), name=f"coord.zones/1 {float(cell_m)!r}")
    except BaseException:
        ledger.close()
        raise
    return ZoneCatalog(opened, cell_m, (opened.close, ledger.close))


def open_field_map(run: str | Path, catalog: str | Path, cell_m: float = 1.0, box: CellBox | None = None) -> FieldMap:
    """The influence field of a run at its last planned tick, at the centres of cells of `cell_m` metres.

    box: which cells (default: those of all that the first planned tick knows, and one more on each side).
    catalog, and what is raised: as `open_zone_catalog`; ValueError for a box of more than 2^22 cells.
    """
    from coord.fields.field_map import FieldMap, box_around, field_entries
    from coord.frames.run_entries import TickWalk, from_start
    from storage import Catalog

    ledger = open_ledger(run)
    try:
        if box is None:
            first = next(RunReader(ledger).frames(), None)
            if first is None:
                raise RunError(f"{run}: no planned tick, so no field")
            box = box_around(first.inputs, cell_m)
        cells = box

        def entries(events: Iterator[tuple[int, StoredEvent]], start: int) -> Iterator[tuple[bytes, bytes | None]]:
            return field_entries(TickWalk(ledger, start), events, cell_m, cells)

        opened = Catalog.open(catalog, ledger, from_start(entries), name=box.name(cell_m))
    except BaseException:
        ledger.close()
        raise
    return FieldMap(opened, cell_m, box, (opened.close, ledger.close))


class CoordinationStl:
    """Decision frames in a storage ledger: append, look up, decode, merge a replay, flush."""

    def __init__(self, ledger: Ledger, producer: str) -> None:
        self._ledger = ledger
        self._producer = producer
        cursor = ledger.cursor(producer)
        self._sequence = 0 if cursor is None else cursor[0] + 1

    def append(self, frame: DecisionFrame, rows: Records) -> Receipt:
        """Append one decision. Raises FrameError unless the rows are those that the frame pins."""
        from storage import Event

        effect = encode_frame_event(frame, rows)
        decode_frame_event(effect)
        event = Event(producer=self._producer, effect=effect, kind=FRAME, sequence=self._sequence, schema=SCHEMA,
                      tick=frame.tick)  # fmt: skip
        receipt = self._ledger.append(event)
        self._sequence += 1
        return receipt

    def lookup(self, event_id: bytes) -> tuple[DecisionFrame, Records]:
        """Frame and rows of the event with this id."""
        event = self._ledger.get(event_id)
        if event.kind != FRAME:
            raise FrameError(f"event {event_id.hex()}: expected kind {FRAME}, got {event.kind}")
        return decode_frame_event(event.effect)

    def replay(self, start: int = 0, stop: int | None = None) -> DecisionLedger:
        """What the frames at ranks [start, stop) add up to."""
        return DecisionLedger.of(
            decode_frame_event(event.effect)[0] for _, event in self._ledger.scan(start, stop) if event.kind == FRAME
        )

    def flush(self) -> tuple[int, bytes]:
        """Size and root of everything that is durable: each append returned after its sync."""
        head = self._ledger.head()
        return head.size, head.root


def coordination_stl(ledger: Ledger, producer: str = "coordination") -> CoordinationStl:
    """The narrow door to a ledger for callers that keep decisions only; appends continue the producer's sequence.

    "stl" is the storage ledger: here coordination meets storage. Inputs of decisions are not kept; a ledger that an
    audit can plan again is written by `simulate`.

    >>> import tempfile
    >>> from coord import AgentState, PlanConfig, WorkZone, plan
    >>> from storage import Ledger
    >>> made = plan([AgentState(id=7)], [WorkZone(id=3, x=2)], [], [], PlanConfig(), now_tick=0)
    >>> with tempfile.TemporaryDirectory() as folder, Ledger.open(folder + "/run") as ledger:
    ...     door = coordination_stl(ledger)
    ...     receipt = door.append(made.frame(0), made.rows)
    ...     print(door.lookup(receipt.id)[0].assigned, door.replay().frames)
    1 1
    """
    return CoordinationStl(ledger, producer)


def read_events(
    ledger: Ledger | PublishedLedger, size: int, start: int = 0
) -> Iterator[tuple[int, Event | str | None]]:
    """Every rank from `start` on, below `size`, with its event, with None where it was retired, or with the text of
    what is wrong where one can't be read.

    Ends early where so many in a row can't be read that a size was claimed that never was. Raises ObjectStoreError
    where a published ledger can't be reached.
    """
    from storage import Event, ObjectStoreError, StorageError

    rank, unread = start, 0
    while rank < size and unread < UNREAD_IN_A_ROW_MAX:
        try:
            for at, event in ledger.scan(rank, size, retired=True):
                yield at, (event if isinstance(event, Event) else None)
                rank, unread = at + 1, 0
        except ObjectStoreError:
            raise
        except StorageError as error:
            yield rank, str(error)
            rank, unread = rank + 1, unread + 1


def ledger_problems(
    place: str | Path,
    report: Report,
    expect: tuple[int, bytes] | None,
    progress: Callable[[int, int], None] | None,
    keys: Sequence[str] = (),
    visitor: Visitor | None = None,
    now_ns: int | None = None,
) -> Iterator[Problem]:
    """Damage of the ledger itself; sets size and root of the report, and shows the events to a visitor on the way.

    Raises NotALedgerError, ObjectStoreError, ValueError for a text that is no key.
    """
    from storage import Head, VerifierKey, verify_ledger, verify_published

    published = is_published(place)
    wanted = None if expect is None else Head(*expect)
    known = tuple(map(VerifierKey.parse, keys))
    if published:
        found = verify_published(str(place), progress, known, wanted, now_ns=now_ns, visitor=visitor)
    else:
        found = verify_ledger(place, progress, keys=known, now_ns=now_ns, visitor=visitor)
    report.checkpoints, report.signed_size = found.checkpoints, found.signed_size
    report.size, report.root = found.size, found.root
    report.retired, report.retired_count = found.retired, found.retired_count
    report.warnings = found.warnings
    for problem in found.problems:
        yield Problem(problem.rank, problem.where, problem.expected, problem.got, problem.text)
    report.problem_count += found.problem_count - len(found.problems)
    if expect is not None and not published:
        yield from expected_problems(place, report, expect)


def expected_problems(place: str | Path, report: Report, expect: tuple[int, bytes]) -> Iterator[Problem]:
    """What is wrong where a ledger must contain a size and root."""
    from storage import ForkError, Head, Ledger, ObjectStoreError, RollbackError, StorageError, open_published

    size, root = expect
    try:
        if is_published(place):
            open_published(str(place), expect=Head(size, root)).close()
        else:
            Ledger.open(place, mode="r", expect=Head(size, root)).close()
    except ObjectStoreError:
        raise
    except (RollbackError, ForkError) as error:
        yield Problem(None, "checkpoint", f"size {size}, root {root.hex()}", _shown(report), str(error))
    except StorageError as error:
        yield Problem(
            None, "checkpoint", f"size {size}, root {root.hex()}", "a ledger that can't be compared", str(error)
        )


def head_problems(
    ledger: Ledger | PublishedLedger, report: Report, expect: tuple[int, bytes] | None
) -> Iterator[Problem]:
    """What opening a ledger showed of its head and its newest tiles, and whether it contains what is expected."""
    for error in ledger.problems:
        yield Problem(None, "ledger", "a ledger without damage", "damage", str(error))
    if expect is not None:
        yield from expected_problems(ledger.path, report, expect)


def setup_of(ledger: Ledger | PublishedLedger) -> Setup | str:
    """What a run was made from, or the text of why that can't be told."""
    from storage import ObjectStoreError, StorageError

    try:
        return RunReader(ledger).scenario
    except ObjectStoreError:
        raise
    except (CoordError, StorageError) as error:
        return str(error)


def inclusion(ledger: Ledger | PublishedLedger, ranges: Sequence[tuple[int, int]]) -> Iterator[Problem | None]:
    """Leads the leaves of ranges of ranks to the root of the ledger; None for each tile that is in it, else a problem.

    An event that can be read has the leaf that its tile holds. So one proof a tile of 256 leaves, made from the tile
    itself, shows that all of them are in the tree.
    """
    from storage import IntegrityError
    from storage.layout import TILE_HASHES
    from storage.tree import leaf, leaf_hash, verify_inclusion

    head = ledger.head()
    for start, stop in ranges:
        for tile in range(start // TILE_HASHES * TILE_HASHES, stop, TILE_HASHES):
            found = _readable(ledger, max(tile, start), min(tile + TILE_HASHES, stop))
            if found is None:
                continue
            rank, event_id, length = found
            try:
                proof = ledger.prove(rank)
            except IntegrityError as error:
                yield Problem(rank, "tree", "hashes that lead to the root", "damage", f"rank {rank}: {error}")
                continue
            proved = verify_inclusion(rank, head.size, leaf_hash(leaf(event_id, length)), proof, head.root)
            text = f"rank {rank}: its leaf does not lead to the root {head.root.hex()}"
            yield None if proved else Problem(rank, "tree", f"root {head.root.hex()}", "another", text)


def _readable(ledger: Ledger | PublishedLedger, start: int, stop: int) -> tuple[int, bytes, int] | None:
    """Rank, id and length of the first event of some that can be read."""
    from storage import Event, ObjectStoreError, StorageError

    for rank in range(start, stop):
        try:
            ((_, event),) = ledger.scan(rank, rank + 1, retired=True)
        except ObjectStoreError:
            raise
        except StorageError:
            continue
        return rank, event.id, len(event.encode()) if isinstance(event, Event) else event.length
    return None


def _shown(report: Report) -> str:
    root = "" if report.root is None else report.root.hex()
    return f"size {report.size}, root {root}"


def require_ledger(place: str | Path) -> None:
    """NotALedgerError where a path holds no ledger, whole or damaged. What is published says so when it is opened."""
    from storage.opening import require_run

    if not is_published(place):
        require_run(Path(place))


def try_open(place: str | Path, report: Report) -> Ledger | PublishedLedger | None:
    """The ledger read-only, or None with a problem in the report when it can't be opened.

    Where the report found no damage, the ledger must still hold what the report speaks of.
    """
    from storage import Head, Ledger, NotALedgerError, ObjectStoreError, StorageError, open_published

    seen = Head(report.size, report.root) if report.ok and report.root is not None else None
    try:
        if is_published(place):
            return open_published(str(place), expect=seen)
        return Ledger.open(place, mode="r", expect=seen)
    except ObjectStoreError:
        raise
    except StorageError as error:
        if isinstance(error, NotALedgerError) and is_published(place):
            raise
        report.add_problem(Problem(None, "ledger", "a ledger that opens", "damage", str(error)))
        return None
