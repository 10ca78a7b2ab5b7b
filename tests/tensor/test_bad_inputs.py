"""The bad inputs of the specification of tensor, one by one: what the user must see.

The tests stand here; those that need the machinery of another file stand there and are listed in ELSEWHERE.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels
from tensor.random import Key

HERE = Path(__file__).parent


def normal(seed: int, shape: tuple[int, ...]) -> Any:
    return tn.asarray(Key(seed).normal(shape))


HOSTILE_FILES = "test_a_hostile_file_is_refused_by_name_and_costs_no_more_memory_than_its_size"
LYING_CAPSULES = "test_a_capsule_that_lies_is_refused_and_ends_its_own_content"
ELSEWHERE = {
    "fork() after threads started: a new pool in the child": (
        "test_pool.py",
        "test_a_forked_child_computes_with_threads_of_its_own",
        "",
    ),
    "fork() while another thread computes": (
        "test_pool.py",
        "test_a_fork_while_another_thread_computes_does_not_hang",
        "",
    ),
    "fork(): the child computes on its parent's tensors": (
        "test_tensor_hosts.py",
        "test_a_forked_child_computes_on_its_parents_tensors",
        "",
    ),
    "two threads on one tensor": (
        "test_tensor_hosts.py",
        "test_two_threads_on_one_tensor_end_with_every_change_counted",
        "",
    ),
    "safetensors: N = 2^63": ("test_safetensors.py", HOSTILE_FILES, "N = 2^63"),
    "safetensors: not JSON": ("test_safetensors.py", HOSTILE_FILES, "not JSON"),
    "safetensors: duplicate key": ("test_safetensors.py", HOSTILE_FILES, "duplicate name"),
    "safetensors: overlap": ("test_safetensors.py", HOSTILE_FILES, "overlap"),
    "safetensors: hole": ("test_safetensors.py", HOSTILE_FILES, "hole"),
    "safetensors: begin > end": ("test_safetensors.py", HOSTILE_FILES, "begin > end"),
    "safetensors: wrong size": ("test_safetensors.py", HOSTILE_FILES, "wrong size"),
    "safetensors: unknown dtype": ("test_safetensors.py", HOSTILE_FILES, "unknown dtype"),
    "safetensors: non-string metadata": ("test_safetensors.py", HOSTILE_FILES, "non-string metadata"),
    "safetensors: truncated": ("test_safetensors.py", HOSTILE_FILES, "truncated JSON"),
    "DLPack: a capsule used twice": ("test_tensor_exchange.py", "test_a_capsule_is_taken_once", ""),
    "DLPack: read-only": ("test_tensor_exchange.py", "test_a_read_only_import_cannot_be_written", ""),
    "DLPack: not on the CPU": ("test_tensor_exchange.py", LYING_CAPSULES, "device"),
    "DLPack: lanes > 1": ("test_tensor_exchange.py", LYING_CAPSULES, "dtype"),
    "DLPack: NULL strides, byte_offset": (
        "test_tensor_exchange.py",
        "test_null_strides_and_a_byte_offset_give_the_right_tensor",
        "",
    ),
    "numpy: misaligned by one byte, big-endian": (
        "test_tensor_exchange.py",
        "test_a_misaligned_buffer_is_copied_and_a_big_endian_one_refused",
        "",
    ),
    "another package of one of our names": (
        "../droveway/test_buildcheck.py",
        "test_a_foreign_package_in_the_way_is_named_with_its_distribution",
        "",
    ),
    "another package: --help does not care": (
        "../droveway/test_buildcheck.py",
        "test_help_and_version_do_not_check",
        "",
    ),
    "in place on a saved tensor": (
        "test_tensor_in_place.py",
        "test_backward_refuses_what_was_changed_after_it_was_saved_and_names_it",
        "",
    ),
    "100,000 operations: the destructor": (
        "test_tensor_object.py",
        "test_a_chain_of_a_hundred_thousand_operations_ends_without_recursion",
        "",
    ),
    "100,000 operations: backward": (
        "test_tensor_tape_in_c.py",
        "test_a_chain_of_a_hundred_thousand_operations_passes",
        "",
    ),
    "state of an optimizer beyond the budget": (
        "test_optim.py",
        "test_state_that_does_not_fit_into_the_budget_changes_nothing",
        "",
    ),
}


@pytest.mark.parametrize("row", ELSEWHERE)
def test_each_bad_input_that_is_tested_elsewhere_is_tested_there(row: str) -> None:
    file, test, case = ELSEWHERE[row]
    text = (HERE / file).read_text()
    assert test in {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert f'"{case}"' in text or not case


HUGE = 2**40
OVERFLOWING = {
    "zeros": lambda: tn.zeros((HUGE, HUGE)),
    "ones": lambda: tn.ones((HUGE, HUGE)),
    "empty": lambda: tn.empty((HUGE, HUGE)),
    "full": lambda: tn.full((HUGE, HUGE), 3),
    "eye": lambda: tn.eye(HUGE, HUGE),
    "a length beyond 64 bits": lambda: tn.zeros(2**64),
    "zero times too much": lambda: tn.zeros((0, HUGE, HUGE)),
    "expand": lambda: tn.ones((1, 1)).expand(HUGE, HUGE),
    "broadcast_to": lambda: tn.broadcast_to(tn.ones(()), (HUGE, HUGE)),
    "reshape of nothing": lambda: tn.zeros((0,)).reshape(0, HUGE, HUGE),
    "an outer sum": lambda: tn.ones((1, 1)).expand(HUGE, 1) + tn.ones((1, 1)).expand(1, HUGE),
    "a product of matrices": lambda: tn.ones((1, 1)).expand(HUGE, 1) @ tn.ones((1, 1)).expand(1, HUGE),
    "tile": lambda: tn.tile(tn.ones((1, 1)), (HUGE, HUGE)),
    "repeat": lambda: tn.repeat(tn.ones((1, 1)).expand(HUGE, 1), HUGE, axis=1),
    "uniform": lambda: Key(0).uniform((HUGE, HUGE)),
    "normal": lambda: Key(0).normal((HUGE, HUGE)),
    "meshgrid": lambda: tn.meshgrid(tn.ones((1,)).expand(HUGE), tn.ones((1,)).expand(HUGE)),
    "a Spec": lambda: _kernels.Spec((HUGE, HUGE), "float32"),
    "a view of repeated elements": lambda: _kernels.index_view(tn.ones((1, 1)), ((0, HUGE, 0), (0, HUGE, 0))),
    "a strided view": lambda: _kernels.strided_view(tn.ones((1,)), 0, (HUGE, HUGE), (0, 0)),
}


@pytest.mark.parametrize("call", OVERFLOWING)
def test_a_shape_whose_product_overflows_is_a_value_error_and_nothing_is_allocated(call: str) -> None:
    with tn.budget(max_bytes=1 << 20) as b:
        before = b.used_bytes
        with pytest.raises(
            ValueError, match=r"more bytes than there are addresses|elements is too large|would take \d+ bytes"
        ):
            OVERFLOWING[call]()
        assert b.used_bytes == before
        assert b.peak_bytes < 4096
    assert issubclass(tn.ShapeError, ValueError)


def test_two_megabytes_of_a_budget_of_one_are_refused_with_the_numbers_and_nothing_is_leaked() -> None:
    with tn.budget(max_bytes=1 << 20) as b:
        kept = tn.zeros((1000,))
        before = b.used_bytes
        for request in (
            lambda: tn.zeros((1 << 19,)),
            lambda: kept.expand(600, 1000).clone(),
            lambda: kept.reshape(-1, 1) * kept,
        ):
            with pytest.raises(tn.BudgetExceeded) as caught:
                request()
            assert f"limit {1 << 20}" in str(caught.value).replace("_", "").replace(",", "") or str(1 << 20) in str(
                caught.value
            )
            assert caught.value.requested > (1 << 20) - before
            assert (caught.value.in_use, caught.value.limit) == (before, 1 << 20)
            assert b.used_bytes == before
        assert kept.sum().item() == 0


FAMILIES: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda x: x @ x.T,
    "softmax": lambda x: tn.softmax(x * 1e-30, axis=-1),
    "layer_norm": lambda x: tn.layer_norm(x, (32,)),
    "sort": lambda x: tn.sort(x * 1e-38),
    "cumulative_sum": lambda x: tn.cumulative_sum(x, axis=1),
    "cholesky": lambda x: tn.linalg.cholesky(x @ x.T + tn.eye(48) * 40),
    "svd": lambda x: tn.linalg.svd(x).S,
    "eigh": lambda x: tn.linalg.eigh(x @ x.T).eigenvalues,
    "fft": lambda x: tn.fft.rfft(x * 1e-38),
    "conv2d": lambda x: tn.conv2d(x.reshape(1, 4, 12, 32), x[:36].reshape(-1)[: 4 * 4 * 9].reshape(4, 4, 3, 3)),
    "gradient": tn.autograd.grad(lambda y: (tn.tanh(y) * 1e-38).sum()),
    "numbers": lambda x: tn.linspace(0, 1e-44, 7) + tn.asarray([1e-40] * 7),
    "random": lambda x: normal(3, (40,)) * 1e-39,
    "reduction": lambda x: tn.mean(x * 1e-38, axis=0),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_flushing_and_rounding_that_another_library_set_change_no_bit(
    family: str, hostile_mode: Callable[[], AbstractContextManager[None]]
) -> None:
    x = normal(5, (48, 32))
    want = memoryview(FAMILIES[family](x).contiguous()).tobytes()
    with hostile_mode():
        assert memoryview(FAMILIES[family](x).contiguous()).tobytes() == want


BEYOND = [5, -6, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**64, -(2**64), 10**30]


@pytest.mark.parametrize("index", BEYOND)
def test_an_index_out_of_range_however_far_is_an_index_error_and_reads_nothing(index: int) -> None:
    x = tn.ones((5, 3))
    reads: list[Callable[[], Any]] = [
        lambda: x[index],
        lambda: x[0:2, :][index],
        lambda: x.T[0][index],
        lambda: x.__setitem__(index, 1.0),
    ]
    if -(2**63) <= index < 2**63:
        at = tn.asarray([0, index])
        reads += [
            lambda: x[at],
            lambda: x[tn.asarray(index)],
            lambda: x[:, :1][at, 0],
            lambda: x.__setitem__(at, 1.0),
            lambda: tn.take(x, at, axis=0),
            lambda: tn.take_along_axis(x, at.reshape(2, 1), axis=0),
        ]
    for read in reads:
        with pytest.raises(IndexError):
            read()
    assert bool((x == 1.0).all())


def test_eigh_of_what_is_not_symmetric_is_refused_with_its_tolerance() -> None:
    x = tn.asarray([[1.0, 2.0], [2.1, 1.0]])
    for call in (tn.linalg.eigh, tn.linalg.eigvalsh):
        with pytest.raises(ValueError, match="must equal its conjugate transpose within 2\\^-16"):
            call(x)


def test_a_graph_of_a_hundred_thousand_operations_is_captured_run_and_ended_without_recursion(
    python: Callable[..., Any],
) -> None:
    code = """
