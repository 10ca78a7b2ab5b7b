"""Sums and dot products against torch and numpy: `python benchmarks/sum.py` (torch from the bench extra)."""

from __future__ import annotations

from functools import partial

from harness import Report, alternate, prepare

prepare()

import numpy as np  # noqa: E402
import torch  # noqa: E402

from tensor import _kernels, reduction  # noqa: E402

torch.set_num_threads(1)


def main() -> None:
    """All cases, in millions of elements a second."""
    report = Report("sum")
    for n in (1000, 1_000_000, 20_000_000):
        x = np.linspace(-1, 2, n, dtype=np.float32)
        tensor = torch.from_numpy(x)
        cases = [
            ("sum", partial(reduction.sum, x), "torch", tensor.sum),
            ("sum", partial(reduction.sum, x), "numpy", x.sum),
            ("dot", partial(reduction.dot, x, x), "torch", partial(torch.dot, tensor, tensor)),
        ]
        for name, ours, peer_name, peer in cases:
            own_seconds, peer_seconds = alternate(ours, peer)
            case = f"{name} float32 n={n} {_kernels.isa()}"
            report.add(case, 1e-6 * n / own_seconds, 1e-6 * n / peer_seconds, peer_name, "M elements/s", "higher")
    report.finish()


if __name__ == "__main__":
    main()
