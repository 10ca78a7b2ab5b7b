"""Exports, opened by their own readers and compared event by event; JSON lines read back, or refused by rank."""

import base64
import io
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import (
    Event,
    ForkError,
    Head,
    IntegrityError,
    Ledger,
    LimitError,
    Retired,
    RollbackError,
    Signer,
    StorageError,
    open_published,
    read_jsonl,
)
from storage.replay.export_jsonl import line, write_jsonl
from storage.replay.export_mcap import write_mcap

EVENTS = [
    Event(producer="pump-1", effect=bytes(range(256)), kind="note.text", sequence=0, tick=0),
    Event(
        producer="Zürich\n\u2028",
        effect=b"",
        kind="a",
        sequence=2**64 - 1,
        tick=2**53,
        schema=2**32 - 1,
        wall_ns=-(2**63),
    ),
    Event(producer="pump-1", effect=b"\0" * 70_000, kind="note.text", sequence=1, tick=3, wall_ns=2**60),
    Event(producer="pump-1", effect=b"x", kind="b", sequence=2**53 + 1, tick=9, parents=(bytes(32), bytes([7]) * 32)),
]


@pytest.fixture
def ledger(run):
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many(EVENTS)
        yield ledger


@pytest.fixture
def exported(ledger, tmp_path):
    """(path, head) of an export with rank 2 retired."""
    ledger.retire([2])
    ledger.export(jsonl=tmp_path / "events.jsonl")
    return tmp_path / "events.jsonl", ledger.head()


def test_json_lines_hold_every_event_for_a_reader_that_knows_json_only(ledger, tmp_path):
    report = ledger.export(jsonl=tmp_path / "e.jsonl")
    data = (tmp_path / "e.jsonl").read_bytes()
    assert (report.events, report.retired, report.size_bytes, report.root) == (4, 0, len(data), ledger.head().root)
    assert data.isascii()
    lines = data.decode().split("\n")
    assert lines.pop() == ""
    for rank, (text, event) in enumerate(zip(lines, EVENTS, strict=True)):
        record = json.loads(text)
        assert list(record) == [
            "rank", "id", "producer", "kind", "sequence", "schema", "tick", "wall_ns", "parents", "effect",
        ]  # fmt: skip
        made = Event(
            producer=record["producer"],
            kind=record["kind"],
            sequence=int(record["sequence"]),
            schema=record["schema"],
            tick=int(record["tick"]),
            wall_ns=None if record["wall_ns"] is None else int(record["wall_ns"]),
            parents=tuple(map(bytes.fromhex, record["parents"])),
            effect=base64.b64decode(record["effect"]),
        )
        assert (record["rank"], made, record["id"]) == (rank, event, event.id.hex())
    assert json.loads(lines[1])["sequence"] == "18446744073709551615"
    assert json.loads(lines[1])["tick"] == 2**53


def test_the_lines_of_the_page_are_what_is_written(repository, page_hex):
    text = (repository / "docs/formats/events-jsonl.md").read_text()
    first, second = re.search(r"```text lines\n(.*?)```", text, re.DOTALL)[1].splitlines()
    event1 = Event.decode(page_hex("event", "event1"))
    assert line(0, Event.decode(page_hex("event", "event0"))) == first
    assert line(1, Retired(event1.id, len(event1.encode()))) == second
    for page in ("events-jsonl", "events-mcap"):
        text = (repository / f"docs/formats/{page}.md").read_text()
        assert "## A reader rejects" in text
        assert re.search(r"^Version: ", text, re.MULTILINE)


def test_what_is_exported_is_read_back_with_retired_events_as_such(ledger, exported):
    path, head = exported
    assert list(read_jsonl(path, head)) == list(ledger.scan(retired=True))
    assert list(read_jsonl(path)) == list(ledger.scan(retired=True))


def test_a_published_ledger_exports_the_same_bytes(ledger, exported, tmp_path):
    path, _ = exported
    ledger.publish(str(tmp_path / "web"), Signer("a.example", bytes(32)))
    with open_published(str(tmp_path / "web")) as published:
        published.export(jsonl=tmp_path / "other.jsonl")
    assert (tmp_path / "other.jsonl").read_bytes() == path.read_bytes()


def bad_line(path, number, change):
    """The error of a file whose line (from 1) was changed."""
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(IntegrityError) as caught:
        list(read_jsonl(path))
    assert (list(caught.value.ranks), caught.value.file) == ([number - 1], str(path))
    return str(caught.value).removeprefix(f"{path}: ")


