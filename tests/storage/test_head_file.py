"""The head file: 48 bytes, replaced at once."""

import os

import pytest

from storage import Head, IntegrityError
from storage import head as head_file

HEAD = Head(2, bytes.fromhex("8bbf1cbdf6e6da7820f1d8ccb323a012fbf96ee137918ba1bcb35ac3c87f7885"))


def test_a_head_round_trips_through_its_file(tmp_path):
    path = tmp_path / "HEAD"
    assert head_file.read(path) is None
    head_file.write(path, Head(1, bytes(32)))
    head_file.write(path, HEAD)
    assert head_file.read(path) == HEAD
    assert [file.name for file in tmp_path.iterdir()] == ["HEAD"]


@pytest.mark.parametrize("bit", range(48 * 8))
def test_every_flipped_bit_is_found(bit):
    data = bytearray(head_file.pack(HEAD))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IntegrityError):
        head_file.unpack(bytes(data))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "RUN/HEAD: expected 48 bytes, got 0"),
        (head_file.pack(HEAD)[:-1], "RUN/HEAD: expected 48 bytes, got 47"),
        (head_file.pack(HEAD) + b"\0", "RUN/HEAD: expected 48 bytes, got 49"),
        (b"DWH2" + head_file.pack(HEAD)[4:], "RUN/HEAD: offset 0: magic must be b'DWH1', got b'DWH2'"),
        (
            head_file.pack(HEAD)[:47] + b"\0",
            "RUN/HEAD: offset 4: CRC-32C must be 6af32d96, got ddf402f2",
        ),
    ],
)
def test_a_damaged_head_is_refused_with_offset_and_values(data, text):
    with pytest.raises(IntegrityError) as caught:
        head_file.unpack(data, "RUN/HEAD")
    assert str(caught.value) == text
    assert caught.value.file == "RUN/HEAD"


def test_a_failed_write_leaves_the_old_head_and_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "HEAD"
    head_file.write(path, HEAD)

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        head_file.write(path, Head(3, bytes(32)))
    assert head_file.read(path) == HEAD
    assert [file.name for file in tmp_path.iterdir()] == ["HEAD"]
