"""What is asked of every row of the registry, on the row's own samples.

tests/tensor/test_primitives.py runs these checks; tests/regenerate_primitives.py makes docs/primitives.md from what
came out. A check returns nothing, raises AssertionError if the row fails, or raises NotApplicable with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tensor as tn
from tensor import _kernels
from tensor.autograd import gradcheck, jvp, vjp, vmap
from tensor.primitives.primitive import Primitive, Sample
from tensor.primitives.registry import all_rows
from tensor.primitives.spec import name_of
from tensor.primitives.twin_call import array_of

Array = np.ndarray[Any, np.dtype[Any]]

SPECIAL_FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    6e-8,
    1e30,
    -88.5,
    700.0,
]
LAYOUTS = ("contiguous", "strided", "reversed", "permuted")


class NotApplicable(Exception):
    """The check does not ask anything of this row."""


def samples_of(row: Primitive) -> list[Sample]:
    """The row's samples, the same bits on every machine; AssertionError if it has none."""
    samples = list(row.samples(np.random.default_rng(20260729)))
    assert samples, f"{row.name} has no samples"
    for sample in samples:
        sample.inputs = tuple(steady(a) for a in sample.inputs)
    return samples


def steady(array: Array) -> Array:
    """float64 with 36 bits of the fraction: what numpy's functions and products differ in between machines is gone."""
    if array.dtype == np.complex128:
        return np.asarray(steady(array.real) + 1j * steady(array.imag))
    if array.dtype != np.float64:
        return array
    fraction, exponent = np.frexp(array)
    return np.asarray(np.ldexp(np.rint(fraction * 2.0**36) * 2.0**-36, exponent))


def values_of(array: Array, dtype: str) -> Array:
    """What a float64 array stands for in the dtype (bfloat16: as float32); other arrays are what they are."""
    if array.dtype != np.float64 or dtype == "float64":
        return np.asarray(array)
    if dtype == "bool":
        return np.asarray(array > 0)
    if dtype.startswith(("int", "uint")):  # casts from outside the range differ between machines
        limits = np.iinfo(dtype)
        whole = np.rint(np.abs(array) if dtype.startswith("uint") else array)
        return np.asarray(np.clip(whole, float(limits.min) / 2, float(limits.max) / 2).astype(dtype))
    if dtype.startswith("complex"):
        turned = 0.5 * np.roll(array.reshape(-1), 1).reshape(array.shape)
        return np.asarray((array + 1j * turned).astype(dtype))
    with np.errstate(over="ignore"):  # large samples become infinite in small types
        return np.asarray(array.astype("float32" if dtype == "bfloat16" else dtype))


def tensor_of(values: Array, dtype: str) -> Any:
    x = tn.asarray(values)
    return tn.astype(x, tn.bfloat16) if dtype == "bfloat16" and values.dtype == np.float32 else x


def inputs_of(sample: Sample, dtype: str) -> tuple[Array, ...]:
    """The values of all inputs in the dtype."""
    values = [values_of(a, dtype) for a in sample.inputs]
    for k in sample.hermitian:
        values[k] = np.asarray((values[k] + values[k].swapaxes(-1, -2).conj()) / 2).astype(values[k].dtype)
    return tuple(values)


def tensors_of(sample: Sample, dtype: str, layout: str = "contiguous") -> tuple[Any, ...]:
    """All inputs as tensors."""
    return tuple(laid_out(values, dtype, layout) for values in inputs_of(sample, dtype))


def laid_out(array: Array, dtype: str, layout: str) -> Any:
    """The same values with other strides."""
    values = np.asarray(array)
    if layout == "contiguous" or array.ndim == 0:
        return tensor_of(values, dtype)
    if layout == "strided":
        big = np.ones(tuple(2 * n + 1 for n in array.shape), values.dtype)
        steps = tuple(slice(1, None, 2) for _ in array.shape)
        big[steps] = values
        return tensor_of(big, dtype)[steps]
    if layout == "reversed":
        steps = tuple(slice(None, None, -1) for _ in array.shape)
        return tensor_of(np.ascontiguousarray(values[steps]), dtype)[steps]
    turned = tensor_of(np.ascontiguousarray(values.T), dtype)
    return turned.permute(tuple(reversed(range(array.ndim))))


