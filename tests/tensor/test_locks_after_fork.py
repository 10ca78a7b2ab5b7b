"""A forked child runs captured functions and draws from streams that the parent's threads held at the fork."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import pytest

import tensor as tn


def ends_well(pid: int) -> bool:
    """Whether the child ends with 0 within ten seconds."""
    for _ in range(1000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@pytest.mark.parametrize("which", ["machine", "variant", "stream"])
def test_a_child_that_is_forked_while_a_thread_holds_the_lock_goes_on(which: str) -> None:
    stream = tn.random.Stream(1)
    f = tn.capture(lambda x: tn.relu(x) + stream.uniform(3))
    x = tn.ones(3)
    f(x)
    (variant,) = f._variants.values()
    lock = {"machine": variant.machine, "variant": variant, "stream": stream}[which]._lock
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if f(x).shape == (3,) else 1
        finally:
            os._exit(code)
    over.set()
    thread.join()
    assert ends_well(pid)
    assert f(x).shape == (3,)
