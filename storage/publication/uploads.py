"""Writing many objects at once, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

THREADS = 8
WAITING_MAX = 64
WAITING_BYTES_MAX = 32 << 20


class Uploads:
    """Calls in a few threads; leaving the block waits for all of them and raises the first error.

    `add` waits while more than 32 MiB, or 64 calls, are under way.

    >>> done = []
    >>> with Uploads() as uploads:
    ...     uploads.add(1, done.append, "a")
    >>> done
    ['a']
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="upload")
        self._waiting: deque[tuple[int, Future[object]]] = deque()
        self._bytes = 0

    def add(self, size_bytes: int, call: Callable[..., object], *arguments: object) -> None:
        """Run a call that holds so many bytes. Raises what an earlier one raised."""
        while self._waiting and (len(self._waiting) >= WAITING_MAX or self._bytes + size_bytes > WAITING_BYTES_MAX):
            self._wait_for_one()
        self._waiting.append((size_bytes, self._pool.submit(call, *arguments)))
        self._bytes += size_bytes

    def _wait_for_one(self) -> None:
        size_bytes, future = self._waiting.popleft()
        self._bytes -= size_bytes
        future.result()

    def __enter__(self) -> Uploads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while error is None and self._waiting:
                self._wait_for_one()
        finally:
            self._pool.shutdown(cancel_futures=True)
