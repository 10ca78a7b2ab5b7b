"""The row of fused chains: a program of elementwise steps that runs in one pass over memory, with the bits of the steps
run one by one.

A step reads temporaries (numbers 0 to 7) and inputs (8 to 63) and writes a temporary or an output (64 to 71). With an
end, the last step's value is reduced over trailing dimensions, in the order of the plain reduction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tensor.errors import ShapeError
from tensor.primitives.primitive import ALL, Params, Primitive, Sample
from tensor.primitives.registry import register
from tensor.primitives.rules import ELEMENTWISE_BATCH, broadcast_shapes
from tensor.primitives.spec import Spec, total_bytes

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FIRST_INPUT", "FIRST_OUT", "FUSED", "Program"]

Tensor = Any

FIRST_INPUT, FIRST_OUT = 8, 64  # operands below are temporaries


@dataclass(frozen=True, slots=True)
class Program:
    """A chain of elementwise operations.

    `steps` are (operation, target, operands, dtype), dtype being "" but for a cast; `inputs` and `outs` name element
    types; `end` is "" or what reduces the last `axes` dimensions: "sum", "maximum" or "minimum" of float32 or float64.

    >>> Program((("mul", 0, (8, 8), ""), ("add", 64, (0, 9), "")), ("float32", "float32"), ("float32",)).operations
    ('mul', 'add')
    """

    steps: tuple[tuple[str, int, tuple[int, ...], str], ...]
    inputs: tuple[str, ...]
    outs: tuple[str, ...]
    end: str = ""
    axes: int = 0

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of the steps' operations."""
        return tuple(step[0] for step in self.steps)

    def with_inputs(self, order: tuple[int, ...]) -> Program:
        """The program with its inputs in another order: input j of it is what input order[j] was."""
        place = {FIRST_INPUT + old: FIRST_INPUT + new for new, old in enumerate(order)}
        steps = tuple((name, to, tuple([place.get(o, o) for o in ins]), dtype) for name, to, ins, dtype in self.steps)
        return Program(steps, tuple([self.inputs[j] for j in order]), self.outs, self.end, self.axes)

    def runs(self) -> bool:
        """Whether there are kernels for all of its steps, or none at all: then the twin runs."""
        from tensor import _kernels

        if _kernels.isa() == "ref":
            return True
        try:
            self.compiled()
        except ValueError:
            return False
        return True

    def overwrites(self, k: int) -> list[int]:
        """The inputs in whose place output k may lie: each of its type that no step reads after k is written."""
        if self.end:
            return []
        written = next(i for i, step in enumerate(self.steps) if step[1] == FIRST_OUT + k)
        read = {o - FIRST_INPUT for step in self.steps[written + 1 :] for o in step[2] if FIRST_INPUT <= o < FIRST_OUT}
        return [j for j, dtype in enumerate(self.inputs) if dtype == self.outs[k] and j not in read]

    def compiled(self, isa: str = "") -> Any:
        """The checked program of the kernels. ValueError names the step that is wrong."""
        return _compile(self, isa)


@lru_cache(maxsize=4096)
def _compile(program: Program, isa: str) -> Any:
    from tensor import _kernels

    codes = _kernels.ELEMENTWISE
    unknown = [name for name in program.operations if name not in codes]
    if unknown:
        raise ValueError(f"fused: no elementwise operation is named {unknown[0]!r}")
    steps = [(codes[name], target, operands, dtype) for name, target, operands, dtype in program.steps]
    return _kernels.FusedProgram(steps, program.inputs, program.outs, program.end, isa)


def _shape(specs: tuple[Any, ...], params: Params) -> Any:
    program: Program = params["program"]
    shape = broadcast_shapes("fused", [s.shape for s in specs])
    kept = shape[: len(shape) - program.axes]
    if program.end in ("maximum", "minimum") and 0 in shape[len(kept) :]:
        raise ShapeError(f"fused: {program.end} of nothing, the reduced dimensions are {shape[len(kept) :]}")
    outs = tuple(Spec(kept, dtype, specs[0].device) for dtype in program.outs)
    return outs[0] if len(outs) == 1 else outs


def _kernel(outs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], params: Params) -> None:
    program: Program = params["program"]
    program.compiled().run(outs, inputs, program.axes)


def _twin(arrays: tuple[Any, ...], params: Params) -> Any:
    from tensor.twins.fused_ref import run_program

    outs = run_program(params["program"], arrays)
    return outs[0] if len(outs) == 1 else outs


def _cost(specs: tuple[Any, ...], outs: tuple[Any, ...], params: Params) -> tuple[int, int]:
    program: Program = params["program"]
    shape = broadcast_shapes("fused", [s.shape for s in specs])
    return total_bytes((*specs, *outs)), len(program.steps) * Spec(shape, "float32").size


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    steps = (("mul", 0, (8, 9), ""), ("add", 0, (0, 8), ""), ("maximum", 64, (0, 9), ""), ("lt", 65, (0, 9), ""))
    x, y = rng.normal(size=(3, 5)), rng.normal(size=5)
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        yield Sample(x, y, params={"program": Program(steps, (dtype, dtype), (dtype, "bool"))}, dtypes=(dtype,))
    ends = Program(steps[:2], ("float32", "float32"), ("float32",), "sum", 1)
    yield Sample(x, y, params={"program": ends}, dtypes=("float32",))
    top = Program(steps[:2], ("float64", "float64"), ("float64",), "maximum", 2)
    yield Sample(x, y, params={"program": top}, dtypes=("float64",))


FUSED = register(
    Primitive(
        "fused",
        category="fusion",
        summary="A chain of elementwise operations in one pass over memory, or with a reduction at its end.",
        dtypes=ALL,
        shape=_shape,
        kernel=_kernel,
        twin=_twin,
        batch=ELEMENTWISE_BATCH,
        cost=_cost,
        samples=_samples,
    )
)
