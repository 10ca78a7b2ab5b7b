"""The entry point: from its first line on SIGINT and SIGTERM end the program in order, with exit code 130."""

import contextlib
import os
import signal
import sys
import time
from types import FrameType
from typing import Final

SAME_SECONDS: Final = 1.0  # `timeout`, a shell and an impatient hand send several signals for one
_last: float | None = None


def main() -> None:
    """Run the command line; a signal that comes while modules are still being loaded is no traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # else the caller wants it ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from droveway.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            os.write(2, b"error: interrupted\n")
        sys.exit(130)
    finally:  # the exit code is known: a further signal, which the interpreter would die of, comes too late
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt, once for signals that follow each other closely: what is being put in order is not torn."""
    global _last
    before, _last = _last, time.monotonic()
    if before is None or _last - before > SAME_SECONDS:
        raise KeyboardInterrupt
