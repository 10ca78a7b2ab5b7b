from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coord import (
    AGENT_DTYPE,
    ROW_DTYPE,
    ZONE_DTYPE,
    AgentState,
    Assignment,
    CoordHealth,
    CoordStatus,
    DecisionFrame,
    FrameError,
    PlanConfig,
    decision_frame_total_rows,
    decode_frame_event,
    encode_frame_event,
    plan,
)
from coord.frames.frame import crc32c, rows_digest

u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
sixteen = st.binary(min_size=16, max_size=16)


@pytest.fixture
def worked(page_hex):
    agents = np.frombuffer(page_hex("records", "agents"), AGENT_DTYPE)
    zones = np.frombuffer(page_hex("records", "zones"), ZONE_DTYPE)
    return plan(agents, zones, [], [], PlanConfig(), now_tick=120)


def test_the_worked_example_gives_the_bytes_of_the_page(worked, page_hex):
    frame = worked.frame(0)
    assert worked.input_digest == page_hex("records", "input_digest")
    assert worked.rows.tobytes() == page_hex("decision-frame", "rows")
    assert frame.encode() == page_hex("decision-frame", "frame")
    assert frame.digest() == page_hex("decision-frame", "prev_digest")
    assert worked.health == CoordHealth.STALE
    assert decision_frame_total_rows(frame) == 3


def test_the_worked_example_has_the_scores_of_the_specification(worked):
    scores = {(o.agent, o.zone): o.score.score_i32 for a in (7, 9) for o in worked.explain(a).options}
    assert scores == {(7, 3): 137363, (7, 4): 66388, (9, 3): 137036, (9, 4): 66716}


def test_crc_of_the_check_string():
    assert crc32c(b"123456789") == 0xE3069283


@given(
    st.builds(
        DecisionFrame, frame_id=u64, tick=u64, config_hash=u64, input_digest=sixteen, rows_digest=sixteen,
        prev_digest=sixteen, agents=st.integers(2000, 2**32 - 1), zones=u32, assigned=st.integers(0, 1000),
        rejected=st.integers(0, 1000), conflicts=u32, stale_agents=u32, blocked_zones=u32, unsafe=u32,
        score_sum=st.integers(-(2**63), 2**63 - 1), planner=st.integers(0, 4), health=st.integers(0, 4),
        flags=st.integers(0, 7),
    )
)  # fmt: skip
def test_a_frame_decodes_to_itself(frame):
    assert DecisionFrame.decode(frame.encode()) == frame


def test_every_flipped_bit_of_a_frame_is_refused(page_hex):
    good = page_hex("decision-frame", "frame")
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            DecisionFrame.decode(bytes(bad))


def _resealed(data: bytes, offset: int, value: bytes) -> bytes:
    body = bytearray(data[:124])
    body[offset : offset + len(value)] = value
    return bytes(body) + crc32c(bytes(body)).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"JDF2", "decision frame must start with b'JDF1', got b'JDF2'"),
        (4, b"\x02\x00", "decision frame: version must be 1, got 2"),
        (6, b"\x08\x00", "decision frame 0: flags must have no bit above 2, got 0x8"),
        (88, b"\x03\x00\x00\x00", "decision frame 0: assigned + rejected must be at most agents, got 3 + 1 > 3"),
        (120, b"\x05", "decision frame 0: planner must be from 0 to 4, got 5"),
        (121, b"\x05", "decision frame 0: health must be from 0 to 4, got 5"),
        (122, b"\x01\x00", "decision frame 0: reserved must be 0, got 1"),
    ],
)
def test_a_frame_with_a_good_crc_but_a_bad_field_is_refused(page_hex, offset, value, message):
    with pytest.raises(FrameError) as caught:
        DecisionFrame.decode(_resealed(page_hex("decision-frame", "frame"), offset, value))
    assert str(caught.value) == message


@pytest.mark.parametrize("size", [0, 1, 127, 129, 256])
def test_a_frame_of_another_length_is_refused(size):
    with pytest.raises(FrameError, match=f"^decision frame must be 128 bytes long, got {size}$"):
        DecisionFrame.decode(bytes(size))


def test_a_frame_that_contradicts_itself_is_not_encoded():
    with pytest.raises(
        FrameError, match=r"^decision frame 0: assigned \+ rejected must be at most agents, got 2 \+ 0 > 1$"
    ):
        DecisionFrame(agents=1, assigned=2).encode()
    with pytest.raises(FrameError, match=r"^decision frame: prev_digest must be 16 bytes, got 3$"):
        DecisionFrame(prev_digest=b"abc").encode()
    with pytest.raises(FrameError, match=r"^decision frame: a field does not fit its type"):
        DecisionFrame(tick=2**64).encode()


