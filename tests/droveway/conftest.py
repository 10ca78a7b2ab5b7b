"""A small site and its run, and the command line in this process and in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from droveway.main import run

YARD = Path(__file__).parents[2] / "examples" / "sites" / "yard.toml"


@dataclass(frozen=True)
class Told:
    """What a command line answered."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def record(self) -> dict[str, Any]:
        (only,) = self.records
        return only


@pytest.fixture(scope="session")
def yard() -> Path:
    """The site that the README runs."""
    return YARD


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Run a command line in this process."""

    def asked(*arguments: object) -> Told:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Told(code, out, err)

    return asked


@pytest.fixture(scope="session")
def ask_process() -> Callable[..., Told]:
    """Run a command line in a process of its own, away from the source folder."""

    def asked(*arguments: object, **environment: str) -> Told:
        done = subprocess.run(
            [sys.executable, "-m", "droveway", *map(str, arguments)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, **environment},
            check=False,
        )
        return Told(done.returncode, done.stdout, done.stderr)

    return asked


@pytest.fixture(scope="session")
def yard_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the yard, 30 ticks, for tests that only read it."""
    folder = tmp_path_factory.mktemp("yard") / "run"
    assert run(["simulate", str(YARD), "-o", str(folder), "--ticks", "30", "--quiet"]) == 0
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Callable[[str], Path]:
    """Write a SITE.toml."""

    def written(text: str, name: str = "site.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return written
