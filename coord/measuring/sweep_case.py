"""One case of a sweep: a site with some values changed and a seed, run in whatever process it is sent to.

What goes there and what comes back are bytes: canonical JSON (keys sorted, no spaces, ASCII, floats as Python's repr),
so that nothing is unpickled but what an executor itself pickles, and equal results are equal bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coord.errors import RepeatError, ScenarioError
from coord.measuring.scorer import Scorer
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario

Value = str | int | float | bool | list[Any]


def canonical(value: object) -> bytes:
    """The canonical JSON of a value.

    >>> canonical({"b": [1, 0.5], "a": None})
    b'{"a":null,"b":[1,0.5]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True)
class Case:
    """One run of a sweep: its parameters by dotted name, its seed, and the name of its folder."""

    parameters: Mapping[str, Value]
    seed: int
    name: str

    def __str__(self) -> str:
        return ", ".join(
            [*(f"{key}={shown_value(value)}" for key, value in self.parameters.items()), f"seed {self.seed}"]
        )


def shown_value(value: Value) -> str:
    """A value as `--set` reads it.

    >>> shown_value("swap"), shown_value(0.5), shown_value([0, 1]), shown_value(True)
    ('swap', '0.5', '[0,1]', 'true')
    """
    return value if isinstance(value, str) else canonical(value).decode()


def task_bytes(site: Scenario, case: Case, ticks: int, gap_every: int, runs: Path | None, sync: str) -> bytes:
    """All that a case depends on; `runs` is the folder that gets its ledger."""
    return canonical(
        {
            "toml": site.to_toml(), "base_dir": str(site.base_dir.absolute()), "file": site.file,
            "parameters": dict(case.parameters), "seed": case.seed, "ticks": ticks, "gap_every": gap_every,
            "runs": None if runs is None else str(runs.absolute()), "name": case.name, "sync": sync,
        }
    )  # fmt: skip


def run_case(task: bytes) -> bytes:
    """Run a case: {"result": …}, or {"error": …, "repeat": …} where the case itself fails, whatever process runs it.

    In a process made by multiprocessing the kernels take one thread: its neighbours need the others.
    """
    _one_thread_in_a_child()
    wanted = json.loads(task)
    try:
        return canonical({"result": _run(wanted)})
    except RepeatError as error:
        return canonical({"error": error.detail, "repeat": True})
    except ScenarioError as error:
        return canonical({"error": ": ".join(part for part in (error.where, error.detail) if part), "repeat": False})
    except Exception as error:  # told by its case; what is not raised here is the executor's
        return canonical({"error": str(error) or type(error).__name__, "repeat": False})


def _run(wanted: Mapping[str, Any]) -> dict[str, Any]:
    site = Scenario.loads(wanted["toml"], wanted["base_dir"], file=wanted["file"])
    site = site.with_changes(seed=wanted["seed"], values=wanted["parameters"])
    place = None
    if wanted["runs"] is not None:
        place = Path(wanted["runs"]) / f".partial-{wanted['name']}"
        shutil.rmtree(place, ignore_errors=True)  # what a worker that died had begun
    try:
        run = simulate(
            site, wanted["ticks"], ledger=place, sync=wanted["sync"], scorer=Scorer(), gap_every=wanted["gap_every"]
        )
        if place is not None:
            _keep(place, Path(wanted["runs"]) / wanted["name"])
    except BaseException:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    assert run.metrics is not None
    return {
        "parameters": wanted["parameters"],
        "seed": wanted["seed"],
        "ticks": run.ticks,
        "metrics": run.metrics.to_map(),
        "size": run.size,
        "root": None if run.root is None else run.root.hex(),
    }


def _keep(made: Path, place: Path) -> None:
    """The run gets its place; where a worker had put one before it died, both must be the same."""
    if not place.exists():
        made.rename(place)
        return
    from coord.stl import head_of

    new, old = (head_of(run) or (0, "none") for run in (made, place))
    if new != old:
        text = f"{place}: holds size {old[0]}, root {old[1]}; made again it is size {new[0]}, root {new[1]}"
        raise RepeatError(place.name, text)
    shutil.rmtree(made)


def _one_thread_in_a_child() -> None:
    from multiprocessing.process import parent_process

    if parent_process() is not None:
        from tensor import _kernels

        _kernels.set_threads(1)
