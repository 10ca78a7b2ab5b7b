"""Runs all benchmarks of this folder, one after another: `python benchmarks/run.py [--save]`.

search.py needs its word vectors (words.py), render.py the splats of ../shared/data or $DROVEWAY_DATA.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PARTS = {"run", "harness", "table", "words", "f3d_frames", "ledger_peers"}  # what the benchmarks use
PART_OF = ("fleet_", "plan_")  # fleet.py and plan.py run these


def main() -> int:
    """Exit code 1 if a benchmark failed."""
    scripts = [p for p in sorted(FOLDER.glob("*.py")) if p.stem not in PARTS and not p.stem.startswith(PART_OF)]
    failed = [
        p.name for p in scripts if subprocess.run([sys.executable, p, *sys.argv[1:]], check=False).returncode != 0
    ]
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
