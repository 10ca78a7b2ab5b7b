"""Who may use an index when: one writer at a time, searchers beside it.

A writer holds `writing` from beginning to end. The short moments in which the list of rows changes or is read are under
`brief`, so that a search waits for no writer and a writer for no search. In a process forked while another thread was
inside, nobody would ever leave: then every use is refused.
"""

from __future__ import annotations

import os
import threading

from vector.errors import VectorError


class Access:
    """The two locks of one index."""

    def __init__(self) -> None:
        self._renew()

    def writing(self) -> threading.Lock:
        """One at a time: `with access.writing():`."""
        self._check_process()
        return self._write

    def brief(self) -> threading.Lock:
        """For a moment, nobody else: `with access.brief():`."""
        self._check_process()
        return self._state

    def _renew(self) -> None:
        self._write, self._state = threading.Lock(), threading.Lock()
        self._process = os.getpid()

    def _check_process(self) -> None:
        if os.getpid() == self._process:
            return
        if self._write.locked() or self._state.locked():
            raise VectorError(
                "this process was forked while another thread changed the index: load it from a file, or fork earlier"
            )
        self._renew()
