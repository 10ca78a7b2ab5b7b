"""Publishing to a folder: what is written, in which order, what happens when it is cut short or raced."""

import hashlib
import shutil
import threading

import pytest

from storage import (
    Event,
    ForkError,
    Head,
    IntegrityError,
    Ledger,
    PublishConflict,
    ReadOnlyError,
    Retired,
    RetiredError,
    RollbackError,
    SignatureError,
    Signer,
    open_published,
    verify_published,
)
from storage.publication import tiles
from storage.publication.directory_store import DirectoryStore
from storage.publication.publish import publish_to

SIGNER = Signer("log.example", bytes(range(32)))
KEY = SIGNER.verifier


@pytest.fixture
def web(tmp_path):
    """A folder to publish to, which does not exist yet."""
    return tmp_path / "web"


@pytest.fixture
def grown(run, make_event):
    """grown(n): an open ledger of n events, grown from what it was before."""
    ledgers = []

    def grow(n):
        if not ledgers:
            ledgers.append(Ledger.open(run, sync="os"))
        (ledger,) = ledgers
        size = ledger.head().size
        ledger.append_many([make_event(i, effect=effect(i)) for i in range(size, n)])
        return ledger

    yield grow
    for ledger in ledgers:
        ledger.close()


def effect(i):
    """Short effects, some empty, and every 97th one a blob."""
    if i % 97 == 5:
        return hashlib.sha256(b"%d" % i).digest() * 2100
    return hashlib.sha256(b"%d" % i).digest()[: i % 33]


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def named_by(size, ledger):
    """The objects that a place of so many events has, less what serves publishing."""
    names = {"checkpoint"}
    for level, full, width in tiles.widths(size):
        names |= {tiles.tile_path(level, i) for i in range(full)}
        if width:
            names.add(tiles.tile_path(level, full, width))
    full, width = divmod(size, 256)
    for path in (tiles.entries_path, tiles.payload_path):
        names |= {path(i) for i in range(full)} | ({path(full, width)} if width else set())
    present = (event for _, event in ledger.scan(0, size, retired=True) if isinstance(event, Event))
    return names | {tiles.blob_path(event.id) for event in present if len(event.encode()) > 65_536}


def same_events(ledger, web, key=KEY):
    with open_published(str(web), key) as published:
        assert published.head() == ledger.head()
        assert list(published.scan(retired=True)) == list(ledger.scan(retired=True))


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 700])
def test_what_is_published_is_exactly_what_the_format_names_and_reads_back_the_same(grown, web, size):
    ledger = grown(size)
    report = ledger.publish(str(web), SIGNER)
    assert set(files(web)) - {".publishing/lock"} == named_by(size, ledger)
    assert (report.size, report.root, report.origin) == (size, ledger.head().root, "log.example")
    assert report.objects_written == len(named_by(size, ledger))
    same_events(ledger, web)
    assert verify_published(str(web), keys=(KEY,), expect=ledger.head()).problems == []


def test_growing_leaves_what_one_publication_of_the_whole_makes(grown, web, tmp_path):
    for size in (1, 3, 200, 256, 300, 511, 513, 1300):
        ledger = grown(size)
        ledger.publish(str(web), SIGNER)
        assert set(files(web)) - {".publishing/lock"} >= named_by(size, ledger)
        assert verify_published(str(web), keys=(KEY,)).problems == []
    ledger.publish(str(tmp_path / "once"), SIGNER)
    left_over = [tiles.parse_path(path) for path in set(files(web)) - set(files(tmp_path / "once"))]
    assert left_over  # of tiles that are not full yet
    assert all(name.width < 256 and name.index == 1300 >> 8 * name.level >> 8 for name in left_over)
    for path in files(tmp_path / "once"):
        assert (web / path).read_bytes() == (tmp_path / "once" / path).read_bytes()


