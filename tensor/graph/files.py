"""Saved graphs: a safetensors file of the constants, the graph as text in its metadata (docs/formats/graph.md)."""

from __future__ import annotations

import os
from typing import Any

from tensor import _kernels
from tensor.autograd.pytree import TreeDef, tree_flatten, tree_unflatten
from tensor.errors import TensorFileError
from tensor.graph.graph import Graph
from tensor.graph.plan import Plan
from tensor.graph.text import GraphText, decode, encode
from tensor.graph.variant import Variant
from tensor.io.safetensors import SafetensorsFile, write_safetensors
from tensor.primitives.spec import Spec

__all__ = ["LoadedGraph", "load", "save_variant"]

_MEMBER = "droveway-graph/1"

Tensor = Any


def _said(x: object) -> str:
    """Type, shape and device of a tensor or Spec, the type of anything else."""
    if not isinstance(x, _kernels.Tensor | Spec):
        return type(x).__name__
    where = "" if str(x.device) == "cpu" else f" on device {x.device}"
    return f"{Spec(x.shape, x.dtype)!r}{where}"


def save_variant(path: str | os.PathLike[str], variant: Variant, flat: list[Any], treedef: TreeDef) -> None:
    """Writes the graph of a variant, which was made for these arguments."""
    if variant.streams:
        raise ValueError(
            f"{variant.source.name}: it draws from a stream that it finds outside, and cannot be saved "
            f"(hint: make the key an argument)"
        )
    count = 0
    leaves = []
    for x in flat:
        if isinstance(x, _kernels.Tensor):
            leaves.append((count,))
            count += 1
        else:
            leaves.append(x)
    results: list[Any] = []
    for leaf in variant.result:
        results.append((sum(isinstance(r, tuple) for r in results),) if isinstance(leaf, tuple) else leaf)
    _save(path, variant.source, (treedef, leaves), (variant.out_tree, results))


def _save(
    path: str | os.PathLike[str], graph: Graph, arguments: tuple[TreeDef, list[Any]], result: tuple[TreeDef, list[Any]]
) -> None:
    text = encode(GraphText(graph, [graph.specs[v] for v in graph.constants], arguments, result))
    tensors = {f"c{i}": x.detach().contiguous() for i, x in enumerate(graph.constants.values())}
    write_safetensors(path, tensors, {_MEMBER: text})


class LoadedGraph:
    """A graph from a file; made by `load`. Called as the captured function was, with tensors of the same shapes."""

    def __init__(self, text: GraphText, fusion: bool, max_bytes: int | None) -> None:
        self._arguments = text.arguments
        self._tree, self._leaves = text.result
        self._variant = Variant(text.graph, self._tree, self._leaves, max_bytes, fusion)
        self.__name__ = text.graph.name
        graph = self._variant.source
        fixed = set(graph.constants)
        for step in graph.steps:
            if step.is_view and step.inputs[0] in fixed:
                fixed.update(step.outputs)
        self._fixed = [v in fixed for v in graph.outputs]  # results that lie in constants, which no caller may change

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat, treedef = tree_flatten((args, kwargs))
        expected, leaves = self._arguments
        name = self.__name__
        if treedef != expected:
            raise TypeError(f"graph {name}: arguments must be a tree {expected}, got {treedef}")
        tensors = []
        specs = self._variant.source.specs
        for at, (x, leaf) in enumerate(zip(flat, leaves, strict=True)):
            if not isinstance(leaf, tuple):
                if type(x) is not type(leaf) or repr(x) != repr(leaf):
                    raise TypeError(
                        f"graph {name}: leaf {at} of the arguments belongs to the graph: {leaf!r}, got {x!r}"
                    )
                continue
            spec = specs[self._variant.source.inputs[leaf[0]]]
            if not isinstance(x, _kernels.Tensor) or (x.shape, x.dtype, str(x.device)) != (
                spec.shape,
                spec.dtype,
                str(spec.device),
            ):
                raise TypeError(f"graph {name}: leaf {at} of the arguments must be {_said(spec)}, got {_said(x)}")
            tensors.append(x.detach() if x.requires_grad else x)
        outs = (x.clone() if fixed else x for x, fixed in zip(self._variant.run(tensors), self._fixed, strict=True))
        return tree_unflatten(self._tree, [next(outs) if isinstance(r, tuple) else r for r in self._leaves])

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The same as a call."""
        return self(*args, **kwargs)

    def graph(self) -> Graph:
        """The graph as it runs."""
        return self._variant.graph

    def plan(self) -> Plan:
        """What a run takes."""
        return self._variant.plan

    def hash(self) -> str:
        """The hash that the captured function had."""
        return self._variant.source.hash()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it again: the same bytes."""
        _save(path, self._variant.source, self._arguments, (self._tree, self._leaves))


def load(path: str | os.PathLike[str], *, fusion: bool = True, max_bytes: int | None = None) -> LoadedGraph:
    """A graph that `Captured.save` wrote: with the same hash, and results of the same bits.

    Nothing in the file is code; its constants are mapped, and read when a run reads them. Raises TensorFileError for a
    file that is damaged or hostile, BudgetExceeded if no plan fits into max_bytes, OSError.

    >>> import os, tempfile
    >>> import tensor as tn
    >>> f = tn.capture(lambda x: {"doubled": x * 2.0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "f.graph")
    ...     f.save(path, tn.zeros(2))
    ...     g = load(path)
    >>> g(tn.asarray([1.0, 2.0]))["doubled"].tolist(), g.hash() == f.hash(tn.zeros(2))
    ([2.0, 4.0], True)
    """
    file = SafetensorsFile(path)

    def fail(field: str, expected: str, found: str) -> TensorFileError:
        return TensorFileError(file.path, 8, field, expected, found)

    if list(file.metadata) != [_MEMBER]:
        raise fail("__metadata__", f"{_MEMBER!r} alone", repr(list(file.metadata)[:3]))
    text = decode(file.metadata[_MEMBER], fail)
    names = [f"c{i}" for i in range(len(text.constants))]
    if sorted(file.entries) != sorted(names):
        raise fail("tensors", f"{len(names)} constants, c0 upwards", repr(sorted(file.entries)[:5]))
    for name, spec, v in zip(names, text.constants, list(text.graph.constants), strict=True):
        entry = file.entries[name]
        if (entry.dtype, entry.shape) != (spec.dtype.name, spec.shape):
            raise fail(name, repr(spec), f"{entry.dtype}{list(entry.shape)}")
        text.graph.constants[v] = file.tensor(name)
    text.graph.verify()
    return LoadedGraph(text, fusion, max_bytes)
