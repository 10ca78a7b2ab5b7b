from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coord import (
    KERNEL_DTYPE,
    BadInput,
    GaussianKernel,
    field_at,
    field_gradient,
    field_points,
    field_raster,
    gaussian_at,
)
from coord.fields.field import cover_and_avoid
from coord.fields.field_ref import gaussian_terms
from coord.records import Records
from tensor.elementary_ref import exp_f32

F32 = np.float32


def kernels_of(seed: int, n: int, size: float = 200.0, sigma: float = 40.0) -> Records:
    rng = np.random.default_rng(seed)
    out = np.zeros(n, KERNEL_DTYPE)
    out["id"] = rng.permutation(n)
    out["x"], out["y"] = rng.uniform(-10, size, n), rng.uniform(-10, size, n)
    out["sigma"], out["weight"] = rng.uniform(0.5, sigma, n), rng.uniform(-1, 1, n)
    return out


def defined_field(kernels: Records, x: np.float32, y: np.float32, cutoff: float) -> np.float32:
    """Section 4 of the specification, one kernel after the other."""
    lanes, listed = [F32(0)] * 16, 0
    for k in np.sort(kernels, order="id"):
        dx, dy = x - k["x"], y - k["y"]
        d2 = dx * dx + dy * dy
        c = F32(cutoff) * k["sigma"]
        if d2 > c * c:
            continue
        inv = F32(1) / (F32(2) * (k["sigma"] * k["sigma"]))
        value = k["weight"] * exp_f32(np.array([-(d2 * inv)], np.float32))[0]
        lanes[listed % 16] = lanes[listed % 16] + value
        listed += 1
    for half in (8, 4, 2, 1):
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    return lanes[0]


@given(seed=st.integers(0, 2**32), n=st.integers(0, 90), cutoff=st.sampled_from([0.5, 4.0, 8.0]))
@settings(max_examples=30, deadline=None)
def test_dense_and_by_cells_are_the_definition_bit_for_bit(seed, n, cutoff):
    kernels = kernels_of(seed, n)
    rng = np.random.default_rng(seed + 1)
    x, y = rng.uniform(-50, 250, 40).astype(F32), rng.uniform(-50, 250, 40).astype(F32)
    dense = field_points(kernels, x, y, cutoff, method="dense")
    assert dense.tobytes() == field_points(kernels, x, y, cutoff, method="cells").tobytes()
    wanted = np.array([defined_field(kernels, x[i], y[i], cutoff) for i in range(5)], F32)
    assert dense[:5].tobytes() == wanted.tobytes()


def test_many_kernels_by_cells_equal_dense():
    kernels = kernels_of(3, 3000, size=2000.0, sigma=15.0)
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0, 2000, 3000).astype(F32), rng.uniform(0, 2000, 3000).astype(F32)
    assert (
        field_points(kernels, x, y, method="dense").tobytes() == field_points(kernels, x, y, method="cells").tobytes()
    )


def test_rows_of_kernels_may_come_in_any_order():
    kernels = kernels_of(5, 60)
    x, y = np.linspace(0, 200, 50, dtype=F32), np.linspace(200, 0, 50, dtype=F32)
    shuffled = np.random.default_rng(0).permutation(kernels)
    assert field_points(kernels, x, y).tobytes() == field_points(shuffled, x, y).tobytes()


def test_a_point_has_the_same_bits_alone_and_among_others():
    kernels = kernels_of(6, 60)
    x, y = np.linspace(0, 200, 300, dtype=F32), np.linspace(200, 0, 300, dtype=F32)
    together = field_points(kernels, x, y)
    for i in (0, 1, 17, 255, 256, 299):
        assert field_at(kernels, x[i], y[i]).tobytes() == together[i].tobytes()


def test_the_cutoff_is_inclusive_and_exact():
    kernel = GaussianKernel(id=0, sigma=1.0, weight=1.0)
    assert gaussian_at(kernel, 4.0, 0.0) == exp_f32(np.array([-8.0], F32))[0]
    assert gaussian_at(kernel, np.nextafter(F32(4.0), F32(5.0)), 0.0) == 0.0
    assert gaussian_at(kernel, 0.0, 0.0) == 1.0


def test_a_kernel_out_of_range_takes_no_lane():
    near = [GaussianKernel(id=i, x=0.1 * i, sigma=1.0, weight=0.3) for i in range(0, 40, 2)]
    far = [GaussianKernel(id=i, x=1e5, sigma=1.0, weight=0.7) for i in range(1, 40, 2)]
    assert field_at(near, 0.5, 0.5).tobytes() == field_at(near + far, 0.5, 0.5).tobytes()


def test_the_gaussian_is_close_to_the_real_one():
    kernel = GaussianKernel(id=0, x=3.0, y=-1.0, sigma=2.5, weight=-0.75)
    for x, y in ((3.0, -1.0), (4.0, 2.0), (0.0, 0.0)):
        real = -0.75 * math.exp(-((x - 3) ** 2 + (y + 1) ** 2) / (2 * 2.5**2))
        assert float(gaussian_at(kernel, x, y)) == pytest.approx(real, rel=1e-6)


def test_cover_attracts_and_avoid_repels():
    kernels = kernels_of(8, 50)
    kernels["weight"][:3] = [0.0, -0.0, 1.0]
    x, y = np.linspace(0, 200, 40, dtype=F32), np.linspace(0, 200, 40, dtype=F32)
    cover, avoid = cover_and_avoid(np.sort(kernels, order="id"), x, y, F32(4))
    positive = kernels[kernels["weight"] > 0]
    negated = kernels[kernels["weight"] <= 0].copy()
    negated["weight"] = -negated["weight"]
    assert cover.tobytes() == field_points(positive, x, y).tobytes()
    assert avoid.tobytes() == field_points(negated, x, y).tobytes()
    assert (cover >= 0).all()
    assert (avoid >= 0).all()


