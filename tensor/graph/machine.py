"""Runs a planned graph: one arena for all temporaries, results in memory of their own, no shape rule at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensor import _kernels
from tensor.autograd.grad_mode import no_grad
from tensor.graph.arena import Arena
from tensor.graph.body import Body, BodyRow
from tensor.graph.graph import Graph, Step
from tensor.graph.plan import Plan
from tensor.locks import lock_of
from tensor.primitives.fused import FUSED
from tensor.primitives.fused_product import FUSED_PRODUCT, prepared
from tensor.primitives.spec import Spec, total_bytes
from tensor.primitives.twin_call import run_twin

__all__ = ["Machine"]

Tensor = Any


class _Call:
    """A step, ready: what to call, and with which values. `outs` and `ins` are there if they never move."""

    __slots__ = ("call", "in_numbers", "ins", "out_numbers", "outs", "step")

    def __init__(self, step: Step, call: Callable[[Any, Any], Any]) -> None:
        self.step = step
        self.call = call
        self.in_numbers = step.inputs
        self.out_numbers = step.outputs
        self.ins: tuple[Tensor, ...] | None = None
        self.outs: tuple[Tensor, ...] | None = None


class _Executor:
    """The steps of a graph over one arena, from a byte of it on. Results lie in memory that the caller gives."""

    def __init__(self, graph: Graph, plan: Plan, arena: Arena, base: int) -> None:
        held: list[Tensor | None] = [None] * len(graph.specs)
        for v, x in graph.constants.items():
            held[v] = x.detach() if x.requires_grad else x
        calls = []
        for at, step in enumerate(graph.steps):
            call = _Call(step, _call_of(step, graph, arena, base + plan.room_at(at)))
            if all(held[v] is not None for v in step.inputs):
                call.ins = tuple(held[v] for v in step.inputs)
            if step.is_view:
                if call.ins is not None and _shared(call.call(None, call.ins), call.ins[0]):
                    held[step.outputs[0]] = call.call(None, call.ins)
                    continue
            elif not step.changes:
                for v in step.outputs:
                    b = plan.buffers[plan.buffer_of[v]]
                    if b.kind == "temporary":
                        spec = graph.specs[v]
                        held[v] = arena.tensor(base + b.offset, spec) if b.nbytes else _empty(spec)
                if all(held[v] is not None for v in step.outputs):
                    call.outs = tuple(held[v] for v in step.outputs)
            calls.append(call)
        self._graph, self._calls, self._held = graph, calls, held

    def run(self, inputs: Sequence[Tensor], made: Iterable[tuple[int, Tensor]]) -> list[Tensor]:
        """The results, `made` being the memory of those that are not views."""
        held = list(self._held)
        for v, x in zip(self._graph.inputs, inputs, strict=True):
            held[v] = x
        for v, x in made:
            held[v] = x
        for c in self._calls:
            ins = tuple([held[v] for v in c.in_numbers]) if c.ins is None else c.ins
            if c.step.is_view:
                held[c.out_numbers[0]] = c.call(None, ins)
            elif c.step.changes:
                outs = c.call(None, ins)
                for v, x in zip(c.out_numbers, outs if isinstance(outs, tuple) else (outs,), strict=True):
                    held[v] = x
            else:
                c.call(tuple([held[v] for v in c.out_numbers]) if c.outs is None else c.outs, ins)
        return [held[v] for v in self._graph.outputs]


class Machine:
    """A graph that is ready to run. Calls from several threads take turns: there is one arena."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self._graph = graph
        self._plan = plan
        self._lock = lock_of(self)
        self._executor: _Executor | None = None
        self._made = [  # the value that a result's memory belongs to, anew for each run
            (b.value, graph.specs[b.value]) for b in plan.buffers if b.kind == "output"
        ]

    def run(self, inputs: list[Tensor]) -> list[Tensor]:
        """The results for such inputs, in new memory each time.

        Raises BudgetExceeded if there is no memory for the arena or the results.
        """
        with self._lock, no_grad():
            if self._executor is None:
                arena = Arena(self._plan.arena_bytes)
                self._executor = _Executor(self._graph, self._plan, arena, 0)
            return self._executor.run(inputs, [(v, _empty(spec)) for v, spec in self._made])

    @property
    def held_bytes(self) -> int:
        """What the arena takes now: nothing before the first run."""
        return 0 if self._executor is None else self._plan.arena_bytes


def _shared(view: Tensor, source: Tensor) -> bool:
    """Whether a view looks at its source's memory; a reshape of a constant may be a copy, which each run makes anew."""
    reach = [(n - 1) * s for n, s in zip(source.shape, source.strides, strict=True)]
    low = source.data_address + sum(r for r in reach if r < 0) * source.itemsize
    high = source.data_address + (sum(r for r in reach if r > 0) + 1) * source.itemsize
    return bool(view.size == 0 or low <= view.data_address < high)


def _empty(spec: Spec) -> Tensor:
    return _kernels.empty(spec.shape, spec.dtype, spec.device)


def _call_of(step: Step, graph: Graph, arena: Arena, room: int) -> Callable[[Any, Any], Any]:
    """What runs a step: call(outs, inputs), or call(None, inputs) → results for views and changes in place.

    A step with bodies works in the arena from byte `room` on.
    """
    primitive, params = step.primitive, step.params
    if isinstance(primitive, BodyRow):

        def of_body(body: Body, offset: int = 0) -> Callable[[Any, Any], Any]:
            executor = _Executor(body.graph, body.plan, arena, room + offset)
            numbers = body.graph.outputs
            return lambda inputs, outs: executor.run(inputs, zip(numbers, outs, strict=True))

        def memory(spec: Spec, offset: int) -> Tensor:
            return arena.tensor(room + offset, spec) if total_bytes((spec,)) else _empty(spec)

        return primitive.prepare(params, of_body, memory)
    if step.is_view:
        view = primitive.view
        assert view is not None
        return lambda outs, ins: view(ins, params)
    if step.changes:
        return lambda outs, ins: _kernels.apply(primitive, ins, params)
    on_ref = any(str(graph.specs[v].device) == "ref" for v in (*step.inputs, *step.outputs))
    if _kernels.isa() == "ref" or on_ref:
        return lambda outs, ins: run_twin(primitive, outs, ins, params)
    if primitive is FUSED or primitive is FUSED_PRODUCT:
        return prepared(params)
    kernel = primitive.kernel
    if kernel is not None:
        return lambda outs, ins: kernel(outs, ins, params)
    if primitive.op >= 0:
        op, elementwise = primitive.op, _kernels.elementwise
        return lambda outs, ins: elementwise(op, outs[0], *ins)
    return lambda outs, ins: run_twin(primitive, outs, ins, params)
