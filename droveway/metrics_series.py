"""Measures over time in bounded memory: neighbouring ticks share a column when there are too many."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

COLUMNS_MAX: Final = 600


@dataclass
class Span:
    """What a measure was in one column: lowest, highest, sum and count of its values."""

    low: float
    high: float
    total: float
    count: int

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return self.total / self.count

    def join(self, other: "Span | None") -> "Span":
        """Both together."""
        if other is None:
            return self
        return Span(
            min(self.low, other.low), max(self.high, other.high), self.total + other.total, self.count + other.count
        )


@dataclass
class Column:
    """Some planned ticks in a row: the first of them, and a span for each measure that had a value."""

    tick: int
    spans: dict[str, Span]

    def join(self, other: "Column") -> "Column":
        """This column and the next one."""
        spans = {name: span.join(other.spans.get(name)) for name, span in self.spans.items()}
        return Column(self.tick, {**other.spans, **spans})


@dataclass
class Series:
    """Columns in the order of time, at most 600: when they are full, each takes in the next one.

    >>> series = Series()
    >>> for tick in range(5000):
    ...     series.add(tick, [("gap", tick % 2)])
    >>> len(series.columns), series.columns[1].tick, series.columns[1].spans["gap"].mean
    (313, 16, 0.5)
    """

    columns: list[Column] = field(default_factory=list)
    last_tick: int = 0
    ticks_a_column: int = 1  # planned ticks
    _open: int = 0  # planned ticks in the last column
    _before: int | None = None  # the tick before
    _services: int = 0  # so far

    def add(self, tick: int, values: Iterable[tuple[str, float | None]]) -> None:
        """One planned tick; a measure without a value leaves no span."""
        column = Column(tick, {name: Span(value, value, value, 1) for name, value in values if value is not None})
        self.last_tick = tick
        if self.columns and self._open < self.ticks_a_column:
            self.columns[-1] = self.columns[-1].join(column)
            self._open += 1
            return
        if len(self.columns) == COLUMNS_MAX:
            pairs = zip(self.columns[::2], self.columns[1::2], strict=True)
            self.columns = [first.join(second) for first, second in pairs]
            self.ticks_a_column *= 2
        self.columns.append(column)
        self._open = 1

    def add_tick(self, one: Any) -> None:
        """A `coord.TickMetrics`, as the panels show it; ways are by tick, services so far."""
        span = None if self._before is None else one.tick - self._before
        self._before = one.tick
        self._services += one.services
        self.add(
            one.tick,
            [
                ("assigned", one.assigned / one.ready if one.ready else None),
                ("idle_p99", one.idle_p99_ticks),
                ("objective", one.objective / 65536),
                ("gap", one.gap),
                ("separation", one.separation_m),
                ("sharing", one.cell_conflicts),
                ("travel", None if span is None else one.travel_m / span),
                ("services", self._services),
                ("conflicts", one.conflicts),
            ],
        )

    def of(self, name: str) -> list[tuple[int, Span]]:
        """Tick and span of each column in which the measure had a value."""
        return [(column.tick, column.spans[name]) for column in self.columns if name in column.spans]
