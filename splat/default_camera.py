"""The camera that shows most of a scene, from nothing but its splats, with the same bits everywhere.

It looks along +z (RDF: into the picture, −y up) at the opacity-weighted median of the means, with a vertical field of
view of 50°, from a distance of 1.2 × r / tan(25°): r is the 90th percentile of the distances of the means from there.
Where that would leave splats within r of the median before the near plane (0.2), it stands farther back, at 0.2 + r,
and at least at 0.2 + 2^-10: float32 must tell the scene from the near plane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from splat.camera import Camera, tangent_of_half
from tensor import memory
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from splat.scene import Scene

FOV_Y_DEG = 50.0
DISTANCE = 1.2
NEAR = 0.2
BEYOND_NEAR = 2.0**-10
_PERCENTILE = (9, 10)
_WEIGHT_OF_ONE = 1 << 24  # opacities become whole numbers, so that no order of adding matters
_BLOCK = 4096  # splats at a time: bounds the working memory, never a result
_SIGN, _ALL = 1 << 31, (1 << 32) - 1


@plain_mode()
def default_camera(scene: Scene, width: int, height: int) -> Camera:
    """The default camera of a scene for a picture of width × height pixels. Raises as `Camera`.

    An empty scene is looked at as if it were one splat at the origin; a scene that is one point has r = 1.

    >>> from splat.scene import Scene
    >>> one = np.zeros((1, 3), np.float32)
    >>> scene = Scene(one + 5, one, np.float32([[1, 0, 0, 0]]), np.float32([1]), one[None])
    >>> [round(v, 4) for v in default_camera(scene, 640, 360).position]
    [5.0, 5.0, 2.4266]
    """
    center = scene_center(scene)
    radius = _radius(scene.means, center) or 1.0
    distance = max(DISTANCE * radius / tangent_of_half(FOV_Y_DEG), NEAR + max(radius, BEYOND_NEAR))
    x, y, z = center
    return Camera.look_at((x, y, z - distance), center, fov_y_deg=FOV_Y_DEG, width=width, height=height)


@plain_mode()
def scene_center(scene: Scene) -> tuple[float, float, float]:
    """The opacity-weighted median of the means, axis by axis: what the default camera looks at.

    >>> from splat.scene import Scene
    >>> one = np.zeros((1, 3), np.float32)
    >>> scene_center(Scene(one + 5, one, np.float32([[1, 0, 0, 0]]), np.float32([1]), one[None]))
    (5.0, 5.0, 5.0)
    """
    x, y, z = (_weighted_median(scene.means[:, i], scene.opacities) for i in range(3))
    return x, y, z


def _weighted_median(values: NDArray[np.float32], opacities: NDArray[np.float32]) -> float:
    """The first value, ascending, that with all before it has half of the weight; by count where all weigh nothing.

    Found byte by byte, from the weights of the values that have each byte: nothing is sorted, and nothing is as large
    as the scene.
    """
    if len(values) == 0:
        return 0.0
    if not _weights(values, opacities, 0, 0).any():
        opacities = np.broadcast_to(np.float32(1), len(values))
    key = before = total = 0
    for place in range(4):
        reached = before + np.cumsum(_weights(values, opacities, key, place))
        total = total or int(reached[-1])
        byte = int(np.searchsorted(2 * reached, total))
        before = int(reached[byte - 1]) if byte else before
        key = key << 8 | byte
    bits = np.array(key ^ _SIGN if key >= _SIGN else key ^ _ALL, np.uint32)
    return float(bits.view(np.float32)) + 0.0


def _weights(values: NDArray[np.float32], opacities: NDArray[np.float32], start: int, place: int) -> NDArray[np.int64]:
    """int64[256]: for each byte that may follow the first `place` bytes in `start`, the weight of the values whose keys
    begin so. Keys are whole numbers of four bytes in the order of the values."""
    sums = np.zeros(256, np.int64)
    for first in range(0, len(values), _BLOCK):
        part = slice(first, first + _BLOCK)
        bits = np.ascontiguousarray(values[part]).view(np.uint32).astype(np.int64)
        keys = bits ^ np.where(bits < _SIGN, _SIGN, _ALL)
        begins = keys >> (24 - 8 * place)
        there = begins >> 8 == start
        weights = np.floor(opacities[part][there].astype(np.float64) * _WEIGHT_OF_ONE + 0.5).astype(np.int64)
        np.add.at(sums, begins[there] & 0xFF, weights)
    return sums


def _radius(means: NDArray[np.float32], center: tuple[float, ...]) -> float:
    """The 90th percentile of the distances, by nearest rank; 0 for no splats."""
    n = len(means)
    if n == 0:
        return 0.0
    square = memory.allocate_in_pages((n,), np.float64, "camera distances")
    for first in range(0, n, _BLOCK):
        part = slice(first, first + _BLOCK)
        x, y, z = (means[part, i].astype(np.float64) - center[i] for i in range(3))
        square[part] = (x * x + y * y) + z * z
    rank = (_PERCENTILE[0] * n + _PERCENTILE[1] - 1) // _PERCENTILE[1] - 1
    square.partition(rank)
    return float(np.sqrt(square[rank]))
