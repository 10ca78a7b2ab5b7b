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
from tensor.graph.body import BodyRow
from tensor.graph.graph import Graph, Step
from tensor.primitives.spec import total_bytes

__all__ = ["ALIGNMENT", "Buffer", "Plan", "live_bytes", "overwritten", "plan_buffers", "plan_graph"]

ALIGNMENT = 64  # bytes

_LINES = ("softmax", "softmax_backward", "log_softmax", "log_softmax_backward")


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
    again: list[bool] = field(default_factory=list)  # the steps that make a second time what was dropped

    rooms: dict[int, int] = field(default_factory=dict)  # step with bodies → the buffer that it works in

    def room_at(self, step: int) -> int:
        """Where in the arena a step with bodies works."""
        return self.buffers[self.rooms[step]].offset if step in self.rooms else 0

    @property
    def recomputed(self) -> list[str]:
        """The names of the steps that run a second time so that less is alive."""
        return [name for name, again in zip(self.steps, self.again, strict=True) if again]

    @property
    def peak_bytes(self) -> int:
        """What a run takes at most: the arena, its results, the largest workspace of a step."""
        return self.arena_bytes + self.output_bytes + self.workspace_bytes_most

    @property
    def workspace_bytes_most(self) -> int:
        """What the step with the largest workspace takes beside the arena."""
        return max(self.workspace_bytes, default=0)

    def live(self, step: int) -> list[Buffer]:
        """The buffers that hold something while a step runs, largest first."""
        alive = [b for b in self.buffers if b.first <= step <= b.last or b.kind == "output"]
        return sorted(alive, key=lambda b: (-b.nbytes, b.value))

    def peak_step(self) -> int:
        """The step at which most bytes are alive."""
        return max(range(len(self.steps)), key=lambda s: (sum(b.room for b in self.live(s)), -s), default=0)

    def table(self) -> list[dict[str, Any]]:
        """One row a step: its name, the bytes alive while it runs, its workspace, whether it runs a second time."""
        rows = zip(self.steps, self.workspace_bytes, self.again, strict=True)
        return [
            {"step": s, "name": n, "live_bytes": sum(b.nbytes for b in self.live(s)), "workspace_bytes": w, "again": a}
            for s, (n, w, a) in enumerate(rows)
        ]

    def require(self, in_use: int, limit: int) -> None:
        """Raises BudgetExceeded that names the largest tensors if a run does not fit beside what is in use."""
        if self.peak_bytes <= limit - in_use:
            return
        largest = self.live(self.peak_step())[:3]
        named = ", ".join(f"{b.name} {_mb(b.nbytes)}" for b in largest)
        text = f"{self.name}: needs {_mb(self.peak_bytes)} of {_mb(limit)}; largest: {named}"
        if self.recomputed:
            text += f"; this is with {len(self.recomputed)} steps run a second time"
        first = largest[0] if largest else None
        raise BudgetExceeded(
            self.peak_bytes, in_use, limit, first.nbytes if first else 0, text, first.name if first else ""
        )


def _mb(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f} MB" if nbytes >= 1 << 19 else f"{nbytes} bytes"


def plan_graph(graph: Graph) -> Plan:
    """The plan of a graph. It is a function of the graph and of what the kernels here work in."""
    from tensor.graph.workspace import workspaces

    plan = plan_buffers(graph)
    plan.workspace_bytes = workspaces(graph)
    plan.arena_bytes = _place([b for b in plan.buffers if b.kind == "temporary" and b.nbytes])
    plan.lower_bound_bytes = max(live_bytes(plan), default=0)
    return plan