def test_a_publication_writes_only_what_is_new(grown, web):
    grown(600).publish(str(web), SIGNER)
    before = {path: (web / path).stat().st_mtime_ns for path in files(web)}
    again = grown(600).publish(str(web), SIGNER)
    assert (again.objects_written, again.size_before, again.objects_there) == (0, 600, 0)
    assert {path: (web / path).stat().st_mtime_ns for path in files(web)} == before
    more = grown(601).publish(str(web), SIGNER)
    assert more.objects_written == 3 + 1  # hashes, leaves, events of the last tile, and the checkpoint


def test_without_a_key_the_kept_checkpoint_is_published_and_what_it_covers(grown, web):
    ledger = grown(300)
    with pytest.raises(SignatureError) as caught:
        ledger.publish(str(web))
    assert str(caught.value) == f"{ledger.path}: publishing needs a signed checkpoint, the ledger has none"
    assert not web.exists()
    note = ledger.checkpoint(SIGNER)
    grown(310)
    report = ledger.publish(str(web))
    assert (report.size, report.ledger_size) == (300, 310)
    assert (web / "checkpoint").read_bytes() == note
    with Ledger.open(ledger.path, mode="r") as reader:
        assert reader.publish(str(web)).size == 300


def test_signing_needs_a_ledger_that_is_open_for_writing(run, fill, web):
    fill(run, 3)
    with Ledger.open(run, mode="r") as ledger, pytest.raises(ReadOnlyError):
        ledger.publish(str(web), SIGNER)


def test_cosignatures_of_the_published_checkpoint_stay(grown, web):
    from storage.notes.note import Note

    ledger = grown(5)
    ledger.publish(str(web), SIGNER)
    witness = Signer("w.example", bytes(32), 4)
    note = Note.decode((web / "checkpoint").read_bytes())
    cosigned = note.with_signatures((witness.sign(note.text, time_s=7),)).encode()
    (web / "checkpoint").write_bytes(cosigned)
    ledger.publish(str(web), SIGNER)
    assert (web / "checkpoint").read_bytes() == cosigned


class Cut(Exception):
    """A publisher that was killed."""


class CutStore(DirectoryStore):
    """A folder whose writer is killed before, or in the middle of, its n-th change."""

    def __init__(self, folder, changes_left):
        super().__init__(folder, str(folder), writable=True)
        self.left = changes_left
        self.lock = threading.Lock()

    def _change(self):
        with self.lock:
            self.left -= 1
            if self.left < 0:
                raise Cut

    def put_new(self, path, data):
        self._change()
        return super().put_new(path, data)

    def replace(self, path, data, etag):
        self._change()
        super().replace(path, data, etag)

    def delete(self, path):
        self._change()
        super().delete(path)


def test_a_publication_that_is_cut_short_anywhere_leaves_a_valid_place_and_is_finished_by_the_next(
    grown, web, tmp_path
):
    """All points: between a place of 250 events and one of 700, with a retired event and a blob in it."""
    grown(250).publish(str(web), SIGNER)
    ledger = grown(700)
    ledger.retire([3, 102, 690])
    for point in range(1000):
        place = tmp_path / f"cut{point}"
        shutil.copytree(web, place)
        store = CutStore(place, point)
        try:
            publish_to(ledger, store, SIGNER)
            break
        except Cut:
            pass
        report = verify_published(str(place), keys=(KEY,))
        assert report.problems == []
        assert report.size in (250, 700)
        ledger.publish(str(place), SIGNER)
        assert verify_published(str(place), keys=(KEY,), expect=ledger.head()).retired == [
            (3, 3),
            (102, 102),
            (690, 690),
        ]
        assert set(files(place)) - {".publishing/lock", "retired"} == named_by(700, ledger)
        shutil.rmtree(place)
    assert point > 20


