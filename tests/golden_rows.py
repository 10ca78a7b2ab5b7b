"""One digest for each row of the registry, over its samples, element types and strides.

`digests()` runs every row on whatever the process runs: the kernels of DROVEWAY_ISA, or the twins under
DROVEWAY_ISA=ref, where [rows] of tests/golden.toml comes from. Neither the strides of the inputs nor the number of
threads may change a digest. tests/engine_digest.py is the command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from primitive_checks import (
    LAYOUTS,
    bits,
    dtypes_of,
    fresh,
    more_samples,
    on_ref,
    rows,
    run,
    samples_of,
    tensors_of,
)

from tensor.primitives.primitive import Primitive, Sample

HEX_DIGITS = 16


def cases(row: Primitive) -> Iterator[tuple[Sample, str]]:
    """Every sample of the row with each of its element types."""
    for sample in [*samples_of(row), *more_samples(row)]:
        for dtype in dtypes_of(row, sample):
            yield sample, dtype


def add(digest: Any, outs: tuple[Any, ...]) -> None:
    """Feeds types, shapes and bytes of results to a hash."""
    for out in outs:
        dtype, shape, data = bits(out)
        digest.update(f"{dtype}{list(shape)}".encode() + data)


def row_digest(row: Primitive, layout: str = "contiguous", *, on_twins: bool = False) -> str:
    """The digest of one row; on_twins: by its twin, whatever the process runs."""
    digest = hashlib.sha256()
    for sample, dtype in cases(row):
        inputs = tensors_of(sample, dtype, layout)
        if on_twins:
            inputs = tuple(on_ref(x) for x in inputs)
        add(digest, run(row, fresh(row, inputs), sample.params))
    return digest.hexdigest()[:HEX_DIGITS]


def digests(layout: str = "contiguous") -> dict[str, str]:
    """The digest of every row, by name."""
    return {row.name: row_digest(row, layout) for row in rows()}


__all__ = ["LAYOUTS", "add", "cases", "digests", "row_digest"]
