"""Colours become bytes by one rule, in every build."""

from collections.abc import Callable

import numpy as np
import pytest

from splat import _kernels, bytes_ref

pytestmark = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref has no kernels")


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 65535, 65536, 65537, 200_000])
def test_the_kernel_gives_the_bytes_of_the_twin(n: int, threads: Callable[[int], None]) -> None:
    x = (np.random.default_rng(n).normal(size=n) * 0.7 + 0.5).astype(np.float32)
    expected = bytes_ref.to_bytes(x)
    for number in (1, 2, 3, 7):
        threads(number)
        out = np.full(n, 99, np.uint8)
        _kernels.to_bytes(x, out)
        np.testing.assert_array_equal(out, expected)


def test_the_binding_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="same length"):
        _kernels.to_bytes(np.zeros(3, np.float32), np.zeros(4, np.uint8))
