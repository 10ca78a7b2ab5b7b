"""WGS84 latitude, longitude and height to east-north-up metres and back, through ECEF, in float64.

Constants: a = 6378137 m, f = 1/298.257223563 (NIMA TR8350.2). Sine and its kin are our own (tensor.trigonometry), so
the same degrees give the same metres on every machine.
"""

from __future__ import annotations

import math

from coord.errors import BadInput
from tensor.float_mode import plain_mode
from tensor.trigonometry import DEGREES_PER_RADIAN, RADIANS_PER_DEGREE, atan2, sin_cos

A_METRES = 6378137.0
with plain_mode():  # the host may have another one at the import
    FLATTENING = 1 / 298.257223563
    _E2 = FLATTENING * (2 - FLATTENING)

Geodetic = tuple[float, float, float]
Metres = tuple[float, float, float]


def _check(name: str, point: Geodetic) -> None:
    lat, lon, height = point
    if not abs(lat) <= 90:
        raise BadInput(name, None, "latitude", f"must be from -90 to 90 degrees, got {lat}")
    if not abs(lon) <= 180:
        raise BadInput(name, None, "longitude", f"must be from -180 to 180 degrees, got {lon}")
    if not math.isfinite(height):
        raise BadInput(name, None, "height", f"must be finite, got {height}")


@plain_mode()
def wgs84_to_ecef(point: Geodetic) -> Metres:
    """(latitude deg, longitude deg, height m) → earth-centred (x, y, z) in metres."""
    _check("point", point)
    sin_lat, cos_lat = sin_cos(point[0] * RADIANS_PER_DEGREE)
    sin_lon, cos_lon = sin_cos(point[1] * RADIANS_PER_DEGREE)
    n = A_METRES / math.sqrt(1 - _E2 * sin_lat * sin_lat)
    return (
        (n + point[2]) * cos_lat * cos_lon,
        (n + point[2]) * cos_lat * sin_lon,
        (n * (1 - _E2) + point[2]) * sin_lat,
    )


@plain_mode()
def wgs84_to_enu(origin: Geodetic, point: Geodetic) -> Metres:
    """(east, north, up) in metres of `point`, seen from `origin`.

    >>> [f"{v:.6f}" for v in wgs84_to_enu((52.54, 5.52, 0.0), (52.541, 5.521, 10.0))]
    ['67.847149', '111.278243', '9.998669']
    """
    _check("origin", origin)
    ox, oy, oz = wgs84_to_ecef(origin)
    px, py, pz = wgs84_to_ecef(point)
    dx, dy, dz = px - ox, py - oy, pz - oz
    sin_lat, cos_lat = sin_cos(origin[0] * RADIANS_PER_DEGREE)
    sin_lon, cos_lon = sin_cos(origin[1] * RADIANS_PER_DEGREE)
    return (
        -sin_lon * dx + cos_lon * dy,
        -sin_lat * cos_lon * dx - sin_lat * sin_lon * dy + cos_lat * dz,
        cos_lat * cos_lon * dx + cos_lat * sin_lon * dy + sin_lat * dz,
    )


@plain_mode()
def enu_to_wgs84(origin: Geodetic, metres: Metres) -> Geodetic:
    """The inverse of `wgs84_to_enu`, to about a millimetre (Bowring's formula, iterated)."""
    ox, oy, oz = wgs84_to_ecef(origin)
    sin_lat, cos_lat = sin_cos(origin[0] * RADIANS_PER_DEGREE)
    sin_lon, cos_lon = sin_cos(origin[1] * RADIANS_PER_DEGREE)
    east, north, up = metres
    x = ox - sin_lon * east - sin_lat * cos_lon * north + cos_lat * cos_lon * up
    y = oy + cos_lon * east - sin_lat * sin_lon * north + cos_lat * sin_lon * up
    z = oz + cos_lat * north + sin_lat * up
    p = math.sqrt(x * x + y * y)
    latitude = atan2(z, p * (1 - _E2))
    for _ in range(6):
        sin_l, _ = sin_cos(latitude)
        n = A_METRES / math.sqrt(1 - _E2 * sin_l * sin_l)
        latitude = atan2(z + _E2 * n * sin_l, p)
    sin_l, cos_l = sin_cos(latitude)
    height = p * cos_l + z * sin_l - A_METRES * math.sqrt(1 - _E2 * sin_l * sin_l)
    return latitude * DEGREES_PER_RADIAN, atan2(y, x) * DEGREES_PER_RADIAN, height
