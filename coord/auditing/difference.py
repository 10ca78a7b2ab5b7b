"""How two runs drift apart: the first thing that differs, and tick by tick how far the fleets are from each other.

Ticks that both planned are compared; agents and zones are the same where their outside ids are. Runs of other length,
other agents, planners, seeds or sites are compared as far as they go. Both ledgers are streamed: two ticks are held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coord.auditing.divergence import compare_rows
from coord.errors import RunError
from coord.frames.inputs import ARRAYS, Inputs, differences
from coord.frames.run_reader import FrameView, RunReader
from coord.measuring.scorer import Scorer
from coord.records import NO_ZONE, Records
from coord.simulation.setup import Setup
from coord.sites.scenario_schema import U64_MAX
from tensor.float_mode import plain_mode

ROWS = 10

U64 = NDArray[np.uint64]


class DriftTick(NamedTuple):
    """The fleets at one tick that both planned, before its plan moves anybody.

    `agents` are in both runs, `mean_m` and `max_m` how far those stand from themselves in the other run, `farthest` the
    (outside) id of the one that is farthest, the lowest of equals. `other_zones` of them have another zone than there,
    or one of both has none. `objective` is the frame's score_sum, `services` those completed so far.
    """

    tick: int
    agents: int
    only_left: int
    only_right: int
    mean_m: float | None  # None without a common agent
    max_m: float | None
    farthest: int | None
    other_zones: int
    objective_left: int
    objective_right: int
    services_left: int
    services_right: int


class FirstOther(NamedTuple):
    """The first thing in which two runs differ at a tick that both planned: of the inputs, else of the rows.

    `field` is "inputs.agents.x" or a field of a row ("zone"); `agent` and `zone` are outside ids, None where it is not
    about one.
    """

    tick: int
    frame_left: int
    frame_right: int
    agent: int | None
    zone: int | None
    field: str
    left: object
    right: object

    def __str__(self) -> str:
        who = "" if self.agent is None else f"agent {self.agent}: "
        who = who if self.zone is None else f"zone {self.zone}: "
        frames = f"frame {self.frame_left}"
        if self.frame_right != self.frame_left:
            frames = f"frames {self.frame_left} and {self.frame_right}"
        return f"tick {self.tick} ({frames}): {who}{self.field}: {self.left} ≠ {self.right}"


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What comparing two runs came to: `ticks` that both planned, and of which each planned more; the rows of some
    ticks, about evenly apart, the last common one included; where any agent was farthest from itself."""

    first: FirstOther | None
    ticks: int
    only_left: int
    only_right: int
    max_m: float | None
    max_tick: int | None
    max_agent: int | None
    rows: tuple[DriftTick, ...]


