"""Checkpoints of a ledger: kept before they are known, and never two that contradict each other."""

import signal
import subprocess
import sys
import threading

import pytest

from storage import ForkError, IntegrityError, Ledger, ReadOnlyError, Signer, tree, verify_ledger
from storage.notes import checkpoint_store
from storage.notes.checkpoint import decode, opened

LOG = Signer("droveway.example/ledger", bytes(range(32)))
WITNESS = Signer("w1.example", bytes(range(32, 64)), 4)


def test_a_checkpoint_names_the_head_and_is_kept_in_both_places(run, make_event):
    with Ledger.open(run) as ledger:
        for size in (1, 2, 3):
            receipt = ledger.append(make_event(size))
            note = ledger.checkpoint(LOG)
            checkpoint, _ = opened(note, LOG.verifier)
            assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (LOG.name, size, receipt.root)
            assert (run / "checkpoint").read_bytes() == note
        kept = ledger.checkpoints()
        assert [decode(each)[0].size for each in kept] == [1, 2, 3]
    with Ledger.open(run, mode="r") as ledger:
        assert ledger.checkpoints() == kept


def test_an_empty_ledger_has_a_checkpoint_too(run):
    with Ledger.open(run) as ledger:
        assert opened(ledger.checkpoint(LOG), LOG.verifier)[0].root == tree.EMPTY_ROOT


def test_the_same_size_again_gives_the_same_note_with_what_was_added(run, make_event):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(0))
        note = ledger.checkpoint(LOG)
        assert ledger.checkpoint(LOG) == note
        text = decode(note)[1].text
        added = ledger.add_signatures(1, [WITNESS.sign(text, time_s=5)])
        assert opened(added, LOG.verifier, (WITNESS.verifier,))[1] == (WITNESS.verifier,)
        assert ledger.checkpoint(LOG) == added == (run / "checkpoint").read_bytes()
        ledger.append(make_event(1))
        newest = ledger.checkpoint(LOG)
        ledger.add_signatures(1, [WITNESS.sign(text, time_s=6)])
        assert (run / "checkpoint").read_bytes() == newest
        with pytest.raises(KeyError, match="no checkpoint of 7 events is stored"):
            ledger.add_signatures(7, [])


def test_the_head_file_is_rewritten_with_a_checkpoint(run, make_event):
    from storage import head

    with Ledger.open(run, sync="os") as ledger:
        ledger.append(make_event(0))
        ledger.checkpoint(LOG)
        assert head.read(run / "HEAD") == ledger.head()


def test_what_is_signed_is_on_the_disk_before_it_is_signed(run, make_event, monkeypatch):
    done = []
    with Ledger.open(run, sync="os") as ledger:
        ledger.append(make_event(0))
        store_sync = ledger._store.sync
        monkeypatch.setattr(ledger._store, "sync", lambda: (done.append("sync"), store_sync()))
        sign = checkpoint_store.sign
        monkeypatch.setattr(checkpoint_store, "sign", lambda *rest: (done.append("sign"), sign(*rest))[1])
        ledger.checkpoint(LOG)
    assert done[:2] == ["sync", "sign"]


@pytest.fixture
def forked(run, fill, make_event):
    """A ledger whose checkpoint of two events another history of two events has signed."""
    fill(run, 2)
    other = run.with_name("other")
    with Ledger.open(other) as ledger:
        ledger.append_many([make_event(i, effect=b"other") for i in range(2)])
        note = ledger.checkpoint(LOG)
    return run, note


def test_nothing_is_signed_beside_a_kept_checkpoint_of_another_history(forked, rewrite, make_event):
    run, note = forked
    with Ledger.open(run) as ledger:
        ledger._store.write([("meta", checkpoint_store.key(2), note)], sync=True)
        for _ in range(2):
            with pytest.raises(ForkError) as caught:
                ledger.checkpoint(LOG)
            ledger.append(make_event(ledger.head().size))
        assert str(caught.value).startswith(
            f"{run.absolute()}: meta/checkpoint/2: the checkpoint of 2 events has the root"
        )
        assert not (run / "checkpoint").exists()


def test_a_checkpoint_of_another_origin_is_nobodys_business(forked):
    run, note = forked
    with Ledger.open(run) as ledger:
        ledger._store.write([("meta", checkpoint_store.key(1), note)], sync=True)
        ledger.checkpoint(Signer("another.example", bytes(32)))


def test_two_origins_cannot_share_a_size(run, make_event):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(0))
        ledger.checkpoint(LOG)
        with pytest.raises(ForkError) as caught:
            ledger.checkpoint(Signer("another.example", bytes(32)))
        assert str(caught.value) == (
            f"{run}: size 1 has a checkpoint of 'droveway.example/ledger' already, got a key of 'another.example'"
        )


def test_a_new_key_of_the_same_name_signs_beside_the_old_one(run, make_event):
    new = Signer(LOG.name, bytes(32))
    with Ledger.open(run) as ledger:
        ledger.append(make_event(0))
        ledger.checkpoint(LOG)
        note = ledger.checkpoint(new)
    assert opened(note, LOG.verifier)[0] == opened(note, new.verifier)[0]


