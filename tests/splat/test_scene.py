"""Scenes: what they are made of, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from splat import Camera, Scene, SplatTypeError, SplatValueError, render


def arrays(n: int = 3, degree: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    return {
        "means": rng.normal(size=(n, 3)).astype(np.float32),
        "log_scales": rng.normal(size=(n, 3)).astype(np.float32),
        "quats": (quats / np.linalg.norm(quats, axis=1, keepdims=True)).astype(np.float32),
        "opacities": rng.uniform(0.01, 0.99, n).astype(np.float32),
        "sh": rng.normal(size=(n, (degree + 1) ** 2, 3)).astype(np.float32),
    }


@pytest.mark.parametrize("degree", range(4))
def test_a_scene_has_its_length_and_degree(degree: int) -> None:
    scene = Scene(**arrays(5, degree))
    assert (len(scene), scene.degree) == (5, degree)


def test_an_empty_scene_is_legal() -> None:
    scene = Scene(**arrays(0, 0))
    assert (len(scene), scene.degree, scene.warnings) == (0, 0, ())


def test_the_arrays_are_read_only_views_of_the_callers() -> None:
    given = arrays()
    scene = Scene(**given)
    for name, array in given.items():
        held = getattr(scene, name)
        assert np.shares_memory(held, array) and not held.flags.writeable and array.flags.writeable


def test_strided_arrays_become_contiguous_ones() -> None:
    given = arrays(4)
    given["means"] = np.asfortranarray(given["means"])
    scene = Scene(**given)
    assert scene.means.flags.c_contiguous and (scene.means == given["means"]).all()


def test_arrays_that_lie_between_two_floats_are_copied_and_drawn() -> None:
    given = arrays()
    straight = Scene(**given)
    for name, array in given.items():
        room = bytearray(array.nbytes + 1)
        room[1:] = array.tobytes()
        given[name] = np.frombuffer(room, np.float32, array.size, offset=1).reshape(array.shape)
        assert not given[name].flags.aligned
    scene = Scene(**given)
    assert all(getattr(scene, name).flags.aligned for name in given)
    camera = Camera.look_at((0, 0, -4), (0, 0, 0), width=20, height=12)
    assert render(scene, camera).digest() == render(straight, camera).digest()


BAD = [
    ("means", lambda a: a.astype(np.float64), SplatTypeError,
     "Scene: means must be float32[3, 3], got float64[3, 3] (hint: means.astype(numpy.float32))"),
    ("means", lambda a: a[:, :2], SplatValueError, "Scene: means must be float32[3, 3], got float32[3, 2]"),
    ("means", lambda a: a.tolist(), SplatTypeError,
     "Scene: means must be a numpy array float32[0, 3], got list (hint: numpy.float32)"),
    ("quats", lambda a: a[:2], SplatValueError, "Scene: quats must be float32[3, 4], got float32[2, 4]"),
    ("opacities", lambda a: a[:, None], SplatValueError, "Scene: opacities must be float32[3], got float32[3, 1]"),
    ("sh", lambda a: a[:, :3], SplatValueError,
     "Scene: sh must be float32[3, 1, 4, 9 or 16, 3], got float32[3, 3, 3]"),
    ("sh", lambda a: a[:, :, :2], SplatValueError, "Scene: sh must be float32[3, 4, 3], got float32[3, 4, 2]"),
    ("sh", lambda a: a[:, 0], SplatValueError, "Scene: sh must be float32[3, 1, 4, 9 or 16, 3], got float32[3, 3]"),
    ("opacities", lambda a: a * 5, SplatValueError,
     "Scene: all values must be finite and opacities from 0 to 1, got 2 splats with others, at 0, 1"),
    ("log_scales", lambda a: np.where(np.arange(3)[:, None] == 1, np.float32(np.inf), a), SplatValueError,
     "Scene: all values must be finite and opacities from 0 to 1, got 1 splats with others, at 1"),
    ("quats", lambda a: a * np.float32(2), SplatValueError,
     "Scene: quats must be of unit length, got 3 others, at 0, 1, 2 (hint: splat.activation.normalize_quaternions)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "kind", "text"), BAD)
def test_what_is_no_scene_is_refused_by_name(name, change, kind, text) -> None:
    given = arrays()
    given[name] = change(given[name])
    with pytest.raises(kind) as caught:
        Scene(**given)
    assert str(caught.value) == text


def test_unknown_axes_and_colour_spaces_are_refused() -> None:
    with pytest.raises(SplatValueError, match="source_axes must be one of RDF, RDB, RUF, RUB, LDF, LDB, LUF, LUB"):
        Scene(**arrays(), source_axes="rdf")
    with pytest.raises(SplatValueError, match="color_space must be srgb, got 'linear'"):
        Scene(**arrays(), color_space="linear")
