"""Measures over time as small panels with axes, one colour a run.

Drawn with Pillow at twice the size and reduced once, as `paths_picture`. Of columns that stand for several ticks the
mean is a line and lowest to highest a band.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageDraw, ImageFont

from droveway.metrics_series import Series, Span
from droveway.paths_picture import FAINT, INK, PAPER, WALL_EDGE, Colour, drawable

SCALE: Final = 2  # drawn at twice the size
WIDTH_PX: Final = 1600
PANEL_HEIGHT_PX: Final = 236
COLUMNS: Final = 2
MARGIN_PX, HEAD_PX, FOOT_PX = 44, 84, 44
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 74, 18, 34, 34  # around the plot of a panel
GRID: Final[Colour] = (231, 233, 237)
RUNS: Final[tuple[Colour, ...]] = (
    (31, 101, 180), (214, 92, 40), (38, 138, 84), (142, 68, 173), (186, 140, 20), (20, 150, 165), (196, 52, 86),
    (96, 104, 120),
)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One panel: a measure of the series, its title with the unit, and whether its axis ends at 1 (a share)."""

    name: str
    title: str
    share: bool = False
    dots: bool = False  # measured now and then: dots and a thin line


@dataclass(frozen=True)
class Curve:
    """A run in the picture."""

    label: str
    series: Series


PANELS: Final = (
    Panel("assigned", "share of ready agents with a zone", share=True),
    Panel("idle_p99", "idle time of zones, 99th percentile (ticks)"),
    Panel("objective", "objective: sum of the plan's scores"),
    Panel("gap", "proven gap of the objective (share)", dots=True),
    Panel("travel", "way of all agents together (m a tick)"),
    Panel("services", "services so far"),
    Panel("separation", "smallest distance of two agents (m)"),
    Panel("conflicts", "agents in conflict: others won all their zones"),
)
ON_A_GRID: Final = Panel("sharing", "agents in the cell of another")


