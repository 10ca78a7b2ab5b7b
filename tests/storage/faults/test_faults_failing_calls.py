"""The system refuses a call, whichever it is: errors are ours, nothing confirmed is lost, opening again works."""

from __future__ import annotations

import pytest

ENGINES = ("rocksdb", "lmdb")


@pytest.mark.parametrize("engine", ENGINES)
def test_some_failing_calls_lose_nothing_confirmed(engine, trials, io_shim, nothing_wrong):
    step = {"rocksdb": 150, "lmdb": 61}[engine]
    outcomes = trials(f"failing call, {engine}, quick", "failing_trials.py", engine, step, 11, preload=io_shim)
    nothing_wrong(outcomes)
    assert sum(outcome["outcome"] == "error" for outcome in outcomes) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("engine", ENGINES)
def test_every_failing_call_loses_nothing_confirmed(engine, part, count, trials, io_shim, nothing_wrong):
    """In full every write, sync, name and open of a session fails once, and from then on."""
    step = 4 * max(1, round(1 / count(full=1, slow=0.1, quick=0.1)))
    outcomes = trials(f"failing call, {engine}", "failing_trials.py", engine, step, part, preload=io_shim)
    nothing_wrong(outcomes)
    assert outcomes