def test_nothing_is_signed_where_a_kept_checkpoint_cannot_be_read(run, make_event):
    with Ledger.open(run) as ledger:
        ledger.append(make_event(0))
        ledger._store.write([("meta", checkpoint_store.key(1), b"no note")], sync=True)
        with pytest.raises(IntegrityError, match="meta/checkpoint/1: note: expected a text"):
            ledger.checkpoint(LOG)


def test_signing_needs_a_writable_ledger(run, fill):
    fill(run, 1)
    with Ledger.open(run, mode="r") as ledger, pytest.raises(ReadOnlyError) as caught:
        ledger.checkpoint(LOG)
    assert str(caught.value) == f'{run}: opened with mode "r", a checkpoint needs "rw"'


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 700])
def test_proofs_of_any_rank_and_size_hold(run, fill, make_event, n):
    head = fill(run, n)
    with Ledger.open(run, mode="r") as ledger:
        leaves = [tree.leaf_hash(tree.leaf(event.id, len(event.encode()))) for _, event in ledger.scan()]
        sizes = sorted({1, 2, n // 2 + 1, n - 1 or 1, n})
        roots = {size: tree.root_of_leaves(b"".join(leaves[:size])) for size in sizes if size <= n}
        assert roots[n] == head.root
        for size, root in roots.items():
            for rank in {0, size // 3, size - 1}:
                assert tree.verify_inclusion(rank, size, leaves[rank], ledger.prove(rank, size), root)
            assert tree.verify_consistency(size, n, root, head.root, ledger.consistency(size))
            assert ledger.consistency(0, size) == []


def test_a_proof_reads_at_most_one_tile_a_level(run, make_event):
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many([make_event(i, effect=b"") for i in range(70_000)])
        reads = []
        get = ledger._store.get
        ledger._store.get = lambda family, key: (reads.append(key), get(family, key))[1]
        for rank in (0, 300, 65_535, 65_536, 69_999):
            reads.clear()
            ledger.prove(rank)
            assert len(reads) <= 3 and len({key[0] for key in reads}) == len(reads), rank


def test_ranks_and_sizes_that_are_none_are_refused(run, fill):
    fill(run, 3)
    with Ledger.open(run, mode="r") as ledger:
        for call, text in (
            (lambda: ledger.prove(3), "Ledger.prove: need 0 <= rank < size <= 3, got 3 and 3"),
            (lambda: ledger.prove(-1), "Ledger.prove: need 0 <= rank < size <= 3, got -1 and 3"),
            (lambda: ledger.prove(0, 4), "Ledger.prove: need 0 <= rank < size <= 3, got 0 and 4"),
            (lambda: ledger.consistency(2, 1), "Ledger.consistency: need 0 <= m <= n <= 3, got 2 and 1"),
        ):
            with pytest.raises(ValueError, match=r"^Ledger") as caught:
                call()
            assert str(caught.value) == text


def test_checkpoints_signed_while_others_append_are_all_of_one_history(run, make_event):
    with Ledger.open(run, sync="os") as ledger:

        def append(producer):
            for i in range(60):
                ledger.append(make_event(i, producer=producer))

        threads = [threading.Thread(target=append, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        signed_sizes = []
        while any(thread.is_alive() for thread in threads):
            signed_sizes.append(decode(ledger.checkpoint(LOG))[0].size)
        for thread in threads:
            thread.join()
        assert signed_sizes == sorted(signed_sizes)
        ledger.checkpoint(LOG)
        head = ledger.head()
        for note in ledger.checkpoints():
            checkpoint, _ = opened(note, LOG.verifier)
            proof = ledger.consistency(checkpoint.size)
            assert checkpoint.size == 0 or tree.verify_consistency(
                checkpoint.size, head.size, checkpoint.root, head.root, proof
            )
    report = verify_ledger(run, keys=[LOG.verifier])
    assert (report.ok, report.signed_size) == (True, 120), report.problems


def test_a_checkpoint_that_was_given_out_is_there_after_a_kill(run):
    code = f"""
from storage import Event, Ledger, Signer
log = Signer("droveway.example/ledger", bytes(range(32)))
with Ledger.open({str(run)!r}, sync="os") as ledger:
    size = ledger.head().size
    while True:
        ledger.append(Event(producer="a", effect=b"", kind="note.text", sequence=size, tick=0))
        size += 1
        print(ledger.checkpoint(log).hex(), flush=True)
"""
    for trial in range(4):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        given_out = [process.stdout.readline().strip() for _ in range(1 + 3 * trial)]
        process.send_signal(signal.SIGKILL)
        given_out += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait()
        process.stdout.close()
        report = verify_ledger(run, keys=[LOG.verifier])
        assert report.ok, report.problems
        with Ledger.open(run, mode="r") as ledger:
            kept = {note.hex() for note in ledger.checkpoints()}
        assert set(given_out) <= kept
