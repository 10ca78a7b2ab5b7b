"""Capture: a function runs once on tracers, and its steps become a graph for these shapes and types."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from tensor import _kernels
from tensor.autograd.pytree import TreeDef, tree_flatten, tree_unflatten
from tensor.autograd.trace import Main, Tracer
from tensor.errors import TraceError
from tensor.graph.canonical import canonical, renumbered
from tensor.graph.fusion import fuse
from tensor.graph.graph import Graph, Step
from tensor.graph.layout import with_copies
from tensor.graph.machine import Machine
from tensor.graph.plan import Plan, plan_graph
from tensor.graph.recompute import recomputed
from tensor.primitives.spec import Spec
from tensor.random_stream import Stream, capturing, fed

__all__ = ["Captured", "GraphTracer", "capture", "trace"]

Tensor = Any


class _Recorder(Main):
    """A capture that is going on: the graph, and which tensors from outside it has met."""

    __slots__ = ("graph", "known", "streams")

    def __init__(self, name: str) -> None:
        super().__init__(f"capture of {name}")
        self.graph = Graph(name)
        self.known: dict[int, int] = {}  # id of a tensor from outside → its value; the graph keeps the tensor alive
        self.streams: list[Stream] = []  # for each input after the arguments: where its seed comes from

    def number(self, x: Tensor) -> int:
        if isinstance(x, GraphTracer) and x.main is self:
            return x.value
        found = self.known.get(id(x))
        if found is None:
            found = self.graph.value(Spec(x.shape, x.dtype, x.device))
            self.graph.constants[found] = x
            self.known[id(x)] = found
        return found

    def source(self, stream: Stream) -> Tensor:
        """The seed of the stream's next key: an input that each run takes from the stream."""
        v = self.graph.value(Spec((), "uint64"))
        self.graph.inputs.append(v)
        self.streams.append(stream)
        return GraphTracer.like(self, v)


class GraphTracer(Tracer):
    """A value of a graph that is being captured."""

    __slots__ = ("value",)

    what: ClassVar[str] = "a captured tensor"
    value: int

    @classmethod
    def like(  # type: ignore[override]
        cls, main: _Recorder, value: int
    ) -> GraphTracer:
        spec = main.graph.specs[value]
        t: GraphTracer = cls(Spec(spec.shape, spec.dtype, spec.device), traced=True)
        t.main, t.value = main, value
        return t

    def lower(self) -> tuple[int]:
        return (self.value,)

    @classmethod
    def process(cls, main: Any, primitive: Any, inputs: tuple[Tensor, ...], params: Any) -> Any:
        evaluate = getattr(primitive, "evaluate", None)
        if (
            evaluate is not None
        ):  # a call with a derivative of its own: its steps are captured, its rule stays on the tape
            before = _kernels.set_grad_mode(False)
            try:
                return tuple([o.detach() for o in evaluate(inputs)])
            finally:
                _kernels.set_grad_mode(before)
        graph: Graph = main.graph
        numbers = tuple(main.number(x) for x in inputs)
        specs = primitive.shape(inputs, params)
        single = not isinstance(specs, tuple)
        made = tuple(graph.value(s) for s in ((specs,) if single else specs))
        graph.steps.append(Step(primitive, numbers, made, params))
        outs = tuple(cls.like(main, v) for v in made)
        return outs[0] if single else outs


