"""The order by depth is stable, total, and the same for every build and number of threads."""

from collections.abc import Callable

import numpy as np
import pytest

from vector import VectorTypeError, VectorValueError, _kernels, depth_order, depth_ref


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 32767, 32768, 32769, 100_003])
def test_the_kernel_and_the_twin_agree_for_any_number_of_threads(n: int, threads: Callable[[int], None]) -> None:
    z = np.random.default_rng(n).integers(-50, 50, n).astype(np.float32)
    expected = depth_ref.depth_order(z)
    for number in (1, 2, 3, 7):
        threads(number)
        np.testing.assert_array_equal(depth_order(z), expected)


def test_equal_keys_and_both_zeros_keep_their_order() -> None:
    z = np.array([0.0, 5.0, -0.0, 0.0, -1.0, 5.0, -np.inf, np.inf, 1e-45, -1e-45], np.float32)
    assert depth_order(z).tolist() == [6, 4, 9, 0, 2, 3, 8, 1, 5, 7]


def test_the_order_is_ascending_for_every_bit_pattern() -> None:
    bits = np.random.default_rng(7).integers(0, 2**32, 50_000, dtype=np.uint64).astype(np.uint32)
    z = bits.view(np.float32)[~np.isnan(bits.view(np.float32))]
    assert (np.diff(z[depth_order(z)].astype(np.float64)) >= 0).all()


def test_strided_keys_give_the_order_of_their_copy() -> None:
    z = np.random.default_rng(3).normal(size=999).astype(np.float32)
    for view in (z[::3], z[::-2], np.stack([z, -z])[:, ::5][1]):
        np.testing.assert_array_equal(depth_order(view), depth_order(view.copy()))


def test_bad_keys_are_named() -> None:
    with pytest.raises(VectorValueError, match=r"^depth_order: z must hold no NaN, got one at z\[2\]$"):
        depth_order(np.array([1, 2, np.nan, np.nan], np.float32))
    with pytest.raises(
        VectorTypeError,
        match=r"^depth_order: z must be float32\[n\], got float64\[3\] \(hint: z.astype\(numpy.float32\)\)$",
    ):
        depth_order(np.zeros(3))
    with pytest.raises(
        VectorValueError, match=r"^depth_order: z must be float32\[n\] with n < 2\*\*32, got float32\[2, 2\]$"
    ):
        depth_order(np.zeros((2, 2), np.float32))


def test_the_binding_refuses_what_does_not_fit() -> None:
    if _kernels.isa() == "ref":
        pytest.skip("DROVEWAY_ISA=ref has no kernels")
    with pytest.raises(ValueError, match="same length"):
        _kernels.depth_order(np.zeros(3, np.float32), np.zeros(4, np.uint32))
