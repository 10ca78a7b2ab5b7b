"""Captured functions: what a function does to tensors as a list of steps, fused, planned and run in one arena.

`tensor.capture` makes them; `load` reads one that was saved.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Captured": "tensor.graph.capture",
    "Graph": "tensor.graph.graph",
    "LoadedGraph": "tensor.graph.files",
    "Plan": "tensor.graph.plan",
    "load": "tensor.graph.files",
}

__all__ = ["Captured", "Graph", "LoadedGraph", "Plan", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tensor.graph' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