def test_of_two_publishers_at_once_one_wins_and_the_other_says_so(grown, web):
    grown(250).publish(str(web), SIGNER)
    ledger = grown(700)

    class Raced(DirectoryStore):
        def flush(self):
            super().flush()
            if not hasattr(self, "raced"):
                self.raced = True
                ledger.publish(str(web), SIGNER)
                grown(800)
                ledger.publish(str(web), SIGNER)

    with pytest.raises(PublishConflict) as caught:
        publish_to(ledger, Raced(web, str(web), writable=True), SIGNER)
    assert str(caught.value) == f"{web / 'checkpoint'}: another publication has replaced it meanwhile"
    same_events(ledger, web)
    assert verify_published(str(web), keys=(KEY,), expect=ledger.head()).problems == []


def test_many_publishers_at_once_leave_a_valid_place(grown, web):
    ledger = grown(900)
    ledger.checkpoint(SIGNER)
    ended = []

    def publish():
        try:
            ledger.publish(str(web))
            ended.append("done")
        except PublishConflict:
            ended.append("conflict")

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(ended)) in (["done"], ["conflict", "done"])
    assert len(ended) == 4
    same_events(ledger, web)


def test_another_log_is_not_published_over_one(grown, web, tmp_path, make_event):
    grown(3).publish(str(web), SIGNER)
    with Ledger.open(tmp_path / "other", sync="os") as other:
        other.append(make_event(0))
        with pytest.raises(PublishConflict) as caught:
            other.publish(str(web), Signer("other.example", bytes(32)))
    assert str(caught.value) == (f"{web}: the ledger of 'log.example' is published there, got one of 'other.example'")
    same_events(grown(3), web)


def test_fewer_events_than_are_published_are_a_rollback_and_others_a_fork(grown, web, tmp_path, make_event):
    grown(300).publish(str(web), SIGNER)
    with Ledger.open(tmp_path / "short", sync="os") as short:
        short.append_many([make_event(i, effect=effect(i)) for i in range(299)])
        with pytest.raises(RollbackError) as caught:
            short.publish(str(web), SIGNER)
        assert (caught.value.size_seen, caught.value.size_now) == (300, 299)
        short.append_many([make_event(i) for i in range(300, 310)])
        with pytest.raises(ForkError, match="the checkpoint of 300 events there has the root"):
            short.publish(str(web), SIGNER)
    same_events(grown(300), web)


def test_an_object_with_other_bytes_is_a_conflict_and_the_checkpoint_stays(grown, web):
    grown(200).publish(str(web), SIGNER)
    before = (web / "checkpoint").read_bytes()
    (web / "tile/entries/000").write_bytes(b"something else")
    with pytest.raises(PublishConflict, match=r"tile/entries/000 is there with other bytes than those of"):
        grown(300).publish(str(web), SIGNER)
    assert (web / "checkpoint").read_bytes() == before
    assert verify_published(str(web), keys=(KEY,)).problems == []


def test_every_object_is_looked_at_again_when_that_is_asked_for(grown, web):
    ledger = grown(900)
    ledger.publish(str(web), SIGNER)
    for path in ("tile/entries/001", "tile/0/000", "payload/002"):
        (web / path).unlink()
    assert ledger.publish(str(web), SIGNER).objects_written == 0
    assert not verify_published(str(web), keys=(KEY,)).ok
    assert ledger.publish(str(web), SIGNER, every=True).objects_written == 3
    assert verify_published(str(web), keys=(KEY,)).ok


def test_a_damaged_payload_is_mended_when_every_object_is_looked_at(grown, web):
    ledger = grown(300)
    ledger.publish(str(web), SIGNER)
    (web / "payload/000").write_bytes(b"DWP1")
    ledger.publish(str(web), SIGNER, every=True)
    assert verify_published(str(web), keys=(KEY,)).ok


