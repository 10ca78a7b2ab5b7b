"""A published ledger that was tampered with: what is wrong is named, the rest is read, no wrong byte comes back."""

import hashlib
import random

import pytest

from storage import (
    ForkError,
    Head,
    IntegrityError,
    Ledger,
    NotALedgerError,
    NoteError,
    RollbackError,
    SignatureError,
    Signer,
    StorageError,
    open_published,
    verify_published,
)
from storage.publication import tiles

SIGNER = Signer("log.example", bytes(range(32)))
KEY = SIGNER.verifier
SIZE = 600


def effect(i):
    if i in (40, 599):
        return hashlib.sha256(b"%d" % i).digest() * 2100
    return hashlib.sha256(b"%d" % i).digest()[: i % 33]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The events, and the objects of their publication, with ranks 7 and 300 retired."""
    from storage import Event

    folder = tmp_path_factory.mktemp("published")
    with Ledger.open(folder / "run", sync="os") as ledger:
        ledger.append_many(
            [Event(producer="p", effect=effect(i), kind="note.text", sequence=i, tick=i) for i in range(SIZE)]
        )
        ledger.publish(str(folder / "web"), SIGNER)
        ledger.retire([7, 300])
        ledger.publish(str(folder / "web"))
        events = dict(ledger.scan(retired=True))
        head = ledger.head()
    web = folder / "web"
    objects = {
        path.relative_to(web).as_posix(): path.read_bytes()
        for path in web.rglob("*")
        if path.is_file() and not path.is_relative_to(web / ".publishing")
    }
    return events, objects, head


@pytest.fixture
def web(original, tmp_path):
    """A fresh copy of the published objects."""
    folder = tmp_path / "web"
    for name, data in original[1].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def read_all(web, key=KEY):
    """Rank → event for all that can be read, and the ranks that can't."""
    found, lost, named = {}, [], []
    with open_published(str(web), key) as ledger:
        rank = 0
        while rank < ledger.head().size:
            try:
                for at, event in ledger.scan(rank, retired=True):
                    found[at] = event
                    rank = at + 1
            except IntegrityError as error:
                lost.append(rank)
                named.append(error.ranks)
                rank += 1
    assert all(rank in ranks for rank, ranks in zip(lost, named, strict=True))
    return found, lost


def ranks_of(path, objects, events):
    """The ranks that can't be read without an object."""
    name = tiles.parse_path(path)
    if name is not None:
        below = set(range(name.index * 256, name.index * 256 + name.width))
        return below if name.kind == "payload" else below & {7, 40, 300, 599} if name.kind == "entries" else set()
    return {rank for rank, event in events.items() if path == tiles.blob_path(event.id)}


def test_a_bit_flipped_in_any_object_is_found_and_named_and_no_wrong_event_is_returned(original, web):
    events, objects, head = original
    randomness = random.Random(5)
    tried = 0
    for path, data in sorted(objects.items()):
        places = {0, 1, 2, len(data) - 1, *(randomness.randrange(len(data)) for _ in range(6))}
        for at in sorted(places):
            flipped = bytearray(data)
            flipped[at] ^= 1 << randomness.randrange(8)
            (web / path).write_bytes(flipped)
            report = verify_published(str(web), keys=(KEY,), expect=head)
            if path != "retired":
                assert not report.ok, (path, at)
                assert path in {problem.where for problem in report.problems}, (path, at, report.problems)
                tried += 1
            if path == "checkpoint":
                continue
            found, lost = read_all(web)
            assert all(event == events[rank] for rank, event in found.items()), (path, at)
            assert set(lost) <= ranks_of(path, objects, events), (path, at)
            assert set(lost) <= set(report.damaged_ranks)
            assert found.keys() | set(lost) == events.keys()
        (web / path).write_bytes(data)
    assert tried > 100
    assert verify_published(str(web), keys=(KEY,), expect=head).ok


@pytest.mark.parametrize("how", ["missing", "empty", "short", "long", "swapped", "folder"])
def test_any_object_that_is_missing_or_of_another_size_is_named(original, web, how):
    events, objects, head = original
    for path, data in sorted(objects.items()):
        if path in ("retired", "checkpoint"):
            continue
        (web / path).unlink()
        if how == "folder":
            (web / path).mkdir()
        elif how != "missing":
            others = [o for p, o in sorted(objects.items()) if p.split("/")[:-1] == path.split("/")[:-1] and o != data]
            new = {"empty": b"", "short": data[:-1], "long": data + b"?", "swapped": (others or [b"x"])[0]}[how]
            (web / path).write_bytes(new)
        report = verify_published(str(web), keys=(KEY,), expect=head)
        assert not report.ok
        assert path in {problem.where for problem in report.problems}, path
        found, lost = read_all(web)
        assert all(event == events[rank] for rank, event in found.items())
        assert set(lost) == ranks_of(path, objects, events)
        assert set(lost) <= set(report.damaged_ranks)
        if how == "folder":
            (web / path).rmdir()
        (web / path).write_bytes(data)


