"""Deterministic coordination of fleets: agents, zones, obstacles and influence fields in, decision frames out."""

from coord.auditing.audit import audit
from coord.auditing.difference import Drift, DriftTick, FirstOther, drift
from coord.auditing.divergence import Divergence
from coord.auditing.report import Report, parse_checkpoint
from coord.cell import (
    COORD_CELL_KEY_BYTES,
    COORD_CELL_NEIGHBOR_COUNT,
    CoordCell,
    cell_from_units,
    coord_cell_equal,
    coord_cell_neighbor,
    decode_coord_cell_key,
    encode_coord_cell_key,
    write_coord_cell_neighbors,
)
from coord.errors import (
    BadInput,
    CaseError,
    CellError,
    CoordError,
    FrameError,
    InputsError,
    MapError,
    OutputError,
    ParameterError,
    PlannerError,
    RepeatError,
    RowsError,
    RunError,
    ScenarioError,
    TooLargeError,
)
from coord.explaining.explain import Explanation, Option, UnknownIdError, explain
from coord.fields.field import field_at, field_gradient, field_points, field_raster, gaussian_at
from coord.frames.decisions import (
    DecisionLedger,
    decision_ledger_assignment_rate,
    decision_ledger_conflict_rate,
    decision_ledger_rejected_rate,
    decision_ledger_rows_per_frame,
    decision_ledger_stale_agent_rate,
    decision_ledger_tick_span,
    decision_ledger_total_rows,
)
from coord.frames.digest import input_digest
from coord.frames.frame import (
    DECISION_FRAME_BYTES,
    DecisionFrame,
    decision_frame_total_rows,
    decode_frame_event,
    encode_frame_event,
)
from coord.frames.frame_chain import FRAME_DTYPE, FrameFault, check_chain, decode_frames
from coord.frames.inputs import Inputs
from coord.geometry import distance, distance_sq
from coord.ground.grid import Grid
from coord.ground.rings import Rings
from coord.ground.wgs84 import enu_to_wgs84, wgs84_to_enu
from coord.health import CoordHealth, coord_health
from coord.measuring.metrics import Metrics, Scorer, TickMetrics, metrics, quality, tick_metrics
from coord.measuring.sweep import CaseResult, SetSummary, Spread, Sweep, process_pool, sweep
from coord.moving.first_solution import first_solution
from coord.moving.motion import straight_step
from coord.moving.neighbours import Neighbours, Separation, minimum_separation, neighbour_counts, neighbours
from coord.moving.paths import PathFault, Paths, check_paths
from coord.planning.candidate import (
    CandidateFacts,
    CandidateScore,
    candidate_facts,
    candidate_status,
    score_candidate,
    travel_time,
)
from coord.planning.external import Planner, plan_external
from coord.planning.plan import Plan, plan, plan_auction, plan_exact, plan_greedy, plan_swap
from coord.planning.readiness import (
    AgentReadiness,
    ZoneReadiness,
    agent_can_travel,
    agent_clock_ahead,
    agent_memory_remaining_ticks,
    agent_memory_valid,
    agent_readiness,
    agent_stale_ticks,
    zone_blocked,
    zone_idle_ticks,
    zone_readiness,
)
from coord.planning.replan import Replan, replan
from coord.planning.workspace import Workspace
from coord.records import (
    AGENT_DTYPE,
    CONFIG_DTYPE,
    COORD_UNREACHABLE_TRAVEL_TIME,
    KERNEL_DTYPE,
    NO_ZONE,
    OBSTACLE_DTYPE,
    RING_DTYPE,
    ROW_DTYPE,
    ZONE_DTYPE,
    AgentMode,
    AgentState,
    GaussianKernel,
    Obstacle,
    PlanConfig,
    WorkZone,
)
from coord.simulation.demand_spec import TASK_DTYPE
from coord.simulation.events import EventKind, FleetEvent
from coord.simulation.setup import Motion, Setup
from coord.simulation.simulate import Run, simulate
from coord.sites.geojson import import_geojson
from coord.sites.importer import import_map, import_scen
from coord.sites.lorr import LorrImport, import_lorr
from coord.sites.scenario import Scenario
from coord.sites.site_schema import json_schema
from coord.status import (
    Assignment,
    AssignmentStats,
    CoordStatus,
    assignment_conflict,
    assignment_ok,
    assignment_rejected,
    count_assignments_by_status,
    empty_assignment_stats,
    find_assignment_by_agent,
    find_assignment_by_zone,
)
from coord.stl import coordination_stl, open_run

