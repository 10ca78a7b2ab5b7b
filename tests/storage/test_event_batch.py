"""The batch kernels do for many events what Event does for one, and accept exactly what it accepts."""

import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage import Event, StorageError, _kernels, event_batch, event_batch_ref, hash_ref, hashing
from storage.receipt import Receipt

U64 = (1 << 64) - 1
NAMES = st.text(min_size=1, max_size=64).filter(
    lambda text: not any("\ud800" <= c <= "\udfff" for c in text) and len(text.encode()) <= 64
)
WIDE = st.one_of(
    st.integers(0, 200), st.sampled_from([2**b + d for b in (7, 8, 16, 32, 63) for d in (-1, 0, 1)] + [U64])
)
EVENTS = st.builds(
    Event,
    producer=NAMES,
    effect=st.one_of(st.binary(max_size=300), st.sampled_from([255, 256, 1000, 65535, 65536]).map(bytes)),
    kind=st.text("abcxyz019._-", min_size=1, max_size=64),
    parents=st.lists(st.integers(0, U64).map(lambda x: x.to_bytes(32, "big")), max_size=16, unique=True).map(
        lambda ids: tuple(sorted(ids))
    ),
    sequence=WIDE,
    schema=st.one_of(st.integers(0, 300), st.sampled_from([65535, 65536, 2**32 - 1])),
    tick=WIDE,
    wall_ns=st.one_of(
        st.none(),
        st.integers(-300, 300),
        st.sampled_from(
            [sign * (2**b + d) for sign in (1, -1) for b in (7, 8, 15, 16, 31, 32, 62) for d in (-1, 0, 1)]
        ),
        st.sampled_from([-(2**63), 2**63 - 1]),
    ),
)


CODES = bytes.fromhex("007f80a0bfc0c4ccd0d9dce0ff")


def stored(datas):
    """Values of `log` and leaf hashes for bytes that may be no event: only the parsing can refuse them."""
    ids = hashing.event_ids(datas)
    records = b"".join(b"\1" + i + len(d).to_bytes(8, "big") for i, d in zip(ids, datas, strict=True))
    return [i + d for i, d in zip(ids, datas, strict=True)], hashing.leaf_hashes(records, 41)


def decoded(data):
    try:
        return Event.decode(data)
    except StorageError:
        return None


def assert_read_as_event_reads_it(data):
    rows, leaves = stored([data])
    found = event_batch.checked(3, rows, leaves)
    expected = decoded(data)
    if expected is None:
        assert found == [], data.hex()
    else:
        assert found == [(3, expected)], data.hex()
        assert found[0][1].encode() == data
        assert [type(getattr(found[0][1], name)) for name in Event.__slots__] == [
            type(getattr(expected, name)) for name in Event.__slots__
        ]


@given(st.lists(EVENTS, max_size=30))
def test_a_batch_is_encoded_and_hashed_as_each_event_alone(events):
    rows, ids, leaves = event_batch.prepare(events)
    assert rows == [event.id + event.encode() for event in events]
    assert ids == [event.id for event in events]
    assert (rows, ids, leaves) == event_batch_ref.prepare(events)
    assert event_batch.checked(7, rows, leaves) == list(enumerate(events, 7))


@given(EVENTS)
def test_every_event_is_read_back(event):
    assert_read_as_event_reads_it(event.encode())


