"""Sparse matrices stored by row (CSR), by place (COO) or in blocks (BSR), times dense ones: one result everywhere.

A matrix is a small object around tensors; only its values carry gradients. Its indices are checked when it is made, and
again before they are used. Duplicates add, in stored order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor import _kernels
from tensor.errors import DtypeError, ShapeError
from tensor.primitives import rules, sparse

__all__ = ["BSR", "COO", "CSR", "bsmm", "from_scipy", "sddmm", "spmm"]

Tensor = Any


@dataclass(frozen=True, eq=False)
class CSR:
    """A matrix [m, k] stored by row: `values`[e] at column `columns`[e], row i being starts[i] … starts[i + 1].

    values: float32 or float64[stored]; columns: int64[stored]; starts: int64[m + 1], rising from 0 to stored. Raises
    ShapeError, DtypeError, IndexError for a structure that is none.

    >>> import tensor as tn
    >>> a = CSR(tn.asarray([2.0, 3.0]), tn.asarray([0, 1]), tn.asarray([0, 0, 2]), (2, 2))
    >>> (a @ tn.asarray([[1.0], [10.0]])).tolist()
    [[0.0], [32.0]]
    """

    values: Tensor
    columns: Tensor
    starts: Tensor
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        _check("CSR", self.shape, self.values, 1, columns=self.columns, starts=self.starts)
        _starts("CSR", self.starts, self.values.shape[0], self.shape[0])
        _bounded("CSR", "columns", self.columns, self.shape[1])

    def __matmul__(self, dense: Tensor) -> Tensor:
        return spmm(self, dense)

    def rows(self) -> Tensor:
        """The row of each stored value, int64[stored]."""
        return rules.apply(sparse.CSR_ROWS, (self.starts,), {"count": self.values.shape[0]})

    def to_coo(self) -> COO:
        """The same matrix stored by place."""
        return COO(self.values, self.rows(), self.columns, self.shape)

    def to_dense(self) -> Tensor:
        """The matrix with its zeros, [m, k]."""
        return self.to_coo().to_dense()

    def to_scipy(self) -> Any:
        """scipy's csr_array over copies of the stored values."""
        from scipy.sparse import csr_array  # type: ignore[import-untyped]

        return csr_array((_numpy(self.values), _numpy(self.columns), _numpy(self.starts)), shape=self.shape)


@dataclass(frozen=True, eq=False)
class COO:
    """A matrix [m, k] stored by place: `values`[e] at (`rows`[e], `columns`[e]), in any order; duplicates add.

    >>> import tensor as tn
    >>> COO(tn.asarray([2.0, 3.0]), tn.asarray([1, 1]), tn.asarray([0, 0]), (2, 1)).to_dense().tolist()
    [[0.0], [5.0]]
    """

    values: Tensor
    rows: Tensor
    columns: Tensor
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        _check("COO", self.shape, self.values, 1, rows=self.rows, columns=self.columns)
        for what, index, bound in (("rows", self.rows, self.shape[0]), ("columns", self.columns, self.shape[1])):
            if index.shape != self.values.shape:
                raise ShapeError(f"COO: {what} must be int64{list(self.values.shape)}, got int64{list(index.shape)}")
            _bounded("COO", what, index, bound)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return spmm(self, dense)

    def to_dense(self) -> Tensor:
        """The matrix with its zeros, [m, k]; duplicates add in the order of `sum`."""
        return _scattered(self.values, self.rows * self.shape[1] + self.columns, self.shape)

    def to_scipy(self) -> Any:
        """scipy's coo_array over copies of the stored values."""
        from scipy.sparse import coo_array

        return coo_array((_numpy(self.values), (_numpy(self.rows), _numpy(self.columns))), shape=self.shape)


