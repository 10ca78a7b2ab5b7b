from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import BadInput, enu_to_wgs84, wgs84_to_enu


def test_the_check_of_the_specification():
    east, north, up = wgs84_to_enu((52.54, 5.52, 0.0), (52.541, 5.521, 10.0))
    assert (f"{east:.6f}", f"{north:.6f}", f"{up:.6f}") == ("67.847149", "111.278243", "9.998669")


@given(st.floats(-89, 89), st.floats(-180, 180), st.floats(-5000, 5000), st.floats(-5000, 5000), st.floats(-100, 1000))
def test_metres_come_back_from_degrees(lat, lon, east, north, up):
    origin = (lat, lon, 12.0)
    assert wgs84_to_enu(origin, enu_to_wgs84(origin, (east, north, up))) == pytest.approx((east, north, up), abs=1e-3)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ((91.0, 0.0, 0.0), "point.latitude must be from -90 to 90 degrees, got 91.0"),
        ((0.0, 181.0, 0.0), "point.longitude must be from -180 to 180 degrees, got 181.0"),
        ((0.0, 0.0, float("nan")), "point.height must be finite, got nan"),
    ],
)
def test_degrees_outside_the_earth_are_refused(point, message):
    with pytest.raises(BadInput) as caught:
        wgs84_to_enu((0.0, 0.0, 0.0), point)
    assert str(caught.value) == message
