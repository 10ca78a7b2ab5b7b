"""An explanation of coord for people: the row, then the options, best first, with every term of their scores."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from droveway.output import table

if TYPE_CHECKING:
    from coord.explaining.explain import Explanation, Option

_NOBODY: Final[Mapping[int, int]] = MappingProxyType({})
SCORE_UNIT: Final = 65536
UNREACHABLE: Final = 0xFFFFFFFF
WORKING: Final = 2
TERMS: Final = ("priority", "idle", "cover", "avoid", "travel", "switch")


def explanation_text(told: "Explanation", most: int, queued: Mapping[int, int] = _NOBODY) -> str:
    """Head line, a table of the `most` best options and the one of the plan, and what would have to change for each.

    `queued` has the agent of each zone that stands in a queue.
    """
    other = "zone" if told.agent is not None else "agent"
    shown = [option for place, option in enumerate(told.options) if place < most or _chosen(option, other, told)]
    head = ("", other, "status", "score", *TERMS, "ticks", "winner", "wins with")
    rows = [head, *(_row(option, other, told, queued) for option in shown)]
    parts = [_head(told), *_queue(told), "", table(rows)]
    hidden = len(told.options) - len(shown)
    if hidden:
        parts.append(f"   and {hidden} more (--all, --json)")
    if any(option.winning_change is not None and not option.winning_change_exact for option in shown):
        parts.append("   ~ marks an estimate, often wrong: the exact change was not found")
    changes = [f"   {_change(option, other)}" for option in shown if option.changes]
    if changes:
        parts += ["", "what would have to change:", *changes]
    return "\n".join(parts)


def _head(told: "Explanation") -> str:
    row = told.row
    if told.agent is not None:
        place = f"tick {told.now_tick}: agent {told.agent} ({told.readiness})"
        if row is None:
            return f"{place} has no row in this plan"
        if row.mode == WORKING:
            return f"{place} is at work in zone {row.zone} and keeps it"
        if row.status == 0:
            return f"{place} has zone {row.zone}, score {row.score}, {_ticks(row.travel)} away"
        return f"{place} has no zone: {row.status.name.lower()}"
    place = f"tick {told.now_tick}: zone {told.zone} ({told.readiness})"
    if row is None:
        return f"{place} went to nobody"
    if row.mode == WORKING:
        return f"{place} is being served by agent {row.agent}"
    return f"{place} went to agent {row.agent}, score {row.score}"


def _queue(told: "Explanation") -> list[str]:
    """One line where there is a queue: the agent's later zones, or who serves the zone later."""
    if not told.queue:
        return []
    if told.agent is None:
        row = told.queue[0]
        return [f"   agent {row.agent} has it as number {row.queue_index} of its queue, score {row.score}"]
    zones = ", ".join(f"zone {row.zone} ({_ticks(row.travel)} on, score {row.score})" for row in told.queue)
    return [f"   then {zones}"]


def _ticks(count: int) -> str:
    return "1 tick" if count == 1 else f"{count} ticks"


def _chosen(option: "Option", other: str, told: "Explanation") -> bool:
    row = told.row
    return row is not None and getattr(row, other) == getattr(option, other) and row.status == 0


def _change(option: "Option", other: str) -> str:
    """The changes of an option, named once: a sentence that begins with the option's own name needs no other."""
    name = f"{other} {getattr(option, other)}"
    told = "; ".join(option.changes)
    return told if told.startswith((f"{name} ", f"{name}:")) else f"{name}: {told}"


def _status(option: "Option", chosen: bool, queued: Mapping[int, int]) -> str:
    """Of an option that the agent could have and that nobody's row is: whether its zone is free, or in whose queue."""
    if option.way_blocked:
        return "way_blocked"
    if option.status == 0 and not chosen:
        return f"queued by {queued[option.zone]}" if option.zone in queued else "free"
    return option.status.name.lower()


def _row(option: "Option", other: str, told: "Explanation", queued: Mapping[int, int]) -> tuple[str, ...]:
    chosen = _chosen(option, other, told)
    travel = "no way" if option.travel == UNREACHABLE else str(option.travel)
    winner = "" if option.winner is None or chosen else f"{option.winner} ({option.winner_score})"
    change = option.winning_change
    wins = "no score" if change is None else f"+{change} ({change / SCORE_UNIT:+.4f})"
    about = "" if option.winning_change_exact else "~"
    if change is None and about:  # an external planner's: nobody knows
        wins, about = "not known", ""
    return (
        "→" if chosen else "",
        str(getattr(option, other)),
        _status(option, chosen, queued),
        str(option.score.score_i32),
        *(f"{getattr(option.score, name):+.4f}" for name in TERMS),
        travel,
        winner,
        "" if chosen else about + wins,
    )
