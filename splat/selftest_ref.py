"""Twin of the self-test (splat/kernels/selftest.cpp): the digest of every kernel, computed by the Python twins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat import blend_ref, projection_ref, tiles_ref
from splat.projection_ref import Tally, View
from tensor.selftest_ref import awkward, fnv1a, splitmix64

_N, _WIDTH, _HEIGHT = 1500, 61, 45
_COEFFICIENTS = (16, 4, 9)
_FAINTEST = np.float32(-7.9943533)


def digests() -> dict[str, str]:
    """The digest (16 hex digits) of every kernel of splat, by name.

    >>> "splat.blend" in digests()
    True
    """
    parts: dict[str, list[Any]] = {name: [] for name in ("project", "bin", "blend", "blend_state")}
    for round_ in range(len(_COEFFICIENTS)):
        _picture(round_, parts)
    return {f"splat.{name}": fnv1a(iter(values)) for name, values in parts.items()}


def _scene(round_: int, count: int) -> list[NDArray[np.float32]]:
    """Means, log scales, quaternions, opacities and colours."""
    seed = 0x73706C6174 + round_
    sizes = (3 * _N, 3 * _N, 4 * _N, _N, 3 * _N * count)
    changes = _N // 16
    words = splitmix64(seed, sum(sizes) + 2 * changes)
    edges = awkward(seed, len(words), np.dtype(np.float32))
    arrays, first = [], 0
    for size, (low, extent) in zip(sizes, ((-2, 4), (-8, 8), (-1, 2), (0, 1), (-1, 2)), strict=True):
        part = (words[first : first + size] >> np.uint64(40)).astype(np.float32)
        arrays.append(np.float32(low) + part * np.float32(extent / 16777216))
        first += size
    for i in range(changes):
        word = int(words[first + 2 * i])
        array = arrays[word & 3]
        array[(word >> 8) % len(array)] = edges[first + 2 * i + 1]
    shapes = ((_N, 3), (_N, 3), (_N, 4), (_N,), (_N, count, 3))
    return [array.reshape(shape) for array, shape in zip(arrays, shapes, strict=True)]


def _view(round_: int, tile_log2: int) -> View:
    back = np.float32(1.0 if round_ == 1 else 2.0)  # in round 1 the camera stands among the splats
    numbers = [0.6, 0, 0.8, 0, 1, 0, -0.8, 0, 0.6, 0.25, -0.125, back, 50, 55, 30.5, 22.5]
    numbers += [np.float32(0.8) * back, 0.125, np.float32(-0.6) * back, -0.8, 0.8, -0.6, 0.6, 0.2]
    numbers += [0.0 if round_ == 2 else 0.3, _FAINTEST]
    return View(np.array(numbers, np.float32), _WIDTH, _HEIGHT, round_ == 0, tile_log2)


def _picture(round_: int, parts: dict[str, list[Any]]) -> None:
    scene = _scene(round_, _COEFFICIENTS[round_])
    rules = blend_ref.Rules(_FAINTEST, np.float32(0.99), np.float32(1e-4), np.array([0.25, 0.5, 0.75], np.float32))
    tally: Tally
    for tile_log2 in (4, 5):
        records, tally = projection_ref.project(
            scene[0], scene[1], scene[2], scene[3], scene[4], _view(round_, tile_log2)
        )
        if tile_log2 == 4:
            parts["project"] += [records, np.array(tally, np.uint64)]
        order = np.argsort(records[:, 9], kind="stable").astype(np.uint32)
        box = records.view(np.uint32)[:, 12:14]
        everyone = np.arange(len(records), dtype=np.uint32)
        start, items = tiles_ref.bin_tiles(order, everyone, box, _WIDTH, _HEIGHT, tile_log2)
        parts["bin"] += [start, records.view(np.uint32)[items, 14]]
        pixels = blend_ref.blend(records[order], rules, _WIDTH, _HEIGHT, tile_log2)
        parts["blend"] += [pixels.rgba, pixels.rgba]
        parts["blend_state"] += [pixels.transmittance, pixels.last, pixels.depth]
