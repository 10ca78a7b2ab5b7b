"""The picture of a run: blocked cells, each agent's path, zones coloured by how often they were served.

Drawn with Pillow at twice the size and reduced once, so that thin lines stay smooth. Only integers and a few ratios:
the picture shows a run, it is no part of any digest.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Point = tuple[float, float]

WIDTH_PX: Final = 1600
HEIGHT_PX_MAX: Final = 1400
OVERSAMPLING: Final = 2
MARGIN_PX, HEAD_PX, FOOT_PX = 48, 92, 96

PAPER: Final[Colour] = (250, 249, 246)
FLOOR: Final[Colour] = (255, 255, 255)
WALL: Final[Colour] = (205, 209, 216)
PASSABLE: Final[Colour] = (228, 222, 208)  # obstacles that stop nobody: they only keep zones from being served
MARGIN: Final[Colour] = (238, 240, 243)  # kept clear around an obstacle
ATTRACTS: Final[Colour] = (44, 140, 90)
REPELS: Final[Colour] = (170, 60, 120)
WALL_EDGE: Final[Colour] = (186, 191, 200)
INK: Final[Colour] = (38, 42, 51)
FAINT: Final[Colour] = (118, 124, 136)
UNSERVED: Final[Colour] = (168, 173, 182)
# Service counts, from few to many: straw, orange, red, plum.
SERVED: Final[tuple[Colour, ...]] = ((250, 206, 92), (243, 140, 54), (214, 64, 63), (122, 28, 92))
# Twelve paths before a colour comes again; none is near the zones' colours.
PATHS: Final[tuple[Colour, ...]] = (
    (31, 119, 180),
    (44, 140, 90),
    (23, 162, 184),
    (94, 92, 190),
    (98, 140, 30),
    (61, 90, 140),
    (0, 128, 128),
    (133, 110, 200),
    (60, 160, 120),
    (80, 130, 200),
    (70, 110, 60),
    (110, 140, 160),
)

NO_CHARACTER: Final = "\U0010fffe"  # drawn as the box that stands for a missing glyph
# Letters without a decomposition in Unicode, and signs that have a plain form.
SPELLED: Final = {
    **{"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D"},
    **{"ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ħ": "h", "Ħ": "H", "ı": "i", "ĸ": "k", "ł": "l", "Ł": "L"},
    **{"ŋ": "n", "Ŋ": "N", "ŧ": "t", "Ŧ": "T", "–": "-", "—": "-", "−": "-", "‐": "-", "×": "x", "„": '"'},
    **{
        "¡": "!",
        "÷": ":",
        "ŀ": "l",
        "Ŀ": "L",
        "ŉ": "'n",
        "¿": "?",
        "\N{SINGLE LOW-9 QUOTATION MARK}": "'",
        "\N{NO-BREAK SPACE}": " ",
    },
}


@dataclass(frozen=True)
class Bounds:
    """The part of the plane that is shown, in metres."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True)
class ZoneMark:
    """A zone: centre and radius in metres, and how often it was served in the ticks shown."""

    x: float
    y: float
    radius: float
    served: int


