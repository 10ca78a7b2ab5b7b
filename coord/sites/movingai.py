"""MovingAI grid maps (`.map`) and scenarios (`.scen`): read, with the place of every fault, and import.

Source: the format page of the MovingAI benchmarks; `docs/formats/site-toml.md` says what an import writes. Row 0 of a
map file is the northern one, row 0 of our grid the southern one: cell (column, row) of a file has the centre
(column + 0.5, height - row - 0.5) cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coord.errors import MapError, unreadable
from coord.ground.grid import Grid
from coord.sites.regular_file import open_regular
from tensor.float_mode import plain_mode

FREE = b".GS"
BLOCKED = b"@OTW"
SIDE_MAX = 2**20
CELLS_MAX = 2**25  # 4 MiB of packed cells: one grid always fits a part of coord.inputs
FILE_BYTES_MAX = 2**26


@dataclass(frozen=True)
class Trip:
    """One line of a `.scen` file, in cells of the file (row 0 is the northern one)."""

    line: int
    map_name: str
    width: int
    height: int
    start: tuple[int, int]  # column, row
    goal: tuple[int, int]


def read_map(path: str | Path, cell_m: float = 1.0) -> Grid:
    """The grid of a `.map` file, with its south-western corner at (0, 0).

    Raises MapError, which names line and column, for a file that is truncated, has CRLF line ends, the wrong size or an
    unknown glyph.
    """
    return parse_map(read_file(Path(path)), str(path), cell_m)


def parse_map(data: bytes, name: str, cell_m: float = 1.0) -> Grid:
    """The grid of the bytes of a `.map` file; `name` stands in error texts.

    >>> parse_map(b"type octile\\nheight 2\\nwidth 3\\nmap\\n..@\\nT..\\n", "tiny.map").blocked.tolist()
    [[True, False, False], [False, False, True]]
    """
    _refuse_carriage_return(data, name)
    lines = data.split(b"\n", 4)
    _header(lines, 0, b"type octile", name)
    height = _size(lines, 1, b"height", name)
    width = _size(lines, 2, b"width", name)
    _header(lines, 3, b"map", name)
    if width * height > CELLS_MAX:
        raise MapError(name, 2, 1, f"expected at most {CELLS_MAX} cells, got {width} × {height}")
    lines[4:] = lines[4].split(b"\n", height) if len(lines) > 4 else []
    rows = lines[4 : 4 + height]
    for number, row in enumerate(rows, start=5):
        if len(row) == width:
            continue
        last = number == 4 + len(rows) and 4 + len(rows) == len(lines)
        if last and len(row) < width:
            raise MapError(name, number, len(row) + 1, f"the file ends in row {number - 4} of {height}, "
                           f"after {len(row)} of {width} cells")  # fmt: skip
        raise MapError(name, number, min(len(row), width) + 1, f"expected {width} cells (the width), got {len(row)}")
    if len(rows) < height:
        raise MapError(name, 5 + len(rows), 1, f"the file ends after {len(rows)} of {height} rows")
    after = b"".join(lines[4 + height :])
    empty = len(after) - len(after.lstrip(b"\n"))
    if empty < len(after):
        raise MapError(name, 5 + height + empty, 1, f"expected the end of the file after {height} rows (the height)")
    cells = np.frombuffer(b"".join(rows), np.uint8).reshape(height, width)
    _refuse_glyphs(cells, name)
    blocked = np.isin(cells, np.frombuffer(BLOCKED, np.uint8))
    return Grid(width, height, cell_m, 0.0, 0.0, np.ascontiguousarray(blocked[::-1]))


def read_scen(path: str | Path, count: int | None = None) -> list[Trip]:
    """The first `count` lines of a `.scen` file (all of them for None).

    Raises MapError, which names line and column, for a damaged line or a file with fewer lines.
    """
    name, data = str(path), read_file(Path(path))
    _refuse_carriage_return(data, name)
    lines = data.split(b"\n")
    if lines[0].split(b".")[0] != b"version 1":
        raise MapError(name, 1, 1, f'expected "version 1", got {_text(lines[0])}')
    trips: list[Trip] = []
    for number, line in enumerate(lines[1:], start=2):
        if count is not None and len(trips) == count:
            break
        if line:
            trips.append(_trip(line, number, name))
    if count is not None and len(trips) < count:
        raise MapError(name, len(lines), 1, f"expected {count} agents, the file has {len(trips)}")
    return trips


@plain_mode()
def free_cell(grid: Grid, trip: Trip, cell: tuple[int, int], what: str, name: str) -> tuple[float, float]:
    """The centre of a free cell of a trip, in metres; MapError with the line when it is outside or blocked."""
    column, row = cell
    if (trip.width, trip.height) != (grid.width, grid.height):
        raise MapError(name, trip.line, _column(trip, 2), f"expected a map of {trip.width} × {trip.height} cells, "
                       f"{trip.map_name} has {grid.width} × {grid.height}")  # fmt: skip
    if not (0 <= column < grid.width and 0 <= row < grid.height):
        raise MapError(
            name, trip.line, 1, f"{what} ({column}, {row}) lies outside the map of {grid.width} × {grid.height}"
        )
    south = grid.height - 1 - row
    if grid.blocked[south, column]:
        raise MapError(name, trip.line, 1, f"{what} ({column}, {row}) is on an obstacle")
    centre = cell_centres(grid, np.array([south * grid.width + column]))
    return float(centre[0, 0]), float(centre[0, 1])


@plain_mode()
def cell_centres(
    grid: Grid,
    cells: npt.NDArray[np.int64],  # [n] row · width + column, row 0 in the south
) -> npt.NDArray[np.float32]:  # [n, 2] metres
    """Centres of cells, computed in float64 and rounded once to float32, as `Grid.centre_of`."""
    column = (cells % grid.width).astype(np.float64)
    row = (cells // grid.width).astype(np.float64)
    return np.stack([grid.x0 + (column + 0.5) * grid.cell_m, grid.y0 + (row + 0.5) * grid.cell_m], axis=1).astype(
        np.float32
    )


def map_beside(path: str | Path, foreign: str) -> Path:
    """The map that a `.scen` file names, by its base name beside the `.scen` file (foreign paths are absolute)."""
    base = foreign.replace("\\", "/").rsplit("/", 1)[-1]
    found = Path(path).parent / base
    try:
        there = found.exists()
    except OSError:  # a name that is too long
        there = False
    if not there:
        names = f"the map {base[:100]} beside the file (named {foreign[:200]})"
        raise MapError(str(path), 2, 1, f"expected {names}, found none")
    return found


def _column(trip: Trip, field: int) -> int:
    return 1 + len("0\t") + (len(trip.map_name) + 1 if field == 2 else 0)


def read_file(path: Path) -> bytes:
    """The bytes of a file of at most 64 MiB; MapError where it can't be read or is longer."""
    try:
        with open_regular(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise MapError(str(path), 0, 0, unreadable(error)) from error
    if len(data) > FILE_BYTES_MAX:
        raise MapError(str(path), 0, 0, f"expected at most {FILE_BYTES_MAX} bytes")
    return data


def _refuse_carriage_return(data: bytes, name: str) -> None:
    at = data.find(b"\r")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        column = at - (data.rfind(b"\n", 0, at) + 1) + 1
        raise MapError(name, line, column, "expected lines that end in LF, got CR (hint: sed -i 's/\\r$//' FILE)")


def _header(lines: list[bytes], index: int, expected: bytes, name: str) -> None:
    got = lines[index] if index < len(lines) else b""
    if got != expected:
        same = next(
            (i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), min(len(got), len(expected))
        )
        raise MapError(name, index + 1, same + 1, f'expected "{expected.decode()}", got {_text(got)}')


def _size(lines: list[bytes], index: int, word: bytes, name: str) -> int:
    got = lines[index] if index < len(lines) else b""
    head, _, number = got.partition(b" ")
    if head != word:
        raise MapError(name, index + 1, 1, f'expected "{word.decode()} N", got {_text(got)}')
    if not (number.isdigit() and 1 <= len(number) <= 8 and int(number) > 0):
        raise MapError(name, index + 1, len(word) + 2, f"expected a number above 0, got {_text(number)}")
    if int(number) > SIDE_MAX:
        raise MapError(name, index + 1, len(word) + 2, f"expected at most {SIDE_MAX} cells, got {int(number)}")
    return int(number)


def _refuse_glyphs(cells: npt.NDArray[np.uint8], name: str) -> None:
    bad = ~np.isin(cells, np.frombuffer(FREE + BLOCKED, np.uint8))
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        glyph = _text(bytes([cells[row, column]]))
        raise MapError(name, row + 5, column + 1, f"unknown glyph {glyph} (expected one of . G S @ O T W)")


def _trip(line: bytes, number: int, name: str) -> Trip:
    fields = line.split(b"\t")
    if len(fields) != 9:
        raise MapError(name, number, 1, f"expected 9 columns separated by tabs, got {len(fields)}")
    values: list[int] = []
    for index in (2, 3, 4, 5, 6, 7):
        if not (fields[index].isdigit() and len(fields[index]) <= 8):
            column = sum(len(f) + 1 for f in fields[:index]) + 1
            raise MapError(name, number, column, f"expected a whole number, got {_text(fields[index])}")
        values.append(int(fields[index]))
    width, height, *cells = values
    map_name = fields[1].decode("utf-8", "replace")
    return Trip(number, map_name, width, height, (cells[0], cells[1]), (cells[2], cells[3]))


def _text(data: bytes) -> str:
    text = data[:40].decode("utf-8", "backslashreplace")
    return repr(text) if text.isprintable() else ascii(text)
