"""An index in several threads, after a fork, copied, pickled, interrupted: it answers, or says why not."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

from tensor.random import Key
from vector import IdMapIndex, TurboIndex, VectorError


def rows(seed: int, n: int, d: int) -> np.ndarray:
    return Key(seed).normal((n, d)).numpy()


def bits(answer) -> bytes:
    return b"".join(array.tobytes() for array in answer)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_a_copy_is_the_same_index_and_lives_on_its_own(make, metric: str):
    index, slots = IdMapIndex(40, metric=metric, seed=9), TurboIndex(40, metric=metric)
    x = rows(1, 1500, 40)
    index.add(x, np.arange(1500, dtype=np.uint64) * 3)
    slots.add(x)
    for one in (index, slots):
        other = make(one)
        assert other.cid == one.cid
        assert bits(other.search(x[:5], 9)) == bits(one.search(x[:5], 9))
        before = one.cid
        other.remove(3)
        assert (len(one), one.cid) == (1500, before)
        assert len(other) == 1499
    empty = make(TurboIndex(7))
    empty.add(x[:, :7])
    assert len(empty) == 1500


def test_equal_indexes_give_equal_pickles():
    x = rows(12, 40, 5)
    index, other = TurboIndex(5), TurboIndex(5)
    index.add(x)
    other.add(np.concatenate([x, x[::-1]]))
    for slot in range(79, 39, -1):
        other.remove(slot)
    assert pickle.dumps(index) == pickle.dumps(other)


def test_searches_beside_changes_answer_from_one_moment():
    """Rows come in groups of equal rows and go together: an answer never holds a part of a group."""
    group, groups = 40, 30
    x, ids = rows(2, groups, 24), np.arange(groups * group, dtype=np.uint64)
    index = IdMapIndex(24, metric="l2")
    queries = x[: groups // 2]
    index.add(np.repeat(x, group, axis=0), ids)
    stop, wrong, searches = threading.Event(), [], []

    def search() -> None:
        while not stop.is_set():
            _, found = index.search(queries, group)
            # the rows nearest to query i are all the rows of group i, or none if it's away
            counts = [(found[i] // group == i).sum() for i in range(len(queries))]
            searches.append(1)
            if any(count not in (0, group) for count in counts):
                wrong.append(counts)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 1.5
    turn = 0
    while time.monotonic() < end or len(searches) < 20:
        at = turn * 7 % groups
        members = ids[at * group : (at + 1) * group]
        index.remove(members)
        index.add(np.repeat(x[at : at + 1], group, axis=0), members)
        turn += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert turn > 3
    assert index._core.store.snapshots == 0


def test_a_remove_does_not_wait_for_searches():
    index = TurboIndex(256)
    index.add(rows(3, 20_000, 256))
    queries = rows(4, 2000, 256)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (index.search(queries, 10), done.set()))
    thread.start()
    while index._core.store.snapshots == 0 and not done.is_set():
        time.sleep(0.0001)
    removed = 0
    while not done.is_set() and removed < 50:
        index.remove(removed)
        removed += 1
    thread.join()
    assert removed == 50  # while one search ran


def test_an_interrupted_search_or_add_leaves_the_index_as_it_was():
    index = TurboIndex(512)
    index.add(rows(5, 12_000, 512))
    before, queries = index.cid, rows(6, 4000, 512)
    expected = bits(index.search(queries[:3], 5))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for work in (
            lambda: index.search(np.tile(queries, (5, 1)), 10),
            lambda: [index.add(queries) for _ in range(50)],
        ):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                (work(), time.sleep(1))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert index._core.store.snapshots == 0
    while len(index) > 12_000:
        index.remove(len(index) - 1)
    assert index.cid == before
    assert bits(index.search(queries[:3], 5)) == expected


def in_child(work) -> str:
    """What work() returns in a forked child, within ten seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            os.write(writer, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_searches_and_changes_its_own_index():
    index = TurboIndex(64)
    index.add(rows(7, 5000, 64))
    expected = index.search(rows(8, 30, 64), 3)  # threads are running
    before = index.cid

    def work() -> bool:
        same = bits(index.search(rows(8, 30, 64), 3)) == bits(expected)
        index.remove(0)
        index.add(rows(9, 100, 64))
        return same and len(index) == 5099

    assert in_child(work) == "True"
    assert index.cid == before


def test_threads_that_come_first_to_an_index_of_a_forked_child_share_its_locks(monkeypatch: pytest.MonkeyPatch):
    index = TurboIndex(8)
    access, locks, renew = index._core.access, [], index._core.access._renew
    monkeypatch.setattr(access, "_process", -1)  # as a child finds it
    monkeypatch.setattr(access, "_renew", lambda: (time.sleep(0.05), renew()))
    threads = [threading.Thread(target=lambda: locks.append((access.writing(), access.brief()))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(locks) == 5
    assert set(locks) == {(access.writing(), access.brief())}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_amid_a_change_is_told_so():
    index = TurboIndex(8)
    index.add(rows(10, 50, 8))
    entered, leave = threading.Event(), threading.Event()

    def change() -> None:
        with index._core.access.writing():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=change)
    thread.start()
    entered.wait()

    def work() -> str:
        try:
            index.search(rows(11, 1, 8), 1)
        except VectorError as error:
            return str(error)
        return "no error"

    text = in_child(work)
    leave.set()
    thread.join()
    assert (
        text == "this process was forked while another thread changed the index: load it from a file, or fork earlier"
    )
    assert len(index.search(rows(11, 1, 8), 1)[0]) == 1