def on_ref(x: Any) -> Any:
    """A copy on the device of the twins."""
    return tn.asarray(x, copy=True, device="ref")


def results(outs: Any) -> tuple[Any, ...]:
    return outs if isinstance(outs, tuple) else (outs,)


def bits(x: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Type, shape and the bytes of the elements in C order."""
    return name_of(x.dtype), x.shape, array_of(x).tobytes()


def run(row: Primitive, inputs: tuple[Any, ...], params: Any) -> tuple[Any, ...]:
    return results(_kernels.apply(row, inputs, params))


def dtypes_of(row: Primitive, sample: Sample) -> tuple[str, ...]:
    generic = any(a.dtype == np.float64 for a in sample.inputs)
    return (sample.dtypes or row.dtypes) if generic else ("-",)


def fresh(row: Primitive, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies where the row overwrites its inputs."""
    return tuple(tn.asarray(x, copy=True) for x in inputs) if row.in_place else inputs


# --- checks ----------------------------------------------------------------------------------------------------------


def check_shape(row: Primitive) -> None:
    """The shape rule says what comes out, and refuses nothing that the samples need."""
    for sample in samples_of(row):
        for dtype in dtypes_of(row, sample):
            inputs = fresh(row, tensors_of(sample, dtype))
            told = row.specs_of(inputs, sample.params)
            came = run(row, inputs, sample.params)
            assert [(s.shape, name_of(s.dtype)) for s in told] == [(x.shape, name_of(x.dtype)) for x in came], sample
            counted = row.bytes_and_flops(inputs, sample.params)
            assert all(isinstance(n, int) and n >= 0 for n in counted), (sample, counted)


def more_samples(row: Primitive) -> Iterator[Sample]:
    """For elementwise rows: lengths that end inside a vector, and the values where formulas break."""
    if row.arity is None or any(len(s.inputs) != row.arity for s in samples_of(row)):
        return
    first = samples_of(row)[0]
    if any(a.dtype != np.float64 for a in first.inputs):
        return
    rng = np.random.default_rng(1)
    for n in (1, 37, 1000):
        yield Sample(*[steady(rng.normal(size=n) * 3) for _ in range(row.arity)], params=first.params)
    floats = tuple(d for d in row.dtypes if d.startswith(("float", "bfloat")))
    if floats:
        grid = np.array(list(itertools.product(SPECIAL_FLOATS, repeat=min(row.arity, 2))))
        columns = [grid[:, i % grid.shape[1]].copy() for i in range(row.arity)]
        yield Sample(*columns, params=first.params, dtypes=floats)


def check_twin(row: Primitive) -> None:
    """Kernel and twin give the same bits, for every dtype, on four layouts; so device `ref` equals device `cpu`."""
    if row.view is not None:
        raise NotApplicable("view")
    for sample in [*samples_of(row), *more_samples(row)]:
        for dtype in dtypes_of(row, sample):
            plain = tensors_of(sample, dtype)
            refs = tuple(on_ref(x) for x in plain)
            twin = [bits(x) for x in run(row, refs, sample.params)]
            for layout in LAYOUTS:
                inputs = tensors_of(sample, dtype, layout)
                kernel = [bits(x) for x in run(row, fresh(row, inputs), sample.params)]
                for i, (a, b) in enumerate(zip(kernel, twin, strict=True)):
                    assert a == b, f"{row.name} {sample} {dtype} {layout}, result {i}: {difference(a, b)}"


def check_view(row: Primitive) -> None:
    """A view shares its input's storage: nothing is computed."""
    if row.view is None:
        raise NotApplicable("not a view")
    for sample in samples_of(row):
        for dtype in dtypes_of(row, sample):
            inputs = tensors_of(sample, dtype)
            for out in run(row, inputs, sample.params):
                version = inputs[0].version
                assert out.is_shared or out.size == 0, sample
                assert out.version == version
            if row.oracle is not None and not dtype.startswith("bfloat"):
                expected = row.oracle(tuple(x.numpy() for x in inputs), sample.params)
                for x, want in zip(run(row, inputs, sample.params), results(expected), strict=True):
                    np.testing.assert_array_equal(x.numpy(), want)


def difference(a: Any, b: Any) -> str:
    """Where two results differ first."""
    if a[:2] != b[:2]:
        return f"{a[:2]} and {b[:2]}"
    size = len(a[2]) // max(1, int(np.prod(a[1])))
    at = next(i for i in range(len(a[2])) if a[2][i] != b[2][i]) // max(size, 1)
    one, other = (x[2][at * size : (at + 1) * size][::-1].hex() for x in (a, b))
    return f"kernel {one}, twin {other} at element {at} of {a[0]}{list(a[1])}"


def float_inputs(row: Primitive, sample: Sample, dtype: str) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    inputs = tensors_of(sample, dtype)
    moving = sample.differentiable
    if moving is None:
        moving = tuple(i for i, a in enumerate(sample.inputs) if a.dtype in (np.float64, np.complex128))
    return inputs, moving


def moving_function(
    row: Primitive, sample: Sample, inputs: tuple[Any, ...], moving: tuple[int, ...]
) -> Callable[..., Any]:
    """The row as a function of the inputs that are differentiated, giving the results of floats."""

    def fn(*values: Any) -> tuple[Any, ...]:
        full = list(inputs)
        for i, x in zip(moving, values, strict=True):
            full[i] = (x + tn.conj(x.mT)) * 0.5 if i in sample.hermitian else x
        outs = results(_kernels.apply(row, tuple(full), sample.params))
        return tuple(o for o in outs if name_of(o.dtype).startswith(("float", "complex")))

    return fn


def gradient_cases(row: Primitive) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...], Sample]]:
    if not row.differentiable:
        raise NotApplicable("no derivative")
    found = False
    for sample in samples_of(row):
        if not sample.gradcheck:
            continue
        for dtype in ("float64", "complex128"):
            if dtype not in (sample.dtypes or row.dtypes):
                continue
            inputs, moving = float_inputs(row, sample, dtype)
            if not moving:
                continue
            found = True
            yield moving_function(row, sample, inputs, moving), tuple(inputs[i] for i in moving), sample
    assert found, f"{row.name} has a derivative, but no sample to check it on"


