"""The host's floating-point mode (another library may flush subnormals or round up) reaches no answer of an index."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tensor.random import Key
from vector import TurboIndex, codebook, rotate_f32


@contextmanager
def hostile_mode() -> Iterator[None]:
    """Round up, flush subnormals and take them as zero, for this thread."""
    libm = ctypes.CDLL("libm.so.6")
    saved = ctypes.create_string_buffer(64)
    libm.fegetenv(saved)
    hostile = bytearray(saved.raw)
    offset, bits = (28, 0x8040 | 0x4000) if platform.machine() == "x86_64" else (0, 1 << 24 | 1 << 22)
    (control,) = struct.unpack_from("<I", hostile, offset)
    struct.pack_into("<I", hostile, offset, control | bits)
    libm.fesetenv(ctypes.create_string_buffer(bytes(hostile), 64))
    try:
        yield
        assert (np.array([1e-40], np.float32) * np.ones(1, np.float32))[0] == 0, "the mode is set to the end"
    finally:
        libm.fesetenv(saved)


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_answers_and_files_are_the_same_in_a_hostile_mode(metric: str, tmp_path: Path):
    x, q = Key(1).normal((700, 100)), np.ldexp(Key(2).normal((9, 100)), -100)

    def results() -> list[object]:
        codebook.boundaries.cache_clear()
        index = TurboIndex(100, metric=metric)
        index.add(x)
        index.remove(3)
        cid = index.save(tmp_path / "a.jvi")
        again = TurboIndex.load(tmp_path / "a.jvi")
        arrays = [*again.search(q, 20), again.reconstruct(5), rotate_f32(q)]
        return [cid, index.cid, *(array.tobytes() for array in arrays)]

    expected = results()
    with hostile_mode():
        found = results()
    assert found == expected
