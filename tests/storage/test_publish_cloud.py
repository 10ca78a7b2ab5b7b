"""Publishing to an S3-compatible store and reading from a web server: the same promises as on a folder.

moto's server plays S3 (extra bench); a plain web server of the standard library serves what a folder holds.
"""

import http.server
import threading

import pytest

from storage import (
    IntegrityError,
    Ledger,
    MissingExtraError,
    NotALedgerError,
    ObjectStoreError,
    PublishConflict,
    Signer,
    open_published,
    verify_published,
)
from storage.publication import tiles
from storage.publication.object_store import Found
from storage.publication.places import folder_of, is_url, open_store

SIGNER = Signer("log.example", bytes(range(32)))
KEY = SIGNER.verifier


@pytest.fixture(scope="module")
def endpoint():
    """The URL of moto's server, and a function that makes a bucket."""
    pytest.importorskip("moto", reason="the server of moto comes with the extra bench")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=url, **keys)
    yield url, client
    server.stop()


@pytest.fixture
def bucket(endpoint, monkeypatch):
    """The URL of a new bucket, the environment set as a user would, and the client of boto3."""
    url, client = endpoint
    name = f"bucket-{len(client.list_buckets()['Buckets'])}"
    client.create_bucket(Bucket=name)
    for key, value in {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(key, value)
    return f"s3://{name}", client, name


@pytest.fixture
def ledger(run, make_event):
    """An open ledger of 600 events, one of which is published as a blob."""
    with Ledger.open(run, sync="os") as ledger:
        ledger.append_many([make_event(i, effect=bytes(70_000) if i == 5 else None) for i in range(600)])
        yield ledger


def objects(client, name):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=name)
    return {each["Key"]: each for page in pages for each in page.get("Contents", ())}


@pytest.mark.oracle
def test_a_bucket_holds_the_same_objects_as_a_folder_and_reads_back_the_same(ledger, bucket, tmp_path):
    url, client, name = bucket
    report = ledger.publish(f"{url}/runs/a", SIGNER)
    ledger.publish(str(tmp_path / "web"), SIGNER)
    there = {key.removeprefix("runs/a/") for key in objects(client, name)}
    web = tmp_path / "web"
    here = {path.relative_to(web).as_posix() for path in web.rglob("*") if path.is_file()} - {".publishing/lock"}
    assert there == here
    assert report.objects_written == len(here)
    for path in here:
        body = client.get_object(Bucket=name, Key=f"runs/a/{path}")["Body"].read()
        assert body == (web / path).read_bytes(), path
    with open_published(f"{url}/runs/a", KEY) as published:
        assert list(published.scan()) == list(ledger.scan())
    assert verify_published(f"{url}/runs/a", keys=(KEY,), expect=ledger.head()).problems == []


@pytest.mark.oracle
def test_objects_say_how_long_they_may_be_cached(ledger, bucket):
    url, client, name = bucket
    ledger.publish(url, SIGNER)
    ledger.retire([9])
    ledger.publish(url, SIGNER)
    kept = {path: client.head_object(Bucket=name, Key=path)["CacheControl"] for path in objects(client, name)}
    assert kept.pop("checkpoint") == kept.pop("retired") == "no-cache"
    for path, cache in kept.items():
        wanted = "public, max-age=31536000, immutable" if path.startswith("tile/") else "public, max-age=3600"
        assert cache == wanted, path


@pytest.mark.oracle
def test_growing_writes_what_is_new_and_collects_partial_tiles(ledger, bucket, make_event):
    url, client, name = bucket
    ledger.publish(url, SIGNER)
    ledger.append_many([make_event(i) for i in range(600, 1000)])
    report = ledger.publish(url, SIGNER)
    assert (report.size_before, report.objects_deleted) == (600, 3)
    partial = {path for path in objects(client, name) if ".p/" in path}
    assert partial == {
        "tile/0/003.p/232",
        "tile/1/000.p/2",
        "tile/1/000.p/3",
        "tile/entries/003.p/232",
        "payload/003.p/232",
    }
    assert verify_published(url, keys=(KEY,)).ok


