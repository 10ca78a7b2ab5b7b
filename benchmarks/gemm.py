"""Matrix products against numpy's OpenBLAS, and the AVX-512 build against the AVX2 one: `python benchmarks/gemm.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from harness import Report, alternate, prepare

prepare()

import numpy as np  # noqa: E402

from tensor import _kernels  # noqa: E402
from tensor.product import matmul  # noqa: E402

SIZES = {"float32": (64, 128, 256, 512, 1024, 2048), "float64": (256, 512, 1024)}
BUILDS = 512


def factors(n: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two square factors and room for the product."""
    values = np.arange(n * n, dtype=dtype).reshape(n, n) % 17 - 8
    return values / 8, values.T.copy() / 4, np.empty((n, n), dtype)


def own_gflops(n: int) -> float:
    """Our float32 speed at n, in this process."""
    a, b, out = factors(n, "float32")
    seconds, _ = alternate(partial(matmul, a, b, out), partial(matmul, a, b, out))
    return 2e-9 * n**3 / seconds


def gflops_of_build(isa: str, n: int) -> float:
    """Our float32 speed at n in a process that uses another build."""
    command = [sys.executable, __file__, "--build", str(n)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "DROVEWAY_ISA": isa})
    return float(text.stdout)


def main() -> None:
    """All cases."""
    report = Report("gemm")
    for dtype, sizes in SIZES.items():
        for n in sizes:
            a, b, out = factors(n, dtype)
            ours, peer = alternate(partial(matmul, a, b, out), partial(np.matmul, a, b, out))
            work = 2e-9 * n**3
            case = f"{dtype} n={n} {_kernels.isa()}"
            report.add(case, work / ours, work / peer, "numpy (OpenBLAS)", "GFLOP/s", "higher")
    if _kernels.isa_best() == "v4":
        pairs = [(gflops_of_build("v4", BUILDS), gflops_of_build("v3", BUILDS)) for _ in range(3)]
        wide, narrow = sorted(pairs)[1]
        report.add(f"float32 n={BUILDS} v4", wide, narrow, "our v3 build", "GFLOP/s", "higher")
    report.finish()


if __name__ == "__main__":
    if "--build" in sys.argv:
        sys.stdout.write(f"{own_gflops(int(sys.argv[-1]))}\n")
    else:
        main()
