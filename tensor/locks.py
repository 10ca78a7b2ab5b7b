"""Locks that a forked child finds open, whatever the parent's threads held at that moment."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

__all__ = ["lock_of"]

_holders: WeakSet[Any] = WeakSet()


def lock_of(holder: Any) -> threading.Lock:
    """A new lock, for the holder's attribute `_lock`; in a forked child the holder gets another one there.

    >>> class Holder:
    ...     def __init__(self):
    ...         self._lock = lock_of(self)
    >>> Holder()._lock.locked()
    False
    """
    _holders.add(holder)
    return threading.Lock()


def _renew() -> None:
    for holder in list(_holders):
        holder._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
