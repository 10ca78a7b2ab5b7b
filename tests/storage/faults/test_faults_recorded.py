"""Every state that a crash may leave, from a record of writes and syncs: no root and no mount needed."""

from __future__ import annotations

import pytest

ENGINES = ("rocksdb", "lmdb")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_crash_states_lose_no_confirmed_event(engine, trials, io_shim, nothing_wrong):
    outcomes = trials(
        f"crash states, {engine}, quick", "recorded_trials.py", engine, "fsync", 20, 77_000, preload=io_shim
    )
    nothing_wrong(outcomes)
    assert max(outcome["confirmed"] for outcome in outcomes) > 100


@pytest.mark.parametrize("engine", ENGINES)
def test_without_fsync_the_crash_states_lose_confirmed_events(engine, trials, io_shim):
    """The planted control: the test above would notice a ledger that does not sync."""
    outcomes = trials(
        f"crash states, {engine}, control without fsync", "recorded_trials.py", engine, "os", 25, 5, preload=io_shim
    )
    assert any("confirmed ranks lost" in outcome.get("wrong", "") for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("engine", ENGINES)
def test_crash_states_lose_no_confirmed_event(engine, part, count, trials, io_shim, nothing_wrong):
    share = round(count(full=5000, slow=120, quick=0) / 4)
    outcomes = trials(
        f"crash states, {engine}", "recorded_trials.py", engine, "fsync", max(1, share), 1000 * part, preload=io_shim
    )
    nothing_wrong(outcomes)