def put(key, value):
    return lambda text: json.dumps({**json.loads(text), key: value}).encode()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda text: b"", "expected one JSON object"),
        (lambda text: b"[]", "expected an object, got list"),
        (lambda text: b"[" * 100_000, "expected one JSON object"),
        (lambda text: text[:-1], "expected one JSON object"),
        (lambda text: b"\xff" + text, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (lambda text: text.replace(b'"kind"', b'"tick"'), "a key is there twice"),
        (
            lambda text: text.replace(b'"kind"', b'"sort"'),
            "expected the keys rank id producer kind sequence schema tick",
        ),
        (put("more", 1), "expected the keys rank id producer kind sequence schema tick wall_ns parents effect, got"),
        (put("retired", False), "expected the keys rank id length retired, got"),
        (put("rank", 0), "expected rank 1, got 0: an event was lost, doubled or moved"),
        (put("rank", True), "rank must be a whole number, beyond 2^53 as text, got True"),
        (put("tick", 2**53 + 1), "tick must be a whole number, beyond 2^53 as text, got 9007199254740993"),
        (put("tick", "7"), "tick must be a whole number, beyond 2^53 as text, got '7'"),
        (put("tick", 1.0), "tick must be a whole number, beyond 2^53 as text, got 1.0"),
        (put("tick", -1), "Event: tick must be in [0, 2**64), got -1"),
        (put("wall_ns", "nine"), "wall_ns must be a whole number, beyond 2^53 as text, got 'nine'"),
        (put("id", "AB" * 32), "id must be 64 hexadecimal digits, got 'ABAB"),
        (put("parents", "x"), "parents must be an array, got str"),
        (put("parents", ["00"]), "a parent must be 64 hexadecimal digits, got '00'"),
        (put("effect", "?"), "effect must be standard base64 with padding"),
        (put("effect", None), "effect must be text in base64, got NoneType"),
        (put("producer", 5), "Event: producer must be str, got int"),
        (put("kind", "No"), "Event: kind must match [a-z0-9._-]{1,64}, got 'No'"),
        (put("effect", "AAAA"), f"the id is {EVENTS[1].id.hex()}, that of the event is"),
        (
            lambda text: text.replace(b"null", b"NaN").replace(b'"schema":4294967295', b'"schema":NaN'),
            "expected numbers, got NaN",
        ),
    ],
)
def test_a_line_that_is_not_the_event_is_refused_with_its_rank_and_line(exported, change, text):
    said = bad_line(exported[0], 2, change)
    assert said.startswith(f"line 2, rank 1: {text}"), said


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put("retired", "yes"), "retired must be true, got 'yes'"),
        (put("length", 0), "length must be in [1, 2**64), got 0"),
        (put("length", "x"), "length must be a whole number, beyond 2^53 as text, got 'x'"),
    ],
)
def test_a_retired_line_that_is_none_is_refused(exported, change, text):
    assert bad_line(exported[0], 3, change) == f"line 3, rank 2: {text}"


@settings(max_examples=40)
@given(st.permutations(range(6)), st.integers(0, 5), st.sampled_from(["moved", "lost", "doubled"]))
def test_the_first_rank_that_was_moved_lost_or_doubled_is_named(tmp_path_factory, order, at, how):
    events = [Event(producer="p", effect=b"%d" % i, kind="k", sequence=i, tick=i) for i in range(6)]
    lines = [line(rank, event) + "\n" for rank, event in enumerate(events)]
    found = {"moved": list(order), "lost": [i for i in range(6) if i != at], "doubled": sorted([*range(6), at])}[how]
    path = tmp_path_factory.mktemp("lines") / "e.jsonl"
    path.write_text("".join(lines[i] for i in found))
    wrong = next((i for i, rank in enumerate(found) if rank != i), None)
    if wrong is None:
        assert [event for _, event in read_jsonl(path)] == events[: len(found)]
        return
    read = []
    with pytest.raises(IntegrityError) as caught:
        read += [rank for rank, _ in read_jsonl(path)]
    assert list(caught.value.ranks) == [wrong]


def test_events_missing_at_the_end_or_changed_as_a_whole_show_against_an_expected_head(exported):
    path, head = exported
    with pytest.raises(RollbackError) as short:
        list(read_jsonl(path, Head(5, head.root)))
    assert str(short.value) == f"{path}: expected 5 events, got 4: rank 4 is missing"
    with pytest.raises(ForkError, match="expected 4 events with the root 00"):
        list(read_jsonl(path, Head(4, bytes(32))))
    with pytest.raises(ForkError, match="expected 3 events with the root"):
        list(read_jsonl(path, Head(3, head.root)))


def test_a_file_that_is_none_or_has_an_endless_line_is_refused(tmp_path):
    with pytest.raises(StorageError, match="can't be read: No such file or directory"):
        list(read_jsonl(tmp_path / "none"))
    with pytest.raises(IntegrityError, match="expected a regular file"):
        list(read_jsonl(tmp_path))
    (tmp_path / "long").write_bytes(b" " * 23_000_000)
    with pytest.raises(IntegrityError, match="line 1, rank 0: expected a line of at most 22373720 bytes"):
        list(read_jsonl(tmp_path / "long"))


def test_the_longest_event_fits_a_line(tmp_path):
    from storage.replay.export_jsonl import LINE_BYTES_MAX

    event = Event(
        producer="\x7f" * 64, effect=bytes((16 << 20) - 900), kind="k" * 64, sequence=2**64 - 1, tick=2**64 - 1,
        parents=tuple(bytes([i]) * 32 for i in range(16)), wall_ns=-(2**63),
    )  # fmt: skip
    assert len(event.encode()) <= 16 << 20
    assert len(line(2**56, event)) < LINE_BYTES_MAX


