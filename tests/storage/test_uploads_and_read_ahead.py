"""Objects written and read several at a time: in bounded memory, with the first error told and nothing left behind."""

import threading

import pytest

from storage import IntegrityError, ObjectStoreError
from storage.publication import uploads
from storage.publication.object_store import Found
from storage.publication.read_ahead import ReadAhead
from storage.publication.uploads import Uploads


def test_all_calls_are_done_when_the_block_ends():
    done = []
    with Uploads() as pool:
        for i in range(500):
            pool.add(1000, done.append, i)
    assert sorted(done) == list(range(500))


def add_all(*calls, then=None):
    """Add calls; `then` is started, and an error raised, at the end of the block."""
    with Uploads() as pool:
        for call in calls:
            pool.add(1, *call)
        if then is not None:
            then.start()
            raise KeyError


def test_the_first_error_is_raised_and_no_thread_stays():
    def fail(text):
        raise ObjectStoreError(text)

    before = threading.active_count()
    with pytest.raises(ObjectStoreError, match="no room"):
        add_all([fail, "no room"], *[[len, ()]] * 1000)
    assert threading.active_count() == before


def test_an_error_of_the_block_itself_wins_and_what_waits_is_not_begun():
    gate, begun = threading.Event(), []

    def wait(i):
        begun.append(i)
        gate.wait()

    with pytest.raises(KeyError):
        add_all(*[[wait, i] for i in range(40)], then=threading.Timer(0.05, gate.set))
    assert len(begun) <= uploads.THREADS


def test_no_more_bytes_are_under_way_than_the_limit_but_for_one_that_is_larger_alone(monkeypatch):
    monkeypatch.setattr(uploads, "WAITING_BYTES_MAX", 100)
    under_way = []
    with Uploads() as pool:
        for size in (60, 60, 30, 500, 10, 90, 5, 5):
            pool.add(size, len, ())
            under_way.append(pool._bytes)
    assert under_way == [60, 60, 90, 500, 10, 100, 95, 100]


class Place:
    """A store of one object, which counts how often it is asked."""

    url = "place"

    def __init__(self, answer):
        self.answer = answer
        self.asked = 0

    def get(self, path, bytes_max):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_what_was_wanted_is_read_once_and_then_again_when_asked_again():
    place = Place(Found(b"data", ""))
    ahead = ReadAhead(place)
    ahead.want("a", 10)
    ahead.want("a", 10)
    assert ahead.get("a", 4).data == b"data"
    assert place.asked == 1
    assert ahead.get("a", 4).data == b"data"
    assert place.asked == 2
    ahead.close()


def test_an_object_read_ahead_is_held_against_the_size_that_is_asked_for():
    ahead = ReadAhead(Place(Found(b"data", "")))
    ahead.want("a", 10)
    with pytest.raises(IntegrityError, match=r"^a: expected at most 3 bytes, got 4$"):
        ahead.get("a", 3)
    ahead.close()


def test_an_error_while_reading_ahead_comes_when_the_object_is_asked_for():
    ahead = ReadAhead(Place(ObjectStoreError("gone")))
    ahead.want("a", 10)
    with pytest.raises(ObjectStoreError, match="gone"):
        ahead.get("a", 10)
    ahead.want("a", 10)
    ahead.close()
