"""Less memory for more work: values that live for long are dropped and computed again before they are read again.

The step at which most bytes are alive shows which values wait there for a later reader. Of those one is dropped: the
steps that make it run a second time right before that reader, from what is alive there. The one that frees most bytes
for the estimated time goes first, and each choice must lower the peak; so on until the graph fits, or nothing helps.
The steps are the same on the same values, so no bit changes. It is a function of the graph, of the limit, and of what
the kernels of this machine work in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensor.graph.graph import Graph, Step
from tensor.graph.plan import Plan, live_bytes, plan_buffers, plan_graph
from tensor.primitives.spec import total_bytes

__all__ = ["nanoseconds", "recomputed"]

_CHAIN = 48  # steps: no value is computed again by more
_TRIES = 12  # candidates of one peak that are tried before it is given up
_SMALL = 8  # an input this many times smaller than what it makes is kept rather than made again
_PRODUCTS = ("contraction", "convolution", "linear algebra")


def nanoseconds(graph: Graph, step: Step) -> float:
    """A rough time of a step, the same on every machine: what one core of a laptop does."""
    specs, outs = tuple(graph.specs[v] for v in step.inputs), tuple(graph.specs[v] for v in step.outputs)
    if step.is_view:
        return 0.0
    nbytes, flops = step.primitive.cost(specs, outs, step.params)
    return float(nbytes * 0.1 + flops * (0.025 if step.primitive.category in _PRODUCTS else 0.1))


@dataclass(slots=True)
class _State:
    """A graph, and what of it the search reads again and again."""

    graph: Graph
    origin: dict[int, int]  # a value that is made again → the first of its kind
    extra: float = 0.0  # nanoseconds of what is made again
    maker: dict[int, int] = field(default_factory=dict)  # value → its step
    base: dict[int, int] = field(default_factory=dict)  # value → the value whose memory it looks at
    reads: dict[int, list[int]] = field(default_factory=dict)  # such a value → steps that read it, through views too
    fixed: set[int] = field(default_factory=set)  # values whose memory a step overwrites
    results: set[int] = field(default_factory=set)  # values whose memory is a result's
    live: list[int] = field(default_factory=list)
    plan: Plan | None = None

    def prepare(self) -> _State:
        for v in (*self.graph.inputs, *self.graph.constants):
            self.base[v] = v
        for at, step in enumerate(self.graph.steps):
            for v in step.outputs:
                self.maker[v] = at
                self.base[v] = self.base[step.inputs[0]] if step.is_view else v
            for v in step.inputs:
                self.reads.setdefault(self.base[v], []).append(at)
            if step.changes:
                for i, v in zip(step.primitive.in_place, step.outputs, strict=True):
                    self.base[v] = self.base[step.inputs[i]]
                    self.fixed.add(self.base[v])
        self.results = {self.base[v] for v in self.graph.outputs}
        self.plan = plan_buffers(self.graph)
        self.live = live_bytes(self.plan)
        return self

    def rank(self) -> tuple[int, int]:
        """What must fall: the most bytes alive at once, then the number of steps with as many."""
        most = max(self.live, default=0)
        return most, self.live.count(most)

    def last(self, v: int) -> int:
        return self.reads[v][-1] if v in self.reads else self.maker.get(v, -1)

    def nbytes(self, v: int) -> int:
        return -(-total_bytes((self.graph.specs[v],)) // 64) * 64


def recomputed(graph: Graph, limit: int) -> Graph:
    """The graph with values made again, so that a run's arena, results and workspace take at most `limit` bytes.

    Where that cannot be reached it is the graph with the lowest peak that was found.
    """
    state = _State(graph, {}).prepare()
    workspace = plan_graph(graph).workspace_bytes_most  # the same steps run, some of them twice
    for _ in range(8 * len(graph.steps)):
        assert state.plan is not None
        rest = state.plan.output_bytes + workspace
        most = max(state.live, default=0)
        if most + rest <= limit and plan_graph(state.graph).peak_bytes <= limit:
            break
        better = _better(state)
        if better is None:
            break
        state = better
    return state.graph


def _better(state: _State) -> _State | None:
    """The state after one more choice, or None where none lowers the peak."""
    peak = state.live.index(max(state.live))
    found = []
    for v, reads in state.reads.items():
        made = state.maker.get(v, -1)
        if not 0 <= made < peak < reads[-1] or peak in reads or v in state.results or v in state.fixed:
            continue
        before = min(r for r in reads if r > peak)
        chain = _chain(state, v, before)
        if chain is None:
            continue
        steps, kept = chain
        time = sum(nanoseconds(state.graph, state.graph.steps[s]) for s in steps)
        gain = state.nbytes(v) - kept
        if gain > 0:
            found.append((-gain / (time + 1000.0), v, before, steps, time))
    found.sort(key=lambda c: c[:2])
    now = state.rank()
    for _, _, before, steps, time in found[:_TRIES]:
        for merge in (True, False):
            after = _again(state, before, steps, time, merge)
            if after.rank() < now:
                return after
    return None


def _chain(state: _State, v: int, before: int) -> tuple[list[int], int] | None:
    """The steps that make v from what is alive at a step, in their order, and the bytes that live longer for it."""
    needed: set[int] = set()
    kept: dict[int, int] = {}
    todo = [v]
    while todo:
        at = state.maker[todo.pop()]
        if at in needed:
            continue
        needed.add(at)
        if len(needed) > _CHAIN or state.graph.steps[at].changes:
            return None
        for u in state.graph.steps[at].inputs:
            b = state.base[u]
            if b in state.fixed:
                return None
            if state.maker.get(b, -1) < 0 or b in state.results or state.last(b) >= before:
                continue
            if state.nbytes(b) * _SMALL <= state.nbytes(v):
                kept[b] = state.nbytes(b)
            else:
                todo.append(b)
    return sorted(needed), sum(kept.values())


def _again(state: _State, before: int, chain: list[int], time: float, merge: bool) -> _State:
    """The state with the steps of a chain run a second time before a step, and later readers on their results.

    With `merge`, a step behind that makes one of those a further time is left out.
    """
    old = state.graph
    graph = Graph(old.name, list(old.specs), old.inputs, old.constants, [], old.outputs)
    origin = dict(state.origin)
    new: dict[int, int] = {}  # value → what stands for it from here on
    of_first: dict[int, int] = {}  # the first of its kind → what stands for all of the kind

    def looked_at(v: int, made: list[Step]) -> int:
        """v among what was made again: views of it are taken anew."""
        if v in new:
            return new[v]
        base = state.base[v]
        if base == v or base not in new:
            return v
        step = old.steps[state.maker[v]]
        source = looked_at(step.inputs[0], made)
        number = graph.value(old.specs[v])
        made.append(Step(step.primitive, (source, *step.inputs[1:]), (number,), step.params, again=True))
        new[v] = number
        return number

    graph.steps += old.steps[:before]
    for at in chain:
        step = old.steps[at]
        made: list[Step] = []
        inputs = tuple([looked_at(v, made) for v in step.inputs])
        graph.steps += made
        outputs = tuple([graph.value(old.specs[v]) for v in step.outputs])
        graph.steps.append(Step(step.primitive, inputs, outputs, step.params, again=True))
        for v, w in zip(step.outputs, outputs, strict=True):
            new[v] = w
            origin[w] = origin.get(v, v)
            of_first[origin[w]] = w
    less = 0.0
    for at in range(before, len(old.steps)):
        step = old.steps[at]
        if merge and step.again and not step.is_view and all(origin.get(v, v) in of_first for v in step.outputs):
            for v in step.outputs:
                new[v] = of_first[origin.get(v, v)]
            less += nanoseconds(old, step)
            continue
        made = []
        inputs = tuple([looked_at(v, made) for v in step.inputs])
        graph.steps += made
        graph.steps.append(
            step if inputs == step.inputs else Step(step.primitive, inputs, step.outputs, step.params, step.again)
        )
    return _State(graph, origin, state.extra + time - less).prepare()
