"""Deterministic arithmetic: kernels with one result on every machine, digests, budgets, counter-based random numbers.

Importing this package loads no numpy; the modules that compute on arrays do, when they are first used.
"""

from importlib import import_module
from typing import Any

from tensor._source_folder import load_kernels

_kernels = load_kernels("tensor")

# Public name → module that defines it; a module that is public itself stands for itself.
_PUBLIC = {
    "BudgetExceeded": "tensor.errors",
    "ComputeBudget": "tensor.memory",
    "DtypeError": "tensor.errors",
    "ReadOnlyError": "tensor.errors",
    "ShapeError": "tensor.errors",
    "TensorError": "tensor.errors",
    "budget": "tensor.memory",
    "digest": "tensor.tensor_digest",
    "elementary": "tensor.elementary",
    "memory": "tensor.memory",
    "product": "tensor.product",
    "random": "tensor.random",
    "reduction": "tensor.reduction",
}

__all__ = [
    "BudgetExceeded",
    "ComputeBudget",
    "DtypeError",
    "ReadOnlyError",
    "ShapeError",
    "TensorError",
    "budget",
    "build_info",
    "digest",
    "elementary",
    "memory",
    "product",
    "random",
    "reduction",
]


def build_info() -> dict[str, object]:
    """How this build computes: instruction set in use and best available, compiler, threads.

    >>> sorted(build_info())
    ['compiler', 'isa', 'isa_best', 'threads']
    """
    return {
        "isa": _kernels.isa(),
        "isa_best": _kernels.isa_best(),
        "compiler": _kernels.compiler(),
        "threads": _kernels.threads(),
    }


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tensor' has no attribute {name!r}")
    module = import_module(_PUBLIC[name])
    value = module if module.__name__ == f"tensor.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
