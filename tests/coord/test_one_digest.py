"""One digest: the recorded root of a fleet for each build, number of threads, order of rows, and in a sweep."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coord import Scenario, process_pool, sweep
from coord.sites.scenario_schema import DEMANDS, MOTIONS, PLANNERS
from tensor import build_info

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
import golden_fleets  # noqa: E402 - a module beside this package's tests

NAMES = golden_fleets.names()
Golden = dict[str, dict[str, str]]


def test_every_fleet_has_a_recorded_root(golden: Golden) -> None:
    assert list(golden["fleet"]) == NAMES
    assert len(set(golden["fleet"].values())) == len(NAMES)
    words = {word for name in NAMES for word in name.split()}
    assert {*PLANNERS, *MOTIONS, *DEMANDS} - words <= {"persistent", "replayed"}


@pytest.mark.parametrize("name", NAMES)
def test_a_fleet_comes_to_its_recorded_root_in_any_order_of_its_rows(name: str, golden: Golden) -> None:
    expected = golden["fleet"][name]
    assert golden_fleets.root_of(name) == expected
    assert golden_fleets.root_of(name, order=1) == expected
    assert golden_fleets.root_of(name, order=2) == expected


@pytest.mark.parametrize("name", [name for name in NAMES if "events" not in name])
def test_records_in_files_come_to_one_root_in_any_order(name: str) -> None:
    roots = {golden_fleets.root_of(name, order=order, files=True) for order in (0, 3, 4)}
    assert len(roots) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_fleet_comes_to_its_recorded_root_with_any_number_of_threads(
    count: int, threads: Callable[[int], None], golden: Golden
) -> None:
    threads(count)
    for name in NAMES[:: len(NAMES) - 1]:
        assert golden_fleets.root_of(name) == golden["fleet"][name]


ALL_ROOTS = (
    f"import sys, json\nsys.path.insert(0, {str(TESTS)!r})\nimport golden_fleets\n"
    "print(json.dumps({name: golden_fleets.root_of(name) for name in golden_fleets.names()[%s]}))\n"
)


BUILDS = {"v4": ("v3", "v4"), "v3": ("v3",), "neon": ("neon",)}.get(str(build_info()["isa"]), ())  # that run here


@pytest.mark.parametrize(("isa", "part"), [*((isa, ":") for isa in BUILDS), ("ref", "1::5")])
def test_every_build_of_the_kernels_comes_to_the_recorded_roots(
    isa: str, part: str, python: Callable[..., Any], golden: Golden
) -> None:
    told = python(ALL_ROOTS % part, DROVEWAY_ISA=isa, DROVEWAY_THREADS="3", seconds=300)
    found = json.loads(told.stdout)
    assert found == {name: golden["fleet"][name] for name in found}
    assert len(found) > 0


LARGE = (
    "from coord import Scenario, simulate\n"
    "site = Scenario.loads('version = 1\\nname = \"large\"\\n[agents]\\nrandom = 4000\\n[zones]\\nrandom = 5000\\n')\n"
    "from coord import Scorer\nscorer = Scorer()\n"
    "simulate(site, 2, planner={planner!r}, scorer=scorer, gap_every=0)\n"
    "print(scorer.result().digest)\n"
)


@pytest.mark.slow
@pytest.mark.skipif(not BUILDS, reason="DROVEWAY_ISA=ref: nothing to compare the twins with")
@pytest.mark.parametrize("planner", [planner for planner in PLANNERS if planner != "exact"])
def test_a_large_fleet_comes_to_one_digest_for_every_build_and_number_of_threads(
    planner: str, python: Callable[..., Any]
) -> None:
    told = [
        python(LARGE.format(planner=planner), DROVEWAY_ISA=isa, DROVEWAY_THREADS=count, seconds=300)
        for isa in BUILDS
        for count in ("1", "2", "7")
    ]
    assert [one.stderr for one in told] == [""] * len(told)
    assert len({one.stdout for one in told}) == 1


def test_processes_of_a_sweep_come_to_the_recorded_roots(tmp_path: Path, golden: Golden) -> None:
    site = Scenario.load(golden_fleets.write("straight swap", tmp_path, order=5))
    done = sweep(
        site, [9], {"plan.planner": list(PLANNERS)}, golden_fleets.TICKS, executor=process_pool(2),
        folder=tmp_path / "sweep",
    )  # fmt: skip
    roots = {one.case.parameters["plan.planner"]: one.record["root"] for one in done.cases}
    assert roots == {planner: golden["fleet"][f"straight {planner}"] for planner in PLANNERS}