@dataclass
class PathsPicture:
    """Add kernels, walls and obstacles, then paths, then zones, and save.

    `title` and `subtitle` stand above the plan, `footnote` below it.
    """

    bounds: Bounds
    title: str
    subtitle: str
    footnote: str
    _ends: list[tuple[Point, Colour]] = field(init=False, repr=False, default_factory=list)
    _shown: dict[str, tuple[int, ...]] = field(init=False, repr=False, default_factory=dict)  # words of the legend
    _image: Any = field(init=False, repr=False)
    _draw: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        wide = max(self.bounds.x1 - self.bounds.x0, 1e-6)
        high = max(self.bounds.y1 - self.bounds.y0, 1e-6)
        self._scale = min((WIDTH_PX - 2 * MARGIN_PX) / wide, (HEIGHT_PX_MAX - HEAD_PX - FOOT_PX) / high)
        self.size = (WIDTH_PX, round(high * self._scale) + HEAD_PX + FOOT_PX)
        self._left = (WIDTH_PX - wide * self._scale) / 2
        self._image = Image.new("RGB", (self.size[0] * OVERSAMPLING, self.size[1] * OVERSAMPLING), PAPER)
        self._draw = ImageDraw.Draw(self._image, "RGBA")
        self._draw.rectangle(self._floor(), fill=FLOOR, outline=WALL_EDGE, width=OVERSAMPLING)

    def _floor(self) -> list[Point]:
        return [self._at(self.bounds.x0, self.bounds.y1), self._at(self.bounds.x1, self.bounds.y0)]

    def _at(self, x: float, y: float) -> Point:
        """Metres (east, north) to pixels of the large image (right, down)."""
        return (
            (self._left + (x - self.bounds.x0) * self._scale) * OVERSAMPLING,
            (HEAD_PX + (self.bounds.y1 - y) * self._scale) * OVERSAMPLING,
        )

    def _length(self, metres: float, least_px: float) -> float:
        return max(metres * self._scale, least_px) * OVERSAMPLING

    def walls(self, boxes: Iterable[tuple[float, float, float, float]]) -> None:
        """Blocked boxes (x0, y0, x1, y1) in metres: runs of cells."""
        for x0, y0, x1, y1 in boxes:
            self._draw.rectangle([self._at(x0, y1), self._at(x1, y0)], fill=WALL)

    def kernel(self, x: float, y: float, sigma: float, weight: float) -> None:
        """A Gaussian of the field: discs of one and two sigmas, faint."""
        colour = ATTRACTS if weight > 0 else REPELS
        for sigmas in (2, 1):
            self._draw.ellipse(self._around(x, y, sigmas * sigma), fill=(*colour, 22))
        self._shown["attracts" if weight > 0 else "repels"] = (*colour, 60)

    def margin(self, corners: Sequence[Point], metres: float) -> None:
        """What is kept clear around a shape: around its corners and edges, or around the centre of a circle."""
        if metres > 0:
            self._shown["margin"] = MARGIN
        for x, y in corners:
            self._draw.ellipse(self._around(x, y, metres), fill=MARGIN)
        if len(corners) > 1:
            edge = [self._at(x, y) for x, y in (*corners, corners[0])]
            self._draw.line(edge, fill=MARGIN, width=round(2 * metres * self._scale * OVERSAMPLING))

    def disc(self, x: float, y: float, radius: float, *, stops: bool) -> None:
        """A round obstacle; one that stops nobody has another colour than a wall."""
        self._draw.ellipse(self._around(x, y, radius), **self._body(stops))

    def polygon(self, corners: Sequence[Point], *, stops: bool) -> None:
        """An obstacle with corners."""
        self._draw.polygon([self._at(x, y) for x, y in corners], **self._body(stops))

    def _body(self, stops: bool) -> dict[str, Any]:
        self._shown["obstacle" if stops else "blocks zones only"] = WALL if stops else PASSABLE
        return {"fill": WALL if stops else PASSABLE, "outline": None if stops else WALL_EDGE}

    def _around(self, x: float, y: float, radius: float) -> list[Point]:
        return [self._at(x - radius, y + radius), self._at(x + radius, y - radius)]

    def trim(self) -> None:
        """Take away what lies outside the floor; before paths, zones and texts."""
        (left, top), (right, bottom) = self._floor()
        width, height = self._image.size
        for box in ((0, 0, width, top), (0, bottom, width, height), (0, 0, left, height), (right, 0, width, height)):
            self._draw.rectangle(box, fill=PAPER)
        self._draw.rectangle(self._floor(), outline=WALL_EDGE, width=OVERSAMPLING)

    def path(self, number: int, points: Sequence[Point], shift_m: float) -> None:
        """The path of one agent, moved aside by a little so that those of one lane lie side by side."""
        colour = PATHS[number % len(PATHS)]
        aside = ((number * 7) % 11 - 5) / 5 * shift_m
        line = [self._at(x + aside, y + aside) for x, y in points]
        width = round(self._length(0.09, 2.0))
        if len(line) > 1:
            self._draw.line(line, fill=(*colour, 96), width=width, joint="curve")
        if line:
            self._dot(line[0], self._length(0.16, 4.0), FLOOR, colour)
            self._ends.append((line[-1], colour))

    def zones(self, marks: Sequence[ZoneMark], least_px: float) -> None:
        """All zones, over them where the agents are at the end, and the legend of their colours."""
        most = max((mark.served for mark in marks), default=0)
        for mark in sorted(marks, key=lambda mark: mark.served):
            radius = self._length(mark.radius * 0.72, least_px)
            if mark.served:
                self._dot(self._at(mark.x, mark.y), radius, _shade(mark.served, most), FLOOR)
            else:
                self._dot(self._at(mark.x, mark.y), radius * 0.8, (*FLOOR, 200), UNSERVED)
        for place, colour in self._ends:
            self._dot(place, self._length(0.26, 4.4), colour, FLOOR)
        self._legend(most)

    def _dot(self, centre: Point, radius: float, fill: tuple[int, ...], edge: Colour) -> None:
        x, y = centre
        box = [x - radius, y - radius, x + radius, y + radius]
        self._draw.ellipse(box, fill=fill, outline=edge, width=max(OVERSAMPLING, round(radius / 3.5)))

    def _legend(self, most: int) -> None:
        left, top = self._left * OVERSAMPLING, (self.size[1] - FOOT_PX + 26) * OVERSAMPLING
        step, height = 2 * OVERSAMPLING, 14 * OVERSAMPLING
        small = _font(15 * OVERSAMPLING)
        self._dot((left + height / 2, top + height / 2), height / 2, FLOOR, UNSERVED)
        self._draw.text((left + 24 * OVERSAMPLING, top - 2 * OVERSAMPLING), "never served", INK, small)
        x = left + 150 * OVERSAMPLING
        for i in range(90):
            self._draw.rectangle([x + i * step, top, x + (i + 1) * step, top + height], fill=_ramp(i / 89))
        words = "served once" if most <= 1 else f"served 1 to {most} times"
        self._draw.text((x + 92 * step + 6 * OVERSAMPLING, top - 2 * OVERSAMPLING), words, INK, small)
        x += 92 * step + 210 * OVERSAMPLING
        for fill, edge, words, radius in ((FLOOR, PATHS[0], "start", 4.4), (PATHS[0], FLOOR, "end", 6.2)):
            self._dot((x, top + height / 2), radius * OVERSAMPLING, fill, edge)
            self._draw.text((x + 14 * OVERSAMPLING, top - 2 * OVERSAMPLING), words, INK, small)
            x += 80 * OVERSAMPLING
        for words, shade in self._shown.items():
            self._draw.rectangle([x, top, x + height, top + height], fill=shade, outline=WALL_EDGE)
            self._draw.text((x + 22 * OVERSAMPLING, top - 2 * OVERSAMPLING), words, INK, small)
            x += (46 + 8 * len(words)) * OVERSAMPLING

    def save(self, path: Path) -> None:
        """Write the PNG."""
        left = self._left * OVERSAMPLING
        foot_y = self.size[1] - FOOT_PX + 56
        for y, text, colour, size in (
            (20, self.title, INK, 28),
            (58, self.subtitle, FAINT, 16),
            (foot_y, self.footnote, FAINT, 13),
        ):
            font = _font(size * OVERSAMPLING)
            self._draw.text((left, y * OVERSAMPLING), drawable(text, font), colour, font)
        self._image.reduce(OVERSAMPLING).save(path, format="PNG", optimize=True)


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def drawable(text: str, font: Any = None) -> str:
    """The text in the glyphs that the font has: a letter loses its accent, what is left of others is "?".

    >>> drawable("Hof Süd, Ölmühle – 日本")
    'Hof Sud, Olmuhle - ??'
    """
    font = _font(16) if font is None else font
    none = bytes(font.getmask(NO_CHARACTER))
    composed = unicodedata.normalize("NFC", text)
    missing = {c for c in composed if not c.isascii() and bytes(font.getmask(c)) == none}
    return "".join(_plain(c) if c in missing else c for c in composed)


def _plain(character: str) -> str:
    if character in SPELLED:
        return SPELLED[character]
    letters = unicodedata.normalize("NFKD", character)
    kept = "".join(SPELLED.get(c, c) for c in letters if not unicodedata.combining(c))
    return kept if kept.isascii() and kept else "" if unicodedata.combining(character) else "?"


def _ramp(share: float) -> Colour:
    place = min(max(share, 0.0), 1.0) * (len(SERVED) - 1)
    i = min(int(place), len(SERVED) - 2)
    low, high, t = SERVED[i], SERVED[i + 1], place - i
    red, green, blue = (round(a + (b - a) * t) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _shade(served: int, most: int) -> Colour:
    return _ramp(0.0 if most <= 1 else (served - 1) / (most - 1))
