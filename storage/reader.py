"""What an open ledger and a published one both offer to those who read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Protocol, overload

if TYPE_CHECKING:
    from storage.event import Event
    from storage.mending.retire import Retired
    from storage.tree import Head


class Reader(Protocol):
    """Events by rank and by id, each checked against its id and its leaf; `Ledger.open(path, mode="r")` is one."""

    def head(self) -> Head:
        """Size and root."""

    def at(self, rank: int) -> Event:
        """The event at a rank. Raises IndexError, IntegrityError, RetiredError."""

    def get(self, event_id: bytes) -> Event:
        """The event with an id of 32 bytes. Raises KeyError, else as `at`."""

    def rank_of(self, event_id: bytes) -> int:
        """The rank of the event with an id. Raises KeyError."""

    @overload
    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Event]]: ...

    @overload
    def scan(
        self, start: int = 0, stop: int | None = None, *, retired: Literal[True]
    ) -> Iterator[tuple[int, Event | Retired]]: ...

    def prove(self, rank: int, size: int | None = None) -> list[bytes]:
        """The hashes that prove the event at `rank` in the tree of the first `size` events (default: all)."""

    def consistency(self, m: int, n: int | None = None) -> list[bytes]:
        """The hashes that prove the first m events a prefix of the first n."""

    def close(self) -> None:
        """Release it; a second call does nothing."""


def name_of(reader: object) -> str:
    """How an error text calls a reader: its path."""
    return str(getattr(reader, "path", None) or type(reader).__name__)
