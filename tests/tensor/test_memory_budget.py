"""tensor.budget: refused before allocation, counted while alive."""

from __future__ import annotations

import asyncio
import contextvars
import mmap
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor
from tensor import elementary, memory


def test_over_budget_request_is_refused_with_the_numbers_and_takes_nothing() -> None:
    x = np.zeros(500, np.float32)
    with tensor.budget(max_bytes=3000) as b:
        kept = elementary.exp(x)
        with pytest.raises(tensor.BudgetExceeded) as caught:
            elementary.log(x)
        error = caught.value
        assert str(error) == (
            "elementary.log float32[500]: 2000 bytes requested, 2000 of 3000 in use; "
            "the largest live buffer is elementary.exp float32[500], 2000 bytes"
        )
        assert (error.requested, error.in_use, error.limit, error.largest_live) == (2000, 2000, 3000, 2000)
        assert b.used_bytes == kept.nbytes == b.peak_bytes
    assert isinstance(error, MemoryError)
    assert isinstance(error, tensor.TensorError)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.largest_live_name == "elementary.exp float32[500]"


def test_a_refused_result_leaves_the_output_untouched() -> None:
    out = np.full((4, 4), 7, np.float32).T[::-1]
    with tensor.budget(max_bytes=10), pytest.raises(tensor.BudgetExceeded):
        elementary.exp(np.zeros((4, 4), np.float32), out=out)
    assert (out == 7).all()


def test_used_bytes_return_when_arrays_die_without_the_collector() -> None:
    x = np.zeros(1000, np.float32)
    with tensor.budget(max_bytes=10_000) as b:
        for _ in range(50):
            y = elementary.exp(x)
            view = y[10:]
            del y
            assert b.used_bytes == 4000  # the view keeps its storage
            del view
            assert b.used_bytes == 0
        assert b.peak_bytes == 4000


def test_an_array_that_outlives_the_block_stays_counted() -> None:
    with tensor.budget(max_bytes=10_000) as b:
        y = elementary.sqrt(np.ones(100, np.float64))
    assert b.used_bytes == 800
    del y
    assert b.used_bytes == 0


def test_writing_into_out_costs_nothing_and_strided_inputs_cost_their_copy() -> None:
    x = np.zeros(1000, np.float32)
    with tensor.budget(max_bytes=0) as b:
        elementary.exp(x, out=x)
        assert b.peak_bytes == 0
    with tensor.budget(max_bytes=2000) as b:
        elementary.exp(x[::2], out=np.empty(500, np.float32))
        assert b.peak_bytes == 2000
        assert b.used_bytes == 0


def test_nested_budgets_both_count_and_the_inner_one_refuses_first() -> None:
    x = np.zeros(100, np.float32)
    with tensor.budget(max_bytes=1000) as outer:
        with tensor.budget(max_bytes=100) as inner:
            with pytest.raises(tensor.BudgetExceeded, match="0 of 100 in use"):
                elementary.exp(x)
            assert (inner.used_bytes, outer.used_bytes) == (0, 0)
        with tensor.budget(max_bytes=10_000) as inner:
            y = elementary.exp(x)
            z = elementary.exp(x)
            assert inner.used_bytes == outer.used_bytes == 800
            with pytest.raises(tensor.BudgetExceeded, match="800 of 1000 in use"):
                elementary.exp(x)
            assert inner.used_bytes == outer.used_bytes == y.nbytes + z.nbytes


def test_a_budget_belongs_to_its_task_and_not_to_a_new_thread() -> None:
    x = np.zeros(1000, np.float32)
    sizes: list[int] = []

    async def job(limit: int) -> None:
        with tensor.budget(max_bytes=limit) as b:
            y = elementary.exp(x)
            await asyncio.sleep(0)
            sizes.append(b.used_bytes)
            del y

    async def both() -> None:
        await asyncio.gather(job(4000), job(5000))

    asyncio.run(both())
    assert sizes == [4000, 4000]

    seen: list[object] = []

    def work() -> None:
        try:
            seen.append(elementary.exp(x).size)
        except tensor.BudgetExceeded as error:
            seen.append(error.limit)

    with tensor.budget(max_bytes=100):
        context = contextvars.copy_context()
        for target in (work, lambda: context.run(work)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert seen == [1000, 100]


def test_threads_that_share_a_budget_count_exactly() -> None:
    x = np.zeros(64, np.float32)
    with tensor.budget(max_bytes=1 << 20) as b:
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(lambda: [elementary.exp(x) for _ in range(300)],)
            )
            for _ in range(4)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert b.used_bytes == 0
        assert 256 * 300 <= b.peak_bytes <= 4 * 256 * 300


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(0, 2000))
@settings(max_examples=50, deadline=None)
def test_in_use_never_passes_the_limit(sizes: list[int], limit: int) -> None:
    live = []
    with tensor.budget(max_bytes=limit) as b:
        for n in sizes:
            fits = b.used_bytes + 4 * n <= limit
            try:
                live.append(memory.allocate((n,), np.float32, "test"))
                assert fits
            except tensor.BudgetExceeded:
                assert not fits
            assert b.used_bytes == sum(a.nbytes for a in live) <= limit