def plan_buffers(graph: Graph) -> Plan:
    """The plan of a graph without places and workspaces: who shares memory with whom, and how long it lives."""
    buffers: list[Buffer] = []
    buffer_of = [-1] * len(graph.specs)
    values: list[list[int]] = []  # of each buffer
    results = _with_bases(graph)
    last_read = _last_reads(graph)
    whole: set[int] = set()  # values that fill their buffer in C order
    rooms: dict[int, int] = {}
    for at, step in enumerate(graph.steps):
        if step.is_view or step.changes:
            places = (0,) if step.is_view else step.primitive.in_place
            for v, place in zip(step.outputs, places, strict=True):
                b = buffer_of[v] = buffer_of[step.inputs[place]]
                if b >= 0:
                    values[b].append(v)
            continue
        fresh: list[int] = []
        for k, v in enumerate(step.outputs):
            b = _taken_over(graph, step, at, k, buffer_of, values, whole, last_read, results, fresh)
            whole.add(v)
            if b < 0:
                b = len(buffers)
                spec = graph.specs[v]
                name = f"%{v} {step.primitive.name} {spec!r}"
                buffers.append(Buffer("temporary", v, total_bytes((spec,)), at, at, name=name))
                values.append([])
            fresh.append(b)
            buffer_of[v] = b
            values[b].append(v)
        need = step.primitive.room(step.params) if isinstance(step.primitive, BodyRow) else 0
        if need:
            rooms[at] = len(buffers)
            buffers.append(Buffer("temporary", -1, need, at, at, name=f"what {step.primitive.name} works in"))
            values.append([])
    for b, held in enumerate(values):
        buffers[b].last = max(buffers[b].last, *(last_read.get(v, -1) for v in held), -1)
        if not results.isdisjoint(held):
            buffers[b].kind = "output"
    return Plan(
        graph.name,
        buffers,
        buffer_of,
        0,
        sum(b.nbytes for b in buffers if b.kind == "output"),
        [0] * len(graph.steps),
        steps=[s.primitive.name for s in graph.steps],
        again=[s.again and not s.is_view for s in graph.steps],
        rooms=rooms,
    )


def live_bytes(plan: Plan) -> list[int]:
    """The bytes of temporaries that are alive at each step."""
    change = [0] * (len(plan.steps) + 1)
    for b in plan.buffers:
        if b.kind == "temporary":
            change[b.first] += b.room
            change[b.last + 1] -= b.room
    total, live = 0, []
    for c in change[:-1]:
        total += c
        live.append(total)
    return live


def _with_bases(graph: Graph) -> set[int]:
    """The results, and the values at whose memory they look."""
    found = set(graph.outputs)
    for step in reversed(graph.steps):
        places = (0,) if step.is_view else step.primitive.in_place
        found.update(step.inputs[place] for v, place in zip(step.outputs, places, strict=False) if v in found)
    return found


def _last_reads(graph: Graph) -> dict[int, int]:
    last: dict[int, int] = {}
    for at, step in enumerate(graph.steps):
        for v in step.inputs:
            last[v] = at
    return last


def overwritten(graph: Graph, step: Step, k: int) -> tuple[int, ...]:
    """The inputs over which the step may write its result k: it reads each element before it writes that place."""
    if step.primitive.op >= 0:
        return step.inputs
    params = step.params
    if step.row == "fused":
        program = params["program"]
        return tuple([step.inputs[j] for j in program.overwrites(k)])
    if isinstance(step.primitive, BodyRow):
        once = [step.inputs[j] for j in step.primitive.overwrites(params, k)]
        return tuple([v for v in once if step.inputs.count(v) == 1])
    if step.row in _LINES:  # a line is read before it is written, if no copy of another type lies between
        spec = graph.specs[step.outputs[0]]
        if params["axis"] == len(spec.shape) - 1 and spec.dtype.name in ("float32", "float64"):
            return step.inputs
    return ()


def _taken_over(
    graph: Graph,
    step: Step,
    at: int,
    k: int,
    buffer_of: list[int],
    values: list[list[int]],
    whole: set[int],
    last_read: dict[int, int],
    results: set[int],
    fresh: list[int],
) -> int:
    """The buffer of an input that the step may write its result k over, or −1.

    The input must have the result's shape and bytes and fill its buffer in C order, and nobody else may look at the
    buffer now or later.
    """
    v = step.outputs[k]
    if v in results:
        return -1
    spec = graph.specs[v]
    for u in overwritten(graph, step, k):
        b = buffer_of[u]
        if b < 0 or b in fresh or u not in whole or graph.specs[u].shape != spec.shape:
            continue
        if total_bytes((graph.specs[u],)) != total_bytes((spec,)):
            continue
        if last_read.get(u, at) > at or u in results:
            continue
        if any(w != u and (last_read.get(w, -1) >= at or w in results) for w in values[b]):
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
