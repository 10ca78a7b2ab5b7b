"""What came to a fleet from outside, in words for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coord.simulation.events import FleetEvent

# Kind → one of them, several of them, and what it did to the one with an id.
WORDS: Final[dict[str, tuple[str, str, str]]] = {
    "agent_lost": ("agent lost", "agents lost", "agent {id} left"),
    "agent_back": ("agent back", "agents back", "agent {id} came back"),
    "fault": ("fault", "faults", "agent {id} failed"),
    "silent": ("silence", "silences", "agent {id} fell silent"),
    "delay": ("delay", "delays", "agent {id} was held up"),
    "zone_added": ("zone added", "zones added", "zone {id} was added"),
    "zone_removed": ("zone removed", "zones removed", "zone {id} was removed"),
    "obstacle_added": ("obstacle added", "obstacles added", "obstacle {id} was added"),
    "obstacle_removed": ("obstacle removed", "obstacles removed", "obstacle {id} was removed"),
}
LASTING: Final = ("agent_lost", "fault", "silent", "delay")


def counted(events: Mapping[str, int]) -> str:
    """Counts by kind: "1 fault, 2 agents lost"."""
    return ", ".join(f"{count} {WORDS[kind][count != 1]}" for kind, count in events.items())


def change_line(change: "FleetEvent") -> str:
    """One change: "tick 5: agent 3 failed, for 12 ticks"."""
    line = f"tick {change.tick}: {WORDS[change.kind.word][2].format(id=change.id)}"
    if change.kind.word not in LASTING:
        return line
    if change.ticks:
        return f"{line}, for {change.ticks} {'tick' if change.ticks == 1 else 'ticks'}"
    return line if change.kind.word == "agent_lost" else f"{line} for good"


def change_counts(changes: Sequence["FleetEvent"]) -> dict[str, int]:
    """How many of each kind, in the order of kinds."""
    words = [change.kind.word for change in sorted(changes, key=lambda change: change.kind)]
    return {word: words.count(word) for word in dict.fromkeys(words)}
