"""A change of an index happens as a whole or not at all, whatever breaks in: no memory, Ctrl-C, a failing step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import numpy as np
import pytest

import tensor
from tensor.random import Key
from vector import IdMapIndex, TurboIndex, VectorError, row_store

DIM, ROWS = 16, 1500
OTHERS = np.arange(0, ROWS, 7, dtype=np.uint64)
NEW = np.concatenate([OTHERS, np.arange(5000, 5050, dtype=np.uint64)])


def named() -> IdMapIndex:
    index = IdMapIndex(DIM)
    index.add(Key(1).normal((ROWS, DIM)).numpy(), np.arange(ROWS, dtype=np.uint64))
    return index


def slots() -> TurboIndex:
    index = TurboIndex(DIM)
    index.add(Key(1).normal((ROWS, DIM)).numpy())
    return index


def upsert(index: IdMapIndex) -> None:
    index.upsert(Key(9).normal((len(NEW), DIM)).numpy(), NEW)


def add(index: IdMapIndex) -> None:
    index.add(Key(9).normal((700, DIM)).numpy(), np.arange(5000, 5700, dtype=np.uint64))


CHANGES = [
    (named, lambda index: index.remove(OTHERS)),
    (named, lambda index: index.remove(3)),
    (named, upsert),
    (named, add),
    (slots, lambda index: index.remove(3)),
]
each_change = pytest.mark.parametrize(
    ("make", "change"), CHANGES, ids=["remove", "remove one", "upsert", "add", "slot"]
)


def answer(index: IdMapIndex | TurboIndex) -> bytes:
    return b"".join(array.tobytes() for array in index.search(Key(5).normal((3, DIM)).numpy(), 20))


@each_change
def test_a_change_that_does_not_fit_the_budget_beside_a_search_changes_nothing(
    make: Callable[[], IdMapIndex], change: Callable[[IdMapIndex], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(row_store, "SEGMENT_BYTES", 1 << 14)  # several segments
    index = make()
    before, found = index.cid, answer(index)
    expected = make()
    change(expected)
    snapshot = index._core.store.snapshot()  # as a search in another thread holds it
    refused, limit = 0, 0
    while True:
        try:
            with tensor.budget(max_bytes=limit):
                change(index)
            break
        except tensor.BudgetExceeded:
            refused, limit = refused + 1, limit + 8192
        assert (index.cid, answer(index)) == (before, found)
    assert refused > 1
    assert snapshot.rows == ROWS
    assert (index.cid, answer(index)) == (expected.cid, answer(expected))


@each_change
def test_ctrl_c_amid_a_change_waits_for_its_end(
    make: Callable[[], IdMapIndex], change: Callable[[IdMapIndex], None], monkeypatch: pytest.MonkeyPatch
):
    index, expected = make(), make()
    change(expected)
    step = _last_step(index)
    work = getattr(step[0], step[1])

    def interrupted(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        done = work(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return done

    monkeypatch.setattr(*step, interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            change(index)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    monkeypatch.undo()
    assert (index.cid, answer(index)) == (expected.cid, answer(expected))
    index.remove(5)


def _last_step(index: IdMapIndex | TurboIndex) -> tuple[object, str]:
    """A method that every change calls once its first half is done."""
    if isinstance(index, TurboIndex):
        return index._core.store, "take"
    table = index._table
    insert, take = table.insert, index._core.store.take

    class Steps:
        """`insert` of an add or upsert, `take` of a remove, under one name."""

        @staticmethod
        def step(kind: str, *arguments: object) -> object:
            return (insert if kind == "insert" else take)(*arguments)

    table.insert = lambda *a: Steps.step("insert", *a)  # type: ignore[method-assign]
    index._core.store.take = lambda *a: Steps.step("take", *a)  # type: ignore[method-assign]
    return Steps, "step"


@each_change
def test_a_change_whose_step_fails_leaves_an_index_that_is_refused(
    make: Callable[[], IdMapIndex], change: Callable[[IdMapIndex], None], monkeypatch: pytest.MonkeyPatch
):
    index = make()

    def failing(*_: object) -> object:
        raise MemoryError

    monkeypatch.setattr(*_last_step(index), failing)
    with pytest.raises(MemoryError):
        change(index)
    for use in (answer, lambda index: index.cid, lambda index: index.remove(1), lambda index: index.reconstruct(1)):
        with pytest.raises(VectorError) as caught:
            use(index)
        assert str(caught.value) == (
            "a change of this index was broken off halfway: load it from a file, or build it again"
        )


def test_changes_outside_the_main_thread_leave_its_signals_alone():
    index, seen = named(), []
    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: (index.remove(3), seen.append(signal.getsignal(signal.SIGINT))))
    thread.start()
    thread.join()
    assert seen == [handler]
    assert len(index) == ROWS - 1
