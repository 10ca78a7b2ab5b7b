"""Retiring: payloads leave the files, leaves and proofs stay, and everything else reads on."""

import hashlib

import pytest

from storage import IntegrityError, Ledger, ReadOnlyError, Retired, RetiredError, verify_ledger
from storage.layout import cursor_key, log_key, pack_cursor
from storage.mending.retire import ranges
from storage.tree import leaf

pytestmark = pytest.mark.usefixtures("engine")
ON_ROCKSDB = pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)  # about its own files

N = 300

pytestmark = pytest.mark.usefixtures("engine")


def payload(i):
    return b"payload-%d-" % i + hashlib.sha256(b"%d" % i).digest() * 4


@pytest.fixture
def events(make_event):
    return [make_event(i, effect=payload(i), producer=f"p{i % 3}") for i in range(N)]


@pytest.fixture
def stored(run, events):
    """A closed ledger of 300 events in several files and logs: run, head."""
    for at in range(0, N, 100):
        with Ledger.open(run, sync="os") as ledger:
            ledger.append_many(events[at : at + 100])
            head = ledger.head()
    return run, head


def files_with(run, content):
    return [file.name for file in run.rglob("*") if file.is_file() and content in file.read_bytes()]


def test_the_payload_is_in_no_file_afterwards_and_all_others_are(stored, events):
    run, head = stored
    with Ledger.open(run) as ledger:
        assert ledger.retire([5, 6, 7, 299, 0]) == [0, 5, 6, 7, 299]
        for rank in (0, 5, 6, 7, 299):
            assert files_with(run, payload(rank)) == []
        assert files_with(run, payload(8)) != []
        assert ledger.head() == head
    for rank in (0, 5, 6, 7, 299):
        assert files_with(run, payload(rank)) == []
    assert files_with(run, payload(8)) != []
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "HEALTHY"
        assert ledger.at(8) == events[8]
        assert ledger.head() == head


@ON_ROCKSDB
def test_an_event_that_is_only_in_the_write_ahead_log_leaves_it_too(stored, make_event, engine):
    run, _ = stored
    with Ledger.open(run) as ledger:
        ledger.append(make_event(N, effect=payload(N)))
        assert [name[-4:] for name in files_with(run, payload(N))] == [".log" if engine == "rocksdb" else ".mdb"]
        ledger.retire([N])
        assert files_with(run, payload(N)) == []


def test_a_retired_event_raises_with_its_rank_and_its_id_stays_known(stored, events):
    run, _ = stored
    with Ledger.open(run) as ledger:
        ledger.retire([6])
        text = (
            f"{run}: rank 6 is retired: the {len(events[6].encode())} bytes of event {events[6].id.hex()} were removed"
        )
        for read in (lambda: ledger.at(6), lambda: ledger.get(events[6].id), lambda: list(ledger.scan())):
            with pytest.raises(RetiredError) as caught:
                read()
            assert str(caught.value) == text
            assert caught.value.ranks == (6,)
        assert ledger.rank_of(events[6].id) == 6


def test_scan_stops_there_or_gives_out_what_is_left(stored, events):
    run, _ = stored
    with Ledger.open(run) as ledger:
        ledger.retire([6])
        seen = []
        with pytest.raises(RetiredError):
            seen.extend(ledger.scan(4))
        assert seen == [(4, events[4]), (5, events[5])]
        assert list(ledger.scan(7, 9)) == [(7, events[7]), (8, events[8])]
        left = Retired(events[6].id, len(events[6].encode()))
        assert list(ledger.scan(5, 8, retired=True)) == [(5, events[5]), (6, left), (7, events[7])]


def test_verify_names_the_ranges_and_finds_nothing_wrong(stored):
    run, head = stored
    with Ledger.open(run) as ledger:
        ledger.retire([*range(250, 300), 3])
    report = verify_ledger(run)
    assert report.problems == []
    assert report.ok
    assert (report.size, report.root) == (head.size, head.root)
    assert report.retired == [(3, 3), (250, 299)]
    assert report.retired_count == 51


def test_retiring_twice_changes_nothing_and_appending_goes_on(stored, make_event, events):
    run, _ = stored
    with Ledger.open(run) as ledger:
        assert ledger.retire([4]) == [4]
        assert ledger.retire([4, 4]) == []
        assert ledger.append(events[4]).rank == 4  # the same event again: its first rank
        assert ledger.append(make_event(N)).rank == N
    assert verify_ledger(run).ok


