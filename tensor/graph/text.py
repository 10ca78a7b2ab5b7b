"""A graph as text and back (docs/formats/graph.md): one canonical JSON text, read without trust in any of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tensor.autograd.pytree import TreeDef, tree_flatten
from tensor.graph.body import Body, BodyRow
from tensor.graph.control import CONTROL
from tensor.graph.graph import Graph, Step
from tensor.primitives.primitive import ALL, Primitive
from tensor.primitives.registry import REGISTRY, all_rows
from tensor.primitives.spec import Spec, total_bytes
from tensor.random import Key, key_of

__all__ = ["GraphText", "decode", "encode"]

_DEPTH_MAX = 64
_VALUES_MAX = 1_000_000
_MEMBERS = ("name", "inputs", "constants", "steps", "outputs", "arguments", "result")
_TOO_LONG = re.compile(r"[0-9]{20,}")


class GraphText(NamedTuple):
    """What the text says: the graph, its constants' specs, and the trees with their leaves.

    A leaf is a tuple (n,) for tensor n of the inputs or outputs, or else the value that belongs to the graph.
    """

    graph: Graph
    constants: list[Spec]
    arguments: tuple[TreeDef, list[Any]]
    result: tuple[TreeDef, list[Any]]


def encode(text: GraphText) -> str:
    """The canonical text. Raises ValueError for what has none: params or leaves of other types, another device."""
    graph = text.graph
    number, steps = _numbered(graph)
    members = (
        graph.name,
        [_spec(graph.specs[v]) for v in graph.inputs],
        [_spec(s) for s in text.constants],
        steps,
        [number[v] for v in graph.outputs],
        _tree(graph.name, *text.arguments),
        _tree(graph.name, *text.result),
    )
    return _json(dict(zip(_MEMBERS, members, strict=True)))


def _numbered(graph: Graph) -> tuple[dict[int, int], list[Any]]:
    """The numbers of values in the text, and the steps with them."""
    order = [*graph.inputs, *graph.constants]
    for step in graph.steps:
        order += step.outputs
        name = str(step.primitive.name)
        if CONTROL.get(name) is not step.primitive and id(REGISTRY.get(name)) != id(step.primitive):
            raise ValueError(f"{graph.name}: step {name} is no row of the registry, and cannot be saved")
        if step.changes:
            raise ValueError(f"{graph.name}: step {step.primitive.name} overwrites its inputs, and cannot be saved")
    for v in order:
        if str(graph.specs[v].device) != "cpu":
            raise ValueError(f"{graph.name}: a value on device {graph.specs[v].device} cannot be saved")
    number = {v: i for i, v in enumerate(order)}
    steps = []
    for step in graph.steps:
        where = f"{graph.name}: step {step.primitive.name}"
        params = None if step.params is None else _sorted({k: _value(where, x) for k, x in step.params.items()})
        made = [_spec(graph.specs[v]) for v in step.outputs]
        steps.append([str(step.primitive.name), [number[v] for v in step.inputs], params, made])
    return number, steps


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _sorted(members: dict[str, Any]) -> dict[str, Any]:
    return {key: members[key] for key in sorted(members)}


def _spec(spec: Spec) -> list[Any]:
    return [spec.dtype.name, list(spec.shape)]


def _value(where: str, value: Any) -> Any:
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value
    if type(value) is float:
        return ["float", repr(value)]
    if type(value) is complex:
        return ["complex", repr(value.real), repr(value.imag)]
    if type(value) is tuple:
        return ["tuple", [_value(where, v) for v in value]]
    if type(value) is Body:
        number, steps = _numbered(value.graph)
        inputs, outputs = value.graph.inputs, value.graph.outputs
        given = [_spec(value.graph.specs[v]) for v in inputs]
        return ["graph", {"inputs": given, "steps": steps, "outputs": [number[v] for v in outputs]}]
    raise ValueError(f"{where}: a {type(value).__name__} has no text, and cannot be saved")


def _tree(where: str, treedef: TreeDef, leaves: list[Any]) -> Any:
    left = iter(leaves)

    def node(tree: TreeDef) -> Any:
        kind = tree.kind
        if kind is None:
            leaf = next(left)
            return ["tensor", leaf[0]] if isinstance(leaf, tuple) else ["value", _value(where, leaf)]
        if kind is type(None):
            return ["none"]
        if kind is dict:
            keys: tuple[Any, ...] = tree.keys  # type: ignore[assignment]
            if not all(type(k) is str for k in keys):
                raise ValueError(f"{where}: a dict with keys that are no text cannot be saved, got {keys!r}")
            return ["dict", [[k, node(c)] for k, c in zip(keys, tree.children, strict=True)]]
        if kind is list or kind is tuple:
            return [kind.__name__, [node(c) for c in tree.children]]
        if kind is Key:
            return ["key", node(tree.children[0])]
        raise ValueError(f"{where}: a tree with a {kind.__name__} cannot be saved (hint: dict, list, tuple)")

    return node(treedef)


# --- back -----------------------------------------------------------------------------------------------------------


class _Refused(Exception):
    """What is wrong: field, expected, found."""


def decode(text: str, fail: Callable[[str, str, str], Exception]) -> GraphText:
    """What a text says. Anything that is not the canonical text of a graph raises fail(field, expected, found)."""
    try:
        return _Reader(text).read()
    except _Refused as refused:
        raise fail(*refused.args) from None


def _shown(value: Any) -> str:
    found = repr(value)
    return found if len(found) <= 40 else found[:37] + "..."


def _require(good: Any, field: str, expected: str, found: Any) -> None:
    if not good:
        raise _Refused(field, expected, _shown(found))


class _Leaf:
    """A leaf of a tree while it is read."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Reader:
    def __init__(self, text: str) -> None:
        _require(_depth(text) <= _DEPTH_MAX, "graph", f"nesting of at most {_DEPTH_MAX}", "more")
        long = _TOO_LONG.search(text)
        _require(long is None, "graph", "numbers of at most 19 digits", long and long.group())
        try:
            self.members = json.loads(text)
        except ValueError as error:
            raise _Refused("graph", "a JSON text", str(error)) from None
        _require(
            isinstance(self.members, dict) and tuple(self.members) == _MEMBERS,
            "graph",
            f"an object with the members {', '.join(_MEMBERS)}",
            list(self.members) if isinstance(self.members, dict) else self.members,
        )
        again = _json(self.members) if _is_plain(self.members) else ""
        _require(again == text, "graph", "the canonical text, without spaces, duplicates and fractions", "another")

    def read(self) -> GraphText:
        m = self.members
        _require(isinstance(m["name"], str), "name", "a string", m["name"])
        graph = Graph(m["name"])
        for kind in ("inputs", "constants", "steps", "outputs"):
            _require(isinstance(m[kind], list), kind, "a list", m[kind])
        for i, given in enumerate(m["inputs"]):
            graph.inputs.append(graph.value(self._spec(f"input {i}", given)))
        constants = [self._spec(f"constant {i}", given) for i, given in enumerate(m["constants"])]
        for spec in constants:
            graph.constants[graph.value(spec)] = None
        for at, given in enumerate(m["steps"]):
            self._step(graph, f"step {at}", given)
        graph.outputs = self._values(graph, "outputs", m["outputs"])
        arguments = self._tree("arguments", m["arguments"], len(graph.inputs))
        return GraphText(graph, constants, arguments, self._tree("result", m["result"], len(graph.outputs)))

    def _spec(self, field: str, given: Any) -> Spec:
        good = isinstance(given, list) and len(given) == 2 and given[0] in ALL and isinstance(given[1], list)
        _require(good, field, "[dtype, [size, …]]", given)
        dtype, shape = given
        good = len(shape) <= 16 and all(type(n) is int and n >= 0 for n in shape)
        _require(good, field, "at most 16 sizes, none negative", shape)
        _require(math.prod(max(n, 1) for n in shape) < 1 << 58, field, "less than 2^58 elements", shape)
        return Spec(tuple(shape), dtype)

    def _values(self, graph: Graph, field: str, given: Any) -> list[int]:
        _require(isinstance(given, list), field, "a list of values", given)
        for v in given:
            _require(type(v) is int and 0 <= v < len(graph.specs), field, f"values below {len(graph.specs)}", v)
        return list(given)

    def _step(self, graph: Graph, field: str, given: Any) -> None:
        good = isinstance(given, list) and len(given) == 4 and isinstance(given[0], str) and isinstance(given[3], list)
        _require(good, field, "[row, [value, …], params, [spec, …]]", given)
        name, reads, params, made = given
        field = f"{field}, {_shown(name)}"
        primitive = _row(name)
        if primitive is None or primitive.in_place:
            raise _Refused(field, "a row of the registry that does not overwrite its inputs", _shown(name))
        inputs = tuple(self._values(graph, field, reads))
        _require(params is None or isinstance(params, dict), field, "params that are an object or null", params)
        if params is not None:
            _require(list(params) == sorted(params), field, "params in the order of their names", list(params))
            params = {key: self._value(field, value) for key, value in params.items()}
        if isinstance(primitive, BodyRow):
            _require(params is not None and tuple(params) == primitive.members, field, "its params", given[2])
        _require(made, field, "at least one result", made)
        specs = tuple(self._spec(field, s) for s in made)
        try:
            expected = primitive.specs_of(tuple(graph.specs[v] for v in inputs), params)
        except Exception as error:  # whatever a rule says about params and inputs that it was not made for
            raise _Refused(field, "inputs and params that the row takes", f"{type(error).__name__}: {error}") from None
        rule = [(s.shape, s.dtype.name) for s in expected]
        _require(rule == [(s.shape, s.dtype.name) for s in specs], field, f"results {expected!r}", specs)
        _require(len(graph.specs) + len(specs) <= _VALUES_MAX, field, f"at most {_VALUES_MAX} values", "more")
        _require(total_bytes(specs) < 1 << 63, field, "less than 2^63 bytes", specs)
        graph.steps.append(Step(primitive, inputs, tuple(graph.value(s) for s in specs), params))

    def _value(self, field: str, given: Any) -> Any:
        if given is None or type(given) in (bool, int, str):
            return given
        _require(isinstance(given, list) and given, field, "a value", given)
        kind, *rest = given
        if kind == "float" and len(rest) == 1:
            return _number(field, rest[0])
        if kind == "complex" and len(rest) == 2:
            return complex(_number(field, rest[0]), _number(field, rest[1]))
        if kind == "tuple" and len(rest) == 1 and isinstance(rest[0], list):
            return tuple(self._value(field, v) for v in rest[0])
        if kind == "graph" and len(rest) == 1:
            return self._body(field, rest[0])
        raise _Refused(field, "a value", _shown(given))

    def _body(self, field: str, given: Any) -> Body:
        good = isinstance(given, dict) and tuple(given) == ("inputs", "steps", "outputs")
        good = good and all(isinstance(part, list) for part in given.values())
        _require(good, field, "a body of inputs, steps, outputs", given)
        graph = Graph("body")
        for i, spec in enumerate(given["inputs"]):
            graph.inputs.append(graph.value(self._spec(f"{field}, input {i}", spec)))
        for at, step in enumerate(given["steps"]):
            self._step(graph, f"{field}, step {at}", step)
        graph.outputs = self._values(graph, f"{field}, outputs", given["outputs"])
        try:
            return Body(graph)
        except ValueError as error:
            raise _Refused(field, "a body with results of its own", str(error)) from None

    def _tree(self, field: str, given: Any, count: int) -> tuple[TreeDef, list[Any]]:
        seen = 0

        def node(part: Any) -> Any:
            nonlocal seen
            kind = part[0] if isinstance(part, list) and part and isinstance(part[0], str) else ""
            if kind == "none" and len(part) == 1:
                return None
            _require(kind and len(part) == 2, field, "a node of a tree", part)
            inside = part[1]
            if kind == "tensor":
                _require(type(inside) is int and inside == seen, field, f"tensor {seen}", inside)
                seen += 1
                return _Leaf((inside,))
            if kind == "value":
                value = self._value(field, inside)
                _require(value is not None and not isinstance(value, tuple), field, "a leaf", inside)
                return _Leaf(value)
            if kind == "key":
                seeds = node(inside)
                _require(isinstance(seeds, _Leaf) and isinstance(seeds.value, tuple), field, "a key's tensor", inside)
                return key_of(seeds)
            _require(kind in ("dict", "list", "tuple") and isinstance(inside, list), field, "a node of a tree", part)
            if kind == "dict":
                pairs = all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in inside)
                _require(pairs, field, "pairs of a key and a node", inside)
                keys = [p[0] for p in inside]
                _require(keys == sorted(set(keys)), field, "ascending keys", keys)
                return {key: node(below) for key, below in inside}
            children = [node(below) for below in inside]
            return children if kind == "list" else tuple(children)

        leaves, treedef = tree_flatten(node(given))
        _require(seen == count, field, f"{count} tensors", seen)
        return treedef, [leaf.value for leaf in leaves]


def _is_plain(value: Any) -> bool:
    """Whether a JSON value has no fractions and no numbers beyond JSON, which have no canonical text here."""
    todo = [value]
    while todo:
        now = todo.pop()
        if isinstance(now, float):
            return False
        if isinstance(now, dict):
            todo += now.values()
        elif isinstance(now, list):
            todo += now
    return True


def _depth(text: str) -> int:
    """How deep brackets nest, those in strings left out."""
    depth = most = 0
    inside = False
    for token in re.finditer(r'\\.|["\[\]{}]', text):
        mark = token.group()
        if mark == '"':
            inside = not inside
        elif not inside and mark in "[{":
            depth += 1
            most = max(most, depth)
        elif not inside and mark in "]}":
            depth -= 1
    return most


def _number(field: str, text: Any) -> float:
    try:
        value = float(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    _require(value is not None and repr(value) == text, field, "a float as Python writes it", text)
    assert value is not None
    return value


def _row(name: str) -> Primitive | BodyRow | None:
    if name in CONTROL:
        return CONTROL[name]
    if name not in REGISTRY:
        for _ in all_rows():  # loads every family
            pass
    found = REGISTRY.get(name)
    return found if isinstance(found, Primitive) and found.category != "fusion" else None