import tensor as tn
def chain(x):
    for _ in range(50_000):
        x = x * 1.0 + 1.0
    return x
run = tn.capture(chain)
print(run(tn.zeros((3,))).tolist(), run(tn.ones((3,))).tolist())
del run
print(tn.ones(2).sum().item())
"""
    done = python(code)
    assert done.stdout == "[50000.0, 50000.0, 50000.0] [50001.0, 50001.0, 50001.0]\n2.0\n", done.stderr[-2000:]


LONG = {
    "matmul": "x = tn.ones((4096, 4096)); run = lambda: x @ x",
    "sort": "x = tn.asarray(Key(1).uniform((30, 300_000))); run = lambda: tn.sort(x)",
    "svd": "x = tn.asarray(Key(1).normal((400, 400))); run = lambda: tn.linalg.svd(x)",
    "inv": "x = tn.asarray(Key(1).normal((1500, 1500))); run = lambda: tn.linalg.inv(x)",
    "conv2d": "x = tn.ones((64, 64, 64, 64)); w = tn.ones((128, 64, 3, 3)); run = lambda: tn.conv2d(x, w)",
    "clone": "x = tn.ones((4000, 4000)); run = lambda: x.T.clone()",
    "arange": "x = tn.ones(1); run = lambda: tn.arange(50_000_000)",
}


@pytest.mark.parametrize("kernel", LONG)
def test_ctrl_c_stops_a_long_kernel_between_its_blocks_and_what_is_left_is_valid(
    kernel: str, python: Callable[..., Any]
) -> None:
    code = f"""
