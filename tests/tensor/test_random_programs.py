"""Random programs of public functions: what runs them, and where, changes no bit; their derivatives agree.

A program is a list of choices drawn from its number; it applies to tensors of any shapes and types, and leaves out what
these do not allow.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor.autograd import checkpoint, grad, jvp, scan, value_and_grad, vmap
from tensor.errors import GradientError, TensorError, TraceError

UNARY = (
    "exp",
    "tanh",
    "sigmoid",
    "relu",
    "square",
    "abs",
    "sin",
    "cos",
    "gelu",
    "silu",
    "softplus",
    "negative",
    "sign",
    "floor",
    "round",
    "expm1",
    "erf",
    "sqrt",
    "log",
    "log1p",
    "reciprocal",
    "atan",
    "rsqrt",
    "tan",
    "asinh",
    "isnan",
    "isfinite",
    "logical_not",
    "digamma",
    "lgamma",
    "trunc",
    "ceil",
)
BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
    "copysign",
    "less",
    "equal",
    "greater_equal",
    "pow",
    "remainder",
    "floor_divide",
    "logaddexp",
    "nextafter",
)
FLAT = (  # derivative 0 almost everywhere, or none
    "argmax",
    "argmin",
    "floor",
    "round",
    "trunc",
    "ceil",
    "sign",
    "isnan",
    "isfinite",
    "logical_not",
    "less",
    "equal",
    "greater_equal",
    "any",
    "all",
    "count_nonzero",
    "argsort",
    "nextafter",
    "detach",
    "floor_divide",
    "astype",
)
DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "int32", "complex64")
SHAPES = ((), (0,), (1,), (3,), (2, 3), (3, 1), (4, 4), (2, 3, 4), (0, 3), (5, 0, 2), (1, 1, 3), (17,), (33, 5))
SIZE_MAX = 4000

Draws = Sequence[int]


def bits(x: tn.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    plain = tn.bitcast(x.detach(), tn.uint16) if x.dtype == tn.bfloat16 else x.detach()
    return x.dtype.name, x.shape, plain.contiguous().numpy().tobytes()


def like(y: tn.Tensor, x: tn.Tensor) -> tn.Tensor:
    return y if y.dtype == x.dtype else tn.astype(y, x.dtype)


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0] or [1]


def sliced(x: tn.Tensor, axis: int, r: Draws) -> tn.Tensor:
    if x.ndim == 0:
        return x[...]
    n, step = x.shape[axis], (1, 2, -1, -2, 3)[r[1] % 5]
    at = r[0] % (n + 1)
    chosen: Any = (slice(None, None, step), slice(at, None, step), slice(None, at, step), min(at, max(n - 1, 0)))[
        r[2] % 4
    ]
    return x[tuple(chosen if a == axis else slice(None) for a in range(x.ndim))]


def changed(x: tn.Tensor, y: tn.Tensor, r: Draws) -> tn.Tensor:
    z = x * 1
    if r[0] % 5 == 0:
        z += 1
    elif r[0] % 5 == 1:
        z *= like(y, x)
    elif r[0] % 5 == 2 and z.ndim and z.shape[0]:
        z[r[1] % z.shape[0]] = 1
    elif r[0] % 5 == 3 and z.ndim:
        z[1:] = z[:-1] * 2
    else:
        z[...] = x
    return z


def decomposed(x: tn.Tensor, r: Draws) -> tn.Tensor:
    m = x.reshape((-1,))[:4].reshape((2, 2))
    m = m @ m.mT + tn.eye(2, dtype=m.dtype, device=m.device) * 3
    linalg = tn.linalg
    return [
        lambda: linalg.inv(m),
        lambda: linalg.cholesky(m),
        lambda: linalg.det(m),
        lambda: linalg.solve(m, m),
        lambda: linalg.eigh((m + m.mT) / 2).eigenvalues,
        lambda: linalg.svdvals(m),
        lambda: linalg.qr(m).R,
    ][r[0] % 7]()


def zeros(shape: tuple[int, ...], x: tn.Tensor, dtype: Any = None) -> tn.Tensor:
    return tn.zeros(shape, dtype=x.dtype if dtype is None else dtype, device=x.device)


def kept_again(x: tn.Tensor, y: tn.Tensor) -> tn.Tensor:
    return checkpoint(lambda u: tn.sin(u) * u + x * like(y, x))(x)


Move = Callable[[tn.Tensor, tn.Tensor, int, Draws], Any]
KINDS = ("float32", "float64", "float16", "bfloat16", "int32", "bool", "int8", "uint8", "float32", "float32")
MOVES: dict[str, Move] = {
    "sum": lambda x, y, a, r: tn.sum(x, axis=(None, a, tuple(range(x.ndim)))[r[0] % 3], keepdims=bool(r[1] % 2)),
    "mean": lambda x, y, a, r: tn.mean(x, axis=(None, a)[r[0] % 2], keepdims=bool(r[1] % 2)),
    "max": lambda x, y, a, r: tn.max(x, axis=(None, a)[r[0] % 2], keepdims=bool(r[1] % 2)),
    "min": lambda x, y, a, r: tn.min(x, axis=a),
    "prod": lambda x, y, a, r: tn.prod(x, axis=(None, a)[r[0] % 2]),
    "var": lambda x, y, a, r: tn.var(x, axis=a, correction=r[0] % 2),
    "logsumexp": lambda x, y, a, r: tn.logsumexp(x, axis=a),
    "argmax": lambda x, y, a, r: tn.argmax(x, axis=(None, a)[r[0] % 2]),
    "any": lambda x, y, a, r: tn.any(x, axis=a),
    "count_nonzero": lambda x, y, a, r: tn.count_nonzero(x, axis=a),
    "cumsum": lambda x, y, a, r: tn.cumsum(x, axis=a),
    "cumprod": lambda x, y, a, r: tn.cumprod(x, axis=a),
    "cummax": lambda x, y, a, r: tn.cummax(x, axis=a),
    "softmax": lambda x, y, a, r: tn.softmax(x, axis=a),
    "log_softmax": lambda x, y, a, r: tn.log_softmax(x, axis=a),
    "sort": lambda x, y, a, r: tn.sort(x, axis=a, descending=bool(r[0] % 2)),
    "argsort": lambda x, y, a, r: tn.argsort(x, axis=a),
    "norm": lambda x, y, a, r: tn.norm(x, axis=a),
    "reshape": lambda x, y, a, r: x.reshape((divisors(x.size)[r[0] % len(divisors(x.size))], -1)),
    "flip": lambda x, y, a, r: tn.flip(x, axis=a),
    "permute": lambda x, y, a, r: x.permute(tuple(random.Random(r[0]).sample(range(x.ndim), x.ndim))),
    "slice": lambda x, y, a, r: sliced(x, a, r),
    "new axis": lambda x, y, a, r: x[None] if r[0] % 2 else x[..., None],
    "expand": lambda x, y, a, r: x[None].expand((2, *x.shape)),
    "roll": lambda x, y, a, r: tn.roll(x, r[0] % 5 - 2, axis=a),
    "pad": lambda x, y, a, r: tn.pad(x, tuple((r[0] % 3, r[1] % 2) for _ in x.shape), value=r[2] % 3),
    "concat": lambda x, y, a, r: tn.concat([x, like(y, x), x] if x.shape == y.shape else [x, x], axis=a),
    "stack": lambda x, y, a, r: tn.stack([x, like(y, x)] if x.shape == y.shape else [x, x], axis=a),
    "tile": lambda x, y, a, r: tn.tile(x, (2, 1)),
    "repeat": lambda x, y, a, r: tn.repeat(x, 2, axis=a),
    "take": lambda x, y, a, r: tn.take(x, tn.asarray([r[0] % max(x.shape[a], 1), 0, -1], device=x.device), axis=a),
    "along": lambda x, y, a, r: tn.take_along_axis(x, tn.argsort(x, axis=a), axis=a),
    "tril": lambda x, y, a, r: (tn.tril if r[1] % 2 else tn.triu)(x, k=r[0] % 3 - 1),
    "where": lambda x, y, a, r: tn.where(x > 0, x, like(y, x)),
    "fill": lambda x, y, a, r: tn.masked_fill(x, x > 0, 1),
    "clip": lambda x, y, a, r: tn.clip(x, -1, 1),
    "astype": lambda x, y, a, r: tn.astype(x, getattr(tn, KINDS[r[0] % len(KINDS)])),
    "matmul": lambda x, y, a, r: x @ (like(y, x) if r[0] % 2 else x.mT),
    "vecdot": lambda x, y, a, r: tn.vecdot(x, x),
    "diagonal": lambda x, y, a, r: tn.linalg.diagonal(x, offset=r[0] % 3 - 1),
    "scatter_add": lambda x, y, a, r: tn.scatter_add(x, a, zeros(x.shape, x, tn.int64), x),
    "segments": lambda x, y, a, r: tn.segment_reduce(
        x, zeros(x.shape[:1], x, tn.int64), 2, ("sum", "max", "mean")[r[0] % 3]
    ),
    "outer": lambda x, y, a, r: tn.outer(x.reshape((-1,))[:7], x.reshape((-1,))[:7]),
    "einsum": lambda x, y, a, r: tn.einsum("...i,...i->..." if r[0] % 2 else "ij,kj->ik", x, x),
    "convolution": lambda x, y, a, r: tn.conv1d(x.reshape((1, 1, -1)), zeros((1, 1, 2), x) + 1.5),
    "pool": lambda x, y, a, r: (tn.max_pool1d if r[0] % 2 else tn.avg_pool1d)(x.reshape((1, 1, -1)), 2),
    "layer_norm": lambda x, y, a, r: tn.layer_norm(x, x.shape[-1:]),
    "diff": lambda x, y, a, r: tn.diff(x, axis=a),
    "cumulative": lambda x, y, a, r: tn.cumulative_sum(x, axis=a, include_initial=True),
    "split": lambda x, y, a, r: tn.split(x, [x.shape[a] // 2, x.shape[a] - x.shape[a] // 2], axis=a),
    "linalg": lambda x, y, a, r: decomposed(x, r),
    "fft": lambda x, y, a, r: (tn.fft.irfft(tn.fft.rfft(x)), tn.real(tn.fft.fft(x)), tn.abs(tn.fft.fft(x)))[r[0] % 3],
    "scalar": lambda x, y, a, r: (x + 1.5, x * 0.5, 2 / x, 2 - x, x**2, -x)[r[0] % 6],
    "detach": lambda x, y, a, r: x.detach(),
    "vmap": lambda x, y, a, r: vmap(lambda u: tn.sum(u * u) + u)(x),
    "scan": lambda x, y, a, r: scan(lambda c, u: (c * 0.5 + tn.sum(u), c), zeros((), x), x)[r[0] % 2],
    "checkpoint": lambda x, y, a, r: kept_again(x, y),
    "in place": lambda x, y, a, r: changed(x, y, r),
}


class Program:
    """A function of tensors: random operations, each on a value that is there already."""

    def __init__(self, seed: int, length: int, without: Sequence[str] = ()) -> None:
        rng = random.Random(seed)
        names = [n for n in (*UNARY, *UNARY, *BINARY, *BINARY, *MOVES) if n not in without]
        self.choices = [(rng.choice(names), [rng.randrange(1 << 20) for _ in range(7)]) for _ in range(length)]
        self.left_out: set[int] = set()  # choices that the first run found to be an error
        self.ends = [rng.randrange(1 << 20) for _ in range(3)]

    def __call__(self, *inputs: tn.Tensor) -> tuple[tn.Tensor, ...]:
        values = list(inputs)
        for k, (name, r) in enumerate(self.choices):
            if k in self.left_out:
                continue
            x = values[-1] if r[0] % 3 else values[r[0] % len(values)]
            y = values[r[1] % len(values)]
            try:
                made = self._step(name, x, y, r[2:])
            except (GradientError, TraceError):
                raise
            except (TensorError, IndexError, OverflowError, ValueError):
                self.left_out.add(k)  # not of these shapes, types and values
                continue
            values += [
                v
                for v in (made if isinstance(made, (tuple, list)) else (made,))
                if v is not None and v.size <= SIZE_MAX
            ]
        return (values[-1], *(values[e % len(values)] for e in self.ends))

    @staticmethod
    def _step(name: str, x: tn.Tensor, y: tn.Tensor, r: Draws) -> Any:
        if name in MOVES:
            return MOVES[name](x, y, r[0] % x.ndim if x.ndim else 0, r[1:])
        return getattr(tn, name)(x) if name in UNARY else getattr(tn, name)(x, like(y, x))


def drawn(seed: int, dtype: str, count: int = 3, special: bool = True) -> list[tn.Tensor]:
    """Tensors of random shapes and layouts, some with NaN, infinities, zeros and subnormals, some of other types."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    shared, found = rng.choice(SHAPES), []
    for _ in range(count):
        values = numbers.normal(size=shared if rng.random() < 0.6 else rng.choice(SHAPES))
        if special and rng.random() < 0.2 and values.size:
            values.flat[rng.randrange(values.size)] = rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40])
        kind = rng.choice(DTYPES) if special and rng.random() < 0.15 else dtype
        if kind.startswith("complex"):
            with np.errstate(invalid="ignore"):
                values = values + 1j * values[::-1] if values.ndim else values + 1j
        x = tn.astype(tn.asarray(values), getattr(tn, kind))
        layout = rng.randrange(6) if x.ndim else 5
        if layout == 0:
            x = tn.flip(x, axis=0)
        elif layout == 1:
            order = tuple(reversed(range(x.ndim)))
            x = x.permute(order).contiguous().permute(order)
        elif layout == 2:
            x = tn.repeat(x, 2, axis=0)[::2]
        found.append(x)
    return found


