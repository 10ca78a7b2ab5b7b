"""Elementary functions and random numbers against torch and numpy: `python benchmarks/elementary.py`.

All arrays are warm and of a million elements, results go into a given array; what counts is the CPU time of the one
thread. torch from the bench extra; its exp and log use Intel's vector library, which is slower on other makers'
processors.
"""

from __future__ import annotations

from harness import Report, alternate, prepare

prepare()

import numpy as np  # noqa: E402 (after prepare)
import torch  # noqa: E402

from tensor import _kernels, elementary  # noqa: E402
from tensor.random import Key  # noqa: E402

torch.set_num_threads(1)

N = 1_000_000
UNIT = "M elements/s"


def main() -> None:
    """All cases, in millions of elements a second."""
    report = Report("elementary")

    def compare(case: str, ours: object, peer: object, peer_name: str, seconds: float = 0.6) -> None:
        own_seconds, peer_seconds = alternate(ours, peer, seconds)  # type: ignore[arg-type]
        rates = (1e-6 * N / own_seconds, 1e-6 * N / peer_seconds)
        report.add(f"{case} n={N} {_kernels.isa()}", *rates, peer_name, UNIT, "higher")

    spread = np.random.default_rng(1).standard_normal(N)
    for dtype in (np.float32, np.float64):
        names = ("exp", "log", "sin", "cos", "tanh", "erf", "sqrt") if dtype == np.float32 else ("exp", "log", "sqrt")
        for name in names:
            x = (np.abs(spread) + 0.01 if name in {"log", "sqrt"} else spread).astype(dtype)
            out, tensor_x = np.empty_like(x), torch.from_numpy(x)
            tensor_out = torch.empty_like(tensor_x)
            ours, own = getattr(elementary, name), getattr(torch, name)
            case = f"{name} {np.dtype(dtype).name}"
            compare(case, lambda: ours(x, out=out), lambda: own(tensor_x, out=tensor_out), "torch")  # noqa: B023
            if name != "erf":
                peer = getattr(np, name)
                compare(case, lambda: ours(x, out=out), lambda: peer(x, out=out), "numpy")  # noqa: B023

    x = np.abs(spread).astype(np.float32)
    y = spread[::-1].astype(np.float32)
    out = np.empty_like(x)
    compare("pow float32", lambda: elementary.pow(x, y, out=out), lambda: np.power(x, y, out=out), "numpy")

    key, generator, torch_generator = Key(1), np.random.default_rng(1), torch.Generator().manual_seed(1)
    compare("uniform float32", lambda: key.uniform(N), lambda: generator.random(N, np.float32), "numpy")
    compare("normal float32", lambda: key.normal(N), lambda: generator.standard_normal(N, np.float32), "numpy")
    compare("normal float32", lambda: key.normal(N), lambda: torch.randn(N, generator=torch_generator), "torch")
    report.finish()


if __name__ == "__main__":
    main()
