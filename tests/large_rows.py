"""Every row on inputs large enough that threads share the work: rows have one digest whatever the number of threads.

Most rows run under vmap over thousands of copies of a sample, three different ones by turns; an element of that batch
must equal the sample alone. Rows that need more work in one call, or have no batch, have a case of their own in `OWN`.
`shared(row)` says whether more than one thread worked.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from golden_rows import HEX_DIGITS, add
from primitive_checks import bits, dtypes_of, inputs_of, rows, run, samples_of, tensor_of, times

import tensor as tn
from tensor import _kernels, sparse
from tensor.autograd import vmap
from tensor.primitives.fused import Program
from tensor.primitives.primitive import Primitive, Sample
from tensor.primitives.registry import row

ELEMENTS = 2**18  # of the largest input: above every kernel's threshold for threads, in four bytes each
SAMPLES = 2  # of a row, at most: the largest
DIFFERENT = (1.0, 0.75, 0.5)  # what the three copies are multiplied by

# Rows of which one call is one thread's work whatever its size: they move memory, or pass through it in order.
SERIAL = {"cat", "index_update", "nonzero", "pad", "searchsorted", "to_device", "unique_groups"}


def _normal(seed: int, *shape: int) -> Any:
    return tn.asarray(np.rint(np.random.default_rng(seed).normal(size=shape) * 2**20).astype(np.float32) * 2.0**-20)


def _whole(seed: int, low: int, high: int, dtype: str, *shape: int) -> Any:
    return tn.asarray(np.random.default_rng(seed).integers(low, high, shape).astype(dtype))


def _stepped(optimizer: Callable[[Any], Any]) -> Any:
    weights = [_normal(1, 700, 500), _normal(2, 301)]
    for k, w in enumerate(weights):
        w.grad = _normal(3 + k, *w.shape)
    steps = optimizer(weights)
    steps.step()
    steps.step()
    return tuple(weights)


def _conv_max_pool() -> Any:
    f = tn.capture(lambda x, w, b: tn.max_pool2d(tn.relu(tn.conv2d(x, w, b, padding=1)), 2))
    return f(_normal(1, 8, 8, 30, 30), _normal(2, 16, 8, 3, 3), _normal(3, 16))


def _weight_gradient() -> Any:
    x, w = _normal(1, 8, 8, 30, 30), _normal(2, 16, 8, 3, 3).requires_grad_()
    tn.sum(tn.conv2d(x, w, padding=1)).backward()
    return (w.grad,)


def _norm_gradient() -> Any:
    x, weight = _normal(1, 700, 501).requires_grad_(), _normal(2, 501).requires_grad_()
    tn.sum(tn.layer_norm(x, 501, weight, _normal(3, 501)) * _normal(4, 700, 501)).backward()
    return x.grad, weight.grad


def _quantised() -> Any:
    scales = tuple(tn.asarray((_whole(s, 8, 16, "float32", 512, 4) / 16).numpy()) for s in (4, 5))
    inputs = (
        _whole(1, -128, 128, "int8", 64, 512),
        _whole(2, 8, 16, "float32", 64) / 16,
        _whole(3, 0, 256, "uint8", 512, 256),
        *scales,
    )
    return _kernels.apply(row("quantised_matmul"), inputs)


def _places(seed: int, rows_: int, columns: int, stored: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    flat = np.sort(rng.choice(rows_ * columns, stored, replace=False))
    return flat // columns, flat % columns


def _coo() -> Any:
    r, c = _places(1, 500, 400, 20000)
    return sparse.COO(_normal(2, 20000), tn.asarray(r), tn.asarray(c), (500, 400))


def _csr() -> Any:
    r, c = _places(1, 500, 400, 20000)
    starts = np.searchsorted(r, np.arange(501))
    return sparse.CSR(_normal(2, 20000), tn.asarray(c), tn.asarray(starts), (500, 400))


def _bsr() -> Any:
    r, c = _places(1, 60, 50, 900)
    starts = np.searchsorted(r, np.arange(61))
    return sparse.BSR(_normal(2, 900, 8, 8), tn.asarray(c), tn.asarray(starts), (480, 400))


def _chain() -> Any:
    f = tn.capture(lambda x, y: (tn.tanh(x * y + x) * 0.5 + y, tn.sum(x * y - x, axis=1)))
    return f(_normal(1, 600, 500), _normal(2, 600, 500))


def _product_chain() -> Any:
    steps = (("add", 0, (8, 9), ""), ("tanh", 1, (0,), ""), ("mul", 64, (1, 8), ""))
    program = Program(steps, ("float32", "float32"), ("float32",))
    inputs = (_normal(1, 300, 257), _normal(2, 257, 170), _normal(3, 170))
    return _kernels.apply(row("fused_product"), inputs, {"program": program, "keeps": False})


OWN: dict[str, Callable[[], Any]] = {
    "adamw_step": lambda: _stepped(tn.optim.AdamW),
    "affine": lambda: tn.affine(_normal(1, 300, 257), _normal(2, 257, 170), _normal(3, 170)),
    "bsmm": lambda: sparse.bsmm(_bsr(), _normal(3, 400, 33)),
    "byte_matmul": lambda: tn.byte_matmul(_whole(1, -128, 128, "int8", 300, 500), _whole(2, 0, 256, "uint8", 500, 200)),
    "conv": lambda: tn.conv2d(_normal(1, 8, 8, 30, 30), _normal(2, 16, 8, 3, 3), padding=1),
    "conv_affine": lambda: tn.conv2d(_normal(1, 8, 8, 30, 30), _normal(2, 16, 8, 3, 3), _normal(3, 16), padding=1),
    "conv_max_pool": _conv_max_pool,
    "conv_transpose": lambda: tn.conv_transpose2d(_normal(1, 8, 16, 30, 30), _normal(2, 16, 8, 3, 3)),
    "conv_weight_gradient": _weight_gradient,
    "fused": _chain,
    "fused_product": _product_chain,
    "layer_norm": lambda: tn.layer_norm(_normal(1, 700, 501), 501, _normal(2, 501), _normal(3, 501)),
    "matmul": lambda: (
        _normal(1, 300, 257) @ _normal(2, 257, 170),
        _normal(3, 40, 30, 70) @ _normal(4, 40, 70, 50),
        tn.astype(_normal(1, 300, 257), tn.float64) @ tn.astype(_normal(2, 257, 170), tn.float64),
        tn.astype(_normal(1, 300, 257), tn.float16) @ tn.astype(_normal(2, 257, 170), tn.float16),
        tn.astype(_normal(1, 200, 107), tn.complex64) @ tn.astype(_normal(2, 107, 90), tn.complex64),
    ),
    "norm_backward": _norm_gradient,
    "quantised_matmul": _quantised,
    "rms_norm": lambda: tn.rms_norm(_normal(1, 700, 501), 501, _normal(2, 501)),
    "sddmm": lambda: sparse.sddmm(_normal(3, 500, 64), _normal(4, 64, 400), _csr()).values,
    "sgd_plain_step": lambda: _stepped(lambda w: tn.optim.SGD(w, lr=0.1)),
    "sgd_step": lambda: _stepped(lambda w: tn.optim.SGD(w, lr=0.1, momentum=0.9, weight_decay=0.1)),
    "spmm_coo": lambda: sparse.spmm(_coo(), _normal(3, 400, 33)),
    "spmm_csr": lambda: sparse.spmm(_csr(), _normal(3, 400, 33)),
}


def batched(sample: Sample, dtype: str) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """A large batch of the sample, and its first three elements alone."""
    alone = [
        inputs_of(Sample(*[times(a, by) for a in sample.inputs], hermitian=sample.hermitian), dtype) for by in DIFFERENT
    ]
    count = max(4, -(-ELEMENTS // largest(sample)))
    whole = []
    for k in range(len(sample.inputs)):
        three = np.stack([one[k] for one in alone])
        whole.append(tensor_of(np.resize(three, (count, *three.shape[1:])), dtype))
    return tuple(whole), [tuple(tensor_of(a, dtype) for a in one) for one in alone]


def largest(sample: Sample) -> int:
    """Elements of the largest input."""
    return max((a.size for a in sample.inputs), default=0)


def results_of(primitive: Primitive) -> list[tuple[Any, ...]]:
    """What the row gives on large inputs; AssertionError where an element of a batch is not what it is alone."""
    found: list[tuple[Any, ...]] = []
    if primitive.name in OWN:
        outs = OWN[primitive.name]()
        found.append(outs if isinstance(outs, tuple) else (outs,))
    if primitive.batch is None or primitive.view is not None or primitive.in_place:
        return found
    for sample in sorted((s for s in samples_of(primitive) if largest(s)), key=largest, reverse=True)[:SAMPLES]:
        known = dtypes_of(primitive, sample)
        dtype = next((d for d in ("float32", "float64") if d in known), known[0])
        whole, alone = batched(sample, dtype)
        outs = vmap(lambda *xs, params=sample.params: run(primitive, xs, params))(*whole)
        for k, one in enumerate(alone):
            for many, single in zip(outs, run(primitive, one, sample.params), strict=True):
                for place in (k, k + (many.shape[0] - 1 - k) // 3 * 3):
                    assert bits(many[place]) == bits(single), (
                        f"{primitive.name} {sample}: element {place} of a large batch"
                    )
        found.append(outs)
    return found


def digests() -> dict[str, str]:
    """The digest of every row that threads share, by name."""
    found = {}
    for primitive in rows():
        if primitive.name in SERIAL:
            continue
        digest = hashlib.sha256()
        outs = results_of(primitive)
        for each in outs:
            add(digest, each)
        if outs:
            found[primitive.name] = digest.hexdigest()[:HEX_DIGITS]
    return found


def shared(primitive: Primitive) -> bool:
    """Whether the row's large cases start worker threads, found out in a child process."""
    child = os.fork()
    if child == 0:
        try:
            _kernels.set_threads(3)
            results_of(primitive)
            os._exit(0 if _kernels.workers_started() else 1)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), f"{primitive.name}: its large cases fail"
    return status == 0
