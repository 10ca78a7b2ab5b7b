"""Capture: a function runs once on tracers, and its steps become a graph for these shapes and types."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from tensor import _kernels
from tensor.autograd.pytree import TreeDef, tree_flatten, tree_unflatten
from tensor.autograd.trace import Main, Tracer
from tensor.errors import TraceError
from tensor.graph.canonical import canonical
from tensor.graph.graph import Graph, Step
from tensor.graph.layout import with_copies
from tensor.graph.plan import Plan
from tensor.graph.variant import Variant
from tensor.primitives.spec import Spec
from tensor.random_stream import Stream, capturing

__all__ = ["Captured", "GraphTracer", "Recorder", "capture", "trace"]

Tensor = Any


class Recorder(Main):
    """A capture that is going on: the graph, and which tensors from outside it has met."""

    __slots__ = ("__weakref__", "graph", "known", "streams")

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
            if self.foreign(x):
                raise TraceError(
                    f"{self.name}: {x!r} comes from another transformation (hint: capture the outermost function)"
                )
            found = self.graph.value(Spec(x.shape, x.dtype, x.device))
            self.graph.constants[found] = x
            self.known[id(x)] = found
        return found

    def foreign(self, x: Tensor) -> bool:
        """Whether a tensor from outside can be no part of this graph."""
        return bool(x.is_traced)

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
        cls, main: Recorder, value: int
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
    main = Recorder(name)
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
        self._variants: dict[Any, Variant] = {}
        self.__name__ = getattr(fn, "__name__", "function")
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        variant, tensors = self._variant(args, kwargs)
        if _kernels.checked_mode():  # step by step, so that each result is looked at
            return self._fn(*args, **kwargs)
        outs = iter(variant.run(tensors))
        leaves = [next(outs) if isinstance(r, tuple) else r for r in variant.result]
        return tree_unflatten(variant.out_tree, leaves)

    def __repr__(self) -> str:
        return f"<capture of {self.__name__}: {len(self._variants)} graphs>"

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

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call."""
        return self(*args, **kwargs)

    def hash(self, *args: Any, **kwargs: Any) -> str:
        """BLAKE3, in hex, of the graph for arguments like these before its steps are fused, and of its constants.

        Raises ValueError for a step whose params have no text of their own, such as a function.
        """
        return self._variant(args, kwargs)[0].source.hash()

    def save(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Writes the graph for arguments like these, with the constants as they are now; `tensor.graph.load` reads it.

        Raises ValueError for what the format has no text for: steps of a user's own, trees of other containers, other
        devices; DtypeError for constants of complex128; OSError.
        """
        from tensor.graph.files import save_variant

        flat, treedef = tree_flatten((args, kwargs))
        save_variant(path, self._variant(args, kwargs)[0], flat, treedef)

    def _variant(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Variant, list[Tensor]]:
        flat, treedef = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, _kernels.Tensor)]
        key = (treedef, tuple(_kind(x, self.__name__) for x in flat))
        found = self._variants.get(key)
        if found is None:
            graph, out_tree, result, streams = trace(self._fn, flat, treedef, self.__name__)
            graph.verify()
            graph = with_copies(canonical(graph))
            found = self._variants[key] = Variant(graph, out_tree, result, self._max_bytes, self._fusion, streams)
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
        hint = " (hint: tensor.asarray)" if hasattr(x, "__array__") or hasattr(x, "__dlpack__") else ""
        raise TypeError(
            f"capture of {name}: arguments must be tensors or hashable, got {type(x).__name__}{hint}"
        ) from None
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
