"""Plans: against scipy's optimum, at scale, in ticks a second: `python benchmarks/plan.py [PART …]`, all without one.

What each part (auction, scale, ticks) measures, and against whom, is told at the top of its own file, plan_PART.py.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from harness import Report, prepare

prepare()

PARTS = sorted(path.stem.removeprefix("plan_") for path in Path(__file__).parent.glob("plan_*.py"))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    report = Report("plan", parser)
    for part in report.asked.parts or PARTS:
        if part not in PARTS:
            parser.error(f"expected parts of {', '.join(PARTS)}, got {part}")
        import_module(f"plan_{part}").run(report)
    report.finish()