def same(a: Sequence[tn.Tensor], b: Sequence[tn.Tensor]) -> bool:
    return [bits(x) for x in a] == [bits(x) for x in b]


def check_runs(seed: int) -> None:
    """Eager, captured with and without fusion, checkpointed, on the twins' device: one result."""
    rng = random.Random(seed)
    length, dtype = rng.randrange(1, 14), rng.choice(DTYPES)
    inputs = drawn(seed, dtype)
    program = Program(seed, length)
    expected = program(*inputs)
    assert same(program(*(tn.asarray(x, copy=True, device="ref") for x in inputs)), expected)
    assert same(checkpoint(program)(*inputs), expected)
    pure = Program(seed, length, without=("in place",))
    expected = pure(*inputs)
    for fusion in (True, False):
        captured = tn.capture(pure, fusion=fusion)
        results = [captured(*inputs) for _ in range(2)]
        assert all(same(r, expected) for r in results)


def weighted(program: Program) -> Callable[..., tn.Tensor]:
    """The sum of the results that are of floats, each element with a weight of its own."""

    def total(*inputs: tn.Tensor) -> tn.Tensor:
        result = tn.zeros((), dtype=tn.float64)
        for out in program(*inputs):
            if out.dtype.name == "float64":
                result = result + tn.sum(out * tn.asarray(np.cos(np.arange(out.size)).reshape(out.shape)))
        return result

    return total


