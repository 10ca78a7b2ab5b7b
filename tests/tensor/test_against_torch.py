"""Our kernels against PyTorch in float64, as an independent oracle; needs the bench extra."""

from typing import Any

import numpy as np
import pytest

from tensor import elementary, product, reduction

pytestmark = pytest.mark.oracle

# Exact to far less than a float32 ulp, so half an ulp of torch's own float64 never hides one of ours.
SLACK = 1.000001
DOMAINS = {
    "exp": (-104.0, 88.7),
    "log": (1e-38, 3e38),
    "sin": (-1e5, 1e5),
    "cos": (-1e5, 1e5),
    "tanh": (-12.0, 12.0),
    "erf": (-5.0, 5.0),
    "sqrt": (0.0, 3e38),
}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch comes with the extra bench")


def inputs(low: float, high: float, count: int = 200_001) -> np.ndarray:
    """float32 points: even in value for one half, even in exponent for the other."""
    rng = np.random.default_rng(20)
    flat = rng.uniform(low, high, count // 2)
    top = np.log2(max(abs(low), abs(high)))
    sizes = np.exp2(rng.uniform(-40.0, top, count - count // 2))
    signs = np.where(rng.random(len(sizes)) < 0.5, -1.0, 1.0) if low < 0 else 1.0
    return np.clip(np.concatenate([flat, sizes * signs]), low, high).astype(np.float32)


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in ulps of the float32 nearest to the exact value."""
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - exact) / unit))


@pytest.mark.parametrize("name", DOMAINS)
def test_float32_functions_are_within_1_ulp_of_torch_in_float64(torch: Any, name: str) -> None:
    x = inputs(*DOMAINS[name])
    exact = getattr(torch, name)(torch.from_numpy(x.astype(np.float64))).numpy()
    assert ulps(getattr(elementary, name)(x), exact) <= SLACK


def test_pow_is_within_1_ulp_of_torch_in_float64(torch: Any) -> None:
    rng = np.random.default_rng(21)
    x = np.exp2(rng.uniform(-20, 20, 100_000)).astype(np.float32)
    y = rng.uniform(-6, 6, 100_000).astype(np.float32)
    exact = torch.pow(torch.from_numpy(x.astype(np.float64)), torch.from_numpy(y.astype(np.float64))).numpy()
    normal = (exact > 2.0**-126) & (exact < 2.0**127)
    assert normal.sum() > 50_000
    assert ulps(elementary.pow(x, y)[normal], exact[normal]) <= SLACK


@pytest.mark.parametrize(("name", "low", "high"), [("exp", -700.0, 700.0), ("log", 1e-300, 1e300)])
def test_float64_functions_agree_with_torch(torch: Any, name: str, low: float, high: float) -> None:
    x = np.random.default_rng(22).uniform(low, high, 100_000)
    exact = getattr(torch, name)(torch.from_numpy(x)).numpy()
    error = np.abs(getattr(elementary, name)(x) - exact) / np.spacing(np.abs(exact))
    assert error.max() <= 2.0


@pytest.mark.parametrize("count", [1, 15, 4096, 4097, 1_000_003])
def test_sums_and_dots_agree_with_torch_in_float64(torch: Any, count: int) -> None:
    rng = np.random.default_rng(count)
    x, y = rng.standard_normal(count).astype(np.float32), rng.standard_normal(count).astype(np.float32)
    a, b = torch.from_numpy(x.astype(np.float64)), torch.from_numpy(y.astype(np.float64))
    bound = 2.0**-23 * 24  # the depth of the tree, generously
    assert abs(float(reduction.sum(x)) - float(a.sum())) <= bound * float(a.abs().sum())
    assert abs(float(reduction.dot(x, y)) - float(a @ b)) <= bound * float((a * b).abs().sum())


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 300, 33), (257, 513, 129)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrix_products_agree_with_torch_in_float64(torch: Any, shape: tuple[int, int, int], dtype: type) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    left, right = torch.from_numpy(a.astype(np.float64)), torch.from_numpy(b.astype(np.float64))
    error = np.abs(product.matmul(a, b).astype(np.float64) - (left @ right).numpy())
    assert (error <= np.finfo(dtype).eps * k * (left.abs() @ right.abs()).numpy()).all()
