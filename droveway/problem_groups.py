"""Problems of a ledger for people: what one damaged place did to many events is one finding."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def grouped(problems: Sequence[Any]) -> list[list[Any]]:
    """Problems of one kind at ranks that follow each other, together: a damaged block is one finding."""
    groups: list[list[Any]] = []
    for problem in problems:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and last.rank is not None
            and problem.rank in (last.rank, last.rank + 1)
            and (problem.where, problem.expected, problem.got) == (last.where, last.expected, last.got)
        ):
            groups[-1].append(problem)
        else:
            groups.append([problem])
    return groups


def group_text(group: Sequence[Any]) -> str:
    """One line for a group: its ranks, and the damaged file where the engine named one."""
    first, last = group[0], group[-1]
    ranks = f"rank {first.rank}" if first.rank == last.rank else f"ranks {first.rank}..{last.rank}"
    if first.rank is not None and first.where.endswith(".sst"):
        return f"{ranks}: damaged block in {Path(first.where).name}"
    if len(group) == 1:
        return str(first.text)
    return f"{ranks}: {first.where}: expected {first.expected}, got {first.got}"
