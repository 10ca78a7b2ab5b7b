"""Fleets: motion, paths, audits, sweeps, fields: `python benchmarks/fleet.py [PART …]`, all parts without one.

What each part measures, and against whom, is told at the top of its own file, fleet_PART.py.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from harness import Report, prepare

prepare()

PARTS = sorted(path.stem.removeprefix("fleet_") for path in Path(__file__).parent.glob("fleet_*.py"))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    report = Report("fleet", parser)
    for part in report.asked.parts or PARTS:
        if part not in PARTS:
            parser.error(f"expected parts of {', '.join(PARTS)}, got {part}")
        import_module(f"fleet_{part}").run(report)
    report.finish()
