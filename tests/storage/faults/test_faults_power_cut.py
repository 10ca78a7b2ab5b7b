"""A power cut, with a real file system: no confirmed event is lost, no ledger is refused. Needs root and mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storage import Ledger, verify_ledger

ENGINES = ("rocksdb", "lmdb")


@pytest.fixture
def power_cuts(trials):
    """power_cuts(name, engine, sync, count, seed): the outcomes of power_cut.py, in its own mount namespace."""
    tools = ("mkfs.ext4", "mount", "umount", "unshare")
    if os.geteuid() != 0 or not all(map(shutil.which, tools)):
        pytest.skip(f"mounting an ext4 in a file needs root and {', '.join(tools)}")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "true"], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"a mount namespace was refused: {done.stderr.decode().strip()}")

    def cut(name, engine, sync, count, seed):
        return trials(name, "power_cut.py", engine, sync, count, seed, mounts=True)

    return cut


@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_power_cuts_lose_no_confirmed_event(engine, power_cuts, nothing_wrong):
    outcomes = power_cuts(f"power cut, {engine}, quick", engine, "fsync", 5, 77_000)
    nothing_wrong(outcomes)
    assert outcomes[-1]["confirmed"] > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_without_fsync_a_power_cut_loses_confirmed_events(engine, power_cuts):
    """The planted control: the test above would notice a ledger that does not sync."""
    outcomes = power_cuts(f"power cut, {engine}, control without fsync", engine, "os", 8, 5)
    assert any("confirmed ranks lost" in outcome.get("wrong", "") for outcome in outcomes)
    assert "/faults-" not in Path("/proc/mounts").read_text()


def _loop_devices_of(folder):
    held = [file.read_text().strip() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [name for name in held if folder.name in name]


def test_power_cuts_that_are_killed_leave_no_mount_and_no_loop_device(power_cuts, place):
    namespace = ("unshare", "--mount", "--propagation", "private")
    script = Path(__file__).with_name("power_cut.py")
    started = subprocess.Popen(
        [*namespace, sys.executable, script, "rocksdb", "fsync", "100", "1", place],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(script.parent)},
    )
    try:
        assert started.stdout.readline()
        assert _loop_devices_of(place)
    finally:
        started.kill()
        started.wait()
    until = time.monotonic() + 20
    while _loop_devices_of(place) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _loop_devices_of(place)
    assert place.name not in Path("/proc/mounts").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("engine", ENGINES)
def test_power_cuts_lose_no_confirmed_event(engine, part, count, power_cuts, nothing_wrong):
    share = round(count(full=500, slow=24, quick=0) / 4)
    nothing_wrong(power_cuts(f"power cut, {engine}", engine, "fsync", max(1, share), 1000 * part))


def test_an_lmdb_file_without_its_families_was_never_finished(tmp_path):
    import lmdb

    (tmp_path / "run" / "ledger").mkdir(parents=True)
    lmdb.open(str(tmp_path / "run" / "ledger"), max_dbs=4).close()
    with Ledger.open(tmp_path / "run") as ledger:
        assert ledger.head().size == 0
    assert verify_ledger(tmp_path / "run").ok
