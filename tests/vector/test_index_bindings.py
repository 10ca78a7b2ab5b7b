"""The kernels of indexes refuse arrays that don't fit each other, whoever calls them: nothing is read or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vector import _kernels
from vector.codebook import boundaries
from vector.rotation import rotation_of

pytestmark = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels")

TURN = rotation_of(64, 0)
OUTSIDE = TURN.order.copy()
OUTSIDE[1, 63] = 64


def floats(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def words(*shape: int, dtype: Any = np.uint64) -> np.ndarray:
    return np.zeros(shape, dtype)


def segment(first: int = 0, rows: int = 64, capacity: int = 64, **other: Any) -> tuple[Any, ...]:
    parts = {
        "codes": words(capacity * 32, dtype=np.uint8),
        "scales": floats(capacity),
        "norms2": floats(0),
        "ids": words(0),
    }
    return (*{**parts, **other}.values(), first, rows)


def scan(**other: Any) -> None:
    arguments: dict[str, Any] = {
        "segments": [segment()], "padded": 64, "queries": words(2, 64, dtype=np.int8), "l2_factor": np.zeros(0),
        "shards": 1, "allowed": words(0, dtype=np.uint32), "keys": np.zeros((2, 5)), "ids": words(2, 5),
    }  # fmt: skip
    _kernels.scan(*{**arguments, **other}.values())


def encode_rows(**other: Any) -> None:
    arguments: dict[str, Any] = {
        "x": floats(5, 60), "order": TURN.order, "signs": TURN.signs, "boundaries": boundaries(64), "unit": False,
        "first": 0, "codes": words(32 * 32, dtype=np.uint8), "scales": floats(32), "scales_high": floats(32),
        "norms2": floats(0),
    }  # fmt: skip
    _kernels.encode_rows(*{**arguments, **other}.values())


def find(**other: Any) -> None:
    arguments: dict[str, Any] = {
        "slots": words(9, dtype=np.uint32), "chunks": [words(8)], "shift": 5, "rows": 8, "wanted": words(2),
        "found": words(2, dtype=np.uint32),
    }  # fmt: skip
    _kernels.id_table_find(*{**arguments, **other}.values())


def relocate(place: int) -> None:
    slots = np.full(9, 2**32 - 1, np.uint32)
    _kernels.id_table_insert(slots, [np.arange(3, dtype=np.uint64)], 5, 3, 0)
    ids, places = np.array([2], np.uint64), np.array([place], np.uint32)
    _kernels.id_table_relocate(slots, [np.arange(3, dtype=np.uint64)], 5, 3, ids, places)


def test_what_fits_is_taken():
    scan()
    scan(segments=[], keys=np.zeros((2, 0)), ids=words(2, 0))
    encode_rows(first=27)
    find()
    relocate(2)


@pytest.mark.parametrize(
    ("call", "other", "text"),
    [
        (scan, {"padded": 63}, "padded must be a multiple of 64 up to 16384"),
        (scan, {"padded": 2**63}, "padded must be a multiple of 64 up to 16384"),
        (scan, {"padded": 128}, "scan: a segment must hold its rows"),
        (scan, {"queries": words(2, 128, dtype=np.int8)}, "scan: queries must be [nq, padded]"),
        (scan, {"l2_factor": np.zeros(2)}, "scan: a segment must hold its rows"),
        (scan, {"l2_factor": np.zeros(3), "segments": [segment(norms2=floats(64))]},
         "scan: l2_factor must have one value for each query"),
        (scan, {"shards": 0}, "scan: at most 4096 shards and 65536 queries"),
        (scan, {"allowed": words(1, dtype=np.uint32)},
         "scan: allowed must have a bit for each slot, in whole 64s"),
        (scan, {"allowed": words(2, dtype=np.uint32)}, "scan: k must be at most the number of allowed rows"),
        (scan, {"segments": []}, "scan: k must be at most the number of allowed rows"),
        (scan, {"keys": np.zeros((2, 4))}, "scan: keys and ids must be [nq, k]"),
        (scan, {"ids": words(3, 5)}, "scan: keys and ids must be [nq, k]"),
        (scan, {"segments": [segment(rows=65)]}, "scan: a segment must hold its rows"),
        (scan, {"segments": [segment(rows=2**40)]}, "scan: segments must follow each other"),
        (scan, {"segments": [segment(ids=words(63))]}, "scan: a segment must hold its rows"),
        (scan, {"segments": [segment(codes=words(64 * 32 - 1, dtype=np.uint8))]}, "scan: a segment must hold its rows"),
        (scan, {"segments": [segment(first=64)]}, "scan: segments must follow each other"),
        (scan, {"segments": [segment(rows=63), segment(first=63)]}, "scan: segments must follow each other"),
        (encode_rows, {"first": 28}, "encode_rows: the rows must have places in the segment"),
        (encode_rows, {"first": 2**64 - 1}, "encode_rows: the rows must have places in the segment"),
        (encode_rows, {"x": floats(5, 65)}, "encode_rows: x must have at least one column, and at most padded ones"),
        (encode_rows, {"order": OUTSIDE}, "order must hold numbers below padded"),
        (encode_rows, {"signs": TURN.signs[:, :32].copy()}, "order and signs must be [2, padded]"),
        (encode_rows, {"boundaries": floats(14)}, "encode_rows: boundaries must be 15 numbers"),
        (encode_rows, {"codes": words(32 * 32 - 1, dtype=np.uint8)},
         "encode_rows: the arrays of the segment must have one size"),
        (encode_rows, {"norms2": floats(31)}, "encode_rows: the arrays of the segment must have one size"),
        (find, {"slots": words(8, dtype=np.uint32)}, "id table: it must have more places than rows"),
        (find, {"shift": 4}, "id table: shift must be from 5 to 31"),
        (find, {"rows": 7, "chunks": []}, "id table: the chunks must hold all rows"),
        (find, {"chunks": [words(7)]}, "id table: a chunk is too short"),
        (find, {"wanted": words(3)}, "id table: found must be as long as wanted"),
        (relocate, {"place": 3}, "id table: the id must be there, and its place be a row"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_value_error(call: Any, other: dict[str, Any], text: str):
    with pytest.raises(ValueError, match=r".") as caught:
        call(**other)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("call", "other"),
    [
        (scan, {"queries": words(2, 64, dtype=np.uint8)}),
        (scan, {"queries": words(2, 128, dtype=np.int8)[:, ::2]}),
        (scan, {"keys": np.zeros((2, 10))[:, ::2]}),
        (scan, {"segments": [segment()[:5]]}),
        (scan, {"segments": [segment(scales=np.zeros(64))]}),
        (scan, {"segments": [segment(first=-1)]}),
        (scan, {"segments": [segment(rows=2**64)]}),
        (encode_rows, {"x": floats(10, 60)[::2]}),
        (encode_rows, {"x": np.zeros((5, 60))}),
        (encode_rows, {"scales": np.broadcast_to(np.float32(0), 32)}),
        (find, {"chunks": [words(8, dtype=np.int64)]}),
        (find, {"rows": -1}),
    ],
)
def test_arrays_of_another_kind_or_layout_are_a_type_error(call: Any, other: dict[str, Any]):
    with pytest.raises(TypeError):
        call(**other)