def test_reserve_counts_a_working_buffer_for_the_block_only() -> None:
    with tensor.budget(max_bytes=100) as b:
        with memory.reserve(80, "packing"):
            assert b.used_bytes == 80
            refusal = r"^more: 30 bytes requested, 80 of 100 in use; the largest live buffer is packing, 80 bytes$"
            with pytest.raises(tensor.BudgetExceeded, match=refusal), memory.reserve(30, "more"):
                raise AssertionError
        assert (b.used_bytes, b.peak_bytes) == (0, 80)


@pytest.mark.parametrize("shape", [(0, 3), (7, 3), (5462, 3), (70_000, 3)])
def test_an_array_in_pages_is_one_like_any_other_and_counts_until_it_dies(shape: tuple[int, int]) -> None:
    size = 4 * shape[0] * shape[1]
    with tensor.budget(max_bytes=size) as b:
        array = memory.allocate_in_pages(shape, np.float32, "test")
        assert (array.shape, array.dtype, b.used_bytes) == (shape, np.float32, size)
        assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
        with pytest.raises(tensor.BudgetExceeded) as caught:
            memory.allocate_in_pages((20_000, 2), np.uint16, "another")
        assert str(caught.value).startswith("another uint16[20000, 2]: 80000 bytes requested")
        part = array[1:]
        del array
        assert b.used_bytes == size
        del part
        assert b.used_bytes == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the resident size is read from /proc")
def test_pages_are_the_system_s_again_when_their_array_dies() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    before = resident()
    array = memory.allocate_in_pages((1 << 23,), np.float64, "test")
    array.fill(1.0)
    assert resident() - before > 60 << 20
    del array
    assert resident() - before < 4 << 20


def test_sizes_beyond_memory_are_refused_before_allocation() -> None:
    with pytest.raises(ValueError, match=r"^huge: the array would take 4835703278458516698824704 bytes$"):
        memory.allocate((2**40, 2**40), np.float32, "huge")
    with pytest.raises(ValueError, match="huge: the array would take"):
        memory.allocate_in_pages((2**40, 2**40), np.float32, "huge")


@pytest.mark.parametrize(
    ("limit", "error", "text"),
    [
        (-1, ValueError, "budget: max_bytes must not be negative, got -1"),
        (1.5, TypeError, "budget: max_bytes must be an int, got float"),
        (True, TypeError, "budget: max_bytes must be an int, got bool"),
    ],
)
def test_budget_refuses_a_limit_that_is_no_size(limit, error, text) -> None:
    with pytest.raises(error) as caught, tensor.budget(limit):
        pass
    assert str(caught.value) == text


def test_sums_and_products_count_results_copies_and_packing() -> None:
    from tensor import _kernels, product, reduction

    a, b = np.ones((100, 300), np.float32), np.ones((300, 500), np.float32)  # too large to be multiplied where it lies
    packing = _kernels.matmul_workspace_bytes(a, b)
    with tensor.budget(max_bytes=1 << 30) as budget:
        c = product.matmul(a, b)
        assert budget.used_bytes == c.nbytes == 100 * 500 * 4
        assert budget.peak_bytes == c.nbytes + packing
        del c
        reduction.sum(a, axis=0)
        assert budget.used_bytes == 0
    if packing > 0:
        with tensor.budget(max_bytes=100 * 500 * 4 + packing - 1) as budget:
            with pytest.raises(tensor.BudgetExceeded, match=rf"^matmul packing: {packing} bytes requested"):
                product.matmul(a, b)
            assert budget.used_bytes == 0
    with tensor.budget(max_bytes=a.nbytes - 1), pytest.raises(tensor.BudgetExceeded, match=r"^sum contiguous copy"):
        reduction.sum(a.T)