@pytest.mark.parametrize("sigma", [2.0**-10, 2.0**20])
@pytest.mark.parametrize("weight", [2.0**-64, -(2.0**64)])
def test_no_value_within_the_limits_is_subnormal(sigma, weight):
    reach, inv = gaussian_terms(np.array([sigma], F32), F32(8))
    tiny = np.finfo(F32).tiny
    assert reach[0] >= tiny
    assert inv[0] >= tiny
    edge = float(np.sqrt(np.float64(reach[0]))) * 0.999
    assert abs(gaussian_at(GaussianKernel(id=0, sigma=sigma, weight=weight), edge, 0.0, 8.0)) >= tiny


def test_a_raster_is_the_field_at_the_cells_centres():
    kernels = kernels_of(9, 30)
    raster = field_raster(kernels, x0=-5.0, y0=10.0, cell_m=2.5, width=7, height=4)
    assert raster.shape == (4, 7)
    assert raster[3, 6] == field_at(kernels, -5.0 + 6.5 * 2.5, 10.0 + 3.5 * 2.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": 0.0}, "kernels[1].sigma must be from 2^-10 to 2^20 m, got 0.0 (id 1)"),
        ({"sigma": -1.0}, "kernels[1].sigma must be from 2^-10 to 2^20 m, got -1.0 (id 1)"),
        ({"sigma": 1e-30}, "kernels[1].sigma must be from 2^-10 to 2^20 m, got 1.0000000031710769e-30 (id 1)"),
        ({"sigma": math.nan}, "kernels[1].sigma must be from 2^-10 to 2^20 m, got nan (id 1)"),
        (
            {"weight": 1e-30},
            "kernels[1].weight must be 0 or from 2^-64 to 2^64 in magnitude, got 1.0000000031710769e-30 (id 1)",
        ),
        ({"weight": math.inf}, "kernels[1].weight must be 0 or from 2^-64 to 2^64 in magnitude, got inf (id 1)"),
        ({"x": math.nan}, "kernels[1].x must be finite and within 2^20 m, got nan (id 1)"),
        ({"kind": 3}, "kernels[1].kind must be 0 hand-made, 1 learned or 2 imported, got 3 (id 1)"),
        ({"id": 0}, "kernels[1].id must be unique, got 0 as in kernels[0]"),
    ],
)
def test_a_kernel_outside_the_limits_is_named(change, message):
    with pytest.raises(BadInput) as caught:
        field_at([GaussianKernel(id=0), GaussianKernel(**{"id": 1, **change})], 0.0, 0.0)
    assert str(caught.value) == message


@pytest.mark.parametrize("cutoff", [0.0, -1.0, 8.5, math.nan])
def test_a_cutoff_outside_the_limits_is_refused(cutoff):
    with pytest.raises(BadInput) as caught:
        gaussian_at(GaussianKernel(id=0), 0.0, 0.0, cutoff)
    assert str(caught.value) == f"config.cutoff_sigmas must be above 0 and at most 8, got {cutoff}"


@pytest.mark.parametrize("method", ["auto", "dense", "cells"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_point_that_is_not_finite_is_named(method, value):
    x, y = np.array([0, value], np.float32), np.zeros(2, np.float32)
    with pytest.raises(BadInput) as caught:
        field_points([GaussianKernel(id=0)], x, y, method=method)
    assert str(caught.value) == f"points[1].x must be finite, got {x[1]}"
    with pytest.raises(BadInput) as caught:
        field_at([GaussianKernel(id=0)], 0.0, value)
    assert str(caught.value) == f"points[0].y must be finite, got {x[1]}"


def test_points_of_any_strides_and_alignment_give_the_bits_of_a_contiguous_copy():
    kernels = [GaussianKernel(id=i, x=0.3 * i, sigma=1.7) for i in range(40)]
    x, y = np.linspace(-3, 9, 30, dtype=np.float32), np.linspace(5, -5, 30, dtype=np.float32)
    expected = field_points(kernels, x, y)
    room = np.zeros(121, np.uint8)
    misaligned = room[1:].view(np.float32)
    misaligned[:] = y
    for points in (np.repeat(x, 2)[::2], x[::-1].copy()[::-1], np.stack([x, y], 1)[:, 0]):
        assert field_points(kernels, points, misaligned).tobytes() == expected.tobytes()


@pytest.mark.parametrize("cell_m", [0.0, -1.0, math.inf, math.nan])
def test_a_raster_s_cell_must_have_a_size(cell_m):
    with pytest.raises(ValueError, match=r"^field_raster: cell_m must be above 0 and at most 2\^20 m, got "):
        field_raster([GaussianKernel(id=0)], x0=0, y0=0, cell_m=cell_m, width=2, height=2)


@pytest.mark.parametrize("function", [field_points, field_gradient])
def test_points_that_are_no_arrays_are_named(function: Any) -> None:
    at = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=rf"^{function.__name__}: x must be float32\[n\], got list$"):
        function([GaussianKernel(id=0)], [0.0, 1.0], at)
    with pytest.raises(ValueError, match=rf"^{function.__name__}: y must be float32\[n\], got tuple$"):
        function([GaussianKernel(id=0)], at, (0.0, 1.0))
