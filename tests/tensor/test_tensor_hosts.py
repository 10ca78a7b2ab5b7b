"""Tensors under what their host does: threads, fork, Ctrl-C, other floating-point modes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import tensor as tn


def test_two_threads_on_one_tensor_end_with_every_change_counted() -> None:
    x = tn.zeros((64, 65))
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(500):
                x.__iadd__(1.0)
                x[1:].T.reshape((-1,)).sum()
                x[0, 0] = x[0, 1]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert x.version == 4 * 500 * 2
    assert 0 < x[5, 5].item() <= 2000


def test_gradient_and_checked_modes_belong_to_their_thread() -> None:
    from tensor import _kernels

    seen: list[bool] = []
    before = _kernels.set_grad_mode(False)
    try:
        thread = threading.Thread(target=lambda: seen.append(_kernels.grad_mode()))
        thread.start()
        thread.join()
    finally:
        _kernels.set_grad_mode(before)
    assert seen == [True]


def test_a_forked_child_computes_on_its_parents_tensors(python: Callable[..., Any]) -> None:
    code = """
import os, tensor as tn
x = tn.ones((1000, 1000))
total = (x + x).sum().item()  # starts the pool
child = os.fork()
if child == 0:
    x += 1.0
    os._exit(0 if (x + x).sum().item() == 4e6 and x[5, 5].item() == 2 else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), total, x[5, 5].item())
"""
    done = python(code, DROVEWAY_THREADS="2")
    assert done.stdout == "0 2000000.0 1.0\n", done.stderr


def test_ctrl_c_stops_between_blocks_and_leaves_everything_usable(python: Callable[..., Any]) -> None:
    code = """
import signal, time, tensor as tn
x = tn.ones(20_000_000)
signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
signal.setitimer(signal.ITIMER_REAL, 0.05)
stopped = False
try:
    for _ in range(10_000):
        y = x / x
except KeyboardInterrupt:
    stopped = True
print(stopped, (x + x)[7].item())
"""
    done = python(code)
    assert done.stdout == "True 2.0\n", done.stderr


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_operators_give_the_same_bits_in_another_libraries_mode(
    dtype: str, hostile_mode: Callable[[], AbstractContextManager[None]]
) -> None:
    tiny = {"float32": 1e-40, "float64": 1e-310, "float16": 6e-8, "bfloat16": 1e-39}[dtype]
    x = tn.asarray([tiny, 1.0, 1 / 3, -tiny, 3e4], dtype=dtype)

    def everything() -> list[Any]:
        y = x.clone()
        y *= 0.5
        w = x.detach().requires_grad_()
        (w * w + w).sum().backward()
        results = [x + x, x * 0.5, 1.0 / x, x - tiny, x.sum(), y, w.grad, x.to("float64"), x.to("float32"), -x]
        return [v.tolist() for v in results] + [float(x[0]), [v.item() for v in x]]

    want = everything()
    with hostile_mode():
        got = everything()
    assert got == want
    assert want[5][0] != 0 or dtype in ("float16", "bfloat16")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_threads_do_not_change_a_bit(threads: Callable[[int], None], count: int) -> None:
    rng = np.random.default_rng(5)
    x = tn.asarray(rng.normal(size=(700, 300)).astype(np.float32))
    threads(1)
    want = [(x * x.clone()).sum().item(), (x.T + x.T).sum(0).tolist(), (x[::-1] / 3.0)[5].tolist()]
    threads(count)
    assert [(x * x.clone()).sum().item(), (x.T + x.T).sum(0).tolist(), (x[::-1] / 3.0)[5].tolist()] == want
