"""Other people's planners: what they may return, and that nothing wrong reaches a frame."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import (
    BadInput,
    PlanConfig,
    PlannerError,
    RowsError,
    RunError,
    Scenario,
    audit,
    decode_frame_event,
    metrics,
    plan_external,
    plan_greedy,
    plan_swap,
    simulate,
)
from coord.frames.frame import rows_digest
from coord.planning import plan_ref
from coord.planning.external import checked_plan, pair_status
from coord.planning.problem import NONE
from coord.planning.situation import situation
from coord.records import NO_ZONE, ROW_DTYPE
from coord.simulation.setup import setup_from_map
from storage import Ledger

seeds = st.integers(0, 2**20)
FLEET = (
    'version = 1\nname = "fleet"\nseed = 4\n[plan]\nqueue = 2\n[agents]\nrandom = 9\nspeed = 7\n[zones]\nrandom = 30\n'
)


def external(fleet, planner):
    return plan_external(
        planner, fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config, now_tick=fleet.now_tick,
        rings=fleet.rings, grid=fleet.grid,
    )  # fmt: skip


def returning(value):
    return lambda *tables, **rest: value


def queued(fleet, later):
    return replace(fleet, config=replace(fleet.config, flags=fleet.config.flags & 1 | later << 1))


@given(seed=seeds, later=st.integers(0, 7), planner=st.sampled_from([plan_greedy, plan_swap]))
@settings(max_examples=25)
def test_rows_and_pairs_and_plans_of_a_built_in_planner_pass_in_any_order(make_fleet, seed, later, planner):
    fleet = queued(make_fleet(seed, 20, 60), later)
    wanted = replace(fleet, config=replace(fleet.config, planner=int(planner is plan_swap))).plan()
    rng = np.random.default_rng(seed)
    rows = rng.permutation(wanted.rows)
    in_order = wanted.rows[np.lexsort((rng.random(len(rows)), wanted.rows["queue_index"]))]
    pairs = np.stack([in_order["agent"], in_order["zone"]], axis=1)
    listed = [tuple(pair) for pair in pairs[pairs[:, 1] != NO_ZONE].tolist()]
    for returned in (planner, returning(rows), returning(pairs), returning(listed)):
        made = external(fleet, returned)
        assert made.rows.tobytes() == wanted.rows.tobytes()
        frame = made.frame(5)
        assert frame.planner == 4
        assert frame.config_hash == replace(fleet.config, planner=4).hash()
        assert (frame.input_digest, frame.rows_digest) == (wanted.frame(5).input_digest, wanted.frame(5).rows_digest)
        assert made.stats == wanted.stats


@given(seed=seeds, data=st.data())
@settings(max_examples=60)
def test_any_other_value_of_any_field_is_refused_by_agent_and_field(make_fleet, seed, data):
    fleet = queued(make_fleet(seed, 12, 40), 2)
    rows = fleet.plan().rows.copy()
    i = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(ROW_DTYPE.names))
    info = np.iinfo(ROW_DTYPE[name])
    old = int(rows[name][i])
    value = data.draw(st.one_of(st.integers(info.min, info.max), st.integers(max(info.min, old - 2), old)))
    if value == old:
        return
    agent = int(rows["agent"][i])
    rows[name][i] = value
    with pytest.raises(RowsError) as caught:
        external(fleet, returning(rows))
    error = caught.value
    if name in ("status", "mode", "reason", "score", "travel", "stale", "idle"):
        assert (error.row, error.field, error.agent, error.expected, error.got) == (i, name, agent, old, value)
    else:  # another agent, zone or place breaks a rule of some row
        assert error.field in ("agent", "zone", "queue_index", "status", "score", "travel")


@given(seed=seeds)
@settings(max_examples=40)
def test_whatever_pairs_are_accepted_each_is_feasible_and_no_zone_is_twice(make_fleet, seed):
    fleet = make_fleet(seed, 8, 12)
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    pairs = np.stack([rng.choice(fleet.agents["id"], count), rng.choice(fleet.zones["id"], count)], axis=1)
    seen = situation(
        fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, replace(fleet.config, planner=4),
        now_tick=fleet.now_tick, rings=fleet.rings, grid=fleet.grid,
    )  # fmt: skip
    good = len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1])) == count
    for agent, zone in pairs.tolist():
        a, z = np.searchsorted(seen.agents["id"], agent), np.searchsorted(seen.zones["id"], zone)
        if seen.held[a] != NONE or z in seen.held:
            good = good and seen.held[a] == z
        elif a not in seen.planned:
            good = False
        else:
            here = plan_ref.pairs(seen.problem, seen.problem.agents, int(np.searchsorted(seen.planned, a)))
            good = good and bool(here.feasible[np.searchsorted(seen.offered, z)])
    if good:
        rows = external(fleet, returning(pairs)).rows
        served = {(int(row["agent"]), int(row["zone"])) for row in rows if row["zone"] != NO_ZONE}
        assert served >= set(map(tuple, pairs.tolist()))
    else:
        with pytest.raises(RowsError):
            external(fleet, returning(pairs))


@given(seed=seeds)
@settings(max_examples=20)
def test_a_pair_fails_at_the_test_that_the_twin_says(make_fleet, seed):
    fleet = make_fleet(seed, 10, 10)
    problem = situation(
        fleet.agents, fleet.zones, fleet.obstacles, fleet.kernels, fleet.config, now_tick=fleet.now_tick,
        rings=fleet.rings, grid=fleet.grid,
    ).problem  # fmt: skip
    for shift in range(len(problem.zones)):
        assigned = ((np.arange(len(problem.agents)) + shift) % len(problem.zones)).astype(np.int32)
        got = pair_status(problem, assigned)
        for a, z in enumerate(assigned):
            p = plan_ref.pairs(problem, problem.agents, a)
            wanted = 9 if not p.capable[z] else 8 if not p.charged[z] else 5 if not p.open[z] else 4 * (not p.near[z])
            assert got[a] == wanted


@pytest.fixture
def small(make_fleet):
    """Agents 1 (idle), 2 (at work in zone 11), 3 (stale), 4 (idle, without the capability of zone 13)."""
    fleet = make_fleet(0, 4, 4, rich=False)
    fleet.agents["id"], fleet.zones["id"] = [1, 2, 3, 4], [10, 11, 12, 13]
    fleet.agents["x"], fleet.agents["y"], fleet.agents["caps"] = [0, 5, 9, 3], 0, [1, 1, 1, 0]
    fleet.zones["x"], fleet.zones["y"], fleet.zones["need_caps"] = [1, 5, 9, 3], 0, [0, 0, 0, 1]
    fleet.agents["mode"], fleet.agents["zone"] = [0, 2, 0, 0], [NO_ZONE, 11, NO_ZONE, NO_ZONE]
    fleet.agents["last_seen_tick"] = [1000, 1000, 0, 1000]
    fleet.config = PlanConfig(flags=1 << 1)
    return fleet


REFUSED = [
    (
        [(1, 10), (4, 10)],
        "rows[1].zone of agent 4: expected a zone that is nobody else's, got 10 again, which is agent 1's",
    ),
    ([(5, 10)], "rows[0].agent of agent 5: expected the id of one of the 4 agents, got 5"),
    ([(1, 14)], "rows[0].zone of agent 1: expected the id of one of the 4 zones, or 4294967295, got 14"),
    ([(1, 12), (2, 10)], "rows[1].zone of agent 2: expected 11, in which the agent works, got 10"),
    ([(1, 11)], "rows[0].zone of agent 1: expected a zone that is nobody else's, got 11 again, which is agent 2's"),
    ([(3, 12)], "rows[0].zone of agent 3: expected 4294967295 (no zone: its readiness is memory_expired), got 12"),
    (
        [(1, 10), (4, 13)],
        "rows[1].zone of agent 4: expected a zone that the agent may serve, got 13 (missing_capability)",
    ),
    (
        [(4, 10), (4, 13)],
        "rows[1].zone of agent 4: expected a zone that the agent may serve, got 13 (missing_capability)",
    ),
    ([(1, 10), (1, 12), (1, 13)], "rows[2].queue_index of agent 1: expected at most 1, got 2"),
    ([(1, NO_ZONE), (1, 12)], "rows[1].queue_index of agent 1: expected no queue of an agent without a zone, got 1"),
    ([(1, 10), (1, NO_ZONE)], "rows[1].zone of agent 1: expected a zone in a queued row, got 4294967295"),
    ([(4, 12), (1, 10, 0)], "rows[1]: expected a pair of ids (agent, zone), got (1, 10, 0)"),
    ([(1, 2.0)], "rows[0]: expected a pair of ids (agent, zone), got (1, 2.0)"),
    ([(1, None)], "rows[0]: expected a pair of ids (agent, zone), got (1, None)"),
    ([(True, 10)], "rows[0]: expected a pair of ids (agent, zone), got (True, 10)"),
    (None, "rows: expected (agent, zone) pairs, rows of ROW_DTYPE or a plan, got NoneType"),
    (np.array([[1.0, 10.0]]), "rows: expected integers in the shape (n, 2), or ROW_DTYPE, got float64[1, 2]"),
    (np.array([1, 10]), "rows: expected integers in the shape (n, 2), or ROW_DTYPE, got int64[2]"),
    (np.array([[4, 12], [-1, 10]]), "rows[1]: expected two ids of 32 bits, got (-1, 10)"),
    (np.zeros((1, 4), ROW_DTYPE), "rows: expected rows in one dimension, got shape (1, 4)"),
    ("whole rows without agent 4", "rows.agent of agent 4: expected a row, got none"),
    (np.ma.array([[1, 10]], mask=True), "rows: expected an array without a mask, got MaskedArray"),
]


@pytest.mark.parametrize(("returned", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_breaks_a_rule_is_refused_in_these_words(small, returned, message):
    if isinstance(returned, str):
        returned = small.plan().rows[:-1]
        returned = returned[returned["agent"] != 4]
    with pytest.raises(RowsError) as caught:
        external(small, returning(returned))
    assert str(caught.value) == message
    assert isinstance(caught.value, BadInput)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.agent, again.field) == (message, caught.value.agent, caught.value.field)


def forever():
    while True:
        yield (1, 10)


ENDLESS_ROW = np.zeros(1, ROW_DTYPE)
ENDLESS_ROW["agent"], ENDLESS_ROW["zone"] = 1, 10
ENDLESS = [forever(), np.broadcast_to(np.array([1, 10]), (2**45, 2)), np.broadcast_to(ENDLESS_ROW, (2**45,))]


@pytest.mark.parametrize("endless", ENDLESS, ids=["generator", "pairs", "rows"])
def test_rows_without_end_are_refused_before_they_are_kept(small, endless):
    """One more row than the agents may have is read: in it somebody is unknown, or has too many."""
    with pytest.raises(RowsError, match=r"^rows\[\d\].queue_index of agent 1: expected "):
        external(small, returning(endless))


def test_a_matrix_of_ids_is_taken_as_the_array_that_it_is(small):
    pairs = [(1, 10), (4, 12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix(pairs)
    assert external(small, returning(matrix)).rows.tobytes() == external(small, returning(pairs)).rows.tobytes()


def test_a_queue_is_tested_from_the_zone_before_with_the_energy_that_is_left(small):
    small.zones["energy_cost"] = [0.5, 0, 0.5, 0]
    assert len(external(small, returning([(1, 10)])).rows) == 4
    with pytest.raises(RowsError, match=r"rows\[1\].zone of agent 1: .*, got 12 \(low_energy\)"):
        external(small, returning([(1, 10), (1, 12)]))
    small.zones["energy_cost"] = 0
    small.config = replace(small.config, max_travel_ticks=5)
    with pytest.raises(RowsError, match=r"rows\[1\].zone of agent 1: .*, got 12 \(unreachable\)"):
        external(small, returning([(1, 10), (1, 12)]))
    made = external(small, returning([(1, 10), (1, 13)]))
    assert made.rows["travel"][made.rows["agent"] == 1].tolist() == [1, 2]


def test_an_agent_at_work_may_be_left_out_or_named_and_may_queue(small):
    alone = external(small, returning([]))
    assert alone.rows["zone"].tolist() == [NO_ZONE, 11, NO_ZONE, NO_ZONE]
    assert alone.rows["status"].tolist() == [1, 0, 2, 1]
    named = external(small, returning([(2, 11), (2, 10)]))
    assert named.rows["zone"].tolist() == [NO_ZONE, 11, 10, NO_ZONE, NO_ZONE]


def test_a_planner_gets_copies_that_it_cannot_write_to(small):
    before = [table.tobytes() for table in (small.agents, small.zones, small.obstacles, small.kernels)]
    got = []

    def spy(agents, zones, obstacles, kernels, config, *, now_tick, rings=None, grid=None):
        got.append((int(config["planner"][0]), now_tick))
        with pytest.raises(ValueError, match="read-only"):
            agents["x"] = 1
        for table in (agents, zones, obstacles, kernels):
            table.flags.writeable = True
            table["x"] = 7
        return [(1, 12)]

    made = external(small, spy)
    assert got == [(4, 1000)]
    assert [table.tobytes() for table in (small.agents, small.zones, small.obstacles, small.kernels)] == before
    assert made.rows["travel"][0] == 6  # to zone 12 from where the agent is, not from where it was put


def test_plan_itself_refuses_the_config_of_an_external_planner(small):
    with pytest.raises(PlannerError, match=r"^config.planner 4 is somebody else's planner \(hint: plan_external\("):
        replace(small, config=PlanConfig(planner=4)).plan()


def nearest(agents, zones, *others, **rest):
    """Idle and travelling agents by id, each to the nearest zone that is left, and the next to its queue."""
    free, pairs = list(range(len(zones))), []
    for agent in agents[agents["mode"] < 2]:
        for _ in range(2):
            apart = np.hypot(zones["x"][free] - agent["x"], zones["y"][free] - agent["y"])
            pairs.append((agent["id"], zones["id"][free.pop(int(np.argmin(apart)))]))
    return pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("external") / "run"
    told = simulate(Scenario.loads(FLEET), 30, ledger=folder, sync="os", planner_model=busy_aware)
    return folder, told


def busy_aware(agents, zones, *others, **rest):
    """As `nearest`, among the zones where nobody works."""
    taken = agents["zone"][agents["mode"] == 2]
    return nearest(agents, zones[~np.isin(zones["id"], taken)])


def test_a_run_of_an_external_planner_is_audited_and_named(run):
    folder, told = run
    assert told.served > 0
    report = audit(folder)
    assert report.ok, (report.problems, report.first_divergences)
    assert (report.planned, report.external_decisions, report.frames) == (0, 30, 30)
    assert report.external == {"planner": "busy_aware"}
    again = audit(folder, resimulate=True)
    assert again.ok
    assert (again.resimulated, again.external_decisions, again.not_resimulated) == (30, 30, "")
    assert audit(folder, jobs=2) == report
    part = audit(folder, first_tick=10, last_tick=14)
    assert (part.ok, part.planned, part.external_decisions, part.external) == (True, 0, 5, report.external)
    with Ledger.open(folder, mode="r") as ledger:
        frames = [decode_frame_event(event.effect)[0] for _, event in ledger.scan() if event.kind == "coord.frame"]
    assert {frame.planner for frame in frames} == {4}
    assert metrics(folder).frames == 30


def rewritten(source, out, edit):
    """A copy of the run with the rows of one frame changed and every digest made to fit."""
    with Ledger.open(source, mode="r") as ledger:
        events = [event for _, event in ledger.scan()]
    prev, written = bytes(16), []
    for stored in events:
        event = stored
        if event.kind == "coord.frame":
            frame, rows = decode_frame_event(event.effect)
            rows = rows.copy()
            if frame.frame_id == 7:
                edit(rows)
            frame = dataclasses.replace(
                frame, rows_digest=rows_digest(rows), prev_digest=prev,
                score_sum=int(rows["score"][(rows["status"] == 0) & (rows["queue_index"] == 0)].sum()),
            )  # fmt: skip
            prev = frame.digest()
            event = dataclasses.replace(event, effect=frame.encode() + rows.tobytes())
        written.append(event)
    with Ledger.open(out, sync="os") as ledger:
        ledger.append_many(written)
    return out


def other_score(rows):
    rows["score"][first_served(rows)] += 1


def other_travel_of_a_queued_row(rows):
    rows["travel"][np.flatnonzero(rows["queue_index"] == 1)[0]] += 1


def zones_exchanged(rows):
    a, b = np.flatnonzero((rows["queue_index"] == 0) & (rows["mode"] < 2) & (rows["status"] == 0))[:2]
    rows["zone"][[a, b]] = rows["zone"][[b, a]]


def zone_twice(rows):
    rows["zone"][np.flatnonzero(rows["queue_index"] == 1)[0]] = rows["zone"][first_served(rows)]


def zone_unknown(rows):
    rows["zone"][first_served(rows)] = 999


def first_served(rows):
    return np.flatnonzero((rows["queue_index"] == 0) & (rows["status"] == 0))[0]


TAMPERED = [(other_score, "score"), (other_travel_of_a_queued_row, "travel"), (zones_exchanged, "score"),
            (zone_twice, "zone"), (zone_unknown, "zone")]  # fmt: skip


@pytest.mark.parametrize(("edit", "field"), TAMPERED)
@pytest.mark.parametrize("resimulate", [False, True])
def test_a_rewritten_row_of_an_external_planner_is_found_by_frame_agent_and_field(
    run, tmp_path, edit, field, resimulate
):
    folder = rewritten(run[0], tmp_path / "forged", edit)
    report = audit(folder, resimulate=resimulate)
    assert not report.ok
    found = report.first_divergence
    assert found is not None, report.problems
    assert (found.frame_id, found.tick, found.field) == (7, 7, field)
    assert found.agent is not None
    if not resimulate:
        assert report.frames_diverged == 1


def test_a_refused_row_ends_the_ledger_at_the_frame_before(tmp_path):
    def late(agents, zones, *others, now_tick, **rest):
        return [(0, 3)] if now_tick < 5 else [(0, 3), (1, 3)]

    site = Scenario.loads(FLEET)
    with pytest.raises(RowsError, match=r"^rows\[1\].zone of agent 1: expected a zone that is nobody else's"):
        simulate(site, 9, ledger=tmp_path / "late", planner_model=late)
    report = audit(tmp_path / "late")
    assert (report.ok, report.frames) == (True, 5)


def test_what_a_planner_raises_comes_through_and_leaves_whole_frames(tmp_path):
    def breaks(agents, zones, *others, now_tick, **rest):
        if now_tick == 3:
            raise ZeroDivisionError("mine")
        return []

    with pytest.raises(ZeroDivisionError, match="mine"):
        simulate(Scenario.loads(FLEET), 9, ledger=tmp_path / "breaks", planner_model=breaks)
    report = audit(tmp_path / "breaks")
    assert (report.ok, report.frames) == (True, 3)
    with pytest.raises(ZeroDivisionError):
        simulate(Scenario.loads(FLEET), 9, ledger=tmp_path / "nothing", planner_model=lambda *a, **k: 1 / 0)
    assert not (tmp_path / "nothing").exists()


def test_planner_and_planner_model_together_are_refused():
    with pytest.raises(ValueError, match=r"^simulate: expected planner or planner_model, got both$"):
        simulate(Scenario.loads(FLEET), 1, planner="greedy", planner_model=nearest)


def test_a_name_that_can_not_be_recorded_is_refused():
    def nameless(*tables, **rest):
        return []

    nameless.name = "a\nb"
    with pytest.raises(ValueError, match=r"planner_model: expected a name of 1 to 60 printable bytes, got 'a\\nb'"):
        simulate(Scenario.loads(FLEET), 1, planner_model=nameless)


@pytest.mark.parametrize(
    ("external", "message"),
    [
        ({}, "external: expected printable names of demand, motion, planner"),
        ({"planner": "a\nb"}, "external: expected printable names of demand, motion, planner"),
        ({"planner": 7}, "external: expected printable names of demand, motion, planner"),
        ({"pilot": "me"}, "external: expected printable names of demand, motion, planner"),
        ({"motion": "me"}, "external.planner: expected it where the planner is 4, and only there"),
        ([], "external: expected a map, got list"),
    ],
)
def test_a_scenario_event_with_other_external_names_is_refused(external, message):
    setup = Scenario.loads(FLEET).setup
    setup = replace(setup, config=replace(setup.config, planner=4), external={"planner": "me"})
    assert setup_from_map(setup.to_map()).external == {"planner": "me"}
    with pytest.raises(RunError) as caught:
        setup_from_map({**setup.to_map(), "external": external})
    assert str(caught.value) == f"coord.scenario: {message}"


def test_an_external_plan_leaves_the_float_mode_and_numpys_errors_alone(small):
    def rude(*tables, **rest):
        np.seterr(all="raise")
        return plan_greedy(*tables, **rest)

    before = np.geterr()
    external(small, rude)
    assert np.geterr() == before


def test_checked_plan_without_comparing_takes_only_the_choice_from_whole_rows(small):
    rows = small.plan().rows.copy()
    wanted = rows.tobytes()
    rows["score"] += 1
    seen = situation(
        small.agents, small.zones, small.obstacles, small.kernels, replace(small.config, planner=4), now_tick=1000
    )
    assert checked_plan(seen, rows, compare=False).rows.tobytes() == wanted
