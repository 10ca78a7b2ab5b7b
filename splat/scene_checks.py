"""Between the arrays of a file and a scene: non-finite splats and zero quaternions are counted, or repaired."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat.activation import normalize_quaternions, squared_norms
from splat.errors import SplatValueError
from splat.harmonics import coefficient_count, flip_axes
from tensor import memory

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]

BLOCK = 4096  # splats checked at a time: bounds the working memory, never a result
SHOWN_MAX = 5
REPAIR_HINT = "hint: --repair, in Python repair=True, drops what is not finite and takes identity for zero quaternions"
LOG_SCALE_MAX = 20.0  # e^20 is 485 million units: writers of other formats clamp here


@dataclass(frozen=True)
class SplatArrays:
    """What a reader fills: quaternions as the file has them, opacities activated.

    Shapes: means, log_scales [n, 3], quats [n, 4], opacities [n], sh [n, (degree + 1)², 3], all float32.
    """

    means: F32
    log_scales: F32
    quats: F32
    opacities: F32
    sh: F32

    def __len__(self) -> int:
        return len(self.means)


def allocate_arrays(n: int, degree: int) -> SplatArrays:
    """Arrays for n splats, counted in the active memory budgets; the system has them back once they are not used."""
    return SplatArrays(
        memory.allocate_in_pages((n, 3), np.float32, "scene means"),
        memory.allocate_in_pages((n, 3), np.float32, "scene log_scales"),
        memory.allocate_in_pages((n, 4), np.float32, "scene quats"),
        memory.allocate_in_pages((n,), np.float32, "scene opacities"),
        memory.allocate_in_pages((n, coefficient_count(degree), 3), np.float32, "scene sh"),
    )


def checked(arrays: SplatArrays, path: Path, axes: str, *, repair: bool) -> tuple[SplatArrays, tuple[str, ...]]:
    """Arrays that a scene may hold, in RDF, with unit quaternions, and warnings that say what was done or seen.

    Works in place where nothing is dropped. Raises SplatValueError, which counts what is wrong and names the first
    splats, unless `repair` says to drop splats with a value that is not finite and to turn zero quaternions into
    identity.
    """
    bad, zero, huge = _masks(arrays)
    faults, warnings = [], []
    if bad.any():
        faults.append(_counted(bad, "with values that are not finite"))
        warnings.append(f"dropped {faults[-1]}")
    if zero.any():
        faults.append(_counted(zero, "with a zero quaternion"))
        warnings.append(f"took identity for {faults[-1]}")
    if faults and not repair:
        raise SplatValueError(f"{path}: {'; '.join(faults)} ({REPAIR_HINT})")
    if huge.any():
        warnings.append(_counted(huge, f"with a scale above e^{LOG_SCALE_MAX:g}"))
    arrays.quats[zero] = (1.0, 0.0, 0.0, 0.0)
    if bad.any():
        arrays = _without(arrays, bad)
    for first in range(0, len(arrays), BLOCK):
        part = slice(first, first + BLOCK)
        arrays.quats[part] = normalize_quaternions(arrays.quats[part])
        flip_axes(arrays.means[part], arrays.quats[part], arrays.sh[part], axes)
    return arrays, tuple(warnings)


def not_finite(arrays: SplatArrays, part: slice) -> Mask:
    """Which splats of a part hold a value that is not finite, or an opacity outside 0..1."""
    opacities = arrays.opacities[part]
    good = (opacities >= 0) & (opacities <= 1)
    for values in (arrays.means[part], arrays.log_scales[part], arrays.quats[part]):
        good &= np.isfinite(values).all(axis=1)
    good &= np.isfinite(arrays.sh[part]).all(axis=(1, 2))
    return ~good


def first_indices(mask: Mask) -> str:
    """The first set indices, as an error shows them: "7, 9, 12, …"."""
    found = np.flatnonzero(mask)
    shown = ", ".join(str(i) for i in found[:SHOWN_MAX])
    return shown + (", …" if len(found) > SHOWN_MAX else "")


def _masks(arrays: SplatArrays) -> tuple[Mask, Mask, Mask]:
    """Not finite; zero quaternion and finite; huge scale and finite."""
    n = len(arrays)
    bad, zero, huge = (np.zeros(n, np.bool_) for _ in range(3))
    for first in range(0, n, BLOCK):
        part = slice(first, first + BLOCK)
        bad[part] = not_finite(arrays, part)
        with np.errstate(invalid="ignore"):
            zero[part] = ~bad[part] & (squared_norms(arrays.quats[part]) == 0)
            huge[part] = ~bad[part] & (arrays.log_scales[part] > LOG_SCALE_MAX).any(axis=1)
    return bad, zero, huge


def _counted(mask: Mask, what: str) -> str:
    count = int(np.count_nonzero(mask))
    one = count == 1
    return f"{count} splat{'' if one else 's'} {what} ({'index' if one else 'indices'} {first_indices(mask)})"


def _without(arrays: SplatArrays, bad: Mask) -> SplatArrays:
    """The splats that are not bad, moved to the front of the same memory."""
    keep = np.flatnonzero(~bad)
    columns = (arrays.means, arrays.log_scales, arrays.quats, arrays.opacities, arrays.sh)
    for column in columns:
        for first in range(0, len(keep), BLOCK):
            rows = keep[first : first + BLOCK]
            column[first : first + len(rows)] = column[rows]  # rows ascend: nothing is overwritten before it is read
    return SplatArrays(*(column[: len(keep)] for column in columns))
