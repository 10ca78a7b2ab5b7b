"""Report: what an audit found, and the checkpoint it may be asked to find."""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Iterator
from dataclasses import dataclass, field

from coord.auditing.divergence import Divergence
from coord.sites.scenario_schema import U64_MAX

DIVERGENCES_KEPT_MAX = 64
PROBLEMS_KEPT_MAX = 256
KINDS_KEPT_MAX = 64


@dataclass(frozen=True)
class Problem:
    """Something wrong that is no divergence: damage, a gap, a broken rule. `rank` is None for the ledger as a whole."""

    rank: int | None
    where: str
    expected: str
    got: str
    text: str


@dataclass(frozen=True)
class RangeChecked:
    """What an audit of the ticks [first_tick, last_tick] read: ranks [first_rank, stop_rank), beginning at a key of
    inputs.

    Of the `lead_frames` decisions before the range, which its inputs stand on, the bytes, the rules, the digests and
    the chain are checked; they are not made again. `tiles` tiles of 256 leaves were led to the root. `followed`: the
    decision behind the range names the last one in it.
    """

    first_tick: int
    last_tick: int | None
    first_rank: int
    stop_rank: int
    lead_frames: int
    tiles: int
    followed: bool

    def checked(self, size: int) -> str:
        """One line for people: what was checked, of a ledger of that size."""
        ranks = f"ranks {self.first_rank}..{self.stop_rank - 1}" if self.stop_rank > self.first_rank else "no ranks"
        text = f"ranks 0 and {ranks} of {size}, their leaves led to the root ({self.tiles} tiles)"
        if self.lead_frames:
            text += f"; {self.lead_frames} decisions before the range only read, as its inputs stand on them"
        return text + ("; the decision behind it names the last one" if self.followed else "")

    NOT_CHECKED = "other events, ids, cursors, kept checkpoints and their signatures: that takes the whole ledger"


