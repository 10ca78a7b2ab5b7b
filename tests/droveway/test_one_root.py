"""One root, whatever the build, the threads and the environment; a ledger of one verifies under all."""

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., Any]
ENVIRONMENTS = [
    {"DROVEWAY_ISA": "ref"},
    {"DROVEWAY_ISA": "v3"},
    {"DROVEWAY_ISA": "v4"},
    {"DROVEWAY_THREADS": "1"},
    {"DROVEWAY_THREADS": "3", "DROVEWAY_ISA": "v3"},
    {"DROVEWAY_THREADS": "7"},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "77", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"},
    {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONOPTIMIZE": "1"},
]


@pytest.fixture(scope="session")
def builds() -> set[str]:
    """The builds that this machine can run."""
    code = (
        "from tensor import _kernels\n"
        "for level in ('v3', 'v4', 'neon'):\n"
        "    try: _kernels.self_test(level)\n"
        "    except ValueError: continue\n"
        "    print(level)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    return {"ref", *done.stdout.split()}


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: "-".join(e.values()).replace("/", "_"))
def test_the_root_is_the_same_in_every_environment(
    environment: dict[str, str],
    builds: set[str],
    ask: Ask,
    ask_process: Ask,
    yard: Path,
    yard_run: Path,
    tmp_path: Path,
) -> None:
    build = environment.get("DROVEWAY_ISA", "ref")
    if build not in builds:
        done = ask_process("info", yard, **environment)
        assert done.code == 2, f"{platform.machine()} has no {build}: that must be said"
        return
    expected = ask("info", yard_run, "--json").record["root"]
    told = ask_process("simulate", yard, "-o", tmp_path / "run", "--ticks", 30, "--json", **environment)
    assert told.code == 0, told.err
    assert told.record["root"] == expected
    verified = ask_process("verify", yard_run, "--resimulate", "--json", **environment)
    assert verified.code == 0, verified.out
    assert verified.record["root"] == expected


def test_permuted_tables_of_agents_and_zones_give_the_same_decisions(ask: Ask, tmp_path: Path) -> None:
    head = 'version = 1\nname = "p"\n'
    agents = [f"[[agent]]\nid = {i}\nx = {i * 7 % 10}.5\ny = {i * 3 % 10}.25\n" for i in range(9)]
    zones = [f"[[zone]]\nid = {i}\nx = {i * 5 % 12}.0\ny = {i * 11 % 12}.0\n" for i in range(14)]
    runs = []
    for name, tables in (("a", [*agents, *zones]), ("b", [*reversed(zones), *reversed(agents)])):
        site = tmp_path / f"{name}.toml"
        site.write_text(head + "".join(tables))
        assert ask("simulate", site, "-o", tmp_path / name, "--ticks", 15).code == 0
        runs.append(tmp_path / name)
    assert ask("diff", *runs).code == 0


def test_the_kernels_change_nothing_in_the_recorded_root(
    ask: Ask, yard: Path, tmp_path: Path, golden: dict[str, dict[str, str]]
) -> None:
    record = ask("simulate", yard, "-o", tmp_path / "run", "--sync", "os", "--json").record
    assert record["ticks"] == 200
    assert record["root"] == golden["examples"]["yard"]


DEMO_QUICK = [
    {"DROVEWAY_ISA": "v3", "DROVEWAY_THREADS": "1", "PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
    {"DROVEWAY_ISA": "v4", "DROVEWAY_THREADS": "3", "PYTHONHASHSEED": "0", "TZ": "America/St_Johns"},
]
DEMO_FULL = [
    {"DROVEWAY_ISA": "v3", "DROVEWAY_THREADS": "2", "PYTHONHASHSEED": "random"},
    {"DROVEWAY_ISA": "v3", "DROVEWAY_THREADS": "7", "LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Apia"},
    {"DROVEWAY_ISA": "v4", "DROVEWAY_THREADS": "1"},
    {"DROVEWAY_ISA": "v4", "DROVEWAY_THREADS": "2", "PYTHONOPTIMIZE": "1"},
    {"DROVEWAY_ISA": "v4", "DROVEWAY_THREADS": "7", "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    {"DROVEWAY_ISA": "ref", "PYTHONHASHSEED": "random"},
]


def demo_prints_the_root_of_the_readme(environment: dict[str, str], builds: set[str], ask_process: Ask) -> None:
    build = environment["DROVEWAY_ISA"]
    told = ask_process("demo", "--json", **environment)
    if build not in builds:
        assert told.code == 2, f"{platform.machine()} has no {build}: that must be said"
        return
    assert told.code == 0, told.out + told.err
    root = told.records[-1]["root"]
    assert root == told.records[-1]["recorded"]
    assert root in (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.parametrize("environment", DEMO_QUICK, ids=lambda e: "-".join(e.values()).replace("/", "_"))
def test_the_demo_has_one_root(environment: dict[str, str], builds: set[str], ask_process: Ask) -> None:
    demo_prints_the_root_of_the_readme(environment, builds, ask_process)


@pytest.mark.slow
@pytest.mark.parametrize("environment", DEMO_FULL, ids=lambda e: "-".join(e.values()).replace("/", "_"))
def test_the_demo_has_one_root_in_further_environments(
    environment: dict[str, str], builds: set[str], ask_process: Ask
) -> None:
    demo_prints_the_root_of_the_readme(environment, builds, ask_process)
