"""meta.json of a SOG scene: checked whole before an image is looked at. Page: docs/formats/sog.md."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.errors import SceneFileError
from splat.sog_container import SogContainer, check_name

META = "meta.json"
META_BYTES_MAX = 1 << 20
COUNT_MAX = 2**31 - 1
PALETTE_MAX = 65536
CODEBOOK = 256
COEFFICIENTS_OF_BANDS = {1: 3, 2: 8, 3: 15}

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Palette:
    """shN: coefficients that many splats share."""

    count: int
    bands: int
    codebook: F64  # [256]
    centroids: str
    labels: str

    @property
    def coefficients(self) -> int:
        """Coefficients a row of the palette, of each colour."""
        return COEFFICIENTS_OF_BANDS[self.bands]


@dataclass(frozen=True)
class SogMeta:
    """What meta.json says; the last five are names of images."""

    count: int
    antialiased: bool
    mins: tuple[float, ...]
    maxs: tuple[float, ...]
    scales_codebook: F64  # [256]
    sh0_codebook: F64  # [256]
    palette: Palette | None
    means_l: str
    means_u: str
    scales: str
    quats: str
    sh0: str


def read_meta(container: SogContainer) -> SogMeta:
    """Read and check meta.json. Raises SceneFileError, which names the key."""
    path = container.path
    data = container.read(META, META_BYTES_MAX)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            name = next(name for i, (name, _) in enumerate(pairs) if any(name == other for other, _ in pairs[:i]))
            raise SceneFileError(path, None, META, "each key once", f"{name[:60]!r} twice")
        return found

    try:
        value = json.loads(data, object_pairs_hook=once)
    except SceneFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise SceneFileError(path, None, META, "JSON", str(error)) from None
    top = _Table(value, path, META)
    version = top.get("version", 1)
    if version != 2:
        raise SceneFileError(path, None, f"{META}, version", "2", f"{version!r}"[:80])
    means, scales, quats, sh0 = (top.table(name) for name in ("means", "scales", "quats", "sh0"))
    means_l, means_u = means.files(2)
    return SogMeta(
        count=top.whole("count", 0, COUNT_MAX),
        antialiased=top.get("antialias", False) is True,
        mins=tuple(means.numbers("mins", 3)),
        maxs=tuple(means.numbers("maxs", 3)),
        scales_codebook=np.array(scales.numbers("codebook", CODEBOOK)),
        sh0_codebook=np.array(sh0.numbers("codebook", CODEBOOK)),
        palette=_palette(top.table("shN")) if top.get("shN", None) is not None else None,
        means_l=means_l,
        means_u=means_u,
        scales=scales.files(1)[0],
        quats=quats.files(1)[0],
        sh0=sh0.files(1)[0],
    )


def _palette(table: _Table) -> Palette:
    centroids, labels = table.files(2)
    return Palette(
        count=table.whole("count", 1, PALETTE_MAX),
        bands=table.whole("bands", 1, 3),
        codebook=np.array(table.numbers("codebook", CODEBOOK)),
        centroids=centroids,
        labels=labels,
    )


class _Table:
    """A JSON object whose values are taken by name and kind."""

    def __init__(self, value: Any, path: Path, where: str) -> None:
        self._path, self._where = path, where
        if not isinstance(value, dict):
            raise SceneFileError(path, None, where, "an object", type(value).__name__)
        self._values: dict[str, Any] = value

    def get(self, key: str, absent: Any) -> Any:
        return self._values.get(key, absent)

    def table(self, key: str) -> _Table:
        return _Table(self._required(key), self._path, f"{self._where}, {key}")

    def whole(self, key: str, low: int, high: int) -> int:
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._refuse(key, f"a whole number from {low} to {high}", value)
        return value

    def numbers(self, key: str, count: int) -> list[float]:
        value = self._required(key)
        if not isinstance(value, list) or len(value) != count:
            found = f"{len(value)} of them" if isinstance(value, list) else value
            raise self._refuse(key, f"{count} numbers", found)
        for number in value:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise self._refuse(key, f"{count} numbers", number)
            if abs(number) > 1e300 or not math.isfinite(number):
                raise self._refuse(key, "numbers of at most 1e300", number)
        return [float(number) for number in value]

    def files(self, count: int) -> list[str]:
        value = self._required("files")
        if not isinstance(value, list) or len(value) != count:
            raise self._refuse("files", f"{count} file name{'s' if count > 1 else ''}", value)
        return [check_name(name, self._path, f"{self._where}, files") for name in value]

    def _required(self, key: str) -> Any:
        if key not in self._values:
            raise SceneFileError(self._path, None, self._where, f"the key {key}", "none")
        return self._values[key]

    def _refuse(self, key: str, expected: str, found: Any) -> SceneFileError:
        text = found if isinstance(found, str) and found.endswith("of them") else repr(found)[:80]
        return SceneFileError(self._path, None, f"{self._where}, {key}", expected, text)