def test_a_retired_event_is_taken_out_at_the_next_publication_and_its_proof_stays(grown, web):
    ledger = grown(700)
    secret = ledger.at(102)  # a blob
    small = ledger.at(4)
    last = ledger.at(699)
    ledger.publish(str(web), SIGNER)
    ledger.retire([4, 102, 699])
    report = ledger.publish(str(web), SIGNER)
    assert report.ranks_retired == [(4, 4), (102, 102), (699, 699)]
    assert (web / "retired").read_text() == "4\n102\n699\n"
    stored = b"".join((web / path).read_bytes() for path in files(web))
    assert all(event.effect not in stored for event in (secret, last) if len(event.effect) > 3)
    assert not (web / tiles.blob_path(secret.id)).exists()
    with open_published(str(web), KEY) as published:
        with pytest.raises(RetiredError) as caught:
            published.at(102)
        assert caught.value.ranks == (102,)
        assert dict(published.scan(100, 110, retired=True))[102] == Retired(secret.id, len(secret.encode()))
        assert published.rank_of(small.id) == 4
        assert published.prove(4) == ledger.prove(4)
    found = verify_published(str(web), keys=(KEY,))
    assert (found.problems, found.retired, found.retired_count) == ([], [(4, 4), (102, 102), (699, 699)], 3)
    assert ledger.publish(str(web), SIGNER).ranks_retired == []


def test_an_older_copy_of_the_ledger_brings_no_retired_event_back(grown, web, tmp_path):
    ledger = grown(300)
    ledger.publish(str(web), SIGNER)
    shutil.copytree(ledger.path, tmp_path / "copy")
    ledger.retire([7])
    ledger.publish(str(web), SIGNER)
    (tmp_path / "copy" / "ledger" / "LOCK").unlink(missing_ok=True)
    with Ledger.open(tmp_path / "copy", mode="r") as copy:
        copy.publish(str(web), every=True)
    assert verify_published(str(web), keys=(KEY,)).retired == [(7, 7)]


def test_damaged_events_are_not_published(run, fill, web, rewrite):
    from storage import layout

    fill(run, 300)
    with Ledger.open(run) as ledger:
        ledger.checkpoint(SIGNER)
        value = ledger._store.get("log", layout.log_key(20))
    rewrite(run, [("log", layout.log_key(20), value[:-1] + b"?")])
    with Ledger.open(run, mode="r") as ledger, pytest.raises(IntegrityError) as caught:
        ledger.publish(str(web))
    assert list(caught.value.ranks) == [20]
    assert not (web / "checkpoint").exists()


def test_a_ledger_with_missing_events_is_not_published(run, fill, web):
    from storage import head as head_file

    head = fill(run, 30)
    head_file.write(run / "HEAD", Head(40, head.root))
    with Ledger.open(run, mode="r") as ledger, pytest.raises(RollbackError):
        ledger.publish(str(web))


def test_a_damaged_run_is_repaired_from_where_it_is_published(run, fill, web, rewrite):
    from storage import layout, repair_ledger, verify_ledger

    head = fill(run, 600)
    with Ledger.open(run) as ledger:
        ledger.publish(str(web), SIGNER)
        value = ledger._store.get("log", layout.log_key(300))
        event = ledger.at(300)
    rewrite(run, [("log", layout.log_key(300), value[:40] + bytes(20) + value[60:])])
    report = repair_ledger(run, sources=[str(web)])
    assert report.ok
    assert report.ranks_restored == {str(web): [(300, 300)]}
    assert (verify_ledger(run).problems, verify_ledger(run).root) == ([], head.root)
    with Ledger.open(run, mode="r") as ledger:
        assert ledger.at(300) == event