def draw_metrics(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """The picture of runs, each a series that got its ticks by `Series.add_tick`. On grids, cells shared stand in place
    of distances."""
    grids = all(curve.series.of("sharing") for curve in curves)
    panels = [ON_A_GRID if grids and panel.name == "separation" else panel for panel in PANELS]
    firsts = [curve.series.columns[0].tick for curve in curves if curve.series.columns]
    lasts = [curve.series.last_tick for curve in curves]
    subtitle = f"ticks {min(firsts, default=0)} to {max(lasts, default=0)} · measured from the ledger alone"
    MetricsPicture(title, subtitle, curves, panels).save(path)


def ticks_of(low: float, high: float, most: int) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`, 1, 2 or 5 times a power of ten apart.

    >>> ticks_of(0, 93, 5), ticks_of(0.11, 0.52, 4), ticks_of(7, 7, 5)
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.2, 0.4, 0.6000000000000001], [7.0, 8.0])
    """
    if not high > low:
        return [float(low), float(low) + 1.0]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def number_text(value: float, step: float) -> str:
    """A number on an axis, with as many digits as its steps need; thousands as k, millions as M.

    >>> number_text(0.4, 0.2), number_text(20000, 5000), number_text(2.5e6, 5e5), number_text(-0.0, 1)
    ('0.4', '20k', '2.5M', '0')
    """
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if step * 10 > least and abs(value) >= least:
            return f"{value / unit:.{_digits(step / unit)}f}{letter}"
    if step < 1e-4:
        return f"{value:.2g}"
    return f"{value + 0.0:.{_digits(step)}f}"


def _digits(step: float) -> int:
    """Digits behind the point that tell multiples of `step` apart."""
    return next((digits for digits in range(6) if abs(round(step, digits) - step) < step * 1e-6), 6)


class MetricsPicture:
    """Add panels in reading order, then save. Panels without a value in any run say so."""

    def __init__(self, title: str, subtitle: str, curves: Sequence[Curve], panels: Sequence[Panel]) -> None:
        self._curves = curves
        rows = -(-len(panels) // COLUMNS)
        legend = _legend_rows([curve.label for curve in curves])
        self._head = HEAD_PX + 26 * legend
        self.size = (WIDTH_PX, self._head + rows * PANEL_HEIGHT_PX + FOOT_PX)
        self._image = Image.new("RGB", (self.size[0] * SCALE, self.size[1] * SCALE), PAPER)
        self._draw: Any = ImageDraw.Draw(self._image, "RGBA")
        self._text((MARGIN_PX, 18), title, INK, 27)
        self._text((MARGIN_PX, 54), subtitle, FAINT, 16)
        self._legend()
        firsts = [curve.series.columns[0].tick for curve in curves if curve.series.columns]
        self._t0, self._t1 = min(firsts, default=0), max((curve.series.last_tick for curve in curves), default=1)
        self._t1 = max(self._t1, self._t0 + 1)
        for number, panel in enumerate(panels):
            wide = (WIDTH_PX - 2 * MARGIN_PX) / COLUMNS
            self._panel(
                panel, MARGIN_PX + (number % COLUMNS) * wide, self._head + number // COLUMNS * PANEL_HEIGHT_PX, wide
            )
        shared = max((curve.series.ticks_a_column for curve in curves), default=1)
        words = "" if shared == 1 else f"; a point stands for {shared} plans: line their mean, band lowest to highest"
        self._text((MARGIN_PX, self.size[1] - 30), f"to the right: ticks{words}", FAINT, 13)

    def _text(self, at: tuple[float, float], text: str, colour: Colour, size: int, anchor: str = "la") -> None:
        font = _font(size)
        self._draw.text((at[0] * SCALE, at[1] * SCALE), drawable(text, font), colour, font, anchor=anchor)

    def _legend(self) -> None:
        x, y = float(MARGIN_PX), float(HEAD_PX)
        for number, curve in enumerate(self._curves):
            wide = 40 + _width(curve.label, 15)
            if x > MARGIN_PX and x + wide > WIDTH_PX - MARGIN_PX:
                x, y = float(MARGIN_PX), y + 26
            self._line([(x, y + 9), (x + 22, y + 9)], _colour(number), 4)
            self._text((x + 30, y), curve.label, INK, 15)
            x += wide + 24

    def _panel(self, panel: Panel, left: float, top: float, wide: float) -> None:
        x0, x1 = left + LEFT_PX, left + wide - RIGHT_PX
        y0, y1 = top + TOP_PX, top + PANEL_HEIGHT_PX - BOTTOM_PX
        self._text((x0, top + 9), panel.title, INK, 16)
        found = [curve.series.of(panel.name) for curve in self._curves]
        values = [value for points in found for _, span in points for value in (span.low, span.high)]
        self._box(x0, y0, x1, y1)
        if not values:
            self._text(((x0 + x1) / 2, (y0 + y1) / 2), "not measured in these runs", FAINT, 15, "mm")
            return
        high = max(1.0, *values) if panel.share else max(*values, 0.0)
        marks = ticks_of(min(*values, 0.0), high, 4)
        low, high = marks[0], marks[-1]

        def place(tick: float, value: float) -> tuple[float, float]:
            share = (tick - self._t0) / (self._t1 - self._t0)
            return x0 + share * (x1 - x0), y1 - (value - low) / (high - low) * (y1 - y0)

        for mark in marks:
            y = place(self._t0, mark)[1]
            self._line([(x0, y), (x1, y)], GRID, 1)
            self._text((x0 - 8, y), number_text(mark, marks[1] - marks[0]), FAINT, 14, "rm")
        self._time_axis(x0, x1, y1)
        for number, points in enumerate(found):
            self._curve(panel, points, number, place)

    def _time_axis(self, x0: float, x1: float, y1: float) -> None:
        marks = [mark for mark in ticks_of(self._t0, self._t1, 6) if self._t0 <= mark <= self._t1]
        step = marks[1] - marks[0] if len(marks) > 1 else 1.0
        for mark in marks:
            x = x0 + (mark - self._t0) / (self._t1 - self._t0) * (x1 - x0)
            self._line([(x, y1), (x, y1 + 5)], WALL_EDGE, 1)
            at_end = "ma" if x < x1 - 16 else "ra"
            self._text((x, y1 + 8), number_text(mark, step), FAINT, 14, at_end)

    def _curve(self, panel: Panel, points: Sequence[tuple[int, Span]], number: int, place: Any) -> None:
        colour = _colour(number)
        if any(span.high > span.low for _, span in points) and len(points) > 1:
            upper = [place(tick, span.high) for tick, span in points]
            lower = [place(tick, span.low) for tick, span in points]
            band = [(x * SCALE, y * SCALE) for x, y in (*upper, *reversed(lower))]
            self._draw.polygon(band, fill=(*colour, 46))
        line = [place(tick, span.mean) for tick, span in points]
        if len(line) > 1:
            self._line(line, colour, 1 if panel.dots else 2)
        if panel.dots or len(line) == 1:
            radius = 3 if len(line) < 100 else 2
            for x, y in line:
                box = (x - radius, y - radius, x + radius, y + radius)
                self._draw.ellipse([edge * SCALE for edge in box], fill=colour)

    def _box(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self._draw.rectangle([edge * SCALE for edge in (x0, y0, x1, y1)], outline=WALL_EDGE, width=SCALE)

    def _line(self, points: Sequence[tuple[float, float]], colour: Colour, width: int) -> None:
        self._draw.line([(x * SCALE, y * SCALE) for x, y in points], fill=colour, width=width * SCALE, joint="curve")

    def save(self, path: Path) -> None:
        """Write the PNG."""
        self._image.reduce(SCALE).save(path, format="PNG", optimize=True)


def _legend_rows(labels: Sequence[str]) -> int:
    rows, x = 1, 0.0
    for label in labels:
        wide = 40 + _width(label, 15)
        if x and x + wide > WIDTH_PX - 2 * MARGIN_PX:
            rows, x = rows + 1, 0.0
        x += wide + 24
    return rows


def _width(text: str, size: int) -> float:
    font = _font(size)
    return float(font.getlength(drawable(text, font))) / SCALE


def _font(size: int) -> Any:
    return ImageFont.load_default(size * SCALE)


def _colour(number: int) -> Colour:
    return RUNS[number % len(RUNS)]
