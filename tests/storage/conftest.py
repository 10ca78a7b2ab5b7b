"""What the ledger's tests share."""

import hashlib
import os
import subprocess

import pytest

from storage import Event, Ledger


@pytest.fixture
def run(tmp_path):
    """The path of a RUN directory that does not exist yet."""
    return tmp_path / "run"


@pytest.fixture
def make_event():
    """make_event(sequence, effect=…, producer=…): an event that differs with its sequence number."""

    def make(sequence, effect=None, producer="fleet-1", **fields):
        effect = hashlib.sha256(b"%d" % sequence).digest() * 6 if effect is None else effect
        return Event(producer=producer, effect=effect, kind="note.text", sequence=sequence, tick=sequence, **fields)

    return make


@pytest.fixture
def fill(make_event):
    """fill(run, n): a closed ledger of n events; returns its head."""

    def filled(run, n, **options):
        with Ledger.open(run, sync="os") as ledger:
            ledger.append_many([make_event(i, **options) for i in range(n)])
            return ledger.head()

    return filled


@pytest.fixture
def directory_digest():
    """directory_digest(path): every file's bytes, times and mode."""

    def digest(path):
        return {
            str(file.relative_to(path)): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
            for file in sorted(path.rglob("*"))
            if file.is_file()
        }

    return digest


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(megabytes): a mounted file system of that size, and a function that mounts it again with options."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounts = []

    def mount(megabytes):
        folder = tmp_path / f"disk{len(mounts)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            pytest.skip(f"mounting a small file system was refused: {done.stderr.strip()}")
        mounts.append(folder)

        def remount(options):
            subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)

        return folder, remount

    yield mount
    for folder in mounts:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(params=["rocksdb", "lmdb"])
def engine(request, monkeypatch):
    """The engine that new ledgers of this process get: the test runs with each."""
    monkeypatch.setattr("storage.engine.engines.DEFAULT", request.param)
    return request.param


@pytest.fixture
def rewrite():
    """rewrite(run, puts, deletes): change a closed ledger's database behind its back."""

    def change(run, puts=(), deletes=()):
        from storage.engine.engines import open_store

        store = open_store(run / "ledger", read_only=False)
        store.write([*puts, *((family, key, None) for family, key in deletes)], sync=True)
        store.close()

    return change
