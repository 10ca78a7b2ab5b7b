"""Frames decoded and chained from one buffer: the kernel says what the twin says, and no change goes unseen."""

from __future__ import annotations

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from coord import DecisionFrame, FrameError, FrameFault, backend, check_chain, decode_frames
from coord.frames import frame_chain_ref


def chain(count: int, first: int = 0, prev: bytes = bytes(16)) -> list[bytes]:
    frames = []
    for number in range(first, first + count):
        frame = DecisionFrame(
            frame_id=number, tick=number, prev_digest=prev, agents=9, assigned=4, rejected=5, score_sum=-(number % 1000)
        )
        frames.append(frame.encode())
        prev = blake3(frames[-1]).digest(16)
    return frames


def sealed(frame: bytes) -> bytes:
    return frame[:124] + backend.crc32c(frame[:124]).to_bytes(4, "little")


def changed(frame: bytes, at: int, value: bytes) -> bytes:
    return sealed(frame[:at] + value + frame[at + len(value) :])


@given(st.integers(0, 70), st.integers(0, 2**60))
def test_a_chain_of_any_length_is_decoded_and_whole(count, first):
    prev = bytes(16) if first == 0 else bytes(range(16))
    frames = chain(count, first, prev)
    assert check_chain(b"".join(frames)) is None
    assert check_chain(b"".join(frames), frame_id=first, prev_digest=prev) is None
    found = decode_frames(b"".join(frames))
    assert [bytes(one.tobytes()) for one in found] == frames
    assert found["score_sum"].tolist() == [DecisionFrame.decode(one).score_sum for one in frames]


def test_every_flipped_bit_of_every_frame_is_refused_and_its_frame_named():
    frames = chain(20)
    data = bytearray(b"".join(frames))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        found = check_chain(data)
        assert found is not None
        assert found.at == bit // 1024
        data[bit // 8] ^= 1 << bit % 8
    assert check_chain(data) is None


@given(st.integers(1, 60), st.data())
def test_a_changed_and_resealed_byte_is_found_there_or_in_the_next_frame(count, data):
    frames = chain(count)
    at = data.draw(st.integers(0, count - 1))
    byte = data.draw(st.integers(0, 123))
    flip = data.draw(st.integers(1, 255))
    frames[at] = changed(frames[at], byte, bytes([frames[at][byte] ^ flip]))
    found = check_chain(b"".join(frames))
    if found is None:
        assert at == count - 1  # nobody names the last frame
    else:
        assert found.at in (at, at + 1)


@given(st.integers(3, 50), st.data())
def test_reordered_repeated_and_missing_frames_are_named(count, data):
    frames = chain(count)
    at = data.draw(st.integers(1, count - 2))
    repeated = [*frames[:at], frames[at - 1], *frames[at:]]
    missing = [*frames[:at], *frames[at + 1 :]]
    swapped = [*frames[:at], frames[at + 1], frames[at], *frames[at + 2 :]]
    for damaged, got in ((repeated, at - 1), (missing, at + 1), (swapped, at + 1)):
        assert check_chain(b"".join(damaged)) == FrameFault(at, "frame_id", str(at), str(got))


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (0, b"JDF2", "magic: expected b'JDF1', got b'JDF2'"),
        (4, b"\2", "version: expected 1, got 2"),
        (122, b"\0\1", "reserved: expected 0, got 256"),
        (80, b"\x08", "assigned + rejected: expected at most 8 agents, got 4 + 5"),
        (88, b"\xff\xff\xff\xff", "assigned + rejected: expected at most 9 agents, got 4294967295 + 5"),
        (6, b"\x09", "flags: expected no bit above 2, got 0x9"),
        (120, b"\5", "planner: expected 0 to 4, got 5"),
        (121, b"\5", "health: expected 0 to 4, got 5"),
        (8, b"\7", "frame_id: expected 18, got 7"),
        (64, bytes(16), "prev_digest: expected {}, got " + "00" * 16),
    ],
)
def test_each_rule_has_its_text(at, value, text):
    frames = chain(30)
    told = "frame at index 18: " + text.format(blake3(frames[17]).digest(16).hex())
    frames[18] = changed(frames[18], at, value)
    assert str(check_chain(b"".join(frames))) == told
    if at not in (8, 64):
        with pytest.raises(FrameError) as caught:
            decode_frames(b"".join(frames))
        assert str(caught.value) == told
    else:
        assert len(decode_frames(b"".join(frames))) == 30  # each is good by itself


def test_a_wrong_crc_shows_both():
    frames = chain(2)
    good = int.from_bytes(frames[1][124:], "little")
    bad = frames[1][:124] + (good ^ 1).to_bytes(4, "little")
    assert str(check_chain(frames[0] + bad)) == (f"frame at index 1: crc32c: expected {good:08x}, got {good ^ 1:08x}")


