"""Import of GeoJSON (RFC 7946): polygons become obstacles or zones, points and lines zones; degrees become metres.

Positions are [longitude, latitude] or [longitude, latitude, height] on WGS84. Nothing is repaired: a ring that is open
or crosses itself, another coordinate system, swapped axes and the antimeridian are errors that name the feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from coord.errors import ScenarioError
from coord.ground.wgs84 import wgs84_to_enu
from coord.records import POSITION_METRES_MAX, ZONE_DTYPE
from coord.sites.importer import TABLES_MAX, npy_bytes, site_name, write_site
from coord.sites.json_file import EXACT_MAX, read_json
from coord.sites.scenario import Scenario
from coord.sites.scenario_schema import U32_MAX, U64_MAX, defaults
from tensor.float_mode import plain_mode

Origin = tuple[float, float, float]
Degrees = tuple[float, float, float]  # longitude, latitude, height
F64s = npt.NDArray[np.float64]

CORNERS_MAX = 20_000  # of one ring: every edge is compared with every other
WGS84 = ("urn:ogc:def:crs:ogc:1.3:crs84", "urn:ogc:def:crs:ogc::crs84", "urn:ogc:def:crs:epsg::4326", "epsg:4326")
ZONE_KEYS = ("radius", "priority", "service_ticks", "need_caps", "energy_cost")
_EMPTY_TYPES = ("Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon")


@dataclass
class _Site:
    """What features came to, in degrees; metres come when the origin is known."""

    rings: list[tuple[str, list[Degrees], float]] = field(default_factory=list)  # place in the file, corners, margin
    zones: list[tuple[str, list[Degrees], str, dict[str, Any]]] = field(default_factory=list)  # kind, zone keys and id


@plain_mode()
def import_geojson(
    path: str | Path,
    out: str | Path,
    *,
    origin: Origin | None = None,  # latitude, longitude in degrees, height in metres
    agents: int = 0,
    polygons: Literal["obstacles", "zones"] = "obstacles",
    seed: int = 0,
) -> Scenario:
    """Write a SITE.toml from a GeoJSON file; returns the scenario.

    Points are zones, lines zones at the middle of their length, polygons obstacles or zones at their centroid. Of the
    properties `radius`, `priority`, `service_ticks`, `need_caps` and `energy_cost` go to a zone, `margin` to an
    obstacle; a feature's id becomes the zone's where every zone has one. `origin` is the first position for None.
    `agents` places are drawn in the box around everything. Raises ScenarioError naming file, feature and what is wrong,
    OutputError when a file is already there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = '{"type": "Point", "coordinates": [5.521, 52.541]}'
    ...     _ = Path(folder, "one.geojson").write_text(text)
    ...     site = import_geojson(folder + "/one.geojson", folder + "/SITE.toml", origin=(52.54, 5.52, 0.0))
    >>> [round(v, 2) for v in (site.setup.zones["x"][0].item(), site.setup.zones["y"][0].item())]
    [67.85, 111.28]
    """
    path, out = Path(path), Path(out)
    reader = _Reader(str(path), polygons)
    reader.read(read_json(path))
    site = reader.site
    if not site.rings and not site.zones:
        raise ScenarioError(str(path), "", "expected at least one feature with a geometry")
    first = (site.rings[0] if site.rings else site.zones[0])[1][0]
    at = (first[1], first[0], 0.0) if origin is None else origin
    document: dict[str, Any] = {
        "version": 1, "name": site_name(path.stem), "seed": seed, "origin": [float(v) for v in at],
        "plan": {"planner": "swap"},
    }  # fmt: skip
    rings = [(where, _metres(corners, at, str(path), where), margin) for where, corners, margin in site.rings]
    zones = [(where, _metres(places, at, str(path), where), kind, values) for where, places, kind, values in site.zones]
    document["obstacle"] = [_obstacle(where, metres, margin, str(path)) for where, metres, margin in rings]
    files = _put_zones(document, [(where, _middle(kind, m), values) for where, m, kind, values in zones], str(path))
    if agents:
        every = np.concatenate([part[1] for part in (*rings, *zones)])
        low, high = np.floor(every.min(axis=0)) - 1, np.ceil(every.max(axis=0)) + 1
        document["agents"] = {"random": agents, "box": [float(low[0]), float(low[1]), float(high[0]), float(high[1])]}
    return write_site(out, document, files)


class _Reader:
    def __init__(self, name: str, polygons: str) -> None:
        self._name = name
        self._polygons = polygons
        self.site = _Site()

    def _fail(self, where: str, detail: str) -> NoReturn:
        raise ScenarioError(self._name, where, detail)

    def read(self, document: Any) -> None:
        """Everything of a FeatureCollection, a Feature or a bare geometry."""
        if not isinstance(document, dict) or not isinstance(document.get("type"), str):
            self._fail("", 'expected a GeoJSON object with a "type"')
        self._check_crs(document)
        if document["type"] == "FeatureCollection":
            features = document.get("features")
            if not isinstance(features, list):
                self._fail("features", "expected an array")
            for index, feature in enumerate(features):
                self._feature(f"features[{index}]", feature)
        elif document["type"] == "Feature":
            self._feature("feature", document)
        else:
            self._geometry("geometry", document, {})

    def _check_crs(self, document: dict[str, Any]) -> None:
        crs = document.get("crs")
        if crs is None:
            return
        properties = crs.get("properties") if isinstance(crs, dict) else None
        name = properties.get("name") if isinstance(properties, dict) else None
        if not isinstance(name, str) or name.lower() not in WGS84:
            self._fail("crs", f"expected WGS84 longitudes and latitudes, got {ascii(name if name else crs)[:60]} "
                       "(hint: ogr2ogr -t_srs EPSG:4326)")  # fmt: skip

    def _feature(self, where: str, feature: Any) -> None:
        if not isinstance(feature, dict) or feature.get("type") != "Feature":
            self._fail(where, "expected a Feature")
        properties = feature.get("properties") or {}
        if not isinstance(properties, dict):
            self._fail(f"{where}.properties", "expected an object or null")
        geometry = feature.get("geometry")
        if geometry is None:
            return
        if not isinstance(geometry, dict):
            self._fail(f"{where}.geometry", "expected a geometry or null")
        identity = {"id": feature["id"]} if feature.get("id") is not None else {}
        self._geometry(where, geometry, {**properties, **identity})

    def _geometry(self, where: str, geometry: dict[str, Any], properties: dict[str, Any]) -> None:
        kind, coordinates = geometry.get("type"), geometry.get("coordinates")
        self._check_crs(geometry)
        if kind not in _EMPTY_TYPES:
            self._fail(where, f"expected one of {', '.join(_EMPTY_TYPES)}, got {ascii(kind)[:60]}")
        parts = [coordinates] if not str(kind).startswith("Multi") else coordinates
        if not isinstance(parts, list):
            self._fail(f"{where}.coordinates", "expected an array")
        for index, part in enumerate(parts):
            place = where if len(parts) == 1 else f"{where} part {index}"
            if str(kind).endswith("Point"):
                self._zone(place, [self._position(place, part)], "point", properties)
            elif str(kind).endswith("LineString"):
                self._zone(place, self._line(place, part, 2), "line", properties)
            else:
                self._polygon(place, part, properties)

    def _polygon(self, where: str, rings: Any, properties: dict[str, Any]) -> None:
        if not isinstance(rings, list) or not rings:
            self._fail(where, "expected a polygon of one ring")
        if len(rings) > 1:
            self._fail(
                where, f"expected a polygon without holes, got {len(rings) - 1} (hint: split it into parts without)"
            )
        place = f"{where} ring 0"
        corners = self._line(place, rings[0], 4)
        if corners[0] != corners[-1]:
            self._fail(place, f"expected a closed ring, whose last position is its first, "
                       f"[{corners[0][0]}, {corners[0][1]}], got [{corners[-1][0]}, {corners[-1][1]}]")  # fmt: skip
        corners = corners[:-1]
        if len(corners) > CORNERS_MAX:
            self._fail(place, f"expected at most {CORNERS_MAX} corners, got {len(corners)}")
        crossing = first_crossing(np.array(corners)[:, :2])
        if crossing is not None:
            i, j = crossing
            self._fail(place, f"expected a ring that does not cross or touch itself, edges {i} and {j} do")
        if self._polygons == "zones":
            self._zone(where, corners, "polygon", properties)
        else:
            margin = self._number(where, properties, "margin", 0.0)
            self.site.rings.append((place, corners, margin))

    def _line(self, where: str, positions: Any, least: int) -> list[Degrees]:
        if not isinstance(positions, list) or len(positions) < least:
            got = f"{len(positions)}" if isinstance(positions, list) else ascii(positions)[:60]
            self._fail(where, f"expected at least {least} positions, got {got}")
        line = [self._position(f"{where} position {i}", position) for i, position in enumerate(positions)]
        for i in range(1, len(line)):
            if abs(line[i][0] - line[i - 1][0]) > 180:
                self._fail(f"{where} position {i}", "expected nothing that crosses the antimeridian, got longitudes "
                           f"{line[i - 1][0]} and {line[i][0]}")  # fmt: skip
        return line

    def _position(self, where: str, position: Any) -> Degrees:
        numbers = isinstance(position, list) and all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in position
        )
        if not numbers or not 2 <= len(position) <= 3:
            self._fail(
                where, f"expected [longitude, latitude] or [longitude, latitude, height], got {ascii(position)[:60]}"
            )
        lon, lat, height = (float(v) for v in (*position, 0.0)[:3])
        if abs(lat) > 90 and abs(lon) <= 90 and abs(lat) <= 180:
            self._fail(where, f"expected [longitude, latitude], got [{lon}, {lat}] with a latitude beyond 90 degrees: "
                       "are they swapped?")  # fmt: skip
        if abs(lat) > 90 or abs(lon) > 180:
            self._fail(where, f"expected degrees, longitude within 180 and latitude within 90, got [{lon}, {lat}] "
                       "(hint: another coordinate system? ogr2ogr -t_srs EPSG:4326)")  # fmt: skip
        return lon, lat, height

    def _zone(self, where: str, places: list[Degrees], kind: str, properties: dict[str, Any]) -> None:
        values: dict[str, Any] = {}
        for key in ZONE_KEYS:
            if properties.get(key) is not None:
                values[key] = self._number(where, properties, key, 0.0)
                if key in ("service_ticks", "need_caps"):
                    values[key] = self._whole(where, values[key], key)
        if properties.get("id") is not None:
            values["id"] = self._identity(where, properties["id"])
        self.site.zones.append((where, places, kind, values))

    def _number(self, where: str, properties: dict[str, Any], key: str, default: float) -> float:
        value = properties.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._fail(where, f"property {key}: expected a number, got {ascii(value)[:60]}")
        return float(value)

    def _whole(self, where: str, value: float, key: str) -> int:
        if not (value.is_integer() and 0 <= value <= U32_MAX):
            self._fail(where, f"property {key}: expected a whole number from 0 to {U32_MAX}, got {value}")
        return int(value)

    def _identity(self, where: str, value: Any) -> int | None:
        """A number, or a string of digits; other names are no ids of ours."""
        if isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value <= EXACT_MAX:
                self._fail(where, f"id: expected a number from 0 to 2^53, or a string of digits, got {value}")
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit():
            if len(value) > 20 or int(value) > U64_MAX:
                self._fail(where, f"id: expected a number below 2^64, got {value[:40]}")
            return int(value)
        if isinstance(value, str):
            return None
        self._fail(where, f"id: expected a whole number or a string, got {ascii(value)[:60]}")


def first_crossing(
    ring: F64s,  # [n, 2], closed implicitly
) -> tuple[int, int] | None:
    """The first two edges (i, j), i < j, that meet anywhere but in the corner that neighbours share; else None.

    Edge i goes from corner i to the next one. Signs of cross products in float64.

    >>> first_crossing(np.array([[0, 0], [2, 2], [2, 0], [0, 2]], float))
    (0, 2)
    """
    n = len(ring)
    a, b = ring, np.roll(ring, -1, axis=0)
    for i in range(n):
        if (a[i] == b[i]).all():
            return (i, (i + 1) % n) if i + 1 < n else (0, i)
    west, east = np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 0], b[:, 0])
    south, north = np.minimum(a[:, 1], b[:, 1]), np.maximum(a[:, 1], b[:, 1])
    for i in range(n - 1):
        j = np.arange(i + 1, n)
        near = (west[j] <= east[i]) & (east[j] >= west[i]) & (south[j] <= north[i]) & (north[j] >= south[i])
        j = j[near]
        meets = _meet(a[i], b[i], a[j], b[j])
        following, before = j == i + 1, (j == n - 1) & (i == 0)
        if following.any():  # neighbours share a corner, and may only fold back onto each other
            meets[following] = _folds(a[i], b[i], b[j[following]])
        if before.any() and n > 2:
            meets[before & ~following] = _folds(b[i], a[i], a[j[before]])[: int((before & ~following).sum())]
        if meets.any():
            return i, int(j[int(meets.argmax())])
    return None


Mask = npt.NDArray[np.bool_]


def _side(a: F64s, b: F64s, c: F64s) -> F64s:
    left, right = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]), (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
    return np.asarray(np.sign(left - right), np.float64)


def _on(a: F64s, b: F64s, c: F64s) -> Mask:
    """Whether c, on the line of a and b, lies between them."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(((low <= c) & (c <= high)).all(axis=-1))