@dataclass
class Report:
    """What an audit found.

    `divergences` counts every differing field of every frame; the first 64 are in `first_divergences`. `planned` frames
    were planned again, `resimulated` ones were made again from scenario and seed, `unplanned` ones only checked by
    themselves (asked for, or events before them are missing or damaged). `other_events` counts, by kind, events that no
    decision depends on, such as `demo.search`: their bytes are checked, what they say is not made again. What came from
    outside (`coord.event`) is among them, but for the `changes_resimulated` that were made again, too.

    `external` names somebody else's code in the run by what it is (planner, demand, motion). The `external_decisions`
    of such a planner were checked (every rule, and all that follows from who serves which zone), not planned again.
    `not_resimulated` says what could not be made again though it was asked for: what external demand or motion did.

    `retired` are ranges of ranks (first, last) whose payload was removed, `retired_count` all of those events.
    `not_replayable` are ranges of ranks in which decisions can't be made again because something that they depend on is
    retired, `not_replayable_count` the decisions that are still there among them. Neither is a divergence or a problem.
    `warnings` are odd wall times, the first 100 of them, and no problem either.
    `checkpoints` counts those that the ledger keeps; the first `signed_size` events are under one that a given key
    signed (None without a key). `checked_range` says what was looked at where that was not the whole ledger.
    """

    name: str = ""
    size: int = 0
    root: bytes | None = None
    frames: int = 0
    planned: int = 0
    unplanned: int = 0
    resimulated: int = 0
    changes_resimulated: int = 0
    divergences: int = 0
    frames_diverged: int = 0
    first_divergences: list[Divergence] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0
    retired: list[tuple[int, int]] = field(default_factory=list)
    retired_count: int = 0
    not_replayable: list[tuple[int, int]] = field(default_factory=list)
    not_replayable_count: int = 0
    warnings: list[str] = field(default_factory=list)
    other_events: dict[str, int] = field(default_factory=dict)
    external: dict[str, str] = field(default_factory=dict)
    external_decisions: int = 0
    not_resimulated: str = ""
    checkpoints: int = 0
    signed_size: int | None = None
    checked_range: RangeChecked | None = None

    @property
    def ok(self) -> bool:
        """No divergence and no problem."""
        return self.divergences == 0 and self.problem_count == 0

    @property
    def first_divergence(self) -> Divergence | None:
        """The first one in the order of the ledger."""
        return self.first_divergences[0] if self.first_divergences else None

    def add_problem(self, problem: Problem) -> None:
        """Count a problem; the first 256 are kept."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT_MAX:
            self.problems.append(problem)

    def tell(self, rank: int | None, where: str, expected: str, got: str) -> None:
        """Add a problem with the usual text."""
        place = "ledger" if rank is None else f"rank {rank}"
        self.add_problem(Problem(rank, where, expected, got, f"{place}: {where}: expected {expected}, got {got}"))

    def same(self, rank: int, where: str, expected: object, got: object) -> None:
        """Add a problem unless both are equal."""
        if expected != got:
            self.tell(rank, where, str(expected), str(got))

    def add_decision(self, *, external: bool, planned: bool) -> None:
        """Count a decision that was planned again, or checked where an external planner made it."""
        if external:
            self.external_decisions += planned
        else:
            self.planned += planned

    def add_not_replayable(self, first: int, last: int, frames: int) -> None:
        """Count decisions in a range of ranks; the first 256 ranges are kept."""
        self.not_replayable_count += frames
        if len(self.not_replayable) < PROBLEMS_KEPT_MAX:
            self.not_replayable.append((first, last))

    def take_over(self, other: Report) -> None:
        """Add what another report found in the events of the same ledger."""
        self.name = other.name
        for problem in other.problems:
            self.add_problem(problem)
        self.problem_count += other.problem_count - len(other.problems)
        self.add_divergences(iter(other.first_divergences))
        self.divergences += other.divergences - len(other.first_divergences)
        for first, last in other.not_replayable:
            self.add_not_replayable(first, last, 0)
        self.not_replayable_count += other.not_replayable_count
        for kind, count in other.other_events.items():
            self.add_other(kind, count)
        self.external |= other.external
        self.external_decisions += other.external_decisions
        self.not_resimulated = self.not_resimulated or other.not_resimulated
        self.frames += other.frames
        self.frames_diverged += other.frames_diverged
        self.planned += other.planned
        self.unplanned += other.unplanned
        self.resimulated += other.resimulated
        self.changes_resimulated += other.changes_resimulated

    def add_other(self, kind: str, events: int = 1) -> None:
        """Count events that no decision depends on; 64 kinds are told apart, further ones are "…"."""
        name = kind if kind in self.other_events or len(self.other_events) < KINDS_KEPT_MAX else "…"
        self.other_events[name] = self.other_events.get(name, 0) + events

    def add_divergences(self, found: Iterator[Divergence]) -> bool:
        """Count divergences of one frame; the first 64 of all are kept. True when there was one."""
        count = 0
        for divergence in found:
            count += 1
            if len(self.first_divergences) < DIVERGENCES_KEPT_MAX:
                self.first_divergences.append(divergence)
        self.divergences += count
        return count > 0


def parse_checkpoint(value: tuple[int | str, bytes | str] | str) -> tuple[int, bytes]:
    """(size, root) from a pair or a text "SIZE:ROOT" (root as bytes, hexadecimal or base64), or from the text of a
    checkpoint: origin, size, base64 root.

    Only size and root are read; signature lines after an empty line are not checked here.

    >>> parse_checkpoint("droveway.example/ledger\\n2\\ni78cvfbm2ngg8djMsyOgEvv5buE3kYuhvLNaw8h/eIU=\\n")[0]
    2
    >>> parse_checkpoint("601:" + 32 * "0a") == (601, 32 * b"\\n")
    True
    """
    if isinstance(value, str):
        size_text, colon, root_text = value.partition(":")
        if colon and size_text.isdigit() and "\n" not in root_text:
            return parse_checkpoint((size_text, root_text))
        lines = value.split("\n")
        if len(lines) < 4 or not lines[0]:
            raise ValueError(
                "checkpoint: expected SIZE:ROOT, or the lines origin, size and base64 root, each ended by a newline, "
                f"got {value[:40]!r}"
            )
        return _size(lines[1], "line 2: "), _base64_root(lines[2], "the base64 of a root of 32 bytes")
    size, root = value
    size = _size(str(size), "")
    if isinstance(root, str):
        root = _hexadecimal_root(root) or _base64_root(root, "the 64 hexadecimal digits of a root, or its base64")
    if len(root) != 32:
        raise ValueError(f"checkpoint: expected a root of 32 bytes, got {len(root)} bytes")
    return size, root


def _size(text: str, where: str) -> int:
    """A decimal without sign, space, leading zero or digits of other scripts, below 2^64."""
    good = text.isascii() and text.isdigit() and len(text) <= 20 and (text == "0" or text[0] != "0")
    if not good or int(text) > U64_MAX:
        raise ValueError(f"checkpoint: {where}expected a decimal size below 2^64, got {text[:40]!r}")
    return int(text)


def _hexadecimal_root(text: str) -> bytes:
    """The root, or nothing where the text is not 64 such digits."""
    return bytes.fromhex(text) if len(text) == 64 and set(text) <= set(string.hexdigits) else b""


def _base64_root(text: str, expected: str) -> bytes:
    try:
        root = base64.b64decode(text, validate=True)
    except binascii.Error:
        root = b""
    if len(root) != 32:
        raise ValueError(f"checkpoint: expected {expected}, got {text[:64]!r}")
    return root
