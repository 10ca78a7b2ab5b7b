"""Rows of random numbers: what a key, or each key of a batch, gives. The keys are uint64 tensors of their seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import DtypeError
from tensor.primitives.primitive import FLOATS, INTEGERS, Params, Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import ELEMENTWISE_BATCH, Dims, apply, broadcast_shapes, expand_to, front
from tensor.primitives.spec import Spec, total_bytes
from tensor.random import FOLD_IN, SPLIT

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]

CATEGORY = "random"


def _require_keys(name: str, x: Any) -> None:
    if x.dtype.name != "uint64":
        raise DtypeError(f"{name}: keys must be uint64, got {x.dtype.name}")


# --- children --------------------------------------------------------------------------------------------------------


def _child_shape(specs: Specs, params: Params) -> Spec:
    for x in specs:
        _require_keys("random_child", x)
    if params["tag"] not in (SPLIT, FOLD_IN):
        raise ValueError(f"random_child: tag must be {SPLIT} or {FOLD_IN}, got {params['tag']!r}")
    return Spec(broadcast_shapes("random_child", [s.shape for s in specs]), "uint64", specs[0].device)


def _child_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    keys, numbers = (expand_to(x, outs[0].shape) for x in inputs)
    _kernels.random_children(keys, numbers, params["tag"], outs[0])


def _child_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor import random_ref

    return random_ref.children(arrays[0], arrays[1], params["tag"])


def _keys(rng: np.random.Generator, *shape: int) -> Any:
    import numpy as np

    return rng.integers(0, 2**64, shape, np.uint64, endpoint=False)


def _child_samples(rng: np.random.Generator) -> Iterable[Sample]:
    import numpy as np

    numbers = np.array([0, 1, 2**32, 2**64 - 1], np.uint64)
    yield Sample(_keys(rng), numbers[3], params={"tag": SPLIT})
    yield Sample(_keys(rng, 3, 1), numbers, params={"tag": SPLIT})
    yield Sample(_keys(rng, 4), numbers, params={"tag": FOLD_IN})
    yield Sample(_keys(rng, 0), numbers[0], params={"tag": FOLD_IN})


RANDOM_CHILD = register(
    Primitive(
        "random_child",
        category=CATEGORY,
        summary="Child keys by number: of split (tag 1) or of fold_in (tag 2).",
        dtypes=("uint64",),
        shape=_child_shape,
        kernel=_child_kernel,
        twin=_child_twin,
        batch=ELEMENTWISE_BATCH,
        samples=_child_samples,
    )
)

# --- draws -----------------------------------------------------------------------------------------------------------


def _draw(
    name: str,
    summary: str,
    dtypes: tuple[str, ...],
    twin: Callable[[Any, Params], Any],
    samples: Iterable[dict[str, Any]],
    bounds: Callable[[Params], tuple[int, int]] = lambda params: (0, 0),
    flops: int = 1,
) -> Primitive:
    """A row that draws `shape` elements of type `dtype` for each key, from element `offset` on."""
    full, kind = f"random_{name}", name

    def shape(specs: Specs, params: Params) -> Spec:
        _require_keys(full, specs[0])
        if params["dtype"] not in dtypes:
            raise DtypeError(f"{full}: {params['dtype']} is not drawn (hint: {', '.join(dtypes)})")
        offset = params["offset"]
        if type(offset) is not int or not 0 <= offset < 2**64:
            raise ValueError(f"{full}: offset must be an int from 0 to 2**64 - 1, got {offset!r}")
        bounds(params)
        return Spec((*specs[0].shape, *params["shape"]), params["dtype"], specs[0].device)

    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        _kernels.random_draw(kind, inputs[0], params["offset"], *bounds(params), outs[0])

    def batch(inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
        assert dims[0] is not None
        return apply(row, (front(inputs[0], dims[0]),), params), 0

    def cost(specs: Specs, outs: Specs, params: Params) -> tuple[int, int]:
        return total_bytes((*specs, *outs)), flops * sum(math.prod(s.shape) for s in outs)

    def of(rng: np.random.Generator) -> Iterable[Sample]:
        for dtype in dtypes:
            for size, offset in (((7,), 0), ((2, 3), 2**34 + 5), ((), 2**64 - 1), ((0, 2), 1), ((70,), 3)):
                for more in samples:
                    yield Sample(_keys(rng), params={"shape": size, "offset": offset, "dtype": dtype, **more})
            for more in samples:
                yield Sample(_keys(rng, 3, 2), params={"shape": (5,), "offset": 6, "dtype": dtype, **more})
                yield Sample(_keys(rng, 0), params={"shape": (5,), "offset": 0, "dtype": dtype, **more})

    row = register(
        Primitive(
            full,
            category=CATEGORY,
            summary=summary,
            dtypes=("uint64",),
            shape=shape,
            kernel=kernel,
            twin=lambda arrays, params: twin(arrays[0], params),
            batch=batch,
            cost=cost,
            samples=of,
        )
    )
    return row


def _twin(name: str, *fields: str) -> Callable[[Any, Params], Any]:
    def run(keys: Any, params: Params) -> Any:
        from tensor import random_ref

        return getattr(random_ref, name)(keys, params["shape"], params["offset"], *(params[f] for f in fields))

    return run


def _range(params: Params) -> tuple[int, int]:
    """The least result modulo 2^64, and how many results there are, 0 for 2^64."""
    low, high, dtype = params["low"], params["high"], params["dtype"]
    width = int(dtype.lstrip("uint"))
    least, above = (0, 2**width) if dtype[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1))
    if type(low) is not int or type(high) is not int or not least <= low < high <= above:
        raise ValueError(f"random_randint: low and high must be a range of {dtype}, got {low!r} and {high!r}")
    return low % 2**64, (high - low) % 2**64


def _limit(params: Params) -> tuple[int, int]:
    limit = params["limit"]
    if type(limit) is not int or not 0 <= limit <= 2**24:
        raise ValueError(f"random_bernoulli: limit must be an int from 0 to 2**24, got {limit!r}")
    return 0, limit


RANDOM_BITS = _draw(
    "bits", "The random words of each key.", ("uint32", "uint64"), _twin("bits", "dtype"), [{}], flops=0
)
RANDOM_UNIFORM = _draw("uniform", "Numbers in [0, 1) of each key.", FLOATS, _twin("uniform", "dtype"), [{}])
RANDOM_NORMAL = _draw("normal", "Normal numbers of each key.", FLOATS, _twin("normal", "dtype"), [{}], flops=30)
RANDOM_RANDINT = _draw(
    "randint",
    "Integers from low to high − 1 of each key, all equally likely.",
    INTEGERS,
    _twin("randint", "low", "high", "dtype"),
    [{"low": 3, "high": 100}],
    _range,
)
RANDOM_BERNOULLI = _draw(
    "bernoulli",
    "Whether the uniform numbers of each key are below limit·2^-24.",
    ("bool",),
    _twin("bernoulli", "limit"),
    [{"limit": 0}, {"limit": 5_000_000}, {"limit": 2**24}],
    _limit,
)
