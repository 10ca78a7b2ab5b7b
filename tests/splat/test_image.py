"""An image's digest, and its PNG files read by another reader."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image as Pillow

import tensor
from splat import Image, RenderStats, SplatTypeError, SplatValueError

STATS = RenderStats(0, 0, 0, 0, 0, 0, 0)


def picture(width, height, seed=0, smooth=False):
    rng = np.random.default_rng(seed)
    rgba = rng.integers(0, 256, (height, width, 4), dtype=np.uint8)
    if smooth:
        rgba[:] = (np.arange(height)[:, None, None] + 2 * np.arange(width)[None, :, None] + np.arange(4)) % 256
    return Image(rgba, STATS)


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (1, 65), (200, 3), (31, 64), (33, 129)])
def test_another_reader_finds_the_same_pixels(tmp_path, size, smooth, alpha):
    image = picture(*size, smooth=smooth)
    image.save(tmp_path / "a.png", alpha=alpha)
    with Pillow.open(tmp_path / "a.png") as read:
        read.load()
        assert read.mode == ("RGBA" if alpha else "RGB")
        np.testing.assert_array_equal(np.asarray(read), image.rgba if alpha else image.rgba[..., :3])


def test_filters_make_a_smooth_picture_small(tmp_path):
    picture(200, 200, smooth=True).save(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size < 5000


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    (tmp_path / "a.png").write_bytes(b"old")
    picture(3, 3).save(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_name_of_another_kind_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(SplatValueError) as caught:
        picture(3, 3).save("a.jpg")
    assert str(caught.value) == "Image.save: a.jpg: pictures are written as .png (hint: a.png)"
    with pytest.raises(FileNotFoundError):
        picture(3, 3).save(tmp_path / "no" / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_the_digest_is_that_of_the_array():
    image = picture(5, 4)
    assert image.digest() == tensor.digest(image.rgba)
    assert image.digest() != picture(5, 4, seed=1).digest()
    assert image.digest() != picture(4, 5).digest()
    assert (image.width, image.height, image.visible) == (5, 4, 0)


@pytest.mark.parametrize(
    ("rgba", "error", "got"),
    [
        (np.zeros((2, 2, 3), np.uint8), SplatValueError, "uint8[2, 2, 3]"),
        (np.zeros((0, 2, 4), np.uint8), SplatValueError, "uint8[0, 2, 4]"),
        (np.zeros((2, 2, 4)), SplatTypeError, "float64"),
        ([[0, 0, 0, 0]], SplatTypeError, "list"),
    ],
)
def test_what_is_no_picture_is_refused(rgba, error, got):
    with pytest.raises(error) as caught:
        Image(rgba, STATS)
    assert str(caught.value) == f"Image: rgba must be uint8[h, w, 4], got {got}"
