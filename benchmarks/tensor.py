"""The tensor engine against PyTorch and numpy: `python benchmarks/tensor.py [TOPIC …]`.

Topics are functions of this file, by name; without any, all run. One thread unless the case says otherwise; PyTorch is
eager and gives its result into memory that is there where it can.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness import CPUS, Report, alternate, prepare

sys.path.remove(str(Path(__file__).resolve().parent))  # this file's own name is that of the package it measures
THREADS = int(os.environ.get("DROVEWAY_BENCH_THREADS", "1"))
prepare(THREADS)

import numpy as np  # noqa: E402

import tensor as tn  # noqa: E402


def torch() -> Any:
    """PyTorch on as many threads as ours."""
    import torch as peer

    peer.set_num_threads(THREADS)
    return peer


def normal(*shape: int, dtype: str = "float32", seed: int = 1) -> np.ndarray[Any, Any]:
    """Normal numbers, the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def child(topic: str, **environment: str) -> float:
    """What this script measures for `--child TOPIC` under other variables."""
    command = [sys.executable, __file__, "--child", topic]
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, sorted(CPUS))), *command],  # it pins itself
        check=True, capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    return float(done.stdout)


# --- products of matrices --------------------------------------------------------------------------------------------

GEMM_SIZES = (64, 128, 256, 512, 1024, 2048)


def product(n: int, dtype: str = "float32") -> Callable[[], object]:
    """Our product of two square matrices."""
    a, b = (tn.asarray(normal(n, n, dtype=dtype, seed=s)) for s in (1, 2))
    return lambda: a @ b


def gemm(report: Report) -> None:
    """Square products: float32 against PyTorch, float64 against numpy, other builds and thread counts against ours."""
    peer = torch()
    for n in GEMM_SIZES:
        a, b = (peer.from_numpy(normal(n, n, seed=s)) for s in (1, 2))
        ours, theirs = alternate(product(n), partial(peer.mm, a, b))
        case = f"matmul float32 n={n} {tn.build_info()['isa']}"
        report.add(case, 2e-9 * n**3 / ours, 2e-9 * n**3 / theirs, "torch", "GFLOP/s", "higher")
    for n in (256, 512, 1024):
        left, right = (normal(n, n, dtype="float64", seed=s) for s in (1, 2))
        ours, theirs = alternate(product(n, "float64"), partial(np.matmul, left, right))
        case = f"matmul float64 n={n} {tn.build_info()['isa']}"
        report.add(case, 2e-9 * n**3 / ours, 2e-9 * n**3 / theirs, "numpy (OpenBLAS)", "GFLOP/s", "higher")
    if tn.build_info()["isa_best"] == "v4":
        ratio = child("gemm_ratio", DROVEWAY_ISA="v3")
        report.add("matmul float32 n=512 v3", ratio, 1.0, "torch", "relative speed", "higher")
    if len(CPUS) >= 2:
        pairs = [
            (child("gemm_speed", DROVEWAY_BENCH_THREADS="2"), child("gemm_speed", DROVEWAY_BENCH_THREADS="1"))
            for _ in range(3)
        ]
        two, one = max(pairs, key=lambda pair: pair[0] / pair[1])
        report.add("matmul float32 n=1024, 2 threads", two, one, "ours, 1 thread", "GFLOP/s", "higher")


def gemm_ratio() -> float:
    """Our speed at 512 in PyTorch's, in this process."""
    peer = torch()
    a, b = (peer.from_numpy(normal(512, 512, seed=s)) for s in (1, 2))
    ours, theirs = alternate(product(512), partial(peer.mm, a, b))
    return theirs / ours


def gemm_speed() -> float:
    """Our speed at 1024 by the wall clock, the best of many: other processes only take away."""
    call = product(1024)
    call()
    seconds = []
    for _ in range(40):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return 2e-9 * 1024**3 / min(seconds)


# --- convolutions ----------------------------------------------------------------------------------------------------

# images, inputs, outputs, size, kernel, stride, padding
CONVOLUTIONS = (
    (64, 1, 16, 28, 3, 1, 1),
    (64, 16, 32, 14, 3, 1, 1),
    (16, 64, 64, 32, 3, 1, 1),
    (16, 64, 128, 16, 3, 2, 1),
    (8, 256, 256, 7, 3, 1, 1),
)


