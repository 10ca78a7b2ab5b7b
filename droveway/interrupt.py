"""SIGINT and SIGTERM: the first asks the command to stop at a good place, the second stops it at once."""

import os
import signal
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self


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
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)
        text = f"{signal.Signals(number).name}: {self.doing}; once more to stop at once\n"
        with suppress(OSError):  # not through sys.stderr, which the interrupted code may be in the middle of
            os.write(2, text.encode())
