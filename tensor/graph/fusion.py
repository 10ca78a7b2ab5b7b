"""Fusion: chains of elementwise steps, and a reduction at their end, become one step that passes over memory once.

The fused step runs each operation by the same loop as alone, so its bits are those of the steps one by one
(tensor/primitives/fused.py). A step joins the group of one of its inputs where no step outside the group lies between
them; a step that overwrites memory is never moved past, so groups lie between two of those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tensor import _kernels
from tensor.graph.graph import Graph, Step
from tensor.primitives.fused import FIRST_INPUT, FIRST_OUT, FUSED, Program
from tensor.primitives.registry import row
from tensor.primitives.spec import Spec

__all__ = ["as_program", "fuse", "ordered"]

_MEMBERS = 192  # of a group: a program has room for 256 steps
_NEAR = 8  # steps: a chain does not reach further back, or what it holds would live for long
_WHOLE, _WINDOW = 4096, 512  # steps: longer lists are fused window by window
_TEMPORARIES, _INPUTS, _OUTS = 8, 56, 8  # what a program has room for
_ENDS = {"sum": "sum", "mean": "sum", "max": "maximum", "min": "minimum"}


def fuse(graph: Graph, body: bool = False) -> Graph:
    """The graph with its elementwise chains fused. A body, which has no constants, gets none by that."""
    steps: list[Step] = []
    needed = _last_needs(graph)
    part: list[Step] = []
    for step in graph.steps:
        if not step.changes:
            part.append(step)
            continue
        steps += _fuse_part(graph, part, needed, body)
        steps.append(step)
        part = []
    steps += _fuse_part(graph, part, needed, body)
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, graph.outputs)


def _last_needs(graph: Graph) -> dict[int, list[Any]]:
    """Who reads each value: steps, and None for the graph's results."""
    needs: dict[int, list[Any]] = {}
    for step in graph.steps:
        for v in step.inputs:
            needs.setdefault(v, []).append(step)
    for v in graph.outputs:
        needs.setdefault(v, []).append(None)
    return needs


class _Waiting:
    """The groups that the values of a node depend on through a step outside of them, as bits."""

    __slots__ = ("waits",)

    def __init__(self, waits: int) -> None:
        self.waits = waits


class _Group(_Waiting):
    """Elementwise steps of one shape that become one step. `last` is the number of the step that joined last."""

    __slots__ = ("bits", "last", "steps")

    def __init__(self, step: Step, bits: int, number: int, waits: int) -> None:
        super().__init__(waits)
        self.steps = [step]
        self.bits = bits
        self.last = number


def _fusable(graph: Graph, step: Step) -> bool:
    return step.primitive.op >= 0 and len(step.outputs) == 1 and not step.is_view


def _fuse_part(graph: Graph, steps: list[Step], needs: dict[int, list[Any]], body: bool) -> list[Step]:
    nodes: list[Step | _Group] = []
    window = len(steps) if len(steps) <= _WHOLE else _WINDOW  # grouping looks at all pairs
    for first in range(0, len(steps), max(window, 1)):
        nodes += _grouped(graph, steps[first : first + window])
    out: list[Step] = []
    for node in ordered(nodes):
        out += [node] if isinstance(node, Step) else _compiled(graph, node.steps, needs)
    return _with_ends(graph, out, needs, body)


