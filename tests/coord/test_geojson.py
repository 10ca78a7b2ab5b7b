"""GeoJSON becomes a scenario in metres; whatever would need a repair is refused, with the feature named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import OutputError, Scenario, ScenarioError, import_geojson, wgs84_to_enu
from coord.sites.geojson import first_crossing

FIELDS = (
    Path(os.environ.get("DROVEWAY_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data") / "fields"
)
ORIGIN = (52.54, 5.52, 0.0)
SQUARE = [[5.52, 52.54], [5.521, 52.54], [5.521, 52.541], [5.52, 52.541], [5.52, 52.54]]


def feature(kind: str, coordinates: Any, identity: Any = None, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "Feature", "properties": properties}
    made["geometry"] = {"type": kind, "coordinates": coordinates}
    return made if identity is None else {**made, "id": identity}


def write(folder: Path, *features: Any, **more: Any) -> Path:
    path = folder / "f.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features), **more}))
    return path


def imported(folder: Path, *features: Any, **options: Any) -> Scenario:
    return import_geojson(write(folder, *features), folder / "SITE.toml", **{"origin": ORIGIN, **options})


def refused(folder: Path, *features: Any, more: dict[str, Any] | None = None, **options: Any) -> str:
    path = write(folder, *features, **(more or {}))
    with pytest.raises(ScenarioError) as caught:
        import_geojson(path, folder / "SITE.toml", **options)
    assert not (folder / "SITE.toml").exists()
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_points_lines_and_polygons_have_their_places(tmp_path: Path) -> None:
    setup = imported(
        tmp_path,
        feature("Point", [5.521, 52.541, 10], 7, priority=2.5, radius=3, service_ticks=4, colour="red"),
        feature("LineString", [[5.52, 52.54], [5.521, 52.54], [5.523, 52.54]], "12"),
        feature("Polygon", [SQUARE], margin=1.5),
        {"type": "Feature", "properties": None, "geometry": None},
    ).setup
    east, north, up = wgs84_to_enu(ORIGIN, (52.541, 5.521, 10.0))
    assert setup.zones["id"].tolist() == [7, 12]
    assert setup.zones[0][["x", "y", "z", "priority", "radius", "service_ticks"]].item() == (
        np.float32(east), np.float32(north), np.float32(up), 2.5, 3.0, 4,
    )  # fmt: skip
    middle = wgs84_to_enu(ORIGIN, (52.54, 5.5215, 0.0))
    assert setup.zones["x"][1] == pytest.approx(middle[0], abs=1e-3)
    assert setup.zones["y"][1] == pytest.approx(middle[1], abs=1e-3)
    assert (setup.obstacles["kind"].tolist(), setup.obstacles["margin"].tolist()) == ([1], [1.5])
    assert setup.rings is not None
    assert len(setup.rings.points) == 4
    assert setup.origin == ORIGIN


def test_polygons_may_be_zones_at_their_centroid(tmp_path: Path) -> None:
    setup = imported(tmp_path, feature("MultiPolygon", [[SQUARE], [SQUARE]]), polygons="zones", agents=5).setup
    middle = wgs84_to_enu(ORIGIN, (52.5405, 5.5205, 0.0))
    assert setup.zones["id"].tolist() == [0, 1]
    assert setup.zones["x"] == pytest.approx([middle[0]] * 2, abs=0.01)
    assert setup.zones["y"] == pytest.approx([middle[1]] * 2, abs=0.01)
    assert len(setup.agents) == 5
    assert (setup.agents["x"] >= -2).all()
    assert (setup.agents["x"] <= 70).all()


def test_many_zones_become_a_file_with_the_same_values(tmp_path: Path) -> None:
    points = [feature("Point", [5.52 + i * 1e-5, 52.54], priority=i, radius=1) for i in range(300)]
    setup = imported(tmp_path, *points).setup
    assert (tmp_path / "zones.npy").exists()
    assert setup.zones["priority"].tolist() == list(range(300))
    with pytest.raises(OutputError):
        imported(tmp_path, *points)


def test_the_first_position_is_the_origin_where_none_is_given(tmp_path: Path) -> None:
    setup = import_geojson(write(tmp_path, feature("Point", [5.5, 52.5])), tmp_path / "SITE.toml").setup
    assert setup.origin == (52.5, 5.5, 0.0)
    assert (setup.zones["x"].tolist(), setup.zones["y"].tolist()) == ([0.0], [0.0])


def test_the_shipped_fields(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        import_geojson(FIELDS / "strips.geojson", tmp_path / "SITE.toml")
    assert str(caught.value) == (
        f"{FIELDS}/strips.geojson: features[0] ring 0: expected a closed ring, whose last position is its first, "
        "[5.52316664, 52.538435693], got [5.52316664, 52.54843569]"
    )
    setup = import_geojson(FIELDS / "swaths.geojson", tmp_path / "SITE.toml", agents=2).setup
    assert (len(setup.zones), len(setup.agents)) == (3, 2)


HOLE = [SQUARE, [[5.5202, 52.5402], [5.5204, 52.5402], [5.5204, 52.5404], [5.5202, 52.5402]]]
BOW = [[5.52, 52.54], [5.521, 52.541], [5.521, 52.54], [5.52, 52.541], [5.52, 52.54]]


@pytest.mark.parametrize(
    ("bad", "options", "text"),
    [
        (feature("Point", [52.54, 5.52]), {"origin": ORIGIN},
         "features[0]: expected places within 2^20 m of latitude 52.54, longitude 5.52, got 5.52, 52.54: "
         "longitude and latitude are swapped (GeoJSON has the longitude first)"),
        (feature("Point", [52.5, 105.5]), {},
         "features[0]: expected [longitude, latitude], got [52.5, 105.5] with a latitude beyond 90 degrees: "
         "are they swapped?"),
        (feature("Point", [120000.5, 487000.25]), {},
         "features[0]: expected degrees, longitude within 180 and latitude within 90, got [120000.5, 487000.25] "
         "(hint: another coordinate system? ogr2ogr -t_srs EPSG:4326)"),
        (feature("Point", [-74.0, 40.7]), {"origin": ORIGIN},
         "features[0]: expected places within 2^20 m of latitude 52.54, longitude 5.52, got 40.7, -74.0"),
        (feature("Polygon", [BOW]), {},
         "features[0] ring 0: expected a ring that does not cross or touch itself, edges 0 and 2 do"),
        (feature("Polygon", [SQUARE[:-1]]), {},
         "features[0] ring 0: expected a closed ring, whose last position is its first, [5.52, 52.54], "
         "got [5.52, 52.541]"),
        (feature("Polygon", [SQUARE[:3]]), {}, "features[0] ring 0: expected at least 4 positions, got 3"),
        (feature("Polygon", HOLE), {},
         "features[0]: expected a polygon without holes, got 1 (hint: split it into parts without)"),
        (feature("LineString", [[179.9, 0], [-179.9, 0]]), {},
         "features[0] position 1: expected nothing that crosses the antimeridian, got longitudes 179.9 and -179.9"),
        (feature("Point", [5.5, 52.5], 1.5), {}, "features[0]: id: expected a whole number or a string, got 1.5"),
        (feature("Point", [5.5, 52.5], -1), {},
         "features[0]: id: expected a number from 0 to 2^53, or a string of digits, got -1"),
        (feature("Point", [5.5, 52.5], 2**53 + 2), {},
         "expected whole numbers of at most 2^53, got 9007199254740994 (hint: write it as a string)"),
        (feature("Point", [5.5, float("nan")]), {}, "expected a finite number, got NaN"),
        (feature("Point", [5.5]), {},
         "features[0]: expected [longitude, latitude] or [longitude, latitude, height], got [5.5]"),
        (feature("Point", [5.5, "52.5"]), {},
         "features[0]: expected [longitude, latitude] or [longitude, latitude, height], got [5.5, '52.5']"),
        (feature("Point", [5.5, 52.5], priority="high"), {},
         "features[0]: property priority: expected a number, got 'high'"),
        (feature("Point", [5.5, 52.5], service_ticks=1.5), {},
         "features[0]: property service_ticks: expected a whole number from 0 to 4294967295, got 1.5"),
        (feature("GeometryCollection", []), {},
         "features[0]: expected one of Point, MultiPoint, LineString, MultiLineString, Polygon, MultiPolygon, "
         "got 'GeometryCollection'"),
        ("no feature", {}, "features[0]: expected a Feature"),
    ],
)  # fmt: skip
def test_what_would_need_a_repair_is_refused(tmp_path: Path, bad: Any, options: dict[str, Any], text: str) -> None:
    assert refused(tmp_path, bad, **options) == text


def test_other_coordinate_systems_and_repeated_ids_are_refused(tmp_path: Path) -> None:
    point = feature("Point", [5.5, 52.5], 4)
    rd = {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::28992"}}}
    assert refused(tmp_path, point, more=rd) == (
        "crs: expected WGS84 longitudes and latitudes, got 'urn:ogc:def:crs:EPSG::28992' "
        "(hint: ogr2ogr -t_srs EPSG:4326)"
    )
    assert refused(tmp_path, point, point) == "features[1]: id: expected each id once, got 4 as in features[0]"
    assert refused(tmp_path) == "expected at least one feature with a geometry"
    fine = {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}}
    assert len(import_geojson(write(tmp_path, point, **fine), tmp_path / "SITE.toml").setup.zones) == 1


def test_ids_above_32_bits_as_strings_stay_beside_the_numbers(tmp_path: Path) -> None:
    features = [feature("Point", [5.52, 52.54], "18446744073709551615"), feature("Point", [5.521, 52.54], str(2**60))]
    setup = imported(tmp_path, *features).setup
    assert setup.zones["id"].tolist() == [0, 1]
    assert setup.zone_ids == (2**60, 2**64 - 1)


corners = st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=3, max_size=8)


@given(corners)
def test_a_ring_crosses_itself_as_exact_arithmetic_says(ring: list[tuple[int, int]]) -> None:
    assert (first_crossing(np.array(ring, float)) is not None) == _crosses(ring)


def _crosses(ring: list[tuple[int, int]]) -> bool:
    """Every pair of edges in whole numbers: neighbours share one point, others none, no edge is a point."""
    n = len(ring)
    edges = [(ring[i], ring[(i + 1) % n]) for i in range(n)]
    if any(a == b for a, b in edges):
        return True
    for i in range(n):
        for j in range(i + 1, n):
            shared = {k for k in edges[i] if k in edges[j]}
            if j == i + 1 or (i == 0 and j == n - 1):
                corner = edges[j][0] if j == i + 1 else edges[i][0]
                ends = [p for e in (edges[i], edges[j]) for p in e if p != corner]
                if len(ends) < 2 or any(_on(e, p) for e, p in ((edges[i], ends[-1]), (edges[j], ends[0]))):
                    return True
            elif shared or _touch(*edges[i], *edges[j]):
                return True
    return False


def _side(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _on(edge: tuple[tuple[int, int], tuple[int, int]], p: tuple[int, int]) -> bool:
    (a, b) = edge
    return _side(a, b, p) == 0 and all(min(a[k], b[k]) <= p[k] <= max(a[k], b[k]) for k in range(2))


def _touch(a: Any, b: Any, c: Any, d: Any) -> bool:
    if any(_on(e, p) for e, p in (((a, b), c), ((a, b), d), ((c, d), a), ((c, d), b))):
        return True
    return _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0
