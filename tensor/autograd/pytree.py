"""Trees of containers with tensors at the leaves: what grad, vmap and scan take as one argument.

Containers are dicts (in the order of their sorted keys), lists, tuples, named tuples, None (which holds nothing), and
types that `register_pytree_node` names. Everything else is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

__all__ = [
    "TreeDef",
    "register_pytree_node",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_reduce",
    "tree_transpose",
    "tree_unflatten",
]

from tensor.random import Key, key_of

_T = TypeVar("_T")
_Flatten = Callable[[Any], tuple[Iterable[Any], Hashable]]
_Unflatten = Callable[[Hashable, tuple[Any, ...]], Any]

# Keys of random numbers are trees of their seeds: so transformations follow them as they follow any tensor.
_REGISTERED: dict[type, tuple[_Flatten, _Unflatten]] = {
    Key: (lambda key: ((key.seeds,), None), lambda _, parts: key_of(*parts))
}


class TreeDef:
    """The shape of a tree without its leaves; equal for trees that fit together."""

    __slots__ = ("children", "keys", "kind", "num_leaves")

    def __init__(self, kind: Any, keys: Hashable, children: tuple[TreeDef, ...], num_leaves: int) -> None:
        self.kind = kind  # the container's type; None for a leaf
        self.keys = keys  # of a dict: its keys; of a registered type: what its flatten gave
        self.children = children
        self.num_leaves = num_leaves

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeDef):
            return NotImplemented
        return (self.kind, self.keys, self.children) == (other.kind, other.keys, other.children)

    def __hash__(self) -> int:
        return hash((self.kind, self.keys, self.children))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is dict:
            pairs = zip(self.keys, self.children, strict=True)  # type: ignore[call-overload]
            return "{" + ", ".join(f"{k!r}: {c!r}" for k, c in pairs) + "}"
        inside = ", ".join(map(repr, self.children))
        if self.kind is list:
            return f"[{inside}]"
        if self.kind is tuple:
            return f"({inside},)" if len(self.children) == 1 else f"({inside})"
        return "None" if self.kind is type(None) else f"{self.kind.__name__}({inside})"


_LEAF = TreeDef(None, None, (), 1)


def register_pytree_node(kind: type[_T], flatten: Callable[[_T], Any], unflatten: Callable[[Any, Any], _T]) -> None:
    """Makes a type a container: flatten(x) gives (children, keys), unflatten(keys, children) the object again.

    Raises ValueError if the type is a container already.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda keys, children: Pair(*children))
    >>> tree_map(lambda x: x + 1, Pair(1, 2)).b
    3
    """
    if kind in _REGISTERED or kind in (dict, list, tuple, type(None)):
        raise ValueError(f"register_pytree_node: {kind.__name__} is a container already")
    _REGISTERED[kind] = (flatten, unflatten)


def tree_flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves, left to right, and the shape of the tree.

    >>> tree_flatten({"b": (1, None), "a": [2]})
    ([2, 1], {'a': [*], 'b': (*, None)})
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    kind = type(tree)
    keys: Hashable = None
    if kind is tuple or kind is list:
        children: Iterable[Any] = tree
    elif kind is dict:
        try:
            keys = tuple(sorted(tree))
        except TypeError:
            raise TypeError(f"tree: the keys of a dict must sort, got {list(tree)}") from None
        children = [tree[k] for k in keys]
    elif tree is None:
        children = ()
    elif kind in _REGISTERED:
        children, keys = _REGISTERED[kind][0](tree)
    elif isinstance(tree, tuple) and hasattr(kind, "_fields"):
        children = tree
    else:
        leaves.append(tree)
        return _LEAF
    before = len(leaves)
    defs = tuple([_flatten(child, leaves) for child in children])
    return TreeDef(kind, keys, defs, len(leaves) - before)


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that shape with these leaves; ValueError if their number is another."""
    items = list(leaves)
    if len(items) != treedef.num_leaves:
        raise ValueError(f"tree_unflatten: {treedef} has {treedef.num_leaves} leaves, got {len(items)}")
    return _unflatten(treedef, iter(items))


def _unflatten(treedef: TreeDef, leaves: Any) -> Any:
    kind = treedef.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    children = [_unflatten(child, leaves) for child in treedef.children]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(treedef.keys, children, strict=True))  # type: ignore[call-overload]
    if kind in _REGISTERED:
        return _REGISTERED[kind][1](treedef.keys, tuple(children))
    return kind(*children)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves, left to right.

    >>> tree_leaves(((1, 2), [3]))
    [1, 2, 3]
    """
    return tree_flatten(tree)[0]


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree of fn's results on the leaves; further trees must have the same shape, or ValueError.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    {'a': 11, 'b': (22,)}
    """
    leaves, treedef = tree_flatten(tree)
    columns = [leaves]
    for other in rest:
        more, shape = tree_flatten(other)
        if shape != treedef:
            raise ValueError(f"tree_map: the trees differ: {treedef} and {shape}")
        columns.append(more)
    return _unflatten(treedef, iter([fn(*items) for items in zip(*columns, strict=True)]))


def tree_reduce(fn: Callable[[Any, Any], Any], tree: Any, initial: Any) -> Any:
    """fn(… fn(fn(initial, leaf 0), leaf 1) …).

    >>> tree_reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]}, 0)
    6
    """
    total = initial
    for leaf in tree_leaves(tree):
        total = fn(total, leaf)
    return total


def tree_transpose(outer: TreeDef, inner: TreeDef, tree: Any) -> Any:
    """A tree of shape outer of trees of shape inner, turned into a tree of shape inner of trees of shape outer.

    >>> pair, triple = tree_flatten((0, 0))[1], tree_flatten([0, 0, 0])[1]
    >>> tree_transpose(pair, triple, ([1, 2, 3], [4, 5, 6]))
    [(1, 4), (2, 5), (3, 6)]
    """
    leaves, _ = tree_flatten(tree)
    n = inner.num_leaves
    if len(leaves) != outer.num_leaves * n:
        raise ValueError(f"tree_transpose: {outer} of {inner} has {outer.num_leaves * n} leaves, got {len(leaves)}")
    return tree_unflatten(inner, [tree_unflatten(outer, leaves[i::n]) for i in range(n)])