@pytest.mark.slow
def test_publishers_that_are_killed_at_any_time_leave_a_valid_place(grown, web, tmp_path):
    """kill -9 in a process of its own, twenty times later each; the publisher that is not killed finishes it."""
    import os
    import signal
    import subprocess
    import sys

    grown(250).publish(str(web), SIGNER)
    ledger = grown(6000)
    ledger.checkpoint(SIGNER)
    code = (
        "import sys; from storage import Ledger\n"
        "with Ledger.open(sys.argv[1], mode='r') as ledger:\n"
        "    print(flush=True); ledger.publish(sys.argv[2])"
    )
    sizes = set()
    for trial in range(20):
        place = tmp_path / f"killed{trial}"
        shutil.copytree(web, place)
        command = [sys.executable, "-c", code, str(ledger.path), str(place)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/") as publisher:
            publisher.stdout.readline()
            try:
                publisher.wait(0.015 * trial)
            except subprocess.TimeoutExpired:
                os.kill(publisher.pid, signal.SIGKILL)
        report = verify_published(str(place), keys=(KEY,))
        assert report.problems == []
        sizes.add(report.size)
        ledger.publish(str(place))
        assert verify_published(str(place), keys=(KEY,), expect=ledger.head()).problems == []
        assert {path for path in files(place) if not path.startswith(".publishing")} == named_by(6000, ledger)
        shutil.rmtree(place)
    assert 250 in sizes


def test_a_ledger_on_lmdb_is_published_as_one_on_rocksdb(run, web, tmp_path, make_event):
    for engine, place in (("rocksdb", web), ("lmdb", tmp_path / "other")):
        with Ledger.open(tmp_path / engine, sync="os", engine=engine) as ledger:
            ledger.append_many([make_event(i) for i in range(600)])
            ledger.retire([4])
            ledger.publish(str(place), SIGNER)
    assert files(web) == files(tmp_path / "other")
    for path in files(web):
        assert (web / path).read_bytes() == (tmp_path / "other" / path).read_bytes()


def test_an_answer_that_was_lost_is_no_conflict(grown, web):
    class Forgetful(DirectoryStore):
        """Writes the checkpoint, and says that somebody else did."""

        def replace(self, path, data, etag):
            super().replace(path, data, etag)
            raise PublishConflict("the answer was lost, and asking again came too late")

    ledger = grown(3)
    assert publish_to(ledger, Forgetful(web, str(web), writable=True), SIGNER).size == 3
    same_events(ledger, web)


@pytest.mark.parametrize("place", ["a file", "a file/below"])
def test_a_place_that_cannot_be_written_is_read_only(grown, tmp_path, place):
    (tmp_path / "a file").write_text("")
    with pytest.raises(ReadOnlyError, match=r"a file.*: (Not a directory|File exists)"):
        grown(3).publish(str(tmp_path / place), SIGNER)


def test_a_full_disk_is_told_and_the_next_publication_finishes_what_was_begun(grown, small_disk):
    from storage import StorageFullError

    disk, remount = small_disk(1)
    ledger = grown(2000)
    with pytest.raises(StorageFullError, match="No space left on device"):
        ledger.publish(str(disk / "web"), SIGNER)
    remount("size=16m")
    ledger.publish(str(disk / "web"), SIGNER)
    assert verify_published(str(disk / "web"), keys=(KEY,), expect=ledger.head()).problems == []


@pytest.mark.slow
def test_seventy_thousand_events_and_more_than_a_thousand_tiles_have_the_names_of_the_tiled_log(run, web):
    def events(first, stop):
        return [Event(producer="p", effect=b"", kind="k", sequence=i, tick=i) for i in range(first, stop)]

    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(events(0, 70_000))
        ledger.publish(str(web), SIGNER)
        names = {path for path in files(web) if path != ".publishing/lock"}
        assert names == {
            "checkpoint",
            *(f"{top}/{i:03}" for top in ("tile/0", "tile/entries", "payload") for i in range(273)),
            *(f"{top}/273.p/112" for top in ("tile/0", "tile/entries", "payload")),
            "tile/1/000", "tile/1/001.p/17", "tile/2/000.p/1",
        }  # fmt: skip
        for size in (70_300, 255_990, 256_010, 257_300):
            ledger.append_many(events(ledger.head().size, size))
            ledger.publish(str(web), SIGNER)
        names = {path for path in files(web) if path != ".publishing/lock"}
        assert {"tile/0/999", "tile/0/x001/000", "payload/x001/005.p/20"} <= names
        left = {tiles.parse_path(path) for path in names - named_by(257_300, ledger)}
        assert {(name.level, name.index) for name in left} <= {(1, 3), (2, 0)}  # tiles that are not full yet
        assert verify_published(str(web), keys=(KEY,), expect=ledger.head()).problems == []
