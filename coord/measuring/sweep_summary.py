"""What the cases of a sweep come to: each measure over the seeds of a set of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """A measure over seeds: mean (the exact sum rounded once, ÷ count), median, least and most; of `seeds` seeds."""

    mean: float
    median: float
    least: float
    most: float
    seeds: int


@dataclass(frozen=True)
class SetSummary:
    """One set of parameters: how many seeds there are, and the measures that are numbers."""

    parameters: Mapping[str, Any]
    seeds: int
    spreads: Mapping[str, Spread]


def summaries(cases: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[SetSummary]:
    """Parameters and metrics of cases, those of one set in a row; a measure that is null counts for no seed."""
    found: list[SetSummary] = []
    group: list[Mapping[str, Any]] = []
    chosen: Mapping[str, Any] | None = None
    for parameters, metrics in cases:
        if chosen is not None and parameters != chosen:
            found.append(_summary(chosen, group))
            group = []
        chosen = parameters
        group.append({name: value for name, value in metrics.items() if type(value) in (int, float)})
    return found if chosen is None else [*found, _summary(chosen, group)]


def _summary(parameters: Mapping[str, Any], group: list[Mapping[str, Any]]) -> SetSummary:
    names = dict.fromkeys(name for metrics in group for name in metrics)
    spreads = {name: spread([metrics[name] for metrics in group if name in metrics]) for name in names}
    return SetSummary(parameters, len(group), spreads)


def spread(values: list[float]) -> Spread:
    """The spread of at least one value, which may stand in any order.

    >>> spread([4, 1, 2, 3])
    Spread(mean=2.5, median=2.5, least=1, most=4, seeds=4)
    """
    ordered = sorted(values)
    n = len(ordered)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return Spread(math.fsum(ordered) / n, middle, ordered[0], ordered[-1], n)