def test_a_file_is_there_whole_or_not_at_all(ledger, run, rewrite, tmp_path):
    from storage import layout

    value = ledger._store.get("log", layout.log_key(3))
    ledger.close()
    rewrite(run, [("log", layout.log_key(3), value[:-1] + b"?")])
    with Ledger.open(run, mode="r") as damaged:
        for name in ("jsonl", "mcap"):
            (tmp_path / "out").mkdir(exist_ok=True)
            target = tmp_path / "out" / name
            target.write_text("as it was")
            with pytest.raises(IntegrityError):
                damaged.export(**{name: target})
            assert target.read_text() == "as it was"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["jsonl", "mcap"]


def test_exporting_takes_one_format(ledger, tmp_path):
    for options in ({}, {"jsonl": tmp_path / "a", "mcap": tmp_path / "b"}):
        with pytest.raises(TypeError, match="export: expected jsonl or mcap, one of them"):
            ledger.export(**options)


def test_the_reader_of_mcap_finds_every_event(ledger, tmp_path):
    from mcap.reader import make_reader

    report = ledger.export(mcap=tmp_path / "e.mcap", tick_ns=10)
    assert (report.events, report.size_bytes) == (4, (tmp_path / "e.mcap").stat().st_size)
    with (tmp_path / "e.mcap").open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        assert reader.get_header().library == "droveway"
        (metadata,) = reader.iter_metadata()
        messages = list(reader.iter_messages(log_time_order=False))
        assert [m.log_time for _, _, m in reader.iter_messages()] == sorted(event.tick * 10 for event in EVENTS)
    assert metadata.name == "droveway.ledger"
    assert metadata.metadata == {"size": "4", "root": ledger.head().root.hex(), "tick_ns": "10"}
    for rank, ((schema, channel, message), event) in enumerate(zip(messages, EVENTS, strict=True)):
        assert (schema, channel.topic, channel.message_encoding) == (None, event.kind, "msgpack")
        assert Event.decode(message.data) == event
        assert (message.sequence, message.log_time) == (rank, event.tick * 10)
    times = [message.publish_time for _, _, message in messages]
    assert times == [0, 2**53 * 10, 2**60, 90]  # a negative wall time is none


def test_a_retired_event_is_a_message_of_its_own_kind(ledger):
    from mcap.reader import make_reader

    ledger.retire([2])
    stream = io.BytesIO()
    assert write_mcap(ledger, stream) == (4, 1)
    stream.seek(0)
    _, channel, message = list(make_reader(stream).iter_messages(log_time_order=False))[2]
    assert (channel.topic, channel.message_encoding) == ("/retired", "json")
    assert json.loads(message.data) == {"id": EVENTS[2].id.hex(), "length": len(EVENTS[2].encode()), "rank": 2}
    assert message.log_time == EVENTS[1].tick


def test_times_beyond_those_of_mcap_are_refused(ledger):
    with pytest.raises(StorageError) as caught:
        write_mcap(ledger, io.BytesIO(), tick_ns=10**9)
    assert str(caught.value) == "rank 1: tick 9007199254740992 × 1000000000 ns is beyond the times of MCAP, 2^64 ns"
    for wrong in (0, -1, 1.5, 2**64):
        with pytest.raises(ValueError, match=re.escape(f"export: tick_ns must be in [1, 2**64), got {wrong}")):
            write_mcap(ledger, io.BytesIO(), tick_ns=wrong)


def test_progress_counts_up_to_all_events(ledger):
    seen = []
    write_jsonl(ledger, io.BytesIO(), lambda done, size: seen.append((done, size)))
    assert seen == [(4, 4)]


def test_without_mcap_the_error_says_how_to_get_it(python, tmp_path):
    done = python(
        "import sys; sys.modules['mcap.writer'] = None\n"
        "from storage import Ledger\n"
        "ledger = Ledger.open('run')\n"
        "try: ledger.export(mcap='e.mcap')\n"
        "except Exception as error: print(type(error).__name__, error, '|', error.hint)"
    )
    assert done.stdout == "MissingExtraError MCAP needs the package mcap | pip install 'droveway[robotics]'\n"
    assert not (tmp_path / "e.mcap").exists()


def test_more_kinds_than_mcap_has_channels_are_a_limit_with_the_first_rank_beyond():
    class Many:
        """65,536 events, each of a kind of its own."""

        def head(self):
            return Head(65_536, bytes(32))

        def scan(self, start, stop, *, retired):
            for rank in range(start, stop):
                yield rank, Event(producer="a", effect=b"", kind=f"k{rank}", sequence=rank, tick=rank)

    with pytest.raises(LimitError, match=r"^rank 65535: MCAP holds at most 65535 channels, one a kind, got more$"):
        write_mcap(Many(), io.BytesIO())