@given(EVENTS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_bytes_of_an_event_that_were_changed_are_read_as_event_reads_them(event, rng):
    data = event.encode()
    heads = min(len(data), 80)
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            at = rng.choice((rng.randrange(len(data)), rng.randrange(heads), len(data) - 1 - rng.randrange(heads)))
            kind = rng.randrange(4)
            if kind == 0:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            elif kind == 1:
                changed[at % len(changed)] = rng.choice(
                    (0x00, 0x7F, 0x80, 0xA0, 0xBF, 0xC0, 0xC4, 0xCC, 0xD0, 0xD9, 0xDC, 0xE0, 0xFF)
                )
            elif kind == 2:
                del changed[at % len(changed)]
            else:
                changed.insert(at % len(changed), rng.choice((0x00, 0x20, 0xA1, 0xC4, 0xCC, 0xCD, 0xD9, 0xFF)))
            if not changed:
                break
        assert_read_as_event_reads_it(bytes(changed))


def test_an_event_that_was_cut_or_continued_is_read_nowhere():
    event = Event(
        producer="é" * 20, effect=bytes(300), kind="k" * 40, parents=(bytes(32), b"\1" * 32), sequence=2**40, tick=300,
        schema=70000, wall_ns=-70000,
    )  # fmt: skip
    data = event.encode()
    assert_read_as_event_reads_it(data)
    for size in range(len(data)):
        rows, leaves = stored([data[:size]])
        assert event_batch.checked(0, rows, leaves) == []
    for more in (b"\0", b"\xa1w\0", data):
        rows, leaves = stored([data + more])
        assert event_batch.checked(0, rows, leaves) == []


SMALL = Event(producer="p", effect=b"", kind="k", sequence=0, tick=0).encode()
FIELDS = {
    "producer": (b"\xa1a\xa1p", b"\xa1a"),
    "effect": (b"\xa1e\xc4\0", b"\xa1e"),
    "kind": (b"\xa1k\xa1k", b"\xa1k"),
    "parents": (b"\xa1p\x90", b"\xa1p"),
    "sequence": (b"\xa1q\0", b"\xa1q"),
    "schema": (b"\xa1s\1", b"\xa1s"),
    "tick": (b"\xa1t\0", b"\xa1t"),
}
TEXTS = """
    a0 d900 d90161 d91f<31*61> d920<32*61> bf<31*61> d940<64*61> d941<65*61> da002061 a141 a1c0 c40161 a2c3a9 a2c080
    a2c1bf
    a3e08080 a3e0a080 a3eda080 a3ed9fbf a3efbfbf a4f0808080 a4f0908080 a4f48fbfbf a4f4908080 a4f5808080 a180 a1bf a2c361
    a3e28261 a16b0a
"""
KINDS = TEXTS + "a17a a139 a12e a12d a15f a140 a15b a160 a17b a12f a13a a12c a120"
NUMBERS = """
    00 7f 80 c0 c2 c3 cc7f cc80 ccff cd00ff cd0100 ce0000ffff ce00010000 ceffffffff cf00000000ffffffff
    cf0000000100000000
    cf<8*ff> cf7f<7*ff> cf80<7*00> e0 ff df d0e0 d0df d080 d000 d07f d1ff7f d1ff80 d18000 d10000 d2ffff7fff d2ffff8000
    d280000000 d3ffffffff7fffffff d3ffffffff80000000 d38000000000000000 d30000000000000000 ca00000000 cb<8*00> a100
    c1 cc
    cd01
"""
EFFECTS = """
    c400 c40100 c4ff<255*00> c500ff<255*00> c50100<256*00> c60000ffff<65535*00> c600010000<65536*00> c6ffffffff
    c5ffff c4
    a0 c0
"""
PARENTS = """
    90 91c420<32*00> 92c420<32*00>c420<31*00>01 92c420<32*00>c420<32*00> 92c420<32*01>c420<32*00> 91c41f<31*00>
    91c50020<32*00> 91 91c420 9f c0 80 dc0010<16 ids> dc000f<15 ids> dc0011<17 ids> 9f<15 ids> dd00000010<16 ids> dc0010
"""
VALUES = {"producer": TEXTS, "kind": KINDS, "effect": EFFECTS, "parents": PARENTS} | dict.fromkeys(
    ("sequence", "schema", "tick"), NUMBERS
)


def forms(text):
    """The bytes of each word: hex, `<n*xx>` a byte n times, `<n ids>` n ascending ids."""
    text = re.sub(r"<(\d+)\*(..)>", lambda found: found[2] * int(found[1]), text)
    ids = r"<(\d+) ids>"
    text = re.sub(ids, lambda found: "".join(f"c420{i:064x}" for i in range(int(found[1]))), text)
    return [bytes.fromhex(word) for word in text.split()]


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_any_form_is_read_as_event_reads_it(name):
    before, key = FIELDS[name]
    accepted = 0
    for value in forms(VALUES[name]):
        data = SMALL.replace(before, key + value)
        assert_read_as_event_reads_it(data)
        accepted += decoded(data) is not None
    assert 0 < accepted < len(forms(VALUES[name]))


def test_a_wall_time_of_any_form_is_read_as_event_reads_it():
    for value in forms(NUMBERS):
        assert_read_as_event_reads_it(b"\x88" + SMALL[1:] + b"\xa1w" + value)
    assert_read_as_event_reads_it(b"\x88" + SMALL[1:])
    assert_read_as_event_reads_it(SMALL + b"\xa1w\0")


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes_are_read_as_event_reads_them(data):
    assert_read_as_event_reads_it(data)


def many(n, producers=3):
    return [
        Event(
            producer=f"p{i % producers}", effect=bytes(8000 if i % 10 == 9 else i % 700), kind="k", sequence=i, tick=i
        )
        for i in range(n)
    ]


def test_reading_stops_at_the_first_value_that_is_odd_in_any_way():
    events = many(40)
    rows, _ids, leaves = event_batch.prepare(events)
    for at in (0, 1, 17, 39):
        for wrong in (
            b"",
            rows[at][:32],
            bytes(32) + rows[at][32:],
            rows[at][:-1],
            rows[at] + b"\0",
            rows[at][1:33] + bytes(8),
        ):
            values = [*rows[:at], wrong, *rows[at + 1 :]]
            assert event_batch.checked(0, values, leaves) == list(enumerate(events[:at]))
            assert event_batch.audited(bytes(32), event_batch.ZERO_SUM, 0, values, leaves, {}) is None
        flipped = leaves[: 32 * at] + bytes((leaves[32 * at] ^ 1,)) + leaves[32 * at + 1 :]
        assert event_batch.checked(0, rows, flipped) == list(enumerate(events[:at]))
        assert event_batch.checked(0, rows, leaves[: 32 * at + 31]) == list(enumerate(events[:at]))
        assert event_batch.audited(bytes(32), event_batch.ZERO_SUM, 0, rows, leaves[: 32 * at + 31], {}) is None


def test_an_audit_of_batches_equals_its_twin():
    events = many(300)
    rows, ids, leaves = event_batch.prepare(events)
    key, total, cursors, found = b"k" * 32, event_batch.ZERO_SUM, {}, {}
    expected = event_batch.ZERO_SUM
    for first in range(0, 300, 50):
        part = slice(first, first + 50)
        total = event_batch.audited(key, total, first, rows[part], leaves[32 * first : 32 * first + 1600], cursors)
        expected = event_batch_ref.audited(
            key, expected, first, rows[part], leaves[32 * first : 32 * first + 1600], found
        )
        assert total == expected
        assert cursors == found
    pairs = [(event_id, rank.to_bytes(8, "big")) for rank, event_id in enumerate(ids)]
    random.Random(1).shuffle(pairs)
    assert event_batch.fingerprint_of_ids(key, iter(pairs)) == (300, total)
    assert event_batch.fingerprint_of_ids(key, iter(pairs[1:]))[1] != total
    assert event_batch.fingerprint_of_ids(b"j" * 32, iter(pairs))[1] != total
    assert event_batch.fingerprint_of_ids(key, iter([*pairs, (b"short", bytes(8))])) is None
    assert event_batch.fingerprint_of_ids(key, iter([*pairs, (bytes(32), bytes(7))])) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["k", "l", "coord", "coord.x"]), st.integers(1, 2))))
