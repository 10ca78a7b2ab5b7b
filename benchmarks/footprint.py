"""Memory and size of droveway, one JSON object a line; with --check, exit 1 when one is over its limit.

    python benchmarks/footprint.py [--check] [--installed] [--save]

Builds a wheel from a fresh copy of the checkout, installs it regularly into a new environment, and measures there.
--installed skips that and measures the environment of this Python, which must hold a regular install.

A peak is VmHWM of /proc/self/status, read at the exit of one process without children; CPU seconds are those of the
whole `pip install .` with its compilers, without a compiler cache. "peer" is the limit.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = [folder / "shared" / "data" for folder in (ROOT.parent, ROOT.parent.parent)]
DATA = Path(os.environ.get("DROVEWAY_DATA") or next((folder for folder in BESIDE if folder.is_dir()), BESIDE[0]))
DATA = DATA.resolve()  # processes that are measured run elsewhere
WAREHOUSE = DATA / "maps" / "warehouse-10-20-10-2-1.map"
BIKER = DATA / "splats" / "biker.compressed.ply"
SOG = DATA / "splats" / "2_0"
MB = 2**20  # the unit of all limits below

AT_EXIT = """
import atexit, sys
def _report(path):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    loaded = ",".join(sorted({name.split(".")[0] for name in sys.modules}))
    open(path, "w").write(lines["VmHWM"].split()[0] + " " + loaded)
