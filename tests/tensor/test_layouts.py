"""Layouts by pattern and by name, slices whose start is a value: against numpy, whole error texts."""

from __future__ import annotations

import re
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn

sys.path.insert(0, str(Path(__file__).parents[1]))
try:
    from composite_checks import CHECKS, Case
finally:
    sys.path.pop(0)

RNG = np.random.default_rng(20261130)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def patches(x: Any) -> Any:
    return np.stack([x[..., i : i + 2, j : j + 2].reshape(2, 12) for i in (0, 2) for j in (0, 2, 4)], 1)


def shuffled(x: Any) -> Any:
    """Channel c, block (i, j) of an element: plane 4·c + 2·i + j."""
    out = np.empty((*x.shape[:-3], 2, 6, 4))
    for c, i, j in np.ndindex(2, 2, 2):
        out[..., c, i::2, j::2] = x[..., 4 * c + 2 * i + j, :, :]
    return out


def updated(x: Any, new: Any) -> Any:
    out = x.copy()
    out[1:3, 2:5] = new
    return out


CASES = {
    "rearrange": Case(
        lambda x: tn.rearrange(x, "n (a b) ... -> (n b) ... a 1", a=2),
        [normal(2, 6, 3, 2)],
        lambda x: x.reshape(2, 2, 3, 3, 2).transpose(0, 2, 3, 4, 1).reshape(6, 3, 2, 2, 1),
    ),
    "rearrange joins the rest": Case(
        lambda x: tn.rearrange(x, "a ... b -> b (... a)"),
        [normal(2, 3, 4, 5)],
        lambda x: x.transpose(3, 1, 2, 0).reshape(5, 24),
    ),
    "pack": Case(
        lambda x, y: tn.pack([x, y], "a *")[0],
        [normal(2, 3), normal(2, 2, 2)],
        lambda x, y: np.concatenate([x, y.reshape(2, 4)], 1),
    ),
    "unpack": Case(
        lambda x: tn.unpack(x, [(2,), (), (2, 2)], "a *"),
        [normal(3, 7)],
        lambda x: [x[:, :2], x[:, 2], x[:, 3:].reshape(3, 2, 2)],
    ),
    "tile_view": Case(
        lambda x: tn.tile_view(x, 2, 3),
        [normal(2, 4, 6)],
        lambda x: np.stack(
            [np.stack([x[:, i : i + 2, j : j + 3] for j in (0, 3)], 1) for i in (0, 2)],
            1,
        ),
    ),
    "vec": Case(tn.vec, [normal(2, 3, 4)], lambda x: np.stack([m.reshape(-1, order="F") for m in x])),
    "patchify": Case(lambda x: tn.patchify(x, 2), [normal(2, 3, 4, 6)], patches),
    "pixel_shuffle": Case(lambda x: tn.pixel_shuffle(x, 2), [normal(2, 8, 3, 2)], shuffled),
    "pixel_unshuffle": Case(lambda x: tn.pixel_unshuffle(tn.pixel_shuffle(x, 2), 2), [normal(2, 8, 3, 2)], lambda x: x),
    "rope_split": Case(lambda x: tn.rope_split(x, 2), [normal(3, 5)], lambda x: [x[:, :2], x[:, 2:]]),
    "rope_merge": Case(tn.rope_merge, [normal(3, 2), normal(3, 3)], lambda x, y: np.concatenate([x, y], 1)),
    "dynamic_slice": Case(
        lambda x, i: tn.dynamic_slice(x, [i[0], 9, i[1]], (2, 3, 1)),
        [normal(4, 5, 2), np.array([1, -7])],
        lambda x, i: x[1:3, 2:5, :1],
    ),
    "dynamic_slice of ints": Case(
        lambda x: tn.dynamic_slice(x, (3, -1), (2, 5)), [normal(4, 5)], lambda x: x[2:4, 0:5]
    ),
    "dynamic_update_slice": Case(
        tn.dynamic_update_slice,
        [normal(4, 5), normal(2, 3), np.array([1, 8])],
        lambda x, new, i: updated(x, new),
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_the_function_passes(name: str, check: str) -> None:
    CHECKS[check](CASES[name])


def test_batches_may_begin_their_slices_in_different_places() -> None:
    x, new = tn.arange(30).reshape((3, 10)), tn.asarray([[-1, -2]] * 3)
    starts = tn.asarray([[0], [4], [99]])
    cut = tn.vmap(lambda row, at: tn.dynamic_slice(row, at, [2]))(x, starts)
    assert cut.tolist() == [[0, 1], [14, 15], [28, 29]]
    put = tn.vmap(tn.dynamic_update_slice)(x, new, starts)
    assert tn.vmap(lambda row, at: tn.dynamic_slice(row, at, [2]))(put, starts).tolist() == new.tolist()
    assert (put != x).sum().item() == 6


@settings(deadline=None)
@given(st.permutations("abcd"), st.data())
def test_every_transposition_and_join_has_a_way_back(order: list[str], data: st.DataObject) -> None:
    x = tn.arange(2 * 3 * 4 * 5).reshape((2, 3, 4, 5))
    cut = data.draw(st.integers(0, 4))
    joined = f"({' '.join(order[:cut])}) {' '.join(order[cut:])}"
    sizes = dict(zip("abcd", x.shape, strict=True))
    there = tn.rearrange(x, f"a b c d -> {joined}")
    assert tn.rearrange(there, f"{joined} -> a b c d", **sizes).tolist() == x.tolist()
    axes = ["abcd".index(name) for name in order]
    assert there.numpy().tolist() == x.numpy().transpose(axes).reshape(there.shape).tolist()


def test_layouts_that_strides_can_say_are_views() -> None:
    x = tn.arange(24.0).reshape((4, 6))
    for view in (
        *(tn.rearrange(x, f"(a b) c -> {' '.join(p)}", a=2) for p in permutations("abc")),
        tn.tile_view(x, 2, 3),
        *tn.rope_split(x, 2),
        *tn.unpack(x, [(2,), (4,)], "a *"),
    ):
        assert view.is_shared
        assert view.is_view


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a b", "rearrange 'a b': one '->' between two sides is needed"),
        ("a -> a -> a", "rearrange 'a -> a -> a': one '->' between two sides is needed"),
        ("a b -> a", "rearrange 'a b -> a': b must be on both sides (hint: sum, expand and tile)"),
        ("a b -> a b c", "rearrange 'a b -> a b c': c must be on both sides (hint: sum, expand and tile)"),
        ("a a -> a a", "rearrange 'a a -> a a': 'a' is there twice on one side"),
        ("(a (b)) -> a b", "rearrange '(a (b)) -> a b': parentheses do not nest"),
        ("a) b -> a b", "rearrange 'a) b -> a b': ')' without '('"),
        ("(a b -> a b", "rearrange '(a b -> a b': '(' without ')'"),
        ("a 12 -> a", "rearrange 'a 12 -> a': '12' is no name, 1, '...' or parenthesis"),
        ("a b! -> a b", "rearrange 'a b! -> a b': '!' is no name, 1, '...' or parenthesis"),
        ("(a ...) -> a ...", "rearrange '(a ...) -> a ...': '...' cannot be inside parentheses on the left"),
        ("(a b) c -> a b c", "rearrange '(a b) c -> a b c': the sizes of a and b are needed (hint: a=2)"),
    ],
)
def test_a_wrong_pattern_is_named(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tn.rearrange(tn.zeros((4, 6)), pattern)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: tn.rearrange(x, "a b c -> a b c"),
            "rearrange 'a b c -> a b c': the left side has 3 dimensions, x 2",
        ),
        (
            lambda x: tn.rearrange(x, "a (b c) -> a b c", b=4),
            "rearrange 'a (b c) -> a b c': a dimension of 6 is not divisible by 4, shape (4, 6)",
        ),
        (
            lambda x: tn.rearrange(x, "a 1 -> a"),
            "rearrange 'a 1 -> a': a dimension of 6 cannot be () of 1 elements",
        ),
        (
            lambda x: tn.rearrange(x, "a b ... c -> a b c ..."),
            "rearrange 'a b ... c -> a b c ...': the left side has 4 dimensions, x 2",
        ),
        (lambda x: tn.tile_view(x, 3, 2), "tile_view: 4 × 6 is not divisible by 3 × 2"),
        (lambda x: tn.patchify(x, 2), "patchify: at least 3 dimensions are needed, got shape (4, 6)"),
        (lambda x: tn.pixel_shuffle(x[None], 2), "pixel_shuffle: 1 channels are not divisible by 2²"),
        (lambda x: tn.pixel_unshuffle(x[None], 4), "pixel_unshuffle: 4 × 6 is not divisible by 4 × 4"),
        (lambda x: tn.rope_split(x, 7), "rope_split: 7 elements of the last dimension of shape (4, 6)"),
        (
            lambda x: tn.pack([x, x[:, 0, None, None]], "a * b"),
            "pack 'a * b': shapes (4, 6) and (4, 1, 1) differ beside *",
        ),
        (lambda x: tn.unpack(x, [(5,)], "a *"), "unpack: the shapes hold 5 elements, the dimension of * 6"),
        (
            lambda x: tn.dynamic_slice(x, [0, 0], [5, 1]),
            "dynamic_slice: a block of shape (5, 1) does not lie in shape (4, 6)",
        ),
        (lambda x: tn.dynamic_slice(x, [0], [1, 1]), "dynamic_slice: 1 starts for 2 dimensions"),
        (lambda x: tn.vec(x[0]), "vec: at least 2 dimensions are needed, got shape (6,)"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(tn.ShapeError) as caught:
        call(tn.zeros((4, 6)))
    assert str(caught.value) == message


def test_starts_beyond_every_type_are_clamped() -> None:
    x = tn.arange(5)
    for dtype, start, first in (("uint64", 2**64 - 1, 3), ("int64", -(2**63), 0), ("int8", 127, 3), ("uint8", 200, 3)):
        assert tn.dynamic_slice(x, [tn.asarray(start, dtype=dtype)], [2]).tolist() == [first, first + 1]
    assert tn.dynamic_slice(tn.zeros((0, 3)), [tn.asarray(4), 0], [0, 2]).shape == (0, 2)


def test_patterns_are_text_and_packs_have_one_type() -> None:
    with pytest.raises(TypeError, match=r"^rearrange: the pattern must be a str, got int$"):
        tn.rearrange(tn.zeros(3), 5)
    with pytest.raises(tn.DtypeError, match=r"^pack: the tensors must have one type, got float32, int64$"):
        tn.pack([tn.zeros(2), tn.arange(2)], "*")


def test_starts_must_be_integers_and_updates_of_the_type() -> None:
    x = tn.zeros(3)
    with pytest.raises(tn.DtypeError, match=r"^dynamic_slice: a start must be an int, got float$"):
        tn.dynamic_slice(x, [1.0], [1])
    with pytest.raises(
        tn.DtypeError, match=r"^dynamic_slice: a start must be an integer without dimensions, got float32"
    ):
        tn.dynamic_slice(x, [tn.asarray(1.0)], [1])
    with pytest.raises(tn.DtypeError, match=r"^dynamic_update_slice: the update must be float32 as x is, got int64$"):
        tn.dynamic_update_slice(x, tn.asarray([1]), [0])


def test_names_that_no_dimension_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^rearrange 'a -> a': no dimension is called b$"):
        tn.rearrange(tn.zeros(3), "a -> a", b=3)
    with pytest.raises(ValueError, match=r"^rearrange 'a -> a': the size a must be an int from 0, got 2.5$"):
        tn.rearrange(tn.zeros(3), "a -> a", a=2.5)
    with pytest.raises(ValueError, match=r"^pack: the pattern must be different names and one \*, got 'a b'$"):
        tn.pack([tn.zeros((2, 3))], "a b")