def test_an_audit_shows_events_whole_by_their_kind_and_others_by_the_row(choices):
    numbers, events = {"a": 0, "b": 0}, []
    for producer, kind, step in choices:
        events.append(Event(producer=producer, effect=b"", kind=kind, sequence=numbers[producer], tick=0))
        numbers[producer] += step
    rows, _ids, leaves = event_batch.prepare(events)
    shown, expected = [], []
    event_batch.audited(bytes(32), event_batch.ZERO_SUM, 9, rows, leaves, {}, shown, "coord.")
    event_batch_ref.audited(bytes(32), event_batch.ZERO_SUM, 9, rows, leaves, {}, expected, "coord.")
    assert shown == expected
    flat = []
    for each in shown:
        if len(each) == 2:
            flat.append(each)
        else:
            rank, count, producer, kind, sequence = each
            flat += [(rank + i, producer, kind, sequence + i) for i in range(count)]
    assert flat == [
        (rank, event) if event.kind == "coord.x" else (rank, event.producer, event.kind, event.sequence)
        for rank, event in enumerate(events, 9)
    ]


def test_an_audit_of_an_odd_batch_shows_nothing():
    rows, _ids, leaves = event_batch.prepare(many(3))
    shown = []
    assert event_batch.audited(bytes(32), event_batch.ZERO_SUM, 0, [*rows[:2], b""], leaves, {}, shown) is None
    assert shown == []


