"""Bindings of splat refuse what their kernels could not read, and twins and kernels share one self-test."""

from __future__ import annotations

import re

import numpy as np
import pytest

from splat import Camera, RenderSettings, _kernels, selftest_ref
from splat.projection import project, view_of

pytestmark = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels")
WIDTH, HEIGHT = 40, 20
TILES = 3 * 2


def exactly(sentence):
    return f"^{re.escape(sentence)}$"


def test_the_twins_have_the_digests_of_the_self_test(golden):
    wanted = {name: value for name, value in golden["selftest"].items() if name.startswith("splat.")}
    assert selftest_ref.digests() == wanted
    assert _kernels.self_test(_kernels.isa()) == wanted


@pytest.fixture
def scene(make_cloud):
    return make_cloud(50, 1, 0)


@pytest.fixture
def view():
    return view_of(Camera.look_at((0, 0, -4), (0, 0, 0), width=WIDTH, height=HEIGHT), RenderSettings(), False, 4)


@pytest.fixture
def to_project(scene, view):
    n = len(scene)
    return {
        "means": scene.means, "log_scales": scene.log_scales, "quats": scene.quats, "opacities": scene.opacities,
        "sh": scene.sh, "view": view.numbers, "width": WIDTH, "height": HEIGHT, "antialias": False, "tile_log2": 4,
        "records": np.zeros((n, 16), np.float32), "box": np.zeros((n, 2), np.uint32), "slot": np.zeros(n, np.uint32),
        "z": np.zeros(n, np.float32),
    }  # fmt: skip


@pytest.fixture
def to_bin(scene, view):
    projected = project(scene, view)
    return {
        "order": np.argsort(projected.z, kind="stable").astype(np.uint32),
        "slot": projected.slot.copy(),
        "box": projected.box,
        "width": WIDTH,
        "height": HEIGHT,
        "tile_log2": 4,
        "table": np.zeros((2, TILES), np.uint32),
        "room": np.zeros(3 * len(projected.z), np.uint32),
        "start": np.zeros(TILES + 1, np.uint32),
        "items": np.zeros(projected.tally.pairs, np.uint32),
    }


@pytest.fixture
def to_blend(scene, view, to_bin):
    _kernels.bin(*to_bin.values())
    return {
        "records": project(scene, view).records, "start": to_bin["start"], "items": to_bin["items"], "tile_log2": 4,
        "rules": np.float32([-8, 0.99, 1e-4, 0, 0, 0]), "rgba": np.zeros((HEIGHT, WIDTH, 4), np.uint8),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "means",
            np.zeros((49, 3), np.float32),
            "the arrays of a scene must be [n, 3], [n, 3], [n, 4], [n] and [n, k, 3]",
        ),
        (
            "quats",
            np.zeros((50, 3), np.float32),
            "the arrays of a scene must be [n, 3], [n, 3], [n, 4], [n] and [n, k, 3]",
        ),
        (
            "sh",
            np.zeros((50, 4, 4), np.float32),
            "the arrays of a scene must be [n, 3], [n, 3], [n, 4], [n] and [n, k, 3]",
        ),
        ("sh", np.zeros((50, 5, 3), np.float32), "sh must have 1, 4, 9 or 16 coefficients"),
        ("view", np.zeros(25, np.float32), "view must have 26 numbers"),
        ("records", np.zeros((50, 15), np.float32), "outputs must be [n, 16], [n, 2], [n] and [n]"),
        ("z", np.zeros(49, np.float32), "outputs must be [n, 16], [n, 2], [n] and [n]"),
    ],
)
def test_project_refuses_arrays_that_do_not_fit(to_project, name, value, sentence):
    with pytest.raises(ValueError, match=exactly(f"project: {sentence}")):
        _kernels.project(**{**to_project, name: value})


@pytest.mark.parametrize(("name", "value"), [("width", 0), ("height", 16385), ("tile_log2", 3), ("tile_log2", 11)])
def test_sizes_out_of_range_are_refused(to_project, name, value):
    wanted = "tile_log2 must be 4 to 10" if name == "tile_log2" else "width and height must be 1 to 16384"
    with pytest.raises(ValueError, match=exactly(wanted)):
        _kernels.project(**{**to_project, name: value})


@pytest.mark.parametrize("name", ["means", "opacities", "sh", "records", "slot"])
def test_other_types_and_strides_are_refused(to_project, name):
    array = to_project[name]
    for other in (array.astype(np.float64), np.repeat(array, 2, axis=0)[::2], array.tolist()):
        with pytest.raises(TypeError):
            _kernels.project(**{**to_project, name: other})


def test_bin_refuses_indices_and_boxes_outside_their_arrays(to_bin):
    def refused(sentence, **changes):
        with pytest.raises(ValueError, match=exactly(f"bin: {sentence}")):
            _kernels.bin(**{**to_bin, **changes})

    m = len(to_bin["order"])
    high = to_bin["order"].copy()
    high[5] = m
    refused("order must hold indices", order=high)
    for word in (0, 41 << 16, 7 | 7 << 16):
        wrong = to_bin["box"].copy()
        wrong[3, 0] = word
        refused("boxes must lie in the picture", box=wrong)
    for short in ("slot", "box", "room"):
        refused("order and slot must be [m], box [m, 2], room [3m]", **{short: to_bin[short][:-1].copy()})
    refused("items must have one place for each pair of splat and tile", items=to_bin["items"][:-1])
    refused("items must have one place for each pair of splat and tile", order=np.zeros(m, np.uint32))
    refused("start must be [tiles + 1]", start=to_bin["start"][:-1])
    refused("table must be [blocks, tiles]", table=np.zeros((2, TILES + 1), np.uint32))


def test_any_number_of_blocks_makes_the_same_lists(to_bin):
    _kernels.bin(**to_bin)
    wanted = to_bin["items"].copy()
    for blocks in (1, 3, 49, 50, 80):
        _kernels.bin(**{**to_bin, "table": np.zeros((blocks, TILES), np.uint32)})
        np.testing.assert_array_equal(to_bin["items"], wanted)


def test_blend_refuses_lists_that_do_not_fit(to_blend):
    def refused(sentence, **changes):
        with pytest.raises(ValueError, match=exactly(f"blend: {sentence}")):
            _kernels.blend(**{**to_blend, **changes})

    items, start = to_blend["items"], to_blend["start"]
    far = items.copy()
    far[2] = len(to_blend["records"])
    refused("items must be records", items=far)
    refused("start must end with the number of items", items=items[:-1])
    falling = start.copy()
    falling[2] = 0
    refused("start must ascend", start=falling)
    refused("start must be [tiles + 1], from 0", start=start + np.uint32(1))
    refused("rgba must be [height, width, 4] of 1 to 16384 pixels", rgba=np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    refused("records must be [n, 16], rules 6 numbers", rules=np.zeros(5, np.float32))
    refused("images must be [height, width]", depth=np.zeros((WIDTH, HEIGHT), np.float32))


def test_random_records_are_blended_without_harm(to_blend):
    """Bit patterns of any kind, infinities and NaN among them: pixels are bytes, whatever they are."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        records = rng.integers(0, 2**32, to_blend["records"].shape, dtype=np.uint32).view(np.float32)
        _kernels.blend(**{**to_blend, "records": records})
