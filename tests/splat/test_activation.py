"""Opacities, logits, unit quaternions: close to the true values, and the same a second time."""

from __future__ import annotations

import mpmath
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from splat.activation import LOGIT_MAX, logit, normalize_quaternions, sigmoid

F32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.floats(-100, 100, width=32))
def test_sigmoid_is_the_nearest_float_or_its_neighbour(x: float) -> None:
    with mpmath.workprec(200):
        true = float(1 / (1 + mpmath.exp(-mpmath.mpf(x))))
    got = sigmoid(np.float32([x]))[0]
    assert abs(float(got) - true) <= np.spacing(np.float32(true)) * 0.5001


@given(st.floats(0, 1, width=32))
def test_logit_is_the_nearest_float_or_its_neighbour_and_clamped(o: float) -> None:
    with mpmath.workprec(200):
        true = float(mpmath.log(mpmath.mpf(o) / (1 - mpmath.mpf(o)))) if 0 < o < 1 else (2 * o - 1) * 99
    true = min(max(true, -LOGIT_MAX), LOGIT_MAX)
    if o >= float(sigmoid(np.float32([LOGIT_MAX]))[0]):
        true = LOGIT_MAX  # of the many logits of this float32, the one that comes back
    got = logit(np.float32([o]))[0]
    assert abs(float(got) - true) <= max(np.spacing(abs(np.float32(true))) * 0.5001, 1e-16)


def test_a_logit_comes_back_from_its_opacity() -> None:
    o = np.concatenate(
        [
            np.arange(0, 0x3F800001, 997, dtype=np.uint32).view(np.float32),
            np.linspace(0, 1, 1_000_001, dtype=np.float32),
        ]
    )
    first = logit(o)
    assert (logit(sigmoid(first)) == first).all()


@given(arrays.arrays(np.float32, (5, 4), elements=F32))
def test_a_normalized_quaternion_is_of_unit_length_and_stays_as_it_is(quats: np.ndarray) -> None:
    once = normalize_quaternions(quats)
    length = np.linalg.norm(once.astype(float), axis=1)
    nonzero = (quats != 0).any(axis=1)
    assert (abs(length[nonzero] - 1) < 2e-7).all() and not once[~nonzero].any()
    assert normalize_quaternions(once).tobytes() == once.tobytes()


def test_the_host_s_float_mode_turns_no_quaternion(hostile_mode) -> None:
    quats = np.random.default_rng(2).normal(size=(100, 4)).astype(np.float32)
    wanted = normalize_quaternions(quats).tobytes()
    with hostile_mode():
        assert normalize_quaternions(quats).tobytes() == wanted
