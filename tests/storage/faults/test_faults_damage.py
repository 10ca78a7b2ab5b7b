"""Damaged files: no wrong byte is given out, nothing below HEAD is missing unsaid, and the report names the ranks."""

from __future__ import annotations

import pytest

ENGINES = ("rocksdb", "lmdb")
FULL = {"flip": 10_000, "cut": 1000, "swap": 1000}
SLOW = {"flip": 80, "cut": 24, "swap": 40}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_damaged_files_are_found_or_change_nothing_that_is_read(engine, trials, nothing_wrong):
    outcomes = []
    for kind in FULL:
        outcomes += trials(f"{kind}, {engine}, quick", "damage_trials.py", engine, kind, 7, 77_000)
    nothing_wrong(outcomes)
    assert sum(outcome["outcome"] in {"found", "refused"} for outcome in outcomes) > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("engine", ENGINES)
def test_damaged_files_are_found_or_change_nothing_that_is_read(engine, kind, part, count, trials, nothing_wrong):
    share = round(count(full=FULL[kind], slow=SLOW[kind], quick=0) / 4)
    nothing_wrong(trials(f"{kind}, {engine}", "damage_trials.py", engine, kind, max(1, share), 100_000 * part))


@pytest.mark.parametrize("kind", FULL)
def test_a_damaged_catalog_gives_out_what_its_ledger_says(kind, count, trials, nothing_wrong):
    share = round(count(full=FULL[kind] / 10, slow=10, quick=10))
    nothing_wrong(trials(f"{kind}, catalog", "catalog_trials.py", kind, max(1, share), 77_000))
