"""Rows of optimizer steps: they change parameters and state in place, one tensor a call.

tensor/optim.py takes all tensors of a group in one call of the same kernel. Numbers that depend on the step's count are
computed in float64 by the caller and rounded to the tensor's type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.primitives.primitive import Params, Primitive, Sample
from tensor.primitives.reductions import check_dtype
from tensor.primitives.registry import register
from tensor.primitives.rules import equal_dtypes
from tensor.primitives.spec import Spec, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]

CATEGORY = "optimizer"
STEPPED = ("float32", "float64")


def _alike(name: str, specs: Specs) -> Spec:
    p = specs[0]
    check_dtype(name, p, STEPPED)
    equal_dtypes(name, specs)
    for s in specs[1:]:
        if s.shape != p.shape:
            raise ShapeError(f"{name}: gradient and state must have the parameter's shape {p.shape}, got {s.shape}")
    return Spec(p.shape, p.dtype, p.device)


def _cost(flops: int) -> Any:
    return lambda specs, outs, params: (total_bytes((*specs, *outs)), flops * specs[0].size)


def _adamw_shape(specs: Specs, params: Params) -> tuple[Spec, ...]:
    return (_alike("adamw_step", specs),) * 3


def adamw_numbers(params: Any) -> tuple[float, ...]:
    """The numbers of a step in the order of the kernel."""
    return tuple(float(params[key]) for key in ("decay", "beta1", "beta2", "step", "root_scale", "epsilon"))


def _contiguous(inputs: tuple[Tensor, ...], name: str) -> None:
    for x in inputs:
        if not x.is_contiguous():
            raise ShapeError(f"{name}: parameter, gradient and state must lie in C order (hint: contiguous())")


def _adamw_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    p, m, v = outs
    g = inputs[1].contiguous()
    _contiguous(outs, "adamw_step")
    _kernels.adamw_step([p], [g], [m], [v], *adamw_numbers(params))


def _adamw_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.optimizer_steps_ref import adamw

    p, g, m, v = arrays
    return adamw(p, g, m, v, **params)


def _adamw_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    p, g, m, v = arrays
    m = params["beta1"] * m + (1 - params["beta1"]) * g
    v = params["beta2"] * v + (1 - params["beta2"]) * g * g
    step = params["step"] * m / (v**0.5 * params["root_scale"] + params["epsilon"])
    return p * params["decay"] - step, m, v


def _adamw_samples(rng: np.random.Generator) -> Iterable[Sample]:
    numbers = {"decay": 0.999, "beta1": 0.9, "beta2": 0.999, "step": 0.01, "root_scale": 3.0, "epsilon": 1e-8}
    for shape in ((3, 5), (7,), (), (0, 2)):
        p, g, m = (rng.normal(size=shape) for _ in range(3))
        yield Sample(p, g, m, rng.uniform(0.1, 1, shape), params=numbers)


ADAMW_STEP = register(
    Primitive(
        "adamw_step",
        category=CATEGORY,
        summary="m, v averages of g, g²; p·decay − step·m / (√v·root_scale + epsilon): p, m, v in place.",
        dtypes=STEPPED,
        shape=_adamw_shape,
        kernel=_adamw_kernel,
        twin=_adamw_twin,
        in_place=(0, 2, 3),
        cost=_cost(14),
        samples=_adamw_samples,
        oracle=_adamw_oracle,
    )
)


def _sgd_shape(specs: Specs, params: Params) -> tuple[Spec, ...]:
    return (_alike("sgd_step", specs),) * 2


def sgd_numbers(params: Any) -> tuple[Any, ...]:
    """The numbers of a step in the order of the kernel."""
    numbers = tuple(float(params[key]) for key in ("rate", "decay", "momentum", "dampening"))
    return (*numbers, bool(params["nesterov"]), bool(params["first_step"]))


def _sgd_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _contiguous(outs, "sgd_step")
    _kernels.sgd_step([outs[0]], [inputs[1].contiguous()], [outs[1]], *sgd_numbers(params))


def sgd_twin(p: Any, g: Any, momentum: Any, params: Any) -> Any:
    """The twin with the row's params."""
    from tensor.twins.optimizer_steps_ref import sgd

    named = {**params, "mu": params["momentum"]}
    del named["momentum"]
    return sgd(p, g, momentum, **named)


def _sgd_row_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    p, g, momentum = arrays
    return sgd_twin(p, g, momentum, params)


def _sgd_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    p, g, momentum = arrays
    d = g + params["decay"] * p
    momentum = d if params["first_step"] else params["momentum"] * momentum + (1 - params["dampening"]) * d
    d = d + params["momentum"] * momentum if params["nesterov"] else momentum
    return p - params["rate"] * d, momentum


def _sgd_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, decay, nesterov, first_step in (
        ((3, 5), 0.1, True, False),
        ((7,), 0.0, False, False),
        ((), 0.1, False, True),
    ):
        numbers = {"rate": 0.1, "decay": decay, "momentum": 0.9, "dampening": 0.2, "nesterov": nesterov}
        yield Sample(*(rng.normal(size=shape) for _ in range(3)), params={**numbers, "first_step": first_step})


SGD_STEP = register(
    Primitive(
        "sgd_step",
        category=CATEGORY,
        summary="d = g + decay·p; momentum = μ·momentum + (1 − dampening)·d; p − rate·momentum: p, momentum in place.",
        dtypes=STEPPED,
        shape=_sgd_shape,
        kernel=_sgd_kernel,
        twin=_sgd_row_twin,
        in_place=(0, 2),
        cost=_cost(6),
        samples=_sgd_samples,
        oracle=_sgd_oracle,
    )
)


def _plain_shape(specs: Specs, params: Params) -> tuple[Spec, ...]:
    return (_alike("sgd_plain_step", specs),)


def _plain_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    _contiguous(outs, "sgd_plain_step")
    _kernels.sgd_step([outs[0]], [inputs[1].contiguous()], None, *_plain_numbers(params))


def _plain_numbers(params: Any) -> tuple[Any, ...]:
    return float(params["rate"]), float(params["decay"]), 0.0, 0.0, False, False


def _plain_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    rest = {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "first_step": False}
    p, g = arrays
    return (sgd_twin(p, g, None, {**params, **rest})[0],)


def _plain_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, decay in (((3, 5), 0.1), ((7,), 0.0)):
        yield Sample(*(rng.normal(size=shape) for _ in range(2)), params={"rate": 0.1, "decay": decay})


SGD_PLAIN_STEP = register(
    Primitive(
        "sgd_plain_step",
        category=CATEGORY,
        summary="p − rate·(g + decay·p), in place.",
        dtypes=STEPPED,
        shape=_plain_shape,
        kernel=_plain_kernel,
        twin=_plain_twin,
        in_place=(0,),
        cost=_cost(3),
        samples=_plain_samples,
        oracle=lambda arrays, params: (arrays[0] - params["rate"] * (arrays[1] + params["decay"] * arrays[0]),),
    )
)