@plain_mode()
def drift(left: RunReader | str | Path, right: RunReader | str | Path, *, rows: int = ROWS) -> Drift:
    """Compare two runs tick by tick; `rows` is how many ticks the table has at most, 0 for none.

    Raises ValueError for negative rows, RunError where a ledger holds no run, and what opening and reading raises.

    >>> import tempfile
    >>> from coord import Scenario, simulate
    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, two = simulate(site, 5, ledger=folder + "/a"), simulate(site, 9, ledger=folder + "/b")
    ...     found = drift(folder + "/a", folder + "/b")
    >>> found.first, found.ticks, found.only_right, found.max_m
    (None, 5, 4, 0.0)
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise ValueError(f"drift: rows must be a whole number of at least 0, got {rows!r}")
    from coord.stl import open_run

    with ExitStack() as stack:
        sides = [run if isinstance(run, RunReader) else stack.enter_context(open_run(run)) for run in (left, right)]
        return _Walk(_Side(sides[0]), _Side(sides[1]), rows).result()


class _Side:
    """One run: its ticks in order, its outside ids, and what it has come to."""

    def __init__(self, reader: RunReader) -> None:
        setup: Setup = reader.scenario
        self.tables = (setup.agent_ids, setup.zone_ids)
        self._agents, self._zones = _table(setup.agent_ids), _table(setup.zone_ids)
        self._views = reader.frames()
        self._scorer = Scorer()
        self.services = 0
        self.view: FrameView | None = None
        try:
            self.last = reader.state_at(U64_MAX - 1).frame.tick
        except RunError:  # no frame, or none that can be shown
            self.last = -1
        self.step()

    def step(self) -> None:
        """Go to the next planned tick."""
        self.view = next(self._views, None)
        if self.view is not None:
            now = self.view.inputs
            self.services += self._scorer.add(now.agents, now.zones, self.view.frame, self.view.rows).services

    def agents(self, ids: NDArray[np.uint32]) -> U64:
        """Outside ids of agents."""
        return _outside(ids, self._agents)

    def zones(self, ids: NDArray[np.uint32]) -> U64:
        """Outside ids of zones; "no zone" is 2^64 - 1."""
        found = _outside(ids, self._zones)
        found[ids == NO_ZONE] = U64_MAX
        return found


def _table(ids: tuple[int, ...]) -> U64 | None:
    return np.array(ids, np.uint64) if ids else None


def _outside(ids: NDArray[np.uint32], table: U64 | None) -> U64:
    found = ids.astype(np.uint64)
    if table is not None and len(table):
        known = ids < len(table)
        found[known] = table[ids[known]]
    return found


class _Walk:
    def __init__(self, left: _Side, right: _Side, rows: int) -> None:
        self.left, self.right = left, right
        last = min(left.last, right.last)
        self._targets = sorted({last * i // max(1, rows - 1) if rows > 1 else last for i in range(rows)})
        self._rows: list[DriftTick] = []
        self._first: FirstOther | None = None
        self._ticks = 0
        self._alone = [0, 0]
        self._max: tuple[float, int, int] | None = None

    def result(self) -> Drift:
        while self.left.view is not None or self.right.view is not None:
            one, two = self.left.view, self.right.view
            if one is not None and two is not None and one.frame.tick == two.frame.tick:
                self._compare(one, two)
                self._ticks += 1
                self.left.step()
                self.right.step()
            elif two is None or (one is not None and one.frame.tick < two.frame.tick):
                self._alone[0] += 1
                self.left.step()
            else:
                self._alone[1] += 1
                self.right.step()
        max_m, max_tick, max_agent = self._max or (None, None, None)
        return Drift(
            first=self._first, ticks=self._ticks, only_left=self._alone[0], only_right=self._alone[1],
            max_m=max_m, max_tick=max_tick, max_agent=max_agent, rows=tuple(self._rows),
        )  # fmt: skip

    def _compare(self, one: FrameView, two: FrameView) -> None:
        tick = one.frame.tick
        if self._first is None:
            self._first = next(self._others(one, two), None)
        ids, others = self.left.agents(one.inputs.agents["id"]), self.right.agents(two.inputs.agents["id"])
        both, a, b = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
        apart = _apart(one.inputs.agents[a], two.inputs.agents[b])
        far = int(np.argmax(apart)) if len(apart) else None
        if far is not None and (self._max is None or float(apart[far]) > self._max[0]):
            self._max = (float(apart[far]), tick, int(both[far]))
        if not self._targets or tick < self._targets[0]:
            return
        while self._targets and self._targets[0] <= tick:
            self._targets.pop(0)
        first_left, first_right = (view.rows[view.rows["queue_index"] == 0] for view in (one, two))
        zones, their_zones = self.left.zones(first_left["zone"][a]), self.right.zones(first_right["zone"][b])
        self._rows.append(
            DriftTick(
                tick=tick, agents=len(both), only_left=len(ids) - len(both), only_right=len(others) - len(both),
                mean_m=None if far is None else float(apart.sum() / len(apart)),
                max_m=None if far is None else float(apart[far]),
                farthest=None if far is None else int(both[far]),
                other_zones=int(np.count_nonzero(zones != their_zones)),
                objective_left=one.frame.score_sum, objective_right=two.frame.score_sum,
                services_left=self.left.services, services_right=self.right.services,
            )
        )  # fmt: skip

    def _others(self, one: FrameView, two: FrameView) -> Iterator[FirstOther]:
        """What differs at a tick, the inputs first."""
        place = (one.frame.tick, one.frame.frame_id, two.frame.frame_id)
        for name, table, other in zip(("agents", "zones"), self.left.tables, self.right.tables, strict=True):
            if table != other:
                yield FirstOther(*place, None, None, f"{name} ids", f"{len(table)} outside ids", "others")
        if not _equal(one.inputs, two.inputs):
            for array, identity, name, ours, theirs in differences(one.inputs, two.inputs):
                agent = self._outside("agents", array, identity)
                zone = self._outside("zones", array, identity)
                label = f"inputs.{array}.{name}"
                if array in ("obstacles", "kernels") and identity is not None:
                    label = f"inputs.{array}[{identity}].{name}"
                yield FirstOther(*place, agent, zone, label, ours, theirs)
        if one.rows.tobytes() != two.rows.tobytes():
            for found in compare_rows((one.rank, one.frame.frame_id, one.frame.tick), one.rows, two.rows):
                agent = self._outside("agents", "agents", found.agent)
                ours, theirs = self._shown(found.field, found.expected), self._shown(found.field, found.got)
                yield FirstOther(*place, agent, None, found.field, ours, theirs)

    def _shown(self, field: str, value: object) -> object:
        """A value of a row: of a zone its outside id, None where it is "no zone"."""
        if field != "zone" or not isinstance(value, int):
            return value
        return None if value == NO_ZONE else self._outside("zones", "zones", value)

    def _outside(self, wanted: str, table: str, identity: int | None) -> int | None:
        if table != wanted or identity is None:
            return None
        one = np.array([identity], np.uint32)
        return int((self.left.agents(one) if table == "agents" else self.left.zones(one))[0])


def _equal(one: Inputs, two: Inputs) -> bool:
    same = (one.config, one.rings, one.ring_count, one.grid) == (two.config, two.rings, two.ring_count, two.grid)
    return same and all(one.array(name).tobytes() == two.array(name).tobytes() for name, _ in ARRAYS)


def _apart(one: Records, two: Records) -> NDArray[np.float64]:
    """Distances of records by pairs, metres."""
    squares = np.zeros(len(one), np.float64)
    for axis in "xyz":
        step = one[axis].astype(np.float64) - two[axis].astype(np.float64)
        squares += step * step
    return np.sqrt(squares)


__all__ = ["ROWS", "Drift", "DriftTick", "FirstOther", "drift"]
