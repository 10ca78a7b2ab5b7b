"""The demo's scene: as many splats as asked for, the same ones everywhere, where the grid says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat import SplatTypeError, SplatValueError
from splat.synthetic import warehouse, warehouse_camera


@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(0, 400), st.integers(0, 3), st.integers(0, 2**64 - 1), st.data()
)
def test_there_are_exactly_as_many_splats_as_asked_for(h, w, n, degree, seed, data) -> None:
    grid = np.array(data.draw(st.lists(st.booleans(), min_size=h * w, max_size=h * w))).reshape(h, w)
    scene = warehouse(grid, 0.5, n, degree, seed)
    assert (len(scene), scene.degree) == (n, degree)


def test_a_seed_gives_one_scene_and_another_seed_another(golden_scenes) -> None:
    grid = golden_scenes.racks()
    first, again, other = (golden_scenes.scene_digest(warehouse(grid, 1.0, 3000, 1, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_the_recorded_digests_come_out(golden: dict[str, dict[str, str]], golden_scenes) -> None:
    assert golden_scenes.digests() == golden["scene"]


def test_the_twins_make_the_same_scene(python: Callable[..., object]) -> None:
    code = (
        "import numpy as np, tensor; from splat.synthetic import warehouse;"
        "s = warehouse(np.eye(5, dtype=bool), 1.0, 900, 2, 3);"
        "print([tensor.digest(a) for a in (s.means, s.log_scales, s.quats, s.opacities, s.sh)])"
    )
    by_twins, by_kernels = python(code, DROVEWAY_ISA="ref"), python(code)
    assert (by_twins.returncode, by_kernels.returncode) == (0, 0)
    assert by_twins.stdout == by_kernels.stdout != ""


def test_splats_stand_where_the_grid_is(golden_scenes) -> None:
    grid = golden_scenes.racks()
    scene = warehouse(grid, 2.0, 4000, 0, 0)
    x, y, z = scene.means.T
    assert x.min() > -1 and x.max() < 2 * 16 + 1 and z.min() > -1 and z.max() < 2 * 10 + 1
    assert y.max() <= 0 and y.min() > -2 * 6
    on_floor = y == 0
    cells = grid[(z[on_floor] // 2).astype(int), (x[on_floor] // 2).astype(int)]
    assert on_floor.any() and not cells.any()


def test_the_size_of_a_cell_scales_the_scene_and_nothing_else(golden_scenes) -> None:
    small, large = (warehouse(golden_scenes.racks(), side, 2000, 1, 4) for side in (1.0, 4.0))
    assert (large.means == small.means * 4).all()
    assert (large.quats == small.quats).all() and (large.sh == small.sh).all()
    assert np.allclose(large.log_scales - small.log_scales, np.log(4), atol=1e-6)


def test_the_suggested_camera_stands_outside_and_sees_most_of_it(golden_scenes) -> None:
    grid = golden_scenes.racks(40, 64)
    camera, scene = warehouse_camera(grid, 1.0, 640, 360), warehouse(grid, 1.0, 5000, 0, 0)
    t = scene.means.astype(float) @ camera.world_to_camera[:3, :3].T + camera.world_to_camera[:3, 3]
    inside = (abs(t[:, 0] / t[:, 2]) < camera.cx / camera.fx) & (abs(t[:, 1] / t[:, 2]) < camera.cy / camera.fy)
    assert (t[:, 2] > 0.2).all()
    assert inside.mean() > 0.75


BAD = [
    (([[True]], 1.0, 1, 0), SplatTypeError, "warehouse: blocked must be bool[h, w], got list"),
    ((np.zeros((2, 2)), 1.0, 1, 0), SplatTypeError, "warehouse: blocked must be bool[h, w], got float64[2, 2]"),
    ((np.zeros(4, bool), 1.0, 1, 0), SplatValueError, "warehouse: blocked must have 1 to 65536 cells, got bool[4]"),
    ((np.zeros((0, 4), bool), 1.0, 1, 0), SplatValueError,
     "warehouse: blocked must have 1 to 65536 cells, got bool[0, 4]"),
    ((np.zeros((2, 2), bool), 0.0, 1, 0), SplatValueError, "warehouse: cell_m must be from 1e-6 to 1e6, got 0.0"),
    ((np.zeros((2, 2), bool), float("nan"), 1, 0), SplatValueError,
     "warehouse: cell_m must be from 1e-6 to 1e6, got nan"),
    ((np.zeros((2, 2), bool), 1.0, -1, 0), SplatValueError, "warehouse: n must be from 0 to 16777216, got -1"),
    ((np.zeros((2, 2), bool), 1.0, 1, 4), SplatValueError, "warehouse: sh_degree must be from 0 to 3, got 4"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "kind", "text"), BAD)
def test_what_is_no_warehouse_is_refused_by_name(arguments, kind, text) -> None:
    with pytest.raises(kind) as caught:
        warehouse(*arguments, seed=0)
    assert str(caught.value) == text
