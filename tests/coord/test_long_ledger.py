"""Ledgers of many frames: any range is found, checked in bounded memory, and by several processes alike."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coord import audit, check_chain, open_run
from storage import Ledger

Write = Callable[..., None]


@pytest.fixture(scope="module")
def write(repository: Path) -> Write:
    """`write` of benchmarks/still_run.py."""
    place = repository / "benchmarks" / "still_run.py"
    found = importlib.util.spec_from_file_location("still_run", place)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    made: Write = module.write
    return made


def test_a_run_written_without_planning_is_a_run(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "run", 300, agents=3, zones=2)
    report = audit(tmp_path / "run")
    assert (report.ok, report.frames, report.planned) == (True, 300, 300)


PROBE = """
import sys, coord
kwargs = eval(sys.argv[2])
def peak():
    line = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
    return int(line.split()[1]) // 1024
report = coord.audit(sys.argv[1], **kwargs)
print(report.ok, report.frames, report.planned, peak())
"""


def asked(path: Path, kwargs: dict[str, object]) -> tuple[bool, int, int, int]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(path), repr(kwargs)], capture_output=True, text=True, check=True
    )
    good, frames, planned, peak_mb = done.stdout.split()
    return good == "True", int(frames), int(planned), int(peak_mb)


@pytest.mark.slow
def test_two_hundred_thousand_frames_are_audited_in_bounded_memory(write: Write, tmp_path: Path) -> None:
    frames, agents = 200_000, 2
    run, short = tmp_path / "run", tmp_path / "short"
    write(run, frames, agents=agents)
    write(short, 2_000, agents=agents)
    good, seen, planned, peak_mb = asked(run, {"replan": False})
    assert (good, seen, planned) == (True, frames, 0)
    assert peak_mb < asked(short, {"replan": False})[3] + 24  # the engine's own tables, no frame is kept
    for first in (0, 12_345, 100_001, frames - 700):
        good, seen, planned, peak_mb = asked(run, {"first_tick": first, "last_tick": first + 499})
        assert (good, planned, seen - planned) == (True, 500, first % 64)
        assert peak_mb < 80
    with open_run(run) as reader:
        view = reader.state_at(123_456)
        assert (view.rank, view.frame.frame_id) == (2 * 123_456 + 2, 123_456)
    with Ledger.open(run, mode="r") as ledger:
        data = b"".join(event.effect for _, event in ledger.scan(1, 1 + 40_000) if event.kind == "coord.frame")
    offsets = np.arange(20_000) * (128 + 32 * agents)
    assert check_chain(data, offsets=offsets, frame_id=0, prev_digest=bytes(16)) is None


@pytest.mark.slow
def test_many_frames_by_two_processes_are_the_same_report(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "run", 12_000)
    assert audit(tmp_path / "run", jobs=2) == audit(tmp_path / "run")
    given = {"first_tick": 3_001, "last_tick": 9_999}
    assert audit(tmp_path / "run", jobs=2, **given) == audit(tmp_path / "run", **given)
