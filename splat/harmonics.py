"""Spherical harmonics up to degree 3: the basis, the signs of its functions when axes flip, and axis names.

The basis is the one of the 3DGS papers' files, with d = (x, y, z) the unit vector from the camera to the splat:

    Y0      C0
    Y1..3   C1 · (−y, z, −x)
    Y4..8   1.0925·xy, −1.0925·yz, 0.3154·(2zz−xx−yy), −1.0925·xz, 0.5463·(xx−yy)
    Y9..15  −0.5900·y(3xx−yy), 2.8906·xyz, −0.4570·y(4zz−xx−yy), 0.3732·z(2zz−3xx−3yy), −0.4570·x(4zz−xx−yy),
            1.4453·z(xx−yy), −0.5900·x(xx−3yy)

Axes are named by what x, y and z point to: R or L (right, left), D or U (down, up), F or B (forward, back). Scenes are
RDF inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from splat.errors import SplatValueError

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

DEGREE_MAX = 3
C0 = 0.28209479177387814
C1 = 0.4886025119029199
C2 = (1.0925484305920792, -1.0925484305920792, 0.31539156525252005, -1.0925484305920792, 0.5462742152960396)
C3 = (
    -0.5900435899266435, 2.890611442640554, -0.4570457994644658, 0.3731763325901154, -0.4570457994644658,
    1.445305721320277, -0.5900435899266435,
)  # fmt: skip
DEGREE_OF_COUNT = {(degree + 1) * (degree + 1): degree for degree in range(DEGREE_MAX + 1)}
AXES = tuple(x + y + z for x in "RL" for y in "DU" for z in "FB")


def coefficient_count(degree: int) -> int:
    """Coefficients of each colour channel up to a degree: (degree + 1)².

    >>> [coefficient_count(degree) for degree in range(4)]
    [1, 4, 9, 16]
    """
    return (degree + 1) * (degree + 1)


def basis(directions: F64, degree: int) -> F64:
    """The functions Y_k at unit vectors. directions: float64[n, 3] → float64[n, (degree + 1)²].

    >>> basis(np.array([[0.0, 0.0, 1.0]]), 1).round(4).tolist()
    [[0.2821, -0.0, 0.4886, -0.0]]
    """
    x, y, z = directions[:, 0], directions[:, 1], directions[:, 2]
    xx, yy, zz = x * x, y * y, z * z
    functions = [np.full_like(x, C0)]
    if degree >= 1:
        functions += [-C1 * y, C1 * z, -C1 * x]
    if degree >= 2:
        polynomials = (x * y, y * z, 2 * zz - xx - yy, x * z, xx - yy)
        functions += [c * p for c, p in zip(C2, polynomials, strict=True)]
    if degree >= 3:
        cubic = (
            y * (3 * xx - yy), x * y * z, y * (4 * zz - xx - yy), z * (2 * zz - 3 * xx - 3 * yy),
            x * (4 * zz - xx - yy), z * (xx - yy), x * (xx - 3 * yy),
        )  # fmt: skip
        functions += [c * p for c, p in zip(C3, cubic, strict=True)]
    return np.stack(functions, axis=1)


def check_axes(axes: str, function: str) -> str:
    """The name itself. Raises SplatValueError for a name that is none of AXES."""
    if axes not in AXES:
        raise SplatValueError(f"{function}: axes must be one of {', '.join(AXES)}, got {axes!r}")
    return axes


def flip_signs(axes: str) -> tuple[int, int, int]:
    """(sx, sy, sz) that turn coordinates of these axes into RDF, and back.

    >>> flip_signs("RUB")
    (1, -1, -1)
    """
    check_axes(axes, "flip_signs")
    return tuple(1 if a == b else -1 for a, b in zip(axes, "RDF", strict=True))  # type: ignore[return-value]


def coefficient_signs(signs: tuple[int, int, int], degree: int) -> tuple[int, ...]:
    """What each coefficient is multiplied with when x, y, z are multiplied with `signs`.

    >>> "".join("+" if s > 0 else "-" for s in coefficient_signs((1, -1, -1), 3))
    '+--+-++-+-+--+-+'
    """
    sx, sy, sz = signs
    bands = (
        (1,),
        (sy, sz, sx),
        (sx * sy, sy * sz, 1, sx * sz, 1),
        (sy, sx * sy * sz, sy, sz, sx, sz, sx),
    )
    return tuple(sign for band in bands[: degree + 1] for sign in band)


def flip_axes(means: F32, quats: F32, sh: F32, axes: str) -> None:
    """Turn means [n, 3], quaternions [n, 4] and coefficients [n, k, 3] of these axes into RDF, in place.

    A flip of an odd number of axes mirrors the scene; a Gaussian's ellipsoid has a mirror image that is a rotated one.
    """
    signs = flip_signs(axes)
    if signs == (1, 1, 1):
        return
    sx, sy, sz = signs
    means *= np.array(signs, np.float32)
    quats *= np.array((1, sy * sz, sx * sz, sx * sy), np.float32)
    sh *= np.array(coefficient_signs(signs, DEGREE_OF_COUNT[sh.shape[1]]), np.float32)[:, None]