def check_gradient(row: Primitive) -> None:
    """Gradients against finite differences, in float64 and complex128."""
    for fn, values, _ in gradient_cases(row):
        gradcheck(fn, values)


def spread(x: Any, k: int) -> Any:
    """Numbers between ½ and 1½ in x's shape and dtype."""
    numbers = 0.5 + (np.arange(1, x.size + 1) * 0.6180339887498949 * (k + 1)) % 1.0
    if name_of(x.dtype) == "complex128":
        numbers = numbers + 1j * numbers[::-1]
    return tn.asarray(np.asarray(numbers).reshape(x.shape))


def inner(left: Any, right: Any) -> float:
    """Σ Re(conj(a)·b) over two sequences of tensors."""
    return float(sum(np.real(np.conj(a.numpy()) * b.numpy()).sum() for a, b in zip(left, right, strict=True)))


def check_second(row: Primitive) -> None:
    """Gradients of gradients against finite differences of gradients."""
    for fn, values, _ in gradient_cases(row):

        def slope(*at: Any, fn: Callable[..., Any] = fn) -> Any:
            outs, pull = vjp(fn, *at)
            return pull(tuple(spread(o, 1) for o in outs))

        gradcheck(slope, values, rtol=1e-4, atol=1e-6)


def check_tangent(row: Primitive) -> None:
    """⟨u, jvp(v)⟩ = ⟨vjp(u), v⟩."""
    for fn, values, sample in gradient_cases(row):
        moves = tuple(spread(x, k) for k, x in enumerate(values))
        outs, along = jvp(fn, values, moves)
        again, pull = vjp(fn, *values)
        assert [bits(a) for a in outs] == [bits(b) for b in again]
        weights = tuple(spread(o, 5) for o in outs)
        forward, backward = inner(weights, along), inner(pull(weights), moves)
        assert abs(forward - backward) <= 1e-9 * max(1.0, abs(forward), abs(backward)), (sample, forward, backward)