@pytest.mark.oracle
def test_retired_events_leave_the_bucket(ledger, bucket):
    url, client, name = bucket
    blob = tiles.blob_path(ledger.at(5).id)
    ledger.publish(url, SIGNER)
    assert blob in objects(client, name)
    ledger.retire([5, 6, 599])
    assert ledger.publish(url, SIGNER).ranks_retired == [(5, 6), (599, 599)]
    assert blob not in objects(client, name)
    report = verify_published(url, keys=(KEY,))
    assert (report.problems, report.retired) == ([], [(5, 6), (599, 599)])


@pytest.mark.oracle
def test_conditional_writes_are_the_stores_own(bucket):
    url, client, name = bucket
    store = open_store(url, writable=True)
    assert store.put_new("tile/0/000", b"one") is True
    assert store.put_new("tile/0/000", b"two") is False
    found = store.get("tile/0/000", 3)
    assert found == Found(b"one", client.head_object(Bucket=name, Key="tile/0/000")["ETag"])
    store.replace("tile/0/000", b"three", found.etag)
    for etag in (found.etag, None, '"other"'):
        with pytest.raises(PublishConflict) as caught:
            store.replace("tile/0/000", b"four", etag)
        assert str(caught.value) == f"{url}: tile/0/000: another publication has replaced it meanwhile"
    assert store.get("tile/0/000", 5).data == b"three"
    with pytest.raises(IntegrityError, match="tile/0/000: expected at most 4 bytes, got 5"):
        store.get("tile/0/000", 4)
    assert store.get("tile/0/001", 4) is None
    store.put_new("tile/0/000.p/7", b"")
    assert sorted(store.list("tile/0")) == ["tile/0/000", "tile/0/000.p/7"]
    assert list(store.folders("tile/0")) == ["000.p"]
    assert list(store.list("nothing")) == list(store.folders("nothing")) == []
    store.delete("tile/0/000")
    store.delete("tile/0/000")
    assert store.get("tile/0/000", 9) is None


@pytest.mark.oracle
def test_of_two_publishers_to_a_bucket_one_wins(ledger, bucket, make_event):
    from storage.publication.cloud_store import CloudStore
    from storage.publication.publish import publish_to

    url, _, _ = bucket
    ledger.publish(url, SIGNER)
    ledger.append_many([make_event(i) for i in range(600, 700)])

    class Raced(CloudStore):
        def flush(self):
            ledger.append_many([make_event(i) for i in range(700, 710)])
            ledger.publish(url, SIGNER)

    with pytest.raises(PublishConflict):
        publish_to(ledger, Raced(url), SIGNER)
    report = verify_published(url, keys=(KEY,))
    assert (report.problems, report.size) == ([], 710)


@pytest.mark.oracle
def test_every_object_of_a_bucket_that_is_flipped_is_named(ledger, bucket):
    url, client, name = bucket
    ledger.publish(url, SIGNER)
    for path in objects(client, name):
        data = client.get_object(Bucket=name, Key=path)["Body"].read()
        client.put_object(Bucket=name, Key=path, Body=data[:40] + bytes([data[40] ^ 8]) + data[41:])
        report = verify_published(url, keys=(KEY,))
        assert path in {problem.where for problem in report.problems}, path
        client.put_object(Bucket=name, Key=path, Body=data)
    assert verify_published(url, keys=(KEY,)).ok


@pytest.mark.oracle
def test_a_bucket_that_is_not_there_is_not_reached_and_an_empty_prefix_holds_nothing(ledger, bucket):
    url, _, _ = bucket
    with pytest.raises(NotALedgerError, match="no ledger is published there"):
        open_published(f"{url}/nothing")
    with pytest.raises(ObjectStoreError, match=r"NoSuchBucket|not found"):
        ledger.publish("s3://no-such-bucket-at-all/x", SIGNER)


