"""An explanation of coord for people: the row, then the options, best first, with every term of their scores."""

from typing import TYPE_CHECKING, Final

from droveway.output import table

if TYPE_CHECKING:
    from coord.explain import Explanation, Option

SCORE_UNIT: Final = 65536
UNREACHABLE: Final = 0xFFFFFFFF
WORKING: Final = 2
TERMS: Final = ("priority", "idle", "cover", "avoid", "travel", "switch")


def explanation_text(told: "Explanation", most: int) -> str:
    """Head line, a table of the `most` best options, and what would have to change for each of them."""
    other = "zone" if told.agent is not None else "agent"
    shown = told.options[:most]
    head = ("", other, "status", "score", *TERMS, "ticks", "winner", "wins with")
    rows = [head, *(_row(option, other, told) for option in shown)]
    parts = [_head(told), "", table(rows)]
    hidden = len(told.options) - len(shown)
    if hidden:
        parts.append(f"   and {hidden} more (--all, --json)")
    changes = [
        f"   {other} {getattr(option, other)}: {'; '.join(option.changes)}" for option in shown if option.changes
    ]
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
            return f"{place} has zone {row.zone}, score {row.score}, {row.travel} ticks away"
        return f"{place} has no zone: {row.status.name.lower()}"
    place = f"tick {told.now_tick}: zone {told.zone} ({told.readiness})"
    if row is None:
        return f"{place} went to nobody"
    if row.mode == WORKING:
        return f"{place} is being served by agent {row.agent}"
    return f"{place} went to agent {row.agent}, score {row.score}"


def _row(option: "Option", other: str, told: "Explanation") -> tuple[str, ...]:
    chosen = told.row is not None and getattr(told.row, other) == getattr(option, other) and told.row.status == 0
    travel = "no way" if option.travel == UNREACHABLE else str(option.travel)
    winner = "" if option.winner is None or chosen else f"{option.winner} ({option.winner_score})"
    change = option.winning_change
    return (
        "→" if chosen else "",
        str(getattr(option, other)),
        option.status.name.lower(),
        str(option.score.score_i32),
        *(f"{getattr(option.score, name):+.4f}" for name in TERMS),
        travel,
        winner,
        "" if chosen else "no score" if change is None else f"+{change} ({change / SCORE_UNIT:+.4f})",
    )