def test_the_first_frame_is_held_against_what_is_known_before_it():
    frames = chain(5, 7, bytes(range(16)))
    data = b"".join(frames)
    assert check_chain(data) is None
    assert check_chain(data, frame_id=8, prev_digest=bytes(range(16))) == FrameFault(0, "frame_id", "8", "7")
    found = check_chain(data, frame_id=7, prev_digest=bytes(16))
    assert found == FrameFault(0, "prev_digest", "00" * 16, bytes(range(16)).hex())
    frame_zero = changed(chain(1)[0], 64, b"\1")
    assert str(check_chain(frame_zero)).startswith("frame at index 0: prev_digest: expected 0000")


def test_frame_ids_go_round_nowhere():
    last = chain(1, 2**64 - 1, bytes(16))[0]
    after = DecisionFrame(frame_id=0, prev_digest=blake3(last).digest(16)).encode()
    # u64 arithmetic says the next number is 0; no run gets there, and both sides agree
    assert check_chain(last + after) is None


@given(st.integers(0, 40), st.integers(0, 9), st.randoms(use_true_random=False))
def test_frames_with_rows_between_are_found_by_their_offsets(count, gap, random):
    frames = chain(count)
    data, offsets = bytearray(), []
    for frame in frames:
        data += random.randbytes(random.randrange(gap + 1))
        offsets.append(len(data))
        data += frame
    assert check_chain(data, offsets=offsets) is None
    assert decode_frames(data, offsets).tobytes() == b"".join(frames)
    if count > 1:
        backwards = check_chain(data, offsets=offsets[::-1])
        assert backwards == FrameFault(1, "frame_id", str(count), str(count - 2))


def test_buffers_and_offsets_that_do_not_fit_are_refused():
    frames = b"".join(chain(2))
    with pytest.raises(ValueError, match=r"^check_chain: buffer must be whole frames of 128 bytes, got 255 bytes$"):
        check_chain(frames[:-1])
    with pytest.raises(ValueError, match=r"^decode_frames: buffer must be whole frames of 128 bytes, got 1 bytes$"):
        decode_frames(b"J")
    text = r"^decode_frames: offsets must leave 128 bytes of the buffer's 256, got 129$"
    with pytest.raises(ValueError, match=text):
        decode_frames(frames, [0, 129])
    with pytest.raises(ValueError, match=r"^check_chain: offsets must leave 128 bytes of the buffer's 256, got -1$"):
        check_chain(frames, offsets=[-1])
    with pytest.raises(ValueError, match=r"^check_chain: offsets must be whole numbers \[n\], got float64\[1\]$"):
        check_chain(frames, offsets=[0.5])
    with pytest.raises(ValueError, match=r"^check_chain: prev_digest must be 16 bytes, got 3$"):
        check_chain(frames, frame_id=0, prev_digest=b"abc")
    with pytest.raises(ValueError, match=r"^check_chain: expected frame_id and prev_digest, or neither of them$"):
        check_chain(frames, frame_id=0)


def test_decoded_frames_are_a_view_of_the_buffer():
    data = bytearray(b"".join(chain(3)))
    found = decode_frames(data)
    data[16] = 77
    assert int(found["tick"][0]) == 77
    assert not decode_frames(bytes(data[128:])).flags.writeable


@given(st.binary(max_size=600), st.booleans())
def test_the_kernel_and_the_twin_find_the_same_in_any_bytes(noise, chained):
    frames = b"".join(chain(6))
    data = np.frombuffer(frames + noise[: len(noise) // 128 * 128] + frames, np.uint8).copy()
    for at, value in enumerate(noise[:3]):
        data[(at * 311 + value) % len(data)] ^= value
    ours, theirs = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    found = backend.check_frames(data, None, chained, True, 0, ours)
    assert found == frame_chain_ref.check_frames(data, None, chained, True, 0, theirs)
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.skipif(backend.REFERENCE, reason="DROVEWAY_ISA=ref has no kernels")
def test_the_binding_refuses_what_its_kernel_could_not_read():
    from coord import _kernels

    data, prev = np.zeros(256, np.uint8), np.zeros(16, np.uint8)
    rest = (False, False, 0)
    with pytest.raises(ValueError, match=r"^check_frames: data must be whole frames of 128 bytes$"):
        _kernels.check_frames(data[:200].copy(), None, *rest, prev)
    with pytest.raises(ValueError, match=r"^check_frames: offsets must stay within data$"):
        _kernels.check_frames(data, np.array([129], np.uint64), *rest, prev)
    with pytest.raises(TypeError, match=r"^check_frames: offsets must be None or uint64\[n\]$"):
        _kernels.check_frames(data, np.array([1], np.int32), *rest, prev)
    with pytest.raises(ValueError, match=r"^check_frames: prev must be 16 bytes$"):
        _kernels.check_frames(data, None, *rest, prev[:8])
    with pytest.raises(ValueError, match=r"^an output must not share memory with an input$"):
        _kernels.check_frames(data, None, *rest, data[:16])
