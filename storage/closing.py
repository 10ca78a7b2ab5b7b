"""Closing once: the first caller does it, every other comes back when it is done."""

from __future__ import annotations

import threading


class Closing:
    """Whose turn it is to close.

    >>> closing = Closing()
    >>> closing.begin(), closing.begin()
    (True, False)
    """

    def __init__(self) -> None:
        self._claims: dict[str, tuple[int]] = {}
        self._done = threading.Event()

    def begin(self) -> bool:
        """Whether the caller is the first, who then calls `end`; others wait for that, if it is not their own thread's:
        a signal may come in the middle of closing, and its handler close too.
        """
        claim = (threading.get_ident(),)
        first = self._claims.setdefault("", claim)  # in one step, whatever thread or signal comes between
        if first is claim:
            return True
        if first != claim:
            self._done.wait()
        return False

    def end(self) -> None:
        """Let those that wait go on."""
        self._done.set()
