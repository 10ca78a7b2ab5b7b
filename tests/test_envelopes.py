"""docs/envelopes.md: what it says is what benchmarks/kenya.py measures, and its jobs compute what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def kenya(repository: Path) -> ModuleType:
    """benchmarks/kenya.py."""
    import importlib

    sys.path.insert(0, str(repository / "benchmarks"))
    try:
        return importlib.import_module("kenya")
    finally:
        sys.path.pop(0)


def test_the_page_is_made_from_the_kept_lines_and_lists_every_job(kenya: ModuleType, repository: Path) -> None:
    lines = kenya.recorded()
    assert kenya.PAGE.read_text() == kenya.page(lines)
    kept = [json.loads(line) for line in lines[1:]]
    assert [(r["case"], r["command"], r["peer"], r["numpy"]) for r in kept] == [
        (job.name, job.command, job.limit_mb, job.numpy) for job in kenya.JOBS
    ]
    assert {job.script for job in kenya.JOBS} == {
        p.name for p in (repository / "benchmarks" / "envelopes").glob("*.py")
    }


def test_every_job_stays_within_its_limit_on_the_page(kenya: ModuleType) -> None:
    for line in kenya.recorded()[1:]:
        kept = json.loads(line)
        assert kept["ours"] <= kept["peer"], kept["case"]


@pytest.mark.slow
def test_jobs_run_again_under_their_limits_compute_what_the_page_says(
    kenya: ModuleType, repository: Path, data: Callable[[str], Path], tmp_path: Path
) -> None:
    for job in kenya.JOBS:
        for argument in job.arguments:
            if argument.startswith("DATA/"):
                data(argument.removeprefix("DATA/"))
    command = [sys.executable, str(repository / "benchmarks" / "kenya.py"), "--installed", "--check"]
    beside = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}  # kenya.py has files beside it
    done = subprocess.run(command, cwd=tmp_path, env=beside, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