def test_a_tile_that_is_gone_is_made_again_from_what_lies_below(original, web):
    events, _, _ = original
    for path in ("tile/0/000", "tile/0/002.p/88", "tile/1/000.p/2"):
        (web / path).unlink()
    with open_published(str(web), KEY) as ledger:
        assert dict(ledger.scan(retired=True)) == events
        assert sorted(problem.file for problem in ledger.problems) == [
            "tile/0/000",
            "tile/0/002.p/88",
            "tile/1/000.p/2",
        ]


def test_events_are_proven_where_their_leaves_are_lost(original, web):
    events, _, _ = original
    (web / "tile/entries/000").unlink()
    found, lost = read_all(web)
    assert lost == [7, 40]  # the retired one, whose id is nowhere else, and the one whose object is called by its id
    assert all(event == events[rank] for rank, event in found.items())


def test_when_tile_and_leaves_are_both_lost_the_ranks_are_named_and_the_others_read(original, web):
    events, _, _ = original
    (web / "tile/entries/001").unlink()
    (web / "tile/0/001").unlink()
    found, lost = read_all(web)
    assert lost == list(range(256, 512))
    assert found == {rank: event for rank, event in events.items() if rank not in range(256, 512)}
    report = verify_published(str(web), keys=(KEY,))
    assert report.damaged_ranks == lost


def rewritten(web, text):
    """A checkpoint signed by the same key with another text."""
    from storage.notes.note import Note

    (web / "checkpoint").write_bytes(Note(text, (SIGNER.sign(text),)).encode())


def test_a_checkpoint_that_the_tiles_do_not_lead_to_opens_nothing(web):
    from storage.notes.checkpoint import Checkpoint

    rewritten(web, Checkpoint("log.example", SIZE, bytes(32)).text())
    with pytest.raises(IntegrityError) as caught:
        open_published(str(web), KEY)
    assert str(caught.value) == (
        f"{web}: the tiles do not give the root {bytes(32).hex()} of 600 events that the checkpoint names"
    )
    report = verify_published(str(web), keys=(KEY,))
    assert [problem.where for problem in report.problems] == ["checkpoint"]


def test_a_size_that_was_never_published_asks_for_no_memory(web):
    from storage.notes.checkpoint import Checkpoint

    rewritten(web, Checkpoint("log.example", 2**63, bytes(32)).text())
    assert [problem.where for problem in verify_published(str(web), keys=(KEY,)).problems] == ["checkpoint"]


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (b"", NoteError, "checkpoint: note: expected a text, an empty line and signatures, got no empty line"),
        (b"\n" * 70_000, NoteError, "checkpoint: expected at most 65536 bytes, got more"),
    ],
)
def test_a_checkpoint_that_is_none_is_refused(web, content, error, text):
    (web / "checkpoint").write_bytes(content)
    with pytest.raises(error) as caught:
        open_published(str(web))
    assert str(caught.value) == f"{web}: {text}"


def test_a_checkpoint_of_another_key_is_refused_and_told(web):
    other = Signer("log.example", bytes(32)).verifier
    with pytest.raises(SignatureError, match=r"checkpoint: expected a signature of log\.example"):
        open_published(str(web), other)
    report = verify_published(str(web), keys=(other,))
    assert [(p.where, p.expected) for p in report.problems] == [("checkpoint", "a signature of log.example")]


def test_without_a_key_the_objects_are_still_held_against_the_root(original, web):
    assert verify_published(str(web)).ok
    (web / "payload/001").write_bytes(b"")
    assert not verify_published(str(web)).ok


def test_a_folder_without_a_checkpoint_holds_no_published_ledger(tmp_path):
    for call in (open_published, verify_published):
        with pytest.raises(NotALedgerError) as caught:
            call(str(tmp_path))
        assert str(caught.value) == f"{tmp_path}: no ledger is published there (expected checkpoint)"


