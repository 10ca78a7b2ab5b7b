"""Ranks on the command line: `7`, `3..5`, `3..5,9`."""

import re
from collections.abc import Sequence

from droveway.exits import UsageProblem

_RANGE = re.compile(r"(\d{1,20})(?:\.\.(\d{1,20}))?")
SHOWN_MAX = 10


def parsed(text: str, option: str) -> list[tuple[int, int]]:
    """First and last rank of each range, ascending, ranges that touch joined. Raises UsageProblem.

    >>> parsed("9,3..5,6", "--ranks")
    [(3, 6), (9, 9)]
    """
    found = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or not part.isascii():
            raise UsageProblem(None, f"{option}: expected ranks such as 7 or 3..5,9, got {text!r}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise UsageProblem(None, f"{option}: expected the lower rank first, got {part.strip()!r}")
        found.append((first, last))
    joined: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def shown(ranges: Sequence[tuple[int, int]]) -> str:
    """Ranges as people read them.

    >>> shown([(3, 5), (9, 9)])
    '3..5, 9'
    """
    parts = [f"{first}..{last}" if last > first else f"{first}" for first, last in ranges[:SHOWN_MAX]]
    if len(ranges) > SHOWN_MAX:
        parts.append(f"and {len(ranges) - SHOWN_MAX} more ranges")
    return ", ".join(parts)
