"""The state of a fleet between ticks, and what one tick does to it, in a fixed order.

Source: `docs/formats/coord-scenario.md`, section "One tick". Nothing here knows of files, clocks or the ledger. What
moves agents is a model (`motion_model.py`), what makes zones come and go another one (`demand.py`); what happens to a
fleet from outside is `outside.py`, service and energy are `service.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coord.frames.inputs import Inputs
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.moving.motion import can_move
from coord.moving.motion_model import Holding, MotionModel, Rows, Site
from coord.planning.external import Planner, plan_external
from coord.planning.plan import Plan, plan
from coord.planning.workspace import Workspace
from coord.records import NO_ZONE, AgentMode
from coord.simulation.demand import DemandChange, DemandModel, DemandView
from coord.simulation.events import FleetEvent
from coord.simulation.models_by_name import demand_model, motion_model
from coord.simulation.outside import Outside
from coord.simulation.service import charge, finished, serve
from coord.simulation.service_queue import ServiceQueue
from coord.simulation.setup import Setup
from tensor.float_mode import plain_mode

Records = npt.NDArray[np.void]

_IDLE, _TRAVELLING, _WORKING, _OFFLINE = AgentMode.IDLE, AgentMode.TRAVELLING, AgentMode.WORKING, AgentMode.OFFLINE


class World:
    """One fleet at one tick.

    A tick is `begin` (what comes from outside; at tick 0 nothing does), `plan_tick` where `is_planned`, `assign` with
    its rows, then `advance`. All but `assign` begin the tick where that was left out.

    `inputs` is what a plan is made from. Its arrays are replaced when agents or zones come and go and when the site
    changes; rows ascend by id always. `agents` are the agents as they are: those of `inputs` but for the silent ones,
    whose last report a plan is made from. Besides it a world keeps the rows of the agents' zones and service time left.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        motion: MotionModel | None = None,
        demand: DemandModel | None = None,
        planner: Planner | None = None,
    ) -> None:
        self.setup = setup
        self._planner = planner
        self.tick = 0
        self.rings, self.grid = setup.rings, setup.grid
        self.inputs = Inputs(
            agents=setup.agents.copy(),
            zones=setup.zones.copy(),
            obstacles=setup.obstacles,
            kernels=setup.kernels,
            config=setup.config.encode(),
            rings=_ring_bytes(setup.rings),
            ring_count=0 if setup.rings is None else len(setup.rings),
            grid=b"" if setup.grid is None else setup.grid.encode(),
        )
        agents, zones = self.inputs.agents, self.inputs.zones
        self.agents = agents
        self.happened: list[FleetEvent] = []  # at this tick, in the order in which it was applied
        self.service_left = np.zeros(len(agents), np.uint32)
        self.zone_row = np.zeros(len(agents), np.intp)  # row of the agent's zone, while it has one
        self.visited = np.zeros(len(zones), np.bool_)  # zones served at least once
        self.visited_before = 0  # such zones that are gone
        self.served = 0  # services completed
        self.cell_conflicts = 0  # agents beyond the first in a cell, summed over ticks
        self.waits = 0  # travelling agents that had no way to go, summed over ticks
        self.tasks_opened = self.tasks_served = self.tasks_expired = self.tasks_refused = 0
        self._outside = Outside(setup)
        self._begun = 0  # the last tick that was begun
        self._called = False  # whether something at this tick calls for a plan
        self._just_served = np.zeros(0, np.uint32)  # zones in which a service ended in the tick before
        self._next_id = int(zones["id"][-1]) + 1 if len(zones) else 0
        self._motion = motion_model(setup) if motion is None else motion
        self._motion.site(agents, Site(self.inputs.obstacles, self.rings, self.grid))
        self._demand = demand_model(setup) if demand is None else demand
        self._queue = ServiceQueue()
        self._workspace = Workspace(agents=0, zones=0, k=0)

    def is_planned(self) -> bool:
        """Whether a plan is made at this tick."""
        self.begin()
        return self.tick % self.setup.every_ticks == 0 or (self.setup.on_events and self._called)

    def plan_tick(self) -> Plan:
        """The plan for the state of this tick. Raises BadInput."""
        self.begin()
        now = self.inputs
        tables = (now.agents, now.zones, now.obstacles, now.kernels, self.setup.config)
        if self._planner is None:
            room = (len(now.agents), len(now.zones), self.setup.config.k_candidates, len(now.obstacles))
            if not self._workspace.fits(*room):
                self._workspace = Workspace(agents=room[0], zones=room[1], k=room[2], obstacles=room[3])
            return plan(*tables, now_tick=self.tick, rings=self.rings, grid=self.grid, workspace=self._workspace)
        return plan_external(self._planner, *tables, now_tick=self.tick, rings=self.rings, grid=self.grid)

    @plain_mode()
    def begin(self) -> None:
        """What comes from outside at this tick, once: events, then demand. Calling again changes nothing."""
        if self._begun == self.tick:
            return
        self._begun = self.tick
        self.happened, self._called = self._outside.begin(self)
        zones, agents = self.inputs.zones, self.agents
        working = _distinct(agents["zone"][agents["mode"] == _WORKING])
        change = self._demand.change(DemandView(self.tick, zones, self._just_served, working, self._next_id))
        self._just_served = np.zeros(0, np.uint32)
        if change is not None:
            self._apply_demand(change)
        if not self._outside.is_quiet:
            self._look()

    def _look(self) -> None:
        """What is known of the agents: their state, but of silent ones the last report."""
        silent = np.flatnonzero(self._outside.silent)
        self.inputs.agents = self.agents
        if len(silent):
            self.inputs.agents = self.agents.copy()
            self.inputs.agents[silent] = self._outside.reported[silent]

    def _apply_demand(self, change: DemandChange) -> None:
        self.tasks_opened += change.opened
        self.tasks_served += change.served
        self.tasks_expired += change.expired
        self.tasks_refused += change.refused
        self._called = self._called or change.calls or len(change.add) > 0
        if len(change.remove) or len(change.add):
            self.change_zones(change.remove, change.add)
        if len(change.priority_of):
            zones = self.inputs.zones
            zones["priority"][np.searchsorted(zones["id"], change.priority_of)] = change.priority

    def change_zones(self, remove: npt.NDArray[np.uint32], add: Records) -> None:
        """Zones go and come. Agents whose zone goes are idle: what they were doing there ends."""
        zones = self.inputs.zones
        stays = ~np.isin(zones["id"], remove)
        agents = self.agents
        lost = np.flatnonzero((agents["zone"] != NO_ZONE) & np.isin(agents["zone"], remove))
        agents["zone"][lost] = NO_ZONE
        at_it = np.isin(agents["mode"][lost], (_TRAVELLING, _WORKING))
        agents["mode"][lost[at_it]] = _IDLE
        self.visited_before += int(self.visited[~stays].sum())
        together = np.concatenate([zones[stays], add])
        order = np.argsort(together["id"], kind="stable")
        self.inputs.zones = together[order]
        self.visited = np.concatenate([self.visited[stays], np.zeros(len(add), np.bool_)])[order]
        if len(add):
            self._next_id = max(self._next_id, int(add["id"].max()) + 1)
        self._find_zone_rows()

    def change_agents(self, remove: npt.NDArray[np.uint32], add: Records) -> None:
        """Agents go and come. The zone of one that goes is free again; one that comes has none."""
        agents = self.agents
        stays = np.flatnonzero(~np.isin(agents["id"], remove))
        together = np.concatenate([agents[stays], add])
        kept = np.concatenate([stays, np.full(len(add), -1, np.intp)])
        order = np.argsort(together["id"], kind="stable")
        kept = kept[order]
        self.agents = together[order]
        self.service_left = np.where(kept >= 0, np.append(self.service_left, np.uint32(0))[kept], np.uint32(0))
        self._find_zone_rows()
        self._outside.resize(kept)
        self._motion.resize(self.agents, kept)
        self._look()

    def change_site(self, obstacles: Records, rings: Rings | None, grid: Grid | None) -> None:
        """Other obstacles, rings or blocked cells: travelling agents find their ways again."""
        now = self.inputs
        self.rings, self.grid = rings, grid
        now.obstacles = obstacles
        now.rings, now.ring_count = _ring_bytes(rings), 0 if rings is None else len(rings)
        now.grid = b"" if grid is None else grid.encode()
        self._motion.site(self.agents, Site(obstacles, rings, grid))
        self._start(np.flatnonzero(self.agents["mode"] == _TRAVELLING))

    def _find_zone_rows(self) -> None:
        zone = self.agents["zone"]
        self.zone_row = np.where(zone == NO_ZONE, 0, np.searchsorted(self.inputs.zones["id"], zone))

    @plain_mode()
    def assign(self, rows: Records) -> None:
        """Give each agent the zone of its row (queue_index 0), and the later ones for when it has served that; idle
        and travelling agents become one or the other. Silent agents are told nothing, and forget what comes later."""
        agents, told = self.agents, ~self._outside.silent
        later = rows[rows["queue_index"] > 0]
        rows = rows[rows["queue_index"] == 0]
        assert len(rows) == len(agents), "one row an agent"
        free = ((agents["mode"] == _IDLE) | (agents["mode"] == _TRAVELLING)) & told
        zone = np.where(free, rows["zone"], agents["zone"])
        changed = free & (zone != agents["zone"])
        agents["zone"] = zone
        agents["mode"] = np.where(free, np.where(zone == NO_ZONE, _IDLE, _TRAVELLING), agents["mode"]).astype(np.uint8)
        started = np.flatnonzero(changed & (zone != NO_ZONE))
        self.zone_row[started] = np.searchsorted(self.inputs.zones["id"], zone[started])
        self._start(started)
        followed = agents["id"][(zone == rows["zone"]) & told]
        self._queue.fill(later[np.isin(later["agent"], followed)])

    def _start(self, rows: Rows) -> None:
        if len(rows):
            self._motion.start(rows, self.inputs.zones[self.zone_row[rows]])

    @plain_mode()
    def advance(self) -> None:
        """Motion, service, energy; then the tick is over."""
        self.begin()
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gone = self._move()
            self._serve()
            charge(self.agents, gone, self.setup.motion, self.setup.config.min_energy)
        reporting = self._outside.report(self.tick) & (self.agents["mode"] != _OFFLINE)
        self.agents["last_seen_tick"][reporting] = self.tick
        if not self._outside.is_quiet:
            self._look()
        self.tick += 1

    def _move(self) -> npt.NDArray[np.float32]:
        agents = self.agents
        travelling = agents["mode"] == _TRAVELLING
        gone = np.zeros(len(agents), np.float32)
        moves = self._outside.moves(self.tick)
        rows = np.flatnonzero(travelling & can_move(agents["speed"]) & moves)
        if isinstance(self._motion, Holding):
            self._motion.hold(np.flatnonzero(~moves))
        self._motion.stop(np.flatnonzero(~travelling))
        steps = self._motion.advance(agents, rows, self.tick)
        gone[rows] = steps.gone_m
        if steps.pushed is not None:
            gone[steps.pushed] = steps.pushed_m
        self.cell_conflicts += steps.conflicts
        self.waits += steps.waits
        return gone

    def _serve(self) -> None:
        agents, zones = self.agents, self.inputs.zones
        ended = serve(agents, zones, self.zone_row, self.service_left)
        done = finished(agents, zones, self.zone_row, ended, self.tick)
        self.visited[done] = True
        self.served += len(done)
        self._just_served = _distinct(zones["id"][done])
        self._go_on(np.sort(ended))

    def _go_on(self, rows: Rows) -> None:
        """Agents whose service ended in this tick start for the first zone of their queue that is there and free."""
        agents, zones = self.agents, self.inputs.zones
        while len(rows):
            zone = self._queue.take(agents["id"][rows])
            rows, zone = rows[zone != NO_ZONE], zone[zone != NO_ZONE]
            busy = (agents["mode"] == _TRAVELLING) | (agents["mode"] == _WORKING)
            good = np.isin(zone, zones["id"]) & ~np.isin(zone, agents["zone"][busy])
            started = rows[good]
            agents["zone"][started], agents["mode"][started] = zone[good], _TRAVELLING
            self.zone_row[started] = np.searchsorted(zones["id"], zone[good])
            self._start(started)
            rows = rows[~good]


def _distinct(ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """What np.unique gives; it hashes first, and sorting alone takes a tenth of the time."""
    ids = np.sort(ids)
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    return ids[first]


def _ring_bytes(rings: Rings | None) -> bytes:
    if rings is None:
        return b""
    return rings.table.tobytes() + np.ascontiguousarray(rings.points, "<f4").tobytes()
