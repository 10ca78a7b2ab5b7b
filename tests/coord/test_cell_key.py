from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import (
    COORD_CELL_KEY_BYTES,
    COORD_CELL_NEIGHBOR_COUNT,
    CellError,
    CoordCell,
    cell_from_units,
    coord_cell_equal,
    coord_cell_neighbor,
    decode_coord_cell_key,
    encode_coord_cell_key,
    write_coord_cell_neighbors,
)

i32 = st.integers(-(2**31), 2**31 - 1)
cells = st.builds(
    CoordCell, layer=st.integers(0, 2**16 - 1), level=st.integers(0, 255), map_id=st.integers(0, 2**32 - 1),
    y=i32, x=i32, z=i32,
)  # fmt: skip


def test_the_key_of_the_page(page_hex):
    cell = CoordCell(layer=2, level=1, map_id=7, y=-1, x=5, z=0)
    assert encode_coord_cell_key(cell) == page_hex("cell-key", "key")
    assert decode_coord_cell_key(page_hex("cell-key", "key")) == cell


@given(cells)
def test_a_key_decodes_to_its_cell(cell):
    key = encode_coord_cell_key(cell)
    assert len(key) == COORD_CELL_KEY_BYTES
    assert coord_cell_equal(decode_coord_cell_key(key), cell)


@given(cells, cells)
def test_keys_sort_as_cells_do(a, b):
    assert (encode_coord_cell_key(a) < encode_coord_cell_key(b)) == (a < b)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"JCK1", "cell key must be 24 bytes long, got 4"),
        (b"JCK2" + bytes(20), "cell key must start with b'JCK1', got b'JCK2'"),
        (b"JCK1" + bytes(3) + b"\x09" + bytes(16), "cell key: reserved byte 7 must be 0, got 9"),
    ],
)
def test_bytes_that_are_no_key_are_refused(data, message):
    with pytest.raises(CellError) as caught:
        decode_coord_cell_key(data)
    assert str(caught.value) == message


@given(st.integers(-(2**27), 2**27), st.sampled_from([0.25, 0.5, 1.0, 4.0]))
def test_a_cell_holds_its_own_corner_and_not_the_next(index, size):
    assert cell_from_units(index * size, size) == index
    assert cell_from_units((index + 0.5) * size, size) == index


def test_cells_below_zero_round_down():
    assert cell_from_units(-0.5, 1.0) == -1
    assert cell_from_units(-1.0, 1.0) == -1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0**31, -(2.0**31) - 1])
def test_a_coordinate_without_a_cell_is_an_error(value):
    with pytest.raises(CellError):
        cell_from_units(value, 1.0)


def test_the_nine_neighbours_go_row_by_row_from_the_south_west():
    out = [CoordCell()] * 9
    assert write_coord_cell_neighbors(CoordCell(x=10, y=20, z=3), out) == COORD_CELL_NEIGHBOR_COUNT
    assert [(c.x, c.y, c.z) for c in out] == [(x, y, 3) for y in (19, 20, 21) for x in (9, 10, 11)]
    assert out[4] == CoordCell(x=10, y=20, z=3)


def test_passing_the_i32_limit_is_an_error_and_writes_nothing():
    edge = CoordCell(x=2**31 - 1)
    assert coord_cell_neighbor(edge, 4) == edge
    with pytest.raises(
        CellError, match=r"^coord_cell_neighbor: neighbour 5 of x=2147483647, y=0 passes the i32 limit$"
    ):
        coord_cell_neighbor(edge, 5)
    out = [CoordCell()] * 9
    with pytest.raises(CellError):
        write_coord_cell_neighbors(edge, out)
    assert out == [CoordCell()] * 9
    with pytest.raises(CellError, match=r"^write_coord_cell_neighbors: out must have room for 9 cells, has 3$"):
        write_coord_cell_neighbors(CoordCell(), [CoordCell()] * 3)
    with pytest.raises(
        CellError, match=r"^CoordCell\.x must be a whole number from -2147483648 to 2147483647, got 2147483648$"
    ):
        CoordCell(x=2**31)
