"""What this implementation of the array API standard can do."""

from __future__ import annotations

from typing import Any

from tensor import _kernels
from tensor.functions.dtypes import isdtype

__all__ = ["__array_namespace_info__"]


class _Info:
    """The standard's inspection interface."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self) -> Any:
        from tensor.device import Device

        return Device.cpu

    def devices(self) -> list[Any]:
        from tensor.device import devices

        return list(devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        names = {"real floating": "float32", "complex floating": "complex64", "integral": "int64", "indexing": "int64"}
        return {kind: _kernels.Dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        standard = [d for d in _kernels.DTYPES if d.name not in ("float16", "bfloat16")]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> _Info:  # noqa: N807 (the standard's name)
    """The inspection object of the array API standard.

    >>> import tensor as tn
    >>> sorted(tn.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32', 'float64']
    """
    return _Info()
