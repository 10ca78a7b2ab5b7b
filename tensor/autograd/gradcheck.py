"""Gradients compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensor.autograd.backward import floating
from tensor.autograd.grad import vjp
from tensor.autograd.grad_mode import no_grad
from tensor.autograd.pytree import tree_flatten, tree_leaves, tree_unflatten
from tensor.errors import DtypeError, GradientError
from tensor.functions.creation import asarray
from tensor.primitives.spec import Spec

__all__ = ["gradcheck"]

Tensor = Any

_GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, are spread evenly and never repeat


def gradcheck(
    fn: Callable[..., Any], args: tuple[Any, ...], *, step: float = 1e-6, rtol: float = 1e-5, atol: float = 1e-7
) -> float:
    """Compares the gradients of fn with central differences; the largest difference found.

    What is compared is the derivative of the results' weighted sum (weights fixed, between ½ and 1½, and complex for
    complex results) with respect to each element of each tensor of floats in args: 2 runs of fn an element, step·max(1,
    |x|) apart each way. Raises GradientError naming the argument and the element where they differ by more than
    atol + rtol·|difference quotient|, DtypeError for floats that are not float64 or complex128.

    >>> import tensor as tn
    >>> tn.autograd.gradcheck(lambda x: x * x * x, (tn.asarray([1.0, 2.0], dtype=tn.float64),)) < 1e-8
    True
    """
    leaves, treedef = tree_flatten(args)
    at = [i for i, x in enumerate(leaves) if floating(x)]
    for i in at:
        if leaves[i].dtype.name not in ("float64", "complex128"):
            raise DtypeError(
                f"gradcheck: needs float64 or complex128, got {_name(leaves[i])} (leaf {i} of the arguments)"
            )

    def of_floats(*moving: Tensor) -> list[Any]:
        full = list(leaves)
        for i, x in zip(at, moving, strict=True):
            full[i] = x
        return [o for o in tree_leaves(fn(*tree_unflatten(treedef, full))) if floating(o)]

    start = [leaves[i] for i in at]
    outs, pull = vjp(of_floats, *start)
    weights = _weights(outs)
    analytic = pull(weights)
    worst = 0.0
    with no_grad():
        for k, (x, g) in enumerate(zip(start, analytic, strict=True)):
            for index, unit in _directions(x):
                value = _element(x, index)
                h = step * max(1.0, abs(value))
                ends = []
                for sign in (1.0, -1.0):
                    moved = list(start)
                    moved[k] = _moved(x, index, sign * h * unit)
                    ends.append(_inner(weights, of_floats(*moved)))
                numeric = (ends[0] - ends[1]) / (2 * h)
                found = _element(g, index)
                exact = found.imag if isinstance(unit, complex) else found.real
                error = abs(exact - numeric)
                if not error <= atol + rtol * abs(numeric):
                    part = " (imaginary part)" if isinstance(unit, complex) else ""
                    raise GradientError(
                        f"gradcheck: argument {k}, {_name(x)}, element {index}{part}: "
                        f"the gradient is {exact:.10g}, finite differences give {numeric:.10g}"
                    )
                worst = max(worst, error)
    return worst


def _name(x: Tensor) -> str:
    return repr(Spec(x.shape, x.dtype))


def _weights(outs: list[Tensor]) -> list[Tensor]:
    import numpy as np

    weights, k = [], 1
    for o in outs:
        numbers = np.arange(k, k + o.size)
        k += o.size
        w = 0.5 + (numbers * _GOLDEN) % 1.0
        if o.dtype.name == "complex128":
            w = w + 1j * (0.5 + (numbers * _GOLDEN * _GOLDEN) % 1.0)
        weights.append(asarray(w.reshape(o.shape)))
    return weights


def _inner(weights: list[Tensor], outs: list[Tensor]) -> float:
    """Σ Re(conj(weight)·result), added exactly."""
    import math

    import numpy as np

    terms: list[float] = []
    for w, o in zip(weights, outs, strict=True):
        product = np.conj(w.numpy()) * o.detach().numpy()
        terms += np.real(product).ravel().tolist()
    return math.fsum(terms)


def _directions(x: Tensor) -> Any:
    import numpy as np

    for index in np.ndindex(*x.shape):
        yield index, 1.0
        if x.dtype.name == "complex128":
            yield index, 1j


def _element(x: Tensor, index: tuple[int, ...]) -> Any:
    return x.detach().numpy()[index].item()


def _moved(x: Tensor, index: tuple[int, ...], by: complex) -> Tensor:
    array = x.detach().numpy().copy()
    array[index] += by
    return asarray(array)
