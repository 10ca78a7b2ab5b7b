"""A power cut: the writer is stopped at some moment, what the disk holds by then is copied, and the copy is opened.

The disk is a file with an ext4 in it. What the file system has not written back yet is not in the file, as it would
not be on a disk without power. The control: without fsync confirmed events are lost.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from storage import Ledger, StorageError, verify_ledger

WRITER = """
import sys
from storage import Event, Ledger
ledger = Ledger.open(sys.argv[1], sync=sys.argv[2])
i = 0
while True:
    effect = i.to_bytes(8, "big") * 40
    batch = [Event(producer="a", effect=effect, kind="x", sequence=i + j, tick=0) for j in range(1 + i % 4)]
    i += len(batch)
    print(ledger.append_many(batch)[-1].size, flush=True)
"""


@pytest.fixture
def disk(tmp_path):
    """disk(name): a mounted ext4 in a file; disk.copy(name): the file as it is now, mounted elsewhere."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("mounting an ext4 in a file needs root and mkfs.ext4")
    mounts = []

    def mount(image):
        folder = tmp_path / f"mount{len(mounts)}"
        folder.mkdir()
        done = subprocess.run(["mount", "-o", "loop", image, folder], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"mounting an ext4 in a file was refused: {done.stderr.strip()}")
        mounts.append(folder)
        return folder

    class Disk:
        def __init__(self):
            self.image = tmp_path / "image"
            with self.image.open("wb") as file:
                file.truncate(96 << 20)
            subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
            self.folder = mount(self.image)

        def copy(self):
            image = tmp_path / f"copy{len(mounts)}"
            subprocess.run(["cp", "--sparse=always", self.image, image], check=True)
            return mount(image)

    yield Disk()
    for folder in mounts:
        subprocess.run(["umount", "-l", folder], check=True)


def cut_the_power(disk, sync, cuts):
    """Yields, for each cut, the events confirmed before it and the run as the disk held it."""
    randomly = random.Random(5)
    run = disk.folder / "run"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(run), sync], stdout=subprocess.PIPE, cwd=disk.folder.parent
    ) as writer:
        try:
            confirmed = int(writer.stdout.readline())
            os.set_blocking(writer.stdout.fileno(), False)
            for _ in range(cuts):
                time.sleep(randomly.uniform(0.05, 0.4))
                writer.send_signal(signal.SIGSTOP)
                lines = re.findall(rb"(\d+)\n", writer.stdout.read() or b"")
                confirmed = int(lines[-1]) if lines else confirmed
                copy = disk.copy()
                writer.send_signal(signal.SIGCONT)
                yield confirmed, copy / "run"
        finally:
            writer.kill()


def test_a_power_cut_loses_no_confirmed_event(disk):
    sizes = []
    for confirmed, run in cut_the_power(disk, "fsync", cuts=5):
        report = verify_ledger(run)
        assert report.ok, report.problems
        assert report.size >= confirmed
        with Ledger.open(run) as ledger:  # and the ledger goes on
            assert ledger.head().size == report.size
            assert [event.sequence for _, event in ledger.scan()] == list(range(report.size))
        sizes.append(confirmed)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def test_without_fsync_a_power_cut_loses_confirmed_events(disk):
    """The planted control: the test above would notice a ledger that does not sync."""

    def size_of(run):
        try:
            return verify_ledger(run).size
        except StorageError:
            return 0

    assert any(size_of(run) < confirmed for confirmed, run in cut_the_power(disk, "os", cuts=3))
