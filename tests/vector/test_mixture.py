"""Rows around given centres: the same for every length, by the formula, and of the spread that was asked for."""

import numpy as np
import pytest

from tensor.random import Key
from vector.errors import VectorValueError
from vector.synthetic import BLOCK_ROWS, mixture

CENTRES = np.arange(15, dtype=np.float32).reshape(3, 5) * np.float32(10)


def test_a_row_is_its_centre_plus_spread_times_a_normal_number() -> None:
    rows, which = mixture(CENTRES, 40, 0.75, 3)
    draws, noise = Key(3).split(2)
    assert (which == draws.randint(0, 3, 40).numpy()).all()
    expected = noise.normal((40, 5)).numpy() * np.float32(0.75) + CENTRES[which]
    assert rows.dtype == np.float32 and (rows == expected).all()


def test_a_longer_mixture_starts_with_a_shorter_one_and_blocks_leave_no_trace() -> None:
    count = BLOCK_ROWS + 3
    rows, which = mixture(CENTRES, count, 1.0, 5)
    for n in (0, 1, BLOCK_ROWS - 1, BLOCK_ROWS):
        fewer, which_fewer = mixture(CENTRES, n, 1.0, 5)
        assert (fewer == rows[:n]).all() and (which_fewer == which[:n]).all()
    assert (rows[BLOCK_ROWS:] != rows[:3]).all()


def test_every_centre_is_drawn_and_the_noise_has_the_spread() -> None:
    rows, which = mixture(CENTRES, 6000, 2.0, 0)
    assert np.bincount(which, minlength=3).min() > 1800
    apart = (rows - CENTRES[which]).astype(np.float64)
    assert abs(apart.mean()) < 0.05 and abs(apart.std() - 2.0) < 0.05


def test_no_spread_gives_the_centres_and_other_seeds_give_other_rows() -> None:
    rows, which = mixture(CENTRES, 9, 0.0, 1)
    assert (rows == CENTRES[which]).all()
    assert (mixture(CENTRES, 9, 1.0, 1)[0] != mixture(CENTRES, 9, 1.0, 2)[0]).any()


def test_strided_centres_are_centres() -> None:
    wide = np.repeat(CENTRES, 2, axis=1)
    assert (mixture(wide[:, ::2], 7, 1.0, 4)[0] == mixture(CENTRES, 7, 1.0, 4)[0]).all()


def test_rows_are_written_where_one_asks() -> None:
    table = np.zeros((9, 10), np.float32)
    rows, which = mixture(CENTRES, 6, 1.0, 4, out=table[2:8, ::2])
    expected, which_expected = mixture(CENTRES, 6, 1.0, 4)
    assert np.shares_memory(rows, table) and (rows == expected).all() and (which == which_expected).all()
    assert not table[:2].any() and not table[8:].any() and not table[:, 1::2].any()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"centres": CENTRES[0]}, "centres must be float32[m, d] with m and d of at least 1, got shape (5,)"),
        ({"centres": CENTRES[:0]}, "centres must be float32[m, d] with m and d of at least 1, got shape (0, 5)"),
        ({"centres": CENTRES + np.float32(np.inf)}, "centres must be finite"),
        ({"out": np.empty((3, 4), np.float32)}, "out must be float32[3, 5], got float32[3, 4]"),
        ({"out": np.empty((3, 5))}, "out must be float32[3, 5], got float64[3, 5]"),
        ({"n": -1}, "n must be from 0 to 2^40, got -1"),
        ({"spread": -0.5}, "spread must be from 0 to 1e+15, got -0.5"),
        ({"spread": float("nan")}, "spread must be from 0 to 1e+15, got nan"),
    ],
)
def test_what_makes_no_mixture_is_refused(change: dict[str, object], text: str) -> None:
    arguments: dict[str, object] = {"centres": CENTRES, "n": 3, "spread": 1.0, "seed": 0, **change}
    with pytest.raises(VectorValueError) as caught:
        mixture(**arguments)  # type: ignore[arg-type]
    assert str(caught.value) == f"mixture: {text}"


def test_float64_centres_are_told_how_to_be_float32() -> None:
    with pytest.raises(TypeError, match=r"mixture: centres must be float32, got float64\[3, 5\]"):
        mixture(CENTRES.astype(np.float64), 3, 1.0, 0)  # type: ignore[arg-type]
