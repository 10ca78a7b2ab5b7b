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
from tensor.float_mode import plain_mode

if TYPE_CHECKING:
    from splat.scene import Scene

FOV_Y_DEG = 50.0
DISTANCE = 1.2
NEAR = 0.2
BEYOND_NEAR = 2.0**-10
_PERCENTILE = (9, 10)
_WEIGHT_OF_ONE = 1 << 24  # opacities become whole numbers, so that no order of adding matters


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
    """The first value, ascending, that with all before it has half of the weight; by count where all weigh nothing."""
    if len(values) == 0:
        return 0.0
    order = np.argsort(values, kind="stable")
    weights = np.floor(opacities[order].astype(np.float64) * _WEIGHT_OF_ONE + 0.5).astype(np.int64)
    if not weights.any():
        weights[:] = 1
    reached = np.cumsum(weights, out=weights)
    at = int(np.searchsorted(2 * reached, reached[-1]))
    return float(values[order[at]]) + 0.0


def _radius(means: NDArray[np.float32], center: tuple[float, ...]) -> float:
    """The 90th percentile of the distances, by nearest rank; 0 for no splats."""
    n = len(means)
    if n == 0:
        return 0.0
    square = np.zeros(n, np.float64)
    for i in range(3):
        difference = means[:, i].astype(np.float64)
        difference -= center[i]
        difference *= difference
        square += difference
    rank = (_PERCENTILE[0] * n + _PERCENTILE[1] - 1) // _PERCENTILE[1] - 1
    square.partition(rank)
    return float(np.sqrt(square[rank]))
