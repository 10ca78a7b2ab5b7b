"""The list of ranks without a payload at a published place. Written in docs/formats/published.md."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from storage.errors import IntegrityError

PATH = "retired"
BYTES_MAX = 64 << 20
_LINE = re.compile(rb"(0|[1-9][0-9]{0,19})(?:-([1-9][0-9]{0,19}))?")

Range = tuple[int, int]  # first and last rank


def without(wanted: Iterable[Range], done: list[Range]) -> list[Range]:
    """What of the ranges `wanted` is not in `done`; both ascending and apart.

    >>> without([(3, 9)], [(0, 4), (6, 6)])
    [(5, 5), (7, 9)]
    """
    out: list[Range] = []
    for start, last in wanted:
        first = start
        at = max(0, bisect_right(done, (start, 1 << 64)) - 1)
        while first <= last and at < len(done) and done[at][0] <= last:
            if done[at][0] > first:
                out.append((first, done[at][0] - 1))
            first = max(first, done[at][1] + 1)
            at += 1
        if first <= last:
            out.append((first, last))
    return out


def union(left: list[Range], right: list[Range]) -> list[Range]:
    """The ranks of both.

    >>> union([(0, 4), (9, 9)], [(3, 6), (7, 7)])
    [(0, 7), (9, 9)]
    """
    out: list[Range] = []
    for first, last in sorted((*left, *right)):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def pack(listed: list[Range]) -> bytes:
    """The lines of a list.

    >>> pack([(3, 5), (9, 9)])
    b'3-5\\n9\\n'
    """
    return "".join(f"{first}\n" if first == last else f"{first}-{last}\n" for first, last in listed).encode()


def unpack(data: bytes) -> list[Range]:
    """The ranges of a list. Raises IntegrityError naming the line.

    >>> unpack(b"3-5\\n9\\n")
    [(3, 5), (9, 9)]
    """
    out: list[Range] = []
    lines = data.split(b"\n")
    if lines.pop():
        raise IntegrityError(f"{PATH}: expected lines that end in a newline", file=PATH)
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        first = int(match[1]) if match else 0
        last = int(match[2]) if match and match[2] else first
        if match is None or (match[2] and last <= first) or (out and first <= out[-1][1] + 1):
            text = ascii(line[:40].decode("latin-1"))
            raise IntegrityError(f"{PATH}: line {number}: expected ascending ranges FIRST-LAST, got {text}", file=PATH)
        out.append((first, last))
    return out
