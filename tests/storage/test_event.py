"""Event v1: the worked example of the format, limits, and every way bytes can be no event."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import CanonicalError, Event, EventError, EventTooLargeError, canonical, hashing
from storage.event import EVENT_BYTES_MAX

FRAME = bytes.fromhex(
    "4a444631010000000000000000000000 780000000000000021ff551f56ee517e"
    "1510433b95b289fbb6e4ac857847d705 2c279f3d4401abb11fc013763b003e06"
    "00000000000000000000000000000000 03000000020000000200000001000000"
    "00000000010000000000000000000000 2f1d0300000000000103 0000de022ed7"
)
ROWS = bytes.fromhex(
    "07000000030000000001000093180200 04000000020000006400000000000000"
    "0900000004000000000000009c040100 02000000000000001400000000000000"
    "0c000000ffffffff0200040000000000 ffffffff5a0000000000000000000000"
)


def event(**changed):
    fields = {"producer": "fleet-1", "effect": b"\0\xff\x10", "kind": "note.text", "sequence": 0, "tick": 120}
    return Event(**{**fields, **changed})


@st.composite
def events(draw):
    return event(
        producer=draw(st.text(min_size=1, max_size=16)),
        effect=draw(st.binary(max_size=400)),
        kind=draw(st.from_regex(r"[a-z0-9._-]{1,64}", fullmatch=True)),
        parents=tuple(sorted(draw(st.sets(st.binary(min_size=32, max_size=32), max_size=16)))),
        sequence=draw(st.integers(0, 2**64 - 1)),
        schema=draw(st.integers(0, 2**32 - 1)),
        tick=draw(st.integers(0, 2**64 - 1)),
        wall_ns=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
    )


def test_the_worked_example_has_its_bytes_and_ids():
    note = event()
    frame = event(effect=FRAME + ROWS, kind="coord.frame", sequence=1)
    assert note.encode().hex() == (
        "87a161a7666c6565742d31a165c40300ff10a16ba96e6f74652e74657874a17090a17100a17301a17478"
    )
    assert note.id.hex() == "3f4f12e98d9da74286ec67ffd023cfa934a1752e6779ef564af25d8ee1510716"
    assert len(frame.encode()) == 265
    assert frame.id.hex() == "155790425dfd93753f5b887367539dd25fd041286f737ce004e713951f665f75"


@pytest.mark.parametrize(
    ("changed", "kind", "text"),
    [
        ({"producer": ""}, EventError, "Event: producer must be 1..64 bytes of UTF-8, got ''"),
        ({"producer": "é" * 33}, EventError, "Event: producer must be 1..64 bytes of UTF-8, got '" + "é" * 33 + "'"),
        ({"producer": "\ud800"}, EventError, "Event: producer is not Unicode text: surrogates not allowed"),
        ({"producer": b"a"}, TypeError, "Event: producer must be str, got bytes"),
        ({"effect": "x"}, TypeError, "Event: effect must be bytes, got str"),
        ({"effect": bytearray(1)}, TypeError, "Event: effect must be bytes, got bytearray"),
        ({"kind": ""}, EventError, "Event: kind must match [a-z0-9._-]{1,64}, got ''"),
        ({"kind": "a\n"}, EventError, "Event: kind must match [a-z0-9._-]{1,64}, got 'a\\n'"),
        ({"kind": "k" * 65}, EventError, "Event: kind must match [a-z0-9._-]{1,64}, got '" + "k" * 65 + "'"),
        ({"sequence": -1}, EventError, "Event: sequence must be in [0, 2**64), got -1"),
        ({"sequence": 2**64}, EventError, "Event: sequence must be in [0, 2**64), got 18446744073709551616"),
        ({"sequence": True}, TypeError, "Event: sequence must be int, got bool"),
        ({"schema": 2**32}, EventError, "Event: schema must be in [0, 2**32), got 4294967296"),
        ({"tick": 1.0}, TypeError, "Event: tick must be int, got float"),
        (
            {"wall_ns": 2**63},
            EventError,
            "Event: wall_ns must be in [-9223372036854775808, 2**63), got 9223372036854775808",
        ),
        ({"parents": (b"x",)}, EventError, "Event: each parent must have 32 bytes, got 1"),
        ({"parents": ("x" * 32,)}, TypeError, "Event: each parent must be bytes, got str"),
        ({"parents": {bytes(32)}}, TypeError, "Event: parents must be list, got set"),
        ({"parents": (bytes(32), bytes(32))}, EventError, "Event: parents must be strictly ascending"),
        (
            {"parents": tuple(bytes([i]) * 32 for i in range(17))},
            EventError,
            "Event: at most 16 parents, got 17",
        ),
    ],
)
def test_a_field_outside_its_type_or_range_is_named(changed, kind, text):
    with pytest.raises(kind) as caught:
        event(**changed)
    assert str(caught.value) == text


@given(events())
def test_every_event_round_trips_and_is_canonical(value):
    data = value.encode()
    assert Event.decode(data) == value
    assert canonical.pack(canonical.unpack(data)) == data


@given(events(), st.data())
def test_a_changed_byte_gives_another_event_or_an_error_that_the_plain_decoder_gives_too(value, data):
    encoded = bytearray(value.encode())
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    changed = bytes(encoded)
    try:
        decoded = Event.decode(changed)
    except (CanonicalError, EventError):
        return
    assert decoded != value
    assert decoded.encode() == changed
    assert canonical.pack(canonical.unpack(changed)) == changed


def mapped(**changed):
    fields = {"a": "fleet-1", "e": b"", "k": "x", "p": [], "q": 0, "s": 1, "t": 0, **changed}
    return canonical.pack({key: value for key, value in fields.items() if value is not ...})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (canonical.pack([]), "Event: expected a map, got list"),
        (canonical.pack(3), "Event: expected a map, got int"),
        (mapped(t=...), "Event: expected the keys a e k p q s t and perhaps w, got 'a' 'e' 'k' 'p' 'q' 's'"),
        (mapped(z=1), "Event: expected the keys a e k p q s t and perhaps w, got 'a' 'e' 'k' 'p' 'q' 's' 't' 'z'"),
        (
            canonical.pack({"ae": 0, "k": 0, "p": 0, "q": 0, "s": 0, "t": 0, "": 0}),
            "Event: expected the keys a e k p q s t and perhaps w, got '' 'ae' 'k' 'p' 'q' 's' 't'",
        ),
        (mapped(e="x"), "Event: effect must be bytes, got str"),
        (mapped(p=None), "Event: parents must be list, got NoneType"),
        (mapped(p=[b"x"]), "Event: each parent must have 32 bytes, got 1"),
        (mapped(q=-1), "Event: sequence must be in [0, 2**64), got -1"),
        (mapped(w=None), "Event: wall_ns must be int, got NoneType"),
        (mapped(w=2**63), "Event: wall_ns must be in [-9223372036854775808, 2**63), got 9223372036854775808"),
        (mapped(k="A"), "Event: kind must match [a-z0-9._-]{1,64}, got 'A'"),
    ],
)
def test_canonical_bytes_that_are_no_event_are_refused(data, text):
    with pytest.raises(EventError) as caught:
        Event.decode(data)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("data", "offset", "text"),
    [
        (event().encode() + b"\0", 42, "1 bytes follow the value"),
        (event().encode()[:-1], 41, "the data ends where a value is expected"),
        (event().encode().replace(b"\xa1q\x00", b"\xa1q\xcc\x00"), 35, "0 is not in its shortest form"),
        (event().encode().replace(b"\xa1q\x00", b"\xa1p\x00"), 33, "map key 'p' appears twice"),
        (event().encode().replace(b"\xc4\x03", b"\xc5\x00\x03"), 13, "a length of 3 is not in its shortest form"),
        (event().encode().replace(b"fleet-1", b"fleet-\xff"), 10, "invalid UTF-8: invalid start byte"),
        (b"", 0, "the data ends where a value is expected"),
    ],
)
def test_bytes_that_are_not_canonical_are_refused_with_the_offset(data, offset, text):
    with pytest.raises(CanonicalError) as caught:
        Event.decode(data)
    assert str(caught.value) == f"canonical msgpack: byte {offset}: {text}"
    assert caught.value.offset == offset


@pytest.mark.parametrize("size", [0, 255, 256, 65_534, 65_535, 65_536, EVENT_BYTES_MAX - 60])
def test_effects_around_each_header_width_round_trip(size):
    value = event(effect=bytes(size))
    assert Event.decode(value.encode()) == value


def test_an_event_above_the_limit_is_refused_before_it_is_hashed(monkeypatch):
    overhead = len(event(effect=bytes(70_000)).encode()) - 70_000
    largest = event(effect=bytes(EVENT_BYTES_MAX - overhead))
    assert len(largest.encode()) == EVENT_BYTES_MAX
    assert Event.decode(largest.encode()) == largest
    monkeypatch.setattr(hashing, "event_id", pytest.fail)
    with pytest.raises(EventTooLargeError) as caught:
        _ = event(effect=bytes(EVENT_BYTES_MAX - overhead + 1)).id
    assert str(caught.value) == "Event: 16777217 bytes, the limit is 16777216"
    with pytest.raises(EventTooLargeError) as caught:
        _ = event(effect=bytes(EVENT_BYTES_MAX)).id
    assert str(caught.value) == "Event: an effect of 16777216 bytes, the limit is 16777216"
    with pytest.raises(EventTooLargeError) as caught:
        Event.decode(bytes(EVENT_BYTES_MAX + 1))
    assert str(caught.value) == "Event: 16777217 bytes, the limit is 16777216"


def test_events_do_not_change():
    with pytest.raises(FrozenInstanceError):
        event().tick = 5


def test_sixteen_parents_are_the_most():
    parents = tuple(bytes([i]) * 32 for i in range(16))
    value = event(parents=list(parents))
    assert Event.decode(value.encode()).parents == parents
