"""Fault trials: how many, what they run in, and the report of what was seen.

`pytest tests/storage/faults --faults full -m ''` runs the counts that docs/faults.md reports; `--faults 0.1` a tenth
of them. `--faults-report FILE` writes a JSON report, or adds to it, so that a part at a time can be run.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MOUNT_NAMESPACE = ("unshare", "--mount", "--propagation", "private")
REPORT = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--faults", default=None, help='"full", or the part of the full counts to try (0.1: a tenth)')
    group.addoption("--faults-report", default=None, metavar="FILE", help="add what was seen to a JSON report")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = {}


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[..., float]:
    """count(full, slow, quick): how many trials now, by --faults, else by whether the test is marked slow."""

    def chosen(full: float, slow: float, quick: float) -> float:
        asked = request.config.getoption("--faults", default=None)
        if asked is None:
            return slow if request.node.get_closest_marker("slow") else quick
        return full if asked == "full" else full * float(asked)

    return chosen


@pytest.fixture(scope="session")
def io_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that records calls and lets them fail, for LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("recording writes needs a C compiler")
    library = tmp_path_factory.mktemp("shim") / "io_shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, HERE / "io_shim.c", "-ldl"], check=True)
    return library


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: what is tried is not the disk's speed."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="faults-", dir=memory if os.access(memory, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def trials(request: pytest.FixtureRequest, place: Path) -> Callable[..., list[dict[str, Any]]]:
    """trials("kill", script, *arguments, preload=…): the outcomes of a script that prints one JSON object a trial.

    They are counted in the report under the first name. A script that ends with an error fails the test.
    """

    def run(
        name: str, script: str, *arguments: object, preload: Path | None = None, mounts: bool = False
    ) -> list[dict[str, Any]]:
        environment = {**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(place)}
        environment |= {"LD_PRELOAD": str(preload)} if preload else {}
        start = time.monotonic()
        done = subprocess.run(
            [*(MOUNT_NAMESPACE if mounts else ()), sys.executable, HERE / script, *map(str, arguments), place],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        outcomes = [json.loads(line) for line in done.stdout.splitlines()]
        request.config.stash[REPORT].setdefault(name, {})[request.node.name] = {
            "trials": len(outcomes),
            "wrong": sum("wrong" in outcome for outcome in outcomes),
            "outcomes": dict(Counter(outcome["outcome"] for outcome in outcomes)),
            "seconds": round(time.monotonic() - start, 1),
        }
        if any("wrong" in outcome for outcome in outcomes):
            _keep(place, os.environ.get("DROVEWAY_FAULTS_KEEP"))
        return outcomes

    return run


def _keep(place: Path, where: str | None) -> None:
    """Copy what went wrong where $DROVEWAY_FAULTS_KEEP says, to look at."""
    if where is not None:
        for folder in place.glob("wrong-*"):
            shutil.copytree(folder, Path(where) / folder.name, dirs_exist_ok=True)


@pytest.fixture
def nothing_wrong() -> Callable[[list[dict[str, Any]]], None]:
    """Fails with the first of the trials that went wrong."""

    def check(outcomes: list[dict[str, Any]]) -> None:
        wrong = [outcome for outcome in outcomes if "wrong" in outcome]
        assert not wrong, f"{len(wrong)} of {len(outcomes)} trials: {wrong[:3]}"

    return check


def versions() -> dict[str, str]:
    """What the trials ran with."""
    names = ("rocksdict", "lmdb", "droveway")
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        **{name: version(name) for name in names},
    }


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report, beside what earlier runs of other parts put into it."""
    path = session.config.getoption("--faults-report", default=None)
    parts = session.config.stash.get(REPORT, {})
    if path is None or not parts:
        return
    file = Path(path)
    report = json.loads(file.read_text()) if file.exists() else {"parts": {}}
    report["versions"] = versions()
    for name, part in parts.items():
        report["parts"].setdefault(name, {}).update(part)
    file.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
