"""The row of a product and what follows it: a program of elementwise steps on each block of rows that is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError, ShapeError
from tensor.primitives.blocks import in_front
from tensor.primitives.contraction import MATMUL
from tensor.primitives.fused import Program
from tensor.primitives.primitive import FLOATS, Params, Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, Dims, apply, batch_size, broadcast_shapes, expand_to
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FUSED_PRODUCT", "place_of_product", "prepared"]

Tensor = Any


def place_of_product(program: Program) -> int:
    """The first output of a program in whose place the product may lie until it is written; −1 if there is none."""
    return next((k for k in range(len(program.outs)) if 0 in program.overwrites(k)), -1)


def _shape(specs: tuple[Any, ...], params: Params) -> Any:
    program: Program = params["program"]
    a, b, *others = specs
    if program.end or len(program.inputs) != len(others) + 1:
        raise ShapeError(
            f"fused_product: after a product a program has no end and reads the product and {len(program.inputs) - 1} "
            f"others, got {len(others)}"
        )
    product = MATMUL.specs_of((a, b), None)[0]
    names = tuple(name_of(s.dtype) for s in (product, *others))
    if names != program.inputs or names[0] not in FLOATS:
        raise DtypeError(f"fused_product: the program reads {', '.join(program.inputs)}, got {', '.join(names)}")
    if broadcast_shapes("fused_product", [product.shape, *(s.shape for s in others)]) != product.shape:
        raise ShapeError(f"fused_product: what follows must broadcast to the product's shape {product.shape}")
    outs = [Spec(product.shape, dtype, a.device) for dtype in program.outs]
    if params["keeps"]:
        outs.insert(0, product)
    elif place_of_product(program) < 0:
        raise ValueError("fused_product: no output has the product's type and is written after it is read")
    return outs[0] if len(outs) == 1 else tuple(outs)


def _kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    prepared(params)(outs, inputs)


def prepared(params: Params) -> Callable[[Any, Any], None]:
    """The kernel of a fused step, with or without a product, for one set of params: call(outs, inputs)."""
    program: Program = params["program"]
    compiled, axes = program.compiled(), program.axes
    if "keeps" not in params:
        run = compiled.run
        return lambda outs, inputs: run(outs, inputs, axes)
    after = compiled.run_product
    if params["keeps"]:
        return lambda outs, inputs: after(inputs[0], inputs[1], outs[0], outs[1:], inputs[2:])
    place = place_of_product(program)
    return lambda outs, inputs: after(inputs[0], inputs[1], outs[place], outs, inputs[2:])


def _twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import contraction_ref
    from tensor.twins.fused_ref import run_program

    product = contraction_ref.matmul(arrays[0], arrays[1])
    outs = run_program(params["program"], (product, *arrays[2:]))
    if params["keeps"]:
        outs = (product, *outs)
    return outs[0] if len(outs) == 1 else outs


def _cost(specs: tuple[Any, ...], outs: tuple[Any, ...], params: Params) -> tuple[int, int]:
    work = 2 * specs[0].shape[-1] + len(params["program"].steps)
    return total_bytes((*specs, *outs)), outs[0].size * work


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    steps = (("add", 0, (8, 9), ""), ("tanh", 1, (0,), ""), ("mul", 64, (1, 8), ""), ("lt", 65, (0, 1), ""))
    a, b, bias = rng.normal(size=(2, 3, 5)), rng.normal(size=(5, 4)), rng.normal(size=4)
    for dtype in FLOATS:
        program = Program(steps, (dtype, dtype), (dtype, "bool"))
        for keeps in (False, True):
            yield Sample(a, b, bias, params={"program": program, "keeps": keeps}, dtypes=(dtype,))
    rows = Program((("maximum", 64, (8, 9), ""),), ("float32", "float32"), ("float32",))
    wide, column = rng.normal(size=(1, 300)), rng.normal(size=(2, 70, 1))
    params = {"program": rows, "keeps": False}
    yield Sample(rng.normal(size=(2, 70, 1)), wide, column, params=params, dtypes=("float32",))
    yield Sample(rng.normal(size=(3, 0)), rng.normal(size=(0, 2)), bias[:1], params=params, dtypes=("float32",))


def _batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """The batch is a leading dimension of the product, and what follows is aligned with it."""
    n = batch_size(inputs, dims)
    rank = max(x.ndim - (d is not None) for x, d in zip(inputs[:2], dims, strict=False))
    if dims[:2] == (None, None):  # only what follows has a batch
        inputs, dims = (expand_to(inputs[0], (n, *inputs[0].shape)), *inputs[1:]), (0, *dims[1:])
    result = apply(primitive, tuple(in_front(x, d, rank) for x, d in zip(inputs, dims, strict=True)), params)
    return result, (0,) * len(result) if isinstance(result, tuple) else 0


FUSED_PRODUCT = register(
    Primitive(
        "fused_product",
        category="fusion",
        summary="A product of matrices, and a chain of elementwise operations on each block of its rows.",
        dtypes=FLOATS,
        shape=_shape,
        kernel=_kernel,
        twin=_twin,
        batch=BatchRule(_batch),
        cost=_cost,
        samples=_samples,
    )
)
