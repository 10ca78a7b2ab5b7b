"""Rules that many rows share: shapes that broadcast, gradients from partial derivatives, batches, costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensor.errors import DtypeError, ShapeError
from tensor.primitives.spec import Spec, name_of, total_bytes

if TYPE_CHECKING:
    import numpy as np

    from tensor.primitives.primitive import Primitive, Sample

Tensor = Any

# --- shapes and dtypes -----------------------------------------------------------------------------------------------


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all broadcast to, aligned at the last dimension; ShapeError names the operation and the shapes.

    >>> broadcast_shapes("add", [(3, 1), (4,)])
    (3, 4)
    >>> broadcast_shapes("add", [(0,), (3,)])
    Traceback (most recent call last):
        ...
    tensor.errors.ShapeError: add: shapes (0,) and (3,) do not broadcast
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    result: list[int] = []
    for k in range(max(map(len, shapes)), 0, -1):
        sizes = {s[-k] for s in shapes if len(s) >= k} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def equal_dtypes(name: str, specs: Sequence[Any]) -> Any:
    """The element type that all share; DtypeError if they differ."""
    dtype = specs[0].dtype
    for s in specs[1:]:
        if s.dtype != dtype:
            names = " and ".join(name_of(s.dtype) for s in specs)
            raise DtypeError(f"{name}: the inputs must have one element type, got {names}")
    return dtype


def elementwise_shape(
    name: str, dtypes: tuple[str, ...], result: Callable[[Any], Any] | None = None, free: tuple[int, ...] = ()
) -> Callable[[Sequence[Any], Any], Spec]:
    """The rule of elementwise rows: shapes broadcast, element types are equal and among `dtypes`.

    `result` maps the inputs' element type to the result's; inputs in `free` may have any (the condition of where).
    """
    allowed = frozenset(dtypes)

    def rule(specs: Sequence[Any], params: Any) -> Spec:
        bound = [s for i, s in enumerate(specs) if i not in free]
        dtype = equal_dtypes(name, bound)
        if name_of(dtype) not in allowed:
            raise DtypeError(f"{name}: {name_of(dtype)} is not computed with (hint: {', '.join(dtypes)})")
        shape = broadcast_shapes(name, [s.shape for s in specs])
        return Spec(shape, dtype if result is None else result(dtype), specs[0].device)

    return rule


def wide(dtype: Any) -> str:
    """What means, scales and logarithms of sums of such numbers are kept in."""
    return "float64" if name_of(dtype) == "float64" else "float32"


# --- gradients and tangents ------------------------------------------------------------------------------------------


def unbroadcast(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The sum of g over the dimensions along which a tensor of the shape was repeated to g's shape."""
    have = g.shape
    if have == shape:
        return g
    new = len(have) - len(shape)
    axes = (*range(new), *(new + i for i, n in enumerate(shape) if n == 1 and have[new + i] != 1))
    if axes:
        g = g.sum(axis=axes)
    return g if g.shape == shape else g.reshape(shape)


def expand_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x repeated (as a view) to the shape."""
    return x if x.shape == shape else x.expand(shape)


_COMPLEX = frozenset(("complex64", "complex128"))


def vjp_of_partials(partials: Callable[[Any], Sequence[Any]]) -> Callable[[Any, Any], Sequence[Tensor | None]]:
    """Each input's gradient is its partial derivative applied to g, summed where the input was broadcast.

    For complex numbers the factor enters conjugated: conj(partial(conj(g))).
    """

    def vjp(g: Tensor, node: Any) -> Sequence[Tensor | None]:
        if g.dtype.name in _COMPLEX:
            from tensor.functions.elementwise import conj

            turned = conj(g)
            parts = [conj(p(turned)) if p and n else None for p, n in zip(partials(node), node.needs, strict=True)]
        else:
            parts = [p(g) if p and n else None for p, n in zip(partials(node), node.needs, strict=True)]
        for i, x in enumerate(node.inputs):
            part = parts[i]
            if part is not None and part.shape != x.shape:
                parts[i] = unbroadcast(part, x.shape)
        return parts

    return vjp


def jvp_of_partials(partials: Callable[[Any], Sequence[Any]]) -> Callable[[Any, Any], Tensor]:
    """The sum of the partial derivatives applied to the tangents."""

    def jvp(tangents: Sequence[Tensor | None], node: Any) -> Tensor:
        total = None
        for partial, t in zip(partials(node), tangents, strict=True):
            if partial is None or t is None:
                continue
            part = partial(t)
            total = part if total is None else total + part
        return None if total is None else expand_to(total, node.outputs[0].shape)

    return jvp


def jvp_of_linear(primitive: Primitive) -> Callable[[Any, Any], Any]:
    """A linear row's tangent: the row itself on the tangents, zeros where an input doesn't move."""

    def jvp(tangents: Sequence[Tensor | None], node: Any) -> Any:
        moved = tuple(zeros_like_spec(x) if t is None else t for t, x in zip(tangents, node.inputs, strict=True))
        return apply(primitive, moved, node.params)

    return jvp


def zeros_like_spec(x: Any) -> Tensor:
    """Zeros of the shape, dtype and device of a tensor or Spec."""
    from tensor.functions.creation import zeros

    return zeros(x.shape, dtype=x.dtype, device=x.device)


def apply(primitive: Primitive, inputs: tuple[Tensor, ...], params: Any = None) -> Any:
    """Runs a row: eagerly, on the tape, or through whatever is tracing."""
    from tensor import _kernels

    return _kernels.apply(primitive, inputs, params)


def call(name: str, *inputs: Tensor, **params: Any) -> Any:
    """Runs the row of that name: for derivatives that are easiest said in other rows."""
    from tensor.primitives.registry import row

    return apply(row(name), inputs, params or None)


def cast_like(x: Tensor, like: Tensor | None) -> Tensor:
    """x in the other's element type."""
    return x if like is None or x.dtype == like.dtype else call("cast", x, dtype=name_of(like.dtype))


