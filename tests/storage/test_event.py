"""Event v1: the worked example of the format, limits, and every way bytes can be no event."""

import pytest

from storage import Event, EventError

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


def test_the_worked_example_has_its_bytes_and_ids():
    note = event()
    frame = event(effect=FRAME + ROWS, kind="coord.frame", sequence=1)
    assert note.encode().hex() == (
        "87a161a7666c6565742d31a165c40300ff10a16ba96e6f74652e74657874a17090a17100a17301a17478"
    )
    assert note.id.hex() == "3f4f12e98d9da74286ec67ffd023cfa934a1752e6779ef564af25d8ee1510716"
    assert len(frame.encode()) == 265
    assert frame.id.hex() == "155790425dfd93753f5b887367539dd25fd041286f737ce004e713951f665f75"


def test_a_field_outside_its_range_is_named():
    with pytest.raises(EventError) as caught:
        event(kind="Upper")
    assert str(caught.value) == "Event: kind must match [a-z0-9._-]{1,64}, got 'Upper'"
