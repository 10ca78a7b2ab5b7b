"""What a type checker accepts and rejects of element types and ranks: mypy over snippets, with the shipped stubs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tensor
from tensor import _kernels

try:
    from mypy import api
except ImportError:
    api = None
# A mark, not importorskip: a run that leaves oracles out must not count this file as skipped.
pytestmark = [pytest.mark.oracle, pytest.mark.skipif(api is None, reason="mypy comes with the extra dev")]

START = """
import tensor as tn
from tensor.typed import Float32, Float64, Int64, Rank1, Rank2

def layer(x: tn.Tensor[Float32, Rank2], bias: tn.Tensor[Float32, Rank1]) -> tn.Tensor[Float32, Rank2]:
    y: tn.Tensor[Float32, Rank2] = tn.exp(x) * 2.0
    return y

x = tn.zeros((2, 3))
bias = tn.ones(3)
"""

GOOD = [
    "layer(x, bias)",
    "layer(tn.matmul(x, tn.eye(3)), bias)",
    "layer(x.T, tn.zeros((3,), dtype=tn.float32))",
    "layer(tn.astype(tn.zeros((2, 3), dtype=tn.int8), tn.float32), bias)",
    "layer(tn.asarray([[1.0]]), tn.asarray([1.0]))  # of unknown rank: fits everywhere",
    "plain: tn.Tensor = x",
    "z: tn.Tensor[Float64, Rank2] = tn.zeros_like(x, dtype=tn.float64)",
    "n: tn.Tensor[Int64, Rank1] = tn.arange(3, dtype=tn.int64)",
    "x += 1.0; x.requires_grad_().sum().backward()",
    "layer(tn.random.Key(1).normal((2, 3)), tn.random.uniform(tn.random.Key(1), 3))",
    "layer(tn.random.dropout(tn.random.Key(1), x, 0.5), tn.random.Stream(1).uniform(3))",
    "m: tn.Tensor[Int64, Rank1] = tn.random.Key(1).permutation(9)",
]

BAD = [
    ("layer(bias, bias)", "arg-type"),
    ("layer(x, x)", "arg-type"),
    ("layer(tn.zeros((2, 3), dtype=tn.float64), bias)", "arg-type"),
    ("layer(tn.zeros((2, 3, 4)), bias)", "arg-type"),
    ("layer(tn.matmul(x, bias), bias)", "arg-type"),
    ("layer(tn.astype(x, tn.int8), bias)", "arg-type"),
    ("tn.matmul(x, tn.zeros((3, 3), dtype=tn.float64))", "misc"),
    ("w: tn.Tensor[Float32, Rank1] = tn.exp(x)", "arg-type"),
    ("layer(tn.random.Key(1).normal(3), bias)", "arg-type"),
    ("layer(tn.random.normal(tn.random.Key(1), (2, 3), dtype=tn.float64), bias)", "arg-type"),
    ("layer(x, tn.random.Key(1).randint(0, 9, 3))", "arg-type"),
    ("tn.random.Key('1')", "arg-type"),
    ("x.shape = (3, 2)", "misc"),
    ("x.requires_grad_('yes')", "arg-type"),
]


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> list[str]:
    package = folder / "tensor"  # an editable install has its stub elsewhere, where mypy does not look
    shutil.copytree(
        Path(tensor.__file__).parent, package, ignore=shutil.ignore_patterns("kernels", "__pycache__", "*.so")
    )
    shutil.copy(Path(_kernels.__file__).parent / "_kernels.pyi", package)
    file = folder / "snippet.py"
    file.write_text(START + "\n".join(lines) + "\n")
    command = [
        "--strict",
        "--no-incremental",
        "--follow-imports=silent",
        "--disable-error-code=import-untyped",
        str(file),
    ]
    out, errors, _ = api.run(command)
    assert errors == ""
    return [line for line in out.splitlines() if "error:" in line]


def test_mypy_accepts_what_fits_and_rejects_other_element_types_and_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*GOOD, *(line for line, _ in BAD)]
    errors = check(tmp_path, monkeypatch, lines)
    first = START.count("\n") + 1
    found = {int(line.split(":")[1]) - first: line for line in errors}
    for k, line in enumerate(lines):
        if k < len(GOOD):
            assert k not in found, f"{line}: {found.get(k)}"
        else:
            assert k in found, f"accepted: {line}"
            assert found[k].endswith(f"[{BAD[k - len(GOOD)][1]}]"), f"{line}: {found[k]}"
