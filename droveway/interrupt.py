"""SIGINT and SIGTERM: stop at a good place (`StopRequest`), stop after what must not be torn apart (`deferred`)."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A context manager that is true once a signal has come: pass it as `should_stop`.

    >>> with StopRequest("finishing the tick") as stop:
    ...     stop()
    False
    """

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.stopped = False
        self._before: dict[signal.Signals, object] = {}

    def __call__(self) -> bool:
        return self.stopped

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        for name in SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        text = f"{signal.Signals(number).name}: {self.doing}; once more to stop at once\n"
        with suppress(OSError):  # not through sys.stderr, which the interrupted code may be in the middle of
            os.write(2, text.encode())


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """For a moment that must be whole: signals that come inside are answered at its end, by KeyboardInterrupt.

    >>> with suppress(KeyboardInterrupt), deferred():
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("to the end")
    to the end
    """
    if threading.current_thread() is not threading.main_thread():  # signals never interrupt another thread
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    changed = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in changed:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])
        if came:
            raise KeyboardInterrupt
