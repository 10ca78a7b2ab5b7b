"""Who may use an index when: one writer at a time, searchers beside it.

A writer holds `writing` from beginning to end. The short moments in which the list of rows changes or is read are under
`brief`, so that a search waits for no writer and a writer for no search. In a process forked while another thread was
inside, nobody would ever leave: then every use is refused.

What may fail for want of memory comes first; what must happen as a whole is under `changing`, where Ctrl-C waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from vector.errors import VectorError


class Access:
    """The two locks of one index."""

    _after_fork = threading.Lock()  # of all indexes: held while a child gives one of them new locks

    def __init__(self) -> None:
        self._torn = False
        self._renew()

    def writing(self) -> threading.Lock:
        """One at a time: `with access.writing():`."""
        self._check()
        return self._write

    def brief(self) -> threading.Lock:
        """For a moment, nobody else: `with access.brief():`."""
        self._check()
        return self._state

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Several steps that belong together, inside `brief`; if one fails, the index is refused from then on."""
        with _interrupted_later():
            try:
                yield
            except BaseException:
                self._torn = True
                raise

    def _renew(self) -> None:
        self._write, self._state = threading.Lock(), threading.Lock()
        self._process = os.getpid()

    def _check(self) -> None:
        if self._torn:
            raise VectorError("a change of this index was broken off halfway: load it from a file, or build it again")
        if os.getpid() == self._process:
            return
        with Access._after_fork:  # several threads of a child may come here at once: they share what the first makes
            if os.getpid() == self._process:
                return
            if self._write.locked() or self._state.locked():
                raise VectorError(
                    "this process was forked while another thread changed the index: "
                    "load it from a file, or fork earlier"
                )
            self._renew()


def _unlock_in_child() -> None:
    Access._after_fork = threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Ctrl-C inside is handled at the end: Python runs signal handlers between any two steps of the main thread."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(came[0], None)
