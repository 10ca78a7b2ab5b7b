"""A disk that can't be written: simulate refuses with exit 2, readers read."""

import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Root may write anywhere, so the process gives that up. Its modules may lie in root's home: all commands run once
# before, on a folder of their own, so that everything is loaded.
AS_NOBODY = """
import contextlib, io, os, sys, tempfile
import droveway.buildcheck
from droveway.main import run
site = sys.argv.pop(1)
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    made = folder + "/run"
    assert run(["simulate", site, "-o", made, "--ticks", "2"]) == 0
    assert run(["simulate", site, "-o", made, "--ticks", "2"]) == 2
    for more in (["verify", made], ["info", made], ["replay", made, "--png", folder + "/a.png"]):
        assert run(more) == 0
droveway.buildcheck.require_one_build = lambda: None  # done, as long as its files can be read
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sys.exit(run(sys.argv[1:]))
"""


SITE = Path(__file__).parents[2] / "examples" / "sites" / "yard.toml"


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
    command = [sys.executable, "-c", AS_NOBODY, str(SITE), *map(str, arguments)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    first, rest = done.stderr.split("\n", 2)[:2], done.stderr.split("\n", 2)[2]
    assert first[0].endswith("got one that is not empty"), done.stderr
    return subprocess.CompletedProcess(command, done.returncode, done.stdout, rest)


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
