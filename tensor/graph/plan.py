"""The plan of a graph: which buffer each value has, where it lies in the arena, and how much memory a run takes.

Values that look at the same memory form one buffer. A buffer lives from the step that makes it to the last one that
reads it. Buffers that are alive at the same time get different places: largest first at the lowest offset that is free
over its life, or in the order of time; the smaller arena is kept. An elementwise step may write over an input of the
same size that nobody reads later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensor.errors import BudgetExceeded
from tensor.graph.graph import Graph, Step
from tensor.primitives.spec import total_bytes

__all__ = ["ALIGNMENT", "Buffer", "Plan", "plan_graph"]

ALIGNMENT = 64  # bytes


@dataclass(slots=True)
class Buffer:
    """Memory of one or more values. `offset` is its place in the arena, −1 for what has memory of its own."""

    kind: str  # "temporary", "output", "input" or "constant"
    value: int  # the first value that has it
    nbytes: int
    first: int  # the step that makes it
    last: int  # the last step that reads it
    offset: int = -1
    name: str = ""

    @property
    def room(self) -> int:
        """Its bytes, rounded up to the alignment."""
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(slots=True)
class Plan:
    """Where everything lies, in bytes."""

    name: str
    buffers: list[Buffer]  # all but inputs and constants in the order of their steps
    buffer_of: list[int]  # value → buffer; −1 for inputs, constants and what looks at them
    arena_bytes: int  # all temporaries
    output_bytes: int
    workspace_bytes: list[int] = field(default_factory=list)  # of each step
    lower_bound_bytes: int = 0  # the most that is alive at once: no order of places can do with less
    steps: list[str] = field(default_factory=list)

    @property
    def peak_bytes(self) -> int:
        """What a run takes at most: the arena, its results, the largest workspace of a step."""
        return self.arena_bytes + self.output_bytes + max(self.workspace_bytes, default=0)

    def live(self, step: int) -> list[Buffer]:
        """The buffers that hold something while a step runs, largest first."""
        alive = [b for b in self.buffers if b.first <= step <= b.last or b.kind == "output"]
        return sorted(alive, key=lambda b: (-b.nbytes, b.value))

    def peak_step(self) -> int:
        """The step at which most bytes are alive."""
        return max(range(len(self.steps)), key=lambda s: (sum(b.room for b in self.live(s)), -s), default=0)

    def table(self) -> list[dict[str, Any]]:
        """One row a step: its name, the bytes alive while it runs, its workspace."""
        return [
            {"step": s, "name": n, "live_bytes": sum(b.nbytes for b in self.live(s)), "workspace_bytes": w}
            for s, (n, w) in enumerate(zip(self.steps, self.workspace_bytes, strict=True))
        ]

    def require(self, in_use: int, limit: int) -> None:
        """Raises BudgetExceeded that names the largest tensors if a run does not fit beside what is in use."""
        if self.peak_bytes <= limit - in_use:
            return
        largest = self.live(self.peak_step())[:3]
        named = ", ".join(f"{b.name} {_mb(b.nbytes)}" for b in largest)
        text = f"{self.name}: needs {_mb(self.peak_bytes)} of {_mb(limit)}; largest: {named}"
        first = largest[0] if largest else None
        raise BudgetExceeded(
            self.peak_bytes, in_use, limit, first.nbytes if first else 0, text, first.name if first else ""
        )


def _mb(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f} MB" if nbytes >= 1 << 19 else f"{nbytes} bytes"


def plan_graph(graph: Graph) -> Plan:
    """The plan of a graph. It is a function of the graph alone."""
    buffers: list[Buffer] = []
    buffer_of = [-1] * len(graph.specs)
    results = set(graph.outputs)
    last_read = _last_reads(graph)
    whole: set[int] = set()  # values that fill their buffer in C order
    for at, step in enumerate(graph.steps):
        if step.is_view:
            buffer_of[step.outputs[0]] = buffer_of[step.inputs[0]]
            continue
        if step.changes:
            for v, place in zip(step.outputs, step.primitive.in_place, strict=True):
                buffer_of[v] = buffer_of[step.inputs[place]]
            continue
        for v in step.outputs:
            taken = _taken_over(graph, step, at, v, buffer_of, whole, last_read)
            whole.add(v)
            if taken >= 0:
                buffer_of[v] = taken
                continue
            spec = graph.specs[v]
            name = f"%{v} {step.primitive.name} {spec!r}"
            buffer_of[v] = len(buffers)
            buffers.append(Buffer("temporary", v, total_bytes((spec,)), at, at, name=name))
    for v, b in enumerate(buffer_of):
        if b >= 0:
            buffers[b].last = max(buffers[b].last, last_read.get(v, -1))
    for v in results:
        if buffer_of[v] >= 0:
            buffers[buffer_of[v]].kind = "output"
    temporary = [b for b in buffers if b.kind == "temporary" and b.nbytes]
    arena = _place(temporary)
    plan = Plan(
        graph.name,
        buffers,
        buffer_of,
        arena,
        sum(b.nbytes for b in buffers if b.kind == "output"),
        [_workspace(graph, s) for s in graph.steps],
        steps=[s.primitive.name for s in graph.steps],
    )
    plan.lower_bound_bytes = max(
        (sum(b.room for b in temporary if b.first <= s <= b.last) for s in range(len(graph.steps))), default=0
    )
    return plan


def _last_reads(graph: Graph) -> dict[int, int]:
    last: dict[int, int] = {}
    for at, step in enumerate(graph.steps):
        for v in step.inputs:
            last[v] = at
    return last


def _workspace(graph: Graph, step: Step) -> int:
    rule = getattr(step.primitive, "workspace", None)
    return 0 if rule is None else int(rule(tuple(graph.specs[v] for v in step.inputs), step.params))


def _taken_over(
    graph: Graph, step: Step, at: int, v: int, buffer_of: list[int], whole: set[int], last_read: dict[int, int]
) -> int:
    """The buffer of an input that the step may write its result v over, or −1.

    An elementwise step reads each element before it writes it, so the input must have the result's shape and bytes,
    fill its buffer in C order, and nobody else may look at the buffer now or later.
    """
    if step.primitive.op < 0 or v in graph.outputs:
        return -1
    spec = graph.specs[v]
    for u in step.inputs:
        b = buffer_of[u]
        if b < 0 or u not in whole or graph.specs[u].shape != spec.shape:
            continue
        if total_bytes((graph.specs[u],)) != total_bytes((spec,)):
            continue
        others = [w for w, c in enumerate(buffer_of) if c == b and w != u]
        if last_read.get(u, at) > at or any(last_read.get(w, -1) >= at for w in others):
            continue
        if any(w in graph.outputs for w in (u, *others)):
            continue
        return b
    return -1


def _place(buffers: list[Buffer]) -> int:
    """Gives each buffer its offset; the bytes of the arena."""
    by_size = sorted(buffers, key=lambda b: (-b.room, b.first, b.value))
    by_time = sorted(buffers, key=lambda b: (b.first, -b.room, b.value))
    best: tuple[int, list[int]] | None = None
    for order in (by_size, by_time):
        total = _first_free(order)
        if best is None or total < best[0]:
            best = (total, [b.offset for b in buffers])
    if best is None:
        return 0
    for b, offset in zip(buffers, best[1], strict=True):
        b.offset = offset
    return best[0]


def _first_free(order: list[Buffer]) -> int:
    placed: list[Buffer] = []
    total = 0
    for b in order:
        busy = sorted((p.offset, p.offset + p.room) for p in placed if p.first <= b.last and b.first <= p.last)
        at = 0
        for start, end in busy:
            if start - at >= b.room:
                break
            at = max(at, end)
        b.offset = at
        placed.append(b)
        total = max(total, at + b.room)
    return total
