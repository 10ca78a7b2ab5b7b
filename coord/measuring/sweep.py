"""sweep: seeds × parameters, each case a run, on any executor; merged in one order however the workers finish.

What a sweep promises, and its folder: docs/sweeps.md.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from blake3 import blake3

from coord.errors import CaseError, RepeatError
from coord.measuring.metrics import GAP_EVERY
from coord.measuring.sweep_case import Case, Value, canonical, task_bytes
from coord.measuring.sweep_folder import SweepFolder
from coord.measuring.sweep_parameters import cases_of, header_of
from coord.measuring.sweep_pool import Pool, process_pool
from coord.measuring.sweep_summary import SetSummary, Spread, summaries
from coord.sites.scenario import Scenario

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = ["CaseResult", "SetSummary", "Spread", "Sweep", "process_pool", "sweep"]


@dataclass(frozen=True)
class CaseResult:
    """A case and the canonical JSON bytes that it came to: parameters, seed, ticks, metrics, size and root."""

    case: Case
    data: bytes = field(repr=False)

    @property
    def record(self) -> dict[str, Any]:
        """The bytes as a map."""
        record: dict[str, Any] = json.loads(self.data)
        return record


@dataclass(frozen=True)
class Sweep:
    """The finished cases in the order of the sweep: by parameters, then by seed.

    `reused` of them were taken from the folder, `verified` were made twice; `interrupted`: some are missing.
    """

    cases: tuple[CaseResult, ...]
    ticks: int
    reused: int = 0
    verified: int = 0
    interrupted: bool = False

    @cached_property
    def digest(self) -> str:
        """First 16 bytes of BLAKE3 over each case's bytes and a newline: of results.jsonl."""
        return blake3(b"".join(one.data + b"\n" for one in self.cases)).digest(16).hex()

    def summaries(self) -> list[SetSummary]:
        """Mean, median, least and most of each measure over the seeds of each set of parameters."""
        return summaries((one.case.parameters, one.record["metrics"]) for one in self.cases)


