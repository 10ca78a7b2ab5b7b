"""TurboIndex and IdMapIndex: what they answer, in which order, and that nothing else shows in an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tensor.random import Key
from vector import IdMapIndex, TurboIndex

F32 = NDArray[np.float32]


def bits(answer) -> bytes:
    return b"".join(array.tobytes() for array in answer)


def rows(seed: int, n: int, d: int) -> F32:
    return Key(seed).normal((n, d)).numpy()


def names(n: int) -> NDArray[np.uint64]:
    """Ids in no order."""
    return np.array([(i * 0x9E3779B97F4A7C15) % 2**64 for i in range(n)], np.uint64)


@pytest.mark.parametrize(
    ("d", "metric"),
    [(1, "l2"), *((d, metric) for d in (7, 64, 100, 1000) for metric in ("ip", "cosine", "l2"))],
)
def test_well_separated_rows_find_themselves_also_after_reload_and_further_rows(d: int, metric: str, tmp_path: Path):
    n = 8 if d <= 7 else 60
    x = rows(d, n, d) if d > 1 else np.ldexp(np.float32(1), np.arange(n))[:, None]
    x = x / np.sqrt((x * x).sum(axis=1, keepdims=True)) if metric == "ip" else x
    ids = names(n)
    index = IdMapIndex(d, metric=metric)
    index.add(x[: n // 2], ids[: n // 2])
    index.save(tmp_path / "a.jvim")
    index = IdMapIndex.load(tmp_path / "a.jvim")
    index.add(x[n // 2 :], ids[n // 2 :])
    assert index.search(x, 1)[1][:, 0].tolist() == ids.tolist()


def test_equal_rows_come_by_ascending_id_for_every_batch_and_number_of_threads(threads: Callable[[int], None]):
    ids = names(5000)
    index = IdMapIndex(70)
    index.add(np.repeat(rows(1, 1, 70), 5000, axis=0), ids)
    queries = rows(2, 30, 70)
    for number in (1, 2, 3, 7):
        threads(number)
        for batch in (queries[:1], queries[:5], queries):
            assert (index.search(batch, 17)[1] == np.sort(ids)[:17]).all()


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_an_answer_depends_on_neither_batch_nor_threads(metric: str, threads: Callable[[int], None]):
    index = TurboIndex(100, metric=metric)
    index.add(rows(3, 9000, 100))
    queries = rows(4, 1000, 100)
    expected = index.search(queries, 20)
    for number in (1, 2, 3, 7):
        threads(number)
        assert bits(index.search(queries, 20)) == bits(expected)
        for batch in (1, 17):
            scores, ids = index.search(queries[5 : 5 + batch], 20)
            assert bits((scores, ids)) == bits((expected[0][5 : 5 + batch], expected[1][5 : 5 + batch]))


@pytest.mark.parametrize("metric", ["ip", "cosine"])
@pytest.mark.parametrize("power", [-100, -3, 1, 40])
def test_a_query_times_a_power_of_two_finds_the_same_ids(metric: str, power: int):
    index = TurboIndex(100, metric=metric)
    index.add(rows(5, 700, 100))
    queries = rows(6, 20, 100)
    scores, ids = index.search(queries, 15)
    scaled, same = index.search(np.ldexp(queries, power), 15)
    assert (same == ids).all()
    assert (scaled == (scores if metric == "cosine" else np.ldexp(scores, power))).all()


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_scores_are_those_of_the_reconstructed_rows(metric: str):
    index = TurboIndex(90, metric=metric)
    index.add(rows(7, 200, 90) * 3)
    queries = rows(8, 10, 90)
    scores, ids = index.search(queries, 200)
    again = np.array([index.reconstruct(slot) for slot in range(200)], np.float64)
    q = queries.astype(np.float64)
    expected = q @ again.T
    if metric == "cosine":
        expected /= np.sqrt((q * q).sum(axis=1))[:, None]
    if metric == "l2":
        x = (rows(7, 200, 90) * 3).astype(np.float64)
        expected = 2 * expected - (x * x).sum(axis=1) - (q * q).sum(axis=1)[:, None]
    expected = np.take_along_axis(expected, ids.astype(np.int64), axis=1)
    assert np.abs(scores - expected).max() < 0.02 * np.abs(expected).max()


def test_scores_descend_and_equal_ones_have_ascending_ids():
    index = IdMapIndex(65, metric="l2")
    index.add(np.repeat(rows(9, 40, 65), 3, axis=0), names(120))
    scores, ids = index.search(rows(10, 8, 65), 120)
    assert (np.diff(scores, axis=1) <= 0).all()
    same = np.diff(scores, axis=1) == 0
    assert same.sum() >= 8 * 80
    assert (ids[:, 1:][same] > ids[:, :-1][same]).all()


def test_k_beyond_the_rows_gives_all_of_them_and_zero_gives_no_columns():
    index = TurboIndex(20)
    queries = rows(12, 3, 20)
    assert index.search(queries, 5)[0].shape == (3, 0)
    index.add(rows(11, 9, 20))
    for k, columns in ((0, 0), (1, 1), (9, 9), (10, 9), (2**62, 9), (2**100, 9)):
        scores, ids = index.search(queries, k)
        assert scores.shape == ids.shape == (3, columns)
        assert (scores.dtype, ids.dtype) == (np.float32, np.uint64)
    assert sorted(ids[0].tolist()) == list(range(9))
    assert index.search(queries[:0], 4)[0].shape == (0, 4)


def test_zero_rows_and_zero_queries_score_zero():
    index = TurboIndex(30)
    x = rows(13, 50, 30)
    x[[4, 40]] = 0
    index.add(x)
    scores, ids = index.search(np.zeros((2, 30), np.float32), 50)
    assert (scores.view(np.uint32) == 0).all()
    assert (ids == np.arange(50)).all()
    scores, ids = index.search(-x[:6], 50)
    zero = ids == 4
    assert (scores[zero].view(np.uint32) == 0).all()
    assert zero.sum() == 6


def test_an_allow_list_answers_what_a_full_search_would_among_those_ids():
    ids = names(900)
    index = IdMapIndex(40)
    index.add(rows(14, 900, 40), ids)
    queries = rows(15, 6, 40)
    scores, order = index.search(queries, 900)
    for allow, deny in (
        (ids[::7], None),
        (ids[:1], None),
        (None, ids[::3]),
        (ids[100:600], ids[200:500:2]),
        (np.concatenate([ids[:50], ids[:50]]), ids[10:20]),
        (ids[:5], ids[:5]),
        (ids[:0], None),
    ):
        usable = set(ids.tolist() if allow is None else allow.tolist()) - set([] if deny is None else deny.tolist())
        found = index.search(queries, 25, allow=allow, deny=deny)
        m = min(25, len(usable))
        for q in range(6):
            chosen = np.isin(order[q], np.array(sorted(usable), np.uint64))
            assert found[1][q].tolist() == order[q][chosen][:m].tolist()
            assert found[0][q].tolist() == scores[q][chosen][:m].tolist()


def test_a_removed_id_never_returns_and_the_others_answer_as_if_built_anew():
    x, ids = rows(16, 600, 50), names(600)
    index = IdMapIndex(50)
    index.add(x, ids)
    gone = np.zeros(600, np.bool_)
    queries = rows(17, 5, 50)
    for taken in ([0], [599, 3, 4, 598], list(range(100, 300)), [300]):
        gone[taken] = True
        index.remove(ids[taken] if len(taken) > 1 else int(ids[taken[0]]))
        anew = IdMapIndex(50)
        anew.add(x[~gone], ids[~gone])
        assert bits(index.search(queries, 600)) == bits(anew.search(queries, 600))
        assert len(index) == (~gone).sum()
        assert all((int(i) in index) is not bool(lost) for i, lost in zip(ids, gone, strict=True))


def test_removing_many_leaves_the_slots_of_removing_one_by_one_from_the_highest():
    x, ids = rows(18, 100, 10), names(100)
    at_once, single = IdMapIndex(10), IdMapIndex(10)
    at_once.add(x, ids)
    single.add(x, ids)
    slots = [3, 99, 40, 41, 97, 0, 70]
    at_once.remove(ids[slots])
    for slot in sorted(slots, reverse=True):
        single.remove(int(ids[slot]))
    assert at_once.ids().tolist() == single.ids().tolist()
    assert at_once.cid == single.cid


def test_the_last_row_moves_into_a_removed_slot():
    x = rows(19, 70, 12)
    index, expected = TurboIndex(12), TurboIndex(12)
    index.add(x)
    index.remove(5)
    index.remove(68)
    index.remove(0)
    expected.add(np.concatenate([x[67:68], x[1:5], x[69:70], x[6:67]]))
    assert index.cid == expected.cid


def test_upsert_replaces_and_adds():
    x, ids = rows(20, 80, 33), names(80)
    index, expected = IdMapIndex(33), IdMapIndex(33)
    index.upsert(x[:50], ids[:50])
    index.upsert(x[30:] * 2, ids[30:])
    expected.add(np.concatenate([x[:30], x[30:] * 2]), ids)
    assert index.cid == expected.cid
    index.upsert(x[:0], ids[:0])
    assert index.cid == expected.cid


def test_rows_added_one_by_one_or_together_are_the_same_index():
    x, ids = rows(21, 2500, 9), names(2500)
    together, apart = IdMapIndex(9), IdMapIndex(9)
    together.add(x, ids)
    for i in (*range(0, 70), *range(70, 2500, 90)):
        step = 1 if i < 70 else 90
        apart.add(x[i : i + step], ids[i : i + step])
    assert apart.cid == together.cid


def test_many_segments_answer_as_one(monkeypatch: pytest.MonkeyPatch):
    from vector import row_store

    x, ids = rows(22, 3000, 70), names(3000)
    large, small = IdMapIndex(70, metric="l2"), None
    large.add(x, ids)
    monkeypatch.setattr(row_store, "SEGMENT_BYTES", 1 << 13)  # 128 rows
    small = IdMapIndex(70, metric="l2")
    small.add(x[:1000], ids[:1000])
    small.add(x[1000:], ids[1000:])
    queries = rows(23, 7, 70)
    assert bits(large.search(queries, 30)) == bits(small.search(queries, 30))
    assert large.cid == small.cid
    for index in (large, small):
        index.remove(ids[5:2600:3])
        index.upsert(x[:1200], ids[:1200])
    assert bits(large.search(queries, 30)) == bits(small.search(queries, 30))
    assert large.cid == small.cid


def test_an_id_may_be_any_number_of_64_bits():
    ids = np.array([2**64 - 1, 0, 2**63, 1], np.uint64)
    index = IdMapIndex(16)
    index.add(rows(24, 4, 16), ids)
    assert set(index.search(rows(25, 1, 16), 4)[1][0].tolist()) == set(ids.tolist())
    index.remove(2**64 - 1)
    assert 2**64 - 1 not in index
    assert 0 in index


def test_settings_can_be_read_and_a_saved_index_keeps_them(tmp_path: Path):
    index = IdMapIndex(100, metric="cosine", seed=2**64 - 1)
    index.add(rows(26, 40, 100), names(40))
    assert index.save(tmp_path / "a.jvim") == index.cid
    again = IdMapIndex.load(tmp_path / "a.jvim")
    assert (again.dim, again.bits, again.metric, again.seed, len(again)) == (100, 4, "cosine", 2**64 - 1, 40)
    assert again.cid == index.cid
    assert repr(again) == "IdMapIndex(dim=100, bits=4, metric='cosine', seed=18446744073709551615) of 40 rows"
    assert again.backend() == index.backend()
    assert TurboIndex(100).cid == "e40bf47939c967dbf3a550b56eb798f2982294c4cbeac7096c3f6e224ac3fecd"


def test_seeds_turn_differently_and_find_alike():
    x, queries = rows(27, 300, 100), rows(28, 10, 100)
    one, other = TurboIndex(100, seed=1), TurboIndex(100, seed=2)
    for index in (one, other):
        index.add(x)
    assert one.cid != other.cid
    assert (one.search(queries, 1)[1] == other.search(queries, 1)[1]).mean() > 0.6


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_the_best_k_are_the_first_k_of_all_for_any_k(metric: str, threads: Callable[[int], None]):
    index = IdMapIndex(24, metric=metric)
    index.add(rows(29, 1500, 24)[np.arange(6000) % 1500], names(6000))
    queries = rows(30, 9, 24)
    scores, ids = index.search(queries, 6000)
    assert all(len(set(row)) == 6000 for row in ids.tolist())
    for number in (1, 3):
        threads(number)
        for k in (1, 127, 128, 129, 300, 1000, 2999, 3000, 5999, 6000):
            assert bits(index.search(queries, k)) == bits((scores[:, :k], ids[:, :k])), k
            assert bits(index.search(queries[:2], k)) == bits((scores[:2, :k], ids[:2, :k])), k


def test_rows_that_come_in_order_of_their_scores_are_selected_too():
    index = TurboIndex(1, metric="l2")
    index.add(np.arange(20_000, dtype=np.float32)[:, None])
    falling = TurboIndex(1, metric="l2")
    falling.add(np.arange(20_000, dtype=np.float32)[::-1, None])
    for one in (index, falling):
        scores, ids = one.search(np.array([[0.0], [20_000.0]], np.float32), 500)
        everything = one.search(np.array([[0.0], [20_000.0]], np.float32), 20_000)
        assert bits((scores, ids)) == bits(side[:, :500] for side in everything)
