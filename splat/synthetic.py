"""A warehouse made by rule: the scene of the demo, for any grid, with the same bits on every machine.

The grid lies on the floor as a plan does on a table: cell (row, column) has its centre at x = (column + ½)·cell_m, that
is east, z = (row + ½)·cell_m, that is north, and up is −y: an agent of a fleet at (x, y) stands at (x, 0, y). Blocked
cells are racks, 2.2 cells high, with boxes; all else is floor. In the north and in the east stand walls.

Everything is flat rectangles ("patches"); each gets a whole number of splats, in rows, that together fill it.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.camera import Camera
from splat.errors import SplatTypeError, SplatValueError
from splat.harmonics import C0, C1, DEGREE_MAX, coefficient_count
from splat.scene import Scene
from tensor import elementary
from tensor.float_mode import plain_mode
from tensor.random import Key

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

CELLS_MAX = 1 << 16
SPLATS_MAX = 1 << 24
HEIGHT = 2.2  # of a rack, in cells
LEVELS = 3
THIN = 0.012  # half-thickness of every patch, in cells
_FILL = 0.44  # standard deviation of a splat ÷ width of its part: a patch looks as wide as it is
_FILL_FLOOR = 0.60  # floor splats overlap, so that no grid shows
_FILL_WALL = 0.64
_FILL_BAR = 0.34  # beams and posts are one splat long: their ends must not stick out
_X, _Y, _Z = 0, 1, 2

WALL_HEIGHT, WALL_ROWS = 5.2, 4
DOOR_EVERY = 10
FLOOR = (0.60, 0.61, 0.62)
WALL, WALL_BAND, DOOR = (0.84, 0.86, 0.87), (0.33, 0.40, 0.47), (0.30, 0.47, 0.62)
LANE = (0.96, 0.76, 0.10)
BEAM = (0.93, 0.40, 0.06)
UPRIGHT = (0.10, 0.24, 0.55)
INSIDE = (0.10, 0.10, 0.12)
BOXES = (
    (0.78, 0.60, 0.40), (0.71, 0.53, 0.34), (0.84, 0.68, 0.48), (0.64, 0.48, 0.31), (0.76, 0.58, 0.38),
    (0.81, 0.64, 0.45), (0.68, 0.50, 0.32), (0.86, 0.86, 0.83), (0.12, 0.52, 0.55), (0.20, 0.38, 0.72),
    (0.78, 0.20, 0.17), (0.26, 0.56, 0.32),
)  # fmt: skip
_SHADE = {(_Z, -1): 0.92, (_Z, 1): 0.62, (_X, -1): 0.80, (_X, 1): 0.70, (_Y, -1): 1.0}  # the light is in the south-west


@dataclass
class _Patches:
    """m rectangles of one kind, in cells: `center` [m, 3], `size` [m, 3] (0 along the normal), `color` [m, 3]."""

    center: F64
    size: F64
    color: F64
    normal: tuple[int, int]  # axis, sign
    weight: float  # splats a unit of area, against other kinds
    fill: float = _FILL
    grain: float = 0.12  # how much lighter or darker one splat may be than another


@plain_mode()
def warehouse(blocked: Any, cell_m: float, n: int, sh_degree: int, seed: int) -> Scene:
    """n splats that show the racks and the floor of a grid.

    blocked: bool[h, w], True where a rack stands, row 0 in the south; cell_m: side of a cell, above 0; n: from 0 to
    2^24; sh_degree: 0 to 3 (1 and above give colours that change a little with the view); seed: 0 ≤ seed < 2^64. Where
    n is too small for everything, small things are left out first. Raises SplatTypeError, SplatValueError.

    >>> scene = warehouse(np.eye(4, dtype=bool), 1.0, 500, 1, seed=0)
    >>> len(scene), scene.degree
    (500, 1)
    """
    grid, side, degree = _checked(blocked, cell_m, n, sh_degree)
    keys = Key(seed).split(6)
    kinds = _kinds(grid, keys[0])
    sizes = ((3,), (3,), (4,), (), (coefficient_count(degree), 3))
    means, log_scales, quats, opacities, sh = (np.empty((n, *size), np.float32) for size in sizes)
    start = 0
    for kind, k in zip(kinds, _shares(kinds, n), strict=True):  # one at a time: in float64 each splat takes 100 bytes
        center, scale, color = _splats(kind, k, grid)
        m = len(center)
        part = slice(start, start + m)
        means[part] = center * side
        log_scales[part] = elementary.log(scale * side)
        quats[part] = _turned(keys[2].uniform(m, offset=start).numpy(), lies=kind.normal[0] == _Y)
        opacities[part] = 0.94 + 0.05 * keys[3].uniform(m, offset=start).numpy().astype(np.float64)
        grain = kind.grain * (keys[1].uniform(m, offset=start).numpy().astype(np.float64) - 0.5)
        _write_harmonics(sh[part], np.clip(color * (1.0 + grain)[:, None], 0.0, 1.0), kind.normal, keys[4], start)
        start += m
    return Scene(means, log_scales, quats, opacities, sh)


@plain_mode()
def warehouse_camera(blocked: Any, cell_m: float, width: int, height: int) -> Camera:
    """A view of `warehouse` that fills a picture of 16:9, from the south-west and above. Raises as `warehouse`.

    >>> warehouse_camera(np.zeros((40, 64), bool), 1.0, 640, 360).height
    360
    """
    grid, side, _ = _checked(blocked, cell_m, 0, 0)
    h, w = grid.shape
    east, north = w * side, h * side
    size = max(east, north)
    target = (0.52 * east, 0.0, 0.36 * north)
    eye = (0.34 * east, -0.34 * size, -0.24 * size)
    return Camera.look_at(eye, target, fov_y_deg=40.0, width=width, height=height)


def _checked(blocked: Any, cell_m: float, n: int, sh_degree: int) -> tuple[Mask, float, int]:
    if not isinstance(blocked, np.ndarray) or blocked.dtype != np.bool_:
        got = f"{blocked.dtype}{list(blocked.shape)}" if isinstance(blocked, np.ndarray) else type(blocked).__name__
        raise SplatTypeError(f"warehouse: blocked must be bool[h, w], got {got}")
    if blocked.ndim != 2 or not 1 <= blocked.size <= CELLS_MAX:
        raise SplatValueError(f"warehouse: blocked must have 1 to {CELLS_MAX} cells, got bool{list(blocked.shape)}")
    side = float(cell_m)
    if not 1e-6 <= side <= 1e6:
        raise SplatValueError(f"warehouse: cell_m must be from 1e-6 to 1e6, got {side}")
    if not 0 <= index(n) <= SPLATS_MAX:
        raise SplatValueError(f"warehouse: n must be from 0 to {SPLATS_MAX}, got {n}")
    if not 0 <= index(sh_degree) <= DEGREE_MAX:
        raise SplatValueError(f"warehouse: sh_degree must be from 0 to {DEGREE_MAX}, got {sh_degree}")
    return blocked, side, index(sh_degree)


def _kinds(grid: Mask, key: Key) -> list[_Patches]:
    """All patches, what matters most first."""
    free, racks = np.argwhere(~grid), np.argwhere(grid)
    floor_key, top_key, *side_keys = key.split(6)
    kinds = [_floor(free, floor_key), *_walls(*grid.shape)]
    sides = [_side_cells(grid, axis, sign) for axis, sign in ((_Z, -1), (_Z, 1), (_X, -1), (_X, 1))]
    for make in (_insides, _boxes, None, _beams, _uprights, _lanes):
        if make is None:
            kinds.append(_tops(racks, top_key))
            continue
        for (cells, axis, sign), side_key in zip(sides, side_keys, strict=True):
            kinds.append(make(cells, axis, sign, side_key))
    return kinds


def _side_cells(grid: Mask, axis: int, sign: int) -> tuple[I64, int, int]:
    """The racks whose neighbour on that side is free or outside."""
    padded = np.pad(grid, 1)
    h, w = grid.shape
    row, column = (1 + sign, 1) if axis == _Z else (1, 1 + sign)
    return np.argwhere(grid & ~padded[row : row + h, column : column + w]), axis, sign


def _floor(cells: I64, key: Key) -> _Patches:
    m = len(cells)
    center = np.stack([cells[:, 1] + 0.5, np.zeros(m), cells[:, 0] + 0.5], axis=1)
    slabs = (
        key.uniform(4096).numpy().astype(np.float64)
    )  # slabs of concrete, 4 × 4 cells, each a little lighter or darker
    tone = 0.96 + 0.08 * slabs[(cells[:, 0] // 4 * 61 + cells[:, 1] // 4) % 4096]
    return _Patches(center, _full((m, 3), (1, 0, 1)), np.outer(tone, FLOOR), (_Y, -1), 1.0, _FILL_FLOOR, 0.03)


def _walls(h: int, w: int) -> list[_Patches]:
    """Walls in the north and in the east, where they hide nothing from the south-west, with a dark band and doors."""
    walls = []
    for axis, length, at in ((_Z, w, h), (_X, h, w)):
        along = _X if axis == _Z else _Z
        row, i = np.divmod(np.arange(WALL_ROWS * length), length)
        center, size = np.zeros((len(i), 3)), np.zeros((len(i), 3))
        center[:, along], center[:, axis] = i + 0.5, at
        center[:, _Y] = -(row + 0.5) * (WALL_HEIGHT / WALL_ROWS)
        size[:, along], size[:, _Y] = 1.0, WALL_HEIGHT / WALL_ROWS
        place = i % DOOR_EVERY - (DOOR_EVERY - 4) // 2  # 0 to 3 in a door
        door = (place >= 0) & (place < 4) & (row < 3)
        color = np.where((row == 0)[:, None], WALL_BAND, WALL) * np.where(row == WALL_ROWS - 1, 0.9, 1.0)[:, None]
        color = np.where(door[:, None], DOOR, color) * _SHADE[axis, -1]
        walls.append(_Patches(center, size, color, (axis, -1), 0.5, _FILL_WALL, 0.02))
        rim, rim_size = center[row == 0], size[row == 0]
        rim[:, _Y], rim[:, axis], rim_size[:, _Y] = -WALL_HEIGHT, at - 0.05, 0.22
        walls.append(_Patches(rim, rim_size, _full((length, 3), WALL_BAND), (axis, -1), 1.0, _FILL_WALL, 0.02))
    return walls


def _tops(cells: I64, key: Key) -> _Patches:
    """Two boxes on the top of each rack."""
    both, half = np.repeat(cells, 2, axis=0), np.tile([-0.24, 0.24], len(cells))
    lift = 0.16 * key.uniform(len(both), offset=len(both)).numpy().astype(np.float64)
    center = np.stack([both[:, 1] + 0.5 + half, -HEIGHT - lift, both[:, 0] + 0.5], axis=1)
    color = _box_colors(key, len(both))
    return _Patches(center, _full((len(both), 3), (0.44, 0, 0.84)), color, (_Y, -1), 2.2)


def _insides(cells: I64, axis: int, sign: int, key: Key) -> _Patches:
    """What is seen between boxes: dark, a little behind them."""
    m = len(cells)
    offsets = np.zeros((m, 2))
    offsets[:, 1] = HEIGHT / 2
    return _on_side(cells, axis, sign, offsets, (1.0, HEIGHT), 0.40, _full((m, 3), INSIDE), 0.8)


def _boxes(cells: I64, axis: int, sign: int, key: Key) -> _Patches:
    """On each level two boxes, side by side, of different heights."""
    m = 2 * LEVELS * len(cells)
    rows = np.repeat(cells, 2 * LEVELS, axis=0)
    pitch = HEIGHT / LEVELS
    tall = 0.50 + 0.14 * key.uniform(m, offset=m).numpy().astype(np.float64)
    level = np.tile(np.repeat(np.arange(LEVELS), 2), len(cells))
    along = np.tile([-0.245, 0.245], LEVELS * len(cells))
    patches = _on_side(rows, axis, sign, np.stack([along, level * pitch + 0.05 + tall / 2], axis=1), (0.44, 0.5), 0.47,
                       _box_colors(key, m), 2.2)  # fmt: skip
    patches.size[:, _Y] = tall
    return patches


def _beams(cells: I64, axis: int, sign: int, key: Key) -> _Patches:
    """The orange beam under each level but the lowest, and along the top."""
    rows, level = np.repeat(cells, LEVELS, axis=0), np.tile(np.arange(1, LEVELS + 1), len(cells))
    offsets = np.stack([np.zeros(len(rows)), level * (HEIGHT / LEVELS)], axis=1)
    return _on_side(rows, axis, sign, offsets, (1.0, 0.10), 0.50, _full((len(rows), 3), BEAM), 1.0, _FILL_BAR)


def _uprights(cells: I64, axis: int, sign: int, key: Key) -> _Patches:
    """A blue post between two cells of a rack."""
    rows, part = np.repeat(cells, LEVELS, axis=0), np.tile(np.arange(LEVELS), len(cells))
    m, pitch = len(rows), HEIGHT / LEVELS
    offsets = np.stack([np.full(m, -0.5), (part + 0.5) * pitch], axis=1)
    return _on_side(rows, axis, sign, offsets, (0.13, pitch), 0.51, _full((m, 3), UPRIGHT), 1.0, _FILL_BAR)


def _lanes(cells: I64, axis: int, sign: int, key: Key) -> _Patches:
    """A yellow guard rail along each rack."""
    m, along = len(cells), _X if axis == _Z else _Z
    center = np.stack([cells[:, 1] + 0.5, np.full(m, -0.2), cells[:, 0] + 0.5], axis=1)
    center[:, axis] += sign * 0.62
    size = np.zeros((m, 3))
    size[:, along], size[:, axis] = 1.05, 0.12
    return _Patches(center, size, _full((m, 3), LANE), (_Y, -1), 1.0, 0.40)


def _on_side(
    cells: I64,
    axis: int,
    sign: int,
    offsets: F64,  # [m, 2]: along the side from the cell's middle; up from the floor
    size: tuple[float, float],  # along, up
    out: float,  # from the cell's middle towards the side
    color: F64,
    weight: float,
    fill: float = _FILL,
) -> _Patches:
    along = _X if axis == _Z else _Z
    center = np.stack([cells[:, 1] + 0.5, -offsets[:, 1], cells[:, 0] + 0.5], axis=1)
    center[:, axis] += sign * out
    center[:, along] += offsets[:, 0]
    sizes = np.zeros((len(cells), 3))
    sizes[:, along], sizes[:, _Y] = size
    return _Patches(center, sizes, color * _SHADE[axis, sign], (axis, sign), weight, fill)


def _box_colors(key: Key, m: int) -> F64:
    colors: F64 = np.array(BOXES)[key.randint(0, len(BOXES), m).numpy()]
    return colors


def _full(shape: tuple[int, int], row: tuple[float, ...]) -> F64:
    out = np.empty(shape)
    out[:] = row
    return out


def _shares(kinds: list[_Patches], n: int) -> list[I64]:
    """How many splats each patch gets: one each, as far as they go; the rest by area and weight. Whole numbers only."""
    shares, left = [], n
    for kind in kinds:
        m = len(kind.center)
        take = min(m, left)
        shares.append(np.diff(np.arange(m + 1) * take // max(m, 1)))
        left -= take
    areas = np.concatenate([_area(kind) for kind in kinds])
    reached = np.concatenate([[0], np.cumsum(areas)])
    extra = np.diff(reached * left // max(1, int(reached[-1])))
    ends = np.cumsum([len(share) for share in shares])[:-1]
    return [share + more for share, more in zip(shares, np.split(extra, ends), strict=True)]


def _area(kind: _Patches) -> I64:
    """Area times weight in thousandths of a cell, rounded."""
    a, b = (kind.size[:, i] for i in range(3) if i != kind.normal[0])
    return np.floor(a * b * kind.weight * 1000 + 0.5).astype(np.int64)


def _splats(kind: _Patches, k: I64, grid: Mask) -> tuple[F64, F64, F64]:
    """Centre, standard deviations and colour of each splat of a kind; patch i has k[i] of them, in rows."""
    axis = kind.normal[0]
    u, v = (i for i in range(3) if i != axis)
    owner = np.repeat(np.arange(len(k)), k)
    item = np.arange(len(owner)) - np.repeat(np.cumsum(k) - k, k)
    count = k[owner]
    ratio = kind.size[owner, v] / kind.size[owner, u]
    rows = np.clip(np.floor(np.sqrt(count * ratio) + 0.5).astype(np.int64), 1, np.maximum(count, 1))
    row = item * rows // np.maximum(count, 1)
    first, after = -(-row * count // rows), -(-(row + 1) * count // rows)
    columns = after - first
    center = kind.center[owner]
    step_u, step_v = kind.size[owner, u] / columns, kind.size[owner, v] / rows
    center[:, u] += (item - first + 0.5) * step_u - kind.size[owner, u] / 2
    center[:, v] += (row + 0.5) * step_v - kind.size[owner, v] / 2
    scale = np.full((len(owner), 3), THIN)
    scale[:, u], scale[:, v] = step_u * kind.fill, step_v * kind.fill
    color = kind.color[owner]
    if axis == _Y and kind.fill == _FILL_FLOOR:
        color = color * _light(center, grid)[:, None]
    return center, scale, color


def _light(center: F64, grid: Mask) -> F64:
    """How light the floor is: darker near a rack, most of all north and east of it, where its shadow falls."""
    row, column = np.floor(center[:, _Z]).astype(np.int64), np.floor(center[:, _X]).astype(np.int64)
    z, x = center[:, _Z] - row, center[:, _X] - column
    padded = np.pad(grid, 1)
    light = np.ones(len(center))
    for dr, dc, distance, reach, depth in (
        (-1, 0, z, 1.1, 0.55), (1, 0, 1 - z, 0.5, 0.25), (0, -1, x, 1.1, 0.45), (0, 1, 1 - x, 0.5, 0.25),
    ):  # fmt: skip
        near = padded[row + 1 + dr, column + 1 + dc]
        light -= np.where(near, depth * np.maximum(0.0, 1 - distance / reach), 0.0)
    return np.maximum(light, 0.3)


def _turned(draws: F32, *, lies: bool) -> F32:
    """Quaternions: what stands is turned by up to two degrees about the upright axis; what lies is not."""
    half = np.zeros_like(draws) if lies else (draws - np.float32(0.5)) * np.float32(0.035)
    quats = np.zeros((len(draws), 4), np.float32)
    quats[:, 0], quats[:, 2] = elementary.cos(half), elementary.sin(half)
    return quats


def _write_harmonics(sh: F32, color: F64, normal: tuple[int, int], key: Key, first: int) -> None:
    """Coefficients of the splats from number `first` on, into sh [m, (degree + 1)², 3].

    They give the colours; what is seen head-on is a little lighter.
    """
    axis, sign = normal
    m, count = sh.shape[:2]
    sh[:, 0] = (color - 0.5) / C0
    if count > 1:
        strength = -0.06 if axis == _Y else -0.05
        for coefficient, along, direction in ((1, _Y, -1), (2, _Z, 1), (3, _X, -1)):
            sh[:, coefficient] = direction * strength * (float(sign) if along == axis else 0.0) / C1
    if count > 4:
        draws = key.uniform((m, count - 4, 3), offset=first * (count - 4) * 3).numpy()
        sh[:, 4:] = 0.02 * (draws.astype(np.float64) - 0.5)