atexit.register(_report, sys.argv.pop(1))
"""
COMMAND = AT_EXIT + "sys.argv[0] = 'droveway'\nfrom droveway.main import main\nmain()\n"


@dataclass(frozen=True)
class Peak:
    """What one process took and loaded."""

    megabytes: float
    loaded: frozenset[str]
    printed: str


def peak(python: str, code: str, *arguments: str, folder: Path, data_bytes_max: int | None = None) -> Peak:
    """Run `code` in a process of its own, away from the checkout, and read its peak at exit.

    data_bytes_max: the system refuses the process more private memory than this (RLIMIT_DATA).
    """
    report = folder / "report"
    data = resource.RLIM_INFINITY if data_bytes_max is None else data_bytes_max
    done = subprocess.run(
        [python, "-c", code, str(report), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (data, data)),
    )
    if done.returncode:
        raise SystemExit(f"{arguments}: exit {done.returncode}\n{done.stderr}")
    kilobytes, loaded = report.read_text().split(" ")
    return Peak(int(kilobytes) / 1024, frozenset(loaded.split(",")), done.stdout.strip())


def line(case: str, ours: float, limit: float, unit: str, limit_name: str = "limit") -> dict[str, object]:
    """One line of the report in the shape of all benchmarks."""
    return {
        "bench": "footprint",
        "case": case,
        "ours": round(ours, 2),
        "peer": round(limit, 2),
        "peer_name": limit_name,
        "ratio": round(ours / limit, 3),
        "unit": unit,
        "better": "lower",
    }


def refuse(case: str, loaded: frozenset[str], unwanted: set[str]) -> None:
    """Stop when a process loaded what it must not."""
    if loaded & unwanted:
        raise SystemExit(f"{case} loads {', '.join(sorted(loaded & unwanted))}")


def memory(python: str, folder: Path) -> Iterator[dict[str, object]]:
    """Peaks of the processes that have a limit."""
    helped = peak(python, COMMAND, "--help", folder=folder)
    refuse("droveway --help", helped.loaded, {"numpy", "tensor", "coord", "storage"})
    yield line("droveway --help", helped.megabytes, 18, "MB")
    numpy = peak(python, AT_EXIT + "import numpy", folder=folder)
    coord = peak(python, AT_EXIT + "import coord", folder=folder)
    refuse("import coord", coord.loaded, {"scipy", "rocksdict", "cryptography", "PIL", "lmdb", "storage"})
    yield line("import coord", coord.megabytes, numpy.megabytes + 8, "MB", "numpy + 8 MB")
    scene = "import coord\ncoord.plan([coord.AgentState(id=1)], [], [], [], coord.PlanConfig(), now_tick=0)"
    planned = peak(python, AT_EXIT + scene, folder=folder)
    yield line("import coord and a first plan", planned.megabytes, numpy.megabytes + 8, "MB", "numpy + 8 MB")
    for used in ("from vector import IdMapIndex, exact_search", "from splat import Scene, render"):
        light = peak(python, AT_EXIT + used, folder=folder)
        refuse(used, light.loaded, {"scipy", "rocksdict", "cryptography", "PIL", "lmdb", "storage", "coord"})
        yield line(used, light.megabytes, numpy.megabytes + 8, "MB", "numpy + 8 MB")
    yard = ROOT / "examples" / "sites" / "yard.toml"
    small = peak(python, COMMAND, "simulate", str(yard), "-o", "yard", "--ticks", "200", folder=folder)
    yield line("simulate yard, 200 ticks", small.megabytes, 64, "MB")
    demo = peak(python, COMMAND, "demo", "-o", "demo", folder=folder)
    yield line("demo", demo.megabytes, 64, "MB")
    yield from search(python, folder)
    for scene, case, limit in (
        (BIKER, "render biker, 152,746 splats, 1280 × 720", 64),
        (SOG, "render 2_0 (SOG, degree 2), 125,000 splats, 1280 × 720", 72),
    ):
        if scene.exists():
            size = ("--width", "1280", "--height", "720")
            drawn = peak(python, COMMAND, "render", str(scene), "-o", "scene.png", *size, folder=folder)
            refuse(f"droveway render {scene.name}", drawn.loaded, {"scipy", "storage", "coord", "lmdb", "rocksdict"})
            yield line(case, drawn.megabytes, limit, "MB")
        else:
            print(f"{scene} is absent: drawing it is not measured", file=sys.stderr)
    if WAREHOUSE.is_file():
        yield from warehouse(python, folder)
    else:
        print(f"{WAREHOUSE} is absent: the warehouse is not measured", file=sys.stderr)


def search(python: str, folder: Path) -> Iterator[dict[str, object]]:
    """An index of 100,000 rows of 100 coordinates, built from a file and asked by the command line."""
    rows = "import numpy\nx = numpy.random.Generator(numpy.random.PCG64(1)).standard_normal((100_000, 100), 'f4')\n"
    rows += "numpy.save('rows.npy', x)\nnumpy.save('queries.npy', x[:1000] + x[1000:2000])"
    subprocess.run([python, "-c", rows], cwd=folder, check=True)
    built = peak(python, COMMAND, "index", "build", "rows.npy", "-o", "rows.jvim", folder=folder)
    yield line("index build, 100,000 × 100", built.megabytes, 64, "MB")
    asked = peak(python, COMMAND, "search", "rows.jvim", "queries.npy", "-k", "10", folder=folder)
    yield line("search, 1,000 queries in 100,000 × 100", asked.megabytes, 64, "MB")


def warehouse(python: str, folder: Path) -> Iterator[dict[str, object]]:
    """The simulation of 200 agents on a benchmark map, and its audit."""
    options: tuple[str, ...] = ("-o", "site/warehouse.toml", "--agents", "200", "--zones", "400", "--seed", "1")
    (folder / "site").mkdir()
    peak(python, COMMAND, "import", str(WAREHOUSE), *options, folder=folder)
    options = ("-o", "run", "--ticks", "500", "--planner", "swap")
    simulated = peak(python, COMMAND, "simulate", "site/warehouse.toml", *options, folder=folder)
    yield line("simulate warehouse, 200 agents, 400 zones, 500 ticks", simulated.megabytes, 64, "MB")
    size = sum(file.stat().st_size for file in (folder / "run").rglob("*") if file.is_file())
    yield line("its ledger on disk", size / 1e6, 18, "10^6 bytes")
    verified = peak(python, COMMAND, "verify", "run", folder=folder)
    yield line("verify the same run", verified.megabytes, 64, "MB")


def install(folder: Path) -> Iterator[dict[str, object]]:
    """A wheel and a regular install from a fresh copy of the checkout, in folder/venv."""
    copy = folder / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(copy)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    environment = {**os.environ, "CCACHE_DISABLE": "1", "PIP_NO_INPUT": "1"}
    pip = [str(folder / "venv" / "bin" / "pip"), "--quiet", "--disable-pip-version-check"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*pip, "install", "."], cwd=copy, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    yield line("pip install .", seconds, 300, "CPU seconds")
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), "."], cwd=copy, env=environment, check=True)
    (wheel,) = folder.glob("droveway-*.whl")
    yield line("wheel", wheel.stat().st_size / MB, 8, "MB")


def main() -> None:
    """Measure, print, and check when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 when a number is over its limit")
    parser.add_argument("--installed", action="store_true", help="measure the environment of this Python")
    parser.add_argument("--save", action="store_true", help="keep the lines in benchmarks/results/footprint.jsonl")
    asked = parser.parse_args()
    over, lines = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = sys.executable if asked.installed else str(folder / "venv" / "bin" / "python")
        steps = [memory(python, folder)] if asked.installed else [install(folder), memory(python, folder)]
        for step in steps:
            for record in step:
                lines.append(json.dumps(record))
                print(lines[-1], flush=True)
                if float(str(record["ratio"])) > 1:
                    over.append(record["case"])
    if asked.save:
        from harness import machine  # beside this file

        header = json.dumps({"bench": "footprint", **machine()})
        (ROOT / "benchmarks" / "results").mkdir(exist_ok=True)
        (ROOT / "benchmarks" / "results" / "footprint.jsonl").write_text("\n".join([header, *lines]) + "\n")
    if asked.check and over:
        raise SystemExit(f"over the limit: {', '.join(map(str, over))}")


if __name__ == "__main__":
    main()