def test_what_is_expected_must_be_contained(original, web):
    _, _, head = original
    with open_published(str(web), KEY, expect=head):
        pass
    with pytest.raises(RollbackError) as caught:
        open_published(str(web), KEY, expect=Head(601, head.root))
    assert (caught.value.size_seen, caught.value.size_now) == (601, 600)
    with pytest.raises(ForkError):
        open_published(str(web), KEY, expect=Head(500, head.root))
    report = verify_published(str(web), keys=(KEY,), expect=Head(500, head.root))
    assert [problem.where for problem in report.problems] == ["expected"]


def test_a_leaf_that_names_a_huge_event_allocates_nothing(tmp_path):
    """A log that signs a leaf of 2^60 bytes: the object is never asked for."""
    from storage import tree
    from storage.notes.checkpoint import Checkpoint
    from storage.publication import payload_bundle
    from storage.publication.payload_bundle import Elsewhere

    web = tmp_path
    record = tree.leaf(bytes(32), 1 << 60)
    (web / "tile/0/000.p").mkdir(parents=True)
    (web / "tile/entries/000.p").mkdir(parents=True)
    (web / "payload/000.p").mkdir(parents=True)
    (web / "tile/0/000.p/1").write_bytes(tree.leaf_hash(record))
    (web / "tile/entries/000.p/1").write_bytes(tiles.pack_entries([record]))
    (web / "payload/000.p/1").write_bytes(payload_bundle.pack([Elsewhere.BLOB]))
    rewritten(web, Checkpoint("log.example", 1, tree.leaf_hash(record)).text())
    with (
        open_published(str(web), KEY) as ledger,
        pytest.raises(IntegrityError, match="names 1152921504606846976 bytes"),
    ):
        ledger.at(0)


def test_an_id_whose_leaf_is_lost_is_found_by_its_payload_and_never_called_unknown(original, web):
    events, _, _ = original
    (web / "tile/entries/000").unlink()
    with open_published(str(web), KEY) as ledger:
        assert ledger.rank_of(events[3].id) == 3
        with pytest.raises(IntegrityError) as caught:
            ledger.get(bytes(32))  # it may be that of a retired event, which had its leaf alone
    assert 0 < len(caught.value.ranks) < 256
    (web / "payload/000").unlink()
    with open_published(str(web), KEY) as ledger:
        assert ledger.get(events[599].id) == events[599]
        with pytest.raises(IntegrityError) as caught:
            ledger.get(events[3].id)
    assert list(caught.value.ranks) == list(range(256))
    text = f"{web}: the id {events[3].id.hex()} isn't found, and 256 events can't be read, the first at rank 0"
    assert str(caught.value) == text


def test_reading_needs_ranks_and_ids_that_there_are_and_an_open_ledger(original, web):
    events, _, _ = original
    ledger = open_published(str(web), KEY)
    assert (ledger.origin, ledger.mode, ledger.url) == ("log.example", "r", str(web))
    assert ledger.get(events[599].id) == events[599]
    with pytest.raises(IndexError, match=r"PublishedLedger.at: rank must be in \[0, 600\), got 600"):
        ledger.at(600)
    with pytest.raises(KeyError):
        ledger.get(bytes(32))
    with pytest.raises(ValueError, match="need 0 <= start <= stop <= 600, got 3 and 601"):
        ledger.scan(3, 601)
    ledger.close()
    ledger.close()
    for call in (ledger.head, lambda: ledger.at(0), lambda: next(ledger.scan()), lambda: ledger.prove(0)):
        with pytest.raises(StorageError, match="the ledger is closed"):
            call()


def test_proofs_are_those_of_the_ledger(original, web):
    from storage import tree

    _, _, head = original
    with open_published(str(web), KEY) as ledger:
        for rank in (0, 7, 255, 256, 599):
            proof = ledger.prove(rank)
            assert tree.verify_inclusion(rank, SIZE, ledger.tree.hash_at(0, rank), proof, head.root)
        for m in (1, 256, 511, 600):
            assert tree.verify_consistency(m, SIZE, ledger.root_at(m), head.root, ledger.consistency(m))


def test_odd_wall_times_are_warned_of_and_no_problem(tmp_path):
    from storage import Event

    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        for i, wall_ns in enumerate((9_000_000_000, 4_000_000_000)):
            event = Event(producer="p", effect=b"", kind="k", sequence=i, tick=i, wall_ns=wall_ns)
            ledger.append(event)
        ledger.publish(str(tmp_path / "web"), SIGNER)
    report = verify_published(str(tmp_path / "web"))
    assert (report.ok, report.warnings) == (True, ["rank 1: the wall time of producer 'p' goes back by 0:00:05"])
