"""A type byte of recycled logs would keep RocksDB's reader busy for ever: it is refused before."""

from __future__ import annotations

import re
import struct

import pytest

from storage import Event, IntegrityError, Ledger, verify_ledger

RECYCLED = [5, 6, 7, 8, 11]
WRITER = """
import os, sys
import storage
ledger = storage.Ledger.open(sys.argv[1], sync="os")
for i in range(30):
    ledger.append(storage.Event(producer="p", effect=b"x" * 50, kind="a.b", sequence=i, tick=i))
os.kill(os.getpid(), 9)  # what was appended is in the write-ahead log only
"""


def records(data: bytes) -> list[int]:
    """Offsets of the records of a log that lies in one block."""
    found, offset = [], 0
    while offset + 7 <= min(len(data), 32768):
        found.append(offset)
        offset += length(data, offset)
    return found


def length(data: bytes, offset: int) -> int:
    """Bytes of the record at an offset, its header included."""
    return 7 + struct.unpack_from("<H", data, offset + 4)[0]


@pytest.fixture
def closed(tmp_path):
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        ledger.append(Event(producer="p", effect=b"", kind="a.b", sequence=0, tick=0))
    return tmp_path / "run"


@pytest.fixture
def killed(tmp_path, python):
    python(WRITER.replace("sys.argv[1]", repr(str(tmp_path / "run"))))
    assert verify_ledger(tmp_path / "run").size == 30
    return tmp_path / "run"


def refused(run, pattern, kind):
    (file,) = [file for file in (run / "ledger").iterdir() if re.fullmatch(pattern, file.name) and file.stat().st_size]
    good = file.read_bytes()
    for offset in records(good)[1:]:
        damaged = bytearray(good)
        damaged[offset + 6] = kind
        file.write_bytes(damaged)
        text = f"{file.name}: offset {offset}: expected a record of type 0 to 4, got {kind}"
        report = verify_ledger(run)
        assert not report.ok
        assert any(text in problem.text for problem in report.problems)
        with Ledger.open(run, "r") as ledger:
            assert ledger.manifest_status == "RECOVERY_DEGRADED"
            assert any(text in str(problem) for problem in ledger.problems)
        with pytest.raises(IntegrityError, match=re.escape(text)) as caught:
            Ledger.open(run)
        assert caught.value.file == file.name
    file.write_bytes(good)
    assert verify_ledger(run).ok


@pytest.mark.parametrize("kind", RECYCLED)
def test_a_record_type_that_never_ends_is_refused_in_the_manifest(closed, kind):
    refused(closed, r"MANIFEST-\d+", kind)


@pytest.mark.parametrize("kind", RECYCLED)
def test_a_record_type_that_never_ends_is_refused_in_the_write_ahead_log(killed, kind):
    (file,) = [file for file in (killed / "ledger").glob("*.log") if file.stat().st_size]
    good = file.read_bytes()
    *earlier, last = records(good)
    for offset in earlier:
        damaged = bytearray(good)
        damaged[offset + 6] = kind
        file.write_bytes(damaged)
        follows = f"a whole one follows at {offset + length(good, offset)}"
        text = f"{file.name}: offset {offset}: expected a whole record, as {follows}, got damage"
        report = verify_ledger(killed)
        assert any(text in problem.text for problem in report.problems)
        for mode in ("r", "rw"):
            with pytest.raises(IntegrityError, match=re.escape(text)) as caught:
                Ledger.open(killed, mode=mode)
            assert caught.value.file == file.name
    damaged = bytearray(good)
    damaged[last + 6] = kind
    file.write_bytes(damaged)
    report = verify_ledger(killed)
    assert (report.ok, report.size, report.dropped_bytes) == (True, 29, len(good) - last)


def test_neither_does_a_record_that_is_also_longer_than_its_log_keep_the_reader(closed):
    (manifest,) = (closed / "ledger").glob("MANIFEST-*")
    good = bytearray(manifest.read_bytes())
    offset = records(bytes(good))[2]
    good[offset + 4 : offset + 7] = struct.pack("<HB", 37920, 6)
    manifest.write_bytes(good)
    (problem, *_) = verify_ledger(closed).problems
    assert f"offset {offset}: expected a record of type 0 to 4, got 6" in problem.text
