"""Nearest neighbours over compressed vectors, and order by depth, with the same bits on every machine.

Importing this package loads no numpy; the modules that compute do, when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tensor._source_folder import load_kernels

if TYPE_CHECKING:
    from vector.depth import depth_order
    from vector.errors import (
        CidMismatch,
        IndexFileError,
        IndexSaveError,
        UnsupportedIndex,
        VectorError,
        VectorKeyError,
        VectorTypeError,
        VectorValueError,
    )
    from vector.exact import exact_search
    from vector.id_map_index import IdMapIndex
    from vector.metrics import cosine, dot, l2, norm_f32, normalize_f32
    from vector.recall import recall_at_k, recall_at_k_milli
    from vector.rotation import rotate_f32, unrotate_f32
    from vector.turbo_index import TurboIndex

_kernels = load_kernels("vector")

# Public name → module that defines it.
_HOMES = {
    "CidMismatch": "errors",
    "IdMapIndex": "id_map_index",
    "IndexFileError": "errors",
    "IndexSaveError": "errors",
    "TurboIndex": "turbo_index",
    "UnsupportedIndex": "errors",
    "VectorError": "errors",
    "VectorKeyError": "errors",
    "VectorTypeError": "errors",
    "VectorValueError": "errors",
    "cosine": "metrics",
    "depth_order": "depth",
    "dot": "metrics",
    "exact_search": "exact",
    "l2": "metrics",
    "norm_f32": "metrics",
    "normalize_f32": "metrics",
    "recall_at_k": "recall",
    "recall_at_k_milli": "recall",
    "rotate_f32": "rotation",
    "unrotate_f32": "rotation",
}

__all__ = [
    "CidMismatch",
    "IdMapIndex",
    "IndexFileError",
    "IndexSaveError",
    "TurboIndex",
    "UnsupportedIndex",
    "VectorError",
    "VectorKeyError",
    "VectorTypeError",
    "VectorValueError",
    "build_info",
    "cosine",
    "depth_order",
    "dot",
    "exact_search",
    "l2",
    "norm_f32",
    "normalize_f32",
    "recall_at_k",
    "recall_at_k_milli",
    "rotate_f32",
    "unrotate_f32",
]


def build_info() -> dict[str, object]:
    """How this build computes: instruction set and compiler.

    >>> sorted(build_info())
    ['compiler', 'isa']
    """
    return {"isa": _kernels.isa(), "compiler": _kernels.compiler()}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(import_module(f"vector.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'vector' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
