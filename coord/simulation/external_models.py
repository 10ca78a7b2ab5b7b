"""Other people's motion and demand: guards that give them copies and check what comes back.

Source: docs/planners.md. A guard is a model itself, so a world knows nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coord.checks import EXTERNAL, POSITION_BITS, check_zones, magnitude
from coord.errors import BadInput
from coord.ground.rings import Rings
from coord.moving.motion_model import MotionModel, Rows, Site, Steps
from coord.planning.external import Planner, foreign_code, frozen, model_name
from coord.records import ZONE_DTYPE, Records
from coord.simulation.demand import DemandChange, DemandModel, DemandView
from coord.simulation.setup import Setup, is_name
from coord.simulation.world import World


@dataclass(frozen=True)
class ExternalModels:
    """Somebody else's planner, demand and motion; None for the scenario's own."""

    planner: Planner | None = None
    demand: DemandModel | None = None
    motion: MotionModel | None = None

    def world(self, setup: Setup) -> World:
        """The world of a scenario with these models in it, recorded by name in its setup."""
        names = {
            what: _checked_name(what, model)
            for what in ("demand", "motion", "planner")
            if (model := getattr(self, what)) is not None
        }
        if names:
            config = setup.config if self.planner is None else replace(setup.config, planner=EXTERNAL)
            setup = replace(setup, config=config, external=names)
        return World(
            setup,
            planner=self.planner,
            demand=None if self.demand is None else GuardedDemand(self.demand),
            motion=None if self.motion is None else GuardedMotion(self.motion),
        )


def _checked_name(what: str, model: object) -> str:
    name = model_name(model)
    if not is_name(name):
        raise ValueError(f"simulate: {what}_model: expected a name of 1 to 60 printable bytes, got {name[:80]!r}")
    return name


class GuardedMotion:
    """A motion model that may do what it likes with what it is given."""

    def __init__(self, model: MotionModel) -> None:
        self._model = model
        self._name = model_name(model)

    def site(self, agents: Records, site: Site) -> None:
        """Told as it is."""
        rings = None if site.rings is None else Rings(frozen(site.rings.table), frozen(site.rings.points))
        with foreign_code():
            self._model.site(frozen(agents), Site(frozen(site.obstacles), rings, site.grid))

    def resize(self, agents: Records, kept: Rows) -> None:
        """Told as it is."""
        with foreign_code():
            self._model.resize(frozen(agents), frozen(kept))

    def start(self, rows: Rows, zones: Records) -> None:
        """Told as it is."""
        with foreign_code():
            self._model.start(frozen(rows), frozen(zones))

    def stop(self, rows: Rows) -> None:
        """Told as it is."""
        with foreign_code():
            self._model.stop(frozen(rows))

    def advance(self, agents: Records, rows: Rows, tick: int) -> Steps:
        """The new positions of `rows` and of agents pushed, and nothing else of what was written. BadInput names agent
        and field.
        """
        moved = agents.copy()
        with foreign_code():
            steps = self._model.advance(moved, frozen(rows), tick)
        gone = self._metres(getattr(steps, "gone_m", None), "gone_m", agents, rows)
        conflicts = _whole(getattr(steps, "conflicts", None))
        if conflicts is None:
            text = f"must be a whole number of at least 0, got {_brief(getattr(steps, 'conflicts', None))}"
            raise self._error("conflicts", text)
        pushed = self._pushed(getattr(steps, "pushed", None), rows, len(agents))
        pushed_m = None if pushed is None else self._metres(steps.pushed_m, "pushed_m", agents, pushed)
        movers = rows if pushed is None else np.concatenate([rows, pushed])
        for axis in "xyz":
            place = moved[axis][movers]
            bad = magnitude(place) > POSITION_BITS
            self._refuse(agents, movers, axis, bad, place, "must be finite and within 2^20 m")
        for axis in "xyz":
            agents[axis][movers] = moved[axis][movers]
        return Steps(gone, conflicts, pushed, pushed_m)

    def _metres(self, value: object, name: str, agents: Records, rows: Rows) -> npt.NDArray[np.float32]:
        if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape == (len(rows),)):
            raise self._error(name, f"must be float32[{len(rows)}], got {_shown(value)}")
        bad = ~(np.isfinite(value) & (value >= 0))
        self._refuse(agents, rows, name, bad, value, "must be finite and at least 0 m")
        return value.copy()

    def _pushed(self, value: object, rows: Rows, count: int) -> Rows | None:
        """Rows besides those that travel, each once."""
        if value is None:
            return None
        if not (isinstance(value, np.ndarray) and value.dtype == np.intp and value.ndim == 1):
            raise self._error(
                "pushed", f"must be an array of {np.dtype(np.intp)} in one dimension, got {_shown(value)}"
            )
        for row in value[(value < 0) | (value >= count) | np.isin(value, rows)].tolist():
            raise self._error("pushed", f"must be rows of agents that don't travel, got {row}")
        if len(np.unique(value)) != len(value):
            raise self._error("pushed", "must name a row once, got one twice")
        return value.copy()

    def _error(self, name: str, text: str) -> BadInput:
        return BadInput(f"motion {self._name}: {name}", None, "", text)

    def _refuse(
        self, agents: Records, rows: Rows, field: str, bad: npt.NDArray[np.bool_], values: npt.NDArray[np.float32],
        rule: str,
    ) -> None:  # fmt: skip
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            who = int(agents["id"][rows[i]])
            table, row = f"motion {self._name}: agents", int(rows[i])
            raise BadInput(table, row, field, f"{rule}, got {values[i]} (id {who})")


class GuardedDemand:
    """A demand model that may do what it likes with what it is given."""

    def __init__(self, model: DemandModel) -> None:
        self._model = model
        self._name = model_name(model)

    def change(self, view: DemandView) -> DemandChange | None:
        """The change, checked; BadInput names record and field."""
        given = view._replace(zones=frozen(view.zones), served=frozen(view.served), working=frozen(view.working))
        with foreign_code():
            change = self._model.change(given)
        if change is None:
            return None
        if not isinstance(change, DemandChange):
            raise BadInput(
                self._table(""), None, "", f"must return a DemandChange or None, got {type(change).__name__}"
            )
        add = self._array(change.add, "add", ZONE_DTYPE)
        remove = np.sort(self._array(change.remove, "remove", np.dtype(np.uint32)))
        priority_of = self._array(change.priority_of, "priority_of", np.dtype(np.uint32))
        priority = self._array(change.priority, "priority", np.dtype(np.float32))
        self._check_ids(remove, "remove", view.zones["id"])
        self._check_added(add, view.next_id)
        left = np.concatenate([np.setdiff1d(view.zones["id"], remove), add["id"]])
        self._check_ids(priority_of, "priority_of", left)
        if len(priority) != len(priority_of):
            raise self._error(
                "priority", None, f"must be as long as priority_of, {len(priority_of)}, got {len(priority)}"
            )
        for row in np.flatnonzero(~np.isfinite(priority)):
            raise self._error("priority", None, f"of zone {int(priority_of[row])} must be finite, got {priority[row]}")
        counts = [self._count(getattr(change, name), name) for name in ("opened", "served", "expired", "refused")]
        opened, served, expired, refused = counts
        if not isinstance(change.calls, (bool, np.bool_)):
            raise self._error("calls", None, f"must be True or False, got {_brief(change.calls)}")
        return DemandChange(
            add, remove, priority_of, priority, opened, served, expired, refused, calls=bool(change.calls)
        )

    def _table(self, name: str) -> str:
        return f"demand {self._name}" + (f": {name}" if name else "")

    def _error(self, name: str, row: int | None, text: str, field: str = "") -> BadInput:
        return BadInput(self._table(name), row, field, text)

    def _array(self, value: object, name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        if not (isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == 1):
            wanted = "ZONE_DTYPE" if dtype == ZONE_DTYPE else str(dtype)
            raise self._error(name, None, f"must be an array of {wanted} in one dimension, got {_shown(value)}")
        return value.copy()

    def _check_ids(self, ids: npt.NDArray[Any], name: str, known: npt.NDArray[Any]) -> None:
        for row in np.flatnonzero(~np.isin(ids, known)):
            raise self._error(name, int(row), f"must be the id of a zone, got {ids[row]}")
        if len(np.unique(ids)) != len(ids):
            unique, count = np.unique(ids, return_counts=True)
            raise self._error(name, None, f"must name a zone once, got {unique[count > 1][0]} twice")

    def _check_added(self, add: Records, next_id: int) -> None:
        try:
            check_zones(add)
        except BadInput as error:
            raise self._error("add", error.row, error.detail, error.field) from None
        for row in np.flatnonzero(add["id"] < next_id):
            raise self._error("add", int(row), f"must be new, from {next_id} on, got {int(add['id'][row])}", "id")

    def _count(self, value: object, name: str) -> int:
        count = _whole(value)
        if count is None:
            raise self._error(name, None, f"must be a whole number of at least 0, got {_brief(value)}")
        return count


def _whole(value: object) -> int | None:
    """A whole number from 0 to 2^63 - 1, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= int(value) < 2**63:
        return None
    return int(value)


def _shown(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def _brief(value: object) -> str:
    """A value as an error names it, also where it has a million digits or letters."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return repr(value) if isinstance(value, (int, float, np.generic)) else _shown(value)