def _grouped(graph: Graph, steps: list[Step]) -> list[Step | _Group]:
    """Steps and groups, of which none depends on itself through others.

    Only groups that a step may still join are followed, so that the work for a step doesn't grow with the graph.
    """
    maker: dict[int, _Waiting] = {}  # value → the group that makes it, or what its step waits for
    nodes: dict[int, Step | _Group] = {}
    open_groups: list[_Group] = []
    waiting: dict[int, _Waiting] = {}  # those that wait for a group that is followed
    made = 0
    for number, step in enumerate(steps):
        open_groups = [g for g in open_groups if number - g.last <= _NEAR]
        followed = sum(g.bits for g in open_groups)
        sources = list({id(maker[u]): maker[u] for u in step.inputs if u in maker}.values())
        reached = 0
        for source in sources:
            reached |= source.waits & followed
        if not _fusable(graph, step):
            for source in sources:
                if isinstance(source, _Group):
                    reached |= source.bits & followed
            own = _Waiting(reached)
            if reached:
                waiting[id(own)] = own
            for v in step.outputs:
                maker[v] = own
            nodes[id(step)] = step
            continue
        v = step.outputs[0]
        home: _Group | None = None
        joined = False
        for group in sources:
            if not isinstance(group, _Group) or group is home or reached & group.bits:
                continue
            if number - group.last > _NEAR or not _same_shape(graph, group, v):
                continue
            if len(group.steps) + (1 if home is None else len(home.steps)) > _MEMBERS:
                continue
            if home is None:
                home = group
            elif not (home.waits & group.bits or group.waits & home.bits):
                home.steps += group.steps
                home.bits |= group.bits
                home.waits |= group.waits
                for s in group.steps:
                    maker[s.outputs[0]] = home
                open_groups.remove(group)
                del nodes[id(group)]
                joined = True
        for other in [maker[u] for u in step.inputs if u in maker]:
            if isinstance(other, _Group) and other is not home:
                reached |= other.bits & followed
        if home is None:
            home = _Group(step, 1 << made, number, reached)
            made += 1
            nodes[id(home)] = home
            open_groups.append(home)
        else:
            home.steps.append(step)
            home.last = number
            if joined or reached & ~home.waits:  # whoever waits for the group waits for that as well
                home.waits |= reached
                waiting = {k: w for k, w in waiting.items() if w.waits & followed}
                for w in waiting.values():
                    if w.waits & home.bits:
                        w.waits |= home.waits
        if home.waits:
            waiting[id(home)] = home
        maker[v] = home
    return list(nodes.values())


def _same_shape(graph: Graph, group: _Group, v: int) -> bool:
    return bool(graph.specs[group.steps[0].outputs[0]].shape == graph.specs[v].shape)


def ordered(nodes: list[Any]) -> list[Any]:
    """In an order in which each node follows those that it reads from: depth first, which keeps lives short."""
    maker: dict[int, int] = {}
    for at, node in enumerate(nodes):
        for step in [node] if isinstance(node, Step) else node.steps:
            for v in step.outputs:
                maker[v] = at
    done: set[int] = set()
    begun: set[int] = set()
    out: list[Step | _Group] = []
    for start in range(len(nodes)):
        stack = [(start, False)]
        while stack:
            at, ready = stack.pop()
            if at in done:
                continue
            if ready:
                done.add(at)
                out.append(nodes[at])
                continue
            assert at not in begun, "fusion: a group depends on itself"
            begun.add(at)
            stack.append((at, True))
            node = nodes[at]
            reads = {v for s in ([node] if isinstance(node, Step) else node.steps) for v in s.inputs}
            before = sorted({maker[v] for v in reads if v in maker} - {at}, reverse=True)
            stack += [(b, False) for b in before if b not in done]
    return out


def _compiled(graph: Graph, members: list[Step], needs: dict[int, list[Any]]) -> list[Step]:
    """The group as one step, or as several where a program has too little room for it."""
    if len(members) == 1:
        return members
    made = _program(graph, members, needs)
    if made is not None:
        return [made]
    half = len(members) // 2
    return [*_compiled(graph, members[:half], needs), *_compiled(graph, members[half:], needs)]


def _program(graph: Graph, members: list[Step], needs: dict[int, list[Any]]) -> Step | None:
    inside = {s.outputs[0] for s in members}
    own = set(map(id, members))
    reads: dict[int, int] = {}  # value → member that reads it last
    inputs: list[int] = []
    for at, s in enumerate(members):
        for v in s.inputs:
            reads[v] = at
            if v not in inside and v not in inputs:
                inputs.append(v)
    outs = [s.outputs[0] for s in members if any(id(r) not in own for r in needs.get(s.outputs[0], [None]))]
    if len(inputs) > _INPUTS or not 0 < len(outs) <= _OUTS:
        return None
    place = {v: FIRST_INPUT + i for i, v in enumerate(inputs)}
    free = list(range(_TEMPORARIES))[::-1]
    steps: list[tuple[str, int, tuple[int, ...], str]] = []
    for at, s in enumerate(members):
        v = s.outputs[0]
        operands = tuple(place[u] for u in s.inputs)
        for u in dict.fromkeys(s.inputs):  # an input's room may take the result: the loops allow it
            if u in inside and reads[u] == at and u in place:
                free.append(place[u])
        name = s.primitive.op_name
        assert name is not None
        dtype = graph.specs[v].dtype.name if name == "cast" else ""
        out = FIRST_OUT + outs.index(v) if v in outs else -1
        if out >= 0 and v not in reads:
            steps.append((name, out, operands, dtype))
            continue
        if not free:
            return None
        place[v] = free.pop()
        steps.append((name, place[v], operands, dtype))
        if out >= 0:
            steps.append(("copy", out, (place[v],), ""))
    types = tuple(graph.specs[v].dtype.name for v in inputs)
    program = Program(tuple(steps), types, tuple(graph.specs[v].dtype.name for v in outs))
    return Step(FUSED, tuple(inputs), tuple(outs), {"program": program}) if program.runs() else None


