"""The 64 MB profile: each job of docs/envelopes.md in a fresh process under its limit.

    python benchmarks/kenya.py [JOB …] [--check] [--installed] [--save]

A job is a script of benchmarks/envelopes, run from a regular install in a process of its own, without children, on one
thread. The system refuses it more private memory than its limit (RLIMIT_DATA; what is reserved and never touched comes
on top), and the peak of the whole process, Python, libraries and pages of files included, is VmHWM of
/proc/self/status at its exit: the median of three runs, which must print the same. One JSON line a job; --save keeps
them in benchmarks/results/kenya.jsonl and writes docs/envelopes.md from them. --check: exit 1 where a peak is over its
limit, or a job computes something else than the page says. --installed measures the environment of this Python, which
must hold a regular install; else a wheel of this checkout is installed into a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from footprint import AT_EXIT, DATA, MB, ROOT, install, line, peak

JOBS_FOLDER = ROOT / "benchmarks" / "envelopes"
RESULTS = ROOT / "benchmarks" / "results" / "kenya.jsonl"
PAGE = ROOT / "docs/envelopes.md"
RUNS = 3
OPENBLAS_MB = 32  # numpy's OpenBLAS asks for this much when it is loaded, and touches none of it until a product
PLANNER_MB = 32  # the planner's scratch is as large as the worst case needs; most of it is never touched
RUN_JOB = AT_EXIT + "sys.argv.pop(0)\nexec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'))\n"
ONE_THREAD = {"DROVEWAY_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Job:
    """One job: a script with its arguments (DATA/… is a real input), and what its process may take."""

    name: str
    script: str
    arguments: tuple[str, ...]
    limit_mb: int
    reserved_mb: int = 0  # private memory that is asked for and not touched: it comes on top of what the system gives

    @property
    def command(self) -> str:
        """As a user types it beside the script."""
        return " ".join(("python", self.script, *self.arguments))

    @property
    def data_mb(self) -> int:
        """The private memory that the system gives."""
        return self.limit_mb + self.reserved_mb

    @property
    def numpy(self) -> bool:
        """Whether it may load numpy."""
        return self.reserved_mb > 0


JOBS = [
    Job("import tensor", "import_tensor.py", (), 18),
    Job("train an MLP 784-256-10, batch 64", "train_mlp.py", ("DATA/mnist/mnist_5k.csv.gz",), 40),
    Job("train a CNN, 3×3 to 16 and 32 channels, batch 64", "train_cnn.py", ("DATA/mnist/mnist_5k.csv.gz",), 64),
    Job(
        "train a transformer, 4 layers, 128 wide, 128 characters, batch 16",
        "train_transformer.py", ("DATA/text/tinyshakespeare.txt",), 64,
    ),
    Job("plan 100,000 agents", "plan_fleet.py", (), 64, OPENBLAS_MB + PLANNER_MB),
    Job("search 300,000 vectors of 100 coordinates, 4 bits each", "search_vectors.py", (), 64, OPENBLAS_MB),
    Job(
        "draw 152,746 splats, 1280 × 720",
        "draw_scene.py", ("DATA/splats/biker.compressed.ply", "1280", "720"), 64, OPENBLAS_MB,
    ),
]  # fmt: skip

HEAD = """# Memory envelopes

Whole jobs in {limit} MB or less of a **whole process**: Python, libraries and pages of files included. This page is
written by `python benchmarks/kenya.py --save` from what it measured; `--check` measures again and compares.

