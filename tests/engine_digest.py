"""One digest of the tensor engine: `python tests/engine_digest.py`.

It is made of the digests of all rows of the registry (every operation, element type and sample; tests/golden_rows.py)
and of training three models (tests/golden_training.py), and must equal [engine] of tests/golden.toml, which the Python
twins gave. What runs is this process's build: DROVEWAY_ISA=v3, v4 or ref, or arm64 through tests/arm64.py.

`--threads 1 2 3 7` repeats it with so many threads, `--layouts` and `--ways` choose the strides of inputs and the ways
to train, `--full` adds 100 steps of the models in full size, `--large` adds every row on inputs that threads share
(compared between the numbers of threads, and by tests/tensor/test_engine_digest.py between builds), `--json` prints
all digests. Exit: 0 equal, 1 a difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.append(str(TESTS))

import golden_rows  # noqa: E402
import golden_training  # noqa: E402
import large_rows  # noqa: E402

import tensor as tn  # noqa: E402
from tensor import _kernels  # noqa: E402

Table = dict[str, str]


def one_digest(rows: Table, training: Table) -> str:
    """The digest of all of them."""
    lines = [f"{name} {value}\n" for table in (rows, training) for name, value in sorted(table.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def reduced_training(way: str) -> Table:
    """The digests of the reduced runs, as [training] of tests/golden.toml names them."""
    return {f"{name}, reduced": value for name, value in golden_training.digests(golden_training.REDUCED, way).items()}


def full_training(way: str) -> Table:
    """The digests of the full runs."""
    return {f"{name}, full": value for name, value in golden_training.digests(golden_training.FULL, way).items()}


def differences(what: str, found: Table, golden: Table) -> int:
    """Prints how `found` differs from the recorded digests, and how many there are; returns how often."""
    wrong = [name for name, value in found.items() if golden.get(name) != value]
    for name in wrong:
        sys.stdout.write(f"{what}: {name}: expected {golden.get(name, 'no such digest')}, got {found[name]}\n")
    sys.stdout.write(f"{what}: {len(found)} digests, {len(wrong)} different\n")
    sys.stdout.flush()
    return len(wrong)


def same(before: Table, found: Table) -> Table:
    """The digests found, "differs" where an earlier one was another."""
    return {name: value if before.get(name, value) == value else "differs" for name, value in found.items()}


def main() -> int:
    """Computes and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[_kernels.threads()])
    parser.add_argument("--layouts", nargs="*", choices=golden_rows.LAYOUTS, default=golden_rows.LAYOUTS)
    parser.add_argument("--ways", nargs="*", choices=golden_training.WAYS, default=golden_training.WAYS)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--json", type=Path, help="write all digests there")
    asked = parser.parse_args()
    golden = tomllib.loads((TESTS / "golden.toml").read_text())
    isa, wrong = str(tn.build_info()["isa"]), 0
    rows: Table = {}
    training: Table = {}
    large: Table = {}
    for threads in asked.threads:
        _kernels.set_threads(threads)
        here = f"{isa}, {threads} thread{'s' * (threads != 1)}"
        for layout in asked.layouts:
            found = golden_rows.digests(layout)
            wrong += differences(f"{here}, rows, {layout}", found, golden["rows"])
            rows = same(rows, found)
        for way in asked.ways:
            found = reduced_training(way)
            if asked.full:
                found |= full_training(way)
            wrong += differences(f"{here}, training, {way}", found, golden["training"])
            found = {name: value for name, value in found.items() if name.endswith("reduced")}
            training = {
                name: value if training.get(name, value) == value else "differs" for name, value in found.items()
            }
        if asked.large:
            found = large_rows.digests()
            large = large or found
            wrong += differences(f"{here}, large rows against the first", found, large)
    if rows and training:
        found = {"digest": one_digest(rows, training)}
        wrong += differences(f"{isa}, engine {found['digest']}", found, golden["engine"])
    if asked.json is not None:
        asked.json.write_text(json.dumps({"isa": isa, "rows": rows, "training": training, "large": large}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