def convolution(report: Report) -> None:
    """Convolutions of float32 images and both their gradients."""
    peer = torch()
    for n, inputs, outputs, size, taps, stride, pad in CONVOLUTIONS:
        image, weight = normal(n, inputs, size, size), normal(outputs, inputs, taps, taps, seed=2)
        x, w = tn.asarray(image), tn.asarray(weight)
        y = tn.conv2d(x, w, stride=stride, padding=pad)
        g = normal(*y.shape, seed=3)
        theirs = tuple(peer.from_numpy(a) for a in (g, image, weight))
        case = f"conv2d {n}x{inputs}x{size}x{size}, {outputs} of {taps}x{taps}, stride {stride}"
        work = 2e-9 * y.size * inputs * taps * taps

        def add(part: str, ours: float, other: float, case: str = case, work: float = work) -> None:
            report.add(f"{case}{part}", work / ours, work / other, "torch", "GFLOP/s", "higher")

        add(
            "",
            *alternate(
                partial(tn.conv2d, x, w, stride=stride, padding=pad),
                partial(peer.conv2d, *theirs[1:], None, stride, pad),
            ),
        )
        common = {"stride": (stride,) * 2, "padding": (pad,) * 2, "dilation": (1, 1), "groups": 1}
        for part, row, ours, named, mask in (
            (", gradient of x", "conv_transpose", (tn.asarray(g), w), {"output": (size, size)}, [True, False, False]),
            (
                ", gradient of w",
                "conv_weight_gradient",
                (x, tn.asarray(g)),
                {"kernel": (taps, taps)},
                [False, True, False],
            ),
        ):
            from tensor.primitives.registry import row as found

            call = partial(tn._kernels.apply, found(row, "convolution"), ours, {**common, **named})
            back = partial(
                peer.ops.aten.convolution_backward,
                *(*theirs, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask),
            )
            add(part, *alternate(call, back))


# --- reductions ------------------------------------------------------------------------------------------------------


def reduction(report: Report) -> None:
    """Reductions, softmax and layer_norm forward and backward, running sums, orders: elements a second."""
    from tensor.primitives.rules import call

    peer = torch()
    table, slope, line = normal(512, 1024), normal(512, 1024, seed=2), normal(1 << 20, seed=3)
    x, g, v = (tn.asarray(a) for a in (table, slope, line))
    px, pg, pv = (peer.from_numpy(a) for a in (table, slope, line))
    weight, bias = tn.ones(1024), tn.zeros(1024)
    p_weight, p_bias = peer.ones(1024), peer.zeros(1024)
    y, p_y = tn.softmax(x), peer.softmax(px, 1)
    params = {"trailing": 1, "epsilon": 1e-5, "weight": True, "bias": True}
    _, mean, rstd = call("layer_norm", x, weight, bias, **params)
    _, p_mean, p_rstd = peer.native_layer_norm(px, [1024], p_weight, p_bias, 1e-5)
    aten = peer.ops.aten
    whole = [True, True, True]
    cases: dict[str, tuple[Callable[[], object], Callable[[], object], int]] = {
        "sum of 1 M": (v.sum, pv.sum, line.size),
        "max of 1 M": (lambda: tn.max(v), pv.max, line.size),
        "sum of 512x1024 over rows": (lambda: tn.sum(x, axis=0), lambda: px.sum(0), table.size),
        "sum of 512x1024 over columns": (lambda: tn.sum(x, axis=1), lambda: px.sum(1), table.size),
        "var of 512x1024": (lambda: tn.var(x, axis=1), lambda: px.var(1, correction=0), table.size),
        "logsumexp of 512x1024": (lambda: tn.logsumexp(x, axis=1), lambda: peer.logsumexp(px, 1), table.size),
        "softmax 512x1024": (lambda: tn.softmax(x), lambda: peer.softmax(px, 1), table.size),
        "softmax 512x1024 over rows": (lambda: tn.softmax(x, 0), lambda: peer.softmax(px, 0), table.size),
        "log_softmax 512x1024": (lambda: tn.log_softmax(x), lambda: peer.log_softmax(px, 1), table.size),
        "softmax 512x1024, backward": (
            lambda: call("softmax_backward", g, y, axis=1),
            lambda: aten._softmax_backward_data(pg, p_y, 1, peer.float32),
            table.size,
        ),
        "layer_norm 512x1024": (
            lambda: tn.layer_norm(x, 1024, weight, bias),
            lambda: peer.native_layer_norm(px, [1024], p_weight, p_bias, 1e-5),
            table.size,
        ),
        "layer_norm 512x1024, backward": (
            lambda: call("norm_backward", g, x, mean, rstd, weight, trailing=1, layer=True, weight=True, bias=True),
            lambda: aten.native_layer_norm_backward(pg, px, [1024], p_mean, p_rstd, p_weight, p_bias, whole),
            table.size,
        ),
        "cumulative_sum of 1 M": (lambda: tn.cumulative_sum(v), lambda: pv.cumsum(0), line.size),
        "sort of 1 M": (lambda: tn.sort(v), lambda: peer.sort(pv, stable=True), line.size),
    }
    for name, (ours, theirs, count) in cases.items():
        seconds, other = alternate(ours, theirs)
        report.add(
            f"{name} {tn.build_info()['isa']}", 1e-9 * count / seconds, 1e-9 * count / other, "torch", "G/s", "higher"
        )


