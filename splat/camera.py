"""A pinhole camera in axes RDF: x to the right of the picture, y down, z into it; pixel i covers [i, i + 1)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from splat.errors import SplatTypeError, SplatValueError
from tensor.float_mode import plain_mode
from tensor.trigonometry import RADIANS_PER_DEGREE, sin_cos

if TYPE_CHECKING:
    from splat.scene import Scene

F64 = NDArray[np.float64]
Vector = tuple[float, float, float]

SIDE_MAX = 16384  # pixels
_ROTATION_TOLERANCE = 1e-4  # of files whose numbers have six digits
_KEYS = ("width", "height", "fx", "fy", "cx", "cy", "world_to_camera")


@dataclass(frozen=True, eq=False)
class Camera:
    """Where a picture is taken from. Lengths in pixels: `fx`, `fy` the focal lengths, (`cx`, `cy`) the principal point.

    `world_to_camera`: float64[4, 4], p_camera = M · p_world, a rotation and a shift; kept as a read-only copy.
    Raises SplatTypeError or SplatValueError: width or height not an int from 1 to 16384, numbers that are not finite,
    focal lengths that are not positive, a last row other than 0 0 0 1, a rotation that is not orthonormal within 1e-4
    (scaled, sheared) or that mirrors.

    >>> Camera(640, 480, 500.0, 500.0, 320.0, 240.0, np.eye(4)).position
    (0.0, 0.0, 0.0)
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    world_to_camera: F64

    @plain_mode()
    def __post_init__(self) -> None:
        for name in ("width", "height"):
            object.__setattr__(self, name, _side(name, getattr(self, name)))
        for name in ("fx", "fy", "cx", "cy"):
            value = _number(name, getattr(self, name))
            if name in ("fx", "fy") and value <= 0:
                raise SplatValueError(f"Camera: {name} must be above 0, got {value}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "world_to_camera", _pose(self.world_to_camera))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Camera) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    @property
    @plain_mode()
    def position(self) -> Vector:
        """The camera's centre in the world: −Rᵀ·t."""
        m = self.world_to_camera.tolist()
        x, y, z = (-((m[0][i] * m[0][3] + m[1][i] * m[1][3]) + m[2][i] * m[2][3]) + 0.0 for i in range(3))
        return x, y, z

    @staticmethod
    @plain_mode()
    def look_at(
        eye: Sequence[float],
        target: Sequence[float],
        up: Sequence[float] = (0.0, -1.0, 0.0),
        fov_y_deg: float = 50.0,
        *,
        width: int,
        height: int,
    ) -> Camera:
        """A camera at `eye` that has `target` in the middle of the picture and `up` upwards.

        eye, target, up: three numbers, in the scene's axes (RDF: up is −y). fov_y_deg: the vertical field of view,
        above 0 and below 180. Pixels are square. Raises SplatValueError where eye and target are one point, or up
        points along the view.

        >>> camera = Camera.look_at((0, 0, -5), (0, 0, 0), width=640, height=360)
        >>> camera.position, camera.world_to_camera[2].tolist()
        ((0.0, 0.0, -5.0), [0.0, 0.0, 1.0, 5.0])
        """
        from_, to, upwards = (_vector(name, value) for name, value in (("eye", eye), ("target", target), ("up", up)))
        width, height = _side("width", width), _side("height", height)
        z = _unit(_minus(to, from_))
        if z is None:
            got = f"{from_} twice" if from_ == to else f"{from_} and {to}"
            raise SplatValueError(f"Camera.look_at: eye and target must be two points a finite way apart, got {got}")
        x = _unit(_cross(_minus((0.0, 0.0, 0.0), upwards), z))
        if x is None:
            raise SplatValueError(f"Camera.look_at: up must not point along the view, got {upwards}")
        y = _cross(z, x)
        focal = height / 2 / tangent_of_half(fov_y_deg)
        pose = np.eye(4)
        for i, axis in enumerate((x, y, z)):
            pose[i, :3] = axis
            pose[i, 3] = -_dot(axis, from_) + 0.0
        return Camera(width, height, focal, focal, width / 2, height / 2, pose)

    @staticmethod
    def default(scene: Scene, width: int, height: int) -> Camera:
        """The camera that shows a scene when none is given; see `splat.default_camera`."""
        from splat.default_camera import default_camera

        return default_camera(scene, width, height)

    def to_json(self) -> str:
        """The camera as one line of JSON; `from_json` gives the same camera back.

        >>> Camera(2, 1, 3.0, 3.0, 1.0, 0.5, np.eye(4)).to_json()[:40]
        '{"width": 2, "height": 1, "fx": 3.0, "fy'
        """
        values = {name: getattr(self, name) for name in _KEYS[:-1]}
        return json.dumps({**values, "world_to_camera": self.world_to_camera.tolist()})

    @staticmethod
    @plain_mode()
    def from_json(text: str | bytes) -> Camera:
        """A camera from JSON with exactly the keys width, height, fx, fy, cx, cy and world_to_camera (4 × 4, by rows).

        Raises SplatValueError for text that is no JSON, keys that are missing, unknown or twice, and what `Camera`
        refuses; SplatTypeError for what is no text.

        >>> Camera.from_json('{"width": 640}')
        Traceback (most recent call last):
        splat.errors.SplatValueError: camera JSON: expected the key height, found none
        """
        values = _parsed(text)
        for name in _KEYS:
            if name not in values:
                raise SplatValueError(f"camera JSON: expected the key {name}, found none")
        unknown = [name for name in values if name not in _KEYS]
        if unknown:
            raise SplatValueError(f"camera JSON: expected the keys {', '.join(_KEYS)}, found {unknown[0]!r}")
        try:
            return Camera(**{**values, "world_to_camera": _matrix(values["world_to_camera"])})
        except (SplatTypeError, SplatValueError) as error:
            raise SplatValueError(f"camera JSON: {str(error).removeprefix('Camera: ')}") from None

    def _bytes(self) -> bytes:
        return self.to_json().encode("ascii")


def tangent_of_half(fov_deg: float) -> float:
    """tan of half a field of view in degrees, above 0 and below 180. Raises SplatValueError beyond.

    >>> round(tangent_of_half(90.0), 9)
    1.0
    """
    degrees = _number("fov_y_deg", fov_deg)
    if not 0 < degrees < 180:
        raise SplatValueError(f"Camera: fov_y_deg must be above 0 and below 180, got {degrees}")
    sine, cosine = sin_cos(degrees * RADIANS_PER_DEGREE / 2)
    return sine / cosine


def _side(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise SplatTypeError(f"Camera: {name} must be an int, got {type(value).__name__}")
    side = int(value.__index__())
    if not 1 <= side <= SIDE_MAX:
        raise SplatValueError(f"Camera: {name} must be from 1 to {SIDE_MAX} pixels, got {side}")
    return side


def _number(name: str, value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__") or np.ndim(value):
        raise SplatTypeError(f"Camera: {name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SplatValueError(f"Camera: {name} must be finite, got {number}")
    return number


def _vector(name: str, value: Any) -> Vector:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != 3:
        raise SplatValueError(f"Camera: {name} must be three numbers, got {value!r}")
    x, y, z = (_number(name, part) for part in value)
    return x, y, z


def _pose(value: Any) -> F64:
    matrix = np.asarray(value) if isinstance(value, (np.ndarray, list, tuple)) else None
    if matrix is None or matrix.dtype.kind not in "fiu":
        got = type(value).__name__ if matrix is None else f"{matrix.dtype}{list(matrix.shape)}"
        raise SplatTypeError(f"Camera: world_to_camera must be float64[4, 4], got {got}")
    if matrix.shape != (4, 4):
        raise SplatValueError(f"Camera: world_to_camera must be float64[4, 4], got {matrix.dtype}{list(matrix.shape)}")
    pose = matrix.astype(np.float64)
    if not np.isfinite(pose).all():
        raise SplatValueError("Camera: world_to_camera must be finite")
    if pose[3].tolist() != [0, 0, 0, 1]:
        raise SplatValueError(
            f"Camera: the last row of world_to_camera must be 0 0 0 1, got {' '.join(f'{v:g}' for v in pose[3])} "
            "(hint: the matrix by rows, the shift in the last column)"
        )
    rows = [tuple(row[:3]) for row in pose[:3].tolist()]
    with np.errstate(over="ignore", invalid="ignore"):
        off = max(abs(_dot(rows[i], rows[j]) - (i == j)) for i in range(3) for j in range(i + 1))
    if not off <= _ROTATION_TOLERANCE:
        raise SplatValueError(
            f"Camera: the rotation in world_to_camera must be orthonormal within {_ROTATION_TOLERANCE:g}, "
            f"got {off:g} away (hint: a scale belongs into the scene)"
        )
    if _dot(_cross(rows[0], rows[1]), rows[2]) < 0:
        raise SplatValueError(
            "Camera: world_to_camera must not mirror, got a determinant of -1 (hint: x right, y down, z forward)"
        )
    pose.flags.writeable = False
    return pose


def _parsed(text: str | bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise SplatValueError(f"camera JSON: expected each key once, found {name!r} twice")
        return dict(pairs)

    if not isinstance(text, (str, bytes, bytearray)):
        raise SplatTypeError(f"camera JSON: expected str or bytes, got {type(text).__name__}")

    def refuse(word: str) -> Any:
        raise SplatValueError(f"camera JSON: expected finite numbers, found {word}")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except SplatValueError:
        raise
    except (ValueError, RecursionError) as error:
        raise SplatValueError(f"camera JSON: expected JSON, found: {error}") from None
    if not isinstance(value, dict):
        raise SplatValueError(f"camera JSON: expected an object, found {type(value).__name__}")
    return value


def _matrix(value: Any) -> Any:
    rows = value if isinstance(value, list) and len(value) == 4 else None
    if rows is None or any(not isinstance(row, list) or len(row) != 4 for row in rows):
        raise SplatValueError("world_to_camera must be 4 rows of 4 numbers")
    return [[_number("world_to_camera", number) for number in row] for row in rows]


def _dot(a: Vector, b: Vector) -> float:
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def _minus(a: Vector, b: Vector) -> Vector:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def _unit(v: Vector) -> Vector | None:
    """The vector divided by its length; None for one that is too short or too long to have a direction."""
    largest = max(abs(part) for part in v)
    if largest == 0 or not math.isfinite(largest):
        return None
    x, y, z = (part / largest for part in v)
    length = math.sqrt((x * x + y * y) + z * z)
    return None if not length >= 1 else (x / length + 0.0, y / length + 0.0, z / length + 0.0)
