"""What an index refuses: the whole sentence, and that nothing was changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensor.random import Key
from vector import (
    IdMapIndex,
    TurboIndex,
    VectorKeyError,
    VectorTypeError,
    VectorValueError,
    cosine,
    depth_order,
    exact_search,
    rotate_f32,
    unrotate_f32,
)

ROWS = Key(1).normal((6, 3)).numpy()
NAMES = np.array([5, 2**64 - 1, 7, 0, 9, 11], np.uint64)


def slots() -> TurboIndex:
    index = TurboIndex(3)
    index.add(ROWS)
    return index


def named() -> IdMapIndex:
    index = IdMapIndex(3)
    index.add(ROWS, NAMES)
    return index


def with_value(value: float) -> np.ndarray:
    x = ROWS.copy()
    x[3, 1] = value
    return x


SETTINGS = [
    (lambda: TurboIndex(0), VectorValueError, "TurboIndex: dim must be from 1 to 16384, got 0"),
    (lambda: IdMapIndex(16385), VectorValueError, "IdMapIndex: dim must be from 1 to 16384, got 16385"),
    (lambda: TurboIndex(3.0), VectorTypeError, "TurboIndex: dim must be an int, got float"),
    (lambda: TurboIndex(True), VectorTypeError, "TurboIndex: dim must be an int, got bool"),
    (lambda: TurboIndex(3, bits=2), VectorValueError,
     "TurboIndex: bits must be 4, the code size that this version has, got 2"),
    (lambda: TurboIndex(3, metric="dot"), VectorValueError,
     "TurboIndex: metric must be 'ip', 'cosine' or 'l2', got 'dot'"),
    (lambda: TurboIndex(3, metric=np.array(["ip", "l2"])), VectorValueError,
     "TurboIndex: metric must be 'ip', 'cosine' or 'l2', got array(['ip', 'l2'], dtype='<U2')"),
    (lambda: TurboIndex(3, seed=-1), VectorValueError, "TurboIndex: seed must be from 0 to 2**64 - 1, got -1"),
    (lambda: TurboIndex(3, seed=2**64), VectorValueError, f"TurboIndex: seed must be from 0 to 2**64 - 1, got {2**64}"),
]  # fmt: skip

ADDED = [
    (with_value(np.nan), "{0}: {1}[3, 1] must be finite and below 1e16 in magnitude, got nan"),
    (with_value(-np.inf), "{0}: {1}[3, 1] must be finite and below 1e16 in magnitude, got -inf"),
    (with_value(1e16), "{0}: {1}[3, 1] must be finite and below 1e16 in magnitude, got 1.0000000272564224e+16"),
    (ROWS.astype("M8[s]"), "{0}: {1} must be float32[n, 3], got datetime64[s][6, 3]"),
    (ROWS.astype(np.float64), "{0}: {1} must be float32[n, 3], got float64[6, 3] (hint: {1}.astype(numpy.float32))"),
    (np.ones((6, 3), int), "{0}: {1} must be float32[n, 3], got int64[6, 3] (hint: {1}.astype(numpy.float32))"),
    (ROWS.astype(">f4"), "{0}: {1} must be float32[n, 3], got >f4[6, 3] (hint: {1}.astype(numpy.float32))"),
    (ROWS[0], "{0}: {1} must be float32[n, 3], got float32[3] (hint: {1}[None, :])"),
    (ROWS[:, :2], "{0}: {1} must be float32[n, 3], got float32[6, 2]"),
    (ROWS[None], "{0}: {1} must be float32[n, 3], got float32[1, 6, 3]"),
]


@pytest.mark.parametrize(("make", "error", "text"), SETTINGS, ids=lambda x: x if isinstance(x, str) else "")
def test_settings_are_checked(make: Callable[[], object], error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


@pytest.mark.parametrize(("x", "text"), ADDED, ids=[text for _, text in ADDED])
def test_rows_that_cannot_be_added_change_nothing(x: np.ndarray, text: str):
    index, other = slots(), named()
    before = index.cid, other.cid
    with pytest.raises(VectorValueError) as caught:
        index.add(x)
    assert str(caught.value) == text.format("TurboIndex.add", "x")
    for method in ("add", "upsert"):
        with pytest.raises(VectorValueError) as caught:
            getattr(other, method)(x, np.arange(100, 106, dtype=np.uint64))
        assert str(caught.value) == text.format(f"IdMapIndex.{method}", "x")
    assert (index.cid, other.cid) == before
    assert len(index) == len(other) == 6


@pytest.mark.parametrize(("x", "text"), ADDED, ids=[text for _, text in ADDED])
def test_queries_are_checked_as_rows_are(x: np.ndarray, text: str):
    with pytest.raises(VectorValueError) as caught:
        slots().search(x, 1)
    assert str(caught.value) == text.format("TurboIndex.search", "q")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: slots().add([[1, 2, 3]]), "TurboIndex.add: x"),
        (lambda: exact_search([[1, 2, 3]], ROWS, 1), "exact_search: x"),
        (lambda: exact_search(ROWS, [[1, 2, 3]], 1), "exact_search: q"),
        (lambda: depth_order([1, 2, 3]), "depth_order: z"),
        (lambda: cosine([1, 2, 3], ROWS[0]), "cosine: x"),
        (lambda: rotate_f32([[1, 2, 3]]), "rotate_f32: x"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_no_array_is_named(call: Callable[[], object], name: str):
    with pytest.raises(VectorTypeError) as caught:
        call()
    assert str(caught.value) == (
        f"{name} must be an array (buffer or DLPack), got list (hint: numpy.asarray({name[-1]}, dtype=numpy.float32))"
    )


def test_integers_of_numpy_are_integers_and_any_k_is_one():
    index = TurboIndex(np.int64(3), bits=np.int64(4), seed=np.uint64(5))  # type: ignore[arg-type]
    index.add(ROWS)
    assert (index.bits, type(index.bits)) == (4, int)
    assert index.search(ROWS, 2**300)[1].shape == exact_search(ROWS, ROWS, 2**300)[1].shape == (6, 6)


def test_rows_of_another_element_type_are_a_wrong_type_and_a_wrong_value():
    for call in (slots().add, lambda x: slots().search(x, 1), lambda x: exact_search(x, x, 1)):
        for kind in (TypeError, ValueError):
            with pytest.raises(
                kind, match=r"must be float32\[n, .\], got float64\[6, 3\] \(hint: .\.astype\(numpy.float32\)\)"
            ):
                call(ROWS.astype(np.float64))


@pytest.mark.parametrize(
    ("k", "error", "text"),
    [
        (-1, VectorValueError, "TurboIndex.search: k must not be negative, got -1"),
        (1.5, VectorTypeError, "TurboIndex.search: k must be an int, got float"),
        (True, VectorTypeError, "TurboIndex.search: k must be an int, got bool"),
    ],
)
def test_k_is_checked(k: object, error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        slots().search(ROWS, k)  # type: ignore[arg-type]
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        (np.arange(2, dtype=np.int64), VectorTypeError,
         "IdMapIndex.add: ids must be uint64[2], got int64[2] (hint: ids.astype(numpy.uint64))"),
        (np.array([1, -5]), VectorValueError, "IdMapIndex.add: ids must not be negative, got -5"),
        (np.arange(3, dtype=np.uint64), VectorValueError, "IdMapIndex.add: ids must be uint64[2], got uint64[3]"),
        (np.arange(2, dtype=np.uint64)[:, None], VectorValueError,
         "IdMapIndex.add: ids must be uint64[2], got uint64[2, 1]"),
        ([1, 2], VectorTypeError,
         "IdMapIndex.add: ids must be an array (buffer or DLPack), got list "
         "(hint: numpy.asarray(ids, dtype=numpy.uint64))"),
        (np.array([30, 30], np.uint64), VectorValueError,
         "IdMapIndex.add: ids[1] = 30 is ids[0] again, nothing was added"),
        (np.array([30, 7], np.uint64), VectorValueError,
         "IdMapIndex.add: ids[1] = 7 is in the index already, nothing was added (hint: upsert replaces)"),
    ],
)  # fmt: skip
def test_bad_ids_add_nothing(ids: object, error: type[Exception], text: str):
    index = named()
    before = index.cid
    with pytest.raises(error) as caught:
        index.add(ROWS[:2], ids)
    assert str(caught.value) == text
    assert index.cid == before


def test_unknown_ids_and_slots_are_named():
    index, other = named(), slots()
    before = index.cid, other.cid
    for call, text in (
        (lambda: index.remove(6), "IdMapIndex.remove: no row has id 6"),
        (lambda: index.remove(np.array([7, 6, 5], np.uint64)), "IdMapIndex.remove: no row has id 6"),
        (lambda: index.reconstruct(6), "IdMapIndex.reconstruct: no row has id 6"),
        (lambda: index.search(ROWS, 1, allow=np.array([6], np.uint64)), "IdMapIndex.search: allow: no row has id 6"),
        (lambda: index.search(ROWS, 1, deny=np.array([5, 6], np.uint64)), "IdMapIndex.search: deny: no row has id 6"),
        (lambda: other.remove(6), "TurboIndex.remove: no row has slot 6 (rows: 6)"),
        (lambda: other.reconstruct(2**63), f"TurboIndex.reconstruct: no row has slot {2**63} (rows: 6)"),
        (lambda: other.search(ROWS, 1, allow=np.array([0, 6], np.uint64)),
         "TurboIndex.search: allow: no row has slot 6 (rows: 6)"),
        (lambda: other.search(ROWS, 1, deny=np.array([2**64 - 1], np.uint64)),
         f"TurboIndex.search: deny: no row has slot {2**64 - 1} (rows: 6)"),
    ):  # fmt: skip
        with pytest.raises(VectorKeyError) as caught:
            call()
        assert str(caught.value) == text
        assert isinstance(caught.value, KeyError)
    assert (index.cid, other.cid) == before


def test_an_id_removed_twice_in_one_call_removes_nothing():
    index = named()
    with pytest.raises(VectorValueError) as caught:
        index.remove(np.array([7, 5, 7], np.uint64))
    assert str(caught.value) == "IdMapIndex.remove: ids[2] = 7 is ids[0] again, nothing was removed"
    assert len(index) == 6


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: named().remove(-1), VectorValueError, "IdMapIndex.remove: id must be from 0 to 2**64 - 1, got -1"),
        (lambda: slots().remove("a"), VectorTypeError, "TurboIndex.remove: slot must be an int, got str"),
        (lambda: named().search(ROWS, 1, allow=np.array([7])), VectorValueError,
         "IdMapIndex.search: allow must be uint64[n], got int64[1] (hint: allow.astype(numpy.uint64))"),
        (lambda: rotate_f32(np.zeros((1, 0), np.float32)), VectorValueError,
         "rotate_f32: x must be float32[n, d], got float32[1, 0], and d must be from 1 to 16384"),
        (lambda: unrotate_f32(np.zeros((1, 64), np.float32), 65), VectorValueError,
         "unrotate_f32: y must be float32[n, 128], got float32[1, 64]"),
    ],
)  # fmt: skip
def test_other_arguments_are_named(call: Callable[[], object], error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_strided_rows_and_queries_give_the_bits_of_their_copies():
    wide = Key(3).normal((12, 9)).numpy()
    for view in (wide[::2, ::3], wide[::-1, 6::-3], np.asfortranarray(wide[:, :3])):
        index, copied = TurboIndex(3), TurboIndex(3)
        index.add(view)
        copied.add(view.copy(order="C"))
        assert index.cid == copied.cid
        assert [a.tobytes() for a in index.search(view, 4)] == [a.tobytes() for a in copied.search(view.copy("C"), 4)]


def test_a_budget_that_does_not_fit_changes_nothing():
    import tensor

    index = named()
    before = index.cid
    with tensor.budget(max_bytes=1000), pytest.raises(tensor.BudgetExceeded):
        index.add(Key(5).normal((5000, 3)).numpy(), np.arange(100, 5100, dtype=np.uint64))
    assert index.cid == before
    index.add(Key(5).normal((5000, 3)).numpy(), np.arange(100, 5100, dtype=np.uint64))
    assert len(index) == 5006