@pytest.fixture
def web(tmp_path):
    """(folder, URL, paths asked for): a folder that a plain web server serves, without ETags."""
    asked = []
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=str(folder), **options)

        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_a_folder_holds_is_read_through_any_web_server(ledger, web):
    folder, url, _ = web
    ledger.publish(str(folder), SIGNER)
    for place in (url, f"{url}/"):
        with open_published(place, KEY) as published:
            assert list(published.scan()) == list(ledger.scan())
    assert verify_published(url, keys=(KEY,), expect=ledger.head()).problems == []
    (folder / "payload/001").unlink()
    report = verify_published(url, keys=(KEY,))
    assert report.damaged_ranks == list(range(256, 512))
    assert {problem.where for problem in report.problems} == {"payload/001"}


def test_each_object_is_asked_for_once_and_read_ahead_of_its_turn(ledger, web, make_event):
    folder, url, asked = web
    ledger.append_many([make_event(i) for i in range(600, 3000)])
    ledger.publish(str(folder), SIGNER)
    objects = {
        f"/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }
    with open_published(url, KEY) as published:
        events = published.scan()
        first = [next(events)]
        assert {"tile/0/001", "tile/entries/001", "payload/001"} <= published._ahead._wanted.keys()
        assert first + list(events) == list(ledger.scan())
    assert sorted(asked) == sorted(objects)
    asked.clear()
    assert verify_published(url, keys=(KEY,)).ok
    assert sorted(asked) == sorted([*objects, "/retired"])


def test_reading_out_of_turn_after_reading_ahead_gives_the_same_events(ledger, web):
    folder, url, _ = web
    ledger.publish(str(folder), SIGNER)
    with open_published(url, KEY) as published:
        events = published.scan()
        next(events)
        assert published.at(599) == ledger.at(599)
        assert list(published.scan(300, 520)) == list(ledger.scan(300, 520))
        assert [event for _, event in events] == [event for _, event in ledger.scan(1)]


def test_a_web_server_without_a_ledger_and_none_at_all_are_told_apart(web, ledger):
    _, url, _ = web
    with pytest.raises(NotALedgerError) as caught:
        verify_published(url)
    assert str(caught.value) == f"{url}: no ledger is published there (expected checkpoint)"
    with pytest.raises(ObjectStoreError, match=r"^http://127\.0\.0\.1:1: checkpoint: Generic HTTP error"):
        verify_published("http://127.0.0.1:1")
    with pytest.raises(ObjectStoreError) as refused:
        ledger.publish(url, SIGNER)
    assert str(refused.value) == (
        f"{url}: a web server is read only: publish to the folder that it serves, or to s3://"
    )


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(ObjectStoreError, match=r'^foo://x: Generic URL error: Unable to recognise URL "foo://x"$'):
        open_published("foo://x")


def test_without_obstore_the_error_says_how_to_get_it(python):
    done = python(
        "import sys; sys.modules['obstore'] = None\n"
        "from storage import open_published\n"
        "try: open_published('s3://bucket/run')\n"
        "except Exception as error: print(type(error).__name__, error, '|', error.hint)"
    )
    assert done.stdout == (
        "MissingExtraError s3://bucket/run: s3 needs the package obstore | pip install 'droveway[cloud]'\n"
    )
    assert issubclass(MissingExtraError, Exception)


def test_paths_and_file_urls_are_folders(tmp_path):
    assert [is_url(text) for text in ("s3://b/p", "runs/a", "a:b", "C:/x", "x ://y", "://")] == [True] + [False] * 5
    assert folder_of("file:///a%20b/c").as_posix() == "/a b/c"
    assert folder_of("a b").as_posix() == "a b"
    assert folder_of("s3://b") is None
    with pytest.raises(NotALedgerError, match="expected file:///FOLDER, got the host 'host'"):
        folder_of("file://host/a")