def test_a_frame_event_gives_back_frame_and_rows(worked):
    frame, rows = decode_frame_event(worked.event(0))
    assert frame == worked.frame(0)
    assert rows.tobytes() == worked.rows.tobytes()


def test_a_claimed_row_count_is_checked_against_the_bytes_present(worked):
    frame = dataclasses.replace(worked.frame(0), agents=2**32 - 1)
    with pytest.raises(FrameError, match=r"^frame event 0: 4294967295 agents need as many rows, got 3$"):
        decode_frame_event(encode_frame_event(frame, worked.rows))
    with pytest.raises(FrameError, match=r"^frame event 0: rows must be a multiple of 32 bytes, got 97$"):
        decode_frame_event(worked.event(0) + b"x")
    with pytest.raises(FrameError, match=r"^frame event must be at least 128 bytes long, got 5$"):
        decode_frame_event(b"short")


@pytest.mark.parametrize(
    ("row", "field", "value", "message"),
    [
        (0, "agent", 10, "frame event 0: agent 9: agent must ascend, got 9"),
        (0, "status", 5, "frame event 0: agent 7: status must be 0 to 9 and not 5, got 5"),
        (0, "status", 12, "frame event 0: agent 7: status must be 0 to 9 and not 5, got 12"),
        (0, "zone", 4, "frame event 0: agent 9: zone 4 is also agent 7's"),
        (2, "zone", 5, "frame event 0: agent 12: zone must be set exactly where status is 0, got 5"),
        (1, "queue_index", 1, "frame event 0: agent 9: queue_index must count up from 0 to at most 7, got 1"),
        (2, "score", 4, "frame event 0: agent 12: score must be 0 without a zone, got 4"),
        (2, "travel", 4, "frame event 0: agent 12: travel must be 0xffffffff without a zone, got 4"),
        (2, "idle", 4, "frame event 0: agent 12: idle must be 0 without a zone, got 4"),
    ],
)
def test_rows_against_the_rules_are_refused_by_agent_and_field(worked, row, field, value, message):
    rows = worked.rows.copy()
    rows[field][row] = value
    frame = dataclasses.replace(worked.frame(0), rows_digest=rows_digest(rows))
    with pytest.raises(FrameError) as caught:
        decode_frame_event(encode_frame_event(frame, rows))
    assert str(caught.value) == message


def test_a_frame_whose_counts_are_not_those_of_its_rows_is_refused(worked):
    for name in ("assigned", "rejected", "conflicts", "stale_agents", "unsafe", "score_sum"):
        frame = worked.frame(0)
        other = dataclasses.replace(frame, **{name: getattr(frame, name) - 1 if getattr(frame, name) else 1})
        with pytest.raises(FrameError, match=f"^frame event 0: {name} must be {getattr(frame, name)} as the rows say"):
            decode_frame_event(encode_frame_event(other, worked.rows))
    rows = worked.rows.copy()
    rows["stale"][0] += 1
    with pytest.raises(FrameError, match=r"^frame event 0: rows_digest must be "):
        decode_frame_event(encode_frame_event(worked.frame(0), rows))


def test_queued_rows_are_not_counted(worked):
    rows = np.insert(worked.rows, 1, worked.rows[0])
    rows["queue_index"][1], rows["zone"][1] = 1, 77
    frame = dataclasses.replace(worked.frame(0), rows_digest=rows_digest(rows))
    decoded, found = decode_frame_event(encode_frame_event(frame, rows))
    assert decoded.agents == 3
    assert len(found) == 4


@given(
    st.builds(
        Assignment, agent=u32, zone=u32, status=st.sampled_from(CoordStatus), mode=st.integers(0, 255), reason=u16,
        score=st.integers(-(2**31), 2**31 - 1), travel=u32, stale=u32, idle=u32, queue_index=st.integers(0, 7),
    )
)  # fmt: skip
def test_a_row_decodes_to_itself(row):
    assert Assignment.decode(row.encode()) == row
    assert len(row.encode()) == ROW_DTYPE.itemsize == 32


def test_frames_chain_by_digest():
    made = plan([AgentState(id=1)], [], [], [], PlanConfig(), now_tick=5)
    first = made.frame(0)
    second = made.frame(1, first.digest())
    assert second.prev_digest == first.digest() != second.digest()
