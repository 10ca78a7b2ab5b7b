"""sweep: one result for a case whatever runs it and in whatever order; lost workers, folders, refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from coord import Scenario, audit, metrics, process_pool, simulate, sweep
from coord.errors import CaseError, OutputError, ParameterError, RepeatError
from coord.measuring.sweep_case import canonical
from coord.measuring.sweep_parameters import swept_keys

SITE = Scenario.loads(
    'version = 1\nname = "field"\n[agents]\nrandom = 4\nspeed = 6\n[zones]\nrandom = 9\n[plan]\nevery_ticks = 2\n'
)
GRID = {"plan.planner": ["swap", "greedy"], "agents.random": [3, 5]}
SEEDS = [3, 0, 8]


@pytest.fixture(scope="module")
def expected() -> bytes:
    return lines(sweep(SITE, SEEDS, GRID, 30))


def lines(done: Any) -> bytes:
    return b"".join(one.data + b"\n" for one in done.cases)


class InTurn(Executor):
    """Runs a case when it is asked for, the last one first; `twist` changes what comes back of a call."""

    def __init__(self, twist: Callable[[int, bytes], bytes] = lambda call, data: data) -> None:
        self.twist, self.calls = twist, 0
        self.waiting: list[tuple[Future[Any], Any]] = []
        self.lock = threading.Lock()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self.lock:
            self.waiting.append((future, lambda: fn(*args)))
        threading.Timer(0.02, self.work).start()
        return future

    def work(self) -> None:
        with self.lock:
            if not self.waiting:
                return
            future, call = self.waiting.pop()
            if not future.set_running_or_notify_cancel():
                return
            self.calls += 1
            number = self.calls
            try:
                future.set_result(self.twist(number, call()))
            except Exception as error:
                future.set_exception(error)


def test_cases_come_in_the_order_of_parameters_and_seeds_with_their_own_metrics(expected: bytes) -> None:
    records = [json.loads(line) for line in expected.splitlines()]
    order = [
        ({"plan.planner": planner, "agents.random": agents}, seed)
        for (planner, agents), seed in product(product(*GRID.values()), SEEDS)
    ]
    assert [(record["parameters"], record["seed"]) for record in records] == order
    from coord import Scorer

    for record in records[::4]:
        site = SITE.with_changes(values=record["parameters"])
        run = simulate(site, 30, record["seed"], scorer=Scorer())
        assert run.metrics is not None
        assert record["metrics"] == json.loads(canonical(run.metrics.to_map()))
        assert record["root"] is None


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_give_the_bytes_of_one_after_the_other(method: Any, expected: bytes) -> None:
    assert lines(sweep(SITE, SEEDS, GRID, 30, executor=process_pool(2, method))) == expected


def test_any_executor_will_do_and_stays_open(expected: bytes) -> None:
    with ThreadPoolExecutor(3) as threads:
        assert lines(sweep(SITE, SEEDS, GRID, 30, executor=threads)) == expected
        assert threads.submit(int, "7").result() == 7
    backwards = InTurn()
    done = sweep(SITE, SEEDS, GRID, 30, executor=backwards, verify=5)
    assert (lines(done), done.verified, backwards.calls) == (expected, 5, 17)


def dying(task: bytes) -> bytes:
    """Ends its process the first two times that seed 8 is run: run_case of a worker that is killed."""
    from coord.measuring.sweep_case import run_case

    marks = Path(os.environ["DYING_MARKS"])
    if json.loads(task)["seed"] == 8 and len(list(marks.iterdir())) < int(os.environ["DYING_TIMES"]):
        (marks / f"{os.getpid()}").touch()
        os._exit(9)
    return run_case(task)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int], Callable[[], Executor]]:
    """deadly(times): makes pools whose worker dies so many times with seed 8."""
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv("DYING_MARKS", str(tmp_path / "marks"))
    monkeypatch.setattr("coord.measuring.sweep_pool.run_case", dying)

    def of(times: int) -> Callable[[], Executor]:
        monkeypatch.setenv("DYING_TIMES", str(times))
        return lambda: ProcessPoolExecutor(2, mp_context=get_context("fork"))

    return of


def test_a_case_whose_worker_died_is_run_again(deadly: Any, tmp_path: Path, expected: bytes) -> None:
    done = sweep(SITE, SEEDS, GRID, 30, executor=deadly(2))
    assert lines(done) == expected
    assert len(list((tmp_path / "marks").iterdir())) == 2


def test_a_case_that_kills_every_worker_is_named_and_the_others_are_made(deadly: Any) -> None:
    finished: list[int] = []
    with pytest.raises(CaseError, match=r"^seed 8: its worker was lost 3 times: A process in the process pool"):
        sweep(SITE, SEEDS, None, 30, executor=deadly(99), on_case=lambda done, size: finished.append(done))
    assert finished == [0, 1, 2]


def test_after_a_case_that_fails_the_finished_ones_are_in_the_folder(tmp_path: Path) -> None:
    class Failing(InTurn):
        def __init__(self) -> None:
            super().__init__(lambda call, data: b'{"error":"no luck","repeat":false}' if call == 3 else data)

    with pytest.raises(CaseError, match=r"^seed \d: no luck$"):
        sweep(SITE, SEEDS, None, 30, executor=Failing(), folder=tmp_path / "sweep")
    assert sweep(SITE, SEEDS, None, 30, folder=tmp_path / "sweep").reused == 2


def test_a_pool_that_broke_and_was_given_as_it_is_cannot_be_made_again(deadly: Any) -> None:
    with deadly(1)() as pool, pytest.raises(CaseError, match=r"seed \d: its executor is broken: .*process_pool\(4\)"):
        sweep(SITE, [8, 1], None, 5, executor=pool)


class Lossy(InTurn):
    """Loses every second case once, and goes on."""

    def work(self) -> None:
        with self.lock:
            self.calls += 1
            if self.calls % 2 and self.waiting:
                self.waiting.pop()[0].set_exception(OSError("a machine went away"))
                return
        super().work()


def test_cases_that_an_executor_loses_are_run_again(expected: bytes) -> None:
    assert lines(sweep(SITE, SEEDS, GRID, 30, executor=Lossy(), retries=9)) == expected


def test_a_case_that_comes_to_other_bytes_is_an_error_that_names_it() -> None:
    def other(call: int, data: bytes) -> bytes:
        return data.replace(b'"switches":0', b'"switches":1') if call == 4 else data

    text = r"^seed \d: made again it came to other bytes: switches 0, then 1$"
    with pytest.raises(RepeatError, match=text):
        sweep(SITE, [3, 0, 8], None, 30, executor=InTurn(other), verify=3)


def test_what_is_no_result_is_refused() -> None:
    with pytest.raises(CaseError, match=r"^seed 1: its worker returned bytes that are no result$"):
        sweep(SITE, [1], None, 3, executor=InTurn(lambda call, data: data[:-9]))
    with pytest.raises(CaseError, match=r"^seed 1: its worker returned the result of another case$"):
        sweep(SITE, [1], None, 3, executor=InTurn(lambda call, data: data.replace(b'"seed":1', b'"seed":2')))


def test_the_folder_holds_a_run_a_case_and_all_results(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    done = sweep(SITE, [1, 2], {"plan.planner": ["swap", "greedy"]}, 12, folder=folder)
    text = (folder / "results.jsonl").read_bytes()
    assert text == lines(done)
    assert done.digest == blake3(text).digest(16).hex()
    names = ["000-seed-1", "000-seed-2", "001-seed-1", "001-seed-2"]
    assert sorted(path.name for path in (folder / "runs").iterdir()) == names
    for name, one in zip(names, done.cases, strict=True):
        report = audit(folder / "runs" / name, resimulate=True)
        assert report.ok and report.root is not None
        assert one.record["root"] == report.root.hex()
        assert one.record["metrics"] == json.loads(canonical(metrics(folder / "runs" / name).to_map()))


def test_a_sweep_goes_on_where_it_was_left_and_takes_nothing_that_does_not_check(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    seen: list[int] = []
    first = sweep(SITE, range(6), None, 12, folder=folder, on_case=lambda done, size: seen.append(done),
                  should_stop=lambda: len(seen) > 3)  # fmt: skip
    assert first.interrupted and len(first.cases) == 3
    assert not (folder / "results.jsonl").exists()
    damaged = folder / "cases" / "000-seed-1.json"
    damaged.write_bytes(damaged.read_bytes().replace(b'"switches":0', b'"switches":5'))
    (folder / "runs" / ".partial-000-seed-4").mkdir()
    (folder / "runs" / "000-seed-5").mkdir()
    other = folder / "runs" / "000-seed-2"
    other.rename(folder / "gone")
    (folder / "runs" / "000-seed-3").write_bytes(b"a file where a run should be")
    done = sweep(SITE, range(6), None, 12, folder=folder, executor=process_pool(2))
    assert (done.reused, done.interrupted) == (1, False)
    assert lines(done) == lines(sweep(SITE, range(6), None, 12, folder=tmp_path / "fresh"))
    assert (folder / "results.jsonl").read_bytes() == lines(done)
    assert sweep(SITE, range(6), None, 12, folder=folder).reused == 6


def test_a_run_that_a_dead_worker_had_finished_must_be_the_same(tmp_path: Path) -> None:
    from coord.measuring.sweep_case import Case, run_case, task_bytes

    case = Case({}, 1, "000-seed-1")
    runs = tmp_path / "runs"
    runs.mkdir()
    task = task_bytes(SITE, case, 9, 64, runs, "os")
    assert run_case(task) == run_case(task)
    assert [path.name for path in runs.iterdir()] == ["000-seed-1"]
    (runs / "000-seed-1").rename(runs / "000-seed-2")
    told = json.loads(run_case(task_bytes(SITE, Case({}, 2, "000-seed-2"), 9, 64, runs, "os")))
    assert told["repeat"]
    assert re.search("holds size 11, root .*; made again it is size 11, root", told["error"])


def test_folders_of_something_else_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    sweep(SITE, [1], None, 3, folder=folder)
    with pytest.raises(OutputError, match=r"sweep: holds another sweep: ticks 3, not 4$"):
        sweep(SITE, [1], None, 4, folder=folder)
    with pytest.raises(OutputError, match=r'holds another sweep: parameters \[\], not \[\["plan.queue", \[2\]\]\]$'):
        sweep(SITE, [1], {"plan.queue": [2]}, 3, folder=folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").touch()
    with pytest.raises(OutputError, match=r"full: expected a new folder or one of this sweep, got one with a\.txt$"):
        sweep(SITE, [1], None, 3, folder=tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["a.txt"]
    with pytest.raises(OutputError, match=r"a\.txt: expected a folder to write to, got: file exists$"):
        sweep(SITE, [1], None, 3, folder=tmp_path / "full" / "a.txt")


def test_two_sweeps_do_not_write_one_folder(tmp_path: Path) -> None:
    folder, told = tmp_path / "sweep", []

    def second(done: int, size: int) -> None:
        if not told:
            with pytest.raises(OutputError, match=r"another process writes this sweep$"):
                sweep(SITE, [1], None, 3, folder=folder)
            told.append(True)

    sweep(SITE, [1], None, 3, folder=folder, on_case=second)
    assert told


@pytest.mark.parametrize(
    ("seeds", "grid", "text"),
    [
        ([1], {"plan.plannr": ["swap"]}, "plan.plannr: unknown key (nearest: plan.planner)"),
        ([1], {"plan.planner": ["swpa"]}, 'plan.planner: expected greedy or swap, got "swpa" (nearest: swap)'),
        ([1], {"plan.w_travel": [1, "x"]}, "plan.w_travel: expected a number, got text 'x'"),
        ([1], {"agents.random": [2, 2]}, "agents.random: expected different values, got 2 twice"),
        ([1], {"agents.random": []}, "agents.random: expected at least one value, got none"),
        (
            [1],
            {"hot_spot.sigma": [2.0]},
            "hot_spot.sigma: a sweep sets keys of tables that stand once, [[hot_spot]] ",
        ),
        ([1], {"seed": [2]}, "seed: is no parameter of a sweep (give seeds)"),
        ([], {}, "seeds: expected at least one seed, got none"),
        ([1, 1], {}, "seeds: expected different seeds, got one twice"),
        ([-1], {}, "seeds: expected whole numbers from 0 to 2^64 - 1, got -1"),
        ([1], {"motion.model": ["grid"]}, 'motion.model=grid: [motion] model: expected a [map] for "grid"'),
    ],
)
def test_what_no_site_can_have_is_refused_before_anything_runs(
    seeds: list[int], grid: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError) as told:
        sweep(SITE, seeds, grid, 3, folder=tmp_path / "sweep")
    expected = str(told.value)
    if "expected greedy or" in text:  # other planners stand between
        expected = re.sub("expected greedy or .*, got", "expected greedy or swap, got", expected)
    assert expected.startswith(text)
    assert not (tmp_path / "sweep").exists()


def test_every_key_of_a_table_that_stands_once_can_be_swept() -> None:
    keys = swept_keys()
    assert {"plan.planner", "zones.radius", "motion.charged_energy", "tick_ns"} <= set(keys)
    assert not {"agent.x", "seed", "name", "version"} & set(keys)


def test_a_case_that_fails_by_itself_is_named_and_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "a.map").write_text("type octile\nheight 2\nwidth 3\nmap\n...\n...\n")
    site = Scenario.loads(
        'version = 1\nname = "grid"\n[map]\nfile = "a.map"\n[agents]\nrandom = 2\n[zones]\nrandom = 2\n', tmp_path
    )

    class Removing(InTurn):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            (tmp_path / "a.map").unlink()
            return super().submit(fn, *args, **kwargs)

    runner = Removing()
    with pytest.raises(CaseError, match=r"^seed 1: \[map\] file: .*a\.map: expected to read it"):
        sweep(site, [1], None, 3, executor=runner)
    assert runner.calls == 1


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^sweep: ticks must be a whole number of at least 0, got -3$"):
        sweep(SITE, [1], None, -3)
    with pytest.raises(ValueError, match=r"^process_pool: jobs must be a whole number of at least 1, got 0$"):
        process_pool(0)


def test_summaries_are_by_parameters_over_seeds() -> None:
    done = sweep(SITE, [0, 1, 2, 3], {"plan.planner": ["swap", "greedy"]}, 40)
    groups = done.summaries()
    assert [dict(group.parameters) for group in groups] == [{"plan.planner": "swap"}, {"plan.planner": "greedy"}]
    values = sorted(one.record["metrics"]["services"] for one in done.cases[4:])
    got = groups[1].spreads["services"]
    assert got == (sum(values) / 4, (values[1] + values[2]) / 2, values[0], values[3], 4)
    assert "cell_conflicts" not in groups[0].spreads


def test_workers_of_a_process_pool_take_one_thread_and_end_with_their_parent(python: Any, tmp_path: Path) -> None:
    told = python(
        "import os, sys, time\n"
        "from coord.measuring.sweep_case import _one_thread_in_a_child\n"
        "from coord import process_pool\n"
        "def threads():\n"
        "    from tensor import _kernels\n"
        "    _one_thread_in_a_child()\n"
        "    return _kernels.threads(), os.getpid()\n"
        "pool = process_pool(1, 'fork')()\n"
        "print(*pool.submit(threads).result(), flush=True)\n"
        "os._exit(0)\n",
        DROVEWAY_THREADS="3",
    )
    threads, worker = told.stdout.split()
    assert threads == "1"
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2]:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker outlived its parent")


def test_errors_of_a_broken_executor_are_told_from_a_lost_machine() -> None:
    class Broken(InTurn):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise BrokenExecutor("no worker left")

    with pytest.raises(CaseError, match=r"^seed 1: its executor is broken: no worker left \(hint: "):
        sweep(SITE, [1], None, 3, executor=Broken())


def test_a_program_without_its_main_line_is_told_so(tmp_path: Path) -> None:
    program = tmp_path / "bare.py"
    program.write_text(
        "from coord import CaseError, Scenario, process_pool, sweep\n"
        "site = Scenario.loads('version = 1\\nname = \"a\"\\nagents.random = 2\\nzones.random = 2\\n')\n"
        "try:\n    sweep(site, [1], None, 3, executor=process_pool(1), retries=0)\n"
        "except CaseError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'none ever came back; a program that makes processes needs if __name__ == "__main__": (docs' in done.stdout
