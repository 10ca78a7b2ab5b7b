"""Saving an index: whatever stops it, the old file or the new one is there, whole, and nothing else is left behind."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vector import IndexSaveError, file_replacement
from vector.file_replacement import replacing, write_all
from vector.index_file import index_cid, read_index, write_index
from vector.index_header import JVI, JVIM, IndexHeader


def in_child(work: Callable[[], object]) -> int:
    """Runs work() in a fork; the status of its end: 0, 1 for an exception, minus the signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


CALLS = ("open", "write", "ftruncate", "fsync", "rename", "fchmod", "lseek", "close")


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number-th call to the system kills this process; a write writes half of it before."""
    left = [number]

    def guarded(name):
        real = getattr(os, name)

        def call(*arguments, **more):
            left[0] -= 1
            if left[0] < 0:
                if name == "write":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, call)

    for name in CALLS:
        guarded(name)


def test_a_process_killed_at_any_call_leaves_the_old_file_or_the_new_one(rows, tmp_path, monkeypatch):
    path = tmp_path / "a.jvim"
    old, new = rows(100, 70, seed=1), rows(90, 70, seed=2)
    cids = old.save(path), index_cid(new.header, new.sections())
    found = set()
    for number in range(200):

        def work(number=number):
            killed_at(number, monkeypatch)
            new.save(path)

        end = in_child(work)
        cid = read_index(path, JVIM).cid
        assert cid in cids
        found.add((end, cid))
        if end == 0:
            break
        assert end == -signal.SIGKILL
        assert set(names(tmp_path)) <= {"a.jvim", ".a.jvim.saving0"}
        old.save(path)
        assert names(tmp_path) == ["a.jvim"]
    assert number > 15
    assert found == {(-signal.SIGKILL, cids[0]), (-signal.SIGKILL, cids[1]), (0, cids[1])}


@pytest.mark.parametrize("name", ["write", "fsync", "rename", "ftruncate", "lseek"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_call_that_fails_is_a_clear_error_and_leaves_nothing(rows, tmp_path, monkeypatch, name, code):
    path = tmp_path / "a.jvim"
    cid = rows(100, 70).save(path)

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(IndexSaveError) as caught:
            rows(50, 70).save(path)
    assert str(caught.value) == f"{path}: can't be saved: {os.strerror(code)}"
    assert isinstance(caught.value, OSError) and caught.value.errno == code
    assert read_index(path, JVIM).cid == cid
    assert names(tmp_path) == ["a.jvim"]
    rows(50, 70).save(path)
    assert names(tmp_path) == ["a.jvim"]


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(rows, tmp_path):
    path = tmp_path / "a.jvim"
    cid = rows(10, 70).save(path)

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with pytest.raises(IndexSaveError, match=r"a\.jvim: can't be saved: File too large$"):
            rows(10_000, 70).save(path)

    assert in_child(work) == 0
    assert names(tmp_path) == ["a.jvim"]
    assert read_index(path, JVIM).cid == cid


def test_a_folder_that_cannot_be_written_is_a_clear_error(rows, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    rows(10, 70).save(folder / "a.jvim")

    def work():
        if os.getuid() == 0:
            for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
                parent.chmod(0o755)
            os.setgid(65534)
            os.setuid(65534)
        else:
            folder.chmod(0o555)
        with pytest.raises(IndexSaveError, match=r"a\.jvim: can't be saved: Permission denied$"):
            rows(20, 70).save(folder / "a.jvim")

    assert in_child(work) == 0
    folder.chmod(0o755)
    assert names(folder) == ["a.jvim"]


def test_places_where_no_file_can_be_are_clear_errors(rows, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    for path, reason in (
        (tmp_path / "none" / "a.jvim", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "file" / "a.jvim", "Not a directory"),
    ):
        with pytest.raises(IndexSaveError) as caught:
            rows(1, 1).save(path)
        assert str(caught.value) == f"{path}: can't be saved: {reason}"
    assert names(tmp_path) == ["file", "pipe"]


def test_what_killed_writers_left_is_used_or_removed_by_the_next(rows, tmp_path):
    for number in range(3):
        (tmp_path / f".a.jvim.saving{number}").write_bytes(b"x" * 10**6)
    rows(5, 70).save(tmp_path / "a.jvim")
    assert names(tmp_path) == ["a.jvim"]


def test_names_that_cannot_be_used_are_passed_over(rows, tmp_path):
    (tmp_path / "other").write_bytes(b"mine")
    (tmp_path / ".a.jvim.saving0").symlink_to("other")
    (tmp_path / ".a.jvim.saving1").mkdir()
    before = names(tmp_path)
    rows(5, 70).save(tmp_path / "a.jvim")
    assert names(tmp_path) == sorted([*before, "a.jvim"])
    assert (tmp_path / "other").read_bytes() == b"mine"


def test_writers_at_the_same_time_leave_one_of_their_files_whole(rows, tmp_path):
    path = tmp_path / "a.jvim"
    contents = [rows(300 + number, 128, seed=number) for number in range(4)]
    cids = {made.save(path) for made in contents}

    def writer(made):
        for _ in range(25):
            made.save(path)

    children = []
    for made in contents:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                writer(made)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    seen = set()
    for _ in range(100):
        seen.add(read_index(path, JVIM).cid)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen <= cids
    assert names(tmp_path) == ["a.jvim"]


def test_a_second_writer_does_not_touch_what_the_first_is_writing(rows, tmp_path):
    path = tmp_path / "a"
    with replacing(path) as first:
        write_all(first, memoryview(b"first"))
        with replacing(path) as second:
            assert names(tmp_path) == [".a.saving0", ".a.saving1"]
            write_all(second, memoryview(b"second"))
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_a_block_that_raises_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def stopped_by(error):
        with replacing(tmp_path / "a") as descriptor:
            write_all(descriptor, memoryview(b"new"))
            raise error

    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error):
            stopped_by(error)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_sections_of_another_length_are_refused_and_nothing_is_written(rows, tmp_path):
    made = rows(40, 70)
    sections = made.sections()
    for number, pieces, sentence in (
        (2, [bytes(156)], "section scales must have 160 bytes, got 156 or more"),
        (2, [bytes(160), bytes(1)], "section scales must have 160 bytes, got 161 or more"),
        (5, [], "section ids must have 320 bytes, got 0 or more"),
        (7, [b"1"], "section sidecar must have 0 bytes, got 1 or more"),
    ):
        with pytest.raises(ValueError, match=f"^write_index: {sentence}$"):
            write_index(tmp_path / "a", made.header, {**made.sections(), number: pieces})
    assert names(tmp_path) == []
    assert write_index(tmp_path / "a", made.header, sections) == made.save(tmp_path / "b")


def test_pieces_of_any_size_and_kind_give_the_same_bytes(rows, tmp_path):
    made = rows(333, 200)
    cid = made.save(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    for size in (1, 7, 4096, 10**7):
        sections = {}
        for number, pieces in made.sections().items():
            data = b"".join(np.ascontiguousarray(piece).tobytes() for piece in pieces)
            sections[number] = [bytearray(data[at : at + size]) for at in range(0, len(data), size)]
        assert index_cid(made.header, sections) == cid
        if size > 1:
            write_index(tmp_path / "a", made.header, sections)
            assert (tmp_path / "a").read_bytes() == whole


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(rows, tmp_path):
    (tmp_path / "real").mkdir()
    rows(5, 70).save(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to("real/a")
    cid = rows(6, 70).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read_index(tmp_path / "real" / "a", JVIM).cid == cid


def test_permissions_of_the_replaced_file_stay(rows, tmp_path):
    rows(5, 70).save(tmp_path / "a")
    (tmp_path / "a").chmod(0o640)
    rows(6, 70).save(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["a" * 255, "ü" * 127, "a b\n'\"c", "-"])
def test_any_name_that_a_file_can_have_is_good(rows, tmp_path, name):
    cid = rows(5, 70).save(tmp_path / name)
    assert read_index(tmp_path / name, JVIM).cid == cid
    assert names(tmp_path) == [name]


def test_a_file_that_is_open_keeps_its_content_when_it_is_replaced(rows, tmp_path):
    old = rows(5, 70)
    old.save(tmp_path / "a")
    with (tmp_path / "a").open("rb") as reader:
        before = reader.read(100)
        rows(50, 70).save(tmp_path / "a")
        reader.seek(0)
        assert reader.read(100) == before


def test_neither_saving_nor_reading_takes_the_index_twice(rows, tmp_path):
    made = rows(60_000, 256, seed=3)
    total = made.codes.nbytes
    tracemalloc.start()
    made.save(tmp_path / "a")
    assert tracemalloc.get_traced_memory()[1] < total / 4
    tracemalloc.reset_peak()
    content = read_index(tmp_path / "a", JVIM)
    rest = sum(array.nbytes for array in (content.scales, content.scales_high, content.norms2, content.ids))
    assert tracemalloc.get_traced_memory()[1] < total + rest + 4 * 2**20
    tracemalloc.stop()


def test_the_folder_is_synced_after_the_name_has_changed(tmp_path, monkeypatch):
    happened = []
    monkeypatch.setattr(os, "fsync", lambda descriptor, real=os.fsync: (happened.append("fsync"), real(descriptor)))
    monkeypatch.setattr(os, "rename", lambda *names, real=os.rename: (happened.append("rename"), real(*names)))
    write_index(tmp_path / "a", IndexHeader(JVI, 3, 0), {})
    assert happened == ["fsync", "rename", "fsync"]


def test_more_writers_than_there_are_names_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(file_replacement, "_WRITERS_MAX", 1)
    with replacing(tmp_path / "a"), pytest.raises(IndexSaveError) as caught:
        write_index(tmp_path / "a", IndexHeader(JVI, 3, 0), {})
    assert str(caught.value) == f"{tmp_path / 'a'}: can't be saved: 1 other processes are saving it"
