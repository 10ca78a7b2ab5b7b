"""A model out of an ONNX file: checked when it is read, then run node after node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import tensor as tn
from tensor.errors import OnnxError, TensorError
from tensor.onnx.node import OPERATORS, Node, load_operators
from tensor.onnx.values import attribute_value, dtype_of, tensor_of

__all__ = ["Graph", "Model", "load"]

# The newest operator sets that the operators here follow.
_NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}
_DEPTH_MAX = 32  # graphs inside graphs
# What the functions say of attributes and inputs that do not fit.
_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError)
_FILE_BYTES_MAX = 2**31 - 1  # what a protobuf message may have


@dataclass(frozen=True)
class Input:
    """What a graph wants: name, and dtype and shape where it says so (None for a size that is free)."""

    name: str
    dtype: Any
    shape: tuple[int | None, ...] | None

    def check(self, value: Any) -> None:
        """OnnxError for a value that does not fit."""
        if self.dtype is None:
            return
        if not isinstance(value, tn.Tensor):
            kind = type(value).__name__
            raise OnnxError(f"input {self.name}: expected a tensor or an array, got {kind} (hint: tensor.asarray)")
        if value.dtype != self.dtype:
            raise OnnxError(f"input {self.name}: expected {self.dtype.name}, got {value.dtype.name}")
        shape = self.shape
        if shape is not None and (
            len(shape) != value.ndim or any(n not in (None, m) for n, m in zip(shape, value.shape, strict=True))
        ):
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise OnnxError(f"input {self.name}: expected shape ({wanted}), got {value.shape}")


def _input(message: Any, where: str) -> Input:
    kind = message.type.WhichOneof("value")
    if kind != "tensor_type":
        if kind in (None, "sequence_type", "optional_type"):
            return Input(message.name, None, None)
        raise OnnxError(f"{where}: input {message.name} is no tensor, sequence or optional, but a {kind}")
    tensor = message.type.tensor_type
    if tensor.elem_type == 0:
        return Input(message.name, None, None)
    dtype = dtype_of(tensor.elem_type, f"{where}: input {message.name}")
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return Input(message.name, dtype, shape)


class Graph:
    """Nodes in their order, what they want and what they give."""

    def __init__(self, message: Any, versions: Mapping[str, int], where: str, depth: int = 0) -> None:
        if depth > _DEPTH_MAX:
            raise OnnxError(f"{where}: more than {_DEPTH_MAX} graphs inside each other")
        self.constants = {t.name: tensor_of(t, f"{where}: initializer {t.name}") for t in message.initializer}
        if message.sparse_initializer:
            raise OnnxError(f"{where}: sparse initializers are not read")
        self.inputs = tuple(_input(i, where) for i in message.input)
        self.outputs = tuple(o.name for o in message.output)
        self.nodes = tuple(self._node(n, i, versions, where, depth) for i, n in enumerate(message.node))
        given = [*self.constants, *self.outputs, *(i.name for i in self.inputs)]
        for name in [*given, *(name for node in self.nodes for name in (*node.inputs, *node.outputs))]:
            if not isinstance(name, str):  # protobuf gives bytes where they are no UTF-8
                raise OnnxError(f"{where}: expected names in UTF-8, got {name!r}")
        self._require_once(where)
        self.names = {name for node in self.nodes for name in _names(node)} | set(self.outputs)
        self._last = self._last_uses()

    def _require_once(self, where: str) -> None:
        """OnnxError where two nodes give one name, or a node gives the name of an input or initializer."""
        seen = {*self.constants, *(i.name for i in self.inputs)}
        for index, node in enumerate(self.nodes):
            for name in node.outputs:
                if name in seen and name:
                    place = f"{where}: node {index} ({node.name or 'without a name'})"
                    raise OnnxError(f"{place}: its output {name} is given before")
                seen.add(name)

    @staticmethod
    def _node(message: Any, index: int, versions: Mapping[str, int], where: str, depth: int) -> Node:
        domain = "" if message.domain == "ai.onnx" else message.domain
        place = f"{where}: node {index} ({message.name or 'without a name'})"
        if (domain, message.op_type) not in OPERATORS:
            name = f"{domain}.{message.op_type}" if domain else message.op_type
            raise OnnxError(f"{place}: the engine has no operator {name}")
        if domain not in versions:
            raise OnnxError(f"{place}: the model imports no operator set of {domain or 'ai.onnx'}")
        inside = f"{place}, {message.op_type}"
        attributes = {
            a.name: attribute_value(a, lambda g: Graph(g, versions, inside, depth + 1), inside)
            for a in message.attribute
        }
        inputs, outputs = tuple(message.input), tuple(message.output)
        return Node(message.op_type, domain, versions[domain], message.name, inputs, outputs, attributes)

    def _last_uses(self) -> list[list[str]]:
        """For each node the names of this graph that nothing after it reads: their memory is given back."""
        own = {name for node in self.nodes for name in node.outputs} | {i.name for i in self.inputs}
        seen = {*self.outputs, *self.constants, ""}
        last: list[list[str]] = []
        for node in reversed(self.nodes):
            names = _names(node) | set(node.outputs)
            last.append(sorted((names & own) - seen))
            seen |= names
        return last[::-1]

    def run(self, inputs: Sequence[Any], scope: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs for inputs in the graph's order; `scope` has the values of the graphs around it."""
        values = {**scope, **self.constants}
        if len(inputs) > len(self.inputs):
            raise OnnxError(f"expected {len(self.inputs)} inputs, got {len(inputs)}")
        for wanted, value in zip(self.inputs, inputs, strict=False):
            values[wanted.name] = value
        for index, node in enumerate(self.nodes):
            _run_node(index, node, values)
            for name in self._last[index]:
                values.pop(name, None)
        missing = [name for name in self.outputs if name not in values]
        if missing:
            raise OnnxError(f"no node computed the output {missing[0]}")
        return tuple(values[name] for name in self.outputs)


