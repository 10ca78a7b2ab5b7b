"""Rows of sparse matrices: their products with dense ones, and dense products at chosen places.

A sparse matrix is its stored values and int64 tensors that say where they are. Duplicates add. An element of a product
is one chain of fused multiply-adds over what its row stores, in stored order. Indices carry no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError, ShapeError
from tensor.primitives.blocks import flat, joined_starts, places, spread
from tensor.primitives.primitive import Primitive, Sample, keep
from tensor.primitives.registry import register
from tensor.primitives.rules import BatchRule, Dims, apply, call, front
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

Tensor = Any
Params = Any

DTYPES = ("float32", "float64")


# --- checks ----------------------------------------------------------------------------------------------------------


def _floats(name: str, *specs: Any) -> None:
    for s in specs:
        if name_of(s.dtype) not in DTYPES or s.dtype != specs[0].dtype:
            names = " and ".join(name_of(x.dtype) for x in specs)
            raise DtypeError(f"{name}: values and dense must both be float32 or float64, got {names}")


def _indices(name: str, **specs: Any) -> None:
    for what, s in specs.items():
        if name_of(s.dtype) != "int64" or len(s.shape) != 1:
            raise DtypeError(f"{name}: {what} must be int64[n], got {name_of(s.dtype)}{list(s.shape)}")


def _fits(name: str, yes: bool, **specs: Any) -> None:
    if not yes:
        shapes = ", ".join(f"{what} {tuple(s.shape)}" for what, s in specs.items())
        raise ShapeError(f"{name}: shapes do not fit together: {shapes}")


def _bound(name: str, what: str, index: Any, bound: int) -> None:
    """For the twins: IndexError where the kernels raise it."""
    for i, value in enumerate(index.tolist()):
        if not 0 <= value < bound:
            raise IndexError(f"sparse: {what}[{i}] is {value}, and there are {bound}")


def _rising(starts: Any, count: int) -> None:
    previous = 0
    last = len(starts) - 1
    for i, value in enumerate(starts.tolist()):
        if value < previous or value > count or (i == 0 and value != 0) or (i == last and value != count):
            raise ValueError(
                f"sparse: starts[{i}] is {value}: starts must rise from 0 to the number of stored elements, {count}"
            )
        previous = value


def _contiguous(x: Tensor) -> Tensor:
    return x if x.is_contiguous() else x.clone()


def _cost(specs: Sequence[Any], outs: Sequence[Any], params: Params) -> tuple[int, int]:
    return total_bytes((*specs, *outs)), 2 * specs[0].size * (specs[-1].shape[-1] if len(specs[-1].shape) > 1 else 1)


def _transposed(x: Tensor) -> Tensor:
    return x.permute((1, 0))


# --- batches: one block-diagonal matrix, or more columns of the dense one ------------------------------------------


def _more_columns(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """The batch of dense matrices side by side, times the one sparse matrix."""
    dense = front(inputs[3], dims[3])  # type: ignore[arg-type]
    n, k, columns = dense.shape
    wide = dense.permute((1, 0, 2)).reshape((k, n * columns))
    out = apply(primitive, (*inputs[:3], wide), params)
    return out.reshape((out.shape[0], n, columns)), 1


def _by_row_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    if dims[:3] == (None, None, None):
        return _more_columns(primitive, inputs, dims, params)
    n, (values, columns, starts, dense) = spread(inputs, dims)
    height, width = values.shape[2:] if values.ndim == 4 else (1, 1)
    diagonal = places(columns, dense.shape[1] // width), joined_starts(starts, values.shape[1])
    out = apply(primitive, (flat(values), *diagonal, flat(dense)), params)
    return out.reshape((n, height * (starts.shape[1] - 1), out.shape[1])), 0


def _by_place_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    if dims[:3] == (None, None, None):
        return _more_columns(primitive, inputs, dims, params)
    n, (values, rows, columns, dense) = spread(inputs, dims)
    count = params["rows"]
    diagonal = places(rows, count), places(columns, dense.shape[1])
    out = apply(primitive, (flat(values), *diagonal, flat(dense)), {"rows": n * count})
    return out.reshape((n, count, out.shape[1])), 0


def _rows_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    from tensor.functions.creation import arange

    n, (starts,) = spread(inputs, dims)
    count = params["count"]
    rows = apply(primitive, (joined_starts(starts, count),), {"count": n * count}).reshape((n, count))
    before = arange(n, dtype="int64", device=starts.device) * (starts.shape[1] - 1)
    return rows - before.reshape((n, 1)), 0


def _sampled_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Params) -> tuple[Any, Any]:
    """Places in the product of all a, one below the other, and all b, side by side; only those are computed."""
    n, (a, b, rows, columns) = spread(inputs, dims)
    _, k, width = b.shape
    wide = b.permute((1, 0, 2)).reshape((k, n * width))
    out = apply(primitive, (flat(a), wide, places(rows, a.shape[1]), places(columns, width)), params)
    return out.reshape((n, rows.shape[1])), 0


# --- by row: CSR -----------------------------------------------------------------------------------------------------


def _csr_shape(specs: Sequence[Any], params: Params) -> Spec:
    values, columns, starts, dense = specs
    _floats("spmm_csr", values, dense)
    _indices("spmm_csr", columns=columns, starts=starts)
    fits = len(values.shape) == 1 and values.shape == columns.shape and len(dense.shape) == 2 and starts.shape[0] >= 1
    _fits("spmm_csr", fits, values=values, columns=columns, starts=starts, dense=dense)
    return Spec((starts.shape[0] - 1, dense.shape[1]), values.dtype, values.device)


def _csr_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    from tensor import _kernels

    values, columns, starts, dense = (_contiguous(x) for x in inputs)
    _kernels.sparse_product(values.reshape((-1, 1, 1)), columns, starts, dense, outs[0])


def _csr_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import sparse_ref

    values, columns, starts, dense = arrays
    _rising(starts, len(values))
    _bound("spmm_csr", "columns", columns, dense.shape[0])
    return sparse_ref.product(values.reshape(-1, 1, 1), columns, starts, dense)


def _csr_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    values, columns, starts, dense = node.inputs
    rows = call("csr_rows", starts, count=values.shape[0])
    g_values = call("sddmm", g, _transposed(dense), rows, columns)
    return g_values, None, None, call("spmm_coo", values, columns, rows, g, rows=dense.shape[0])


def _csr_inputs(rng: np.random.Generator, m: int, k: int, n: int, stored: int) -> tuple[Any, ...]:
    import numpy as np

    rows = np.sort(rng.integers(0, m, stored))
    starts = np.searchsorted(rows, np.arange(m + 1)).astype(np.int64)
    return rng.normal(size=stored), rng.integers(0, k, stored), starts, rng.normal(size=(k, n))


def _csr_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    from scipy.sparse import csr_array  # type: ignore[import-untyped]

    values, columns, starts, dense = arrays
    return csr_array((values, columns, starts), shape=(len(starts) - 1, dense.shape[0])) @ dense


SPMM_CSR = register(
    Primitive(
        "spmm_csr",
        category="sparse",
        summary="A sparse matrix stored by row (values, their columns, where each row starts) times a dense one.",
        dtypes=DTYPES,
        shape=_csr_shape,
        kernel=_csr_kernel,
        twin=_csr_twin,
        keeps=keep(inputs=(0, 1, 2, 3)),
        vjp=_csr_vjp,
        batch=BatchRule(_by_row_batch),
        cost=_cost,
        samples=lambda rng: [
            Sample(*_csr_inputs(rng, 3, 4, 2, 5), differentiable=(0, 3)),
            Sample(*_csr_inputs(rng, 5, 3, 3, 0), differentiable=(0, 3)),
            Sample(*_csr_inputs(rng, 130, 20, 17, 400), gradcheck=False),
        ],
        oracle=_csr_oracle,
    )
)


def _rows_shape(specs: Sequence[Any], params: Params) -> Spec:
    _indices("csr_rows", starts=specs[0])
    return Spec((params["count"],), specs[0].dtype, specs[0].device)


def _rows_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    import numpy as np

    starts = arrays[0]
    _rising(starts, params["count"])
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _rows_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    from tensor import _kernels

    _kernels.sparse_rows(_contiguous(inputs[0]), outs[0])


CSR_ROWS = register(
    Primitive(
        "csr_rows",
        category="sparse",
        summary="The row of each stored value, from where the rows start.",
        dtypes=("int64",),
        shape=_rows_shape,
        kernel=_rows_kernel,
        twin=_rows_twin,
        batch=BatchRule(_rows_batch),
        samples=lambda rng: [Sample(_csr_inputs(rng, 4, 3, 2, 6)[2], params={"count": 6})],
    )
)


# --- by place: COO ---------------------------------------------------------------------------------------------------


def _coo_shape(specs: Sequence[Any], params: Params) -> Spec:
    values, rows, columns, dense = specs
    _floats("spmm_coo", values, dense)
    _indices("spmm_coo", rows=rows, columns=columns)
    fits = len(values.shape) == 1 and values.shape == rows.shape == columns.shape and len(dense.shape) == 2
    _fits("spmm_coo", fits, values=values, rows=rows, columns=columns, dense=dense)
    return Spec((params["rows"], dense.shape[1]), values.dtype, values.device)


def _coo_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    from tensor import _kernels

    values, rows, columns, dense = (_contiguous(x) for x in inputs)
    n = values.shape[0]
    grouped = _kernels.empty((n,), values.dtype, values.device, "spmm_coo values by row")
    where = _kernels.empty((n,), columns.dtype, values.device, "spmm_coo columns by row")
    starts = _kernels.empty((params["rows"] + 1,), columns.dtype, values.device, "spmm_coo starts of rows")
    _kernels.sparse_group(values, rows, columns, grouped, where, starts)
    _kernels.sparse_product(grouped.reshape((-1, 1, 1)), where, starts, dense, outs[0])


def _coo_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import sparse_ref

    values, rows, columns, dense = arrays
    _bound("spmm_coo", "rows", rows, params["rows"])
    _bound("spmm_coo", "columns", columns, dense.shape[0])
    order, starts = sparse_ref.grouped(rows, params["rows"])
    return sparse_ref.product(values[order].reshape(-1, 1, 1), columns[order], starts, dense)


def _coo_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    values, rows, columns, dense = node.inputs
    g_values = call("sddmm", g, _transposed(dense), rows, columns)
    return g_values, None, None, call("spmm_coo", values, columns, rows, g, rows=dense.shape[0])


def _coo_inputs(rng: np.random.Generator, m: int, k: int, n: int, stored: int) -> tuple[Any, ...]:
    return rng.normal(size=stored), rng.integers(0, m, stored), rng.integers(0, k, stored), rng.normal(size=(k, n))


def _coo_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    from scipy.sparse import coo_array

    values, rows, columns, dense = arrays
    return coo_array((values, (rows, columns)), shape=(params["rows"], dense.shape[0])) @ dense


SPMM_COO = register(
    Primitive(
        "spmm_coo",
        category="sparse",
        summary="A sparse matrix stored as places and values, duplicates adding, times a dense one.",
        dtypes=DTYPES,
        shape=_coo_shape,
        kernel=_coo_kernel,
        twin=_coo_twin,
        keeps=keep(inputs=(0, 1, 2, 3)),
        vjp=_coo_vjp,
        batch=BatchRule(_by_place_batch),
        cost=_cost,
        samples=lambda rng: [
            Sample(*_coo_inputs(rng, 3, 4, 2, 6), params={"rows": 3}, differentiable=(0, 3)),
            Sample(*_coo_inputs(rng, 2, 3, 1, 0), params={"rows": 2}, differentiable=(0, 3)),
            Sample(*_coo_inputs(rng, 70, 20, 17, 400), params={"rows": 70}, gradcheck=False),
        ],
        oracle=_coo_oracle,
    )
)


# --- products at chosen places ---------------------------------------------------------------------------------------


def _sddmm_shape(specs: Sequence[Any], params: Params) -> Spec:
    a, b, rows, columns = specs
    _floats("sddmm", a, b)
    _indices("sddmm", rows=rows, columns=columns)
    fits = len(a.shape) == 2 and len(b.shape) == 2 and a.shape[1] == b.shape[0] and rows.shape == columns.shape
    _fits("sddmm", fits, a=a, b=b, rows=rows, columns=columns)
    return Spec(tuple(rows.shape), a.dtype, a.device)


def _sddmm_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    from tensor import _kernels

    a, b, rows, columns = inputs
    _kernels.sampled_product(a, b, _contiguous(rows), _contiguous(columns), outs[0])


def _sddmm_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import sparse_ref

    a, b, rows, columns = arrays
    _bound("sddmm", "rows", rows, a.shape[0])
    _bound("sddmm", "columns", columns, b.shape[1])
    return sparse_ref.sampled(a, b, rows, columns)


def _sddmm_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    a, b, rows, columns = node.inputs
    g_a = call("spmm_coo", g, rows, columns, _transposed(b), rows=a.shape[0])
    g_b = call("spmm_coo", g, columns, rows, a, rows=b.shape[1])
    return g_a, _transposed(g_b), None, None


def _sddmm_inputs(rng: np.random.Generator, m: int, k: int, n: int, stored: int) -> tuple[Any, ...]:
    a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    return a, b, rng.integers(0, m, stored), rng.integers(0, n, stored)


def _sddmm_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    a, b, rows, columns = arrays
    return (a @ b)[rows, columns]


SDDMM = register(
    Primitive(
        "sddmm",
        category="sparse",
        summary="(a · b)[rows, columns], with the bits of the matrix product.",
        dtypes=DTYPES,
        shape=_sddmm_shape,
        kernel=_sddmm_kernel,
        twin=_sddmm_twin,
        keeps=keep(inputs=(0, 1, 2, 3)),
        vjp=_sddmm_vjp,
        batch=BatchRule(_sampled_batch),
        cost=lambda specs, outs, params: (total_bytes((*specs, *outs)), 2 * outs[0].size * specs[0].shape[1]),
        samples=lambda rng: [
            Sample(*_sddmm_inputs(rng, 3, 4, 2, 6), differentiable=(0, 1)),
            Sample(*_sddmm_inputs(rng, 2, 0, 3, 2), differentiable=(0, 1)),
            Sample(*_sddmm_inputs(rng, 5, 300, 4, 40), gradcheck=False),
        ],
        oracle=_sddmm_oracle,
    )
)


# --- in blocks -------------------------------------------------------------------------------------------------------


def _bsmm_shape(specs: Sequence[Any], params: Params) -> Spec:
    values, columns, starts, dense = specs
    _floats("bsmm", values, dense)
    _indices("bsmm", columns=columns, starts=starts)
    fits = (
        len(values.shape) == 3
        and 0 not in values.shape[1:]
        and values.shape[:1] == columns.shape
        and len(dense.shape) == 2
        and starts.shape[0] >= 1
        and dense.shape[0] % values.shape[2] == 0
    )
    _fits("bsmm", fits, values=values, columns=columns, starts=starts, dense=dense)
    return Spec(((starts.shape[0] - 1) * values.shape[1], dense.shape[1]), values.dtype, values.device)


def _bsmm_kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    from tensor import _kernels

    _kernels.sparse_product(*(_contiguous(x) for x in inputs), outs[0])


def _bsmm_twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins import sparse_ref

    values, columns, starts, dense = arrays
    _rising(starts, len(values))
    _bound("bsmm", "columns", columns, dense.shape[0] // values.shape[2])
    return sparse_ref.product(values, columns, starts, dense)


def _bsmm_vjp(g: Tensor, node: Any) -> tuple[Tensor | None, ...]:
    from tensor.functions.creation import arange

    values, columns, starts, dense = node.inputs
    blocks, r, c = values.shape
    first = call("csr_rows", starts, count=blocks) * r
    rows = (first.reshape((-1, 1, 1)) + arange(r).reshape((1, -1, 1))).expand((blocks, r, c)).reshape((-1,))
    where = ((columns * c).reshape((-1, 1, 1)) + arange(c).reshape((1, 1, -1))).expand((blocks, r, c)).reshape((-1,))
    g_values = call("sddmm", g, _transposed(dense), rows, where).reshape((blocks, r, c))
    return g_values, None, None, call("spmm_coo", values.reshape((-1,)), where, rows, g, rows=dense.shape[0])


def _bsmm_inputs(rng: np.random.Generator, r: int, c: int, m: int, k: int, n: int, stored: int) -> tuple[Any, ...]:
    _, columns, starts, _ = _csr_inputs(rng, m, k, n, stored)
    return rng.normal(size=(stored, r, c)), columns, starts, rng.normal(size=(k * c, n))


def _bsmm_oracle(arrays: tuple[Any, ...], params: Params) -> Any:
    from scipy.sparse import bsr_array

    values, columns, starts, dense = arrays
    shape = ((len(starts) - 1) * values.shape[1], dense.shape[0])
    return bsr_array((values, columns, starts), shape=shape) @ dense


def _bsmm_samples() -> Callable[[Any], list[Sample]]:
    return lambda rng: [
        Sample(*_bsmm_inputs(rng, 2, 3, 2, 2, 2, 3), differentiable=(0, 3)),
        Sample(*_bsmm_inputs(rng, 1, 2, 3, 2, 1, 4), differentiable=(0, 3)),
        Sample(*_bsmm_inputs(rng, 8, 4, 9, 5, 17, 20), gradcheck=False),
    ]


BSMM = register(
    Primitive(
        "bsmm",
        category="sparse",
        summary="A block-sparse matrix (values[blocks, r, c], block columns, starts of block rows) times a dense one.",
        dtypes=DTYPES,
        shape=_bsmm_shape,
        kernel=_bsmm_kernel,
        twin=_bsmm_twin,
        keeps=keep(inputs=(0, 1, 2, 3)),
        vjp=_bsmm_vjp,
        batch=BatchRule(_by_row_batch),
        cost=_cost,
        samples=_bsmm_samples(),
        oracle=_bsmm_oracle,
    )
)
