"""RenderSettings takes what a picture can be drawn with and names everything else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from splat import RenderSettings, SplatTypeError, SplatValueError


def test_the_defaults_are_those_of_3dgs():
    settings = RenderSettings()
    assert settings.background == (0.0, 0.0, 0.0)
    assert settings.antialias is None
    assert (settings.near, settings.blur, settings.alpha_max, settings.t_min) == (0.2, 0.3, 0.99, 1e-4)
    assert settings.alpha_min == 1 / 255
    assert settings.keep_state is settings.depth is False


def test_numbers_of_any_kind_become_floats():
    settings = RenderSettings(background=[1, np.float32(0.5), 0], near=1, blur=np.float64(0))
    assert settings.background == (1.0, 0.5, 0.0)
    assert all(type(value) is float for value in (*settings.background, settings.near, settings.blur))


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("background", (0, 0, 1.5), "three numbers from 0 to 1, got (0.0, 0.0, 1.5)"),
        ("near", 0, "from 1e-6 to 1e6, got 0.0"),
        ("near", 1e7, "from 1e-6 to 1e6, got 10000000.0"),
        ("near", math.nan, "finite, got nan"),
        ("blur", -0.1, "from 0 to 1e4, got -0.1"),
        ("blur", math.inf, "finite, got inf"),
        ("blur", 10**400, "finite, got inf"),
        ("background", (0, 10**400, 0), "finite, got inf"),
        ("alpha_min", 1e-6, "from 2^-16 to below 1, got 1e-06"),
        ("alpha_min", 1.0, "from 2^-16 to below 1, got 1.0"),
        ("alpha_max", 1.0, "above alpha_min and at most 1 - 2^-10, got 1.0"),
        ("alpha_max", 0.001, "above alpha_min and at most 1 - 2^-10, got 0.001"),
        ("t_min", 0.0, "from 2^-24 to below 1, got 0.0"),
        ("t_min", 1, "from 2^-24 to below 1, got 1.0"),
    ],
)
def test_values_out_of_range_are_refused(field, value, wanted):
    with pytest.raises(SplatValueError) as caught:
        RenderSettings(**{field: value})
    assert str(caught.value) == f"RenderSettings: {field} must be {wanted}"


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("background", 0.5, "three numbers, got 0.5"),
        ("background", (0, 0), "three numbers, got (0, 0)"),
        ("background", (0, 0, "1"), "a number, got '1'"),
        ("near", "0.2", "a number, got '0.2'"),
        ("near", True, "a number, got True"),
        ("near", None, "a number, got None"),
        ("near", np.array([0.5, 1]), "a number, got array([0.5, 1. ])"),
        ("background", (0, np.zeros(2), 0), "a number, got array([0., 0.])"),
        ("antialias", 1, "True, False or None, got 1"),
        ("keep_state", None, "True or False, got None"),
        ("depth", "yes", "True or False, got 'yes'"),
    ],
)
def test_values_of_another_type_are_refused(field, value, wanted):
    with pytest.raises(SplatTypeError) as caught:
        RenderSettings(**{field: value})
    assert str(caught.value) == f"RenderSettings: {field} must be {wanted}"
