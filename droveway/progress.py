"""A bar that grows, on a terminal only: nothing is imported and nothing printed where stderr is a file or a pipe."""

import sys
from types import TracebackType
from typing import Any, Self


class Progress:
    """A context manager; call `update(done, total)`. Imports rich on a terminal, does nothing elsewhere.

    >>> with Progress("ticks", quiet=True) as progress:
    ...     progress.update(1, 10)
    """

    def __init__(self, label: str, *, quiet: bool = False) -> None:
        self.label = label
        self.shown = not quiet and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn(self.label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int | None) -> None:
        """`done` of `total` units are finished; None while the total is unknown."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
