"""Learning rates by step: functions from the number of a step, counted from 0, to a float.

The same bits on every machine: cosines and powers are the engine's own in float64. Give `optimizer.groups[i]["lr"]` (or
what your step reads) the value of each step.

>>> rate = cosine_warmup_lr(1.0, warmup_steps=2, steps=6)
>>> [round(rate(k), 3) for k in range(8)]
[0.0, 0.5, 1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import index
from typing import TypeAlias

__all__ = [
    "Schedule",
    "chained_schedule",
    "constant_lr",
    "cosine_lr",
    "cosine_warmup_lr",
    "cyclical_lr",
    "inverse_sqrt_lr",
    "linear_warmup_lr",
    "polynomial_lr",
]

Schedule: TypeAlias = Callable[[int], float]


def _rate(name: str, what: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}: {what} must be a finite number from 0, got {value!r}")
    return float(value)


def _steps(name: str, what: str, value: int, least: int = 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or index(value) < least:
        raise ValueError(f"{name}: {what} must be an int from {least}, got {value!r}")
    return index(value)


def _at(step: int) -> int:
    if isinstance(step, bool) or not hasattr(step, "__index__") or index(step) < 0:
        raise ValueError(f"schedule: a step is an int from 0, got {step!r}")
    return index(step)


def _float64(row: str, *values: float) -> float:
    """A function of the engine on numbers."""
    from tensor.functions.creation import asarray
    from tensor.primitives.rules import call

    return float(call(row, *(asarray(v, dtype="float64") for v in values)).item())


def constant_lr(value: float) -> Schedule:
    """The same at every step.

    >>> constant_lr(0.1)(1000)
    0.1
    """
    rate = _rate("constant_lr", "value", value)

    def at(step: int) -> float:
        _at(step)
        return rate

    return at


def cosine_lr(initial: float, steps: int, *, end: float = 0.0) -> Schedule:
    """end + (initial − end)·(1 + cos(π·t)) / 2 for t = step / steps up to 1 (Loshchilov and Hutter 2017).

    >>> [cosine_lr(1.0, 4)(k) for k in (0, 2, 4, 9)]
    [1.0, 0.5, 0.0, 0.0]
    """
    first, last = _rate("cosine_lr", "initial", initial), _rate("cosine_lr", "end", end)
    total = _steps("cosine_lr", "steps", steps)

    def at(step: int) -> float:
        k = min(_at(step), total)
        if 2 * k == total:  # where π / 2 has no exact float
            return last + (first - last) * 0.5
        return last + (first - last) * (0.5 * (1.0 + _float64("cos", math.pi * (k / total))))

    return at


def linear_warmup_lr(peak: float, warmup_steps: int) -> Schedule:
    """peak · step / warmup_steps up to peak, and peak from there on.

    >>> [linear_warmup_lr(1.0, 4)(k) for k in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """
    top, warm = _rate("linear_warmup_lr", "peak", peak), _steps("linear_warmup_lr", "warmup_steps", warmup_steps)
    return lambda step: top * min(_at(step), warm) / warm


def cosine_warmup_lr(peak: float, *, warmup_steps: int, steps: int, end: float = 0.0) -> Schedule:
    """`linear_warmup_lr` for warmup_steps, then `cosine_lr` from peak to end at the last of all `steps`.

    ValueError unless steps is above warmup_steps.

    >>> cosine_warmup_lr(2.0, warmup_steps=1, steps=3)(2)
    1.0
    """
    warm = _steps("cosine_warmup_lr", "warmup_steps", warmup_steps)
    rest = _steps("cosine_warmup_lr", "steps", steps, warm + 1) - warm
    return chained_schedule([linear_warmup_lr(peak, warm), cosine_lr(peak, rest, end=end)], [warm])


def polynomial_lr(initial: float, steps: int, *, end: float = 0.0, power: float = 1.0) -> Schedule:
    """end + (initial − end)·(1 − t)^power for t = step / steps up to 1.

    >>> [polynomial_lr(1.0, 4, power=2.0)(k) for k in (0, 2, 9)]
    [1.0, 0.25, 0.0]
    """
    first, last = _rate("polynomial_lr", "initial", initial), _rate("polynomial_lr", "end", end)
    total, exponent = _steps("polynomial_lr", "steps", steps), _rate("polynomial_lr", "power", power)

    def at(step: int) -> float:
        left = 1.0 - min(_at(step), total) / total
        return last + (first - last) * (left if exponent == 1 else _float64("pow", left, exponent))

    return at


def inverse_sqrt_lr(initial: float, *, warmup_steps: int = 1) -> Schedule:
    """initial · √(warmup_steps / step), step being at least 1: initial at warmup_steps, higher before.

    >>> [inverse_sqrt_lr(1.0, warmup_steps=4)(k) for k in (0, 4, 16)]
    [2.0, 1.0, 0.5]
    """
    first, warm = _rate("inverse_sqrt_lr", "initial", initial), _steps("inverse_sqrt_lr", "warmup_steps", warmup_steps)
    return lambda step: first * math.sqrt(warm) / math.sqrt(max(_at(step), 1))


def cyclical_lr(low: float, high: float, half_period: int, *, halving: bool = False) -> Schedule:
    """From low to high in half_period steps and back, again and again (Smith 2017); halving: each top half as high.

    >>> [cyclical_lr(0.0, 1.0, 2)(k) for k in range(6)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """
    bottom, top = _rate("cyclical_lr", "low", low), _rate("cyclical_lr", "high", high)
    half = _steps("cyclical_lr", "half_period", half_period)

    def at(step: int) -> float:
        cycle, within = divmod(_at(step), 2 * half)
        height = min(within, 2 * half - within) / half
        return bottom + (top - bottom) * (math.ldexp(height, -cycle) if halving else height)

    return at


def chained_schedule(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after another, each counting from its own start: the next one begins at each boundary.

    ValueError unless there is one boundary less than schedules, in ascending order.

    >>> rate = chained_schedule([linear_warmup_lr(1.0, 2), constant_lr(0.25)], [3])
    >>> [rate(k) for k in range(5)]
    [0.0, 0.5, 1.0, 0.25, 0.25]
    """
    parts, starts = list(schedules), [0, *boundaries]
    if not parts or len(starts) != len(parts) or any(a >= b for a, b in pairwise(starts)):
        raise ValueError(
            f"chained_schedule: {len(parts)} schedules need {max(len(parts) - 1, 0)} ascending boundaries from 1, "
            f"got {list(boundaries)}"
        )

    def at(step: int) -> float:
        k = _at(step)
        which = sum(start <= k for start in starts) - 1
        return parts[which](k - starts[which])

    return at
