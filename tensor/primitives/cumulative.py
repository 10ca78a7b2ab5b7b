"""Rows of cumulative sums, products, maxima and minima along one axis, in runs of 256."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor import _kernels
from tensor.errors import ShapeError
from tensor.primitives.primitive import Params, Primitive, Sample, keep
from tensor.primitives.reductions import ORDERED, SUMMED, check_dtype, conjugate, exclusive, widened
from tensor.primitives.registry import register
from tensor.primitives.rules import call, expand_to, shifted_axes
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Specs = Sequence[Any]


def _scan_shape(name: str, dtypes: tuple[str, ...], widen: bool) -> Callable[[Specs, Params], Any]:
    def shape(specs: Specs, params: Params) -> Any:
        x, axis = specs[0], params["axis"]
        check_dtype(name, x, dtypes)
        if not 0 <= axis < x.ndim:
            raise ShapeError(f"{name}: axis {axis} names no dimension of shape {x.shape}, from the front")
        if widen:
            return Spec(x.shape, widened(x.dtype), x.device)
        return Spec(x.shape, x.dtype, x.device), Spec(x.shape, "int64", x.device)

    return shape


def _scan_samples(rng: np.random.Generator) -> Iterable[Sample]:
    x = rng.permutation(60).reshape(3, 4, 5) / 16 - 1.3
    for array, axis in ((x, 1), (x, 2), (x.transpose(2, 0, 1)[::-1], 0), (x[:, :, 0], 0), (x[:0], 0)):
        yield Sample(array, params={"axis": axis})


def _scan(name: str, summary: str, code: int, dtypes: tuple[str, ...], **fields: Any) -> Primitive:
    extreme = code >= 2
    kind = ("sum", "prod", "max", "min")[code]

    def kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
        _kernels.scan(code, inputs[0], params["axis"], outs[0], outs[1] if extreme else None)

    def twin(arrays: tuple[Any, ...], params: Params) -> Any:
        from tensor.twins import scan_ref

        run = scan_ref.scan_extreme if extreme else scan_ref.scan
        return run(kind, arrays[0], params["axis"])

    return register(
        Primitive(
            name,
            category="cumulative",
            summary=summary,
            shape=_scan_shape(name, dtypes, not extreme),
            dtypes=dtypes,
            kernel=kernel,
            twin=twin,
            batch=shifted_axes("axis"),
            samples=_scan_samples,
            **fields,
        )
    )


def _numpy_scan(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        return getattr(np, name)(arrays[0], axis=params["axis"])

    return oracle


def _reversed_sum(g: Tensor, axis: int) -> Tensor:
    from tensor.functions.manipulation import flip

    return flip(call("cumsum", flip(g, axis=axis), axis=axis), axis=axis)


CUMSUM = _scan(
    "cumsum",
    "The sums of the first 1, 2, … elements along an axis, in runs of 256.",
    0,
    SUMMED,
    linear=True,
    vjp=lambda g, node: (_reversed_sum(g, node.params["axis"]),),
    oracle=_numpy_scan("cumsum"),
)


def _cumprod_vjp(g: Tensor, node: Any) -> tuple[Tensor]:
    """Σ over j ≥ i of g_j · Π over k ≤ j, k ≠ i of x_k: a matrix of n × n a line, so that zeros need no case."""
    from tensor.functions.creation import arange, ones_like

    x, axis = node.inputs[0], node.params["axis"]
    n = x.shape[axis]
    if x.size == 0:
        return (g * 0,)
    order = (*(d for d in range(x.ndim) if d != axis), axis)
    back = tuple(order.index(d) for d in range(x.ndim))
    lines = x.permute(order)
    rows = expand_to(lines.unsqueeze(lines.ndim - 1), (*lines.shape[:-1], n, n))  # [..., i, k] = x_k
    place = arange(n, device=x.device)
    later = expand_to(place.reshape((1, n)) > place.reshape((n, 1)), rows.shape)
    after = call("cumprod", call("where", later, rows, ones_like(rows)), axis=rows.ndim - 1)  # [i, j] = Π i < k ≤ j
    reach = expand_to(place.reshape((1, n)) >= place.reshape((n, 1)), rows.shape)
    before = expand_to(exclusive(lines, False).unsqueeze(lines.ndim), rows.shape)
    weight = call("where", reach, conjugate(after * before),
                  ones_like(rows) * 0)  # fmt: skip
    g_rows = expand_to(g.permute(order).unsqueeze(lines.ndim - 1), rows.shape)
    total = call("sum", g_rows * weight, axis=(rows.ndim - 1,), keepdims=False)
    return (total.permute(back),)


CUMPROD = _scan(
    "cumprod",
    "The products of the first 1, 2, … elements along an axis, in runs of 256.",
    1,
    SUMMED,
    keeps=keep(inputs=(0,)),
    vjp=_cumprod_vjp,
    oracle=_numpy_scan("cumprod"),
)


def _extreme_scan_vjp(g: Any, node: Any) -> tuple[Tensor]:
    from tensor.functions.creation import zeros

    x = node.inputs[0]
    start = zeros(x.shape, dtype=x.dtype, device=x.device)
    return (call("scatter", start, node.outputs[1], g[0], axis=node.params["axis"], combine="sum", include=True),)


def _extreme_scan_oracle(name: str) -> Callable[[tuple[Any, ...], Params], Any]:
    def oracle(arrays: tuple[Any, ...], params: Params) -> Any:
        import numpy as np

        x, axis = arrays[0], params["axis"]
        values = getattr(np, name).accumulate(x, axis=axis)
        place = np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
        new = np.diff(values.astype(float), axis=axis, prepend=np.nan) != 0
        return values, np.maximum.accumulate(np.where(new, place, 0), axis=axis)

    return oracle


for _name, _code in (("cummax", 2), ("cummin", 3)):
    _scan(
        _name,
        f"The {'largest' if _code == 2 else 'smallest'} of the first 1, 2, … elements along an axis, and the first "
        "index that has it; a NaN stays.",
        _code,
        ORDERED,
        keeps=keep(inputs=(), outputs=(1,)),
        vjp=_extreme_scan_vjp,
        oracle=_extreme_scan_oracle("maximum" if _code == 2 else "minimum"),
    )
