"""Neighbours and the closest pair are those of every pair compared, whatever the order, the groups and the threads."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from coord import (
    AGENT_DTYPE,
    BadInput,
    Separation,
    TooLargeError,
    _kernels,
    backend,
    minimum_separation,
    neighbour_counts,
    neighbours,
)
from coord.moving import neighbours_ref
from tensor import _kernels as pool

F32 = npt.NDArray[np.float32]
needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref has no kernels")
coordinates = st.one_of(
    st.floats(-8, 8, width=32), st.integers(-4, 4).map(float), st.sampled_from([1e-30, -1e-40, 2.0**20, 1048575.9375])
)
places = st.integers(0, 70).flatmap(lambda n: hnp.arrays(np.float32, (n, 3), elements=coordinates))


def site(kind: str, n: int, dims: int, seed: int = 3) -> F32:
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        points = rng.uniform(0, 100, (n, dims))
    elif kind == "clusters":
        points = rng.normal(0, 0.01, (n, dims)) + rng.integers(0, 4, (n, 1)) * 500
    elif kind == "lattice":
        points = rng.permutation(np.stack([np.arange(n) // 16**axis % 16 for axis in range(dims)], axis=1))
    else:
        points = np.full((n, dims), 7.5)
    return points.astype(np.float32)


def brute(points: F32, radius: float) -> tuple[bytes, bytes]:
    """(counts, lists) of the twin."""
    x, y = np.ascontiguousarray(points[:, 0]), np.ascontiguousarray(points[:, 1])
    z = np.ascontiguousarray(points[:, 2]) if points.shape[1] == 3 else None
    r = np.float32(radius)
    return (
        neighbours_ref.neighbour_counts(x, y, z, r).tobytes(),
        neighbours_ref.neighbour_lists(x, y, z, r).tobytes(),
    )


@given(places, st.floats(0, 20, width=32))
@settings(max_examples=60)
def test_neighbours_are_those_of_all_pairs(points: F32, radius: float) -> None:
    counts, lists = brute(points, radius)
    found = neighbours(points, radius)
    assert found.index.tobytes() == lists
    assert np.diff(found.start).tobytes() == counts
    assert neighbour_counts(points, radius).tobytes() == counts


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", ["uniform", "clusters", "lattice", "one point"])
def test_groups_and_boxes_pass_over_no_neighbour(kind: str, dims: int) -> None:
    points = site(kind, 700 if kind != "one point" else 200, dims)
    for radius in (1.0, 3.7):
        counts, lists = brute(points, radius)
        found = neighbours(points, radius)
        assert (np.diff(found.start).tobytes(), found.index.tobytes()) == (counts, lists)
        assert neighbour_counts(points, radius).tobytes() == counts


@pytest.mark.parametrize("far", [0.0, 1000.0, 2.0**20 - 64])
@pytest.mark.parametrize("radius", [0.0, 1e-30, 0.25, 1.0, 1.0000001, 40.0])
def test_cells_pass_over_no_neighbour_at_their_sides(far: float, radius: float) -> None:
    """Points on a lattice stand on the sides of cells; few far ones make the cells' numbers as inexact as they get."""
    points = (site("lattice", 900, 2) / 4).astype(np.float32) + np.float32(far)
    for some in (points, np.concatenate([points, -points[:3]]), points[:, ::-1].copy(), points * np.float32([1, 0])):
        assert neighbour_counts(some, radius).tobytes() == brute(some, radius)[0]
        assert neighbours(some, radius).index.tobytes() == brute(some, radius)[1]


