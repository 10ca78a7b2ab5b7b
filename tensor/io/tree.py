"""Trees of arrays as names: dicts, lists, tuples and None, taken apart for a file and put together again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tensor.io.scanner import Scanner

__all__ = ["TREE_KEY", "assemble", "flatten"]

TREE_KEY = "droveway-tree/1"
DEPTH_MAX = 100
_NAME_OF_ONE = "tensor"
_FIELD = f"__metadata__ {TREE_KEY!r}"

Node = Any  # a name, None, or one of {"dict": …} {"list": …} {"tuple": …}


def flatten(tree: object, is_leaf: Callable[[object], bool]) -> tuple[dict[str, Any], str | None]:
    """The leaves by name, and the text that tells the tree; None where a dict of names to leaves is all there is.

    Raises TypeError for what is neither, ValueError for names that meet, trees that hold themselves or are too deep.

    >>> flatten({"a": [1, 2]}, lambda x: isinstance(x, int))
    ({'a.0': 1, 'a.1': 2}, '{"dict":{"a":{"list":["a.0","a.1"]}}}')
    >>> flatten({"a": 1}, lambda x: isinstance(x, int))
    ({'a': 1}, None)
    """
    leaves: dict[str, Any] = {}
    node = _node(tree, "", leaves, is_leaf, 0)
    if isinstance(tree, Mapping) and all(is_leaf(value) for value in tree.values()):
        return leaves, None
    return leaves, json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def _node(tree: object, path: str, leaves: dict[str, Any], is_leaf: Callable[[object], bool], depth: int) -> Node:
    if depth > DEPTH_MAX:
        raise ValueError(f"save: the tree is more than {DEPTH_MAX} deep at {path[:40]!r}…")
    if tree is None:
        return None
    if is_leaf(tree):
        name = path or _NAME_OF_ONE
        if name in leaves:
            raise ValueError(f"save: two tensors of the tree have the name {name!r}")
        if name == "__metadata__":
            raise ValueError("save: '__metadata__' is no name for a tensor")
        leaves[name] = tree
        return name
    if isinstance(tree, Mapping):
        for key in tree:
            if not isinstance(key, str) or not _is_text(key):
                raise TypeError(f"save: keys must be text, got {key!r} at {path or 'the top'!r}")
        pairs = sorted(tree.items())
        return {"dict": {k: _node(v, _join(path, k), leaves, is_leaf, depth + 1) for k, v in pairs}}
    if type(tree) in (list, tuple):
        items = [_node(v, _join(path, str(i)), leaves, is_leaf, depth + 1) for i, v in enumerate(tree)]  # type: ignore[var-annotated, arg-type]
        return {type(tree).__name__: items}
    hint = " (hint: ._asdict())" if isinstance(tree, tuple) else " (hint: an array of it)" if _is_scalar(tree) else ""
    kind = type(tree).__name__
    raise TypeError(
        f"save: a tree has dicts, lists, tuples, None and arrays, got {kind} at {path or 'the top'!r}{hint}"
    )


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _is_text(key: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in key)


def _is_scalar(tree: object) -> bool:
    return isinstance(tree, (bool, int, float, complex))


def assemble(path: str, text: str | None, leaves: Mapping[str, Any]) -> Any:
    """The tree that `text` tells, of these leaves; the leaves themselves where there is no text.

    Raises TensorFileError unless the text is such a tree and names every leaf once.

    >>> assemble("x", '{"list":["b",null]}', {"b": 5})
    [5, None]
    """
    if text is None:
        return dict(leaves)
    scanner = Scanner(path, 0, memoryview(text.encode("utf-8")))
    left = dict(leaves)
    tree = _read(scanner, left, 0)
    scanner.space()
    if scanner.at != len(scanner.data):
        raise scanner.fail(_FIELD, "the end of the tree")
    if left:
        raise scanner.fail(_FIELD, "each tensor once", found=f"no {min(left)!r}")
    return tree


def _read(scanner: Scanner, left: dict[str, Any], depth: int) -> Any:
    """The node that comes next; its leaves are taken out of `left`."""
    if depth > DEPTH_MAX:
        raise scanner.fail(_FIELD, f"a tree at most {DEPTH_MAX} deep")
    if scanner.peek(b"null"):
        return None
    at = scanner.at
    if not scanner.peek(b"{"):
        name = scanner.string(_FIELD)
        if name not in left:
            raise scanner.fail(_FIELD, "each tensor once", at, f"{name!r}, which is not there, or was named before")
        return left.pop(name)
    kind = scanner.string(_FIELD)
    scanner.expect(b":", _FIELD)
    if kind == "dict":
        node: Any = {}
        for key in scanner.members(_FIELD):
            if key in node:
                raise scanner.fail(_FIELD, "each key once", at, f"{key!r} twice")
            node[key] = _read(scanner, left, depth + 1)
    elif kind in ("list", "tuple"):
        items = _items(scanner, left, depth)
        node = tuple(items) if kind == "tuple" else items
    else:
        raise scanner.fail(_FIELD, "dict, list or tuple", at, repr(kind))
    scanner.expect(b"}", _FIELD)
    return node


def _items(scanner: Scanner, left: dict[str, Any], depth: int) -> list[Any]:
    scanner.expect(b"[", _FIELD)
    items: list[Any] = []
    if scanner.peek(b"]"):
        return items
    while True:
        items.append(_read(scanner, left, depth + 1))
        if scanner.peek(b"]"):
            return items
        scanner.expect(b",", _FIELD)
