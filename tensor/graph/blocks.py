"""Steps that do the same to each slice of their tensors run slice by slice: what they hand on stays in the cache.

Elementwise chains, reductions, softmax and norms along other dimensions, and views between them, form a group where
they agree on a dimension along which all of them can be cut. The group becomes one step: its body is a graph for one
block of that dimension, which runs for block after block. Each row gives the same bits for a part of its input as for
the whole, so the results do; what is made and read inside takes the memory of one block.
"""

from __future__ import annotations

import math
from typing import Any

from tensor import _kernels
from tensor.graph.body import Body, BodyRow
from tensor.graph.fusion import ordered
from tensor.graph.graph import Graph, Step
from tensor.graph.layout import with_copies
from tensor.graph.plan import overwritten
from tensor.primitives.spec import Spec, total_bytes

__all__ = ["BLOCKS", "with_blocks"]

_LARGE = 6 << 20  # bytes of a value that is worth cutting: below, a pass over memory costs too little
_BLOCK = 1 << 19  # bytes of the largest value of a block: several fit into that cache, and threads have work
_STEPS = 4  # views left out: fewer gain nothing where two threads share the work
_WINDOW = 1024  # steps that are grouped together
_NEAR = 12  # steps: a group does not reach further back
_LINES = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
_NORMS = ("layer_norm", "rms_norm")

Axes = tuple[int, ...]  # of each input: the dimension that is cut, −1 for one that is read whole


def _aligned(specs: list[Spec], out: Spec, d: int) -> Axes:
    """Where dimension d of an elementwise result lies in each input."""
    axes = []
    for spec in specs:
        pos = d - (len(out.shape) - len(spec.shape))
        axes.append(pos if pos >= 0 and spec.shape[pos] != 1 else -1)
    return tuple(axes)


def _cut(graph: Graph, step: Step, d: int) -> Axes | None:
    """The dimensions of the inputs that are cut with dimension d of the first result, or None where it cannot be."""
    specs = [graph.specs[v] for v in step.inputs]
    out, name, params = graph.specs[step.outputs[0]], step.row, step.params or {}
    if step.primitive.op >= 0 and len(step.outputs) == 1:
        return _aligned(specs, out, d)
    if name == "fused":
        program = params["program"]
        longest = max(specs, key=lambda s: len(s.shape))
        return _aligned(specs, Spec(out.shape + longest.shape[len(longest.shape) - program.axes :], "bool"), d)
    if step.primitive.category == "reduction" and isinstance(params.get("axis"), tuple) and len(specs) == 1:
        axes = params["axis"]
        if params.get("keepdims"):
            return None if d in axes else (d,)
        return ([a for a in range(len(specs[0].shape)) if a not in axes][d],)
    if name in _LINES:
        return None if d == params["axis"] else (d,) * len(specs)
    if name in _NORMS:
        return (d, *(-1 for _ in specs[1:])) if d < len(out.shape) - params["trailing"] else None
    if name == "permute":
        return (params["axes"][d],)
    if name == "expand":
        return _aligned(specs, out, d)
    if name == "reshape":
        before = math.prod(out.shape[:d])
        same = [p for p in range(len(specs[0].shape)) if math.prod(specs[0].shape[:p]) == before]
        return next(((p,) for p in same if specs[0].shape[p] == out.shape[d]), None)
    return None


def _of_block(step: Step, d: int, size: int) -> Any:
    """The step's params for a block of that size along dimension d of its result."""
    if step.row in ("expand", "reshape"):
        shape = step.params["shape"]
        return {**step.params, "shape": (*shape[:d], size, *shape[d + 1 :])}
    return step.params


class _Group:
    __slots__ = ("axis", "bits", "last", "size", "steps")

    def __init__(self, number: int, size: int) -> None:
        self.steps: list[Step] = []
        self.axis: dict[int, int] = {}  # values that it makes → the dimension that is cut
        self.bits = 1 << number
        self.last = number
        self.size = size


def with_blocks(graph: Graph) -> Graph:
    """The graph with groups of steps on large values run block by block."""
    if not any(total_bytes((s,)) >= _LARGE for s in graph.specs):
        return graph
    steps: list[Step] = []
    part: list[Step] = []
    for step in graph.steps:
        if step.changes:
            steps += _of_part(graph, part)
            steps.append(step)
            part = []
        else:
            part.append(step)
    steps += _of_part(graph, part)
    return Graph(graph.name, graph.specs, graph.inputs, graph.constants, steps, graph.outputs)


def _of_part(graph: Graph, steps: list[Step]) -> list[Step]:
    nodes: list[Step | _Group] = []
    for first in range(0, len(steps), _WINDOW):  # grouping looks at all pairs
        nodes += _grouped(graph, steps[first : first + _WINDOW])
    read = _readers(graph)
    kept: list[Step | _Group] = []
    for node in nodes:
        if isinstance(node, _Group) and not _pays(graph, node):
            kept += node.steps
        else:
            kept.append(node)
    if not any(isinstance(n, _Group) for n in kept):
        return steps
    out: list[Step] = []
    for node in ordered(kept):
        out += [node] if isinstance(node, Step) else _blocks(graph, node, read)
    return out


