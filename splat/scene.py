"""A scene: n Gaussian splats as arrays, checked once, read from every format there is a reader for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat.activation import squared_norms
from splat.errors import SplatTypeError, SplatValueError
from splat.harmonics import AXES, DEGREE_OF_COUNT, check_axes
from splat.scene_checks import BLOCK, SplatArrays, first_indices, not_finite
from tensor.float_mode import plain_mode

F32 = NDArray[np.float32]

COLOR_SPACES = ("srgb",)
_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """n Gaussian splats in axes RDF (x right, y down, z forward), any unit of length.

    The arrays are float32; the scene holds read-only views of them, and copies what is not C-contiguous or not aligned.
    `antialiased`: the file asks for antialiased rendering. `color_space`: "srgb", what the colours are in.
    `source_axes`: the axes that the file was taken to be in. `warnings`: what a reader saw or repaired.

    Raises SplatTypeError for an element type other than float32, SplatValueError for shapes that do not fit together,
    values that are not finite, opacities outside 0..1 and quaternions that are not of unit length (within 1e-3).

    >>> import numpy as np
    >>> one = np.ones((1, 3), np.float32)
    >>> scene = Scene(one, -one, np.float32([[1, 0, 0, 0]]), np.float32([0.9]), one[None])
    >>> scene
    Scene(1 splats, degree 0, axes of the source RDF)
    """

    means: F32  # [n, 3]
    log_scales: F32  # [n, 3], natural logarithm of the standard deviation on each local axis
    quats: F32  # [n, 4], w x y z, unit
    opacities: F32  # [n], 0..1
    sh: F32  # [n, (degree + 1)², 3], coefficient 0 first, RGB last
    antialiased: bool = False
    color_space: str = "srgb"
    source_axes: str = "RDF"
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.means) if isinstance(self.means, np.ndarray) and self.means.ndim else 0
        for name, shape in (("means", (n, 3)), ("log_scales", (n, 3)), ("quats", (n, 4)), ("opacities", (n,))):
            self._take(name, shape)
        count = self.sh.shape[1] if isinstance(self.sh, np.ndarray) and self.sh.ndim == 3 else 0
        if isinstance(self.sh, np.ndarray) and count not in DEGREE_OF_COUNT:
            raise SplatValueError(
                f"Scene: sh must be float32[{n}, 1, 4, 9 or 16, 3], got {self.sh.dtype}{list(self.sh.shape)}"
            )
        self._take("sh", (n, count, 3))
        if self.color_space not in COLOR_SPACES:
            raise SplatValueError(f"Scene: color_space must be {' or '.join(COLOR_SPACES)}, got {self.color_space!r}")
        if self.source_axes not in AXES:
            raise SplatValueError(f"Scene: source_axes must be one of {', '.join(AXES)}, got {self.source_axes!r}")
        self._check_values()

    def __len__(self) -> int:
        return len(self.means)

    def __repr__(self) -> str:
        return f"Scene({len(self)} splats, degree {self.degree}, axes of the source {self.source_axes})"

    @property
    def degree(self) -> int:
        """Degree of the spherical harmonics, 0 to 3."""
        return DEGREE_OF_COUNT[self.sh.shape[1]]

    @staticmethod
    @plain_mode()
    def load(path: str | os.PathLike[str], axes: str | None = None, repair: bool = False) -> Scene:
        """Read a scene file: its format is told by its content first, then by the name's extension.

        Formats: INRIA .ply (ASCII and big-endian too), compressed .ply, .splat, and SOG version 2 as a folder, as its
        meta.json or as a .sog file; a page each in docs/formats. `axes` says in which axes the file is, where that is
        not what the format says ("RUB", …); the scene is RDF.
        `repair=True` drops splats with values that are not finite and takes identity for zero quaternions, and says so
        in `warnings`; without it they are an error.

        Raises OSError, SceneFileError for a file that is no scene or is damaged (path, offset, field, expected,
        found), SplatValueError for values that no scene may hold, BudgetExceeded.

        >>> import tempfile
        >>> one = np.ones((1, 3), np.float32)
        >>> scene = Scene(one, -one, np.float32([[1, 0, 0, 0]]), np.float32([0.5]), one[None])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     scene.save(folder + "/a.ply")
        ...     again = Scene.load(folder + "/a.ply", axes="RUB")
        >>> again.means.tolist(), again.opacities.tolist()
        ([[1.0, -1.0, -1.0]], [0.5])
        """
        from splat.reading import read_scene

        return read_scene(Path(path), None if axes is None else check_axes(axes, "Scene.load"), repair=repair)

    @plain_mode()
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an INRIA .ply (little-endian, with normals, as docs/formats/inria-ply.md says), replacing a file.

        The file appears under its name when it is complete. Opacities of 0 and 1 become those of a logit of ∓13.8155
        (1e-6 and 1 − 1e-6); everything else is kept as it is, and a scene that was saved and loaded once is saved to
        the same bytes again. Raises SplatValueError for a name that does not end in .ply, and OSError.
        """
        from splat.inria_ply import write_inria_ply

        target = Path(path)
        name = target.name.lower()
        if not name.endswith(".ply") or name.endswith(".compressed.ply"):
            raise SplatValueError(
                f"Scene.save: {target}: this version writes INRIA .ply only (hint: {target.name.split('.')[0]}.ply)"
            )
        write_inria_ply(self, target)

    def _take(self, name: str, shape: tuple[int, ...]) -> None:
        array: Any = getattr(self, name)
        wanted = f"float32{list(shape)}"
        if not isinstance(array, np.ndarray):
            raise SplatTypeError(
                f"Scene: {name} must be a numpy array {wanted}, got {type(array).__name__} (hint: numpy.float32)"
            )
        got = f"{array.dtype}{list(array.shape)}"
        if array.dtype != np.float32 or not array.dtype.isnative:
            raise SplatTypeError(f"Scene: {name} must be {wanted}, got {got} (hint: {name}.astype(numpy.float32))")
        if array.shape != shape:
            raise SplatValueError(f"Scene: {name} must be {wanted}, got {got}")
        view = np.require(array.view(np.ndarray), requirements=("C", "ALIGNED")).view()
        view.flags.writeable = False
        object.__setattr__(self, name, view)

    @plain_mode()
    def _check_values(self) -> None:
        arrays = SplatArrays(self.means, self.log_scales, self.quats, self.opacities, self.sh)
        bad, long = np.zeros(len(self), np.bool_), np.zeros(len(self), np.bool_)
        for first in range(0, len(self), BLOCK):
            part = slice(first, first + BLOCK)
            bad[part] = not_finite(arrays, part)
            with np.errstate(invalid="ignore"):
                long[part] = np.abs(squared_norms(self.quats[part]) - 1.0) > _UNIT_TOLERANCE
        if bad.any():
            raise SplatValueError(
                "Scene: all values must be finite and opacities from 0 to 1, "
                f"got {np.count_nonzero(bad)} splats with others, at {first_indices(bad)}"
            )
        if long.any():
            raise SplatValueError(
                f"Scene: quats must be of unit length, got {np.count_nonzero(long)} others, at {first_indices(long)} "
                "(hint: splat.activation.normalize_quaternions)"
            )
