"""Steps that run a graph of their own, once or many times, in a part of the arena."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensor.graph.graph import Graph
from tensor.primitives.spec import Spec

if TYPE_CHECKING:
    from tensor.graph.plan import Plan

__all__ = ["Body", "BodyRow"]


class Body:
    """A graph without constants, and its plan. Its text is that of its lines."""

    __slots__ = ("graph", "plan")

    def __init__(self, graph: Graph) -> None:
        if graph.constants:
            raise ValueError(f"{graph.name}: a body has no constants, it reads them as inputs")
        own = {v for s in graph.steps if not s.is_view and not s.changes for v in s.outputs}
        if len(set(graph.outputs)) != len(graph.outputs) or not own.issuperset(graph.outputs):
            raise ValueError(f"{graph.name}: each result of a body is made by a step, in memory of its own")
        self.graph = graph
        from tensor.graph.plan import plan_graph

        self.plan: Plan = plan_graph(graph)

    @property
    def arena_bytes(self) -> int:
        """What it works in beside its inputs and results."""
        return self.plan.arena_bytes

    def __repr__(self) -> str:
        return "{" + "; ".join(self.graph.lines()) + "}"


class BodyRow:
    """What stands where a step has its row: it runs bodies. `room(params)` is the part of the arena that it needs."""

    op = -1
    op_name = None
    view = None
    kernel = None
    in_place: tuple[int, ...] = ()
    category = "body"

    def __init__(
        self,
        name: str,
        specs_of: Callable[[tuple[Any, ...], Any], tuple[Spec, ...]],
        room: Callable[[Any], int],
        cost: Callable[[Any, Any, Any], tuple[int, int]],
        prepare: Callable[[Any, Any, Any], Callable[[Any, Any], None]],
        overwrites: Callable[[Any, int], list[int]] = lambda params, k: [],
        members: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.specs_of = specs_of
        self.room = room
        self.cost = cost
        # (params, prepared(body, offset) → run(inputs, outs), memory(spec, offset)) → call(outs, inputs); offsets count
        # from where the step's part of the arena begins
        self.prepare = prepare
        self.members = members  # the names of its params, if it can be saved
        self.overwrites = overwrites  # (params, k) → the inputs in whose place result k may lie

    def __repr__(self) -> str:
        return f"<body row {self.name}>"
