"""Splats that no picture can be made of: counted, named, and with repair=True dropped or mended."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st

from splat import SplatValueError

HINT = "(hint: --repair, in Python repair=True, drops what is not finite and takes identity for zero quaternions)"


@pytest.fixture
def damaged(make_ply, inria_columns) -> bytes:
    columns = inria_columns(20, 1)
    columns["x"][3], columns["scale_1"][5], columns["rot_2"][7] = np.nan, np.inf, -np.inf
    columns["opacity"][9], columns["f_rest_8"][11], columns["f_dc_0"][13] = np.nan, np.inf, np.nan
    for i in (0, 3, 19):
        for k in range(4):
            columns[f"rot_{k}"][i] = 0
    return make_ply(columns)


def test_without_repair_an_error_counts_them_and_names_the_first(damaged: bytes, load, tmp_path) -> None:
    with pytest.raises(SplatValueError) as caught:
        load(damaged)
    assert str(caught.value) == (
        f"{tmp_path / 'a.ply'}: 6 splats with values that are not finite (indices 3, 5, 7, 9, 11, …); "
        f"2 splats with a zero quaternion (indices 0, 19) {HINT}"
    )


def test_with_repair_they_are_dropped_or_mended_and_the_scene_says_so(damaged: bytes, load, make_ply) -> None:
    scene = load(damaged, repair=True)
    assert len(scene) == 14
    assert scene.warnings == (
        "dropped 6 splats with values that are not finite (indices 3, 5, 7, 9, 11, …)",
        "took identity for 2 splats with a zero quaternion (indices 0, 19)",
    )
    assert scene.quats[[0, 13]].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]


@given(st.sets(st.integers(0, 49)))
@options(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_what_is_not_dropped_keeps_its_order_and_its_bits(make_ply, inria_columns, load, bad: set[int]) -> None:
    columns = inria_columns(50, 2)
    whole = load(make_ply(columns))
    for i in bad:
        columns["z"][i] = np.nan
    mended = load(make_ply(columns), repair=True)
    keep = [i for i in range(50) if i not in bad]
    for name in ("means", "log_scales", "quats", "opacities", "sh"):
        assert getattr(mended, name).tobytes() == getattr(whole, name)[keep].tobytes()


def test_a_file_of_nothing_but_damage_becomes_an_empty_scene(make_ply, inria_columns, load) -> None:
    columns = inria_columns(3, 0)
    columns["y"][:] = np.nan
    assert len(load(make_ply(columns), repair=True)) == 0


def test_huge_scales_load_with_a_warning(make_ply, inria_columns, load) -> None:
    columns = inria_columns(4, 0)
    columns["scale_2"][2] = 40
    scene = load(make_ply(columns))
    assert scene.log_scales[2, 2] == 40
    assert scene.warnings == ("1 splat with a scale above e^20 (index 2)",)


def test_quaternions_of_any_length_get_a_length_of_one(make_ply, inria_columns, load) -> None:
    columns = inria_columns(4, 0)
    for i, size in enumerate((1e-38, 1e38, 1e-45, 3.0)):
        for k in range(4):
            columns[f"rot_{k}"][i] = size * (k == i)
    assert load(make_ply(columns)).quats.tolist() == np.eye(4).tolist()


def test_a_double_beyond_float32_counts_as_not_finite(make_ply, inria_columns, load) -> None:
    columns = {name: values.astype(np.float64) for name, values in inria_columns(3, 0).items()}
    columns["x"][1] = 1e300
    with pytest.raises(SplatValueError, match=r"1 splat with values that are not finite \(index 1\)"):
        load(make_ply(columns, types={"x": "double"}))
