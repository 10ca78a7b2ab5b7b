"""The gates at which producers wait: they open all at once, stay open, and let signals through."""

import threading

import pytest

from storage import _kernels

Gate, open_gates = _kernels.Gate, _kernels.open_gates


def waiters(gates):
    """A started thread for each gate that waits there, and the list to which it then adds its number."""
    passed = []
    threads = [
        threading.Thread(target=lambda n=n, gate=gate: (gate.wait(), passed.append(n)), daemon=True)
        for n, gate in enumerate(gates)
    ]
    for thread in threads:
        thread.start()
    return threads, passed


def test_who_waits_passes_once_the_gate_is_open_and_others_stay():
    gates = [Gate() for _ in range(20)]
    threads, passed = waiters(gates)
    open_gates(gates[:10])
    for thread in threads[:10]:
        thread.join(20)
    assert sorted(passed) == list(range(10))
    assert all(thread.is_alive() for thread in threads[10:])
    open_gates(gates)
    for thread in threads:
        thread.join(20)
    assert sorted(passed) == list(range(20))


def test_many_threads_may_wait_at_one_gate():
    gate = Gate()
    threads, passed = waiters([gate] * 8)
    open_gates([gate])
    for thread in threads:
        thread.join(20)
    assert sorted(passed) == list(range(8))


def test_an_open_gate_stays_open():
    gate = Gate()
    open_gates((gate, gate))
    open_gates([gate])
    gate.wait()
    gate.wait()


def test_no_opening_is_lost_between_looking_and_sleeping():
    for _ in range(3000):
        gate = Gate()
        thread = threading.Thread(target=gate.wait, daemon=True)
        thread.start()
        open_gates([gate])
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("wrong", [[None], [Gate(), threading.Lock()], [Gate]])
def test_only_gates_can_be_opened(wrong):
    with pytest.raises(TypeError, match=r"^open_gates: every item must be a Gate$"):
        open_gates(wrong)
    with pytest.raises(TypeError, match=r"^'int' object is not iterable$"):
        open_gates(3)


def test_a_signal_interrupts_the_waiting(python):
    done = python("""
import signal
from storage import _kernels

def interrupt(*_):
    if waiting:
        waiting.clear()
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
gate = _kernels.Gate()
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in range(50):
    try:
        waiting = [True]
        gate.wait()
    except KeyboardInterrupt:
        continue
    raise AssertionError("passed a shut gate")
handled = []
signal.signal(signal.SIGALRM, lambda *_: handled.append(1) if len(handled) < 3 else _kernels.open_gates([gate]))
gate.wait()
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(handled) >= 3)
""")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_threads_that_are_woken_while_the_interpreter_ends_end_quietly(python):
    done = python("""
import atexit, threading, time
from storage import _kernels

gates = [_kernels.Gate() for _ in range(30)]
for gate in gates:
    threading.Thread(target=gate.wait, daemon=True).start()
time.sleep(0.05)

class Late:
    def __init__(self, gates, opening):
        self.gates, self.opening = gates, opening
    def __del__(self):
        self.opening(self.gates)

late = Late(gates[:15], _kernels.open_gates)
atexit.register(_kernels.open_gates, gates[15:])
""")
    assert (done.returncode, done.stderr) == (0, "")
