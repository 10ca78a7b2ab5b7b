"""A disk that can't be written: simulate refuses with exit 2, readers read."""

import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Root may write anywhere, so the process gives that up once all its modules are loaded (they may lie in root's home).
AS_NOBODY = """
import os, sys
import click.core, click.formatting, coord.audit, coord.simulate, coord.stl, droveway.buildcheck, droveway.reading_run
import droveway.paths_picture, droveway.run_tracks, PIL.PngImagePlugin, storage.ledger, storage.rocks, storage.verify
droveway.paths_picture._font(20)
droveway.buildcheck.require_one_build()
droveway.buildcheck.require_one_build = lambda: None  # done, as long as its files can be read
from droveway.commands import info, replay, simulate, verify
from droveway.main import run
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def read_only(yard: Path, yard_run: Path) -> Iterator[Path]:
    """A folder with a site and a run in which nothing can be written, reachable by every user."""
    folder = Path(tempfile.mkdtemp(prefix="droveway-read-only-"))
    for name in ("yard.toml", "yard.map"):
        shutil.copy(yard.parent / name, folder / name)
    shutil.copytree(yard_run, folder / "run")
    everything = [folder, *folder.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in everything:
        path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


def as_nobody(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", AS_NOBODY, *map(str, arguments)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


def test_simulate_is_refused_and_leaves_nothing(read_only: Path) -> None:
    done = as_nobody("simulate", read_only / "yard.toml", "-o", read_only / "new", "--ticks", 3)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {read_only}/new")
    assert "permission denied" in done.stderr.lower() and "Traceback" not in done.stderr
    assert sorted(path.name for path in read_only.iterdir()) == ["run", "yard.map", "yard.toml"]


@pytest.mark.parametrize("command", [["verify"], ["info"], ["replay"]])
def test_a_run_on_a_read_only_disk_is_read(command: list[str], read_only: Path) -> None:
    done = as_nobody(*command, read_only / "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_picture_that_cannot_be_written_is_exit_2(read_only: Path) -> None:
    done = as_nobody("replay", read_only / "run", "--png", read_only / "a.png")
    assert done.returncode == 2
    expected = f"{read_only}/a.png: expected to write it, got: permission denied"
    assert done.stderr == f"error: {expected}\nhint: choose another place for the output\n"
