"""How two runs drift apart, as a table for people."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coord.auditing.difference import Drift

HEADS = (
    "tick",
    "agents",
    "mean m",
    "max m",
    "agent",
    "other zones",
    "objective, left (right - left)",
    "services, left (right - left)",
)


def drift_text(found: "Drift") -> str:
    """The table, and how much of both runs it is about."""
    if not found.ticks:
        return "no tick was planned by both"
    lines = [f"{found.ticks} ticks planned by both{_alone(found)}"]
    if found.first is not None:
        lines.append(f"first other: {found.first}")
    if found.max_m is not None and found.max_m > 0:
        lines.append(f"farthest: agent {found.max_agent}, {found.max_m:.2f} m from itself at tick {found.max_tick}")
    if found.rows:
        lines += ["", *_table(found)]
    return "\n".join(lines)


def _alone(found: "Drift") -> str:
    if found.only_left == found.only_right == 0:
        return ""
    return f", {found.only_left} by the first run only, {found.only_right} by the second only"


def _table(found: "Drift") -> list[str]:
    cells = [HEADS]
    for row in found.rows:
        share = f"{100 * row.other_zones / row.agents:.1f} %" if row.agents else "-"
        apart = ("-", "-", "-")
        if row.mean_m is not None:
            apart = (f"{row.mean_m:.2f}", f"{row.max_m:.2f}", str(row.farthest) if row.max_m else "-")
        alone = f" -{row.only_left} +{row.only_right}" if row.only_left or row.only_right else ""
        objective = f"{row.objective_left} ({row.objective_right - row.objective_left:+d})"
        services = f"{row.services_left} ({row.services_right - row.services_left:+d})"
        cells.append((str(row.tick), f"{row.agents}{alone}", *apart, share, objective, services))
    wide = [max(len(line[i]) for line in cells) for i in range(len(HEADS))]
    return ["  ".join(text.rjust(width) for text, width in zip(line, wide, strict=True)) for line in cells]
