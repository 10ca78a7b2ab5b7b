"""Runs a row's twin where there is no kernel: on the device `ref`, and everywhere under DROVEWAY_ISA=ref."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.float_mode import plain_mode

__all__ = ["array_of", "run_twin"]


def array_of(x: Any) -> Any:
    """A numpy array over a tensor's memory; bfloat16 as tensor/twins/bfloat16_ref.py has it."""
    import numpy as np

    plain = x.detach() if x.requires_grad else x
    if plain.dtype != "bfloat16":
        return np.asarray(memoryview(plain))
    from tensor.twins.bfloat16_ref import BFLOAT16

    return np.asarray(memoryview(_kernels.bitcast(plain, "uint16"))).view(BFLOAT16)


def run_twin(primitive: Any, outs: tuple[Any, ...], inputs: tuple[Any, ...], params: Any) -> None:
    """Writes the twin's results into the outs. TypeError where the twin gives another type or shape than the rule."""
    import numpy as np

    arrays = tuple(array_of(x) for x in inputs)
    with plain_mode(), np.errstate(all="ignore"):
        results = primitive.twin(arrays, params)
    for out, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
        target = array_of(out)
        value = np.asarray(result)
        if value.shape != target.shape or value.dtype != target.dtype:
            raise TypeError(
                f"twin of {primitive.name}: expected {target.dtype}{list(target.shape)} by the shape rule, "
                f"got {value.dtype}{list(value.shape)}"
            )
        target[...] = value