import signal, time
import tensor as tn
from tensor.random import Key
{LONG[kernel]}
small = tn.ones((8, 8))
with tn.budget(max_bytes=1 << 30) as b:
    used = b.used_bytes
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    asked = time.monotonic() + 0.1
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        for _ in range(50):
            run()
        print("finished")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - asked < 4)
    print(b.used_bytes - used)
print(float((small @ small).sum()), bool((x == x).all()), tn.sort(small)[0, 0].item())
"""
    done = python(code)
    assert done.stdout == "interrupted True\n0\n512.0 True 1.0\n", done.stderr


@pytest.mark.parametrize("make", [lambda p: tn.optim.AdamW(p, lr=0.1), lambda p: tn.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_a_budget_that_ends_in_the_middle_of_a_step_leaves_weights_and_state_as_they_were(
    make: Callable[[Any], Any],
) -> None:
    weights = [tn.ones((300,)).requires_grad_(), tn.ones((400, 500)).requires_grad_(), tn.ones((20,)).requires_grad_()]
    optimizer = make(weights)

    def step() -> None:
        for w in weights:
            w.grad = None
        sum((w * w).sum() for w in weights).backward()
        optimizer.step()

    step()

    def everything() -> list[Any]:
        return [memoryview(w.detach()).tobytes() for w in weights] + [repr(optimizer.state_tree())]

    before = everything()
    for room in range(0, 900_000, 50_000):
        try:
            with tn.budget(max_bytes=room):
                step()
        except tn.BudgetExceeded:
            assert everything() == before
        else:
            assert everything() != before
            before = everything()
    step()
    assert np.isfinite(weights[1].detach().numpy()).all()
