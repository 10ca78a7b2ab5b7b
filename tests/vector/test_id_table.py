"""The id table answers as a dict does, through any additions, moves and removals."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vector import IdMapIndex, VectorValueError, _kernels
from vector.id_table import NOWHERE, IdTable
from vector.id_table_ref import DictTable
from vector.row_store import RowStore

ONE = np.zeros((1, 1), np.float32)
KERNELS = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels")


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("aaarul"), st.integers(0, 40)), max_size=60),
    spread=st.sampled_from([1, 2**58]),
)
def test_an_index_holds_the_ids_that_a_dict_would(steps: list[tuple[str, int]], spread: int):
    index, model = IdMapIndex(1), {}
    for step, number in steps:
        id = number * spread
        if step == "a" and id not in model:
            index.add(ONE + number, np.array([id], np.uint64))
            model[id] = number
        elif step == "u":
            index.upsert(ONE - number, np.array([id], np.uint64))
            model[id] = -number
        elif step == "r" and id in model:
            index.remove(id)
            del model[id]
        elif step == "l":
            index = pickle.loads(pickle.dumps(index))
    assert sorted(index.ids().tolist()) == sorted(model)
    for number in range(41):
        assert (number * spread in index) == (number * spread in model)
    for id, number in model.items():
        assert np.sign(index.reconstruct(id)[0]) in {np.sign(number + 1), np.sign(number), 1.0}


@pytest.mark.parametrize("rows", [1, 32, 51, 52, 64, 1000])
def test_a_loaded_index_knows_its_ids_however_few_they_are(rows: int, tmp_path: Path):
    ids = np.arange(rows, dtype=np.uint64) * np.uint64(2**50)
    index = IdMapIndex(1)
    index.add(np.ones((rows, 1), np.float32), ids)
    index.save(tmp_path / "a.jvim")
    for again in (IdMapIndex.load(tmp_path / "a.jvim"), pickle.loads(pickle.dumps(index))):
        assert all(int(id) in again for id in ids)
        assert len(again.search(ONE, 3, allow=ids[-1:])[1][0]) == 1
        with pytest.raises(VectorValueError, match="is in the index already"):
            again.add(ONE, ids[-1:])
        again.upsert(ONE - 1, ids[:1])
        again.add(ONE, np.array([7], np.uint64))
        again.remove(ids)
        assert again.ids().tolist() == [7]


@KERNELS
def test_kernel_and_twin_find_the_same_slots():
    store = RowStore(64, l2=False, with_ids=True)
    table, twin = IdTable(store), DictTable(store)
    ids = np.random.default_rng(1).integers(0, 2**64, 3000, dtype=np.uint64)
    for start, stop in ((0, 1), (1, 100), (100, 3000)):
        store.grow(stop)
        store.set_ids(start, ids[start:stop])
        for one in (table, twin):
            one.reserve(stop)
            one.insert(stop)
        store.rows = stop
    wanted = np.concatenate([ids, ids + np.uint64(1)])
    assert (table.find(wanted) == twin.find(wanted)).all()
    for one in (table, twin):
        one.erase(ids[::2].copy())
    assert (table.find(wanted) == twin.find(wanted)).all()
    assert (table.find(ids[::2].copy()) == NOWHERE).all()
    for one in (table, twin):
        one.relocate(ids[1:1000:2].copy(), np.arange(0, 999, 2, dtype=np.uint32))
    store.set_ids(0, np.repeat(ids[1:1000:2], 2))
    assert table.find(ids[1:1000:2].copy()).tolist() == list(range(0, 999, 2))


@KERNELS
@pytest.mark.parametrize("entry", [3, 40, 2**31, 2**32 - 2])
def test_an_entry_that_no_row_has_is_never_followed(entry: int):
    """As a change that was broken off may leave one: the chunks hold three rows."""
    table, chunks = np.full(8, entry, np.uint32), [np.arange(3, dtype=np.uint64)]
    wanted, found = np.arange(5, dtype=np.uint64), np.zeros(5, np.uint32)
    _kernels.id_table_find(table, chunks, 5, 3, wanted, found)
    assert (found == NOWHERE).all()
    _kernels.id_table_erase(table, chunks, 5, 3, wanted)
    assert _kernels.id_table_insert(table, chunks, 5, 3, 0) == 0
    assert (table == entry).all()
    table[:] = [entry, NOWHERE] * 4
    assert _kernels.id_table_insert(table, chunks, 5, 3, 0) == 3
    _kernels.id_table_erase(table, chunks, 5, 3, wanted[:1])
    _kernels.id_table_find(table, chunks, 5, 3, wanted, found)
    assert found.tolist() == [NOWHERE, 1, 2, NOWHERE, NOWHERE]
