"""The table of docs/faults.md from a report: `python tests/storage/faults/fault_table.py REPORT.json [--write]`."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
MARKED = re.compile(r"(<!-- report -->\n).*?(<!-- end of report -->)", re.DOTALL)


def table(report: dict[str, Any]) -> str:
    """The table in Markdown: a line a fault and engine, the parts of a run added up; quick runs are left out."""
    lines = ["| fault | trials | went wrong | outcomes |", "|---|---|---|---|"]
    for name, parts in sorted(report["parts"].items()):
        if name.endswith("quick"):
            continue
        trials, wrong = (sum(part[key] for part in parts.values()) for key in ("trials", "wrong"))
        outcomes = sum((Counter(part["outcomes"]) for part in parts.values()), Counter[str]())
        seen = ", ".join(f"{outcome} {number:,}" for outcome, number in sorted(outcomes.items()))
        lines.append(f"| {name} | {trials:,} | {wrong:,} | {seen} |")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report["versions"].items()))
    return "\n".join([*lines, "", f"With {versions}.", ""])


def main(path: str, write: bool) -> None:
    text = table(json.loads(Path(path).read_text()))
    if write:
        PAGE.write_text(MARKED.sub(lambda found: found[1] + text + found[2], PAGE.read_text()))
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1], "--write" in sys.argv[2:])
