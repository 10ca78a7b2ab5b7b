"""Part "audit" of benchmarks/fleet.py: frames from one buffer, decisions made again, ledgers of millions of frames.

- Frames: 65,536 frames of one chain in one buffer (8 MiB, more than the caches near a core), decoded and chained;
  the peer is the required rate.
- Making again: processor time of `audit` a decision, all that it checks included, against `plan` and the frame alone on
  the same inputs, and against `simulate` without a ledger; the ledgers are of steady runs.
- A ledger of FRAMES frames of a small fleet: audit of the whole without planning, of 20,000 ticks in its middle with
  planning, one tick sought, and the most memory that the process has held (a run of a tenth of it as the peer: memory
  does not grow with the ledger).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import Report
from still_run import write

from coord import DecisionFrame, Scenario, audit, check_chain, decode_frames, open_run, plan, simulate
from coord.records import PlanConfig

FRAMES_REQUIRED_PER_S = 2e6
REPLAN_REQUIRED = 0.8
CHAIN = 65_536
FRAMES = int(os.environ.get("FLEET_AUDIT_FRAMES", "2000000"))
RANGE = 20_000
FLEETS = (("200 agents, 400 zones", 200, 400, 400), ("10,000 agents, 10,000 zones", 10_000, 10_000, 24))


def run(report: Report) -> None:
    """All of the part."""
    _frames(report)
    for name, agents, zones, ticks in FLEETS:
        _replanning(report, name, agents, zones, ticks)
    _millions(report)


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _frames(report: Report) -> None:
    encoded, prev = [], bytes(16)
    for number in range(CHAIN):
        frame = DecisionFrame(frame_id=number, tick=number, prev_digest=prev, agents=9, assigned=9)
        encoded.append(frame.encode())
        prev = frame.digest()
    buffer = b"".join(encoded)

    def both() -> None:
        assert check_chain(buffer) is None
        assert len(decode_frames(buffer)) == CHAIN

    rate = CHAIN / min(_seconds(both) for _ in range(15))
    report.add("frames decoded and chained", rate, FRAMES_REQUIRED_PER_S, "required", "frames/s", "higher")


def _replanning(report: Report, name: str, agents: int, zones: int, ticks: int) -> None:
    site = Scenario.loads(
        f'version = 1\nname = "f"\nseed = 4\n[agents]\nrandom = {agents}\n[zones]\nrandom = {zones}\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        simulate(site, ticks, ledger=path, sync="os")
        audits, plans, runs = [], [], []
        for _ in range(5):
            audits.append(_seconds(lambda: audit(path)))
            plans.append(_plan_seconds(path))
            runs.append(_seconds(lambda: simulate(site, ticks)))
    ours = ticks / min(audits)
    report.add(f"made again, {name}", ours, ticks / min(plans), "plan and frame alone", "decisions/s", "higher")
    report.add(f"made again, {name}", ours, ticks / min(runs), "simulate without a ledger", "decisions/s", "higher")


def _plan_seconds(path: Path) -> float:
    spent = 0.0
    with open_run(path) as reader:
        for view in reader.frames():
            now = view.inputs
            start = time.process_time()
            made = plan(
                now.agents, now.zones, now.obstacles, now.kernels, PlanConfig.decode(now.config),
                now_tick=view.frame.tick,
            )  # fmt: skip
            made.frame(view.frame.frame_id, view.frame.prev_digest).encode()
            spent += time.process_time() - start
    return spent


def _millions(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        write(small, FRAMES // 10)
        write(large, FRAMES)
        name = f"{FRAMES:,} frames of 2 agents"
        memory, seconds = _apart(large, FRAMES, "whole")
        less, _ = _apart(small, FRAMES // 10, "whole")
        report.add(f"audit --no-replan, {name}", FRAMES / seconds, 1.0, "-", "frames/s", "higher")
        report.add(f"audit --no-replan, {name}", memory, less, "a tenth of the frames", "MB", "lower")
        _, seconds = _apart(large, FRAMES, "range")
        report.add(
            f"audit of {RANGE:,} ticks in the middle, {name}", RANGE / seconds, 1.0, "-", "decisions/s", "higher"
        )
        with open_run(large) as reader, open_run(small) as other:
            long = min(_seconds(lambda: reader.state_at(FRAMES // 2 + 63)) for _ in range(5))
            short = min(_seconds(lambda: other.state_at(FRAMES // 20 + 63)) for _ in range(5))
        report.add(f"one tick sought, {name}", long * 1e3, short * 1e3, "a tenth of the frames", "ms", "lower")


def _apart(path: Path, frames: int, what: str) -> tuple[float, float]:
    """Megabytes at most held and processor seconds of one audit in a process of its own."""
    asked = "replan=False" if what == "whole" else f"first_tick={frames // 2}, last_tick={frames // 2 + RANGE - 1}"
    script = (
        "import sys, time, coord\n"
        f"start = time.process_time()\nreport = coord.audit(sys.argv[1], {asked})\n"
        "spent = time.process_time() - start\n"
        "assert report.ok, report\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(int(peak.split()[1]) / 1024, spent)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    memory, seconds = map(float, done.stdout.split())
    return memory, seconds