# --- batches ---------------------------------------------------------------------------------------------------------

Dims = tuple[int | None, ...]


class BatchRule:
    """A rule for many rows; `Primitive` binds it to its row."""

    def __init__(self, rule: Callable[[Primitive, tuple[Tensor, ...], Dims, Any], tuple[Any, Any]]) -> None:
        self._rule = rule

    def bind(self, primitive: Primitive) -> Callable[[tuple[Tensor, ...], Dims, Any], tuple[Any, Any]]:
        return lambda inputs, dims, params: self._rule(primitive, inputs, dims, params)


def front(x: Tensor, dim: int) -> Tensor:
    """x with dimension dim moved to the front."""
    if dim == 0:
        return x
    return x.permute((dim, *(i for i in range(x.ndim) if i != dim)))


def batch_size(inputs: Sequence[Tensor], dims: Sequence[int | None]) -> int:
    """How many elements the batch has."""
    return next(int(x.shape[d]) for x, d in zip(inputs, dims, strict=True) if d is not None)


def _all_front(result: Any) -> tuple[Any, Any]:
    return result, (0,) * len(result) if isinstance(result, tuple) else 0


def _with_rank(x: Tensor, leading: int, rank: int, core: int = 0) -> Tensor:
    """Ones put behind the first `leading` dimensions until the other dimensions before the core are `rank`."""
    missing = rank - (x.ndim - leading - core)
    if missing <= 0:
        return x
    return x.reshape((*x.shape[:leading], *(1,) * missing, *x.shape[leading:]))


