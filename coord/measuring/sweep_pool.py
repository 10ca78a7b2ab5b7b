"""The executor of a sweep: any of `concurrent.futures`, one that is made when it is needed, or none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

from coord.measuring.sweep_case import run_case

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

OUTSTANDING_MAX = 64


def process_pool(jobs: int, method: Literal["spawn", "fork", "forkserver"] = "spawn") -> Callable[[], Executor]:
    """A function that makes a pool of `jobs` processes; they leave Ctrl-C to this process and end when it ends.

    The processes import the program that calls this: there the call stands below `if __name__ == "__main__":`.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ValueError(f"process_pool: jobs must be a whole number of at least 1, got {jobs!r}")

    def make() -> Executor:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        return ProcessPoolExecutor(jobs, mp_context=get_context(method), initializer=_begin_worker)

    return make


def _begin_worker() -> None:
    import os
    import signal
    import threading
    from multiprocessing.connection import wait
    from multiprocessing.process import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def watch() -> None:
            wait([sentinel])
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


class Pool:
    """The executor: given and left open, or made here, closed here, and made again when its workers died."""

    def __init__(self, given: Executor | Callable[[], Executor] | None, stack: ExitStack) -> None:
        self._make = given if callable(given) and not hasattr(given, "submit") else None
        self._pool: Any = given if self._make is None else None
        stack.push(self._leave)

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        """At the end of a sweep. Whoever interrupts twice does not wait for cases at hand."""
        self.close(wait=kind is None or issubclass(kind, Exception))

    def submit(self, task: bytes) -> Future[bytes]:
        """The future of a case. Without an executor it is finished before this returns."""
        if self._pool is None and self._make is not None:
            self._pool = self._make()
        if self._pool is None:
            return _here(task)
        future: Future[bytes] = self._pool.submit(run_case, task)
        return future

    @property
    def at_once(self) -> int:
        """How many cases may be handed over before one is back."""
        return 1 if self._pool is None and self._make is None else OUTSTANDING_MAX

    def renew(self, error: BaseException) -> bool:
        """After an error of the executor: whether there is one to go on with."""
        from concurrent.futures import BrokenExecutor

        if not isinstance(error, BrokenExecutor):
            return True
        if self._make is not None:
            self.close()
        return self._make is not None

    def close(self, *, wait: bool = False) -> None:
        """Close an executor that was made here; cases that have not begun never do."""
        if self._make is not None and self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=True)
            self._pool = None


def _here(task: bytes) -> Future[bytes]:
    from concurrent.futures import Future

    future: Future[bytes] = Future()
    future.set_result(run_case(task))
    return future
