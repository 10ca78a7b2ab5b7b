"""The reverse pass: gradients along the tape.

Nodes are numbered as they are made, so every reader of a tensor has a higher number than its maker. The pass takes the
highest number first from a heap; when a node's turn comes, all gradients of its results have arrived. Gradients add up
in the order in which they arrive: by falling number of the reader, then by the position of the input. There is no
recursion, and a node gives its saved tensors back as soon as it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from tensor import _kernels
from tensor.autograd.trace import Tracer, levels_active, underlying
from tensor.errors import GradientError, ShapeError
from tensor.primitives.rules import zeros_like_spec
from tensor.primitives.spec import Spec, name_of

__all__ = ["backward", "gradients", "require_grad", "zero_grad"]

Tensor = Any
Key = Any  # of a result: (number of its node, which result); of a leaf: its id


def key_of(x: Tensor) -> Key:
    """What a tensor is called on the tape."""
    node = x.node
    return id(x) if node is None else (node.sequence, x.output_index)


def backward(
    x: Tensor, gradient: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Adds d(sum(x·gradient))/d(leaf) to the `.grad` of each leaf that x was computed from.

    A 0-d x needs no gradient: it is 1. `create_graph` records the pass itself, so that the gradients can be
    differentiated again; `retain_graph` keeps the saved tensors for another pass. If it fails, no `.grad` changes.

    Raises GradientError if x does not require gradients, is not 0-d and comes without a gradient, or if its graph was
    used up by an earlier pass; ShapeError for a gradient of another shape.

    >>> import tensor as tn
    >>> x = tn.asarray([1.0, 2.0]).requires_grad_()
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """
    if isinstance(x, Tracer):
        raise GradientError(
            f"backward: inside {x.main.name} there are no leaves to write to (hint: tensor.autograd.grad)"
        )
    seed = _seed(x, gradient, "backward")
    before = _kernels.set_grad_mode(create_graph)
    try:
        updates = _to_leaves(x, seed, retain_graph or create_graph)
        if not create_graph:
            _own(updates, seed)
        for update in updates:
            old = update[0].grad
            if old is not None:
                update[1] = old + update[1]
    finally:
        _kernels.set_grad_mode(before)
    for leaf, total in updates:
        leaf.grad = total


def _own(updates: list[list[Tensor]], seed: Tensor) -> None:
    """Makes every new gradient a tensor that shares its memory with nothing."""
    owned = {id(seed)}
    for update in updates:
        g = update[1]
        if g.is_view or id(g) in owned:
            update[1] = g.detach().clone()
        elif g.requires_grad:
            update[1] = g.detach()
        owned.add(id(g))


def _to_leaves(x: Tensor, seed: Tensor, keep: bool) -> list[list[Tensor]]:
    """[leaf, its gradient] for every leaf, in the order in which the first gradient arrived."""
    return [[leaf, g] for leaf, g in _kernels.backward_pass((x,), (seed,), keep)]


def _entry(node: Any) -> list[Any]:
    count = node.output_count
    if count == 1:
        return [node, None]  # most are of this kind
    return [node, *(None,) * (count or len(node.output_specs))]  # of a node that was used up the latter raises


def _pull(entry: list[Any], checked: bool) -> Sequence[Tensor | None]:
    """The gradients of a node's inputs, once all gradients of its results are there."""
    node = entry[0]
    primitive = node.primitive
    vjp = primitive.vjp
    if vjp is None:
        raise GradientError(no_derivative(primitive))
    results: Sequence[Tensor | None]
    if len(entry) == 2:
        results = vjp(entry[1], node)
    else:
        grads = entry[1:]
        if not primitive.sparse_gradients:
            grads = [zeros_like_spec(o) if g is None else g for g, o in zip(grads, node.outputs, strict=True)]
        results = vjp(tuple(grads), node)
    if checked:
        from tensor.autograd.anomaly import check_gradients

        check_gradients(node, results)
    return results


def _seed(x: Tensor, gradient: Tensor | None, name: str) -> Tensor:
    if not x.requires_grad:
        raise GradientError(
            f"{name}: {Spec(x.shape, x.dtype)!r} does not require gradients "
            f"(hint: requires_grad_() on a leaf before computing from it; detach() and no_grad cut the graph)"
        )
    _kernels.require_current(x, name)
    if gradient is None:
        if x.ndim != 0:
            raise GradientError(
                f"{name}: {Spec(x.shape, x.dtype)!r} is not a scalar, the gradient to start from must be given "
                f"(hint: .sum().backward())"
            )
        return _kernels.full((), 1, x.dtype, x.device)
    if gradient.shape != x.shape or gradient.dtype != x.dtype:
        raise ShapeError(
            f"{name}: the gradient must be {Spec(x.shape, x.dtype)!r}, got {Spec(gradient.shape, gradient.dtype)!r}"
        )
    return gradient


def gradients(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    wanted: Sequence[Tensor],
    *,
    start: int = 0,
    keep: bool = False,
) -> tuple[list[Tensor | None], bool]:
    """The gradients of sum(outputs·seeds) with respect to the wanted tensors, None where nothing depends on one; and
    whether the outputs also depend on something else that requires gradients.

    `start` is the tape's number when the function began: older nodes are constants. The pass itself is recorded exactly
    if somebody can differentiate it: the outputs, seeds or wanted tensors depend on more than the leaves.
    """
    roots = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    for o, _ in roots:
        _kernels.require_current(o, "grad")
    capture: dict[Key, list[Tensor]] = {key_of(w): [] for w in wanted}
    nodes, foreign = _scan([o for o, _ in roots], capture, start)
    traced = any(x.is_traced for x in (*outputs, *wanted))
    if not foreign and not traced and not underlying(seeds) and all(w.node is None for w in wanted):
        return _to_own_leaves(roots, wanted, keep), False
    needed = _on_the_way(nodes, capture)
    followed = foreign or underlying(seeds) or any(w.node is not None for w in wanted)
    followed = followed or (traced and levels_active())  # an outer tape may follow what lies below the tracers
    create_graph = _kernels.grad_mode() and followed
    before = _kernels.set_grad_mode(create_graph)
    try:
        _to_captured(roots, capture, needed, keep or create_graph)
        found = [capture[key_of(w)] for w in wanted]
        results = [g[0] if g else None for g in found]
    finally:
        _kernels.set_grad_mode(before)
    if not create_graph:
        results = [g.detach() if g is not None and g.requires_grad else g for g in results]
    return results, foreign


