"""Cosine transforms, short-time transforms, convolution by transform: scipy, numpy, and the way back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import fft as scipy_fft  # type: ignore[import-untyped]
from scipy import signal

import tensor as tn
from tensor import spectral

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261205)
WINDOW = np.hanning(7)[:6]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def frames_of(x: Any, window: Any, hop: int, n: int) -> Any:
    full = np.zeros(n)
    before = (n - len(window)) // 2
    full[before : before + len(window)] = window
    return np.stack([x[..., i : i + n] * full for i in range(0, x.shape[-1] - n + 1, hop)], axis=-2)


CASES = {
    f"dct {kind} {norm}": Case(
        lambda x, kind=kind, norm=norm: spectral.dct(x, type=kind, norm=norm, axis=0),  # type: ignore[misc]
        [normal(7, 2)],
        lambda x, kind=kind, norm=norm: scipy_fft.dct(x, type=kind, norm=norm, axis=0),  # type: ignore[misc]
        tolerance=1e-11,
    )
    for kind in (1, 2, 3, 4)
    for norm in ("backward", "ortho", "forward")
} | {
    "stft": Case(
        lambda x, w: spectral.stft(x, w, 3, n_fft=8),
        [normal(2, 20), WINDOW],
        lambda x, w: np.fft.rfft(frames_of(x, w, 3, 8)),
    ),
    "stft of both sides around each sample": Case(
        lambda x, w: spectral.stft(x, w, 2, center=True, onesided=False),
        [normal(9), WINDOW],
        lambda x, w: np.fft.fft(frames_of(np.pad(x, 3), w, 2, 6)),
    ),
    "istft": Case(
        lambda x, w: spectral.istft(spectral.stft(x, w, 2), w, 2),
        [normal(2, 14), WINDOW + 0.1],
        lambda x, w: x,
        moving=(0,),
    ),
    "spectral_conv": Case(
        lambda x, w: spectral.spectral_conv(x, w, axis=1),
        [normal(3, 9, 2), normal(1, 4, 2)],
        lambda x, w: np.stack(
            [np.stack([np.convolve(x[i, :, j], w[0, :, j]) for j in range(2)], axis=1) for i in range(3)]
        ),
        tolerance=1e-10,
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 100])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_cosine_transforms_of_any_length(kind: int, n: int) -> None:
    if kind == 1 and n == 1:
        with pytest.raises(tn.ShapeError, match=r"^dct: type 1 needs 2 or more elements, got shape \(1,\)$"):
            spectral.dct(tn.ones(1), type=1)
        return
    x = normal(n)
    for norm in ("backward", "ortho", "forward"):
        came = spectral.dct(tn.asarray(x), type=kind, norm=norm)  # type: ignore[arg-type]
        np.testing.assert_allclose(came.numpy(), scipy_fft.dct(x, kind, norm=norm), rtol=1e-11, atol=1e-12)


def test_orthonormal_transforms_of_types_2_and_3_undo_each_other() -> None:
    x = tn.asarray(normal(3, 11))
    back = spectral.dct(spectral.dct(x, norm="ortho"), type=3, norm="ortho")
    np.testing.assert_allclose(back.numpy(), x.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("n_fft", "hop", "center"), [(16, 4, True), (16, 8, False), (25, 5, True), (25, 10, True)])
def test_short_time_transforms_have_a_way_back(n_fft: int, hop: int, center: bool) -> None:
    x, w = normal(2, 120), signal.get_window("hamming", n_fft)
    for onesided in (True, False):
        there = spectral.stft(tn.asarray(x), tn.asarray(w), hop, center=center, onesided=onesided)
        back = spectral.istft(there, tn.asarray(w), hop, center=center, onesided=onesided, length=120).numpy()
        last = (there.shape[-2] - 1) * hop + (n_fft - n_fft // 2 * 2 if center else n_fft)
        np.testing.assert_allclose(back[:, :last], x[:, :last], rtol=1e-12, atol=1e-12)


def test_scipys_frames_are_ours() -> None:
    x, w = normal(200), signal.get_window("hann", 32)
    _, _, theirs = signal.stft(x, window=w, nperseg=32, noverlap=24, boundary=None, padded=False)
    ours = spectral.stft(tn.asarray(x), tn.asarray(w), 8).numpy() / w.sum()
    np.testing.assert_allclose(ours.T, theirs, rtol=1e-11, atol=1e-13)


def test_results_have_the_width_of_their_inputs() -> None:
    x = tn.ones(16)
    assert spectral.dct(x).dtype == tn.float32
    assert spectral.stft(x, x[:8], 4).dtype == tn.complex64
    assert spectral.istft(spectral.stft(x, x[:8], 4), x[:8], 4).dtype == tn.float32
    assert spectral.spectral_conv(x, x).dtype == tn.float32
    assert spectral.istft(spectral.stft(x, x[:8], 8), x[:8], 8, length=20).tolist() == [1.0] * 16 + [0.0] * 4


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: spectral.dct(x, type=5), ValueError, "dct: type must be 1, 2, 3 or 4, got 5"),
        (
            lambda x: spectral.dct(x, norm="none"),
            ValueError,
            "dct: norm must be 'backward', 'ortho' or 'forward', got 'none'",
        ),
        (lambda x: spectral.dct(tn.arange(3)), tn.DtypeError, "dct: expected float32 or float64, got int64"),
        (
            lambda x: spectral.stft(x[:3], x, 1),
            tn.ShapeError,
            "stft: a frame of 10 does not fit 3 samples (hint: center=True)",
        ),
        (lambda x: spectral.stft(x, x[:4], 0), ValueError, "stft: hop must be an int from 1, got 0"),
        (
            lambda x: spectral.stft(x, x[:4], 1, n_fft=3),
            ValueError,
            "stft: n_fft must be at least the window's 4 elements, got 3",
        ),
        (
            lambda x: spectral.istft(tn.zeros((2, 4), dtype=tn.complex64), x[:4], 1),
            tn.ShapeError,
            "istft: shape (2, 4) holds no frames of n_fft = 4, onesided=True",
        ),
        (
            lambda x: spectral.istft(tn.zeros((2, 3), dtype=tn.complex64), x[:4], 1, length=-1),
            ValueError,
            "istft: length must be an int from 0, got -1",
        ),
        (
            lambda x: spectral.istft(x, x[:4], 1),
            tn.DtypeError,
            "istft: expected complex64 or complex128, got float32",
        ),
        (
            lambda x: spectral.spectral_conv(x, x[None]),
            tn.ShapeError,
            "spectral_conv: x and w need as many dimensions, got shapes (10,) and (1, 10)",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tn.ones(10))
    assert str(caught.value) == message