def _meet(a: F64s, b: F64s, c: F64s, d: F64s) -> Mask:
    o1, o2, o3, o4 = _side(a, b, c), _side(a, b, d), _side(c, d, a), _side(c, d, b)
    touch: Mask = ((o1 == 0) & _on(a, b, c)) | ((o2 == 0) & _on(a, b, d))
    touch |= ((o3 == 0) & _on(c, d, a)) | ((o4 == 0) & _on(c, d, b))
    cross: Mask = (o1 != o2) & (o3 != o4)
    return np.asarray(cross | touch, np.bool_)


def _folds(a: F64s, b: F64s, c: F64s) -> Mask:
    """Whether the edge b–c goes back along a–b."""
    back = ((b - a) * (c - b)).sum(axis=-1) < 0
    return np.asarray((_side(a, b, c) == 0) & back, np.bool_)


def _metres(places: list[Degrees], origin: Origin, name: str, where: str) -> F64s:
    """[n, 3] east, north, up."""
    out = np.array([wgs84_to_enu(origin, (lat, lon, height)) for lon, lat, height in places], np.float64)
    far = np.abs(out).max(axis=1) > POSITION_METRES_MAX
    if far.any():
        lon, lat, height = places[int(far.argmax())]
        detail = f"expected places within 2^20 m of latitude {origin[0]}, longitude {origin[1]}, got {lat}, {lon}"
        if abs(lon) <= 90 and max(map(abs, wgs84_to_enu(origin, (lon, lat, height)))) <= POSITION_METRES_MAX:
            detail += ": longitude and latitude are swapped (GeoJSON has the longitude first)"
        raise ScenarioError(name, where, detail)
    return out