def test_a_retirement_cut_short_before_the_files_are_rewritten_is_ended_by_retiring_again(stored, monkeypatch):
    run, head = stored
    with Ledger.open(run) as ledger:

        def stopped():
            raise KeyboardInterrupt

        inner = ledger._store
        monkeypatch.setattr(type(inner), "compact", lambda self: stopped())
        with pytest.raises(KeyboardInterrupt):
            ledger.retire([4])
        monkeypatch.undo()
        with pytest.raises(RetiredError):
            ledger.at(4)
    assert verify_ledger(run).root == head.root
    with Ledger.open(run) as ledger:
        assert ledger.retire([4]) == []
    assert files_with(run, payload(4)) == []


def test_ranks_out_of_range_are_refused_before_anything_is_written(stored, events):
    run, _ = stored
    with Ledger.open(run) as ledger:
        for ranks in ([1, N], [-1], [2**70]):
            with pytest.raises(IndexError) as caught:
                ledger.retire(ranks)
            assert str(caught.value) == f"Ledger.retire: rank must be in [0, {N}), got {ranks[-1]}"
        with pytest.raises(TypeError, match=r"^Ledger.retire: ranks must be int, got bool$"):
            ledger.retire([True])
        assert ledger.at(1) == events[1]
    with Ledger.open(run, "r") as ledger, pytest.raises(ReadOnlyError, match='opened with mode "r", retire needs "rw"'):
        ledger.retire([1])


def test_a_damaged_event_is_not_retired_and_neither_are_those_beside_it(stored, events, rewrite):
    run, _ = stored
    rewrite(run, [("log", log_key(9), events[9].id + events[9].encode()[:-1] + b"\x00")])
    with Ledger.open(run) as ledger:
        with pytest.raises(IntegrityError, match="rank 9"):
            ledger.retire([8, 9])
        assert ledger.at(8) == events[8]


def test_a_leaf_that_is_not_that_of_the_tree_is_damage(stored, events, rewrite):
    run, _ = stored
    for value in (
        leaf(events[9].id, len(events[9].encode()) + 1),
        leaf(events[8].id, len(events[9].encode())),
        b"\2" + leaf(events[9].id, len(events[9].encode()))[1:],
    ):
        rewrite(run, [("log", log_key(9), value)])
        report = verify_ledger(run)
        assert 9 in report.damaged_ranks
        with Ledger.open(run, "r") as ledger, pytest.raises(IntegrityError, match="rank 9"):
            ledger.at(9)
    rewrite(run, [("log", log_key(9), leaf(events[9].id, len(events[9].encode())))])
    assert verify_ledger(run).ok


def test_a_cursor_of_a_retired_event_must_be_later_than_all_that_is_known(stored, events, rewrite):
    run, _ = stored
    with Ledger.open(run) as ledger:
        ledger.retire([3, 298])
    assert verify_ledger(run).ok
    rewrite(run, [("meta", cursor_key("p0"), pack_cursor(3, events[3].id))])
    assert [problem.where for problem in verify_ledger(run).problems] == ["meta/cursor/p0"]
    rewrite(run, [("meta", cursor_key("p0"), pack_cursor(297, events[297].id))])
    rewrite(run, [("meta", cursor_key("p1"), pack_cursor(298, bytes(32)))])
    assert [problem.where for problem in verify_ledger(run).problems] == ["meta/cursor/p1"]


def test_a_ledger_whose_every_event_is_retired_verifies_and_goes_on(stored, make_event):
    run, head = stored
    with Ledger.open(run) as ledger:
        assert len(ledger.retire(range(N))) == N
    report = verify_ledger(run)
    assert (report.ok, report.root, report.retired) == (True, head.root, [(0, N - 1)])
    with Ledger.open(run) as ledger:
        assert ledger.append(make_event(N)).rank == N
        assert len(list(ledger.scan(retired=True))) == N + 1


def test_ranges_joins_neighbours():
    assert ranges([]) == []
    assert ranges([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)]


def test_a_leaf_decodes_only_from_41_bytes_of_version_1():
    assert Retired.decode(leaf(bytes(32), 7)) == Retired(bytes(32), 7)
    for wrong in (b"", bytes(41), leaf(bytes(32), 7) + b"\0"):
        with pytest.raises(ValueError, match=r"^Retired.decode: expected a leaf of 41 bytes, version 1, got "):
            Retired.decode(wrong)