@pytest.mark.parametrize("cursors", [{"p1": (10**9, b"")}, {"p2": (59, b"")}, {"p0": (0, b"")}])
def test_an_audit_leaves_the_cursors_where_a_sequence_does_not_rise(cursors):
    rows, _ids, leaves = event_batch.prepare(many(60))
    before = dict(cursors)
    assert event_batch.audited(bytes(32), event_batch.ZERO_SUM, 0, rows, leaves, cursors) is None
    assert cursors == before


def test_an_audit_takes_no_value_that_is_missing():
    rows, _ids, leaves = event_batch.prepare(many(3))
    assert event_batch.audited(bytes(32), event_batch.ZERO_SUM, 0, [rows[0], None, rows[2]], leaves, {}) is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), max_size=12),
    st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.tuples(st.integers(0, 4), st.just(b"old")))),
    st.integers(0, 3),
)
def test_cursors_advance_as_in_the_twin(made, cursors, start):
    events = [Event(producer=p, effect=b"", kind="k", sequence=q, tick=0) for p, q in made]
    ids = [bytes((i,)) for i in range(len(events))]
    start = min(start, len(events))
    ours, twin = dict(cursors), dict(cursors)
    assert event_batch.advance(start, events, ids, ours) == event_batch_ref.advance(start, events, ids, twin)
    assert ours == twin


def test_entries_and_receipts_are_those_of_each_event():
    rows, ids, _leaves = event_batch.prepare(many(5))
    assert event_batch.entries(300, ids, rows) == event_batch_ref.entries(300, ids, rows)
    receipts = event_batch.receipts(300, ids, 305, b"r" * 32)
    assert receipts == [Receipt(300 + i, ids[i], 305, b"r" * 32) for i in range(5)]
    assert hash(receipts[0]) == hash(Receipt(300, ids[0], 305, b"r" * 32))
    with pytest.raises(AttributeError):
        receipts[0].rank = 1


def pairs_from(first, values):
    return [((first + i).to_bytes(8, "big"), value) for i, value in enumerate(values)]


def failing(pairs, error):
    yield from pairs
    raise error


def test_values_are_taken_in_order_of_rank_up_to_a_count_bytes_or_a_stranger():
    for take in (event_batch.take, event_batch_ref.take):
        pairs = pairs_from(250, [b"a", b"bb", b"ccc"])
        assert take(iter(pairs), 250, 10, 100, 100) == ([b"a", b"bb", b"ccc"], ())
        assert take(iter(pairs), 250, 2, 100, 100) == ([b"a", b"bb"], None)
        assert take(iter(pairs), 250, 10, 3, 100) == ([b"a", b"bb"], None)
        assert take(iter(pairs), 250, 10, 100, 2) == ([b"a", b"bb"], pairs[2])
        assert take(iter(pairs), 251, 10, 100, 100) == ([], pairs[0])
        assert take(iter([*pairs[:1], (b"short", b"x")]), 250, 10, 100, 100) == ([b"a"], (b"short", b"x"))
        error = StorageError("damaged")
        values, end = take(failing(pairs, error), 250, 10, 100, 100)
        assert (values, end) == ([b"a", b"bb", b"ccc"], error)
        assert end is error