def _names(node: Node) -> set[str]:
    """What a node reads, in the graphs among its attributes too."""
    found = set(node.inputs)
    for value in node.attributes.values():
        for graph in value if isinstance(value, list) else [value]:
            if isinstance(graph, Graph):
                found |= graph.names
    return found


def _run_node(index: int, node: Node, values: dict[str, Any]) -> None:
    place = f"node {index} ({node.name or 'without a name'}), {node.operator}"
    missing = [name for name in node.inputs if name and name not in values]
    if missing:
        raise OnnxError(f"{place}: nothing gives its input {missing[0]}")
    inputs = [values[name] if name else None for name in node.inputs]
    try:
        result = OPERATORS[node.domain, node.operator](replace(node, scope=values), *inputs)
    except OnnxError as error:
        raise OnnxError(f"{place}: {error}") from None
    except MemoryError:
        raise
    except (TensorError, *_ERRORS) as error:
        if isinstance(error, TypeError) and not _takes(node, len(inputs)):
            raise OnnxError(f"{place}: the operator does not take {len(inputs)} inputs") from None
        raise OnnxError(f"{place}: {error}") from error
    results = result if isinstance(result, tuple) else (result,)
    for name, value in zip(node.outputs, results, strict=False):
        if name:
            values[name] = value


def _takes(node: Node, count: int) -> bool:
    try:
        signature(OPERATORS[node.domain, node.operator]).bind(node, *(None,) * count)
    except TypeError:
        return False
    return True


class Model:
    """An ONNX model that runs on the engine.

    `inputs` and `outputs` are names, in the model's order; `run` takes tensors by position, or by name, and gives the
    outputs as a tuple. Operators, element types and stored tensors are checked when the model is made; OnnxError names
    the node and what is wrong.
    """

    def __init__(self, message: Any, where: str = "model") -> None:
        load_operators()
        versions = {("" if s.domain == "ai.onnx" else s.domain): int(s.version) for s in message.opset_import}
        for domain, version in versions.items():
            newest = _NEWEST.get(domain)
            if newest is not None and not 1 <= version <= newest:
                name = domain or "ai.onnx"
                raise OnnxError(f"{where}: expected an operator set of {name} from 1 to {newest}, got {version}")
        self._graph = Graph(message.graph, versions, where)
        self._wanted = tuple(i for i in self._graph.inputs if i.name not in self._graph.constants)
        self.inputs = tuple(i.name for i in self._wanted)
        self.outputs = self._graph.outputs

    def run(self, *inputs: Any, **named: Any) -> tuple[Any, ...]:
        """The outputs; inputs are tensors or arrays. OnnxError for those that do not fit, naming input or node."""
        if any(isinstance(value, dict) for value in inputs):
            raise OnnxError("inputs are given by position or by name, got a dict (hint: run(**inputs))")
        unknown = [name for name in named if name not in {i.name for i in self._graph.inputs}]
        if unknown:
            raise OnnxError(f"the model has no input {unknown[0]}, it has {', '.join(self.inputs)}")
        if len(inputs) > len(self.inputs):
            raise OnnxError(f"expected {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {len(inputs)}")
        given = dict(zip(self.inputs, map(_as_value, inputs), strict=False))
        given |= {name: _as_value(value) for name, value in named.items()}
        values = {**self._graph.constants, **given}
        for wanted in self._graph.inputs:
            if wanted.name not in values:
                raise OnnxError(f"input {wanted.name}: nothing given")
            wanted.check(values[wanted.name])
        return self._graph.run([values[i.name] for i in self._graph.inputs], {})


def _as_value(value: Any) -> Any:
    if value is None or isinstance(value, (tn.Tensor, tuple)):
        return value
    if isinstance(value, list):
        return [_as_value(v) for v in value]
    return tn.asarray(value)


def load(path: str | Path) -> Model:
    """The model in an ONNX file, checked. ImportError without the extra `onnx`, OnnxError for what is no such model."""
    try:
        onnx = import_module("onnx")
    except ImportError:
        raise ImportError("tensor.onnx reads models with the package onnx: pip install 'droveway[onnx]'") from None
    path = Path(path)
    size = path.stat().st_size
    if size > _FILE_BYTES_MAX:
        raise OnnxError(f"{path}: expected at most {_FILE_BYTES_MAX} bytes, got {size}")
    try:
        message = onnx.load_model_from_string(path.read_bytes())
    except Exception as error:  # protobuf's DecodeError, of a package that has no stubs
        raise OnnxError(f"{path}: expected an ONNX model, got a file that does not parse ({error})") from None
    if not message.HasField("graph"):
        raise OnnxError(f"{path}: expected an ONNX model, got a message without a graph")
    return Model(message, str(path))
