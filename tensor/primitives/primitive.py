"""A primitive: one row of the registry, see the package's page for how to write one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tensor._kernels import PrimitiveBase
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tensor.primitives.rules import BatchRule, Dims

__all__ = [
    "ALL",
    "COMPLEX",
    "CROSSED",
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "REALS",
    "SIGNED",
    "Params",
    "Primitive",
    "Sample",
    "keep",
]

Tensor: TypeAlias = Any
Params: TypeAlias = Any  # dict[str, Hashable], or None
Specs: TypeAlias = tuple[Any, ...]  # Spec or Tensor

SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REALS = (*INTEGERS, *FLOATS)
NUMBERS = (*REALS, *COMPLEX)
ALL = ("bool", *NUMBERS)

DEVICES = ("cpu", "ref", "cuda", "webgpu", "npu")

_OUTPUT_BIT = 16  # bits 0 to 15 of `keeps` are inputs (15 stands for all later ones too), 16 and up are outputs


def keep(*, inputs: Iterable[int] = (), outputs: Iterable[int] = ()) -> int:
    """The mask of inputs and outputs that a gradient reads; input 15 stands for every later one too.

    >>> bin(keep(inputs=(0, 1), outputs=(0,)))
    '0b10000000000000011'
    """
    mask = 0
    for i in inputs:
        mask |= 1 << min(i, _OUTPUT_BIT - 1)
    for i in outputs:
        mask |= 1 << (_OUTPUT_BIT + i)
    return mask


KEEP_INPUTS = (1 << _OUTPUT_BIT) - 1  # every input, however many
CROSSED = (keep(inputs=(1,)), keep(inputs=(0,)))  # `alone` of products: the gradient of one reads the other


class Sample:
    """Inputs on which the tests run a row.

    A float64 array stands for the row's element types: the tests cast it to each of them. `gradcheck` False leaves the
    sample out of the comparison with finite differences (a kink or a tie of the function lies at these values);
    `differentiable` names the inputs to check, all float64 ones if it isn't given. `dtypes` narrows the row's element
    types for this sample. Inputs in `hermitian` are matrices that must equal their conjugate transpose: they do after
    the cast, and finite differences move them so.
    """

    __slots__ = ("differentiable", "dtypes", "gradcheck", "hermitian", "inputs", "params")

    def __init__(
        self,
        *inputs: NDArray[Any],
        params: dict[str, Any] | None = None,
        gradcheck: bool = True,
        differentiable: tuple[int, ...] | None = None,
        dtypes: tuple[str, ...] | None = None,
        hermitian: tuple[int, ...] = (),
    ) -> None:
        self.hermitian = hermitian
        self.inputs = inputs
        self.params = params
        self.gradcheck = gradcheck
        self.differentiable = differentiable
        self.dtypes = dtypes

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in self.inputs)
        return f"Sample({shapes}{f', params={self.params}' if self.params else ''})"


class Primitive(PrimitiveBase):
    """One operation: rules, kernels, twin, derivatives, cost, samples.

    The arguments are explained in the package's page (`help(tensor.primitives)`). `devices` maps a device to 'kernel',
    'view', 'twin' or 'open'.
    """

    def __init__(
        self,
        name: str,
        *,
        category: str,
        summary: str,
        shape: Callable[[Specs, Params], Any],
        dtypes: tuple[str, ...],
        samples: Callable[[np.random.Generator], Iterable[Sample]],
        op: str | None = None,
        kernel: Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Params], None] | None = None,
        view: Callable[[tuple[Tensor, ...], Params], Tensor] | None = None,
        twin: Callable[[tuple[Any, ...], Params], Any] | None = None,
        keeps: int = 0,
        alone: tuple[int, int] | None = None,
        vjp: Callable[[Any, Any], Sequence[Tensor | None]] | None = None,
        jvp: Callable[[tuple[Tensor | None, ...], Any], Any] | None = None,
        partials: Callable[[Any], Sequence[Callable[[Tensor], Tensor] | None]] | None = None,
        linear: bool = False,
        sparse_gradients: bool = False,
        batch: BatchRule | Callable[[tuple[Tensor, ...], Dims, Params], tuple[Any, Any]] | None = None,
        cost: Callable[[Specs, Specs, Params], tuple[int, int]] | None = None,
        sharding: str = "open",
        oracle: Callable[[tuple[Any, ...], Params], Any] | None = None,
        invariant: Callable[[tuple[Any, ...], tuple[Any, ...], Params], Iterable[tuple[Any, Any]]] | None = None,
        tolerance: float = 1e-10,
        in_place: tuple[int, ...] = (),
        arity: int | None = None,
        check: Callable[[tuple[Tensor, ...], Params], None] | None = None,
    ) -> None:
        from tensor.primitives import rules

        super().__init__(name, elementwise_code(op), keeps, alone)
        if twin is None and view is None:
            raise ValueError(f"primitive {name}: a row needs a twin, or a view")
        if linear and vjp is None:
            raise ValueError(f"primitive {name}: a linear row needs its transpose as vjp")
        self.category = category
        self.summary = summary
        self.dtypes = dtypes
        self.samples = samples
        self.shape = shape
        self.kernel = kernel
        self.view = view
        self.twin = twin
        self.partials = partials
        self.linear = linear
        self.sparse_gradients = sparse_gradients
        self.vjp = rules.vjp_of_partials(partials) if partials is not None and vjp is None else vjp
        if jvp is None and linear:
            jvp = rules.jvp_of_linear(self)
        elif jvp is None and partials is not None:
            jvp = rules.jvp_of_partials(partials)
        self.jvp = jvp
        self.batch = batch.bind(self) if isinstance(batch, rules.BatchRule) else batch
        self.cost = cost if cost is not None else rules.plain_cost
        self.sharding = sharding
        self.oracle = oracle
        self.invariant = invariant
        self.tolerance = tolerance
        self.in_place = in_place  # inputs that the kernel overwrites: result i lies where input in_place[i] was
        self.op_name = op
        self.arity = arity
        self.check = check

    @property
    def differentiable(self) -> bool:
        """Whether gradients pass through it."""
        return self.vjp is not None

    @property
    def transpose(self) -> Callable[[Any, Any], Sequence[Tensor | None]] | None:
        """The transpose of a linear row, None for others."""
        return self.vjp if self.linear else None

    @property
    def devices(self) -> dict[str, str]:
        """What runs the row on each device; 'open' where nothing does yet."""
        here = "view" if self.view is not None else "kernel" if self.kernel is not None or self.op >= 0 else "twin"
        return {"cpu": here, "ref": "view" if self.view is not None else "twin"} | dict.fromkeys(DEVICES[2:], "open")

    def specs_of(self, inputs: Specs, params: Params) -> tuple[Spec, ...]:
        """The specs of the results, always as a tuple."""
        specs = self.shape(inputs, params)
        return specs if isinstance(specs, tuple) else (specs,)

    def bytes_and_flops(self, inputs: Specs, params: Params) -> tuple[int, int]:
        """Bytes read and written and floating-point operations of one call on such inputs."""
        return self.cost(inputs, self.specs_of(inputs, params), params)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def elementwise_code(op: str | None) -> int:
    """The number of the elementwise kernel of that name, −1 for none."""
    if op is None:
        return -1
    from tensor import _kernels

    codes: dict[str, int] = getattr(_kernels, "ELEMENTWISE", {})
    return codes.get(op, -1)
