"""Control flow while a function is captured: bodies become graphs of their own, and the loop or branch one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensor import _kernels
from tensor.autograd.grad_mode import no_grad
from tensor.autograd.pytree import TreeDef, tree_flatten, tree_unflatten
from tensor.autograd.trace import Tracer
from tensor.errors import ShapeError, TraceError
from tensor.graph.body import Body
from tensor.graph.canonical import canonical, renumbered
from tensor.graph.capture import GraphTracer, Recorder
from tensor.graph.control import BRANCH, SCAN, WHILE
from tensor.graph.graph import Graph, Step
from tensor.graph.layout import with_copies
from tensor.primitives.spec import Spec
from tensor.random_stream import active_capture, capturing

__all__ = ["captured_cond", "captured_scan", "captured_while", "recorder_for"]

Tensor = Any


class NotOneStep(Exception):
    """A body that cannot be a graph of its own: it takes keys from a stream, or values of another transformation."""


class _BodyRecorder(Recorder):
    """The capture of a body: values of the captures around it are among what it finds outside."""

    __slots__ = ()

    def foreign(self, x: Tensor) -> bool:
        if isinstance(x, Tracer) and not isinstance(x, GraphTracer):
            raise NotOneStep
        return False

    def source(self, stream: Any) -> Tensor:
        raise NotOneStep


class _Traced:
    """A body, the tree of its result, and the tensors that it found outside."""

    __slots__ = ("body", "found", "leaves", "treedef")

    def __init__(self, body: Body, treedef: TreeDef, leaves: list[Tensor], found: list[Tensor]) -> None:
        self.body, self.treedef, self.leaves, self.found = body, treedef, leaves, found


def recorder_for(tensors: Sequence[Any]) -> Any:
    """The capture that is going on, if the tensors are its values or plain ones that no gradient follows, else None."""
    recorder = active_capture()
    if recorder is None:
        return None
    for x in tensors:
        if isinstance(x, Tracer) and not isinstance(x, GraphTracer):
            return None
        if x.requires_grad and _kernels.grad_mode():
            return None
    return recorder


def _traced(fn: Callable[..., Any], args: Sequence[Any]) -> _Traced:
    """fn on values like the tensors among the leaves of args, as a body that reads those and what it finds outside."""
    main = _BodyRecorder(active_capture().graph.name)
    flat, treedef = tree_flatten(tuple(args))
    recording = _kernels.grad_mode()
    with main.running(), capturing(main), no_grad():
        given = []
        for x in flat:
            if isinstance(x, _kernels.Tensor | Spec):
                v = main.graph.value(Spec(x.shape, x.dtype, x.device))
                main.graph.inputs.append(v)
                given.append(GraphTracer.like(main, v))
            else:
                given.append(x)
        leaves, out_tree = tree_flatten(fn(*tree_unflatten(treedef, given)))
        if not all(isinstance(x, _kernels.Tensor) for x in leaves):
            raise NotOneStep
        main.graph.outputs = [main.number(x) for x in leaves]
    found = list(main.graph.constants.values())
    if recording and any(x.requires_grad for x in found):
        raise NotOneStep
    main.graph.inputs += list(main.graph.constants)
    main.graph.constants = {}
    return _Traced(Body(_with_own_results(main.graph)), out_tree, leaves, found)


def _with_own_results(graph: Graph) -> Graph:
    """The graph in its one form, each result in memory of its own."""
    from tensor.primitives.registry import row

    graph = with_copies(canonical(graph))
    free = {v for s in graph.steps if not s.is_view and not s.changes for v in s.outputs}
    outputs = []
    for v in graph.outputs:
        if v in free:
            free.discard(v)
            outputs.append(v)
            continue
        outputs.append(graph.value(graph.specs[v]))
        graph.steps.append(Step(row("copy", "elementwise"), (v,), (outputs[-1],)))
    graph.outputs = outputs
    graph = renumbered(graph)
    graph.verify()
    return graph


def _record(recorder: Any, row: Any, inputs: Sequence[Tensor], params: Any) -> list[Tensor]:
    graph: Graph = recorder.graph
    numbers = tuple([recorder.number(x) for x in inputs])
    made = tuple([graph.value(s) for s in row.specs_of(tuple([graph.specs[v] for v in numbers]), params)])
    graph.steps.append(Step(row, numbers, made, params))
    return [GraphTracer.like(recorder, v) for v in made]


def captured_scan(
    recorder: Any, fn: Callable[..., Any], init: Any, leaves: list[Tensor], treedef: TreeDef, n: int, reverse: bool
) -> tuple[Any, Any] | None:
    """The loop as one step; None where it must be captured turn by turn."""
    from tensor.autograd.control_flow import check_carry, pair_of

    state = tree_flatten(init)[0]
    if not all(isinstance(x, _kernels.Tensor) for x in state):
        return None

    def turn(carry: Any, slices: list[Tensor]) -> Any:
        after, y = pair_of(fn(carry, tree_unflatten(treedef, slices)))
        check_carry("scan", carry, after)
        return after, y

    try:
        found = _traced(turn, (init, [Spec(x.shape[1:], x.dtype, x.device) for x in leaves]))
    except NotOneStep:
        return None
    params = {"body": found.body, "length": n, "reverse": bool(reverse), "carry": len(state), "sliced": len(leaves)}
    outs = _record(recorder, SCAN, [*state, *leaves, *found.found], params)
    last, ys = tree_unflatten(found.treedef, outs)
    return last, ys


def captured_while(recorder: Any, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], init: Any) -> Any:
    """The loop as one step. Raises TraceError where it cannot be one."""
    from tensor.autograd.control_flow import check_carry

    state, state_tree = tree_flatten(init)
    if not all(isinstance(x, _kernels.Tensor) for x in state):
        raise TraceError("while_loop: what is carried must be tensors where it is captured")

    def turn(carry: Any) -> Any:
        after = body_fn(carry)
        check_carry("while_loop", carry, after)
        return after

    try:
        test, body = _traced(cond_fn, (init,)), _traced(turn, (init,))
    except NotOneStep:
        raise _refused("while_loop") from None
    params = {"condition": test.body, "body": body.body, "carry": len(state), "split": len(state) + len(test.found)}
    return tree_unflatten(state_tree, _record(recorder, WHILE, [*state, *test.found, *body.found], params))


def captured_cond(
    recorder: Any, pred: Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """The branch as one step. Raises TraceError where it cannot be one, ShapeError where the branches differ."""
    try:
        yes, no = _traced(true_fn, operands), _traced(false_fn, operands)
    except NotOneStep:
        raise _refused("cond") from None
    specs = [[repr(b.body.graph.specs[v]) for v in b.body.graph.outputs] for b in (yes, no)]
    if yes.treedef != no.treedef or specs[0] != specs[1]:
        raise ShapeError(
            f"cond: where it is captured both branches must give the same trees, shapes and dtypes, got {yes.treedef} "
            f"of {', '.join(specs[0])} and {no.treedef} of {', '.join(specs[1])}"
        )
    given = [x for x in tree_flatten(tuple(operands))[0] if isinstance(x, _kernels.Tensor)]
    params = {"true": yes.body, "false": no.body, "split": 1 + len(given) + len(yes.found)}
    outs = _record(recorder, BRANCH, [pred, *given, *yes.found, *given, *no.found], params)
    return tree_unflatten(yes.treedef, outs)


def _refused(name: str) -> TraceError:
    return TraceError(
        f"{name}: where it is captured its functions give tensors, take no keys from streams, and no gradient goes "
        f"through it (hint: tensor.where, or scan over a fixed length)"
    )