def _to_own_leaves(roots: list[tuple[Tensor, Tensor]], wanted: Sequence[Tensor], keep: bool) -> list[Tensor | None]:
    """The same where the wanted tensors are all the leaves that there are: nobody can differentiate the pass."""
    before = _kernels.set_grad_mode(False)
    try:
        outs, seeds = tuple([o for o, _ in roots]), tuple([s for _, s in roots])
        found = {id(leaf): g for leaf, g in _kernels.backward_pass(outs, seeds, keep)}
    finally:
        _kernels.set_grad_mode(before)
    results = [found.get(id(w)) for w in wanted]
    return [g.detach() if g is not None and g.requires_grad else g for g in results]


def reaches_others(outputs: Sequence[Tensor], leaves: Sequence[Tensor], start: int) -> bool:
    """Whether the outputs depend on something that requires gradients besides the leaves."""
    return _scan([o for o in outputs if o.requires_grad], {key_of(x): None for x in leaves}, start)[1]


def _scan(outputs: Sequence[Tensor], capture: dict[Key, Any], start: int) -> tuple[dict[int, Any], bool]:
    """The nodes above the captured tensors by number, and whether anything else requires gradients."""
    nodes: dict[int, Any] = {}
    stack = []
    foreign = False
    for o in outputs:
        key = key_of(o)
        if key in capture:
            continue
        if o.node is None or o.node.sequence < start:
            foreign = True
        elif o.node.sequence not in nodes:
            nodes[o.node.sequence] = o.node
            stack.append(o.node)
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            if type(edge) is tuple:
                number = edge[0].sequence
                if (number, edge[1]) in capture:
                    continue
                if number < start:
                    foreign = True
                elif number not in nodes:
                    nodes[number] = edge[0]
                    stack.append(edge[0])
            elif id(edge) not in capture:
                foreign = True
    return nodes, foreign


def _on_the_way(nodes: dict[int, Any], capture: dict[Key, Any]) -> set[int]:
    """The numbers of the nodes that lead to a captured tensor."""
    needed: set[int] = set()
    for number in sorted(nodes):
        for edge in nodes[number].edges:
            if edge is None:
                continue
            if type(edge) is tuple:
                if (edge[0].sequence, edge[1]) in capture or edge[0].sequence in needed:
                    needed.add(number)
                    break
            elif id(edge) in capture:
                needed.add(number)
                break
    return needed


def _to_captured(
    roots: Sequence[tuple[Tensor, Tensor]], capture: dict[Key, list[Tensor]], needed: set[int], keep: bool
) -> None:
    """Carries gradients from the roots to the captured tensors, where the pass stops."""
    pending: dict[int, list[Any]] = {}
    heap: list[int] = []

    def arrive(edge: Any, g: Tensor) -> None:
        indexed = type(edge) is tuple
        key: Key = (edge[0].sequence, edge[1]) if indexed else id(edge)
        found = capture.get(key)
        if found is not None:
            if found:
                found[0] = found[0] + g
            else:
                found.append(g)
        elif indexed and key[0] in needed:
            node, i = edge
            entry = pending.get(node.sequence)
            if entry is None:
                entry = pending[node.sequence] = _entry(node)
                heappush(heap, -node.sequence)
            old = entry[i + 1]
            entry[i + 1] = g if old is None else old + g

    for x, seed in roots:
        arrive(x if x.node is None else (x.node, x.output_index), seed)
    checked = _kernels.checked_mode()
    while heap:
        entry = pending.pop(-heappop(heap))
        node = entry[0]
        results = _pull(entry, checked)
        edges = node.edges
        if not keep:
            node.release()
        for edge, g in zip(edges, results, strict=True):
            if edge is not None and g is not None:
                arrive(edge, g)


def no_derivative(primitive: Any) -> str:
    """What to say where a gradient meets a row that has none."""
    return f"{primitive.name} has no derivative (hint: .detach() its inputs)"


def require_grad(x: Tensor) -> Tensor:
    """x as a leaf that collects gradients: `x.requires_grad_()`. Raises DtypeError unless x is of floats or complex.

    >>> import tensor as tn
    >>> tn.autograd.require_grad(tn.ones((2,))).requires_grad
    True
    """
    return x.requires_grad_()


def zero_grad(tensors: Any) -> None:
    """Forgets the gradients of every tensor in a tree: `.grad` becomes None.

    >>> import tensor as tn
    >>> x = tn.ones((2,)).requires_grad_()
    >>> x.sum().backward()
    >>> tn.autograd.zero_grad([x])
    >>> x.grad is None
    True
    """
    from tensor.autograd.pytree import tree_leaves

    for x in tree_leaves(tensors):
        x.grad = None


def floating(x: Any) -> bool:
    """Whether x is a tensor of floats or complex numbers."""
    return isinstance(x, _kernels.Tensor) and name_of(x.dtype).startswith(("float", "bfloat", "complex"))