Each job is a short script in [benchmarks/envelopes](../benchmarks/envelopes), written as anybody would write it, and
runs from a regular install in a fresh process without children, on one thread. The system refuses the process more
private memory than its limit (`RLIMIT_DATA`; with numpy {openblas} MB more, which its OpenBLAS reserves at import and
does not touch, and {planner} MB more for the planner's scratch, of which the same holds), and the peak is `VmHWM` of
`/proc/self/status` at exit: the median of {runs} runs. MB are 2²⁰ bytes; `DATA` is a folder of real inputs (handwritten
digits, tiny Shakespeare, a captured scene). What a job computes is the same, to the bit, in every run and on every
machine; where it ends with a digest, the page holds its first 16 digits.

Measured on {machine}, kernels {isa}, Python {python}, commit {commit}.

| job | peak, MB | limit, MB | loads numpy | what it computed |
|---|---|---|---|---|
"""
TAIL = """
## How to stay small

- Read files with the standard library into `bytearray` or `array`, and hand them to `tn.asarray(memoryview(…))`: the
  tensor looks at these bytes, nothing is copied, and numpy (13 MB) is never loaded. Keep pixels and codes as `uint8`
  and convert a batch at a time.
- `tn.capture(fn, max_bytes=…)` computes values again on the way back where keeping them would not fit, and puts what is
  left into one arena; `.plan().peak_bytes` says before a run what it will take (docs/capture.md). On the tape,
  `tn.checkpoint` around a layer does the same.
- `optimizer.zero_grad()` right after `optimizer.step()`: the gradients of a step need not live while the next ones are
  computed.
- Tensors of 64 kB or more lie in pages of their own. What is kept of freed ones for the next request adds at most
  4 MB to the most that tensors ever took together; `tensor.memory.give_back()` hands it back.
- `tn.budget(max_bytes=…)` refuses before memory is taken. It counts tensors and working memory of kernels; Python
  (9 MB), the library (4 MB) and what the rest of the process holds come on top.
- `splat.rendering.render_last` takes a scene out of a list when it is drawn for the last time: its memory is free for
  the picture.

## What is not there

An index of 2 bits a coordinate is not in this version: the search above holds 4 bits, which is twice as much.
"""


def clean_environment() -> None:
    """One thread, the kernels of this processor, and the package that is installed: for this process's children."""
    for name in ("DROVEWAY_ISA", "PYTHONPATH"):
        os.environ.pop(name, None)
    os.environ.update(ONE_THREAD)


def measured(python: str, job: Job, folder: Path) -> dict[str, object] | None:
    """A line of the report, or None where the job's data are absent."""
    arguments = [argument.replace("DATA", str(DATA), 1) for argument in job.arguments]
    for argument, given in zip(arguments, job.arguments, strict=True):
        if given.startswith("DATA") and not Path(argument).exists():
            print(f"{argument} is absent: {job.name} is not measured", file=sys.stderr)
            return None
    script = str(JOBS_FOLDER / job.script)
    runs = [
        peak(python, RUN_JOB, script, *arguments, folder=folder, data_bytes_max=job.data_mb * MB) for _ in range(RUNS)
    ]
    printed = {run.printed for run in runs}
    if len(printed) > 1:
        raise SystemExit(f"{job.name}: the runs differ: {sorted(printed)}")
    loads_numpy = "numpy" in runs[0].loaded
    if loads_numpy and not job.numpy:
        raise SystemExit(f"{job.name} loads numpy")
    megabytes = statistics.median(run.megabytes for run in runs)
    found = line(job.name, megabytes, job.limit_mb, "MB")
    return {**found, "bench": "kenya", "command": job.command, "computed": printed.pop(), "numpy": loads_numpy}


def page(lines: list[str]) -> str:
    """docs/envelopes.md, from the lines of the results: the machine's, then one a job."""
    machine, *records = map(json.loads, lines)
    rows = [
        f"| {r['case']}: `{r['command']}` | {r['ours']:.1f} | {r['peer']:.0f} | {'yes' if r['numpy'] else 'no'} "
        f"| {r['computed']} |\n"
        for r in records
    ]
    known = {k: machine[k] for k in ("machine", "isa", "python", "commit")}
    limit = max(round(r["peer"]) for r in records)
    head = HEAD.format(limit=limit, runs=RUNS, openblas=OPENBLAS_MB, planner=PLANNER_MB, **known)
    return head + "".join(rows) + TAIL


def recorded() -> list[str]:
    """The lines that the page was written from."""
    return RESULTS.read_text().splitlines()


def differences(found: list[dict[str, object]]) -> Iterator[str]:
    """What --check has to say: peaks over their limits, and results that the page doesn't say."""
    known = {r["case"]: r["computed"] for r in map(json.loads, recorded()[1:])}
    for record in found:
        name = str(record["case"])
        if float(str(record["ratio"])) > 1:
            yield f"{name}: {record['ours']} MB, over its limit"
        if record["computed"] != known.get(name):
            yield f"{name}: computed {record['computed']!r}, the page says {known.get(name)!r}"
    if PAGE.read_text() != page(recorded()):
        yield "docs/envelopes.md is not what its results make"


def main() -> None:
    """Measure, print, keep, check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="names of scripts without .py; default: all")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is broken or a result is another")
    parser.add_argument("--installed", action="store_true", help="measure the environment of this Python")
    parser.add_argument("--save", action="store_true", help="keep the lines and write docs/envelopes.md")
    asked = parser.parse_args()
    chosen = [job for job in JOBS if not asked.jobs or job.script.removesuffix(".py") in asked.jobs]
    if not chosen or (asked.save and asked.jobs):
        names = ", ".join(job.script.removesuffix(".py") for job in JOBS)
        parser.error("--save takes all jobs" if chosen else f"no such job: there are {names}")
    clean_environment()
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = sys.executable
        if not asked.installed:
            list(install(folder))
            python = str(folder / "venv" / "bin" / "python")
        for job in chosen:
            record = measured(python, job, folder)
            if record is not None:
                found.append(record)
                print(json.dumps(record, ensure_ascii=False), flush=True)
    if asked.save:
        from harness import machine  # beside this file

        header = {"bench": "kenya", **machine()}
        RESULTS.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in (header, *found)))
        PAGE.write_text(page(recorded()))
    if asked.check and (faults := list(differences(found))):
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