def check_batching(row: Primitive) -> None:
    """vmap equals a loop, bit for bit: all inputs batched, and one at a time along the last axis.

    In float32 (or float64) and, by turns, one of the row's other element types.
    """
    if row.in_place:
        raise NotApplicable("changes its inputs")
    for number, sample in enumerate(samples_of(row)):
        if not sample.inputs:
            continue
        dtypes = dtypes_of(row, sample)
        first = next((d for d in ("float32", "float64") if d in dtypes), dtypes[0])
        for dtype in {first: None, dtypes[(number + len(row.name)) % len(dtypes)]: None}:
            batches_equal_elements(row, sample, dtype)


def batches_equal_elements(row: Primitive, sample: Sample, dtype: str) -> None:
    """AssertionError where an element of a batch of three is not what it is alone."""
    count = len(sample.inputs)
    factors = [Sample(*[times(a, by) for a in sample.inputs], hermitian=sample.hermitian) for by in (1, 0.75, 0.5)]
    elements = [inputs_of(s, dtype) for s in factors]
    cases = [tuple(range(count))] + ([(k,) for k in range(count)] if count > 1 else [])
    for batched in cases:
        last = len(batched) == 1
        axes = tuple(None if k not in batched else a.ndim if last else 0 for k, a in enumerate(sample.inputs))
        whole = [
            tensor_of(elements[0][k] if a is None else np.stack([e[k] for e in elements], a), dtype)
            for k, a in enumerate(axes)
        ]
        mapped = vmap(lambda *xs: run(row, xs, sample.params), in_axes=axes)(*whole)
        for i in range(3):
            one = tuple(tensor_of(elements[0 if a is None else i][k], dtype) for k, a in enumerate(axes))
            for many, single in zip(mapped, run(row, one, sample.params), strict=True):
                assert bits(many[i]) == bits(single), f"{row.name} {sample} {dtype} in_axes={axes}, element {i}"


def times(array: Array, by: float) -> Array:
    return np.asarray(array * by) if array.dtype == np.float64 else array


def check_oracle(row: Primitive) -> None:
    """Values against an independent implementation, or what must hold of them."""
    if row.oracle is None and row.invariant is None:
        raise NotApplicable("no oracle")
    for sample in samples_of(row):
        for dtype in dtypes_of(row, sample):
            if dtype not in ("float64", "complex128", "int64", "bool", "-"):
                continue
            inputs = tensors_of(sample, dtype)
            arrays = tuple(x.numpy() for x in inputs)
            came = tuple(x.numpy() for x in run(row, fresh(row, inputs), sample.params))
            with np.errstate(all="ignore"):
                if row.oracle is not None:
                    pairs = list(zip(came, results(row.oracle(arrays, sample.params)), strict=True))
                elif row.invariant is not None:
                    pairs = list(row.invariant(arrays, came, sample.params))
            for x, want in pairs:
                np.testing.assert_allclose(
                    x, want, rtol=row.tolerance, atol=row.tolerance, err_msg=f"{row.name} {sample} {dtype}"
                )


CHECKS: dict[str, Callable[[Primitive], None]] = {
    "shape": check_shape,
    "view": check_view,
    "twin": check_twin,
    "oracle": check_oracle,
    "gradient": check_gradient,
    "second": check_second,
    "tangent": check_tangent,
    "batching": check_batching,
}


def rows() -> list[Primitive]:
    """Every row, by name."""
    return list(all_rows())