def _with_ends(graph: Graph, steps: Iterable[Step], needs: dict[int, list[Any]], body: bool) -> list[Step]:
    """A chain whose only result is read by a reduction alone takes that reduction in."""
    out: list[Step] = []
    at: dict[int, int] = {}  # value → where in `out` its step is
    for step in steps:
        ended = _ended(graph, step, out, at, needs, body)
        if ended is None:
            for v in step.outputs:
                at[v] = len(out)
            out.append(step)
            continue
        where, merged, after = ended
        out[where] = merged
        at[merged.outputs[0]] = where
        for s in after:
            at[s.outputs[0]] = len(out)
            out.append(s)
    return out


def _ended(
    graph: Graph, step: Step, out: list[Step], at: dict[int, int], needs: dict[int, list[Any]], body: bool
) -> tuple[int, Step, list[Step]] | None:
    """Where the chain is, the two as one step, and what is left to do: the division of a mean, the kept dimensions."""
    name = step.row
    if name not in _ENDS or len(step.inputs) != 1 or step.inputs[0] not in at or (body and name == "mean"):
        return None
    v, params = step.inputs[0], step.params or {}
    before = out[at[v]]
    if before.outputs != (v,) or len(needs[v]) != 1:
        return None
    spec, result = graph.specs[v], graph.specs[step.outputs[0]]
    rank = len(spec.shape)
    axes = params.get("axis") if params.get("axis") is not None else tuple(range(rank))
    count = math.prod(spec.shape[rank - len(axes or ()) :])
    if not count or not axes or tuple(axes) != tuple(range(rank - len(axes), rank)):
        return None
    if spec.dtype.name not in ("float32", "float64") or result.dtype.name != spec.dtype.name:
        return None
    found = as_program(graph, before)
    if found is None:
        return None
    program, inputs = found
    last = program.steps[-1]
    if program.end or last[1] != FIRST_OUT or any(FIRST_OUT in s[2] for s in program.steps):
        return None
    whole = (*program.steps[:-1], (last[0], 0, last[2], last[3]))
    merged = Program(whole, program.inputs, program.outs, _ENDS[name], len(axes))
    if not merged.runs():
        return None
    kept = spec.shape[: rank - len(axes)]
    after: list[Step] = []
    target = step.outputs[0]
    if params.get("keepdims"):
        flat = graph.value(Spec(kept, result.dtype, result.device))
        after.append(Step(row("reshape", "structural"), (flat,), (target,), {"shape": result.shape}))
        target = flat
    if name == "mean":
        total = graph.value(Spec(kept, result.dtype, result.device))
        divisor = graph.value(Spec((), result.dtype, result.device))
        graph.constants[divisor] = _kernels.asarray(float(count), result.dtype)
        after.insert(0, Step(row("div", "elementwise"), (total, divisor), (target,)))
        target = total
    return at[v], Step(FUSED, inputs, (target,), {"program": merged}), after


def as_program(graph: Graph, step: Step) -> tuple[Program, tuple[int, ...]] | None:
    """The program of a chain or of a single elementwise step, and what it reads; None for other steps."""
    if step.primitive is FUSED:
        return step.params["program"], step.inputs
    if not _fusable(graph, step):
        return None
    inputs = tuple(dict.fromkeys(step.inputs))
    operands = tuple(FIRST_INPUT + inputs.index(u) for u in step.inputs)
    name = step.primitive.op_name or ""
    made = graph.specs[step.outputs[0]].dtype.name
    types = tuple(graph.specs[u].dtype.name for u in inputs)
    return Program(((name, FIRST_OUT, operands, made if name == "cast" else ""),), types, (made,)), inputs