@dataclass(frozen=True, eq=False)
class BSR:
    """A matrix in blocks: `values`[e, r, c] at block column `columns`[e], block row i being starts[i] … starts[i + 1].

    shape is (block rows · r, block columns · c).

    >>> import tensor as tn
    >>> a = BSR(tn.asarray([[[1.0, 2.0]]]), tn.asarray([1]), tn.asarray([0, 1]), (1, 4))
    >>> a.to_dense().tolist()
    [[0.0, 0.0, 1.0, 2.0]]
    """

    values: Tensor
    columns: Tensor
    starts: Tensor
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        _check("BSR", self.shape, self.values, 3, columns=self.columns, starts=self.starts)
        _, r, c = self.values.shape
        if r == 0 or c == 0 or self.shape[0] % r or self.shape[1] % c:
            raise ShapeError(f"BSR: shape {self.shape} must be whole blocks of {r} by {c}")
        _starts("BSR", self.starts, self.values.shape[0], self.shape[0] // r)
        _bounded("BSR", "columns", self.columns, self.shape[1] // c)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return bsmm(self, dense)

    def to_dense(self) -> Tensor:
        """The matrix with its zeros, [m, k]."""
        from tensor.functions.creation import arange

        _, r, c = self.values.shape
        device = self.values.device
        rows = rules.apply(sparse.CSR_ROWS, (self.starts,), {"count": self.values.shape[0]})
        within = arange(r, device=device).reshape((r, 1)) * self.shape[1] + arange(c, device=device)
        corners = rows * (r * self.shape[1]) + self.columns * c
        return _scattered(self.values, corners.reshape((-1, 1, 1)) + within, self.shape)

    def to_scipy(self) -> Any:
        """scipy's bsr_array over copies of the stored values."""
        from scipy.sparse import bsr_array

        return bsr_array((_numpy(self.values), _numpy(self.columns), _numpy(self.starts)), shape=self.shape)


def spmm(a: CSR | COO, dense: Tensor) -> Tensor:
    """a[m, k] · dense[k, n] (or [k]): each element one chain of fused multiply-adds over what its row stores.

    Differentiable in the values and in dense. Raises ShapeError, DtypeError.

    >>> import tensor as tn
    >>> spmm(COO(tn.asarray([2.0]), tn.asarray([0]), tn.asarray([1]), (1, 2)), tn.asarray([3.0, 4.0])).tolist()
    [8.0]
    """
    if not isinstance(a, (CSR, COO)):
        raise TypeError(f"spmm: expected a CSR or COO matrix, got {type(a).__name__}")
    if isinstance(a, CSR):
        return _product("spmm", a, dense, lambda x: rules.apply(sparse.SPMM_CSR, (a.values, a.columns, a.starts, x)))
    params = {"rows": a.shape[0]}
    places = (a.values, a.rows, a.columns)
    return _product("spmm", a, dense, lambda x: rules.apply(sparse.SPMM_COO, (*places, x), params))


def bsmm(a: BSR, dense: Tensor) -> Tensor:
    """a[m, k] · dense[k, n] (or [k]) for a matrix in blocks; as `spmm`.

    >>> import tensor as tn
    >>> a = BSR(tn.asarray([[[1.0, 2.0]]]), tn.asarray([0]), tn.asarray([0, 1]), (1, 2))
    >>> bsmm(a, tn.asarray([3.0, 4.0])).tolist()
    [11.0]
    """
    if not isinstance(a, BSR):
        raise TypeError(f"bsmm: expected a BSR matrix, got {type(a).__name__}")
    return _product("bsmm", a, dense, lambda x: rules.apply(sparse.BSMM, (a.values, a.columns, a.starts, x)))


def sddmm(a: Tensor, b: Tensor, mask: CSR | COO) -> CSR | COO:
    """The product of dense a[m, k] and b[k, n] where the mask stores something, times what it stores there.

    The products have the bits of a @ b. Differentiable in a, b and the mask's values. Raises ShapeError, DtypeError.

    >>> import tensor as tn
    >>> mask = COO(tn.asarray([2.0]), tn.asarray([0]), tn.asarray([1]), (1, 2))
    >>> sddmm(tn.asarray([[3.0]]), tn.asarray([[1.0, 5.0]]), mask).values.tolist()
    [30.0]
    """
    if not isinstance(mask, (CSR, COO)):
        raise TypeError(f"sddmm: the mask must be a CSR or COO matrix, got {type(mask).__name__}")
    for x in (a, b):
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"sddmm: expected Tensors, got {type(x).__name__} (hint: asarray)")
        if x.ndim != 2:
            raise ShapeError(f"sddmm: expected matrices, got shapes {a.shape} and {b.shape}")
    if (a.shape[0], b.shape[-1]) != mask.shape:
        raise ShapeError(f"sddmm: a {a.shape} and b {b.shape} do not make the mask's shape {mask.shape}")
    rows = mask.rows() if isinstance(mask, CSR) else mask.rows
    values = rules.apply(sparse.SDDMM, (a, b, rows, mask.columns)) * mask.values
    if isinstance(mask, CSR):
        return CSR(values, mask.columns, mask.starts, mask.shape)
    return COO(values, mask.rows, mask.columns, mask.shape)


def from_scipy(matrix: Any) -> CSR | COO | BSR:
    """A matrix of scipy.sparse: coo and bsr as they are, any other format by row.

    Raises DtypeError unless its values are float32 or float64.

    >>> from scipy.sparse import csr_array
    >>> from_scipy(csr_array([[0.0, 2.0]])).columns.tolist()
    [1]
    """
    if not hasattr(matrix, "format") or not hasattr(matrix, "tocsr"):
        raise TypeError(f"from_scipy: expected a matrix of scipy.sparse, got {type(matrix).__name__}")
    if matrix.ndim != 2:
        raise ShapeError(f"from_scipy: expected two dimensions, got {matrix.ndim}")
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    if matrix.format == "coo":
        return COO(_tensor(matrix.data), _index(matrix.row), _index(matrix.col), shape)
    if matrix.format == "bsr":
        return BSR(_tensor(matrix.data), _index(matrix.indices), _index(matrix.indptr), shape)
    by_row = matrix.tocsr()
    return CSR(_tensor(by_row.data), _index(by_row.indices), _index(by_row.indptr), shape)


# --- parts -----------------------------------------------------------------------------------------------------------


def _tensor(array: Any) -> Tensor:
    return _kernels.asarray(array, None, None, True)


def _index(array: Any) -> Tensor:
    return _kernels.asarray(array.astype("int64"), None, None, True)


def _numpy(x: Tensor) -> Any:
    return x.detach().numpy().copy()


def _check(name: str, shape: tuple[int, int], values: Tensor, ndim: int, **indices: Tensor) -> None:
    two = isinstance(shape, (tuple, list)) and len(shape) == 2
    if not two or any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in shape):
        raise ShapeError(f"{name}: shape must be two numbers from 0 up, got {shape}")
    for what, x in {"values": values, **indices}.items():
        if not isinstance(x, _kernels.Tensor):
            raise TypeError(f"{name}: {what} must be a Tensor, got {type(x).__name__} (hint: asarray)")
    if values.dtype.name not in ("float32", "float64") or values.ndim != ndim:
        wanted = "[stored]" if ndim == 1 else "[stored, r, c]"
        found = f"{values.dtype.name}{list(values.shape)}"
        raise DtypeError(f"{name}: values must be float32 or float64{wanted}, got {found}")
    for what, x in indices.items():
        if x.dtype.name != "int64" or x.ndim != 1:
            raise DtypeError(f"{name}: {what} must be int64 with one dimension, got {x.dtype.name}{list(x.shape)}")
    columns = indices["columns"]
    if columns.shape[0] != values.shape[0]:
        raise ShapeError(f"{name}: {columns.shape[0]} columns for {values.shape[0]} stored values")


