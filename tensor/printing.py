"""Tensors as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["text"]

_ELEMENTS_MAX = 1000  # more are shown by the first and last of each dimension
_EDGE = 3
_WIDTH = 100


def text(x: Tensor) -> str:
    """`tensor([[1.0, 2.0], [3.0, 4.0]], dtype=float32)`: what repr gives; long dimensions are cut in the middle.

    >>> import tensor as tn
    >>> tn.asarray([[1.0, 2.5], [3.0, -4.0]])
    tensor([[ 1. ,  2.5],
            [ 3. , -4. ]], dtype=float32)
    >>> print(repr(tn.zeros((2, 1, 2))).replace("\\n\\n", "\\n(empty)\\n"))
    tensor([[[0., 0.]],
    (empty)
            [[0., 0.]]], dtype=float32)
    """
    suffix = f", dtype={x.dtype}"
    if x.is_traced:
        return f"<traced tensor {x.dtype}{list(x.shape)}>"
    if x.device != "cpu":
        suffix += f", device={str(x.device)!r}"
    if x.requires_grad:
        suffix += f", made by {x.node.primitive.name}" if x.node is not None else ", requires_grad=True"
    if x.size == 0:
        return f"tensor([]{f', shape={x.shape}' if x.ndim > 1 else ''}{suffix})"
    plain = x.detach()
    cut = x.size > _ELEMENTS_MAX
    numbers = _strings([*_leaves(plain, cut)])
    body = _block(plain.shape, cut, iter(numbers), len("tensor("))
    return f"tensor({body}{suffix})"


def _picked(n: int, cut: bool) -> list[int | None]:
    """The indices of a dimension that are shown; None stands for what is left out."""
    if not cut or n <= 2 * _EDGE:
        return list(range(n))
    return [*range(_EDGE), None, *range(n - _EDGE, n)]


def _leaves(x: Tensor, cut: bool) -> list[Any]:
    if x.ndim == 0:
        return [x.item()]
    return [leaf for i in _picked(x.shape[0], cut) if i is not None for leaf in _leaves(x[i], cut)]


def _strings(values: list[Any]) -> list[str]:
    """All numbers with one width, floats with as few digits as tell them apart, at most six significant ones."""
    if isinstance(values[0], float):
        parts = [_float(v) for v in values]
        if any("e" in p for p in parts):
            parts = [v if v in ("nan", "inf", "-inf") else f"{float(v):.6e}" for v in map(repr, values)]
        else:
            after = max((len(p) - p.index(".") for p in parts if "." in p), default=0)
            parts = [p + " " * (after - (len(p) - p.index("."))) if "." in p else p for p in parts]
    elif isinstance(values[0], complex):
        parts = [f"{v:.6g}" for v in values]
    else:
        parts = [str(v) for v in values]
    if len(parts) == 1:
        return [parts[0].strip()]
    width = max(map(len, parts))
    return [p.rjust(width) for p in parts]


def _float(v: float) -> str:
    if not math.isfinite(v):
        return repr(v)
    short = f"{v:.6g}"
    return short if "e" in short or "." in short else short + "."


def _block(shape: tuple[int, ...], cut: bool, numbers: Any, indent: int) -> str:
    if not shape:
        return str(next(numbers))
    entries = ["..." if i is None else _block(shape[1:], cut, numbers, indent + 1) for i in _picked(shape[0], cut)]
    if len(shape) > 1:
        return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(entries) + "]"
    lines: list[str] = []
    for entry in entries:
        if lines and len(lines[-1]) + len(entry) + 2 + indent < _WIDTH:
            lines[-1] += ", " + entry
        else:
            lines.append(entry)
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
