"""Rows of Fourier transforms along the last dimension, of any length; computed in float64 and rounded once.

`divide` says what the sum is divided by: 0 nothing, 1 the length n, 2 its square root. All three rows are linear (over
the real numbers), so each gradient is a transform again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError, ShapeError
from tensor.primitives.primitive import Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import call, leading_batch
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any

REALS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
_OTHER = {"float32": "complex64", "float64": "complex128", "complex64": "float32", "complex128": "float64"}
_NORMS = ("backward", "forward", "ortho")


def _checked(name: str, x: Any, dtypes: tuple[str, ...]) -> tuple[int, ...]:
    """x's shape, after checking its type and that it has a last dimension."""
    if name_of(x.dtype) not in dtypes:
        raise DtypeError(f"{name}: expected {' or '.join(dtypes)}, got {name_of(x.dtype)} (hint: astype)")
    if len(x.shape) == 0 or x.shape[-1] == 0:
        raise ShapeError(f"{name}: the dimension must have at least 1 element, got shape {tuple(x.shape)}")
    return tuple(x.shape)


def _other(x: Any) -> Any:
    """The complex type of a real one, and the other way round."""
    name = _OTHER[name_of(x.dtype)]
    return name if isinstance(x.dtype, str) else type(x.dtype)(name)


def _cost(specs: Sequence[Any], outs: Sequence[Any], params: Params) -> tuple[int, int]:
    n = max(specs[0].shape[-1], outs[0].shape[-1], 1)
    rows = math.prod(specs[0].shape[:-1])
    return total_bytes((*specs, *outs)), int(5 * n * math.log2(n + 1) * rows)


def _kernel(op: int) -> Callable[[Any, Any, Params], None]:
    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        from tensor import _kernels

        _kernels.fft(op, inputs[0], outs[0], params.get("inverse", op == 2), params["divide"])

    return kernel


def _row(name: str, op: int, dtypes: tuple[str, ...], **fields: Any) -> Primitive:
    return register(
        Primitive(
            name,
            category="spectral",
            dtypes=dtypes,
            kernel=_kernel(op),
            batch=leading_batch((1,)),
            cost=_cost,
            linear=True,
            **fields,
        )
    )


# --- complex to complex ----------------------------------------------------------------------------------------------


def _fft_shape(specs: Sequence[Any], params: Params) -> Spec:
    return Spec(_checked("fft", specs[0], COMPLEX), specs[0].dtype, specs[0].device)


def _fft_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import fft_ref

    return fft_ref.fft(arrays[0], params["inverse"], params["divide"])


def _fft_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    p = node.params
    return (call("fft", g, inverse=not p["inverse"], divide=p["divide"]),)


def _fft_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    function = np.fft.ifft if params["inverse"] else np.fft.fft
    norm: Any = _NORMS[params["divide"]]
    if params["inverse"]:
        norm = {"backward": "forward", "forward": "backward"}.get(norm, norm)
    return function(arrays[0], norm=norm)


def _fft_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for i, n in enumerate((1, 2, 4, 5, 12, 17)):
        yield Sample(rng.normal(size=(2, n)), params={"inverse": i % 2 == 0, "divide": i % 3})
    yield Sample(rng.normal(size=(9, 34)), params={"inverse": False, "divide": 0}, gradcheck=False)
    yield Sample(rng.normal(size=(0, 3)), params={"inverse": False, "divide": 1})


FFT = _row(
    "fft",
    0,
    COMPLEX,
    summary="Σ x[j]·exp(∓2πi·j·k/n) over j, for each k < n; + if `inverse`.",
    shape=_fft_shape,
    twin=_fft_twin,
    vjp=_fft_vjp,
    samples=_fft_samples,
    oracle=_fft_oracle,
)


# --- real to complex -------------------------------------------------------------------------------------------------


def _rfft_shape(specs: Sequence[Any], params: Params) -> Spec:
    shape = _checked("rfft", specs[0], REALS)
    return Spec((*shape[:-1], shape[-1] // 2 + 1), _other(specs[0]), specs[0].device)


def _rfft_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import fft_ref

    return fft_ref.rfft(arrays[0], params["divide"])


def _rfft_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    """x's gradient is the real part of the inverse sum over the numbers that were kept."""
    from tensor.functions.elementwise import real
    from tensor.functions.manipulation import pad

    n = node.inputs[0].shape[-1]
    whole = pad(g, (*((0, 0),) * (g.ndim - 1), (0, n - g.shape[-1])))
    return (real(call("fft", whole, inverse=True, divide=node.params["divide"])),)


def _rfft_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    norm: Any = _NORMS[params["divide"]]
    return np.fft.rfft(arrays[0], norm=norm)


RFFT = _row(
    "rfft",
    1,
    REALS,
    summary="The first n div 2 + 1 numbers of the transform of real numbers; the others are their conjugates.",
    shape=_rfft_shape,
    twin=_rfft_twin,
    vjp=_rfft_vjp,
    samples=lambda rng: [
        *(Sample(rng.normal(size=(2, n)), params={"divide": n % 3}) for n in (1, 2, 3, 8, 11, 17)),
        Sample(rng.normal(size=(10, 30)), params={"divide": 0}, gradcheck=False),
    ],
    oracle=_rfft_oracle,
)


# --- complex to real -------------------------------------------------------------------------------------------------


def _irfft_shape(specs: Sequence[Any], params: Params) -> Spec:
    shape, n = _checked("irfft", specs[0], COMPLEX), params["n"]
    if n < 1 or shape[-1] != n // 2 + 1:
        raise ShapeError(f"irfft: {n} numbers come from {n // 2 + 1}, got shape {shape}")
    return Spec((*shape[:-1], n), _other(specs[0]), specs[0].device)


def _irfft_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import fft_ref

    return fft_ref.irfft(arrays[0], params["n"], params["divide"])


def _irfft_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    """Numbers that stand for their conjugates too count twice."""
    from tensor.functions.creation import asarray

    n = node.params["n"]
    twice = [1.0] + [2.0] * ((n - 1) // 2) + [1.0] * (n > 1 and n % 2 == 0)
    spectrum = call("rfft", g, divide=node.params["divide"])
    return (spectrum * asarray(twice, dtype=spectrum.dtype, device=spectrum.device),)


def _irfft_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    norm: Any = ("forward", "backward", "ortho")[params["divide"]]
    return np.fft.irfft(arrays[0], params["n"], norm=norm)


IRFFT = _row(
    "irfft",
    2,
    COMPLEX,
    summary="The n real numbers whose inverse transform has these n div 2 + 1 first numbers.",
    shape=_irfft_shape,
    twin=_irfft_twin,
    vjp=_irfft_vjp,
    samples=lambda rng: [
        *(Sample(rng.normal(size=(2, n // 2 + 1)), params={"n": n, "divide": n % 3}) for n in (1, 2, 3, 8, 11, 17)),
        Sample(rng.normal(size=(10, 16)), params={"n": 30, "divide": 1}, gradcheck=False),
    ],
    oracle=_irfft_oracle,
)