def test_what_the_constructor_would_refuse_goes_back_to_the_event():
    event = Event(producer="p", effect=b"", kind="k", sequence=0, tick=0)
    object.__setattr__(event, "effect", bytes(1 << 24))
    with pytest.raises(StorageError, match=r"^Event: an effect of 16777216 bytes, the limit is 16777216$"):
        event_batch.prepare([event])
    with pytest.raises(AttributeError):
        event_batch.prepare([object.__new__(Event)])
    with pytest.raises(TypeError, match=r"^prepare: everything appended must be an Event$"):
        event_batch.prepare(["no event"])


def test_the_largest_event_is_encoded_and_one_byte_more_is_refused():
    small = Event(producer="p", effect=bytes(70000), kind="k", sequence=0, tick=0)
    room = (1 << 24) - (len(small.encode()) - 70000)
    largest = Event(producer="p", effect=bytes(room), kind="k", sequence=0, tick=0)
    rows, ids, leaves = event_batch.prepare([largest])
    assert len(rows[0]) == 32 + (1 << 24)
    assert event_batch.checked(0, rows, leaves) == [(0, largest)]
    assert ids == [largest.id]
    with pytest.raises(StorageError, match=r"^Event: 16777217 bytes, the limit is 16777216$"):
        event_batch.prepare([Event(producer="p", effect=bytes(room + 1), kind="k", sequence=0, tick=0)])


native = pytest.mark.skipif(_kernels.isa() == "ref", reason="DROVEWAY_ISA=ref runs the twins, there is no kernel")


@native
@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: _kernels.checked_events(b"x", 0, ["text"], b""),
            TypeError,
            "checked_events: every value must be bytes",
        ),
        (lambda: _kernels.checked_events(bytes(1025), 0, [], b""), ValueError, "context is longer than a chunk"),
        (lambda: _kernels.entries(0, [b"a"], []), ValueError, "entries: as many ids as rows are needed"),
        (lambda: _kernels.advance(0, [], [b"a"], {}), ValueError, "advance: as many ids as events are needed"),
        (lambda: _kernels.take(iter([b"x"]), 0, 5, 5, 5), TypeError, "take: the iterator must give pairs of bytes"),
        (
            lambda: _kernels.take(iter([(b"x", 1)]), 0, 5, 5, 5),
            TypeError,
            "take: the iterator must give pairs of bytes",
        ),
        (
            lambda: _kernels.audited(b"x", b"", b"", 0, [], b"", {}),
            ValueError,
            "fingerprint: key and sum have 32 bytes",
        ),
        (lambda: _kernels.fingerprint_of_ids(bytes(32), iter([1])), TypeError, "fingerprint: expected pairs"),
        (lambda: _kernels.inclusion_root(1, 1, bytes(32), b""), ValueError, "index must be below size"),
        (lambda: _kernels.inclusion_root(0, 1, bytes(31), b""), ValueError, "hashes of 32 bytes"),
        (lambda: _kernels.inclusion_root(0, 1, bytes(32), b"x"), ValueError, "hashes of 32 bytes"),
        (lambda: _kernels.learn_types(1, 2), TypeError, "learn_types: expected a class"),
        (lambda: _kernels.learn_types(Event, dict), TypeError, "learn_types: a receipt is a tuple"),
    ],
)
def test_hostile_arguments_are_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@native
def test_cursors_of_another_shape_end_the_batch():
    events = many(3, producers=1)
    rows, ids, leaves = event_batch.prepare(events)
    for cursor in (1, (1,), ("1", b""), (-1, b""), (2**64, b"")):
        assert _kernels.advance(0, events, ids, {"p0": cursor}) == 0
        assert event_batch.audited(bytes(32), event_batch.ZERO_SUM, 0, rows, leaves, {"p0": cursor}) is None


@native
@given(st.integers(1, 200), st.integers(0, 199), st.integers(0, 12), st.booleans())
def test_walking_up_a_proof_equals_the_twin_with_and_without_the_cpu_instructions(size, index, count, portable):
    index %= size
    proof = b"".join(bytes((i,)) * 32 for i in range(count))
    expected = hash_ref.inclusion_root(index, size, b"l" * 32, proof)
    assert _kernels.inclusion_root(index, size, b"l" * 32, proof, portable) == expected
