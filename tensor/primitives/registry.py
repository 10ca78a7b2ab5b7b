"""The table of primitives by name; a family (a module of this folder that holds rows) loads when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TypeVar

from tensor.primitives.primitive import Primitive

__all__ = ["REGISTRY", "all_rows", "families", "register", "row"]

REGISTRY: dict[str, Primitive] = {}

_MACHINERY = {"blocks", "primitive", "registry", "rules", "spec", "twin_call"}
_FIRST = ["elementwise", "comparison", "structural"]  # where operators find their rows
_Row = TypeVar("_Row", bound=Primitive)


def register(primitive: _Row) -> _Row:
    """Adds a row and returns it; ValueError if the name is taken."""
    if primitive.name in REGISTRY:
        raise ValueError(f"primitive {primitive.name}: the registry already has a row of this name")
    REGISTRY[primitive.name] = primitive
    return primitive


def families() -> list[str]:
    """Names of the modules that hold rows, sorted."""
    import pkgutil  # here: it costs 0.3 MB, and most programs name their families

    import tensor.primitives

    return sorted(m.name for m in pkgutil.iter_modules(tensor.primitives.__path__) if m.name not in _MACHINERY)


def row(name: str, family: str | None = None) -> Primitive:
    """The row of that name; loads the family that it is looked for in, then others until one has it. KeyError."""
    found = REGISTRY.get(name)
    if found is not None:
        return found
    for module in [*(_FIRST if family is None else [family]), *families()]:
        import_module(f"tensor.primitives.{module}")
        if name in REGISTRY:
            return REGISTRY[name]
    raise KeyError(f"no primitive is named {name!r}")


def all_rows() -> Iterator[Primitive]:
    """Every row of every family, by name."""
    for module in families():
        import_module(f"tensor.primitives.{module}")
    for name in sorted(REGISTRY):
        yield REGISTRY[name]