def near(a: Sequence[tn.Tensor], b: Sequence[tn.Tensor], tolerance: float) -> bool:
    for x, y in zip(a, b, strict=True):
        u, v = x.numpy(), y.numpy()
        scale = 1 + np.abs(u[np.isfinite(u)]).max(initial=0)
        with np.errstate(invalid="ignore"):
            if not ((np.abs(u - v) <= tolerance * scale) | (u == v) | (np.isnan(u) & np.isnan(v))).all():
                return False
    return True


def check_derivatives(seed: int) -> None:
    """Reverse, forward, tape, captured, batched, checkpointed and second derivatives agree, and with differences."""
    rng = random.Random(seed)
    program = Program(seed, rng.randrange(1, 9), without=(*FLAT, "in place"))
    f = weighted(program)
    inputs = drawn(seed, "float64", 2, special=False)
    moves = [tn.asarray(np.random.default_rng((seed, i)).normal(size=x.shape)) for i, x in enumerate(inputs)]
    value, gradients = value_and_grad(f, argnums=(0, 1))(*inputs)
    assert same([value], [f(*inputs)])
    if (
        not math.isfinite(value.item())
        or abs(value.item()) > 1e4
        or not all(np.isfinite(g.numpy()).all() for g in gradients)
    ):
        return

    leaves = [x.clone().requires_grad_() for x in inputs]
    total = f(*leaves)
    if total.requires_grad:
        total.backward()
        assert same([tn.zeros_like(x) if x.grad is None else x.grad for x in leaves], gradients)
    along = jvp(f, tuple(inputs), tuple(moves))[1].item()
    pulled = sum(float((g * t).sum().item()) for g, t in zip(gradients, moves, strict=True))
    assert math.isnan(along) or abs(along - pulled) <= 1e-8 * (1 + abs(pulled))  # nan: 0 / 0 that reverse mode masks
    both = value_and_grad(f, argnums=(0, 1))
    captured = tn.capture(both, fusion=bool(seed % 2))
    for _ in range(2):
        again = captured(*inputs)
        assert same([again[0], *again[1]], [value, *gradients])
    assert near(grad(checkpoint(f), argnums=(0, 1))(*inputs), gradients, 1e-10)

    batches = [tn.stack([x, x * 0.5]) for x in inputs]
    one_by_one = [both(*(b[i] for b in batches)) for i in range(2)]
    values, slopes = vmap(both)(*batches)
    assert same([values, *slopes], [tn.stack(list(z)) for z in zip(*((v, *g) for v, g in one_by_one), strict=True)])

    def slope(*xs: tn.Tensor) -> tn.Tensor:
        parts = [(g * t).sum() for g, t in zip(grad(f, argnums=(0, 1))(*xs), moves, strict=True)]
        return parts[0] + parts[1]

    second = grad(slope, argnums=(0, 1))(*inputs)
    forward = jvp(grad(f, argnums=(0, 1)), tuple(inputs), tuple(moves))[1]
    assert near(second, forward, 1e-7)
    assert near(second, grad(lambda *xs: jvp(f, xs, tuple(moves))[1], argnums=(0, 1))(*inputs), 1e-7)
    if any(name in ("clip", "relu", "maximum", "minimum", "max", "min", "sort", "abs") for name, _ in program.choices):
        return  # a difference may step over a kink
    if abs(pulled) > 1e4:
        return
    h = 1e-6
    ahead = f(*(x + t * h for x, t in zip(inputs, moves, strict=True))).item()
    behind = f(*(x - t * h for x, t in zip(inputs, moves, strict=True))).item()
    assert abs((ahead - behind) / (2 * h) - pulled) <= 1e-3 * (1 + abs(pulled) + abs(value.item()))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_whatever_runs_a_program_gives_the_same_bits(first: int) -> None:
    for seed in range(first, first + 20):
        check_runs(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_whatever_runs_more_programs_gives_the_same_bits(first: int) -> None:
    for seed in range(first, first + 50):
        check_runs(seed)


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_derivatives_of_a_program_agree(first: int) -> None:
    for seed in range(first, first + 10):
        check_derivatives(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 50))