def _middle(kind: str, metres: F64s) -> F64s:
    """The place of a zone: a point; the middle of a line's length; the centroid of a polygon's area (given open)."""
    if kind == "polygon":
        x, y = (metres[:, axis] - metres[0, axis] for axis in range(2))
        nx, ny = np.roll(x, -1), np.roll(y, -1)
        cross = x * ny - nx * y
        area = 3 * math.fsum(cross.tolist())
        east, north = math.fsum(((x + nx) * cross).tolist()) / area, math.fsum(((y + ny) * cross).tolist()) / area
        up = math.fsum(metres[:, 2].tolist()) / len(metres)
        return np.array([metres[0, 0] + east, metres[0, 1] + north, up])
    legs = [math.sqrt(math.fsum((d * d).tolist())) for d in np.diff(metres, axis=0)]
    half, gone = math.fsum(legs) / 2, 0.0
    for i, leg in enumerate(legs):
        if gone + leg >= half and leg > 0:
            middle: F64s = metres[i] + (metres[i + 1] - metres[i]) * ((half - gone) / leg)
            return middle
        gone += leg
    first: F64s = metres[0]
    return first


def _f32(value: float) -> float:
    return float(np.float32(value))


def _obstacle(where: str, metres: F64s, margin: float, name: str) -> dict[str, Any]:
    points = [[_f32(x), _f32(y)] for x, y, _ in metres.tolist()]
    if first_crossing(np.array(points)) is not None:
        raise ScenarioError(
            name, where, "expected corners that stay apart in metres of 32 bits (hint: an --origin nearby)"
        )
    return {"kind": "polygon", "points": points, "margin": margin}


def _put_zones(document: dict[str, Any], zones: list[tuple[str, F64s, dict[str, Any]]], name: str) -> dict[str, bytes]:
    """Zones as tables, or, where they are many, as zones.npy."""
    named = bool(zones) and all(values.get("id") is not None for _, _, values in zones)
    rows, seen = [], dict[int, str]()
    for index, (where, place, values) in enumerate(zones):
        number = values["id"] if named else index
        if number in seen:
            raise ScenarioError(name, where, f"id: expected each id once, got {number} as in {seen[number]}")
        seen[number] = where
        x, y, z = (_f32(v) for v in place.tolist())
        rows.append({"x": x, "y": y, "z": z, **values, "id": number})
    if len(rows) <= TABLES_MAX or max(seen) >= U32_MAX:
        document["zone"] = rows
        return {}
    records, value = np.zeros(len(rows), ZONE_DTYPE), defaults({}, "zones")
    for i, row in enumerate(rows):
        for key in ("id", "x", "y", "z", *ZONE_KEYS):
            records[key][i] = row.get(key, value.get(key))
    document["zones"] = {"file": "zones.npy"}
    return {"zones.npy": npy_bytes(records)}