def optimizer(report: Report) -> None:
    """AdamW steps of the parameters of an MLP 784-256-10: millions of parameters a second."""
    peer = torch()
    shapes = ((784, 256), (256,), (256, 10), (10,))
    ours = [tn.asarray(normal(*s)).requires_grad_() for s in shapes]
    theirs = [peer.from_numpy(normal(*s)).requires_grad_() for s in shapes]
    for x, p, s in zip(ours, theirs, shapes, strict=True):
        x.grad, p.grad = tn.asarray(normal(*s, seed=2)), peer.from_numpy(normal(*s, seed=2))
    from tensor.optim import AdamW

    count = sum(x.size for x in ours)
    fused = partial(peer.optim.AdamW(theirs, lr=1e-3, fused=True).step)
    plain = partial(peer.optim.AdamW(theirs, lr=1e-3).step)
    step = AdamW(ours, lr=1e-3).step
    for name, other in (("torch", plain), ("torch, fused=True", fused)):
        seconds, peers = alternate(step, other)
        report.add(
            f"AdamW step of {count} parameters", 1e-6 * count / seconds, 1e-6 * count / peers, name, "M/s", "higher"
        )


def elementwise(report: Report) -> None:
    """Elementwise operations on 1 M and on 8 elements, layouts, casts, a chain in one pass: nanoseconds a case."""
    from tensor import _kernels
    from tensor.primitives.fused import Program

    peer = torch()
    line, other = normal(1 << 20), normal(1 << 20, seed=2)
    x, y, out, half = tn.asarray(line), tn.asarray(other), tn.empty(1 << 20), tn.asarray(0.5)
    px, py = peer.from_numpy(line), peer.from_numpy(other)
    steps = (("mul", 0, (8, 9), ""), ("add", 0, (0, 8), ""), ("tanh", 0, (0,), ""), ("mul", 0, (0, 10), ""))
    chain = Program((*steps, ("add", 64, (0, 9), "")), ("float32",) * 3, ("float32",)).compiled()
    square, p_square = x.reshape(1024, 1024), px.reshape(1024, 1024)
    whole, p_whole = tn.astype(x * 1000, tn.int32), (px * 1000).int()
    captured = tn.capture(lambda x, y: tn.tanh(x * y + x) * 0.5 + y)
    cases: dict[str, tuple[Callable[[], object], Callable[[], object], str]] = {
        "tanh(x*y+x)*0.5+y in one pass": (
            lambda: chain.run((out,), (x, y, half)),
            lambda: peer.tanh(px * py + px) * 0.5 + py,
            "torch",
        ),
        "tanh(x*y+x)*0.5+y captured": (
            lambda: captured(x, y),
            lambda: peer.tanh(px * py + px) * 0.5 + py,
            "torch",
        ),
        "x + y": (lambda: x + y, lambda: px + py, "torch"),
        "x + y.T": (lambda: square + square.T, lambda: p_square + p_square.T, "torch"),
        "x.T.contiguous()": (square.T.contiguous, p_square.T.contiguous, "torch"),
        "exp": (lambda: tn.exp(x), lambda: peer.exp(px), "torch"),
        "gelu": (lambda: tn.gelu(x), lambda: peer.nn.functional.gelu(px), "torch"),
        "where(x < y, x, y)": (lambda: tn.where(x < y, x, y), lambda: peer.where(px < py, px, py), "torch"),
        "int32 // 3": (lambda: whole // 3, lambda: p_whole // 3, "torch"),
        "float32 to int32": (lambda: tn.astype(x, tn.int32), px.int, "torch"),
    }
    for name, (ours, theirs, who) in cases.items():
        seconds, peers = alternate(ours, theirs)
        report.add(f"{name} {_kernels.isa()}", 1e9 * seconds, 1e9 * peers, who, "ns", "lower")


def dispatch(report: Report) -> None:
    """What a small operation costs, by the hundred: views and an addition against numpy, a gradient against PyTorch."""
    x, n = tn.ones((8, 8)), np.ones((8, 8), np.float32)
    small, n_small = tn.ones(8), np.ones(8, np.float32)
    leaf, p_leaf = tn.ones(8).requires_grad_(), torch().ones(8, requires_grad=True)
    times = range(100)
    cases: dict[str, tuple[Callable[[], object], Callable[[], object], str]] = {
        "100 additions of 8 elements": (
            lambda: [small + small for _ in times],
            lambda: [n_small + n_small for _ in times],
            "numpy",
        ),
        "100 × x[1:]": (lambda: [x[1:] for _ in times], lambda: [n[1:] for _ in times], "numpy"),
        "100 × x[2]": (lambda: [x[2] for _ in times], lambda: [n[2] for _ in times], "numpy"),
        "100 × x[::-1, 2]": (lambda: [x[::-1, 2] for _ in times], lambda: [n[::-1, 2] for _ in times], "numpy"),
        "100 × x.T": (lambda: [x.T for _ in times], lambda: [n.T for _ in times], "numpy"),
        "100 × x.reshape((4, 16))": (
            lambda: [x.reshape((4, 16)) for _ in times],
            lambda: [n.reshape((4, 16)) for _ in times],
            "numpy",
        ),
        "100 × (x·x).sum().backward() of 8": (
            lambda: [(leaf * leaf).sum().backward() for _ in times],
            lambda: [(p_leaf * p_leaf).sum().backward() for _ in times],
            "torch",
        ),
    }
    for name, (ours, theirs, who) in cases.items():
        seconds, peers = alternate(ours, theirs)
        report.add(f"{name} {tn.build_info()['isa']}", 1e9 * seconds, 1e9 * peers, who, "ns", "lower")


def random(report: Report) -> None:
    """A million random numbers of a kind, and what is made of them: numbers a second."""
    from tensor.random import Key, dropout

    peer, n = torch(), 1_000_000
    key, generator = Key(1), peer.Generator().manual_seed(1)
    x, px = tn.ones(n), peer.ones(n)
    cases: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "uniform float32": (lambda: key.uniform(n), lambda: peer.rand(n, generator=generator)),
        "normal float32": (lambda: key.normal(n), lambda: peer.randn(n, generator=generator)),
        "uniform float64": (
            lambda: key.uniform(n, dtype="float64"),
            lambda: peer.rand(n, generator=generator, dtype=peer.float64),
        ),
        "normal float64": (
            lambda: key.normal(n, dtype="float64"),
            lambda: peer.randn(n, generator=generator, dtype=peer.float64),
        ),
        "randint(0, 1000)": (lambda: key.randint(0, 1000, n), lambda: peer.randint(0, 1000, (n,), generator=generator)),
        "bernoulli(0.3)": (lambda: key.bernoulli(0.3, n), lambda: peer.rand(n, generator=generator) < 0.3),
        "permutation": (lambda: key.permutation(n), lambda: peer.randperm(n, generator=generator)),
        "dropout(0.5)": (lambda: dropout(key, x, 0.5), lambda: peer.nn.functional.dropout(px, 0.5)),
        "uniform of 8": (lambda: key.uniform(8), lambda: peer.rand(8, generator=generator)),
    }
    for name, (ours, theirs) in cases.items():
        seconds, peers = alternate(ours, theirs)
        count = 8e-6 if name.endswith("of 8") else 1e-6 * n
        report.add(f"{name} {tn.build_info()['isa']}", count / seconds, count / peers, "torch", "M/s", "higher")


TOPICS: dict[str, Callable[[Report], None]] = {
    "elementwise": elementwise,
    "dispatch": dispatch,
    "gemm": gemm,
    "convolution": convolution,
    "reduction": reduction,
    "optimizer": optimizer,
    "random": random,
}
CHILDREN: dict[str, Callable[[], float]] = {"gemm_ratio": gemm_ratio, "gemm_speed": gemm_speed}


def main() -> None:
    """The topics that are asked for."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}; all by default")
    report = Report("tensor", options)
    asked = report.asked.topics or list(TOPICS)
    for topic in asked:
        if topic not in TOPICS:
            sys.exit(f"error: no topic {topic!r} (hint: {', '.join(TOPICS)})")
        TOPICS[topic](report)
    report.finish()


if __name__ == "__main__":
    if "--child" in sys.argv:
        sys.stdout.write(f"{CHILDREN[sys.argv[-1]]()}\n")
    else:
        main()