def test_derivatives_of_more_programs_agree(first: int) -> None:
    for seed in range(first, first + 50):
        check_derivatives(seed)


def digest(seeds: Sequence[int]) -> str:
    """Of the results and gradients of programs."""
    found = hashlib.sha256()
    for seed in seeds:
        rng = random.Random(seed)
        inputs = drawn(seed, rng.choice(DTYPES))
        for x in Program(seed, rng.randrange(1, 14))(*inputs):
            found.update(repr(bits(x)).encode())
        f = weighted(Program(seed, 6, without=FLAT))
        for g in grad(f, argnums=(0, 1))(*drawn(seed, "float64", 2, special=False)):
            found.update(repr(bits(g)).encode())
    return found.hexdigest()


@pytest.mark.slow
def test_instruction_sets_threads_and_twins_give_programs_one_digest(
    python: Callable[..., subprocess.CompletedProcess[str]], repository: Any
) -> None:
    code = (
        f"import json, sys; sys.path.insert(0, {os.fspath(repository / 'tests' / 'tensor')!r});"
        "from test_random_programs import digest; print(json.dumps([digest(range(3000, 3040))]))"
    )
    here = digest(range(3000, 3040))
    isas = ("v3", "v4") if tn.build_info()["isa_best"] == "v4" else (str(tn.build_info()["isa_best"]),)
    for isa, threads in [*((isa, n) for isa in isas for n in (1, 2, 3, 7)), ("ref", 1)]:
        done = python(code, seconds=300, DROVEWAY_ISA=isa, DROVEWAY_THREADS=str(threads))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [here], (isa, threads)
