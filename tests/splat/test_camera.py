"""Cameras: where they look, what they refuse, and their JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from splat import Camera, SplatTypeError, SplatValueError

PLAIN = {"width": 4, "height": 3, "fx": 2.0, "fy": 2.0, "cx": 2.0, "cy": 1.5}
NUMBERS = st.floats(-1e6, 1e6)
POINTS = st.tuples(NUMBERS, NUMBERS, NUMBERS)


def seen(camera: Camera, point: tuple[float, float, float]) -> np.ndarray:
    t = camera.world_to_camera @ np.array([*point, 1.0])
    return np.array([camera.fx * t[0] / t[2] + camera.cx, camera.fy * t[1] / t[2] + camera.cy, t[2]])


@given(POINTS, POINTS, st.floats(1, 170))
def test_the_target_is_in_the_middle_and_up_is_up(eye, target, fov: float) -> None:
    forward = np.subtract(target, eye)
    length = np.linalg.norm(forward)
    assume(length > 1e-3 and np.linalg.norm(forward[[0, 2]]) > 1e-3 * length)
    camera = Camera.look_at(eye, target, fov_y_deg=fov, width=640, height=360)
    size = float(np.linalg.norm(eye) + np.linalg.norm(target))
    x, y, depth = seen(camera, target)
    error = 1e-12 * size / length * camera.fx + 1e-6
    assert (
        abs(x - 320) < error and abs(y - 180) < error and math.isclose(depth, length, rel_tol=1e-9, abs_tol=1e-9 * size)
    )
    above = seen(camera, tuple(np.add(target, (0, -length * 0.1, 0))))
    assert above[1] < 180 + error
    assert np.allclose(camera.position, eye, atol=1e-12 * size + 1e-12)
    assert camera.fy == pytest.approx(180 / math.tan(math.radians(fov / 2)))


def test_east_is_to_the_right_for_a_camera_that_looks_along_z() -> None:
    camera = Camera.look_at((0, 0, -5), (0, 0, 0), width=100, height=100)
    assert seen(camera, (1, 0, 0))[0] > 50 and seen(camera, (0, 1, 0))[1] > 50


@given(POINTS, POINTS, st.integers(1, 16384), st.integers(1, 16384))
def test_json_gives_the_same_camera_back(eye, target, width: int, height: int) -> None:
    forward = np.subtract(target, eye)
    assume(np.linalg.norm(forward[[0, 2]]) > 1e-3 * np.linalg.norm(forward) > 0)
    camera = Camera.look_at(eye, target, width=width, height=height)
    again = Camera.from_json(camera.to_json())
    assert again == camera and hash(again) == hash(camera)
    assert again.world_to_camera.tobytes() == camera.world_to_camera.tobytes()


def test_the_example_of_the_page_is_read_and_written(repository: Path) -> None:
    page = (repository / "docs" / "formats" / "camera-json.md").read_text()
    text = page.split("```json\n")[1].split("\n```")[0]
    camera = Camera.look_at((0, 0, -5), (0, 0, 0), fov_y_deg=90, width=640, height=360)
    assert camera.to_json() == text and Camera.from_json(text) == camera


def test_a_camera_is_compared_by_its_numbers() -> None:
    camera = Camera(**PLAIN, world_to_camera=np.eye(4))
    assert camera == Camera(**PLAIN, world_to_camera=np.eye(4).tolist())
    assert camera != Camera(**PLAIN | {"cx": 1.0}, world_to_camera=np.eye(4)) and camera != "camera"


def test_the_pose_is_a_read_only_copy() -> None:
    pose = np.eye(4)
    camera = Camera(**PLAIN, world_to_camera=pose)
    pose[0, 3] = 9
    assert camera.world_to_camera[0, 3] == 0 and not camera.world_to_camera.flags.writeable


def pose(row: int, column: int, value: float) -> np.ndarray:
    matrix = np.eye(4)
    matrix[row, column] = value
    return matrix


BAD = [
    ({"width": 0}, SplatValueError, "Camera: width must be from 1 to 16384 pixels, got 0"),
    ({"height": 16385}, SplatValueError, "Camera: height must be from 1 to 16384 pixels, got 16385"),
    ({"height": 3.0}, SplatTypeError, "Camera: height must be an int, got float"),
    ({"width": True}, SplatTypeError, "Camera: width must be an int, got bool"),
    ({"fx": 0}, SplatValueError, "Camera: fx must be above 0, got 0.0"),
    ({"fy": -1.5}, SplatValueError, "Camera: fy must be above 0, got -1.5"),
    ({"fy": math.inf}, SplatValueError, "Camera: fy must be finite, got inf"),
    ({"cx": math.nan}, SplatValueError, "Camera: cx must be finite, got nan"),
    ({"cy": 10**400}, SplatValueError, "Camera: cy must be finite, got inf"),
    ({"cy": "1"}, SplatTypeError, "Camera: cy must be a number, got str"),
    ({"cy": None}, SplatTypeError, "Camera: cy must be a number, got NoneType"),
    ({"world_to_camera": None}, SplatTypeError, "Camera: world_to_camera must be float64[4, 4], got NoneType"),
    ({"world_to_camera": np.eye(3)}, SplatValueError,
     "Camera: world_to_camera must be float64[4, 4], got float64[3, 3]"),
    ({"world_to_camera": np.eye(4, dtype=bool)}, SplatTypeError,
     "Camera: world_to_camera must be float64[4, 4], got bool[4, 4]"),
    ({"world_to_camera": pose(0, 1, math.nan)}, SplatValueError, "Camera: world_to_camera must be finite"),
    ({"world_to_camera": pose(3, 0, 5)}, SplatValueError, "Camera: the last row of world_to_camera must be 0 0 0 1, "
     "got 5 0 0 1 (hint: the matrix by rows, the shift in the last column)"),
    ({"world_to_camera": np.diag([2.0, 2, 2, 1])}, SplatValueError, "Camera: the rotation in world_to_camera must be "
     "orthonormal within 0.0001, got 3 away (hint: a scale belongs into the scene)"),
    ({"world_to_camera": pose(0, 1, 0.1)}, SplatValueError, "Camera: the rotation in world_to_camera must be "
     "orthonormal within 0.0001, got 0.1 away (hint: a scale belongs into the scene)"),
    ({"world_to_camera": pose(0, 1, 1e200)}, SplatValueError, "Camera: the rotation in world_to_camera must be "
     "orthonormal within 0.0001, got inf away (hint: a scale belongs into the scene)"),
    ({"world_to_camera": np.diag([1.0, -1, 1, 1])}, SplatValueError, "Camera: world_to_camera must not mirror, got a "
     "determinant of -1 (hint: x right, y down, z forward)"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "text"), BAD)
def test_what_is_no_camera_is_refused_by_name(change: dict, kind: type, text: str) -> None:
    with pytest.raises(kind) as caught:
        Camera(**{**PLAIN, "world_to_camera": np.eye(4), **change})
    assert str(caught.value) == text


LOOK = [
    ({"target": (0, 0, -5)},
     "Camera.look_at: eye and target must be two points a finite way apart, got (0.0, 0.0, -5.0) twice"),
    ({"eye": (-1e308, 0, 0), "target": (1e308, 0, 0)}, "Camera.look_at: eye and target must be two points a finite way "
     "apart, got (-1e+308, 0.0, 0.0) and (1e+308, 0.0, 0.0)"),
    ({"up": (0, 0, 2)}, "Camera.look_at: up must not point along the view, got (0.0, 0.0, 2.0)"),
    ({"up": (0, 0, 0)}, "Camera.look_at: up must not point along the view, got (0.0, 0.0, 0.0)"),
    ({"fov_y_deg": 180}, "Camera: fov_y_deg must be above 0 and below 180, got 180.0"),
    ({"fov_y_deg": 0}, "Camera: fov_y_deg must be above 0 and below 180, got 0.0"),
    ({"eye": (0, 0)}, "Camera: eye must be three numbers, got (0, 0)"),
    ({"eye": "123"}, "Camera: eye must be three numbers, got '123'"),
    ({"eye": (0, 0, math.inf)}, "Camera: eye must be finite, got inf"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text"), LOOK)
def test_a_view_that_has_no_direction_is_refused(change: dict, text: str) -> None:
    with pytest.raises(SplatValueError) as caught:
        Camera.look_at(**{"eye": (0, 0, -5), "target": (0, 0, 0), "width": 4, "height": 3, **change})
    assert str(caught.value) == text


GOOD = {**PLAIN, "world_to_camera": np.eye(4).tolist()}
JSON = [
    ("", "expected JSON, found: Expecting value: line 1 column 1 (char 0)"),
    ("[" * 100_000, "expected JSON, found: "),
    ("[1]", "expected an object, found list"),
    (json.dumps({**GOOD, "fov": 3}), f"expected the keys {', '.join(GOOD)}, found 'fov'"),
    (json.dumps({k: v for k, v in GOOD.items() if k != "cy"}), "expected the key cy, found none"),
    (json.dumps(GOOD)[:-1] + ', "cx": 3}', "expected each key once, found 'cx' twice"),
    (json.dumps({**GOOD, "fx": math.nan}), "expected finite numbers, found NaN"),
    (json.dumps({**GOOD, "fx": -math.inf}), "expected finite numbers, found -Infinity"),
    (json.dumps(GOOD).replace('"fx": 2.0', '"fx": 1e999'), "fx must be finite, got inf"),
    (json.dumps({**GOOD, "width": 4.0}), "width must be an int, got float"),
    (json.dumps({**GOOD, "width": "4"}), "width must be an int, got str"),
    (json.dumps({**GOOD, "world_to_camera": [1] * 16}), "world_to_camera must be 4 rows of 4 numbers"),
    (json.dumps({**GOOD, "world_to_camera": np.eye(3).tolist()}), "world_to_camera must be 4 rows of 4 numbers"),
    (json.dumps({**GOOD, "world_to_camera": [["1"] * 4] * 4}), "world_to_camera must be a number, got str"),
    (json.dumps({**GOOD, "world_to_camera": (2 * np.eye(4)).tolist()}),
     "the last row of world_to_camera must be 0 0 0 1, got 0 0 0 2"),
    (b"\xff\xfe\xff", "expected JSON, found: "),
    ('{"width": 1' + "0" * 5000 + "}", "expected JSON, found: "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), JSON)
def test_json_that_is_no_camera_is_refused(text: str | bytes, found: str) -> None:
    with pytest.raises(SplatValueError) as caught:
        Camera.from_json(text)
    assert str(caught.value).startswith(f"camera JSON: {found}")


def test_what_is_no_text_is_no_camera() -> None:
    with pytest.raises(SplatTypeError) as caught:
        Camera.from_json(None)  # type: ignore[arg-type]
    assert str(caught.value) == "camera JSON: expected str or bytes, got NoneType"