def trace(
    fn: Callable[..., Any], flat: list[Any], treedef: TreeDef, name: str
) -> tuple[Graph, TreeDef, list[Any], list[Stream]]:
    """The graph of fn on tensors like those among `flat`, the tree of its result, the result's leaves, the streams.

    A leaf of the result is the number of a value, wrapped in a tuple, or anything else that fn returned. For each of
    the streams, which are those that fn took keys from, the graph has one more input: the key's seed.
    """
    main = _Recorder(name)
    with main.running(), capturing(main):
        args: list[Any] = []
        for x in flat:
            if isinstance(x, _kernels.Tensor):
                v = main.graph.value(Spec(x.shape, x.dtype, x.device))
                main.graph.inputs.append(v)
                args.append(GraphTracer.like(main, v))
            else:
                args.append(x)
        positional, keyword = tree_unflatten(treedef, args)
        leaves, out_tree = tree_flatten(fn(*positional, **keyword))
        result: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, _kernels.Tensor):
                v = main.number(leaf)
                main.graph.outputs.append(v)
                result.append((v,))
            else:
                result.append(leaf)
    return main.graph, out_tree, result, main.streams


class _Variant:
    """What one set of shapes and types became: its plans, fastest first, and the one that is used."""

    __slots__ = ("_bound", "_lock", "_plans", "_tried", "graph", "machine", "out_tree", "plan", "result", "streams")

    def __init__(
        self, graph: Graph, out_tree: TreeDef, result: list[Any], streams: list[Stream], bound: int | None
    ) -> None:
        self._bound = bound
        self._plans = [(graph, plan_graph(graph))]
        self._tried: int | None = None  # bytes for which no plan was found
        self._lock = threading.Lock()
        self.out_tree = out_tree
        self.result = result
        self.streams = streams
        self._use(*self._plans[0])
        if bound is not None:
            self._use(*self._fitting(bound, 0, bound))

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        with self._lock:
            room, budget = _room()
            if budget is not None or self.plan is not self._plans[0][1]:
                self._choose(room, budget)
            machine = self.machine
        return machine.run([*tensors, *fed(self.streams)] if self.streams else tensors)

    def _use(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.machine = Machine(graph, plan)

    def _choose(self, room: int | None, budget: Any) -> None:
        """Takes the fastest plan that fits into the active budgets and the bound."""
        if room is not None and self.plan.peak_bytes - self.machine.held_bytes > room and self.machine.held_bytes:
            self._use(self.graph, self.plan)  # gives its arena back
            room, budget = _room()
        have = self.machine.held_bytes
        limit = min((n for n in (None if room is None else room + have, self._bound) if n is not None), default=None)
        if limit is None:
            chosen = self._plans[0]
        elif budget is None:
            chosen = self._fitting(limit, 0, limit)
        else:
            chosen = self._fitting(limit, budget.used_bytes - have, budget.max_bytes)
        if chosen[1] is not self.plan:
            self._use(*chosen)

    def _fitting(self, limit: int, in_use: int, of: int) -> tuple[Graph, Plan]:
        for graph, plan in self._plans:
            if plan.peak_bytes <= limit:
                return graph, plan
        if self._tried is None or limit < self._tried:
            graph = renumbered(recomputed(self._plans[0][0], limit))
            plan = plan_graph(graph)
            if plan.peak_bytes < self._plans[-1][1].peak_bytes:
                graph.verify()
                self._plans.append((graph, plan))
            if plan.peak_bytes > limit:
                self._tried = limit
        graph, plan = self._plans[-1]
        plan.require(in_use, of)
        return graph, plan


def _room() -> tuple[int | None, Any]:
    """The bytes that the active budgets leave, and the budget that leaves the fewest."""
    budgets = _kernels.active_budgets.get(())
    if not budgets:
        return None, None
    least = min(budgets, key=lambda b: b.max_bytes - b.used_bytes)
    return least.max_bytes - least.used_bytes, least


class Captured:
    """A function that runs as a graph; made by `capture`. Called as the function itself."""

    def __init__(self, fn: Callable[..., Any], *, fusion: bool = True, max_bytes: int | None = None) -> None:
        if max_bytes is not None and (isinstance(max_bytes, bool) or not isinstance(max_bytes, int)):
            raise TypeError(f"capture: max_bytes must be an int, got {type(max_bytes).__name__}")
        if max_bytes is not None and max_bytes < 0:
            raise ValueError(f"capture: max_bytes must not be negative, got {max_bytes}")
        self._fn = fn
        self._fusion = fusion
        self._max_bytes = max_bytes
        self._variants: dict[Any, _Variant] = {}
        self.__name__ = getattr(fn, "__name__", "function")
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        variant, tensors = self._variant(args, kwargs)
        outs = iter(variant.run(tensors))
        leaves = [next(outs) if isinstance(r, tuple) else r for r in variant.result]
        return tree_unflatten(variant.out_tree, leaves)

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for arguments like these."""
        return self._variant(args, kwargs)[0].graph

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """The plan for arguments like these; without arguments, of the only variant there is.

        Raises ValueError where there is none yet, or more than one.
        """
        if args or kwargs:
            return self._variant(args, kwargs)[0].plan
        if len(self._variants) != 1:
            raise ValueError(
                f"capture of {self.__name__}: it has {len(self._variants)} plans, one for each set of shapes "
                f"(hint: plan(*args))"
            )
        return next(iter(self._variants.values())).plan

    def hash(self, *args: Any, **kwargs: Any) -> str:
        """The hash of the graph for arguments like these."""
        return self.graph(*args, **kwargs).hash()

    def _variant(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Variant, list[Tensor]]:
        flat, treedef = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, _kernels.Tensor)]
        key = (treedef, tuple(_kind(x, self.__name__) for x in flat))
        found = self._variants.get(key)
        if found is None:
            graph, out_tree, result, streams = trace(self._fn, flat, treedef, self.__name__)
            graph.verify()
            graph = with_copies(canonical(graph))
            if self._fusion:
                graph = fuse(graph)
            graph = renumbered(graph)
            graph.verify()
            found = self._variants[key] = _Variant(graph, out_tree, result, streams, self._max_bytes)
        return found, tensors


def _kind(x: Any, name: str) -> Any:
    if isinstance(x, _kernels.Tensor):
        if x.is_traced:
            raise TraceError(f"capture of {name}: an argument is traced (hint: capture the outermost function)")
        if x.requires_grad:
            raise TraceError(
                f"capture of {name}: an argument requires gradients, and a captured function has no tape "
                f"(hint: take value_and_grad inside it, and pass .detach())"
            )
        return (x.shape, x.dtype.name, str(x.device))
    try:
        hash(x)
    except TypeError:
        raise TypeError(f"capture of {name}: arguments must be tensors or hashable, got {type(x).__name__}") from None
    return (type(x), x, repr(x) if isinstance(x, float | complex) else "")  # 0.0 and -0.0 are equal


def capture(fn: Callable[..., Any], *, fusion: bool = True, max_bytes: int | None = None) -> Captured:
    """fn as a graph: fused, planned once for each set of shapes and types, and run without an allocation a step.

    Tensors among the arguments come anew with each call; everything else in them belongs to the graph and must be
    hashable. Tensors that fn finds outside its arguments are read where they lie at each run; what fn computes from
    them alone is computed once, and Python's own effects (print, lists, attributes) happen once, while it is captured.
    Results equal those of fn itself bit for bit.

    A run takes the plan's `peak_bytes`: arena, results, workspace. Where that is more than `max_bytes` or than an
    active budget leaves, the plan drops values and computes them again before they are read again, cheap ones first.

    Raises TraceError where fn needs a value (Python's `if`, `float`), calls `backward`, or is given tensors that
    require gradients; BudgetExceeded, before anything runs, where no plan fits.

    >>> import tensor as tn
    >>> f = tn.capture(lambda x, y: tn.tanh(x * y + x) * 0.5 + y)
    >>> f(tn.asarray([1.0, 2.0]), tn.asarray([0.5, -1.0])).tolist()
    [0.9525741338729858, -1.0]
    >>> f.plan().peak_bytes
    8
    """
    return Captured(fn, fusion=fusion, max_bytes=max_bytes)
