""".splat files: 32 bytes a splat."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from splat import SceneFileError, SplatValueError
from splat.harmonics import C0


def record(mean=(0, 0, 0), scale=(1, 1, 1), rgba=(0, 0, 0, 255), quat=(255, 128, 128, 128)) -> bytes:
    return struct.pack("<6f4B4B", *mean, *scale, *rgba, *quat)


def test_the_example_of_the_page_is_read(page_hex, load) -> None:
    scene = load(page_hex("splat", "splat"), "a.splat")
    assert scene.means.tolist() == [[1, 2, 3]]
    assert np.allclose(scene.log_scales, np.log([0.5, 0.25, 0.125]))
    assert np.allclose(scene.sh, (np.array([255, 128, 0]) / 255 - 0.5) / C0)
    assert scene.opacities[0] == np.float32(0.8)
    assert np.allclose(scene.quats, [0.4103829, -0.4103829, 0, 0.8143536])


def test_every_byte_of_a_colour_and_an_opacity_is_its_own_value(load) -> None:
    scene = load(b"".join(record(rgba=(b, b, b, b)) for b in range(256)), "a.splat")
    assert (scene.opacities == (np.arange(256) / 255).astype(np.float32)).all()
    assert (np.diff(scene.sh[:, 0, 0]) > 0).all()


def test_an_empty_file_is_a_scene_without_splats(load) -> None:
    assert len(load(b"", "a.splat")) == 0


@pytest.mark.parametrize("size", [1, 31, 33, 63])
def test_a_size_that_is_no_multiple_of_32_is_refused(load, size: int) -> None:
    with pytest.raises(SceneFileError, match=rf"size: expected a multiple of 32 bytes, found {size}$"):
        load(bytes(size), "a.splat")


def test_a_flat_splat_keeps_a_finite_scale(load) -> None:
    scene = load(record(scale=(0, 1, 1)), "a.splat")
    assert scene.log_scales[0].tolist() == [pytest.approx(-87.33655), 0, 0]


def test_what_no_scene_can_hold_is_counted(load) -> None:
    data = (
        record()
        + record(scale=(-1, 1, 1))
        + record(quat=(128, 128, 128, 128))
        + record(mean=(0, np.nan, 0))
        + record(scale=(np.inf, 1, 1))
    )
    with pytest.raises(SplatValueError) as caught:
        load(data, "a.splat")
    assert str(caught.value).split("a.splat: ")[1] == (
        "3 splats with values that are not finite (indices 1, 3, 4); 1 splat with a zero quaternion (index 2) "
        "(hint: --repair, in Python repair=True, drops what is not finite and takes identity for zero quaternions)"
    )
    scene = load(data, "a.splat", repair=True)
    assert len(scene) == 2 and scene.quats.tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]


def test_many_splats_are_read_in_blocks_without_a_seam(load) -> None:
    means = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    scene = load(b"".join(record(mean=mean) for mean in means.tolist()), "a.splat")
    assert (scene.means == means).all()
