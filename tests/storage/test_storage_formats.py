"""The pages in docs/formats: their worked examples are what the code writes and reads."""

import re

import pytest

from storage import Checkpoint, Event, Head, Ledger, Signer, TlogProof, VerifierKey, layout, tree, write_key
from storage import head as head_file
from storage.canonical import pack, unpack
from storage.notes import cosignature
from storage.notes.checkpoint import opened
from storage.notes.note import Note

NOTE = Event(producer="fleet-1", effect=b"\0\xff\x10", kind="note.text", sequence=0, tick=120)
LOG = Signer("droveway.example/ledger", bytes(range(32)))
WITNESS = Signer("w1.example", bytes(range(32, 64)), 4)


@pytest.fixture
def page(repository):
    """page(name): the examples of a format page, by the word after ```hex (or ```values)."""

    def examples(name):
        text = (repository / "docs" / "formats" / f"{name}.md").read_text()
        return {match[1]: match[2] for match in re.finditer(r"```(?:hex |text )?(\w+)\n(.*?)```", text, re.DOTALL)}

    return examples


def decoded(text):
    return bytes.fromhex("".join(text.split()))


def test_the_values_of_the_canonical_msgpack_page_are_what_pack_writes(page):
    examples = page("canonical-msgpack")
    value = {"b": [1, -33], "a": 1.0, "é": b""}
    assert pack(value) == decoded(examples["value"])
    assert unpack(decoded(examples["value"])) == value
    lines = examples["values"].splitlines()
    assert len(lines) == 14
    for line in lines:
        text, encoded = line.rsplit(" ", 1)
        assert pack(eval(text)).hex() == encoded


def test_the_events_of_the_event_page_have_its_bytes_and_ids(page):
    examples = page("event")
    assert NOTE.encode() == decoded(examples["event0"])
    assert NOTE.id == decoded(examples["id0"])
    frame = Event.decode(decoded(examples["event1"]))
    assert frame.id == decoded(examples["id1"])
    assert (frame.kind, frame.sequence, len(frame.effect)) == ("coord.frame", 1, 224)
    child = Event(
        producer="fleet-1",
        effect=b"",
        kind="note.text",
        parents=(NOTE.id,),
        sequence=300,
        schema=2,
        tick=65536,
        wall_ns=-1,
    )
    assert child.encode() == decoded(examples["event2"])
    assert Event.decode(child.encode()) == child


def test_the_leaves_hashes_and_root_of_the_tree_page_are_those_of_its_events(page):
    examples = {name: decoded(text) for name, text in page("tree").items()}
    event1 = decoded(page("event")["event1"])
    assert examples["leaf0"] == tree.leaf(NOTE.id, len(NOTE.encode()))
    assert examples["leaf1"] == tree.leaf(Event.decode(event1).id, len(event1))
    assert [tree.leaf_hash(examples["leaf0"]), tree.leaf_hash(examples["leaf1"])] == [
        examples["hash0"],
        examples["hash1"],
    ]
    assert tree.node_hash(examples["hash0"], examples["hash1"]) == examples["root"]
    assert tree.verify_inclusion(0, 2, examples["hash0"], [examples["hash1"]], examples["root"])


def test_the_head_file_of_the_head_page_is_packed_and_unpacked(page):
    data = decoded(page("head")["head"])
    head = Head(2, decoded(page("tree")["root"]))
    assert head_file.pack(head) == data
    assert head_file.unpack(data) == head


@pytest.mark.usefixtures("engine")
def test_the_keys_and_values_of_the_ledger_page_are_what_two_appends_leave(page, run):
    from storage.engine.engines import open_store

    with Ledger.open(run) as ledger:
        ledger.append_many([NOTE, Event.decode(decoded(page("event")["event1"]))])
    store = open_store(layout.store_path(run), read_only=True)
    for family in layout.FAMILIES:
        expected = [tuple(map(bytes.fromhex, line.split())) for line in page("ledger")[family].splitlines()]
        assert list(store.scan(family)) == expected
    store.close()


def test_the_leaf_of_the_lmdb_page_is_what_two_appends_leave(page, run):
    expected = decoded(page("lmdb")["ids"])
    with Ledger.open(run, engine="lmdb") as ledger:
        ledger.append(NOTE)
        ledger.append(Event.decode(decoded(page("event")["event1"])))
    data = (run / "ledger" / "data.mdb").read_bytes()
    assert 1 <= data.count(expected) <= 2  # the leaf, and perhaps the free page it was copied from


@pytest.mark.usefixtures("engine")
def test_the_retired_value_of_the_ledger_page_is_what_retiring_leaves(page, run):
    expected = decoded(page("ledger")["retired0"])
    with Ledger.open(run) as ledger:
        ledger.append_many([NOTE, Event.decode(decoded(page("event")["event1"]))])
        head = ledger.head()
        ledger.retire([0])
        assert ledger.head() == head
        assert ledger._store.get("log", bytes(8)) == expected


def test_the_notes_and_keys_of_the_signed_note_page_are_what_is_signed_and_read(page):
    examples = page("signed-note")
    assert str(LOG.verifier) == examples["log"].strip() == page("key-file")["verifier"].strip()
    assert str(WITNESS.verifier) == examples["witness"].strip()
    assert str(VerifierKey.parse(examples["c2sp"].strip())) == examples["c2sp"].strip()
    assert Note("hello\n", (LOG.sign("hello\n"),)).encode().decode() == examples["note"]


def test_the_key_of_the_key_file_page_is_what_is_written(page, tmp_path):
    write_key(tmp_path / "key", LOG)
    assert (tmp_path / "key").read_text() == page("key-file")["key"]


def test_the_texts_of_the_checkpoint_and_proof_pages_are_what_the_two_events_give(page, run):
    with Ledger.open(run) as ledger:
        ledger.append_many([NOTE, Event.decode(decoded(page("event")["event1"]))])
        ledger.checkpoint(LOG)
        text = Checkpoint(LOG.name, 2, ledger.head().root).text()
        note = ledger.add_signatures(2, [WITNESS.sign(text, time_s=1_700_000_000)])
        proof = TlogProof(0, tuple(ledger.prove(0)), Note.decode(note))
    assert note.decode() == page("checkpoint")["checkpoint"]
    assert cosignature.message(1_700_000_000, text).decode() == page("checkpoint")["cosigned"]
    assert proof.encode().decode() == page("tlog-proof")["proof"]
    assert TlogProof.decode(page("tlog-proof")["proof"].encode()) == proof
    assert opened(note, LOG.verifier, (WITNESS.verifier,))[0].text() == text


@pytest.mark.parametrize(
    "name",
    [
        "canonical-msgpack",
        "event",
        "tree",
        "head",
        "ledger",
        "signed-note",
        "checkpoint",
        "tlog-proof",
        "key-file",
    ],
)
def test_every_page_has_its_table_what_a_reader_rejects_and_a_version_rule(repository, name):
    text = (repository / "docs" / "formats" / f"{name}.md").read_text()
    assert "## A reader rejects" in text
    assert re.search(r"^Version: ", text, re.MULTILINE)
    assert re.search(r"^\|[-|]+\|$", text, re.MULTILINE)