def _readers(graph: Graph) -> dict[int, list[Step | None]]:
    found: dict[int, list[Step | None]] = {}
    for step in graph.steps:
        for v in step.inputs:
            found.setdefault(v, []).append(step)
    for v in graph.outputs:
        found.setdefault(v, []).append(None)
    return found


def _grouped(graph: Graph, steps: list[Step]) -> list[Step | _Group]:
    """Steps and groups, of which none depends on itself through others; see fusion.py for the same of chains."""
    group_of: dict[int, _Group] = {}
    behind: dict[int, int] = {}  # value → the groups that it depends on through a step outside of them
    nodes: list[Step | _Group] = []
    for number, step in enumerate(steps):
        reached = 0
        for v in step.inputs:
            reached |= behind.get(v, 0)
        home, d = _home(graph, step, number, group_of, behind, reached)
        if home is not None and number - home.last > _NEAR:
            home = None
        before = 0 if home is None else _reach(home, behind)
        if home is None and d >= 0:
            home = _Group(number, graph.specs[step.outputs[0]].shape[d])
            nodes.append(home)
        for v in step.inputs:
            other = group_of.get(v)
            if other is not None and other is not home:
                reached |= other.bits
        if home is None:
            nodes.append(step)
            behind |= dict.fromkeys(step.outputs, reached)
            continue
        home.steps.append(step)
        home.last = number
        group_of |= dict.fromkeys(step.outputs, home)
        home.axis |= dict.fromkeys(step.outputs, d)
        reached |= before
        for s in home.steps:  # whoever reads a member waits for all that the group waits for
            behind |= dict.fromkeys(s.outputs, reached)
        if reached & ~before:  # and so does whoever waits for the group already
            behind |= {u: waits | reached for u, waits in behind.items() if waits & home.bits}
    return nodes


def _reach(group: _Group, behind: dict[int, int]) -> int:
    found = 0
    for s in group.steps:
        for v in s.outputs:
            found |= behind[v]
    return found


def _home(
    graph: Graph,
    step: Step,
    number: int,
    group_of: dict[int, _Group],
    behind: dict[int, int],
    reached: int,
) -> tuple[_Group | None, int]:
    """The group that the step joins and the dimension that is cut; without a group the one that it starts one with."""
    shape = graph.specs[step.outputs[0]].shape
    dims = [d for d, n in enumerate(shape) if n > 1]
    if any(graph.specs[v].shape != shape for v in step.outputs[1:]) and step.row not in _NORMS:
        return None, -1
    for group in dict.fromkeys(group_of[v] for v in step.inputs if v in group_of):
        if reached & group.bits or number - group.last > _NEAR:
            continue
        for d in dims:
            axes = _cut(graph, step, d) if shape[d] == group.size else None
            if axes is None:
                continue
            if any(graph.specs[v].shape[a] != group.size for v, a in zip(step.inputs, axes, strict=True) if a >= 0):
                continue
            if all(group.axis[v] == a for v, a in zip(step.inputs, axes, strict=True) if v in group.axis):
                return group, d
    if step.is_view or not dims:
        return None, -1
    for d in dims:
        axes = _cut(graph, step, d)
        if axes is not None and any(a >= 0 for a in axes):
            return None, d
    return None, -1


def _pays(graph: Graph, group: _Group) -> bool:
    if sum(not s.is_view for s in group.steps) < _STEPS:
        return False
    made = {v for s in group.steps if not s.is_view for v in s.outputs if total_bytes((graph.specs[v],)) >= _LARGE}
    bases = {s.outputs[0]: s.inputs[0] for s in group.steps if s.is_view}
    for s in group.steps:
        for v in () if s.is_view else s.inputs:
            while v in bases:
                v = bases[v]  # noqa: PLW2901
            if v in made:
                return _block_size(graph, group) < group.size
    return False