@needs_kernels
def test_points_that_crowd_in_few_cells_are_found_in_bounded_time() -> None:
    points = site("clusters", 40_000, 2)  # one to four cells hold them all, and few are near
    began = time.thread_time()
    counts = neighbour_counts(points, 1e-4)
    assert time.thread_time() - began < 1.0
    some = points[:: len(points) // 20]
    near = [(((points - one) ** 2).sum(axis=1) <= np.float32(1e-4) ** 2).sum() - 1 for one in some]
    assert counts[:: len(points) // 20].tolist() == near


def test_columns_are_taken_as_they_are() -> None:
    points = site("uniform", 500, 3)
    x, y, z = (np.ascontiguousarray(points[:, axis]) for axis in range(3))
    assert neighbour_counts((x, y, z), 9.0).tobytes() == neighbour_counts(points, 9.0).tobytes()
    assert neighbours((x, y), 5.0).index.tobytes() == neighbours(points[:, :2], 5.0).index.tobytes()
    assert minimum_separation((x, y, z)) == minimum_separation(points)
    assert minimum_separation((x[::2], y[::2])) == minimum_separation(points[::2, :2])
    for columns, error, text in (
        ((x,), TypeError, "neighbours: columns must be x, y and perhaps z, each float32[n]"),
        ((x, y.astype(float)), TypeError, "neighbours: columns must be x, y and perhaps z, each float32[n]"),
        ((x, y[:-1]), ValueError, "neighbours: columns must be of one length, got 500, 499"),
    ):
        with pytest.raises(error, match=f"^{re.escape(text)}$"):
            neighbours(columns, 1.0)  # type: ignore[arg-type]


@given(places)
def test_the_closest_pair_is_the_first_of_all_pairs(points: F32) -> None:
    found = minimum_separation(points)
    if len(points) < 2:
        assert found is None
        return
    square, first, second = neighbours_ref.closest_pair(*(np.ascontiguousarray(points[:, axis]) for axis in range(3)))
    assert found == Separation(float(np.sqrt(square)), first, second)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kind", ["uniform", "clusters", "lattice", "one point"])
def test_groups_and_boxes_pass_over_no_closest_pair(kind: str, dims: int) -> None:
    for seed in range(2):
        points = site(kind, 1000, dims, seed)
        columns = [np.ascontiguousarray(points[:, axis]) for axis in range(dims)]
        square, first, second = neighbours_ref.closest_pair(columns[0], columns[1], columns[2] if dims == 3 else None)
        assert minimum_separation(points) == Separation(float(np.sqrt(square)), first, second)


@needs_kernels
def test_the_order_of_the_points_reaches_no_result() -> None:
    points = site("uniform", 900, 2)
    x, y = points[:, 0].copy(), points[:, 1].copy()
    rng = np.random.default_rng(1)
    results = set()
    for order in (None, np.arange(900, dtype=np.uint32), rng.permutation(900).astype(np.uint32)):
        counts = np.empty(900, np.uint32)
        total = _kernels.neighbour_counts(x, y, None, order, 4.0, 2**40, counts)
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        index = np.empty(total, np.uint32)
        _kernels.neighbour_lists(x, y, None, order, 4.0, start, index)
        results.add((counts.tobytes(), index.tobytes(), _kernels.closest_pair(x, y, None, order)))
    assert len(results) == 1


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_change_no_neighbour(threads: int) -> None:
    points = site("uniform", 3000, 2)
    wanted = brute(points, 2.5)
    before = pool.threads()
    try:
        pool.set_threads(threads)
        found = neighbours(points, 2.5)
    finally:
        pool.set_threads(before)
    assert (np.diff(found.start).tobytes(), found.index.tobytes()) == wanted


def test_records_are_named_by_row_and_by_id() -> None:
    agents = np.zeros(3, AGENT_DTYPE)
    agents["id"], agents["x"] = [9, 4, 6], [0, 1, 2]
    assert neighbours(agents, 1.0).index.tolist() == [1, 0, 2, 1]
    assert neighbours(agents, 1.0).of(1).tolist() == [0, 2]
    assert minimum_separation(agents) == Separation(1.0, 4, 6)
    assert minimum_separation(agents[::-1]) == Separation(1.0, 4, 6)
    assert minimum_separation(agents[:1]) is None


def test_more_neighbours_than_the_limit_are_refused_before_they_are_made() -> None:
    n = 100 if backend.REFERENCE else 20000
    with pytest.raises(TooLargeError) as caught:
        neighbours(np.zeros((n, 2), np.float32), 1.0, entries_max=2000)
    assert str(caught.value) == (
        f"neighbours: expected at most 2000 neighbours of {n} points in all, got more "
        "(hint: a smaller radius than 1.0 m, or entries_max)"
    )
    line = np.zeros((3, 2), np.float32)
    assert len(neighbours(line, 1.0, entries_max=6).index) == 6
    with pytest.raises(TooLargeError):
        neighbours(line, 1.0, entries_max=5)


@needs_kernels
def test_all_agents_on_one_point_end_in_bounded_time() -> None:
    assert minimum_separation(np.ones((100_000, 3), np.float32)) == Separation(0.0, 0, 1)
    assert (neighbour_counts(np.ones((4000, 2), np.float32), 0.0) == 3999).all()


@pytest.mark.parametrize(
    ("points", "radius", "error", "text"),
    [
        ([[0.0, 0.0]], 1.0, TypeError, "neighbours: points must be float32[n, 2 or 3] or records, got list"),
        (
            np.zeros((2, 2)), 1.0, TypeError,
            "float32[n, 2 or 3] or records, got float64[2, 2] (hint: points.astype(np.float32))",
        ),
        (np.zeros((2, 4), np.float32), 1.0, TypeError, "got float32[2, 4]"),
        (np.zeros((2, 2), np.float32), -1.0, ValueError, "radius_m must be finite and at least 0, got -1.0"),
        (np.zeros((2, 2), np.float32), np.nan, ValueError, "radius_m must be finite and at least 0, got nan"),
        (
            np.array([[0, 0], [0, np.nan]], np.float32), 1.0, BadInput,
            "points[1].y must be finite and within 2^20 m, got nan",
        ),
    ],
)  # fmt: skip
def test_points_that_have_no_neighbours_are_refused(points: Any, radius: float, error: type, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        neighbours(points, radius)
    with pytest.raises(ValueError, match="entries_max must be from 0 to"):
        neighbours(np.zeros((1, 2), np.float32), 1.0, entries_max=2**32)


@needs_kernels
def test_the_kernels_refuse_arguments_that_would_leave_the_arrays() -> None:
    x, two = np.zeros(3, np.float32), np.zeros(3, np.uint32)
    for order in ([0, 1, 3], [0, 1, 1]):
        with pytest.raises(ValueError, match="order must hold each point once"):
            _kernels.neighbour_counts(x, x, None, np.array(order, np.uint32), 1.0, 9, two)
    for start, text in (([0, 2, 1, 2], "must ascend"), ([0, 1, 2, 3], "must stay within index")):
        with pytest.raises(ValueError, match=text):
            _kernels.neighbour_lists(x, x, None, None, 1.0, np.array(start, np.uint32), np.zeros(2, np.uint32))
    # lists shorter than what is near are filled, never overrun
    index = np.full(3, 9, np.uint32)
    _kernels.neighbour_lists(x, x, None, None, 1.0, np.array([0, 1, 2, 2], np.uint32), index)
    assert index.tolist() == [1, 0, 9]
    with pytest.raises(ValueError, match="two points at least"):
        _kernels.closest_pair(x[:1], x[:1], None, None)
    with pytest.raises(ValueError, match="must be finite"):
        _kernels.crowd_order(np.array([np.inf], np.float32), x[:1], np.zeros(1, np.uint32))
