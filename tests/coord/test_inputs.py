"""coord.inputs: keys, deltas and parts rebuild the same inputs, and damaged bytes are refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coord.errors import InputsError, TooLargeError
from coord.frames.inputs import HEAD_BYTES, Inputs, apply, differences, encode, is_key
from coord.records import AGENT_DTYPE, KERNEL_DTYPE, OBSTACLE_DTYPE, RING_DTYPE, ZONE_DTYPE, PlanConfig

DTYPES = {"agents": AGENT_DTYPE, "zones": ZONE_DTYPE, "obstacles": OBSTACLE_DTYPE, "kernels": KERNEL_DTYPE}


def _inputs(seed: int, counts: tuple[int, int, int, int], rings: int = 0, grid: bytes = b"") -> Inputs:
    random = np.random.default_rng(seed)
    arrays = {}
    for (name, dtype), count in zip(DTYPES.items(), counts, strict=True):
        raw = random.integers(0, 256, count * dtype.itemsize, np.uint8).tobytes()
        records = np.frombuffer(bytearray(raw), dtype)
        records["id"] = np.sort(random.choice(10_000, count, replace=False))
        arrays[name] = records
    table = np.zeros(rings, RING_DTYPE)
    table["count"] = 3
    table["first"] = 3 * np.arange(rings)
    points = random.random((3 * rings, 2)).astype("<f4")
    config = PlanConfig(k_candidates=seed % 100 + 1).encode()
    return Inputs(**arrays, config=config, rings=table.tobytes() + points.tobytes(), ring_count=rings, grid=grid)


def _same(a: Inputs, b: Inputs) -> bool:
    arrays = all(a.array(name).tobytes() == b.array(name).tobytes() for name in DTYPES)
    return arrays and (a.config, a.rings, a.ring_count, a.grid) == (b.config, b.rings, b.ring_count, b.grid)


counts = st.tuples(*[st.integers(0, 12)] * 4)


@given(st.integers(0, 2**32), counts, st.integers(0, 3), st.binary(max_size=20), st.integers(120, 400))
@settings(deadline=None)
def test_a_key_in_any_number_of_parts_rebuilds_the_inputs(
    seed: int, size: tuple[int, int, int, int], rings: int, grid: bytes, room: int
) -> None:
    now = _inputs(seed, size, rings, grid)
    try:
        parts = encode(now, 7, None, part_bytes_max=room)
    except ValueError:
        assume(False)
    assert all(len(part) <= room for part in parts)
    assert _same(apply(None, parts, tick=7), now)


@given(st.integers(0, 2**32), counts, st.data())
@settings(deadline=None)
def test_a_delta_rebuilds_the_inputs_from_those_before(
    seed: int, size: tuple[int, int, int, int], data: st.DataObject
) -> None:
    before = _inputs(seed, size, 1, b"grid")
    now = before.copy()
    for name, dtype in DTYPES.items():
        records = now.array(name)
        for row in data.draw(st.sets(st.integers(0, max(0, len(records) - 1)), max_size=len(records))):
            field = data.draw(st.sampled_from([n for n in dtype.names or () if n != "id"]))
            records[row][field] = 1
    if data.draw(st.booleans()):
        now.grid = b"other grid"
    if data.draw(st.booleans()):
        now.config = PlanConfig(planner=0).encode()
    state = apply(None, encode(before, 0, None))
    parts = encode(now, 1, before)
    assert _same(apply(state, parts, tick=1), now)
    assert len(parts[0]) <= len(encode(now, 1, None)[0])


def test_a_delta_without_changes_is_only_the_header() -> None:
    now = _inputs(1, (3, 3, 1, 1), 1)
    assert [len(part) for part in encode(now, 5, now.copy())] == [HEAD_BYTES]


def test_a_nan_and_the_sign_of_a_zero_are_changes_like_any_other() -> None:
    before = _inputs(2, (1, 1, 0, 0))
    before.agents["x"], before.zones["x"] = np.nan, 0.0
    assert len(encode(before.copy(), 1, before)[0]) == HEAD_BYTES
    now = before.copy()
    now.zones["x"] = -0.0
    assert [(d[0], d[2]) for d in differences(before, now)] == [("zones", "x")]
    assert len(encode(now, 1, before)[0]) == HEAD_BYTES + 52


def test_keys_come_first_every_64_planned_ticks_and_when_an_id_set_changes() -> None:
    now = _inputs(3, (3, 3, 2, 2))
    assert is_key(None, now, 5)
    assert [index for index in range(1, 200) if is_key(now, now.copy(), index)] == [64, 128, 192]
    for name in DTYPES:
        other = now.copy()
        setattr(other, name, other.array(name)[:-1])
        assert is_key(now, other, 1)
        other = now.copy()
        other.array(name)["id"][-1] += 1
        assert is_key(now, other, 1)


GOOD = encode(_inputs(4, (2, 1, 1, 1), 1, b"g" * 9), 3, None)[0]


@pytest.mark.parametrize(
    ("offset", "value", "text"),
    [
        (0, b"X", "coord.inputs: byte 0: magic: expected JCI1, got b'XCI1'"),
        (4, b"\2", "coord.inputs: byte 4: kind: expected 0 or 1, got 2"),
        (4, b"\1", "coord.inputs: byte 4: kind: expected a key first, got a delta"),
        (5, b"\1", "coord.inputs: byte 5: part: expected below 1, got 1"),
        (6, b"\2", "coord.inputs: byte 6: parts: expected 2, got 1"),
        (6, b"\x11", "coord.inputs: byte 6: parts: expected 1 to 16, got 17"),
        (7, b"\x0f", "coord.inputs: byte 7: flags: expected 0 to 7, got 15"),
        (7, b"\3", "coord.inputs: byte 7: flags: expected 7, got 3"),
        (8, b"\4", "coord.inputs: byte 8: tick: expected 3, got 4"),
        (16, b"\3", "coord.inputs: byte 40: changed agents: expected 3, got 2"),
        (16, b"\1", "coord.inputs: byte 40: changed agents: expected at most 1, got 2"),
        (36, b"\xff\xff\xff\xff", "coord.inputs: byte 372: grid: expected 4294967295 bytes, got 9 bytes"),
        (40, b"\xff\xff\xff\xff", "coord.inputs: byte 40: changed agents: expected at most 2, got 4294967295"),
        (56, b"\1", "coord.inputs: byte 56: agents rows: expected 0, 1, 2, …, got [1, 1]"),
    ],
)
def test_damaged_bytes_are_refused_with_offset_and_field(offset: int, value: bytes, text: str) -> None:
    damaged = GOOD[:offset] + value + GOOD[offset + len(value) :]
    with pytest.raises(InputsError) as error:
        apply(None, [damaged], tick=3)
    assert str(error.value) == text


def test_every_truncation_and_every_extra_byte_is_refused() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(InputsError):
            apply(None, [GOOD[:size]])
    with pytest.raises(InputsError, match=r"end: expected"):
        apply(None, [GOOD + b"\0"])


def test_parts_of_different_ticks_or_out_of_order_are_refused() -> None:
    now = _inputs(5, (8, 8, 0, 0))
    parts = encode(now, 3, None, part_bytes_max=400)
    assert len(parts) > 2
    with pytest.raises(InputsError, match="part: expected 0, got 1"):
        apply(None, [parts[1], parts[0], *parts[2:]])
    with pytest.raises(InputsError, match="header: expected that of part 0, got another in part 1"):
        apply(None, [parts[0], encode(now, 4, None, part_bytes_max=400)[1], *parts[2:]])
    with pytest.raises(InputsError, match=f"parts: expected {len(parts)}, got 1"):
        apply(None, parts[:1])


def test_rows_of_a_delta_must_ascend_below_the_count() -> None:
    before = _inputs(6, (3, 0, 0, 0))
    now = before.copy()
    now.agents["energy"] = 0.5
    part = bytearray(encode(now, 1, before)[0])
    part[HEAD_BYTES] = 2
    with pytest.raises(InputsError, match=re.escape("agents rows: expected ascending, below 3, got [2, 1, 2]")):
        apply(before.copy(), [bytes(part)])


def test_ids_out_of_order_are_refused() -> None:
    now = _inputs(7, (2, 0, 0, 0))
    now.agents["id"] = [5, 5]
    with pytest.raises(InputsError, match="agents ids: expected ascending"):
        apply(None, encode(now, 0, None))


def test_the_documented_sizes_are_those_of_the_encoder() -> None:
    now = Inputs(agents=np.zeros(10_000, AGENT_DTYPE), zones=np.zeros(10_000, ZONE_DTYPE))
    now.agents["id"] = now.zones["id"] = np.arange(10_000)
    key = sum(len(part) for part in encode(now, 0, None))
    moved = now.copy()
    moved.agents["last_seen_tick"] = 1
    delta = sum(len(part) for part in encode(moved, 1, now))
    assert (key, delta) == (1_040_120, 520_056)
    page = (Path(__file__).parents[2] / "docs" / "formats" / "coord-inputs.md").read_text()
    assert f"{key:,} bytes" in page
    assert f"{delta:,} bytes" in page


def test_the_worked_example_of_the_page_is_what_the_encoder_writes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "coord-inputs.md").read_text()
    blocks = re.findall(r"```hex\n(.*?)```", page, re.DOTALL)
    key, delta = (bytes.fromhex(re.sub(r"[^0-9a-f\n ]", "", block)) for block in blocks)
    state = apply(None, [key], tick=0)
    assert state.agents["id"].tolist() == [7]
    after = apply(state.copy(), [delta], tick=1)
    assert encode(state, 0, None) == [key]
    assert encode(after, 1, state) == [delta]
    assert [(d[0], d[1], d[2]) for d in differences(state, after)] == [
        ("agents", 7, "mode"), ("agents", 7, "x"), ("agents", 7, "zone"),
    ]  # fmt: skip


def test_inputs_that_fit_no_event_are_a_limit() -> None:
    from droveway.exits import LIMIT, ending_of

    now = Inputs(agents=np.zeros(40, AGENT_DTYPE))
    now.agents["id"] = np.arange(40)
    for part_bytes_max, text in (
        (60, "a part of 60 bytes holds no record of 52"),
        (170, "at most 16 parts of 170 bytes"),
    ):
        with pytest.raises(TooLargeError, match=text) as caught:
            encode(now, 0, None, part_bytes_max=part_bytes_max)
        assert ending_of(caught.value).code == LIMIT
