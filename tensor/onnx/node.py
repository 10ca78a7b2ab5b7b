"""One node of an ONNX graph, and the table that says which function computes which operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

__all__ = ["OPERATORS", "Node", "load_operators", "operator", "require_places"]

Tensor = Any
Function = Callable[..., Any]

# (domain, operator) → function of the node and its inputs; absent inputs are None.
OPERATORS: dict[tuple[str, str], Function] = {}

_FAMILIES = (
    "attention control elementwise images losses normalizing placing products quantising recurrent reducing shapes "
    "signals training windows"
)


@dataclass(frozen=True)
class Node:
    """An operator with its attributes, decoded: numbers, str, Tensors, graphs, and lists of them.

    `version` is the operator set's; `scope` holds the values that graphs among the attributes can see.
    """

    operator: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    scope: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or the default."""
        return self.attributes.get(name, default)

    def require(self, name: str) -> Any:
        """The attribute, or ValueError."""
        if name not in self.attributes:
            raise ValueError(f"the attribute {name} is missing")
        return self.attributes[name]

    def run(self, graph: Any, *inputs: Any) -> tuple[Any, ...]:
        """The outputs of a graph among the attributes."""
        outputs: tuple[Any, ...] = graph.run(inputs, self.scope)
        return outputs


_PLACES_MAX = 2**24  # numbers of a table that is made in Python


def require_places(*counts: int) -> None:
    """ValueError for a table of positions or weights that is too large: models may claim any size."""
    places = math.prod(counts)
    if places > _PLACES_MAX:
        raise ValueError(f"a table of {' by '.join(map(str, counts))} places is above {_PLACES_MAX}")


def operator(*names: str, domain: str = "") -> Callable[[Function], Function]:
    """Enters a function into the table under the names of operators."""

    def enter(function: Function) -> Function:
        for name in names:
            OPERATORS[domain, name] = function
        return function

    return enter


def load_operators() -> None:
    """Fills the table."""
    for family in _FAMILIES.split():
        import_module(f"tensor.onnx.{family}")
