"""explain: why an agent has its zone and no other, or why a zone went to its agent; with what would have to change."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coord import backend
from coord.checks import EXTERNAL
from coord.errors import CoordError
from coord.explaining.winning_change import I32_MAX, PAIRS_MAX, SwapTrials, Undecided
from coord.explaining.winning_exact import EXACT_PAIRS_MAX, ExactTrials
from coord.ground.obstacle import BOX, CIRCLE, POLYGON
from coord.ground.obstacle_ref import blocked_points, blocked_segments
from coord.planning.candidate import CandidateFacts, CandidateScore, candidate_status, score_candidate
from coord.planning.plan_ref import Pairs, pairs
from coord.planning.problem import I32, NONE, U32, Problem, Zones
from coord.planning.readiness import AgentReadiness, ZoneReadiness
from coord.planning.situation import Situation
from coord.records import COORD_UNREACHABLE_TRAVEL_TIME, PlanConfig, Records
from coord.status import Assignment, CoordStatus
from tensor.float_mode import plain_mode

EXACT = 8  # options whose winning change is found by planning again, unless told otherwise


class UnknownIdError(CoordError, KeyError):
    """explain was asked about an agent or a zone that the inputs do not hold."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One agent and one zone: terms, score, the first failing test, who has the zone, and what would change it.

    `winning_change` is the smallest increase of `score.score_i32` with which this pair would be in the plan, all other
    scores unchanged: 0 for a pair that is, None where a test fails whatever the score, or where not even the highest
    score wins. Where `winning_change_exact` is False it is an estimate: of swap, what would win against the plan as it
    stands; it may be too small or too large (docs/planning.md, Explanations). What an external planner would do with
    another score nobody knows: None, and not exact.
    """

    agent: int
    zone: int
    status: CoordStatus
    score: CandidateScore
    travel: int
    winner: int | None
    winner_score: int | None
    winning_change: int | None
    winning_change_exact: bool
    changes: tuple[str, ...]
    way_blocked: bool = False  # status zone_blocked, though only the straight way to the zone is


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One agent against all zones, or one zone against all agents, best options first; `row` is the plan's row.

    `queue` are the agent's later rows, by queue_index; of a zone alone, the row in which an agent queues it.
    """

    now_tick: int
    agent: int | None
    zone: int | None
    readiness: str
    row: Assignment | None
    options: tuple[Option, ...]
    queue: tuple[Assignment, ...] = ()

    def option(self, *, agent: int | None = None, zone: int | None = None) -> Option:
        """The option with that other side; UnknownIdError if there is none."""
        for option in self.options:
            if agent in (None, option.agent) and zone in (None, option.zone):
                return option
        raise UnknownIdError(f"explain: no option with agent {agent} and zone {zone}")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, statuses by lower-case name; floats that JSON lacks as "inf", "-inf", "nan"."""
        out = asdict(self)
        if self.row is not None:
            out["row"]["status"] = self.row.status.name.lower()
        for row, plain in zip(self.queue, out["queue"], strict=True):
            plain["status"] = row.status.name.lower()
        out["queue"] = list(out["queue"])
        for option, plain in zip(self.options, out["options"], strict=True):
            plain["status"] = option.status.name.lower()
            plain["changes"] = list(option.changes)
            plain["score"] = {k: v if math.isfinite(v) else str(v) for k, v in plain["score"].items()}
        out["options"] = list(out["options"])
        return out

    def to_json(self) -> str:
        """One line of JSON; floats are the float32 values, written in full."""
        return json.dumps(self.to_dict(), allow_nan=False)


@plain_mode()
def explain_situation(
    seen: Situation, rows: Records, *, agent: int | None = None, zone: int | None = None, exact: int = EXACT
) -> Explanation:
    """As `explain` in explain_inputs, on a situation and the rows of its plan."""
    if exact < 0:
        raise ValueError(f"explain: exact must not be negative, got {exact}")
    if agent is None and zone is None:
        raise ValueError("explain: name an agent, a zone, or both")
    a = None if agent is None else _find(seen.agents, agent, "agent")
    z = None if zone is None else _find(seen.zones, zone, "zone")
    whole = _Whole(seen, rows)
    options = whole.options(a, z)
    options.sort(key=lambda o: (o.status not in (0, 7), -o.score.score_i32, o.travel, o.zone, o.agent))
    options[:exact] = [whole.settled(option) for option in options[:exact]]
    served = rows[rows["queue_index"] == 0]
    found = served[served["agent"] == agent] if a is not None else served[served["zone"] == (zone or 0)]
    later = rows[rows["queue_index"] > 0]
    later = later[later["agent"] == agent] if a is not None else later[later["zone"] == (zone or 0)]
    if a is not None:
        readiness = AgentReadiness(int(seen.readiness[a])).name.lower()
    else:
        readiness = (ZoneReadiness.BLOCKED if seen.blocked[z] else ZoneReadiness.READY).name.lower()
    return Explanation(
        now_tick=seen.now_tick,
        agent=agent,
        zone=zone,
        readiness=readiness,
        row=Assignment.from_record(found[0]) if len(found) else None,
        options=tuple(options),
        queue=tuple(Assignment.from_record(row) for row in later),
    )


def _find(records: Records, wanted: int, table: str) -> int:
    at = int(np.searchsorted(records["id"], wanted)) if 0 <= wanted <= 0xFFFFFFFF else len(records)
    if at == len(records) or int(records["id"][at]) != wanted:
        raise UnknownIdError(f"explain: {table} {wanted} is not among the {len(records)} {table}s of this tick")
    return at


class _Whole:
    """The situation with every zone offered, so that withheld ones are explained too."""

    def __init__(self, seen: Situation, rows: Records) -> None:
        self.seen = seen
        self.config = PlanConfig.from_record(seen.config[0])
        zones = seen.zones
        x, y = np.ascontiguousarray(zones["x"]), np.ascontiguousarray(zones["y"])
        component = np.zeros(len(zones), np.uint32) if seen.grid is None else seen.grid.component_of(x, y)
        self.zones = Zones(
            x=x, y=y, z=np.ascontiguousarray(zones["z"]), radius=np.ascontiguousarray(zones["radius"]), base=seen.base,
            cost=np.ascontiguousarray(zones["energy_cost"]), need=np.ascontiguousarray(zones["need_caps"]),
            component=component, blocked=seen.blocked.astype(np.uint8),
        )  # fmt: skip
        current = np.full(len(seen.agents), NONE, np.int32)
        if len(zones):
            at = np.minimum(np.searchsorted(zones["id"], seen.agents["zone"]), len(zones) - 1)
            current = np.where(zones["id"][at] == seen.agents["zone"], at, NONE).astype(np.int32)
        self.facts = replace(seen.facts, current=current)
        self.problem = replace(seen.problem, zones=self.zones)
        served = rows[(rows["queue_index"] == 0) & (rows["status"] == 0)]
        self.zone_of = np.full(len(seen.agents), NONE, np.int64)
        self.zone_of[np.searchsorted(seen.agents["id"], served["agent"])] = np.searchsorted(zones["id"], served["zone"])
        self.holder = np.full(len(zones), NONE, np.int64)
        has = np.flatnonzero(self.zone_of != NONE)
        self.holder[self.zone_of[has]] = has

    @cached_property
    def stored(self) -> I32:
        """The rows as the assignment of the problem."""
        zone = self.zone_of[self.seen.planned]
        place = np.searchsorted(self.seen.offered, np.maximum(zone, 0))
        return np.where(zone == NONE, NONE, place).astype(np.int32)

    @cached_property
    def greedy(self) -> bool:
        """Whether the rows are greedy's plan of the inputs."""
        return self.config.planner == 0 and bool(np.array_equal(backend.greedy(self.seen.problem), self.stored))

    @cached_property
    def trials(self) -> SwapTrials | None:
        """For plans with one score changed; None where the rows are not swap's plan, or the fleet is too large."""
        problem = self.seen.problem
        if self.config.planner != 1 or len(problem.agents) * len(problem.zones) > PAIRS_MAX:
            return None
        trials = SwapTrials(problem, self.config.k_candidates, self.config.work_budget)
        return trials if trials.is_plan(self.stored) else None

    @cached_property
    def exact_trials(self) -> ExactTrials | None:
        """As `trials`, for the exact planner."""
        problem = self.seen.problem
        if self.config.planner != 3 or len(problem.agents) * len(problem.zones) > EXACT_PAIRS_MAX:
            return None
        trials = ExactTrials(problem, self.config.idle_score)
        return trials if trials.is_plan(self.stored) else None

    def settled(self, option: Option) -> Option:
        """The option with its exact winning change, where there is a way to it."""
        trials = None if option.winning_change_exact else self.trials or self.exact_trials
        if trials is None:
            return option
        seen = self.seen
        a = int(np.searchsorted(seen.planned, _find(seen.agents, option.agent, "agent")))
        z = int(np.searchsorted(seen.offered, _find(seen.zones, option.zone, "zone")))
        try:
            change = trials.winning_change(a, z)
        except Undecided:
            return option
        return replace(option, winning_change=change, winning_change_exact=True)

    @cached_property
    def moving(self) -> NDArray[np.bool_]:
        """Agents whose speed is a normal number above 0; the score of a pair of others is `pairs`' business."""
        speed = self.facts.speed
        return np.isfinite(speed) & (speed >= np.finfo(np.float32).tiny)

    @cached_property
    def own(self) -> tuple[I32, U32]:
        """Score and travel of each agent with its own zone; of an agent without one 0 and unreachable."""
        score, travel, _ = backend.pair_values(replace(self.problem, agents=self.facts), self.zone_of.astype(np.int32))
        for a in np.flatnonzero(~self.moving & (self.zone_of != NONE)).tolist():
            alone = self.one(a, int(self.zone_of[a]))
            score[a], travel[a] = alone.score[0], alone.travel[0]
        return score, travel

    def column(self, z: int) -> Pairs:
        """All agents against zone z, as `pairs` has one agent against all zones."""
        facts, zones = self.facts, self.zones
        here = np.full(len(facts), z, np.int32)
        score, travel, saturated = backend.pair_values(replace(self.problem, agents=facts), here)
        still = ~self.moving
        for a in np.flatnonzero(still).tolist():
            alone = self.one(a, z)
            score[a], travel[a], saturated[a] = alone.score[0], alone.travel[0], alone.saturated[0]
        near = (travel != COORD_UNREACHABLE_TRAVEL_TIME) & (travel <= np.uint32(self.config.max_travel_ticks))
        if self.problem.grid:
            near &= (zones.component[z] == 0) | (zones.component[z] == facts.component)
            near &= facts.component != 0
        clear = np.full(len(facts), not zones.blocked[z])
        if self.problem.shapes is not None:
            x, y = np.full(len(facts), zones.x[z]), np.full(len(facts), zones.y[z])
            clear &= ~backend.blocked_segments(facts.x, facts.y, x, y, self.problem.shapes)
        return Pairs(
            travel=travel, score=score, saturated=saturated, capable=(facts.caps & zones.need[z]) == zones.need[z],
            charged=facts.energy >= zones.cost[z], open=clear, near=near,
        )  # fmt: skip

    def one(self, a: int, z: int) -> Pairs:
        """Agent a against zone z alone."""
        zones = Zones(**{name: getattr(self.zones, name)[z : z + 1] for name in Zones.__dataclass_fields__})
        agents = self.facts.take(np.array([a]))
        here = np.where(agents.current == z, 0, NONE).astype(np.int32)
        problem: Problem = replace(self.problem, zones=zones)
        return pairs(problem, replace(agents, current=here), 0)

    def options(self, a: int | None, z: int | None) -> list[Option]:
        """The options of an agent with all zones, of a zone with all agents, or of one pair."""
        if a is None:
            assert z is not None
            all_agents = self.column(z)
            return [self._option(i, z, all_agents, i) for i in range(len(self.facts))]
        if z is None:
            all_zones = pairs(self.problem, self.facts, a)
            return [self._option(a, i, all_zones, i) for i in range(len(self.zones))]
        return [self._option(a, z, self.one(a, z), 0)]

    def _option(self, a: int, z: int, p: Pairs, i: int) -> Option:
        seen = self.seen
        agent, zone = seen.agents[a], seen.zones[z]
        b = int(self.holder[z])
        facts = CandidateFacts(
            agent=int(agent["id"]),
            zone=int(zone["id"]),
            valid=True,
            agent_readiness=AgentReadiness(int(seen.readiness[a])),
            zone_readiness=ZoneReadiness.BLOCKED if seen.blocked[z] else ZoneReadiness.READY,
            capable=bool(p.capable[i]),
            charged=bool(p.charged[i]) and seen.readiness[a] != AgentReadiness.LOW_ENERGY,
            blocked=not bool(p.open[i]),
            way=not seen.problem.grid or bool(p.near[i]) or int(p.travel[i]) > self.config.max_travel_ticks,
            taken=b not in (NONE, a),
            current=int(agent["zone"]) == int(zone["id"]),
            priority=float(zone["priority"]),
            idle_ticks=int(seen.idle[z]),
            idle_norm=float(seen.idle_norm[z]),
            cover=float(seen.cover[z]),
            avoid=float(seen.avoid[z]),
            travel=int(p.travel[i]),
            travel_max=self.config.max_travel_ticks,
        )
        working = b == a and int(seen.held[a]) == z
        status = CoordStatus.OK if working else candidate_status(facts)
        score = score_candidate(facts, self.config)
        assert score.score_i32 == int(p.score[i])
        change, exact = self._winning_change(a, z, b, status, score.score_i32, facts.travel)
        winner_score = None if b == NONE else int(self.own[0][b])
        return Option(
            agent=facts.agent,
            zone=facts.zone,
            status=status,
            score=score,
            travel=facts.travel,
            winner=None if b == NONE else int(seen.agents["id"][b]),
            winner_score=winner_score,
            winning_change=change,
            winning_change_exact=exact,
            changes=self._changes(facts, a, z, b),
            way_blocked=status == CoordStatus.ZONE_BLOCKED and self._way_blocked(a, z),
        )

    def _winning_change(
        self, a: int, z: int, b: int, status: CoordStatus, score: int, travel: int
    ) -> tuple[int | None, bool]:
        """(change, whether exact) without planning again; see Option."""
        if b == a:
            return 0, True
        if status not in (CoordStatus.OK, CoordStatus.CONFLICT):
            return None, True
        if (b != NONE and int(self.seen.held[b]) != NONE) or int(self.seen.held[a]) != NONE:
            return None, True
        if self.config.planner == EXTERNAL:
            return None, False
        own = int(self.zone_of[a])
        key = (travel, z, a)
        scores, travels = self.own
        needed = [score + 1] if own == NONE and b == NONE else []  # left idle: a place among the candidates
        if own != NONE:
            needed.append(int(scores[a]) + (key >= (int(travels[a]), own, a)))
        if b != NONE:
            needed.append(int(scores[b]) + (key >= (int(travels[b]), z, b)))
        least = max(needed)
        if self.config.planner != 0:
            if b == NONE and own != NONE:
                least = int(scores[a]) + 1
            elif NONE not in (b, own) and bool((back := self.one(b, own)).feasible[0]):
                least = min(least, int(scores[a]) + int(scores[b]) - int(back.score[0]) + 1)
        change = max(1, least - score)
        return (change if score + change <= I32_MAX else None), self.greedy

    def _changes(self, facts: CandidateFacts, a: int, z: int, b: int) -> tuple[str, ...]:
        seen = self.seen
        agent, zone = seen.agents[a], seen.zones[z]
        who = f"agent {facts.agent}"
        external = self.config.planner == EXTERNAL
        if b == a:
            return ()
        out = []
        if facts.agent_readiness == AgentReadiness.MEMORY_EXPIRED:
            limit = min(int(agent["memory_ticks"]), self.config.max_stale_ticks)
            out.append(f"{who} must be seen again: {int(seen.stale[a])} ticks old, at most {limit} allowed")
        if facts.agent_readiness in (AgentReadiness.BAD_MODE, AgentReadiness.OFFLINE):
            out.append(f"{who} must leave mode {int(agent['mode'])} for 0, 1 or 2")
        if int(seen.held[a]) != NONE:
            out.append(f"{who} must finish its work in zone {int(seen.zones['id'][seen.held[a]])}")
        if not facts.capable:
            lacking = int(zone["need_caps"]) & ~int(agent["caps"])
            out.append(f"{who} needs capability bits {lacking:#x} besides {int(agent['caps']):#x}")
        if not facts.charged:
            need = max(self.config.min_energy, float(zone["energy_cost"]))
            out.append(f"{who} needs energy {short(need)}, has {short(agent['energy'])}")
        if facts.blocked:
            out += self._unblock(a, z)
        if facts.travel == COORD_UNREACHABLE_TRAVEL_TIME:
            out.append(f"{who} must be able to travel, its speed is {short(agent['speed'])}")
        elif facts.travel > facts.travel_max:
            out.append(f"zone {facts.zone} must be within {facts.travel_max} ticks, is {facts.travel} away")
        if not facts.way:
            out.append(f"the grid must have a way from {who} to zone {facts.zone}")
        if facts.taken and int(seen.held[b]) != NONE:
            out.append(f"agent {int(seen.agents['id'][b])} must finish its work in zone {facts.zone}")
        elif facts.taken:
            lost = f"zone {facts.zone} went to agent {int(seen.agents['id'][b])}"
            out.append(lost + (": an external planner chose" if external else ": the score must win it"))
        elif not out and external:
            out.append(f"zone {facts.zone} is free: an external planner chose")
        elif not out:
            out.append(f"zone {facts.zone} is free: the score must win against the agent's own zone")
        return tuple(out)

    def _way_blocked(self, a: int, z: int) -> bool:
        """Whether an obstacle stands on the straight way, where the config tests it, and none on the zone."""
        return not bool(self.seen.blocked[z]) and bool(self._blockers(a, z)[1])

    def _blockers(self, a: int, z: int) -> tuple[list[int], list[int]]:
        """Obstacles by index: those on the zone, and those on the way to it where the config tests ways."""
        shapes = self.seen.shapes
        x, y = self.zones.x[z : z + 1], self.zones.y[z : z + 1]
        ax, ay = self.facts.x[a : a + 1], self.facts.y[a : a + 1]
        on_zone: list[int] = []
        on_way: list[int] = []
        for o in range(len(shapes)):
            one = replace(
                shapes,
                **{f: getattr(shapes, f)[o : o + 1] for f in shapes.__dataclass_fields__ if f != "corners"},
            )
            if bool(blocked_points(x, y, one)[0]):
                on_zone.append(o)
            elif self.problem.shapes is not None and bool(blocked_segments(ax, ay, x, y, one)[0]):
                on_way.append(o)
        return on_zone, on_way

    def _unblock(self, a: int, z: int) -> list[str]:
        seen = self.seen
        who, zone = f"agent {int(seen.agents['id'][a])}", f"zone {int(seen.zones['id'][z])}"
        on_zone, on_way = self._blockers(a, z)
        out = []
        if on_zone:
            out.append(f"{zone} must be clear of {self._named(on_zone)}")
        if seen.grid is not None and int(self.zones.component[z]) == 0:
            out.append(f"{zone} must lie on a free cell of the grid")
        if on_way:
            out.append(f"the way from {who} to {zone} must be clear of {self._named(on_way)}")
        return out

    def _named(self, obstacles: list[int]) -> str:
        """Obstacles by shape and place: their ids are an order inside a run."""
        shapes = self.seen.shapes
        names = []
        for o in obstacles[:8]:
            kind = int(shapes.kind[o])
            x, y = shapes.corners[shapes.first[o]] if kind == POLYGON else (shapes.x[o], shapes.y[o])
            place = f"({short(x)}, {short(y)})"
            names.append(
                {CIRCLE: "the circle at ", BOX: "the box at "}.get(kind, "the polygon with a corner at ") + place
            )
        return ", ".join(names) + (f" and {len(obstacles) - 8} more" if len(obstacles) > 8 else "")


def short(value: np.floating[Any] | float) -> str:
    """The fewest digits that name a float32.

    >>> short(np.float32(0.05)), short(2.0)
    ('0.05', '2')
    """
    return str(np.float32(value)).removesuffix(".0")


__all__ = ["EXACT", "Explanation", "Option", "UnknownIdError", "explain_situation"]
