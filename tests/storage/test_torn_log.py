"""The end of the engine's last log: what a crash tore is dropped and told, what was confirmed is never dropped."""

from __future__ import annotations

import random
import re
import struct

import pytest

from storage import IntegrityError, Ledger, RollbackError, verify_ledger
from storage import head as head_file
from storage.engine.torn_log import TornTail, torn_tail
from storage.layout import head_path
from storage.tree import Head

WRITER = """
import os, sys
import storage
ledger = storage.Ledger.open({run!r})
for i in range(20):
    batch = [storage.Event(producer="p", effect=bytes([i, j]) * 900, kind="a.b", sequence=8 * i + j, tick=i)
             for j in range(1 + i % 8)]
    ledger.append_many(batch)
os._exit(0)  # what was appended is in the write-ahead log only
"""


@pytest.fixture
def crashed(run, python):
    done = python(WRITER.format(run=str(run)))
    assert done.returncode == 0, done.stderr
    return run


def the_log(run):
    return max((run / "ledger").glob("*.log"), key=lambda file: file.stat().st_size)


def starts_of_records(data):
    """Offsets at which whole records begin, fragments of one counted once."""
    found, at = [], 0
    while at < len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if kind in (1, 2):
            found.append(at)
        at += 7 + length
    return found


def test_a_whole_log_has_no_torn_end(crashed):
    assert torn_tail(crashed / "ledger") is None
    assert Ledger.open(crashed, "r").dropped_bytes == 0


@pytest.mark.parametrize("hole", [range(0, 512), range(512, 1024), range(6, 7), range(40, 41)])
def test_a_hole_in_the_last_commit_is_dropped_and_told(crashed, hole, directory_digest):
    log = the_log(crashed)
    data = bytearray(log.read_bytes())
    last = starts_of_records(data)[-1]
    before = verify_ledger(crashed).size
    for at in hole:
        data[last + at] ^= 0xFF if len(hole) == 1 else data[last + at]
    log.write_bytes(data)
    torn = TornTail(log.name, last, len(data) - last)
    assert torn_tail(crashed / "ledger") == torn
    digest = directory_digest(crashed)
    report = verify_ledger(crashed)
    assert (report.ok, report.size, report.dropped_bytes) == (True, before - 4, torn.dropped_bytes)
    assert report.warnings == [
        f"the last {torn.dropped_bytes} bytes of the write-ahead log are no commit: torn by a crash, or a last commit "
        f"damaged since; {before - 4} events are there, HEAD names 0"
    ]
    with Ledger.open(crashed, "r") as ledger:
        assert (ledger.head().size, ledger.dropped_bytes) == (before - 4, torn.dropped_bytes)
        assert ledger.recovered == before - 4
    assert directory_digest(crashed) == digest
    with Ledger.open(crashed) as ledger:
        assert (ledger.head().size, ledger.dropped_bytes) == (before - 4, torn.dropped_bytes)
    with Ledger.open(crashed) as ledger:
        assert (ledger.head().size, ledger.dropped_bytes) == (before - 4, 0)


def test_damage_that_a_whole_record_follows_was_confirmed_and_is_refused(crashed, directory_digest):
    log = the_log(crashed)
    good = log.read_bytes()
    *earlier, last = starts_of_records(good)
    randomly = random.Random(4)
    for start, stop in zip(earlier, [*earlier[1:], last], strict=True):
        data = bytearray(good)
        data[randomly.randrange(start, stop)] ^= 1 << randomly.randrange(8)
        log.write_bytes(data)
        before = directory_digest(crashed)
        text = f"{log.name}: offset {start}: expected a whole record, as a whole one follows at "
        with pytest.raises(IntegrityError, match=text):
            Ledger.open(crashed)
        assert any(text in problem.text for problem in verify_ledger(crashed).problems)
        assert directory_digest(crashed) == before


