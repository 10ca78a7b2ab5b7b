"""Whoever looks at the events of a ledger while it is checked, so that they are read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from storage.event import Event

if TYPE_CHECKING:
    from storage.event_batch import Shown
    from storage.mending.retire import Retired


class Visitor(Protocol):
    """Is shown every rank once, in order, up to the first that is damaged or missing; nothing from there on.

    What it was shown is known to be right as far as its own bytes, its leaf and its producer's numbers go; the roots
    are compared at the end.
    """

    prefix: str
    """Events are wanted whole whose kind begins with this."""

    def event(self, rank: int, event: Event) -> None:
        """An event that is wanted whole."""

    def others(self, rank: int, count: int, producer: str, kind: str, sequence: int) -> None:
        """`count` events in a row from `rank` on, of one producer and kind, numbered from `sequence` on."""

    def retired(self, rank: int) -> None:
        """An event whose payload was removed."""


def show(visitor: Visitor, rank: int, found: Event | Retired) -> None:
    """Show one event, or that it is retired."""
    if not isinstance(found, Event):
        visitor.retired(rank)
    elif found.kind.startswith(visitor.prefix):
        visitor.event(rank, found)
    else:
        visitor.others(rank, 1, found.producer, found.kind, found.sequence)


def show_all(visitor: Visitor, shown: Iterable[Shown]) -> None:
    """Show what `event_batch.audited` gives out."""
    for each in shown:
        if len(each) == 2:
            visitor.event(*each)
        else:
            visitor.others(*each)