def sweep(
    scenario: Scenario | str | Path,
    seeds: Iterable[int],
    parameters: Mapping[str, Sequence[Value]] | None = None,
    ticks: int = 200,
    *,
    executor: Executor | Callable[[], Executor] | None = None,
    folder: str | Path | None = None,
    verify: int = 0,
    retries: int = 2,
    gap_every: int = GAP_EVERY,
    sync: Literal["fsync", "os"] = "os",
    should_stop: Callable[[], bool] | None = None,
    on_case: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Run a scenario for every combination of parameters and seed.

    parameters: dotted names of keys of SITE.toml, each with its values: {"plan.planner": ["greedy", "swap"]}.
    executor: any `concurrent.futures.Executor`, used and left open; or a function that makes one (`process_pool(4)`),
    which is asked again when its workers died; None: one case after the other, here.
    folder: gets the ledger and the result of each case (docs/sweeps.md); finished cases that are there are taken.
    A case whose worker was lost is run again, at most `retries` times. `verify` cases, spread evenly, are run twice.
    gap_every: as of `coord.metrics`. `should_stop` is asked between cases: the sweep then ends with those at hand, and
    `Sweep.interrupted` is true. `on_case` is called with finished cases and all cases.

    Raises ParameterError before anything runs; CaseError for a case that fails (the folder keeps the finished ones);
    RepeatError where a case that was made again came to other bytes; OutputError for the folder.

    >>> site = Scenario.loads('version = 1\\nname = "two"\\n[agents]\\nrandom = 2\\n[zones]\\nrandom = 3\\n')
    >>> done = sweep(site, range(3), {"plan.planner": ["greedy", "swap"]}, 50)
    >>> [str(one.case) for one in done.cases][:2], len(done.cases)
    (['plan.planner=greedy, seed 0', 'plan.planner=greedy, seed 1'], 6)
    >>> done.summaries()[1].spreads["services"].mean
    4.0
    """
    site = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    for name, number in (("ticks", ticks), ("verify", verify), ("retries", retries), ("gap_every", gap_every)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(f"sweep: {name} must be a whole number of at least 0, got {number!r}")
    grid = {key: list(values) for key, values in (parameters or {}).items()}
    chosen = list(seeds)
    cases = cases_of(site, chosen, grid)
    with ExitStack() as stack:
        kept = None
        if folder is not None:
            kept = stack.enter_context(
                SweepFolder.opened(Path(folder), header_of(site, chosen, grid, ticks, gap_every))
            )
        work = _Work(site, cases, ticks, gap_every, sync, kept)
        pool = Pool(executor, stack)
        return work.run(pool, verify, retries, should_stop or (lambda: False), on_case or (lambda done, size: None))


class _Work:
    """The cases of one sweep on their way."""

    def __init__(
        self, site: Scenario, cases: Sequence[Case], ticks: int, gap_every: int, sync: str, folder: SweepFolder | None
    ) -> None:
        self._site, self._cases, self._ticks = site, cases, ticks
        self._gap_every, self._sync, self._folder = gap_every, sync, folder
        self._results: dict[int, bytes] = {}

    def run(
        self,
        pool: Pool,
        verify: int,
        retries: int,
        should_stop: Callable[[], bool],
        on_case: Callable[[int, int], None],
    ) -> Sweep:
        for number, case in enumerate(self._cases if self._folder is not None else ()):
            assert self._folder is not None
            found = self._folder.result(case)
            if found is not None:
                self._results[number] = found
            else:
                self._folder.clear(case)
        reused = len(self._results)
        todo = [number for number in range(len(self._cases)) if number not in self._results]
        runs = None if self._folder is None else self._folder.runs

        def accept(number: int, data: bytes) -> None:
            self._results[number] = data
            if self._folder is not None:
                self._folder.keep(self._cases[number], data)
            on_case(len(self._results), len(self._cases))

        on_case(reused, len(self._cases))
        stopped = self._drain(pool, todo, runs, retries, should_stop, accept)
        again: list[int] = []
        if not stopped and verify:
            count = min(verify, len(self._cases))
            again = [i * len(self._cases) // count for i in range(count)]
            with nullcontext() if runs is None else TemporaryDirectory(dir=runs, prefix=".verify-") as place:
                where = None if place is None else Path(place)
                stopped = self._drain(pool, again, where, retries, should_stop, self._compare)
        if not stopped and self._folder is not None:
            self._folder.finish([self._results[number] for number in range(len(self._cases))])
        return Sweep(
            cases=tuple(CaseResult(self._cases[number], self._results[number]) for number in sorted(self._results)),
            ticks=self._ticks,
            reused=reused,
            verified=0 if stopped else len(again),
            interrupted=stopped,
        )

    def _compare(self, number: int, data: bytes) -> None:
        before = self._results[number]
        if data != before:
            raise RepeatError(
                str(self._cases[number]), f"made again it came to other bytes: {_first_difference(before, data)}"
            )

    def _drain(
        self, pool: Pool, todo: Sequence[int], runs: Path | None, retries: int, should_stop: Callable[[], bool],
        accept: Callable[[int, bytes], None],
    ) -> bool:  # fmt: skip
        """Run cases and accept what they come to, as they finish; whether it was told to stop."""
        from concurrent.futures import FIRST_COMPLETED, wait

        pending, lost = deque(todo), dict.fromkeys(todo, 0)
        running: dict[Future[bytes], int] = {}
        suspects: set[int] = set()  # of a pool that broke: one at a time, so that the one that breaks it is found
        stopped = False
        try:
            while (pending and not stopped) or running:
                stopped = stopped or should_stop()
                while pending and not stopped and len(running) < (1 if suspects else pool.at_once):
                    number = pending.popleft()
                    try:
                        running[pool.submit(self._task(number, runs))] = number
                    except RuntimeError as error:  # the pool broke meanwhile, or is closed
                        self._lost(number, error, lost, retries, pool)
                        pending.appendleft(number)
                for future in list(running) if stopped else ():
                    if future.cancel():
                        del running[future]
                if not running:
                    continue
                done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    number = running.pop(future)
                    try:
                        data = future.result()
                    except Exception as error:
                        alone = number in suspects or not running
                        suspects.add(number)
                        self._lost(number, error, lost, retries, pool, count=alone)
                        pending.append(number)
                        continue
                    suspects.discard(number)
                    accept(number, self._opened(number, data))
        except Exception:
            wait([future for future in running if not future.cancel()])  # they write into the folder
            raise
        finally:
            for future in running:
                future.cancel()
        return stopped

    def _lost(
        self, number: int, error: BaseException, lost: dict[int, int], retries: int, pool: Pool, *, count: bool = True
    ) -> None:
        """A case did not come back, for a reason that is not its own."""
        text = str(error) or type(error).__name__
        if not pool.renew(error):
            detail = f"its executor is broken: {text} (hint: give a function that makes one, such as process_pool(4))"
            raise CaseError(str(self._cases[number]), detail) from error
        lost[number] += count
        if lost[number] > retries:
            main = 'if __name__ == "__main__": (docs/sweeps.md))'
            hint = "" if self._results else f" (hint: none ever came back; a program that makes processes needs {main}"
            detail = f"its worker was lost {lost[number]} times: {text}{hint}"
            raise CaseError(str(self._cases[number]), detail) from error

    def _task(self, number: int, runs: Path | None) -> bytes:
        return task_bytes(self._site, self._cases[number], self._ticks, self._gap_every, runs, self._sync)

    def _opened(self, number: int, data: bytes) -> bytes:
        """The result in what a worker returned. CaseError for what is none, and for the error it tells."""
        case = self._cases[number]
        try:
            told = json.loads(data)
            if "error" in told:
                kind = RepeatError if told["repeat"] else CaseError
                raise kind(str(case), told["error"])
            result = told["result"]
            good = (result["parameters"], result["seed"]) == (dict(case.parameters), case.seed)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CaseError(str(case), "its worker returned bytes that are no result") from error
        if not good:
            raise CaseError(str(case), "its worker returned the result of another case")
        return canonical(result)


def _first_difference(before: bytes, after: bytes) -> str:
    a, b = _flat(json.loads(before)), _flat(json.loads(after))
    name = next(name for name in [*a, *b] if a.get(name) != b.get(name))
    return f"{name} {a.get(name)!r}, then {b.get(name)!r}"


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record.get("metrics", {}), **{name: value for name, value in record.items() if name != "metrics"}}