def test_a_length_that_reaches_beyond_the_log_hides_no_record_behind_it(crashed):
    """RocksDB takes it for the end that a crash cut off, and would drop every confirmed record behind it."""
    log = the_log(crashed)
    data = bytearray(log.read_bytes())
    in_last_block = [at for at in starts_of_records(data) if at > len(data) // 32768 * 32768]
    assert len(in_last_block) >= 2
    data[in_last_block[0] + 5] ^= 0x80
    log.write_bytes(data)
    with pytest.raises(IntegrityError, match=f"a whole one follows at {in_last_block[1]}, got damage"):
        Ledger.open(crashed)


def test_zeros_in_the_middle_hide_no_record_behind_them(crashed):
    log = the_log(crashed)
    data = bytearray(log.read_bytes())
    first, second = starts_of_records(data)[3:5]
    data[first:second] = bytes(second - first)
    log.write_bytes(data)
    with pytest.raises(IntegrityError, match=f"offset {first}: expected a whole record"):
        Ledger.open(crashed)


def test_a_torn_end_below_head_is_no_torn_end(crashed, directory_digest):
    with Ledger.open(crashed, "r") as ledger:
        head = ledger.head()
    head_file.write(head_path(crashed), head)
    log = the_log(crashed)
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    before = directory_digest(crashed)
    text = f"{crashed}: the ledger has {head.size - 4} events, the head in HEAD has {head.size}: "
    with pytest.raises(RollbackError, match=re.escape(text)):
        Ledger.open(crashed)
    report = verify_ledger(crashed)
    assert not report.ok
    assert report.damaged_ranks == [head.size - 4]
    with Ledger.open(crashed, "r") as ledger:
        assert ledger.manifest_status == "RECOVERY_DEGRADED"
    assert directory_digest(crashed) == before


def test_a_later_log_with_content_makes_an_earlier_torn_end_damage(crashed):
    log = the_log(crashed)
    data = log.read_bytes()
    log.write_bytes(data[:-3])
    later = log.with_name("000099.log")
    later.write_bytes(b"")
    assert torn_tail(crashed / "ledger") is not None
    later.write_bytes(data[: starts_of_records(data)[1]])
    with pytest.raises(IntegrityError, match=r"as 000099\.log goes on, got damage"):
        torn_tail(crashed / "ledger")


def test_a_ledger_whose_making_was_killed_is_made_anew(run, make_event):
    """CURRENT and an empty log are there, some families are not, HEAD is not: nothing was ever appended."""
    import rocksdict

    (run / "ledger").mkdir(parents=True)
    rocksdict.Rdict(str(run / "ledger"), rocksdict.Options(raw_mode=True)).close()
    assert (run / "ledger" / "CURRENT").exists()
    with Ledger.open(run) as ledger:
        assert ledger.append(make_event(0)).rank == 0
    assert verify_ledger(run).ok
    assert head_file.read(head_path(run)) == Head(1, verify_ledger(run).root)


@pytest.fixture
def flushed(run, make_event):
    """A closed ledger of 40 events, all in tables, and its manifest; HEAD names the first alone."""
    with Ledger.open(run) as ledger:
        first = Head(1, ledger.append(make_event(0)).root)
        ledger.append_many([make_event(i) for i in range(1, 40)])
    head_file.write(head_path(run), first)
    name = (run / "ledger" / "CURRENT").read_text().strip()
    return run, run / "ledger" / name


def test_a_hole_in_the_manifests_last_record_is_dropped_where_no_event_depends_on_it(flushed, directory_digest):
    run, manifest = flushed
    good = manifest.read_bytes()
    record = b"\x02\x01\x00"  # a further edit, as a crash tears it: header, and other bytes than were summed
    manifest.write_bytes(good + bytes(4) + struct.pack("<HB", len(record), 1) + record)
    before = directory_digest(run)
    report = verify_ledger(run)
    assert (report.ok, report.size, report.dropped_bytes) == (True, 40, 10)
    assert directory_digest(run) == before
    with Ledger.open(run) as ledger:
        assert (ledger.head().size, ledger.dropped_bytes) == (40, 10)


def test_a_damaged_record_of_the_manifest_that_named_events_is_refused(flushed, directory_digest):
    run, manifest = flushed
    good = manifest.read_bytes()
    for start in starts_of_records(good)[2:]:
        damaged = bytearray(good)
        damaged[start + 8] ^= 1
        manifest.write_bytes(damaged)
        before = directory_digest(run)
        report = verify_ledger(run)
        assert not report.ok or report.size == 40
        try:
            with Ledger.open(run) as ledger:
                assert ledger.head().size == 40
        except IntegrityError:
            assert directory_digest(run) == before
            continue
        assert start == starts_of_records(good)[-1]
        break