__all__ = [
    "AGENT_DTYPE",
    "CONFIG_DTYPE",
    "COORD_CELL_KEY_BYTES",
    "COORD_CELL_NEIGHBOR_COUNT",
    "COORD_UNREACHABLE_TRAVEL_TIME",
    "DECISION_FRAME_BYTES",
    "FRAME_DTYPE",
    "KERNEL_DTYPE",
    "NO_ZONE",
    "OBSTACLE_DTYPE",
    "RING_DTYPE",
    "ROW_DTYPE",
    "TASK_DTYPE",
    "ZONE_DTYPE",
    "AgentMode",
    "AgentReadiness",
    "AgentState",
    "Assignment",
    "AssignmentStats",
    "BadInput",
    "CandidateFacts",
    "CandidateScore",
    "CaseError",
    "CaseResult",
    "CellError",
    "CoordCell",
    "CoordError",
    "CoordHealth",
    "CoordStatus",
    "DecisionFrame",
    "DecisionLedger",
    "Divergence",
    "Drift",
    "DriftTick",
    "EventKind",
    "Explanation",
    "FirstOther",
    "FleetEvent",
    "FrameError",
    "FrameFault",
    "GaussianKernel",
    "Grid",
    "Inputs",
    "InputsError",
    "LorrImport",
    "MapError",
    "Metrics",
    "Motion",
    "Neighbours",
    "Obstacle",
    "Option",
    "OutputError",
    "ParameterError",
    "PathFault",
    "Paths",
    "Plan",
    "PlanConfig",
    "Planner",
    "PlannerError",
    "RepeatError",
    "Replan",
    "Report",
    "Rings",
    "RowsError",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Scorer",
    "Separation",
    "SetSummary",
    "Setup",
    "Spread",
    "Sweep",
    "TickMetrics",
    "TooLargeError",
    "UnknownIdError",
    "WorkZone",
    "Workspace",
    "ZoneReadiness",
    "agent_can_travel",
    "agent_clock_ahead",
    "agent_memory_remaining_ticks",
    "agent_memory_valid",
    "agent_readiness",
    "agent_stale_ticks",
    "assignment_conflict",
    "assignment_ok",
    "assignment_rejected",
    "audit",
    "build_info",
    "candidate_facts",
    "candidate_status",
    "cell_from_units",
    "check_chain",
    "check_paths",
    "coord_cell_equal",
    "coord_cell_neighbor",
    "coord_health",
    "coordination_stl",
    "count_assignments_by_status",
    "decision_frame_total_rows",
    "decision_ledger_assignment_rate",
    "decision_ledger_conflict_rate",
    "decision_ledger_rejected_rate",
    "decision_ledger_rows_per_frame",
    "decision_ledger_stale_agent_rate",
    "decision_ledger_tick_span",
    "decision_ledger_total_rows",
    "decode_coord_cell_key",
    "decode_frame_event",
    "decode_frames",
    "distance",
    "distance_sq",
    "drift",
    "empty_assignment_stats",
    "encode_coord_cell_key",
    "encode_frame_event",
    "enu_to_wgs84",
    "explain",
    "field_at",
    "field_gradient",
    "field_points",
    "field_raster",
    "find_assignment_by_agent",
    "find_assignment_by_zone",
    "first_solution",
    "gaussian_at",
    "import_geojson",
    "import_lorr",
    "import_map",
    "import_scen",
    "input_digest",
    "json_schema",
    "metrics",
    "minimum_separation",
    "neighbour_counts",
    "neighbours",
    "open_run",
    "parse_checkpoint",
    "plan",
    "plan_auction",
    "plan_exact",
    "plan_external",
    "plan_greedy",
    "plan_swap",
    "process_pool",
    "quality",
    "replan",
    "score_candidate",
    "simulate",
    "straight_step",
    "sweep",
    "tick_metrics",
    "travel_time",
    "wgs84_to_enu",
    "write_coord_cell_neighbors",
    "zone_blocked",
    "zone_idle_ticks",
    "zone_readiness",
]


def build_info() -> dict[str, object]:
    """How this build decides: instruction set, and the planners there are.

    >>> build_info()["planners"]
    'greedy, swap, auction, exact, external'
    """
    from coord.backend import ISA
    from coord.checks import PLANNERS

    return {"isa": ISA, "planners": ", ".join(PLANNERS.values())}
