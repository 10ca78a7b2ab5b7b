"""Products of matrices of every type, in batches, from views: the bits of the twin, whatever is beside an element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensor as tn
from tensor import DtypeError, ShapeError, _kernels
from tensor.selftest_ref import awkward, values
from tensor.twins import contraction_ref, quantised_ref

FLOATS = ("float16", "bfloat16", "float32", "float64")
KINDS = (*FLOATS, "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def made(seed: int, shape: tuple[int, ...], kind: str):
    """Numbers of the kind: small ones, so that halves neither overflow nor vanish."""
    n = int(np.prod(shape))
    if kind.startswith("complex"):
        return tn.asarray(values(seed, 2 * n, np.dtype(f"float{int(kind[7:]) // 2}")).view(kind).reshape(shape))
    if kind in ("float32", "float64"):
        return tn.asarray(values(seed, n, np.dtype(kind)).reshape(shape))
    if kind in FLOATS:
        return tn.astype(tn.asarray((np.random.default_rng(seed).integers(-99, 99, shape) / 16).astype("f4")), kind)
    return tn.asarray(np.random.default_rng(seed).integers(-100 if kind[0] == "i" else 0, 100, shape).astype(kind))


def array(x):
    """A numpy array of a tensor, as twins take it."""
    from tensor.primitives.twin_call import array_of

    return array_of(x)


def bits(x) -> tuple[tuple[int, ...], bytes]:
    a = np.ascontiguousarray(array(x) if isinstance(x, tn.Tensor) else x)
    return a.shape, a.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(
    m=st.integers(0, 30),
    n=st.integers(0, 70),
    k=st.integers(0, 20) | st.sampled_from([255, 256, 257, 520]),
    batch=st.sampled_from([((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((2,), (2,))]),
    turned=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 1000),
)
def test_a_product_has_the_bits_of_the_twin(kind, m, n, k, batch, turned, seed):
    if k > 20 and m * n > 300:
        m, n = min(m, 17), min(n, 17)
    left, right = (*batch[0], m, k), (*batch[1], k, n)
    a = made(seed, (*batch[0], k, m), kind).mT if turned[0] else made(seed, left, kind)
    b = made(seed + 1, (*batch[1], n, k), kind).mT if turned[1] else made(seed + 1, right, kind)
    assert bits(tn.matmul(a, b)) == bits(contraction_ref.matmul(array(a), array(b)))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_any_bit_patterns_in_a_batch_give_the_bits_of_the_twin(kind):
    dtype = np.dtype(kind)
    for seed in range(10):
        a = tn.asarray(awkward(seed, 2 * 15 * 9, dtype).reshape(2, 15, 9))
        b = tn.asarray(awkward(seed + 1, 9 * 34, dtype).reshape(9, 34))
        assert bits(a @ b) == bits(contraction_ref.matmul(array(a), array(b)))


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 130, 700), (2, 700, 90)), ((1, 900), (900, 400)), ((900, 400), (400, 1)), ((40, 30), (30, 9))],
)
def test_large_products_do_not_depend_on_threads_nor_on_the_rows_beside(kind, left, right, threads):
    a, b = made(1, left, kind), made(2, right, kind)
    found = set()
    for count in (1, 2, 3, 7):
        threads(count)
        found.add(bits(a @ b))
    assert len(found) == 1
    whole = a @ b
    for row in (0, left[-2] // 2, left[-2] - 1):
        alone = a[..., row : row + 1, :] @ b
        assert bits(alone) == bits(whole[..., row : row + 1, :])


@pytest.mark.parametrize("kind", ["float32", "int16", "complex64"])
def test_strided_reversed_and_repeated_factors_give_the_bits_of_their_copies(kind):
    a, b = made(1, (4, 18, 26), kind), made(2, (26, 40), kind)
    for x, y in (
        (a[:, ::-1, ::2], b[::-2, ::3]),
        (a.permute((1, 0, 2)), b),
        (tn.broadcast_to(a[:1], (3, 18, 26)), tn.broadcast_to(b, (3, 26, 40))),
    ):
        expected = contraction_ref.matmul(np.ascontiguousarray(array(x)), np.ascontiguousarray(array(y)))
        assert bits(x @ y) == bits(expected)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_affine_has_the_bits_of_its_three_steps(kind, activation):
    for shape, columns in (((3, 20, 30), 70), ((200, 300), 520), ((2, 0), 5)):
        x, w, bias = made(1, shape, kind), made(2, (shape[-1], columns), kind), made(3, (columns,), kind)
        steps = x @ w + bias
        if activation == "relu":
            steps = tn.relu(steps)
        assert bits(tn.affine(x, w, bias, activation=activation)) == bits(steps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("left", "right"), [((3, 50), (3, 50)), ((2, 1, 4200), (3, 4200)), ((2, 0), (2, 0)), ((7,), (7,))]
)
def test_vecdot_has_the_bits_of_the_twin(kind, left, right):
    a, b = made(1, left, kind), made(2, right, kind)
    assert bits(tn.vecdot(a, b)) == bits(contraction_ref.vecdot(array(a), array(b)))
    assert bits(tn.vecdot(a[..., ::-1], b[..., ::-1])) == bits(
        contraction_ref.vecdot(array(a[..., ::-1]), array(b[..., ::-1]))
    )


def test_products_of_bytes_are_exact_at_their_largest():
    a, b = tn.full((40, 3000), 255, dtype=tn.uint8), tn.full((3000, 70), 255, dtype=tn.uint8)
    assert set(tn.byte_matmul(a, b).numpy().reshape(-1)) == {255 * 255 * 3000}
    low = tn.full((5, 700), -128, dtype=tn.int8)
    assert set(tn.byte_matmul(low, low.mT).numpy().reshape(-1)) == {128 * 128 * 700}


def test_weights_of_four_bits_have_the_bits_of_the_twin_and_the_value_of_what_they_stand_for(threads):
    rng = np.random.default_rng(1)
    for m, n, k, group in ((1, 1, 2, 2), (3, 40, 128, 64), (70, 100, 256, 256), (200, 70, 512, 32)):
        x, codes = rng.integers(-128, 128, (m, k)).astype("i1"), rng.integers(0, 256, (n, k // 2)).astype("u1")
        x_scale, scale, bias = (rng.normal(size=s).astype("f4") for s in (m, (n, k // group), (n, k // group)))
        found = set()
        for count in (1, 3):
            threads(count)
            out = tn.quantised_matmul(*(tn.asarray(v) for v in (x, codes, scale, bias)), x_scale=tn.asarray(x_scale))
            found.add(bits(out))
        assert found == {bits(quantised_ref.quantised_product(x, x_scale, codes, scale, bias))}
        weights = quantised_ref.unpacked(codes).reshape(n, -1, group) * scale[..., None].astype(float) + bias[..., None]
        expected = x_scale[:, None] * (x.astype(float) @ weights.reshape(n, k).T)
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-2 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("ba,ca", ((2, 3), (4, 3))),
        ("ii", ((3, 3),)),
        ("iij->ji", ((3, 3, 2),)),
        ("ij->", ((2, 3),)),
        ("i,j->ij", ((2,), (3,))),
        ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (3, 4, 5))),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        ("ij,jk,ki", ((2, 3), (3, 4), (4, 2))),
        ("ijk,ilm,njm->nlk", ((2, 3, 4), (2, 5, 6), (7, 3, 6))),
        ("i...->...", ((2, 3, 4),)),
        ("ijj,jk->ik", ((2, 3, 3), (3, 4))),
        ("ij,kj->ki", ((2, 1), (4, 3))),
    ],
)
def test_einsum_means_what_numpy_means(equation, shapes):
    arrays = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes)]
    came = tn.einsum(equation, *map(tn.asarray, arrays)).numpy()
    expected = np.einsum(equation, *arrays)
    assert came.shape == expected.shape
    np.testing.assert_allclose(came, expected, rtol=1e-12, atol=1e-12)


def test_einsum_of_two_matrices_is_their_product_to_the_bit():
    a, b = made(1, (20, 300), "float32"), made(2, (300, 30), "float32")
    assert bits(tn.einsum("ij,jk->ik", a, b)) == bits(a @ b)
    assert bits(tn.einsum("ij,jk->ki", a, b)) == bits((a @ b).mT)


def test_tensordot_outer_and_kron_mean_what_numpy_means():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 3, 5))
    for axes in (0, 1, ((2,), (0,)), ((1, 2), (1, 0)), ((-1, 1), (0, -2))):
        came = tn.tensordot(tn.asarray(a), tn.asarray(b), axes=axes).numpy()
        np.testing.assert_allclose(came, np.tensordot(a, b, axes), rtol=1e-12)
    assert np.array_equal(tn.outer(tn.asarray(a[0, 0]), tn.asarray(b[0, 0])).numpy(), np.outer(a[0, 0], b[0, 0]))
    assert np.array_equal(tn.kron(tn.asarray(a), tn.asarray(b[0])).numpy(), np.kron(a, b[0]))


def test_a_budget_counts_the_packed_factors_of_a_product():
    a, b = made(1, (100, 300), "float32"), made(2, (300, 500), "float32")
    with tn.budget(max_bytes=1 << 30) as budget:
        c = a @ b
        assert budget.used_bytes == c.size * 4
        packed = budget.peak_bytes - budget.used_bytes
        del c
    if _kernels.isa() != "ref":
        assert packed > 0
        with (
            tn.budget(max_bytes=100 * 500 * 4 + packed - 1),
            pytest.raises(tn.BudgetExceeded, match=r"^product packing"),
        ):
            a @ b


F = tn.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F @ F,
            ShapeError,
            "matmul: the last dimension of a must be the last but one of b, got shapes (2, 3) and (2, 3)",
        ),
        (
            lambda: tn.matmul(F, tn.zeros(())),
            ShapeError,
            "matmul: both must have a dimension, got shapes (2, 3) and ()",
        ),
        (
            lambda: tn.matmul(tn.zeros((2, 2, 3)), tn.zeros((3, 3, 4))),
            ShapeError,
            "matmul: shapes (2,) and (3,) do not broadcast",
        ),
        (
            lambda: tn.affine(F, F.mT, tn.zeros(3)),
            ShapeError,
            "affine: bias must be one value for each column, (2,), got shape (3,)",
        ),
        (
            lambda: tn.affine(F, F.mT, tn.zeros(2), activation="add"),
            ValueError,
            "affine: activation must be an elementwise function of one argument, got 'add'",
        ),
        (lambda: tn.byte_matmul(F, F), DtypeError, "byte_matmul: expected Tensors of int8 or uint8"),
        (lambda: tn.outer(F, F), ShapeError, "outer: expected two vectors, got shapes (2, 3) and (2, 3)"),
        (
            lambda: tn.tensordot(F, F, axes=((0,), (1,))),
            ShapeError,
            "tensordot: axes (0,) of (2, 3) and (1,) of (2, 3) do not match",
        ),
        (
            lambda: tn.tensordot(F, F, axes=3),
            tn.AxisError,
            "tensordot: axes = 3 is out of range for shapes (2, 3) and (2, 3)",
        ),
        (
            lambda: tn.vecdot(F, F, axis=2),
            tn.AxisError,
            "vecdot: axis 0 is out of range for shapes (2, 3) and (2, 3)",
        ),
        (lambda: tn.einsum("ij,jk", F), ValueError, "einsum: 'ij,jk' names 2 operands, got 1"),
        (
            lambda: tn.einsum("ijk", F),
            ShapeError,
            "einsum: 'ijk' in 'ijk' does not name the dimensions of shape (2, 3)",
        ),
        (
            lambda: tn.einsum("ij->k", F),
            ValueError,
            "einsum: the result of 'ij->k' must name dimensions of the operands, each once",
        ),
        (lambda: tn.einsum("ij,ij", F, F.mT), ShapeError, "einsum: 'i' in 'ij,ij' names sizes 2 and 3"),
        (
            lambda: tn.einsum("i-,j", F, F),
            ValueError,
            "einsum: operands are letters and one ellipsis, got 'i-' in 'i-,j'",
        ),
    ],
)
def test_wrong_arguments_of_products_are_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
