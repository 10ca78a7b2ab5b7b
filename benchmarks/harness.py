"""What the benchmarks share: one thread, alternating runs, medians, JSON lines, results kept with commit and machine.

A script calls `prepare()` before it imports numpy or a package of ours, measures with `alternate`, prints with a
`Report` and ends with `report.finish()`. `--save` keeps the lines in benchmarks/results/NAME.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if str(FOLDER) in sys.path:  # to the end: tensor.py beside this file has the name of a package that is measured
    sys.path.append(sys.path.pop(sys.path.index(str(FOLDER))))


CPUS = os.sched_getaffinity(0)  # what this process was given, before it took fewer


def prepare(threads: int = 1) -> None:
    """Pin this process: our kernels and numpy's OpenBLAS to `threads` threads, on as many CPUs.

    OpenBLAS chooses its own kernels for this CPU, so variables that would choose others are removed.
    """
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "DROVEWAY_THREADS"):
        os.environ[name] = str(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def alternate(
    ours: Callable[[], object],
    peer: Callable[[], object],
    seconds: float = 1.0,
    clock: Callable[[], float] = time.thread_time,
) -> tuple[float, float]:
    """Median seconds a call of ours and of the peer, measured in turns for about `seconds` seconds each.

    What is measured is the time of the calling thread on its processor, so that other processes disturb less; both
    sides must therefore compute on one thread. A peer that keeps a thread of its own needs `time.process_time`.
    """
    single = min(_time(call, 1, clock) for call in (ours, ours, peer, peer))
    repeats = max(1, round(0.002 / single))  # a sample lasts at least two milliseconds
    rounds = max(7, min(101, round(seconds / (single * repeats))))
    samples = [(_time(ours, repeats, clock), _time(peer, repeats, clock)) for _ in range(rounds)]
    return statistics.median(a for a, _ in samples), statistics.median(b for _, b in samples)


def _time(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


class Report:
    """Prints one JSON object a line (docs/benchmarks.md) and keeps them for --save."""

    def __init__(self, bench: str, options: argparse.ArgumentParser | None = None) -> None:
        """`options`: a parser without help, for what a script takes besides --save; `asked` has all of it."""
        parser = argparse.ArgumentParser(
            description=f"benchmark {bench}: prints one JSON object a line", parents=[options] if options else []
        )
        parser.add_argument("--save", action="store_true", help=f"keep the lines in benchmarks/results/{bench}.jsonl")
        self.bench = bench
        self.asked = parser.parse_args()
        self.save = bool(self.asked.save)
        self.lines: list[str] = []

    def add(self, case: str, ours: float, peer: float, peer_name: str, unit: str, better: str) -> None:
        """One result: ours and the peer's in `unit`; better is "higher" or "lower"."""
        ratio = ours / peer
        line = {
            "bench": self.bench,
            "case": case,
            "ours": _rounded(ours),
            "peer": _rounded(peer),
            "peer_name": peer_name,
        }
        self.lines.append(json.dumps({**line, "ratio": _rounded(ratio), "unit": unit, "better": better}))
        sys.stdout.write(self.lines[-1] + "\n")
        sys.stdout.flush()

    def finish(self) -> None:
        """Write the lines below one that names commit and machine, when --save was given."""
        if not self.save:
            return
        (FOLDER / "results").mkdir(exist_ok=True)
        header = json.dumps({"bench": self.bench, **machine()})
        path = FOLDER / "results" / f"{self.bench}.jsonl"
        path.write_text("\n".join([header, *self.lines]) + "\n")


def machine() -> dict[str, object]:
    """Commit, processor, CPUs in use, Python and kernels in use."""
    import tensor

    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "-C", str(FOLDER), "rev-parse", "--short=12", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    build = tensor.build_info()
    return {
        "commit": commit or "unknown",
        "machine": model,
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "isa": build["isa"],
        "compiler": build["compiler"],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
