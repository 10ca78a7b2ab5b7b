"""What an append returns."""

from __future__ import annotations

from typing import NamedTuple


class Receipt(NamedTuple):
    """Where an event lies, and the head of the commit that holds it: rank, id (32 bytes), size, root (32 bytes)."""

    rank: int
    id: bytes
    size: int
    root: bytes
