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


@pytest.fixture(scope="session")
def rewritten() -> Callable[..., None]:
    """Write a copy of a run in which one row names another zone."""
    return rewritten_run


def rewritten_run(source: Path, target: Path, *, tick: int, agent: int, zone: int) -> None:
    """A copy of a run, written with our own writer, in which one row names another zone and its digest says so."""
    import numpy as np
    from blake3 import blake3

    from coord.records import ROW_DTYPE
    from storage import Event, Ledger

    with Ledger.open(source, mode="r") as old, Ledger.open(target) as new:
        ids: dict[bytes, bytes] = {}
        for _, event in old.scan():
            effect = event.effect
            if event.kind == "coord.frame" and event.tick == tick:
                rows = np.frombuffer(effect[128:], ROW_DTYPE).copy()
                rows["zone"][rows["agent"] == agent] = zone
                frame = bytearray(effect[:128])
                frame[48:64] = blake3(rows.tobytes()).digest(16)
                effect = bytes(frame) + rows.tobytes()
            parents = tuple(sorted(ids[parent] for parent in event.parents))
            made = Event(
                producer=event.producer,
                effect=effect,
                kind=event.kind,
                parents=parents,
                sequence=event.sequence,
                schema=event.schema,
                tick=event.tick,
            )
            new.append(made)
            ids[event.id] = made.id
