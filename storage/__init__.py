"""An append-only ledger of events that can't lose or change a confirmed event without being noticed.

Loads no engine and no msgpack until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.errors import (
        CanonicalError,
        ClosedError,
        EquivocationError,
        EventError,
        EventTooLargeError,
        ForkError,
        IntegrityError,
        LockedError,
        NotALedgerError,
        ReadOnlyError,
        RollbackError,
        StorageError,
        StorageFullError,
    )
    from storage.event import Event
    from storage.ledger import Ledger, Receipt
    from storage.tree import Head

_HOMES = {
    "CanonicalError": "errors",
    "ClosedError": "errors",
    "EquivocationError": "errors",
    "Event": "event",
    "EventError": "errors",
    "EventTooLargeError": "errors",
    "ForkError": "errors",
    "Head": "tree",
    "IntegrityError": "errors",
    "Ledger": "ledger",
    "LockedError": "errors",
    "NotALedgerError": "errors",
    "ReadOnlyError": "errors",
    "Receipt": "ledger",
    "RollbackError": "errors",
    "StorageError": "errors",
    "StorageFullError": "errors",
}

__all__ = [
    "CanonicalError",
    "ClosedError",
    "EquivocationError",
    "Event",
    "EventError",
    "EventTooLargeError",
    "ForkError",
    "Head",
    "IntegrityError",
    "Ledger",
    "LockedError",
    "NotALedgerError",
    "ReadOnlyError",
    "Receipt",
    "RollbackError",
    "StorageError",
    "StorageFullError",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"storage.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'storage' has no attribute {name!r}")
