"""The thread pool in a Python process: forks, several Python threads, exit, Ctrl-C, a hostile floating-point mode."""

from __future__ import annotations

import ctypes
import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tensor import _kernels, product, reduction
from tensor.selftest_ref import values

F32 = np.dtype(np.float32)

pytestmark = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels and no threads")


def test_a_forked_child_computes_with_threads_of_its_own(python):
    code = """
import os, sys
import numpy as np
from tensor import _kernels, reduction
_kernels.set_threads(4)
x = np.arange(1_000_000, dtype=np.float32)
expected = reduction.sum(x).tobytes()
assert _kernels.workers_started() == 3
for _ in range(5):
    child = os.fork()
    if child == 0:
        alone = _kernels.workers_started() == 0
        os._exit(0 if alone and reduction.sum(x).tobytes() == expected and _kernels.workers_started() == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reduction.sum(x).tobytes() == expected
print("ok")
"""
    done = python(code)
    assert done.stdout == "ok\n", done.stderr


def test_a_fork_while_another_thread_computes_does_not_hang(python):
    code = """
import os, threading
import numpy as np
from tensor import _kernels, product
_kernels.set_threads(3)
a = np.ones((400, 300), np.float32)
stop = threading.Event()
def work():
    while not stop.is_set():
        product.matmul(a, a.T)
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if product.matmul(a, a.T)[0, 0] == 300 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
thread.join()
print("ok")
"""
    done = python(code)
    assert done.stdout == "ok\n", done.stderr


def test_python_threads_take_turns_and_get_the_same_bits(threads):
    threads(3)
    x = values(1, 1_000_000, F32)
    a = x[:300000].reshape(600, 500)
    expected = reduction.sum(x).tobytes(), product.matmul(a, a.T).tobytes()

    def work(_):
        return reduction.sum(x).tobytes(), product.matmul(a, a.T).tobytes()

    with ThreadPoolExecutor(4) as executor:
        assert set(executor.map(work, range(40))) == {expected}


def test_the_interpreter_exits_while_workers_wait(python):
    code = """
import numpy as np
from tensor import _kernels, reduction
_kernels.set_threads(7)
print(int(reduction.sum(np.ones(2_000_000, np.float32))), _kernels.workers_started())
"""
    done = python(code)
    assert (done.stdout, done.returncode) == ("2000000 6\n", 0), done.stderr


def test_small_work_stays_on_the_calling_thread(python):
    code = """
import numpy as np
from tensor import _kernels, product, reduction
_kernels.set_threads(4)
reduction.sum(np.ones(100_000, np.float32))
product.matmul(np.ones((50, 50)), np.ones((50, 50)))
print(_kernels.workers_started())
"""
    assert python(code).stdout == "0\n"


def test_idle_workers_sleep(python):
    code = """
import time
import numpy as np
from tensor import _kernels, reduction
_kernels.set_threads(4)
reduction.sum(np.ones(4_000_000, np.float32))
clock, used = time.monotonic(), time.process_time()
while time.monotonic() < clock + 1:
    time.sleep(0.1)
used = time.process_time() - used
print(_kernels.workers_started(), "asleep" if used < 0.25 else f"{used} s of 1 s")
"""
    done = python(code)
    assert done.stdout == "3 asleep\n", done.stderr


@pytest.mark.parametrize("threads_used", ["1", "3"])
def test_ctrl_c_stops_a_long_product(python, threads_used):
    code = """
import signal
import numpy as np
from tensor import product
depth = 4_000_000
a = np.broadcast_to(np.float32(1), (2000, depth))
b = np.broadcast_to(np.float32(1), (depth, 64))
out = np.zeros((2000, 64), np.float32)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    product.matmul(a, b, out=out)
    print("finished")
except KeyboardInterrupt:
    print("interrupted", bool((out < depth).all()))
print(product.matmul(a[:5, :300], b[:300])[0, 0])
"""
    done = python(code, DROVEWAY_THREADS=threads_used)
    assert done.stdout == "interrupted True\n300.0\n", done.stderr


def test_the_number_of_threads_has_limits():
    for n in (0, -1, 1025):
        with pytest.raises(ValueError, match=rf"^set_threads: n must be from 1 to 1024, got {n}$"):
            _kernels.set_threads(n)


class HostMode:
    """The calling thread's floating-point mode (MXCSR on x86, FPCR on arm64), through the C library's fenv_t."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        self.saved = ctypes.create_string_buffer(64)
        self.x86 = platform.machine() == "x86_64"
        self.offset = 28 if self.x86 else 0

    def read(self) -> int:
        buffer = ctypes.create_string_buffer(64)
        assert self.library.fegetenv(buffer) == 0
        word = int.from_bytes(buffer.raw[self.offset : self.offset + 4], "little")
        return word & 0xFFC0 if self.x86 else word

    def __enter__(self) -> HostMode:
        """Flush subnormals to zero, in and out, and round up."""
        assert self.library.fegetenv(self.saved) == 0
        word = 0x1F80 | 0x8040 | 0x4000 if self.x86 else (1 << 24) | (1 << 22)
        hostile = bytearray(self.saved.raw)
        hostile[self.offset : self.offset + 4] = word.to_bytes(4, "little")
        assert self.library.fesetenv(bytes(hostile)) == 0
        return self

    def __exit__(self, *_: object) -> None:
        self.library.fesetenv(self.saved)


@pytest.mark.parametrize("number", [1, 3])
def test_a_hostile_floating_point_mode_changes_no_bit_and_is_restored(threads, number):
    threads(number)
    x = values(1, 600_000, F32)
    tiny = np.full(64, 1e-45, np.float32)
    a = x[:120000].reshape(400, 300)

    def everything():
        return [
            reduction.sum(x).tobytes(),
            reduction.sum(tiny).tobytes(),
            reduction.sum(x.reshape(-1, 16), axis=0).tobytes(),
            reduction.dot(x, x[::-1]).tobytes(),
            product.matmul(a, a.T).tobytes(),
            _kernels.self_test(_kernels.isa_best()),
        ]

    expected = everything()
    with HostMode() as mode:
        before = mode.read()
        found = everything()
        after = mode.read()
    assert found == expected
    assert before == after
    assert before != 0x1F80
