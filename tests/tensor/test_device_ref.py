"""The test device `ref`: a model moves to it by one argument, and trains to the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels
from tensor.autograd import grad, vmap
from tensor.device import Device
from tensor.errors import DeviceError


def model(device: str) -> tuple[list[Any], Any, Any]:
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=s).astype(np.float32) * 0.3 for s in ((6, 8), (8,), (8, 3), (3,))]
    x, y = rng.normal(size=(10, 6)).astype(np.float32), rng.integers(0, 3, 10)
    return [tn.asarray(w, device=device) for w in weights], tn.asarray(x, device=device), tn.asarray(y, device=device)


def loss(weights: list[Any], x: Any, y: Any) -> Any:
    w1, b1, w2, b2 = weights
    hidden = tn.relu(x @ w1 + b1)
    return tn.cross_entropy(hidden @ w2 + b2, y)


def trained(device: str) -> list[list[Any]]:
    weights, x, y = model(device)
    for w in weights:
        w.requires_grad_()
    optimizer = tn.optim.AdamW(weights, lr=0.05)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(weights, x, y)
        value.backward()
        assert weights[0].grad.device == Device(device)
        optimizer.step()
        losses.append(value.item())
    assert losses[2] < losses[0]
    return [losses, *(w.detach().tolist() for w in weights)]


def test_a_model_trains_to_the_same_bits_on_both_devices():
    assert trained("ref") == trained("cpu")


def test_functions_of_functions_run_on_either_device():
    found = []
    for device in ("cpu", "ref"):
        weights, x, y = model(device)
        each = vmap(grad(loss), in_axes=(None, 0, 0))(weights, x.reshape((10, 1, 6)), y.reshape((10, 1)))
        assert each[0].device == Device(device)
        found.append([g.tolist() for g in each])
    assert found[0] == found[1]


def test_devices_do_not_mix():
    with pytest.raises(DeviceError, match=r"^add: inputs must lie on one device, got cpu and ref"):
        tn.ones((2,)) + tn.ones((2,), device="ref")


TRAINING = """
import hashlib, numpy as np, tensor as tn
rng = np.random.default_rng(5)
shapes = ((12, 40), (40,), (40, 5), (5,))
weights = [tn.asarray((rng.normal(size=s) * 0.3).astype(np.float32)).requires_grad_() for s in shapes]
x, y = tn.asarray(rng.normal(size=(37, 12)).astype(np.float32)), tn.asarray(rng.integers(0, 5, 37))
optimizer = tn.optim.AdamW(weights, lr=0.01)
for _ in range(STEPS):
    w1, b1, w2, b2 = weights
    optimizer.zero_grad()
    hidden = tn.gelu(tn.layer_norm(x @ w1 + b1, (40,)))
    tn.cross_entropy(tn.tanh(hidden) @ w2 + b2, y).backward()
    optimizer.step()
print(hashlib.sha256(b"".join(w.detach().numpy().tobytes() for w in weights)).hexdigest())
"""


@pytest.mark.slow
def test_training_gives_one_digest_whatever_computes(python: Any):
    best = _kernels.isa_best()
    isas = [best] if best == "neon" else ["v3", "v4"][: ["v3", "v4"].index(best) + 1]
    runs = [{"DROVEWAY_ISA": isa, "DROVEWAY_THREADS": str(n)} for isa in isas for n in (1, 2, 3, 7)]
    digests = set()
    for environment in [*runs, {"DROVEWAY_ISA": "ref"}]:
        done = python(TRAINING.replace("STEPS", "10"), **environment)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1
