"""The row of a convolution with bias and activation whose result only a maximum over 2×2 windows reads.

Capture puts it there (tensor/graph/convolutions.py): the convolved image, four times as large, never leaves the cache.
Params are those of `conv_affine`, `output` even or one more, and those of `max_pool` with `pool_` before their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.primitives.blocks import more_groups
from tensor.primitives.contraction import activation_code
from tensor.primitives.convolution import CONV_AFFINE, conv_params
from tensor.primitives.pooling import MAX_POOL
from tensor.primitives.primitive import Params, Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import call
from tensor.primitives.spec import Spec, item_bytes, name_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["CONV_MAX_POOL", "fits"]

Tensor = Any
Specs = tuple[Any, ...]

_ROW_BYTES = 512  # of a convolved image: some rows of some channels stay in the cache
_PAIRS = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}


def fits(image: Spec, pool: Params) -> bool:
    """Whether the row computes such a maximum of such a convolved image.

    >>> fits(Spec((1, 8, 28, 28), "float32"), {**_PAIRS, "output": (14, 14)})
    True
    """
    height, width = image.shape[2:]
    return (
        all(tuple(pool[key]) == value for key, value in _PAIRS.items())
        and tuple(pool["output"]) == (height // 2, width // 2)
        and name_of(image.dtype) in ("float32", "float64")
        and width // 2 * 2 * item_bytes(image.dtype) <= _ROW_BYTES
    )


def _pool_params(params: Params) -> dict[str, Any]:
    return {key[5:]: value for key, value in params.items() if key.startswith("pool_")}


def _shape(specs: Specs, params: Params) -> tuple[Spec, Spec]:
    image = CONV_AFFINE.shape(specs, params)
    pool = _pool_params(params)
    if not fits(image, pool):
        raise ShapeError(f"conv_max_pool: windows must be 2×2, rows at most 512 bytes, got {pool} of {image!r}")
    found: tuple[Spec, Spec] = MAX_POOL.shape((image,), pool)
    return found


def _kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    x, w, bias = inputs
    if bias.strides != (1,):
        bias = call("copy", bias)
    p, code = params, activation_code(params["activation"])
    around = p["stride"], p["padding"], p["dilation"], (1, 1), p["groups"], False
    _kernels.convolution(x, w, outs[0], *around, bias, code, outs[1], p["output"][1])


def _twin(arrays: tuple[Any, ...], params: Params) -> Any:
    assert CONV_AFFINE.twin is not None and MAX_POOL.twin is not None
    return MAX_POOL.twin((CONV_AFFINE.twin(arrays, params),), _pool_params(params))


def _cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
    assert CONV_AFFINE.cost is not None
    size: tuple[int, int] = CONV_AFFINE.cost(specs, (CONV_AFFINE.shape(specs, params),), params)
    return size


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for activation, size, groups in (("relu", (7, 8), 1), ("none", (18, 5), 2), ("tanh", (2, 33), 1)):
        params = conv_params((1, 1), (1, 1), (1, 1), groups, output=size, activation=activation)
        pool = {f"pool_{key}": value for key, value in _PAIRS.items()}
        params |= {**pool, "pool_output": (size[0] // 2, size[1] // 2)}
        x, w = rng.normal(size=(2, 2, *size)), rng.normal(size=(4, 2 // groups, 3, 3))
        yield Sample(x, w, rng.normal(size=4), params=params, gradcheck=False)


CONV_MAX_POOL: Primitive = register(
    Primitive(
        "conv_max_pool",
        category="convolution",
        summary="max_pool(activation(conv(x, w) + bias)) over 2×2: the bits of the steps one after another.",
        shape=_shape,
        dtypes=("float32", "float64"),
        kernel=_kernel,
        twin=_twin,
        batch=more_groups("image", "weights", "weights"),
        cost=_cost,
        samples=_samples,
    )
)
