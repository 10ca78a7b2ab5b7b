""".splat: 32 bytes a splat and no header. Page: docs/formats/splat.md."""

from __future__ import annotations

import numpy as np

from splat.errors import SceneFileError
from splat.harmonics import C0
from splat.scene_checks import BLOCK, SplatArrays, allocate_arrays
from splat.source_file import SourceFile
from tensor import elementary

RECORD = np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("quat", "u1", 4)])
SCALE_MIN = 2.0**-126  # a scale of 0 is a flat splat: it becomes the smallest normal float, whose logarithm is finite


def read_splat_file(source: SourceFile) -> SplatArrays:
    """The splats of an open .splat file. Raises SceneFileError where its size is no multiple of 32."""
    n, rest = divmod(source.size, RECORD.itemsize)
    if rest:
        raise SceneFileError(source.path, None, "size", "a multiple of 32 bytes", source.size)
    arrays = allocate_arrays(n, 0)
    for first in range(0, n, BLOCK):
        rows = source.read_rows(RECORD, min(BLOCK, n - first), "splats")
        part = slice(first, first + len(rows))
        arrays.means[part] = rows["mean"]
        scales = rows["scale"].astype(np.float64)
        scales[scales == 0] = SCALE_MIN
        arrays.log_scales[part] = elementary.log(scales, out=scales)
        arrays.sh[part, 0] = (rows["rgba"][:, :3] / 255.0 - 0.5) / C0
        arrays.opacities[part] = rows["rgba"][:, 3] / 255.0
        arrays.quats[part] = (rows["quat"] - 128.0) / 128.0
    return arrays