def _starts(name: str, starts: Tensor, stored: int, rows: int) -> None:
    if starts.shape[0] != rows + 1:
        raise ShapeError(f"{name}: starts must have {rows + 1} numbers for {rows} rows, got {starts.shape[0]}")
    if type(starts) is not _kernels.Tensor:  # traced: the kernel checks
        return
    found = [int(starts[0].item()), int(starts[-1].item())]
    falls = rows > 0 and bool((starts[1:] < starts[:-1]).numpy().any())
    if found != [0, stored] or falls:
        raise ShapeError(f"{name}: starts must rise from 0 to the number of stored values, {stored}")


def _bounded(name: str, what: str, index: Tensor, bound: int) -> None:
    if index.shape[0] == 0 or type(index) is not _kernels.Tensor:
        return
    wrong = ((index < 0) | (index >= bound)).numpy()
    if wrong.any():
        at = int(wrong.argmax())
        raise IndexError(f"{name}: {what}[{at}] is {int(index[at].item())}, and there are {bound}")


def _product(name: str, a: Any, dense: Tensor, run: Any) -> Tensor:
    if not isinstance(dense, _kernels.Tensor):
        raise TypeError(f"{name}: dense must be a Tensor, got {type(dense).__name__} (hint: asarray)")
    if dense.ndim not in (1, 2) or dense.shape[0] != a.shape[1]:
        raise ShapeError(f"{name}: a matrix {a.shape} times a tensor of shape {dense.shape}")
    if dense.dtype != a.values.dtype:
        raise DtypeError(f"{name}: values and dense must have one type, got {a.values.dtype} and {dense.dtype}")
    return run(dense) if dense.ndim == 2 else run(dense.unsqueeze(-1)).reshape((-1,))


def _scattered(values: Tensor, places: Tensor, shape: tuple[int, int]) -> Tensor:
    """Zeros with the values added at places that count through the rows."""
    from tensor.functions.creation import zeros
    from tensor.functions.index_moves import scatter_add

    flat = zeros((shape[0] * shape[1],), dtype=values.dtype, device=values.device)
    return scatter_add(flat, 0, places.reshape((-1,)), values.reshape((-1,))).reshape(tuple(shape))