def _elementwise(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
    rank = max(x.ndim - (d is not None) for x, d in zip(inputs, dims, strict=True))
    aligned = tuple(x if d is None else _with_rank(front(x, d), 1, rank) for x, d in zip(inputs, dims, strict=True))
    return _all_front(apply(primitive, aligned, params))


ELEMENTWISE_BATCH = BatchRule(_elementwise)


def shifted_axes(*names: str) -> BatchRule:
    """For rows of one tensor whose params name axes (counted from the front, or None for all): they move up by one."""

    def rule(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
        moved = tuple(x if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True))
        if any(d is None for d in dims):
            return loop_batch(primitive, inputs, dims, params)
        changed = dict(params)
        for name in names:
            axis = params[name]
            if axis is None:
                changed[name] = tuple(range(1, moved[0].ndim))
            elif isinstance(axis, tuple):
                changed[name] = tuple(a + 1 if a >= 0 else a for a in axis)
            else:
                changed[name] = axis + 1 if axis >= 0 else axis
        return _all_front(apply(primitive, moved, changed))

    return BatchRule(rule)


def leading_batch(cores: tuple[int, ...], *, broadcasts: bool = False) -> BatchRule:
    """For rows that work on the last cores[i] dimensions of input i, whatever stands before them.

    With `broadcasts` the row itself repeats inputs whose leading dimensions are fewer or 1; without it an input that
    has no batch dimension is repeated here.
    """

    def rule(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
        n = batch_size(inputs, dims)
        moved = [x if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)]
        if broadcasts:
            leads = [x.ndim - c - (d is not None) for x, d, c in zip(moved, dims, cores, strict=True)]
            rank = max(leads)
            moved = [x if d is None else _with_rank(x, 1, rank, c) for x, d, c in zip(moved, dims, cores, strict=True)]
        else:
            moved = [x if d is not None else expand_to(x, (n, *x.shape)) for x, d in zip(moved, dims, strict=True)]
        return _all_front(apply(primitive, tuple(moved), params))

    return BatchRule(rule)


def loop_batch(primitive: Primitive, inputs: tuple[Tensor, ...], dims: Dims, params: Any) -> tuple[Any, Any]:
    """The rule of last resort: the row once an element, the results stacked."""
    from tensor.functions.manipulation import stack

    moved = [x if d is None else front(x, d) for x, d in zip(inputs, dims, strict=True)]
    results = [
        apply(primitive, tuple(x if d is None else x[i] for x, d in zip(moved, dims, strict=True)), params)
        for i in range(batch_size(inputs, dims))
    ]
    if not results:
        name = primitive.name
        raise ShapeError(f"vmap: {name} has no batching rule, and a batch of 0 has no element to run it on")
    if isinstance(results[0], tuple):
        return _all_front(tuple(stack(list(outs), axis=0) for outs in zip(*results, strict=True)))
    return stack(results, axis=0), 0


# --- costs -----------------------------------------------------------------------------------------------------------


def plain_cost(specs: Sequence[Any], outs: Sequence[Any], params: Any) -> tuple[int, int]:
    """Each input byte read and each output byte written once, one operation a result."""
    return total_bytes((*specs, *outs)), sum(math.prod(s.shape) for s in outs)


def flops_each(flops: int) -> Callable[[Sequence[Any], Sequence[Any], Any], tuple[int, int]]:
    """The same bytes, and so many operations for each element of the first input."""
    return lambda specs, outs, params: (total_bytes((*specs, *outs)), flops * specs[0].size)


def no_cost(specs: Sequence[Any], outs: Sequence[Any], params: Any) -> tuple[int, int]:
    """A view touches nothing."""
    return 0, 0


# --- what checked mode refuses ---------------------------------------------------------------------------------------


def _is_integer(x: Any) -> bool:
    return name_of(x.dtype).startswith(("int", "uint"))


def zero_divisor(name: str) -> Callable[[Sequence[Tensor], Any], None]:
    """A row's `check`: ZeroDivisionError where an integer of the second input is 0."""

    def check(inputs: Sequence[Tensor], params: Any) -> None:
        from tensor.autograd.anomaly import first_true

        divisor = inputs[1]
        at = first_true(divisor == 0) if _is_integer(divisor) else None
        if at is not None:
            raise ZeroDivisionError(f"{name}: the divisor {Spec(divisor.shape, divisor.dtype)!r} is 0 at {at}")

    return check


def negative_shift(name: str) -> Callable[[Sequence[Tensor], Any], None]:
    """A row's `check`: ValueError where the second input is negative."""

    def check(inputs: Sequence[Tensor], params: Any) -> None:
        from tensor.autograd.anomaly import first_true

        distance = inputs[1]
        at = first_true(distance < 0)
        if at is not None:
            raise ValueError(f"{name}: the shift {Spec(distance.shape, distance.dtype)!r} is negative at {at}")

    return check


# --- elementwise rows ------------------------------------------------------------------------------------------------


def elementwise(
    name: str,
    *,
    arity: int,
    dtypes: tuple[str, ...],
    summary: str,
    twin: Callable[[tuple[Any, ...], Any], Any],
    samples: Callable[[np.random.Generator], Iterable[Sample]],
    category: str = "elementwise",
    op: str | None = None,
    result: Callable[[Any], Any] | None = None,
    free: tuple[int, ...] = (),
    flops: int = 1,
    **fields: Any,
) -> Primitive:
    """Registers an elementwise row; `op` is the kernel's name where it is not the row's own, `flops` its operations.

    `fields` are further fields of the row: partials, keeps, vjp, jvp, kernel, oracle, …
    """
    from tensor.primitives.primitive import Primitive
    from tensor.primitives.registry import register

    def cost(specs: Sequence[Any], outs: Sequence[Any], params: Any) -> tuple[int, int]:
        count, work = plain_cost(specs, outs, params)
        return count, flops * work

    fields.setdefault("batch", ELEMENTWISE_BATCH)
    fields.setdefault("cost", cost)
    return register(
        Primitive(
            name,
            category=category,
            summary=summary,
            shape=elementwise_shape(name, dtypes, result, free),
            dtypes=dtypes,
            samples=samples,
            op=op if op is not None else name,
            twin=twin,
            arity=arity,
            **fields,
        )
    )
