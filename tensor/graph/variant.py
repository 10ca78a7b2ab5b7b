"""One graph with its plans: run by the fastest that fits into the memory there is."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.autograd.pytree import TreeDef
from tensor.graph.blocks import with_blocks
from tensor.graph.canonical import needed, renumbered
from tensor.graph.control import with_bodies
from tensor.graph.convolutions import with_convolutions
from tensor.graph.epilogues import with_products
from tensor.graph.fusion import fuse
from tensor.graph.graph import Graph
from tensor.graph.machine import Machine
from tensor.graph.plan import Plan, plan_graph
from tensor.graph.recognise import with_softmax
from tensor.graph.recompute import recomputed
from tensor.locks import lock_of
from tensor.random_stream import Stream, fed

__all__ = ["Variant"]

Tensor = Any


class Variant:
    """What one set of shapes and types became: its plans, fastest first, and the one that is used.

    `source` is the graph before its steps are fused: what is saved and hashed.
    """

    __slots__ = (
        "__weakref__",
        "_bound",
        "_chains",
        "_fusion",
        "_lock",
        "_plans",
        "_tried",
        "graph",
        "machine",
        "out_tree",
        "plan",
        "result",
        "source",
        "streams",
    )

    def __init__(
        self,
        graph: Graph,
        out_tree: TreeDef,
        result: list[Any],
        bound: int | None,
        fusion: bool,
        streams: list[Stream] | None = None,
    ) -> None:
        self._bound = bound
        self._fusion = fusion
        self.source = renumbered(graph)
        # products apart from what follows them: a chain alone is cheap to run again
        self._chains = _fused(graph) if fusion else graph
        self._plans = [self._finished(self._chains)]
        self._tried: int | None = None  # bytes for which no plan was found
        self._lock = lock_of(self)
        self.out_tree = out_tree
        self.result = result
        self.streams = streams or []  # their counters are the inputs after those among the arguments
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

    def _finished(self, graph: Graph, limit: int | None = None) -> tuple[Graph, Plan]:
        """The graph with products and chains joined, unless only apart they fit, and its plan."""
        if self._fusion:
            joined = renumbered(with_products(with_blocks(graph)))
            plan = plan_graph(joined)
            if limit is None or plan.peak_bytes <= limit:
                joined.verify()
                return joined, plan
        graph = renumbered(graph)
        graph.verify()
        return graph, plan_graph(graph)

    def _fitting(self, limit: int, in_use: int, of: int) -> tuple[Graph, Plan]:
        for graph, plan in self._plans:
            if plan.peak_bytes <= limit:
                return graph, plan
        if self._tried is None or limit < self._tried:
            graph, plan = self._finished(recomputed(self._chains, limit), limit)
            if plan.peak_bytes < self._plans[-1][1].peak_bytes:
                self._plans.append((graph, plan))
            if plan.peak_bytes > limit:
                self._tried = limit
        graph, plan = self._plans[-1]
        plan.require(in_use, of)
        return graph, plan


def _fused(graph: Graph, body: bool = False) -> Graph:
    """The graph with its chains fused, and those of its bodies."""
    inside = with_bodies(graph, lambda inner: renumbered(_fused(inner, True)))
    return fuse(needed(with_softmax(with_convolutions(inside))), body)


def _room() -> tuple[int | None, Any]:
    """The bytes that the active budgets leave, and the budget that leaves the fewest."""
    budgets = _kernels.active_budgets.get(())
    if not budgets:
        return None, None
    least = min(budgets, key=lambda b: b.max_bytes - b.used_bytes)
    return least.max_bytes - least.used_bytes, least
