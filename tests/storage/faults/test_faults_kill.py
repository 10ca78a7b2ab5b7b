"""A writer killed at any moment loses nothing that it had confirmed, and its ledger opens and goes on."""

from __future__ import annotations

import pytest

ENGINES = ("rocksdb", "lmdb")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_killed_writers_lose_no_confirmed_event(engine, trials, nothing_wrong):
    outcomes = trials(f"kill -9, {engine}, quick", "kill_trials.py", engine, 16, 77_000_000)
    nothing_wrong(outcomes)
    assert max(outcome["confirmed"] for outcome in outcomes) > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("engine", ENGINES)
def test_killed_writers_lose_no_confirmed_event(engine, part, count, trials, nothing_wrong):
    share = round(count(full=5000, slow=120, quick=0) / 4)
    outcomes = trials(f"kill -9, {engine}", "kill_trials.py", engine, max(1, share), 1_000_000 * part)
    nothing_wrong(outcomes)
