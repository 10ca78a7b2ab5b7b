"""How zones come and go: the protocol of a demand model, and the one of zones that stay.

Source: `docs/formats/coord-scenario.md`, section "One tick": a model is asked once a tick, from tick 1 on, after the
events of the tick and before its plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from coord.records import ZONE_DTYPE, Records

Ids = npt.NDArray[np.uint32]


class DemandView(NamedTuple):
    """What a model may look at; it changes none of it."""

    tick: int
    zones: Records  # ascending by id
    served: Ids  # zones in which a service ended in the tick before, ascending; some may be gone
    working: Ids  # zones in which an agent works now, ascending
    next_id: int  # above every id that a zone ever had


def _no_ids() -> Ids:
    return np.zeros(0, np.uint32)


@dataclass(frozen=True, eq=False)
class DemandChange:
    """What comes and goes at a tick: first `remove`, then `add`, then the priorities.

    Ids of `add` are new, from `DemandView.next_id` on. The counts are told in `Run`.
    """

    add: Records = field(default_factory=lambda: np.zeros(0, ZONE_DTYPE))
    remove: Ids = field(default_factory=_no_ids)
    priority_of: Ids = field(default_factory=_no_ids)  # zones whose priority changes
    priority: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    opened: int = 0  # tasks that came
    served: int = 0  # tasks that were done
    expired: int = 0  # tasks that nobody did in time
    refused: int = 0  # tasks that came when as many as may be were open
    calls: bool = False  # whether it calls for a plan at this tick, where plans are made on events


class DemandModel(Protocol):
    """Says what comes and goes. The same calls must give the same changes: a run is made again by an audit."""

    def change(self, view: DemandView) -> DemandChange | None:
        """The change at this tick; None where nothing changes."""


class PersistentDemand:
    """Zones stay, and wait for their next service."""

    def change(self, view: DemandView) -> DemandChange | None:
        """Nothing comes or goes."""
        return None