def _block_size(graph: Graph, group: _Group) -> int:
    """How much of the dimension a block has: a part of its size if one is near what the cache wants."""
    largest = max(total_bytes((graph.specs[v],)) for s in group.steps for v in (*s.inputs, *s.outputs))
    wanted = max(1, _BLOCK * group.size // largest)
    even = [b for b in range(max(1, wanted // 4), wanted + 1) if group.size % b == 0]
    return even[-1] if even else wanted


def _blocks(graph: Graph, group: _Group, read: dict[int, list[Step | None]]) -> list[Step]:
    """The group as one step, and behind it the views that others take of its values."""
    own = set(map(id, group.steps))
    outside = {v for s in group.steps for v in s.outputs if any(id(r) not in own for r in read.get(v, []))}
    views = []
    for s in reversed(group.steps):
        if s.is_view and s.outputs[0] in outside:
            views.append(s)
            if s.inputs[0] in group.axis:
                outside.add(s.inputs[0])
    made = [v for s in group.steps if not s.is_view for v in s.outputs if v in outside]
    inputs: list[int] = []
    axes: list[int] = []
    for s in group.steps:
        cut = _cut(graph, s, group.axis[s.outputs[0]])
        assert cut is not None
        for v, a in zip(s.inputs, cut, strict=True):
            if v in group.axis:
                continue
            if (v, a) not in zip(inputs, axes, strict=True):
                inputs.append(v)
                axes.append(a)
    size = _block_size(graph, group)
    bodies = [_body(graph, group, inputs, axes, made, size)]
    rest = group.size % size
    if rest:
        bodies.append(_body(graph, group, inputs, axes, made, rest))
    params = {
        "bodies": tuple(bodies),
        "size": group.size,
        "block": size,
        "inputs": tuple(axes),
        "outputs": tuple(group.axis[v] for v in made),
    }
    return [Step(BLOCKS, tuple(inputs), tuple(made), params), *reversed(views)]


def _resized(spec: Spec, axis: int, size: int) -> Spec:
    return spec if axis < 0 else Spec((*spec.shape[:axis], size, *spec.shape[axis + 1 :]), spec.dtype, spec.device)


def _body(graph: Graph, group: _Group, inputs: list[int], axes: list[int], made: list[int], size: int) -> Body:
    out = Graph(graph.name)
    external: dict[tuple[int, int], int] = {}
    for v, a in zip(inputs, axes, strict=True):
        external[v, a] = out.value(_resized(graph.specs[v], a, size))
        out.inputs.append(external[v, a])
    of: dict[int, int] = {}
    for s in group.steps:
        d = group.axis[s.outputs[0]]
        cut = _cut(graph, s, d)
        assert cut is not None
        reads = tuple([of[v] if v in of else external[v, a] for v, a in zip(s.inputs, cut, strict=True)])
        for v in s.outputs:
            of[v] = out.value(_resized(graph.specs[v], d, size))
        out.steps.append(Step(s.primitive, reads, tuple([of[v] for v in s.outputs]), _of_block(s, d, size)))
    out.outputs = [of[v] for v in made]
    out = with_copies(out)
    out.verify()
    return Body(out)


# --- the step -------------------------------------------------------------------------------------------------------


def _specs_of(specs: tuple[Any, ...], params: Any) -> tuple[Spec, ...]:
    graph = params["bodies"][0].graph
    for given, v, a in zip(specs, graph.inputs, params["inputs"], strict=True):
        if _resized(graph.specs[v], a, params["size"]).shape != given.shape:
            raise ValueError(f"blocks: the body reads {graph.specs[v]!r}, got {given!r}")
    outs = zip(graph.outputs, params["outputs"], strict=True)
    return tuple([_resized(graph.specs[v], a, params["size"]) for v, a in outs])


def _room(params: Any) -> int:
    return int(max(body.arena_bytes for body in params["bodies"]))


def _cost(specs: tuple[Any, ...], outs: tuple[Any, ...], params: Any) -> tuple[int, int]:
    graph: Graph = params["bodies"][0].graph
    count = params["size"] / params["block"]
    flops = 0.0
    for s in graph.steps:
        given = tuple([graph.specs[v] for v in s.inputs]), tuple([graph.specs[v] for v in s.outputs])
        flops += 0 if s.is_view else s.primitive.cost(*given, s.params)[1]
    return total_bytes((*specs, *outs)), int(flops * count)


def _sliced(x: Any, axis: int, start: int, size: int) -> Any:
    if axis < 0:
        return x
    index = tuple((0, n, 1) if d != axis else (start, size, 1) for d, n in enumerate(x.shape))
    return _kernels.index_view(x, index)


def _prepare(params: Any, prepared: Any, memory: Any) -> Any:
    size, block = params["size"], params["block"]
    into, out_of = params["outputs"], params["inputs"]
    runs = [prepared(body) for body in params["bodies"]]
    parts = [(start, min(block, size - start), runs[size - start < block]) for start in range(0, size, block)]

    def call(outs: Any, inputs: Any) -> None:
        for start, count, run in parts:
            run(
                [_sliced(x, a, start, count) for x, a in zip(inputs, out_of, strict=True)],
                [_sliced(x, a, start, count) for x, a in zip(outs, into, strict=True)],
            )

    return call


def _overwrites(params: Any, k: int) -> list[int]:
    """Inputs that are cut like result k, are read by nobody when it is written, and fill as many bytes."""
    graph: Graph = params["bodies"][0].graph
    out = graph.outputs[k]
    base = {v: v for v in graph.inputs}
    last: dict[int, int] = {}
    made = -1
    for at, step in enumerate(graph.steps):
        for v in step.inputs:
            last[base.get(v, v)] = at
        if step.is_view:
            base[step.outputs[0]] = base.get(step.inputs[0], step.inputs[0])
        if out in step.outputs:
            made = at
    step = graph.steps[made]
    now = overwritten(graph, step, step.outputs.index(out))
    found = []
    for j, v in enumerate(graph.inputs):
        alike = graph.specs[v].shape == graph.specs[out].shape and graph.specs[v].dtype == graph.specs[out].dtype
        at = last.get(v, -1)
        if alike and params["inputs"][j] == params["outputs"][k] and (at < made or (at == made and v in now)):
            found.append(j)
    return found


BLOCKS = BodyRow("blocks", _specs_of, _room, _cost, _prepare, _overwrites)
