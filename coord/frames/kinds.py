"""The kinds of a run's events, and what is asked of an event and of a reader of them, without the ledger itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

SCENARIO, INPUTS, FRAME, CHANGE = "coord.scenario", "coord.inputs", "coord.frame", "coord.event"
PREFIX = "coord."
SCHEMA = 1


class StoredEvent(Protocol):
    """An event of a ledger; `storage.Event` is one."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def effect(self) -> bytes:
        """What it says."""

    @property
    def tick(self) -> int:
        """When it was."""


class EventReader(Protocol):
    """Events by rank; an open ledger is one, a published one too."""

    def at(self, rank: int) -> StoredEvent:
        """The event at a rank."""

    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, StoredEvent]]:
        """Ranks and events of [start, stop) in order."""
