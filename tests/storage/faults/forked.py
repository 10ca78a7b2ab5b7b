"""Trials in forked children of a process that has imported everything: a crash or a hang is an outcome, not the end."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Outcome = dict[str, Any]  # "outcome": a word to count by; "wrong": what must not be, absent where all is well


def _read_line(stream: int, held: bytearray, deadline: float) -> bytes | None:
    """The next line of a pipe; None at its end. Raises TimeoutError."""
    while b"\n" not in held:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            raise TimeoutError
        data = os.read(stream, 1 << 16)
        if not data:
            return None
        held += data
    line, _, rest = bytes(held).partition(b"\n")
    held[:] = rest
    return line


def _serve(write_to: int, trial: Callable[[Any], Outcome], inputs: Sequence[Any]) -> None:
    for given in inputs:
        try:
            outcome = trial(given)
        except BaseException:
            outcome = {"outcome": "raised", "wrong": traceback.format_exc()[-4000:]}
        os.write(write_to, json.dumps(outcome).encode() + b"\n")


def forked(trial: Callable[[Any], Outcome], inputs: Sequence[Any], *, seconds: float = 20) -> Iterator[Outcome]:
    """The outcome of each input, in order. A child that dies or needs more than `seconds` is replaced by a new one."""
    done = 0
    while done < len(inputs):
        read_from, write_to = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(read_from)
                _serve(write_to, trial, inputs[done:])
                code = 0
            finally:
                os._exit(code)
        os.close(write_to)
        held, hung = bytearray(), False
        try:
            while done < len(inputs):
                line = _read_line(read_from, held, time.monotonic() + seconds)
                if line is None:
                    break
                done += 1
                yield json.loads(line)
        except TimeoutError:
            hung = True
        finally:
            os.close(read_from)
            if hung:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        if done < len(inputs):
            done += 1
            how = f"no answer in {seconds} s" if hung else f"the process ended with wait status {status}"
            yield {"outcome": "hung" if hung else "crashed", "wrong": how}
