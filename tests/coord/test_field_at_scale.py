"""Fields by cells equal the dense sum to the bit whatever the kernels are, and gradients are those of the field."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import KERNEL_DTYPE, BadInput, GaussianKernel, backend, field_at, field_gradient, field_points, field_raster
from coord.fields import field_ref
from coord.fields.field import _one_cell, _terms
from coord.records import Records

F32 = np.float32
needs_kernels = pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref: nothing to compare the twins with")
layouts = st.sampled_from(["uniform", "clusters", "one point", "one line", "far away"])


def scene(seed: int, n: int, layout: str, points: int) -> tuple[Records, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kernels = np.zeros(n, KERNEL_DTYPE)
    kernels["id"] = rng.permutation(n)
    kernels["sigma"] = 2.0 ** rng.choice([-10, -3, 0, 3, 7, 20], n, p=[0.1, 0.3, 0.3, 0.2, 0.09, 0.01])
    kernels["weight"] = rng.uniform(-1, 1, n)
    x, y = rng.uniform(-900, 900, (2, n + points)).astype(F32)
    if layout == "clusters":
        middle = rng.integers(0, 4, n + points)
        x, y = (rng.uniform(-900, 900, 4)[middle] + rng.normal(0, 2, n + points) for _ in range(2))
    if layout == "one point":
        x[:], y[:] = 17.5, -3.25
    if layout == "one line":
        y[:] = 0.5
    if layout == "far away":
        x = x + 2.0**19.9
    x, y = x.astype(F32), y.astype(F32)
    kernels["x"], kernels["y"] = x[:n], y[:n]
    return kernels, x[n:].copy(), y[n:].copy()


@given(seed=st.integers(0, 2**20), n=st.integers(1, 300), layout=layouts, cutoff=st.sampled_from([0.5, 4.0, 8.0]))
@settings(max_examples=40, deadline=None)
def test_cells_are_the_dense_sum_whatever_the_kernels_are(seed, n, layout, cutoff):
    kernels, x, y = scene(seed, n, layout, 60)
    for made in (field_points, field_gradient):
        assert made(kernels, x, y, cutoff, "dense").tobytes() == made(kernels, x, y, cutoff, "cells").tobytes()


@needs_kernels
@pytest.mark.parametrize("layout", ["uniform", "clusters", "one point", "far away"])
def test_a_hundred_thousand_kernels_by_cells_are_the_dense_sum(layout):
    kernels, x, y = scene(1, 100_000, layout, 300)
    kernels["sigma"] = np.minimum(kernels["sigma"], 8)
    for made in (field_points, field_gradient):
        assert made(kernels, x, y, method="dense").tobytes() == made(kernels, x, y, method="cells").tobytes()


def test_a_point_on_the_cut_off_counts_in_every_method():
    kernels = np.zeros(200, KERNEL_DTYPE)
    kernels["id"], kernels["x"], kernels["sigma"], kernels["weight"] = np.arange(200), 50 * np.arange(200), 1, 1
    edge = kernels["x"] + F32(4)
    beyond = np.nextafter(edge, np.float32(np.inf))
    zero = np.zeros(200, F32)
    for method in ("dense", "cells"):
        assert (field_points(kernels, edge, zero, method=method) > 3e-4).all()
        assert (field_gradient(kernels, edge, zero, method=method)[:, 0] < -1e-3).all()
        far = field_points(kernels, beyond, zero, method=method)
        assert (far[(beyond - kernels["x"]) > 4] == 0).all()


@needs_kernels
@given(seed=st.integers(0, 2**20), n=st.integers(1, 90), layout=layouts)
@settings(max_examples=15, deadline=None)
def test_every_kernel_of_a_field_gives_the_bits_of_its_twin(seed, n, layout):
    kernels, x, y = scene(seed, n, layout, 20)
    terms, one = _terms(kernels, F32(4)), _one_cell(len(x), n)
    cells = field_ref.cells(x, y, *terms[:3])
    for twin, dense, by_cells in (
        (field_ref.field_points, backend.field_points, backend.field_by_cells),
        (field_ref.field_gradient, backend.field_gradient, backend.gradient_by_cells),
    ):
        wanted = twin(x, y, *one, *terms).tobytes()
        assert dense(x, y, *one, *terms).tobytes() == wanted
        assert by_cells(x, y, *terms).tobytes() == wanted
        assert twin(x, y, *cells, *terms).tobytes() == wanted


@given(seed=st.integers(0, 2**20))
@settings(max_examples=20, deadline=None)
def test_the_gradient_is_that_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    kernels = np.zeros(40, KERNEL_DTYPE)
    kernels["id"], kernels["sigma"], kernels["weight"] = np.arange(40), rng.uniform(5, 20, 40), rng.uniform(-1, 1, 40)
    kernels["x"], kernels["y"] = rng.uniform(0, 30, 40), rng.uniform(0, 30, 40)
    x, y = rng.uniform(0, 30, (2, 10)).astype(F32)

    def real(px: np.ndarray, py: np.ndarray) -> np.ndarray:
        k = {name: kernels[name].astype(np.float64) for name in ("x", "y", "sigma", "weight")}
        d2 = (px[:, None] - k["x"]) ** 2 + (py[:, None] - k["y"]) ** 2
        return (k["weight"] * np.exp(-d2 / (2 * k["sigma"] ** 2))).sum(1)

    px, py, step = x.astype(np.float64), y.astype(np.float64), 1e-4
    wanted = np.stack([real(px + step, py) - real(px - step, py), real(px, py + step) - real(px, py - step)], 1)
    found = field_gradient(kernels, x, y, 8.0)
    assert np.allclose(found, wanted / (2 * step), rtol=1e-3, atol=1e-5)


def test_a_gradient_out_of_every_range_is_plus_zero():
    found = field_gradient([GaussianKernel(id=0)], np.array([50, 0], F32), np.zeros(2, F32))
    assert found.tobytes() == np.zeros((2, 2), F32).tobytes()
    assert field_gradient([], np.zeros(3, F32), np.zeros(3, F32)).shape == (3, 2)
    assert field_gradient([GaussianKernel(id=0)], np.zeros(0, F32), np.zeros(0, F32)).shape == (0, 2)


def test_a_gradient_names_what_it_cannot_take():
    with pytest.raises(BadInput) as caught:
        field_gradient([GaussianKernel(id=0)], np.array([np.nan], F32), np.zeros(1, F32))
    assert str(caught.value) == "points[0].x must be finite, got nan"
    with pytest.raises(
        ValueError, match=r"^field_gradient: x and y must be float32\[n\], got float64\(1,\) and float64"
    ):
        field_gradient([GaussianKernel(id=0)], np.zeros(1), np.zeros(1))


@needs_kernels
def test_threads_and_order_of_rows_change_no_bit_of_a_gradient():
    from tensor import _kernels as tensor_kernels

    kernels, x, y = scene(5, 2000, "uniform", 3000)
    before, found = tensor_kernels.threads(), set()
    try:
        for threads in (1, 2, 3, 7):
            tensor_kernels.set_threads(threads)
            shuffled = np.random.default_rng(threads).permutation(kernels)
            found.add(field_gradient(shuffled, x, y).tobytes() + field_points(shuffled, x, y).tobytes())
    finally:
        tensor_kernels.set_threads(before)
    assert len(found) == 1


def test_a_large_raster_is_the_field_at_its_centres():
    kernels, _, _ = scene(6, 500, "uniform", 0)
    raster = field_raster(kernels, x0=-900, y0=-900, cell_m=60, width=30, height=30)
    for row, column in ((0, 0), (29, 29), (7, 21)):
        assert raster[row, column] == field_at(kernels, -900 + 60 * (column + 0.5), -900 + 60 * (row + 0.5))


@pytest.mark.parametrize("far", [2.0**20, 2.0**40, 3e38])
def test_points_far_from_every_kernel_do_not_disturb_the_others(far):
    kernels, x, y = scene(7, 300, "uniform", 90)
    x[:2], y[2:5], x[5], y[6] = far, far, -far, -far
    x[7], y[7] = far, -far
    for made in (field_points, field_gradient):
        assert made(kernels, x, y, method="cells").tobytes() == made(kernels, x, y, method="dense").tobytes()


@needs_kernels
def test_a_few_kernels_that_reach_everything_and_many_that_reach_little_stay_in_order():
    kernels, x, y = scene(8, 20_000, "uniform", 2000)
    kernels["sigma"] = 2
    kernels["sigma"][::500] = 2.0**20
    kernels["sigma"][::3001] = 150
    for made in (field_points, field_gradient):
        assert made(kernels, x, y, method="cells").tobytes() == made(kernels, x, y, method="dense").tobytes()


@needs_kernels
@given(seed=st.integers(0, 2**20), n=st.sampled_from([1, 15, 16, 17, 255, 256, 257, 273, 511, 513, 1000]))
@settings(max_examples=25, deadline=None)
def test_lists_of_every_length_are_added_in_order(seed, n):
    rng = np.random.default_rng(seed)
    kernels = np.zeros(n, KERNEL_DTYPE)
    kernels["id"], kernels["sigma"], kernels["weight"] = np.arange(n), 5, rng.uniform(-1, 1, n)
    kernels["x"], kernels["y"] = rng.uniform(-20, 20, (2, n))
    x, y = rng.uniform(-20, 20, (2, rng.integers(9, 200))).astype(F32)
    for made in (field_points, field_gradient):
        assert made(kernels, x, y, method="cells").tobytes() == made(kernels, x, y, method="dense").tobytes()
