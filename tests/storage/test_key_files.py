"""Key files: made once, closed to others, on the disk; what is refused and in which words."""

import os
import stat
from pathlib import Path

import pytest

from storage import KeyFileError, Signer, read_key, write_key

LOG = Signer("droveway.example/ledger", bytes(range(32)))


@pytest.fixture
def umask():
    """umask(mask) for the rest of the test."""
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
def test_a_key_file_has_mode_0600_whatever_the_umask(tmp_path, umask, mask):
    umask(mask)
    write_key(tmp_path / "log.key", LOG)
    umask(0o022)
    assert stat.S_IMODE((tmp_path / "log.key").stat().st_mode) == 0o600
    assert read_key(tmp_path / "log.key") == LOG


def test_a_key_is_never_written_over_nor_through_a_link(tmp_path):
    write_key(tmp_path / "log.key", LOG)
    (tmp_path / "link.key").symlink_to(tmp_path / "elsewhere")
    for name in ("log.key", "link.key"):
        with pytest.raises(KeyFileError) as caught:
            write_key(tmp_path / name, Signer("other.example", bytes(32)))
        assert str(caught.value) == f"{tmp_path / name}: exists already; a key is never written over"
        assert caught.value.hint == "choose another file"
    assert read_key(tmp_path / "log.key") == LOG
    assert not (tmp_path / "elsewhere").exists()


def test_the_file_and_its_folder_are_synced_before_the_key_is_known(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    write_key(tmp_path / "log.key", LOG)
    assert synced == [str(tmp_path / "log.key"), str(tmp_path)]


def test_a_key_that_could_not_be_written_whole_is_not_left(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_key(tmp_path / "log.key", LOG)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777, 0o601])
def test_a_key_that_others_can_touch_is_refused(tmp_path, mode):
    path = tmp_path / "log.key"
    write_key(path, LOG)
    path.chmod(mode)
    with pytest.raises(KeyFileError) as caught:
        read_key(path)
    assert str(caught.value) == f"{path}: expected a key that only its owner can read, got mode {mode:04o}"
    assert caught.value.hint == f"chmod 600 {path}"


def test_a_key_inside_a_run_is_neither_made_nor_read(run, fill):
    fill(run, 1)
    (run / "keys").mkdir()
    for place in (run / "log.key", run / "keys" / "log.key", run / "ledger" / "log.key"):
        with pytest.raises(KeyFileError) as caught:
            write_key(place, LOG)
        assert str(caught.value) == f"{place}: a key never lies inside a run ({run})"
        assert not place.exists()
        place.write_text(LOG.text() + "\n")
        place.chmod(0o600)
        with pytest.raises(KeyFileError, match="a key never lies inside a run"):
            read_key(place)
        place.unlink()


BAD_FILES = {
    "": "key file: expected one line that ends in a newline",
    LOG.text(): "key file: expected one line that ends in a newline",
    LOG.text() + "\n\n": "key file: expected one line that ends in a newline",
    LOG.text() + "\r\n": "key file: expected padded base64",
    str(LOG.verifier) + "\n": "key file: expected a line that begins with PRIVATE+KEY+",
    "PRIVATE+KEY+a\n": "key file: expected NAME+8 hexadecimal digits+BASE64",
    "PRIVATE+KEY+" + "a" * 5000 + "\n": "key file: expected one line that ends in a newline",
    LOG.text().replace("ac2ad056", "ac2ad057") + "\n": (
        "key file: the id of the key of droveway.example/ledger is ac2ad056, the text names ac2ad057"
    ),
    "\xff\n": "key file: expected one line of UTF-8",
}


@pytest.mark.parametrize("content", BAD_FILES)
def test_what_is_no_key_file_is_refused(tmp_path, content):
    path = tmp_path / "log.key"
    path.write_bytes(content.encode("latin-1"))
    path.chmod(0o600)
    with pytest.raises(KeyFileError) as caught:
        read_key(path)
    assert str(caught.value) == f"{path}: {BAD_FILES[content]}"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Exception, match="expected a regular file, got a folder, a pipe or a device"):
        read_key(tmp_path / "pipe")


def test_a_key_that_could_not_be_read_again_is_not_written(tmp_path):
    longest = 4096 - len(LOG.text()) - 1 + len(LOG.name)
    write_key(tmp_path / "longest.key", Signer("n" * longest, bytes(range(32))))
    assert read_key(tmp_path / "longest.key").name == "n" * longest
    with pytest.raises(KeyFileError, match="a key file has at most 4096 bytes, this one would have 4097"):
        write_key(tmp_path / "log.key", Signer("n" * (longest + 1), bytes(range(32))))
    assert not (tmp_path / "log.key").exists()
