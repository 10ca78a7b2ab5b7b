"""PyTorch's tensors as inputs and outputs, and the special cases of its pow; needs the bench extra."""

from __future__ import annotations

import numpy as np
import pytest

import tensor
from tensor import elementary

try:
    import torch
except ImportError:
    torch = None
# A mark, not importorskip: a run that leaves oracles out must not count this file as skipped.
pytestmark = [pytest.mark.oracle, pytest.mark.skipif(torch is None, reason="PyTorch comes with the extra bench")]

EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, -1e-40, 3.4e38, 1e10], np.float32)


def test_pow_has_the_special_cases_of_torch() -> None:
    values = np.concatenate([EDGES, np.array([2, -2, 0.5, -0.5, 3, -3, 2.5], np.float32)])
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(values, values))
    expected = torch.pow(torch.from_numpy(x.astype(np.float64)), torch.from_numpy(y.astype(np.float64))).numpy()
    with np.errstate(over="ignore"):
        expected = expected.astype(np.float32)
    got = elementary.pow(x, y)
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))


def test_torch_tensors_are_read_and_written_through_dlpack() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    expected = elementary.log(x.numpy())
    for view in (x, x.T, x[:, ::2], x[0, 1]):
        assert np.array_equal(elementary.log(view), np.log(view.numpy().astype(np.float64)).astype(np.float32))
    out = torch.empty(2, 3)
    elementary.log(x, out=out)
    assert np.array_equal(out.numpy(), expected)
    assert tensor.digest(x) == tensor.digest(x.numpy())
    with pytest.raises(tensor.DtypeError, match="numpy does not know"):
        elementary.exp(x.to(torch.bfloat16))
